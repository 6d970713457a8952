//! Requests that programs make beside the conversation: for its title, tags, further questions and searches. They must not
//! begin a conversation or start a machine.

use axum::http::HeaderMap;
use serde_json::{Value, json};

use crate::messages::{Message, MessageRole};

/// Names the task of a request, and overrules what its messages look like.
const TASK_HEADER: &str = "x-causerie-task";
/// The words of that header for a request that is part of the conversation.
const NO_TASK: [&str; 4] = ["", "none", "chat", "default"];
/// The marks of prompts of Open WebUI. Its prompt with found documents has the first alone.
const PROMPT_MARKS: [&str; 2] = ["### Task:", "<chat_history>"];
/// The maximum of output tokens of a request for a title, and the words of its prompt.
const SHORT_TITLE_TOKENS: u64 = 16;
const SHORT_TITLE_PROMPT: &str = "title for the chat";
/// The maximum number of words of a title.
const TITLE_WORDS: usize = 6;
/// The longest title, in characters.
const TITLE_CHARS: usize = 60;

/// The text that a side request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SideTask {
    Title,
    Tags,
    FollowUps,
    Queries,
    Other,
}

/// The parts of a request that tell what it asks for.
#[derive(Debug, Default)]
pub(crate) struct SideFacts<'a> {
    pub(crate) is_streamed: bool,
    pub(crate) output_max_tokens: Option<u64>,
    /// The schema of the output.
    pub(crate) schema: Option<&'a Value>,
    /// The parameters of the tools of which the model must call one.
    pub(crate) forced: Vec<&'a Value>,
}

/// Returns the task of a side request; `None` for a question of the conversation.
pub(crate) fn find_side_task(
    headers: &HeaderMap,
    facts: &SideFacts<'_>,
    messages: &[Message],
) -> Option<SideTask> {
    let named = headers.get(TASK_HEADER).and_then(|task| task.to_str().ok()).map(str::trim);
    // A template that the program has not filled in says nothing.
    if let Some(task) = named.filter(|task| !task.contains("{{")) {
        return (!NO_TASK.contains(&task)).then(|| task_of(task));
    }
    let mut spoken = messages.iter().filter(|message| message.role != MessageRole::System);
    let only = spoken.next().filter(|only| only.role == MessageRole::User && spoken.next().is_none())?;
    if !only.files.is_empty() {
        return None;
    }
    let has_marks = PROMPT_MARKS.iter().all(|mark| only.text.contains(mark));
    let names_title =
        || messages.iter().any(|message| message.text.to_lowercase().contains(SHORT_TITLE_PROMPT));
    let is_short_title = facts.output_max_tokens == Some(SHORT_TITLE_TOKENS) && names_title();
    let asks_for_title = facts.schema.iter().chain(&facts.forced).any(|schema| is_title(schema));
    let is_structured = !facts.is_streamed && asks_for_title;
    let is_side = !facts.is_streamed && has_marks || is_short_title || is_structured;
    is_side.then(|| if is_structured || is_short_title { SideTask::Title } else { task_of(&only.text) })
}

/// Returns true if a schema has a title and nothing else but its language.
fn is_title(schema: &Value) -> bool {
    let fields = schema["properties"].as_object();
    fields.is_some_and(|fields| {
        fields.contains_key("title") && fields.keys().all(|field| field == "title" || field == "language")
    })
}

fn task_of(text: &str) -> SideTask {
    let text = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["follow_up", "follow-up"]) {
        SideTask::FollowUps
    } else if has(&["tags"]) {
        SideTask::Tags
    } else if has(&["queries", "query_generation"]) {
        SideTask::Queries
    } else if has(&["title"]) {
        SideTask::Title
    } else {
        SideTask::Other
    }
}

/// Returns what the built-in reader replies, which writes no texts of its own: the first words of the question as the
/// title, and empty lists.
pub(crate) fn reader_reply(task: SideTask, messages: &[Message]) -> String {
    let prompt = messages.last().map(|message| message.text.as_str()).unwrap_or_default();
    match task {
        SideTask::Title if prompt.contains("\"title\"") => json!({"title": first_words(prompt)}).to_string(),
        SideTask::Title => first_words(prompt),
        SideTask::Tags => json!({"tags": []}).to_string(),
        SideTask::FollowUps => json!({"follow_ups": []}).to_string(),
        SideTask::Queries => json!({"queries": []}).to_string(),
        SideTask::Other => String::new(),
    }
}

/// Returns the first words of the conversation in a prompt.
pub(crate) fn first_words(prompt: &str) -> String {
    let history = prompt.split_once("<chat_history>").map_or(prompt, |(_, history)| history);
    let line = history.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = ["USER:", "User:", "user:"].iter().find_map(|role| line.strip_prefix(role)).unwrap_or(line);
    let words = line.split_whitespace().take(TITLE_WORDS).collect::<Vec<_>>().join(" ");
    words.chars().take(TITLE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::chat_request::ChatRequest;

    const TITLE_PROMPT: &str = "### Task:\nGenerate a concise title.\n### Output:\nJSON: { \"title\": \"…\" }\n\
        <chat_history>\nUSER: When is the rent of this flat due, please?\nASSISTANT: On the 5th.\n</chat_history>";

    fn find(headers: &HeaderMap, body: &str) -> Option<SideTask> {
        let mut request = ChatRequest::parse(body).expect("a request");
        let messages = request.take_messages().expect("messages");
        find_side_task(headers, &request.side_facts(), &messages)
    }

    fn body_of(prompt: &str, more: &str) -> String {
        format!("{{\"messages\": [{{\"role\": \"user\", \"content\": {}}}]{more}}}", json!(prompt))
    }

    #[test]
    fn prompts_of_programs_are_recognized() {
        let none = HeaderMap::new();
        assert_eq!(find(&none, &body_of(TITLE_PROMPT, "")), Some(SideTask::Title));
        assert_eq!(find(&none, &body_of(TITLE_PROMPT, ", \"stream\": true")), None);
        assert_eq!(find(&none, &body_of("### Task:\nAnswer with <context>", "")), None, "found documents");
        let follow_ups = TITLE_PROMPT.replace("concise title", "list of follow_ups");
        assert_eq!(find(&none, &body_of(&follow_ups, "")), Some(SideTask::FollowUps));
        let short = "Reply with a title for the chat, in 3 words.";
        assert_eq!(find(&none, &body_of(short, ", \"max_tokens\": 16")), Some(SideTask::Title));
        assert_eq!(find(&none, &body_of(short, "")), None);
        let schema = r#", "response_format": {"type": "json_schema", "json_schema":
            {"name": "t", "schema": {"type": "object", "properties": {"title": {}}}}}"#;
        assert_eq!(find(&none, &body_of("Name it.", schema)), Some(SideTask::Title));
        let contract = schema.replace("\"title\": {}", "\"title\": {}, \"parties\": {}");
        assert_eq!(find(&none, &body_of("Read it.", &contract)), None, "the title of a document");
        let forced = r#", "tool_choice": {"type": "function", "function": {"name": "t"}}, "tools": [{"type": "function",
            "function": {"name": "t", "parameters": {"type": "object", "properties": {"title": {}}}}}]"#;
        assert_eq!(find(&none, &body_of("Name it.", forced)), Some(SideTask::Title));
    }

    #[test]
    fn task_header_overrules_messages() {
        let of = |task: &'static str, prompt: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TASK_HEADER, HeaderValue::from_static(task));
            find(&headers, &body_of(prompt, ""))
        };
        assert_eq!(of("tags_generation", "Hello"), Some(SideTask::Tags));
        assert_eq!(of("none", TITLE_PROMPT), None);
        assert_eq!(of("", TITLE_PROMPT), None);
        assert_eq!(of("{{TASK}}", TITLE_PROMPT), Some(SideTask::Title));
    }

    #[test]
    fn reader_takes_first_words() {
        let message = |text: &str| vec![Message { text: text.to_owned(), ..Message::default() }];
        assert_eq!(
            reader_reply(SideTask::Title, &message(TITLE_PROMPT)),
            r#"{"title":"When is the rent of this"}"#
        );
        assert_eq!(reader_reply(SideTask::Title, &message("Rent")), "Rent");
        assert_eq!(reader_reply(SideTask::Tags, &message(TITLE_PROMPT)), r#"{"tags":[]}"#);
    }
}
