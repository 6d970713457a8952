//! Answers as tools return them.

use domain::answer::{Answer, AnswerEnding, PartContent, RunState};
use domain::citation::{PassagePlace, Renumbered, renumber_marks};
use domain::step::Purpose;
use live::{LiveAnswer, PartKind, Snapshot, SnapshotCitation};
use serde_json::{Map, Value, json};

use crate::output::ToolOutput;

/// The longest text of an answer in a result, in bytes. Clients limit a message to a megabyte.
const TEXT_MAX_BYTES: usize = 128 << 10;
/// The most sources of an answer in a result.
const SOURCES_MAX: usize = 200;
/// The longest description of an answer's progress, in characters.
const PROGRESS_MAX_CHARS: usize = 120;

/// Returns an answer in its present state, as the result of a tool.
pub(crate) fn answer_output(live: &LiveAnswer) -> ToolOutput {
    let snapshot = live.snapshot();
    let has_ended = snapshot.ending.is_some();
    let numbered = if has_ended { numbered_citations(&snapshot) } else { Vec::new() };
    let marked = live.marked_text();
    let text = renumber_marks(&marked, |number| {
        match numbered.iter().position(|citation| citation.number == number) {
            Some(at) => Renumbered::To(u32::try_from(at + 1).unwrap_or(number)),
            None => Renumbered::Unknown,
        }
    });
    let mut value = json!({
        "status": status_word(snapshot.ending.as_ref()),
        "answer_id": snapshot.meta.answer.to_string(),
        "conversation_id": snapshot.meta.conversation.to_string(),
        "answer": &text[..text.floor_char_boundary(TEXT_MAX_BYTES)],
        "sources": numbered.iter().enumerate().map(|(at, cited)| source_value(at + 1, cited)).collect::<Vec<_>>(),
    });
    if text.len() > TEXT_MAX_BYTES {
        value["is_cut"] = true.into();
    }
    let mut links: Vec<String> = Vec::new();
    for citation in &numbered {
        if let PassagePlace::File { path, .. } = &citation.place
            && !links.contains(path)
        {
            links.push(path.clone());
        }
    }
    match &snapshot.ending {
        Some(AnswerEnding::Failed(failure)) => {
            value["error"] = json!({ "code": failure.code.as_str(), "message": failure.message });
            let message = format!("{}: {}", failure.code.as_str(), failure.message);
            ToolOutput::new(value).with_error(message).with_links(links)
        }
        Some(AnswerEnding::Done | AnswerEnding::Stopped) => ToolOutput::new(value).with_links(links),
        None => {
            let next = "The answer is not complete. Call `wait` with this answer_id.";
            value["next"] = next.into();
            ToolOutput::new(value)
        }
    }
}

/// Returns the JSON Schema of [`answer_output`].
pub(crate) fn answer_schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "properties": {
            "status": {
                "type": "string",
                "enum": ["in_progress", "completed", "stopped", "failed"],
                "description": "`in_progress` until the answer is complete: call `wait` then.",
            },
            "answer_id": text("The answer, for `wait` and `stop`."),
            "conversation_id": text("The conversation, for a further question."),
            "answer": text("The text so far: Markdown with marks like [1] for its sources."),
            "is_cut": { "type": "boolean", "description": "True if the text is longer than is shown." },
            "sources": { "type": "array", "items": source_schema() },
            "error": {
                "type": "object",
                "properties": { "code": { "type": "string" }, "message": { "type": "string" } },
                "required": ["code", "message"],
            },
            "next": text("What to do next."),
        },
        "required": ["status", "answer_id", "conversation_id", "answer", "sources"],
    })
}

fn source_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "number": { "type": "integer", "description": "The number in the marks of the text." },
            "title": { "type": "string" },
            "path": { "type": "string", "description": "The file in the workspace." },
            "page": { "type": "integer" },
            "first_line": { "type": "integer" },
            "last_line": { "type": "integer" },
            "url": { "type": "string", "description": "The page of the web." },
            "verified": {
                "type": "boolean",
                "description": "True if the passage supports each sentence that cites it.",
            },
        },
        "required": ["number", "title"],
    })
}

pub(crate) const fn status_word(ending: Option<&AnswerEnding>) -> &'static str {
    match ending {
        None => "in_progress",
        Some(AnswerEnding::Done) => "completed",
        Some(AnswerEnding::Stopped) => "stopped",
        Some(AnswerEnding::Failed(_)) => "failed",
    }
}

/// Returns the citations of the answer's texts, each source once, in the order in which they are mentioned.
fn numbered_citations(snapshot: &Snapshot) -> Vec<&SnapshotCitation> {
    let mut numbered: Vec<&SnapshotCitation> = Vec::new();
    for part in &snapshot.parts {
        let PartKind::Text { citations, .. } = &part.shape else { continue };
        for citation in citations {
            if numbered.len() < SOURCES_MAX && !numbered.iter().any(|known| known.number == citation.number) {
                numbered.push(citation);
            }
        }
    }
    numbered
}

fn source_value(number: usize, citation: &SnapshotCitation) -> Value {
    let mut source = Map::new();
    source.insert("number".to_owned(), number.into());
    match &citation.place {
        PassagePlace::File { path, page, lines, .. } => {
            source.insert("title".to_owned(), citation.place.to_string().into());
            source.insert("path".to_owned(), path.as_str().into());
            let (first, last) = lines.unzip();
            for (name, value) in [("page", *page), ("first_line", first), ("last_line", last)] {
                if let Some(value) = value {
                    source.insert(name.to_owned(), value.into());
                }
            }
        }
        PassagePlace::Web { url, title } => {
            source.insert("title".to_owned(), title.as_str().into());
            source.insert("url".to_owned(), url.as_str().into());
        }
    }
    if let Some(verified) = citation.verified {
        source.insert("verified".to_owned(), verified.into());
    }
    Value::Object(source)
}

/// Describes what an answer is doing, for people.
pub(crate) fn progress_line(answer: &Answer) -> String {
    let Some(last) = answer.parts.last() else { return "Waiting for the model".to_owned() };
    let line = match &last.body {
        PartContent::Text(text) => format!("Writing, {} characters", text.chars().count()),
        PartContent::Reasoning(_) => "Thinking".to_owned(),
        PartContent::File { path } => format!("File: {path}"),
        PartContent::Run(run) => {
            let call = match &run.purpose {
                Purpose::Tool => format!("Tool: {}", run.tool),
                Purpose::WebSearch { query } => format!("Web search: {query}"),
                Purpose::Skill(skill) => format!("Skill: {}", skill.full_name),
                Purpose::Agent(agent) => format!("Agent: {}", agent.full_name),
            };
            match run.state {
                RunState::Pending => call,
                RunState::Complete => format!("{call}: done"),
                RunState::Error => format!("{call}: failed"),
            }
        }
    };
    line.replace(['\n', '\r'], " ").chars().take(PROGRESS_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use domain::answer::{AnswerChange, RevisionStamp};
    use domain::id::{AccountId, ConversationId, MessageId};
    use domain::time::Timestamp;
    use live::Meta;

    use super::*;
    use crate::era::Era;

    fn live_answer(changes: Vec<AnswerChange>) -> LiveAnswer {
        let meta = Meta {
            answer: MessageId::from_random(1),
            account: AccountId::from_random(2),
            conversation: ConversationId::from_random(3),
            created_at: Timestamp::from_micros(0),
            model: "reader".to_owned(),
        };
        let live = LiveAnswer::new(meta, Answer::new(MessageId::from_random(1), &[]));
        for (revision, change) in (1..).zip(changes) {
            live.fold_change(RevisionStamp { epoch: 1, revision }, change);
        }
        live
    }

    fn cite_page(number: u32, at: usize) -> AnswerChange {
        let (url, title) = (format!("https://example.org/{number}"), "Rent".to_owned());
        AnswerChange::Cited { block: 0, at, number, place: PassagePlace::Web { url, title } }
    }

    #[test]
    fn sources_are_numbered_by_mention() {
        let text = AnswerChange::TextGrew { block: 0, text: "Due on the fifth. Always.".to_owned() };
        let live = live_answer(vec![
            AnswerChange::StepBegan { number: 1 },
            text,
            cite_page(7, 16),
            AnswerChange::Ended(AnswerEnding::Done),
        ]);
        let result = answer_output(&live).into_result(Era::Stateless { has_tasks: false });
        let value = &result["structuredContent"];
        assert_eq!(value["status"], "completed");
        assert!(value["answer"].as_str().is_some_and(|text| text.contains("[1]")), "{value}");
        assert_eq!(value["sources"][0]["number"], 1);
        assert_eq!(value["sources"][0]["url"], "https://example.org/7");
        let schema = answer_schema();
        for name in value.as_object().expect("an object").keys() {
            assert!(schema["properties"].get(name).is_some(), "{name} is in the schema");
        }
    }

    #[test]
    fn unfinished_answer_says_what_next() {
        let live = live_answer(vec![AnswerChange::StepBegan { number: 1 }]);
        let result = answer_output(&live).into_result(Era::Stateless { has_tasks: false });
        assert_eq!(result["structuredContent"]["status"], "in_progress");
        assert_eq!(result["isError"], false);
        assert!(result["structuredContent"]["next"].as_str().is_some_and(|next| next.contains("wait")));
    }

    #[test]
    fn long_text_is_cut() {
        let text = "č".repeat(TEXT_MAX_BYTES);
        let live = live_answer(vec![
            AnswerChange::StepBegan { number: 1 },
            AnswerChange::TextGrew { block: 0, text },
            AnswerChange::Ended(AnswerEnding::Done),
        ]);
        let result = answer_output(&live).into_result(Era::Stateless { has_tasks: false });
        let value = &result["structuredContent"];
        assert_eq!(value["is_cut"], true);
        assert_eq!(value["answer"].as_str().map(str::len), Some(TEXT_MAX_BYTES));
    }
}
