//! The states of an answer as updates of a session: what an editor shows is only ever appended to.

use std::collections::HashMap;

use client::{ChatAnswer, ChatAnswerPart, PartState, PartType};
use html::{HtmlToken, HtmlTokens};
use serde_json::{Value, json};

use crate::growth::{ShownText, common_prefix, settled_text};
use crate::labels::{Label, LabelLanguage};
use crate::marks::find_marks;
use crate::sources::list_cited_sources;

/// The updates that an editor has been sent of one answer.
#[derive(Debug)]
pub(crate) struct AnswerUpdates {
    shown: ShownText,
    /// The number of messages before the one that grows: a repeated attempt begins another one.
    message: u32,
    /// The shown text of each part of reasoning, by its id.
    thoughts: HashMap<String, String>,
    /// The shown state of each call, by the id of its part.
    calls: HashMap<String, &'static str>,
}

impl AnswerUpdates {
    pub(crate) fn new() -> Self {
        Self { shown: ShownText::default(), message: 0, thoughts: HashMap::new(), calls: HashMap::new() }
    }

    /// Returns the updates that a state of the answer adds.
    pub(crate) fn take_updates(&mut self, answer: &ChatAnswer) -> Vec<Value> {
        let mut updates = Vec::new();
        for part in &answer.parts {
            match part.kind {
                PartType::Reasoning => updates.extend(self.take_thought(part)),
                PartType::Text | PartType::Unknown => {}
                PartType::Tool | PartType::WebSearch | PartType::Skill | PartType::Agent | PartType::File => {
                    updates.extend(self.take_call(part))
                }
            }
        }
        let is_completed = answer.is_completed();
        let text = if is_completed { answer.text.as_str() } else { settled_text(&answer.text) };
        let marks = find_marks(&answer.text, &answer.parts);
        if let Some(growth) = self.shown.grow_to(text, &marks, is_completed) {
            self.message += u32::from(growth.repeated_from.is_some());
            if !growth.added.is_empty() {
                updates.push(self.message_chunk(answer, &growth.added));
            }
        }
        if is_completed {
            updates.extend(self.list_sources(answer));
        }
        updates
    }

    fn message_chunk(&self, answer: &ChatAnswer, text: &str) -> Value {
        text_chunk("agent_message_chunk", &format!("{}-{}", answer.id, self.message), text)
    }

    fn list_sources(&self, answer: &ChatAnswer) -> Option<Value> {
        let language = LabelLanguage::from_text(&answer.text, LabelLanguage::from_locale());
        let sources = list_cited_sources(&answer.parts, language);
        if sources.is_empty() {
            return None;
        }
        let mut list = format!("\n\n{}\n", language.label(Label::Sources));
        for (number, source) in sources {
            list.push_str(&format!("\n- [{number}] {source}"));
        }
        Some(self.message_chunk(answer, &list))
    }

    fn take_thought(&mut self, part: &ChatAnswerPart) -> Option<Value> {
        let text = text_of_html(part.content.as_deref().unwrap_or_default());
        let shown = self.thoughts.entry(part.part_id.clone()).or_default();
        let same = common_prefix(shown, &text);
        let added = text[same..].to_owned();
        *shown = text;
        (!added.is_empty()).then(|| text_chunk("agent_thought_chunk", &part.part_id, &added))
    }

    fn take_call(&mut self, part: &ChatAnswerPart) -> Option<Value> {
        let status = match part.state {
            Some(PartState::Pending) => "in_progress",
            Some(PartState::Error) => "failed",
            Some(PartState::Complete | PartState::Unknown) | None => "completed",
        };
        let before = self.calls.insert(part.part_id.clone(), status);
        match before {
            Some(before) if before == status => None,
            Some(_) => Some(json!({
                "sessionUpdate": "tool_call_update", "toolCallId": part.part_id, "status": status,
            })),
            None => {
                let (title, kind) = describe_call(part);
                Some(json!({
                    "sessionUpdate": "tool_call", "toolCallId": part.part_id, "title": title, "kind": kind,
                    "status": status,
                }))
            }
        }
    }
}

/// Returns an update with a piece of a text.
pub(crate) fn text_chunk(update: &str, message: &str, text: &str) -> Value {
    json!({"sessionUpdate": update, "messageId": message, "content": {"type": "text", "text": text}})
}

/// Returns the title of a call and its kind, by which editors choose a symbol.
fn describe_call(part: &ChatAnswerPart) -> (String, &'static str) {
    let word = |value: &Option<String>| value.clone().unwrap_or_default();
    let (title, kind) = match part.kind {
        PartType::WebSearch => (format!("Web search: {}", word(&part.query)), "fetch"),
        PartType::Skill => (format!("Skill: {}", word(&part.full_name)), "read"),
        PartType::Agent => (format!("Agent: {}", word(&part.name)), "other"),
        PartType::File => (format!("File: {}", word(&part.path)), "read"),
        PartType::Tool | PartType::Text | PartType::Reasoning | PartType::Unknown => {
            let name = part.tool_name.clone().unwrap_or_else(|| "tool".to_owned());
            let kind = match name.as_str() {
                "shell" => "execute",
                "search" | "find" | "list" => "search",
                "read" | "view" | "attached_files" => "read",
                "write" | "edit" => "edit",
                "web_fetch" => "fetch",
                _ => "other",
            };
            (name, kind)
        }
    };
    (title.trim_end_matches([':', ' ']).to_owned(), kind)
}

/// Returns the text of reasoning, with a line for each block.
fn text_of_html(content: &str) -> String {
    let mut text = String::new();
    for token in HtmlTokens::new(content) {
        match token {
            HtmlToken::Text(piece) => text.push_str(&piece),
            HtmlToken::Start(tag) if tag.name == "br" => text.push('\n'),
            HtmlToken::End(name) if matches!(name.as_str(), "p" | "li" | "pre" | "h1" | "h2" | "h3") => {
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
            HtmlToken::Start(_) | HtmlToken::End(_) => {}
        }
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use client::Status;

    use super::*;
    use crate::marks::tests::{link_marks, text_part};
    use crate::sources::tests::{file_source, sample_citation};

    fn answer(text: &str, parts: Vec<ChatAnswerPart>, status: Status) -> ChatAnswer {
        let (id, chat_id) = ("m".to_owned(), "c".to_owned());
        let (created_at, model) = (String::new(), String::new());
        ChatAnswer { id, chat_id, status, created_at, model, text: text.to_owned(), parts, error: None }
    }

    fn part(id: &str, kind: PartType, content: &str, state: Option<PartState>) -> ChatAnswerPart {
        let mut part = text_part(content);
        (part.part_id, part.kind, part.state) = (id.to_owned(), kind, state);
        part
    }

    /// The shown messages, by their ids.
    fn messages_of(updates: &[Value]) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> = Vec::new();
        for update in updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk") {
            let id = update["messageId"].as_str().expect("an id").to_owned();
            let text = update["content"]["text"].as_str().expect("a text");
            match out.last_mut() {
                Some((last, shown)) if *last == id => shown.push_str(text),
                _ => out.push((id, text.to_owned())),
            }
        }
        out
    }

    #[test]
    fn growing_text_is_sent_once() {
        let mut sent = AnswerUpdates::new();
        let states = ["The", "The rent", "The rent is due", "The rent is due in May."];
        let mut updates = Vec::new();
        for state in states {
            updates.extend(sent.take_updates(&answer(state, Vec::new(), Status::InProgress)));
        }
        updates.extend(sent.take_updates(&answer(states[3], Vec::new(), Status::Completed)));
        assert_eq!(messages_of(&updates), [("m-0".to_owned(), states[3].to_owned())]);
    }

    #[test]
    fn repeated_attempt_begins_another_message() {
        let mut sent = AnswerUpdates::new();
        let mut updates = sent.take_updates(&answer("It is due.\nOn May", Vec::new(), Status::InProgress));
        updates.extend(sent.take_updates(&answer("It is due.\nIn June.", Vec::new(), Status::Completed)));
        let expected = [("m-0", "It is due.\nOn May"), ("m-1", "In June.")];
        assert_eq!(messages_of(&updates), expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
    }

    #[test]
    fn citations_are_marked_and_listed() {
        let mut cited = text_part(&link_marks("<p>The rent is due [1].</p>"));
        cited.citations.push(sample_citation("c1", file_source("/lease.pdf", Some(2))));
        let updates =
            AnswerUpdates::new().take_updates(&answer("The rent is due.", vec![cited], Status::Completed));
        let expected = "The rent is due [1].\n\nSources:\n\n- [1] /lease.pdf, page 2";
        assert_eq!(messages_of(&updates), [("m-0".to_owned(), expected.to_owned())]);
    }

    #[test]
    fn calls_are_announced_and_ended_once() {
        let mut sent = AnswerUpdates::new();
        let mut updates = Vec::new();
        for state in [PartState::Pending, PartState::Pending, PartState::Complete, PartState::Complete] {
            let mut call = part("p", PartType::Tool, "", Some(state));
            call.tool_name = Some("shell".to_owned());
            updates.extend(sent.take_updates(&answer("", vec![call], Status::InProgress)));
        }
        let expected = [
            json!({"sessionUpdate": "tool_call", "toolCallId": "p", "title": "shell", "kind": "execute",
                   "status": "in_progress"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "p", "status": "completed"}),
        ];
        assert_eq!(updates, expected);
    }

    #[test]
    fn thoughts_are_text_without_markup() {
        let mut sent = AnswerUpdates::new();
        let mut text = String::new();
        for content in [
            "<p>Look at</p>",
            "<p>Look at <em>a &lt; b</em></p><p>Then",
            "<p>Look at <em>a &lt; b</em></p><p>Then stop.</p>",
        ] {
            let thought = part("r", PartType::Reasoning, content, None);
            for update in sent.take_updates(&answer("", vec![thought], Status::InProgress)) {
                assert_eq!(update["sessionUpdate"], "agent_thought_chunk");
                text.push_str(update["content"]["text"].as_str().expect("a text"));
            }
        }
        assert_eq!(text, "Look at a < b\nThen stop.");
    }
}
