//! The items of a response, and the events with which a client follows them.
//!
//! States of an answer supersede one another, events do not. Items are sent one after the other in the order of the
//! answer's parts: one that is not complete delays those behind it. So the events of a finished answer are always the same,
//! up to the division of its texts, and each byte of a text has a number of its own. A client that continues after a
//! number gets the rest.
//!
//! A part that is said anew, with other words, becomes another item; the one before it ends as incomplete and is not in
//! the output.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use domain::answer::{Answer, AnswerEnding, CallRun, ContentPart, PartContent, RunState};
use domain::citation::PassagePlace;
use domain::id::PartId;
use domain::step::Purpose;
use serde_json::{Map, Value, json};

use crate::deltas::{ANNOTATIONS_MAX, SentText, UrlCitation, text_after};
use crate::response_wire::ResponseId;
use crate::sent_files::encode_file_id;

/// The name under which the tools of the service are called.
const SERVER_LABEL: &str = "causerie";

/// The arguments of a call that shows none.
const NO_ARGUMENTS: &str = "{}";

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResponseEvent {
    name: &'static str,
    /// The numbers that it covers. A text covers one for each byte, other events one.
    first: u64,
    last: u64,
    fields: Map<String, Value>,
}

impl ResponseEvent {
    /// Encodes what follows after the number `after`; `None` if nothing does.
    pub(crate) fn encode_after(mut self, after: Option<u64>) -> Option<(&'static str, String)> {
        if let Some(after) = after {
            if after >= self.last {
                return None;
            }
            if let Some(Value::String(text)) = self.fields.get_mut("delta") {
                let known = usize::try_from((after + 1).saturating_sub(self.first)).unwrap_or(usize::MAX);
                text.drain(..text.floor_char_boundary(known));
            }
        }
        Some(self.encode())
    }

    /// Encodes the event.
    pub(crate) fn encode(mut self) -> (&'static str, String) {
        self.fields.insert("type".to_owned(), self.name.into());
        self.fields.insert("sequence_number".to_owned(), self.last.into());
        (self.name, Value::Object(self.fields).to_string())
    }
}

/// Numbers the events of a response.
#[derive(Debug, Default)]
pub(crate) struct EventNumbers {
    next: u64,
}

impl EventNumbers {
    /// Creates an event, and numbers it.
    pub(crate) fn event(&mut self, name: &'static str, fields: Value) -> ResponseEvent {
        self.number_event(name, fields, 1)
    }

    /// Skips the number of an event that other responses have.
    pub(crate) fn skip(&mut self) {
        self.next += 1;
    }

    fn number_event(&mut self, name: &'static str, fields: Value, weight: usize) -> ResponseEvent {
        let first = self.next;
        self.next += u64::try_from(weight.max(1)).unwrap_or(1);
        let fields = if let Value::Object(fields) = fields { fields } else { Map::new() };
        ResponseEvent { name, first, last: self.next - 1, fields }
    }
}

/// The items of a response.
#[derive(Debug)]
pub(crate) struct ResponseItems {
    id: ResponseId,
    /// The beginning of links to files: `https://host`.
    origin: String,
    items: Vec<SentItem>,
    /// The item of each part.
    latest: HashMap<PartId, usize>,
    /// The item that is being sent.
    open: Option<usize>,
    pub(crate) numbers: EventNumbers,
}

/// An item as it was sent.
#[derive(Debug)]
struct SentItem {
    id: String,
    /// Its place among all items that were sent.
    index: usize,
    body: ItemBody,
    status: ItemStatus,
    is_last: bool,
}

#[derive(Debug)]
enum ItemBody {
    Text(Box<TextItem>),
    Reasoning(String),
    Run(Box<RunItem>),
}

#[derive(Debug, Default)]
struct TextItem {
    sent: SentText,
    text: String,
    chars: usize,
    citations: Vec<UrlCitation>,
}

#[derive(Debug, Clone, PartialEq)]
struct RunItem {
    tool: String,
    /// JSON; empty if it is too long.
    arguments: String,
    purpose: Purpose,
    state: RunState,
    sources: Vec<String>,
    report: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemStatus {
    /// Nothing of it was sent.
    New,
    InProgress,
    Completed,
    Failed,
    Incomplete,
}

impl ItemStatus {
    const fn as_str(self) -> &'static str {
        match self {
            Self::New | Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
        }
    }

    const fn has_ended(self) -> bool {
        !matches!(self, Self::New | Self::InProgress)
    }
}

/// The place of a part in the answer.
#[derive(Clone, Copy)]
struct PartPlace {
    /// Nothing is added to it any more.
    is_finished: bool,
    /// No part follows it in the finished answer.
    is_last: bool,
    /// The answer ended before this part was complete, as far as is known.
    is_cut: bool,
}

impl ResponseItems {
    /// Creates the items of a response that has none. Links to files begin with `origin`.
    pub(crate) fn new(id: ResponseId, origin: String) -> Self {
        let (items, latest, numbers) = (Vec::new(), HashMap::new(), EventNumbers::default());
        Self { id, origin, items, latest, open: None, numbers }
    }

    /// Returns the events since the state that was read last.
    pub(crate) fn read_state(&mut self, answer: &Answer) -> Vec<ResponseEvent> {
        let mut events = Vec::new();
        let has_ended = answer.ending.is_some();
        let is_cut = answer.ending.as_ref().is_some_and(|ending| *ending != AnswerEnding::Done);
        let last = answer.parts.iter().rev().find(|part| is_shown(part)).map(|part| part.id);
        for part in answer.parts.iter().filter(|part| is_shown(part)) {
            let is_last = Some(part.id) == last;
            let place = PartPlace {
                is_finished: has_ended || !is_last,
                is_last: has_ended && is_last && !is_cut,
                is_cut: is_last && is_cut,
            };
            match &part.body {
                PartContent::Text(markdown) => self.read_text(answer, part, markdown, place, &mut events),
                PartContent::Reasoning(text) => self.read_reasoning(part.id, text, place, &mut events),
                PartContent::Run(run) => {
                    if !self.read_run(part.id, run, has_ended, &mut events) {
                        break;
                    }
                }
                PartContent::File { .. } => {}
            }
        }
        if has_ended {
            self.close_open(ItemStatus::Incomplete, &mut events);
        }
        events
    }

    /// Returns the items of this state, which must be the one that was read last.
    pub(crate) fn output(&self, answer: &Answer) -> Vec<Value> {
        let items = answer.parts.iter().filter_map(|part| self.items.get(*self.latest.get(&part.id)?));
        items.filter(|item| item.status != ItemStatus::New).map(SentItem::to_json).collect()
    }

    /// Returns the texts of this state, which must be the one that was read last.
    pub(crate) fn texts<'a>(&'a self, answer: &'a Answer) -> impl Iterator<Item = &'a str> {
        let items = answer.parts.iter().filter_map(|part| self.items.get(*self.latest.get(&part.id)?));
        items.filter_map(|item| match &item.body {
            ItemBody::Text(text) if item.status != ItemStatus::New => Some(text.text.as_str()),
            _ => None,
        })
    }

    /// Adds the item of a part, of which nothing is sent yet.
    fn add_item(&mut self, part: PartId, prefix: &str, body: ItemBody) -> usize {
        let at = self.items.len();
        let attempt = match self.latest.get(&part) {
            Some(_) => at,
            None => 0,
        };
        let id = self.id.item_id(prefix, part, attempt);
        self.items.push(SentItem { id, index: 0, body, status: ItemStatus::New, is_last: false });
        self.latest.insert(part, at);
        at
    }

    fn read_text(
        &mut self,
        answer: &Answer,
        part: &ContentPart,
        markdown: &str,
        place: PartPlace,
        events: &mut Vec<ResponseEvent>,
    ) {
        let new = || ItemBody::Text(Box::default());
        let known = self.latest.get(&part.id).copied();
        let mut at = known.unwrap_or_else(|| self.add_item(part.id, "msg", new()));
        if self.items[at].status.has_ended() {
            let ItemBody::Text(item) = &self.items[at].body else { return };
            if item.sent.has_read(markdown) {
                return;
            }
            at = self.add_item(part.id, "msg", new());
        }
        let ItemBody::Text(item) = &mut self.items[at].body else { return };
        let source = |number| answer.source_of(part, number);
        let read = item.sent.read_markdown(markdown, place.is_finished, &self.origin, source);
        if let Some((is_new, new)) = read.filter(|(_, new)| !new.text.is_empty()) {
            if is_new && self.items[at].status == ItemStatus::InProgress {
                at = self.begin_again(at, part.id, events);
            }
            self.open_item(at, events);
            self.append_text(at, &new.text, new.citations, events);
        }
        if place.is_finished && self.items[at].status == ItemStatus::InProgress {
            self.items[at].is_last = place.is_last;
            let status = if place.is_cut { ItemStatus::Incomplete } else { ItemStatus::Completed };
            self.close_open(status, events);
        }
    }

    /// Ends an item as incomplete, and adds another one of the same part that goes on from its processed text.
    fn begin_again(&mut self, at: usize, part: PartId, events: &mut Vec<ResponseEvent>) -> usize {
        let ItemBody::Text(item) = &mut self.items[at].body else { return at };
        let sent = std::mem::take(&mut item.sent);
        self.close_open(ItemStatus::Incomplete, events);
        self.add_item(part, "msg", ItemBody::Text(Box::new(TextItem { sent, ..TextItem::default() })))
    }

    fn append_text(
        &mut self,
        at: usize,
        text: &str,
        citations: Vec<UrlCitation>,
        events: &mut Vec<ResponseEvent>,
    ) {
        let SentItem { id, index, body: ItemBody::Text(item), .. } = &mut self.items[at] else { return };
        let room = ANNOTATIONS_MAX.saturating_sub(item.citations.len());
        item.citations.extend(citations.into_iter().take(room).map(|citation| UrlCitation {
            start_index: item.chars + citation.start_index,
            end_index: item.chars + citation.end_index,
            ..citation
        }));
        item.text.push_str(text);
        item.chars += text.chars().count();
        let fields = json!({"item_id": id, "output_index": index, "content_index": 0, "delta": text,
            "logprobs": []});
        events.push(self.numbers.number_event("response.output_text.delta", fields, text.len()));
    }

    fn read_reasoning(
        &mut self,
        part: PartId,
        text: &str,
        place: PartPlace,
        events: &mut Vec<ResponseEvent>,
    ) {
        let new = || ItemBody::Reasoning(String::new());
        let known = self.latest.get(&part).copied();
        let mut at = known.unwrap_or_else(|| self.add_item(part, "rs", new()));
        let ItemBody::Reasoning(sent) = &self.items[at].body else { return };
        let is_same = sent.starts_with(text);
        let more = match text_after(sent, text) {
            Some(more) if !self.items[at].status.has_ended() => Some(more),
            _ if is_same => None,
            _ => {
                if self.open == Some(at) {
                    self.close_open(ItemStatus::Incomplete, events);
                }
                at = self.add_item(part, "rs", new());
                Some(text)
            }
        };
        if let Some(more) = more.filter(|more| !more.is_empty()) {
            self.open_item(at, events);
            let SentItem { id, index, body: ItemBody::Reasoning(sent), .. } = &mut self.items[at] else {
                return;
            };
            sent.push_str(more);
            let fields = json!({"item_id": id, "output_index": index, "summary_index": 0, "delta": more});
            events.push(self.numbers.number_event(
                "response.reasoning_summary_text.delta",
                fields,
                more.len(),
            ));
        }
        if place.is_finished && self.items[at].status == ItemStatus::InProgress {
            let status = if place.is_cut { ItemStatus::Incomplete } else { ItemStatus::Completed };
            self.close_open(status, events);
        }
    }

    /// Reads a call. Returns false if the parts behind it wait for its end.
    fn read_run(
        &mut self,
        part: PartId,
        run: &CallRun,
        has_ended: bool,
        events: &mut Vec<ResponseEvent>,
    ) -> bool {
        let known = self.latest.get(&part).copied().filter(|at| match &self.items[*at].body {
            ItemBody::Run(known) => known.tool == run.tool && known.purpose == run.purpose,
            ItemBody::Text(_) | ItemBody::Reasoning(_) => false,
        });
        let at = known.unwrap_or_else(|| {
            let prefix = if matches!(run.purpose, Purpose::WebSearch { .. }) { "ws" } else { "mcp" };
            let (tool, arguments, purpose) = (run.tool.clone(), run.arguments.clone(), run.purpose.clone());
            let (state, sources, report) = (RunState::Pending, Vec::new(), String::new());
            let item = RunItem { tool, arguments, purpose, state, sources, report };
            self.add_item(part, prefix, ItemBody::Run(Box::new(item)))
        });
        if self.items[at].status.has_ended() {
            return true;
        }
        self.open_item(at, events);
        if run.state == RunState::Pending && !has_ended {
            return false;
        }
        if let ItemBody::Run(item) = &mut self.items[at].body {
            item.state = run.state;
            item.report.clone_from(&run.report);
            item.sources = run.sources.iter().filter_map(web_url).collect();
        }
        let status = match run.state {
            RunState::Complete => ItemStatus::Completed,
            RunState::Error => ItemStatus::Failed,
            RunState::Pending => ItemStatus::Incomplete,
        };
        self.close_open(status, events);
        true
    }

    /// Begins to send an item. The one before it ends.
    fn open_item(&mut self, at: usize, events: &mut Vec<ResponseEvent>) {
        if self.items[at].status != ItemStatus::New {
            return;
        }
        self.close_open(ItemStatus::Incomplete, events);
        let index = self.items.iter().filter(|item| item.status != ItemStatus::New).count();
        self.open = Some(at);
        let item = &mut self.items[at];
        (item.index, item.status) = (index, ItemStatus::InProgress);
        let added = json!({"output_index": index, "item": item.to_json()});
        events.push(self.numbers.event("response.output_item.added", added));
        let place = json!({"item_id": item.id, "output_index": index});
        match &item.body {
            ItemBody::Text(_) => {
                let part = output_text("", &[]);
                let fields = with_fields(&place, json!({"content_index": 0, "part": part}));
                events.push(self.numbers.event("response.content_part.added", fields));
            }
            ItemBody::Reasoning(_) => {
                let part = json!({"type": "summary_text", "text": ""});
                let fields = with_fields(&place, json!({"summary_index": 0, "part": part}));
                events.push(self.numbers.event("response.reasoning_summary_part.added", fields));
            }
            ItemBody::Run(run) => {
                let names: &[&str] = match run.purpose {
                    Purpose::WebSearch { .. } => {
                        &["response.web_search_call.in_progress", "response.web_search_call.searching"]
                    }
                    Purpose::Tool | Purpose::Skill(_) | Purpose::Agent(_) => {
                        &["response.mcp_call.in_progress"]
                    }
                };
                events.extend(names.iter().map(|name| self.numbers.event(name, place.clone())));
            }
        }
    }

    /// Ends the item that is being sent, if there is one.
    fn close_open(&mut self, status: ItemStatus, events: &mut Vec<ResponseEvent>) {
        let Some(at) = self.open.take() else { return };
        let item = &mut self.items[at];
        item.status = status;
        let place = json!({"item_id": item.id, "output_index": item.index});
        let numbers = &mut self.numbers;
        match &item.body {
            ItemBody::Text(text) => {
                let place = with_fields(&place, json!({"content_index": 0}));
                for (number, citation) in text.citations.iter().enumerate() {
                    let more = json!({"annotation_index": number, "annotation": annotation(citation)});
                    let fields = with_fields(&place, more);
                    events.push(numbers.event("response.output_text.annotation.added", fields));
                }
                let more = json!({"text": text.text, "logprobs": []});
                events.push(numbers.event("response.output_text.done", with_fields(&place, more)));
                let part = json!({"part": output_text(&text.text, &text.citations)});
                events.push(numbers.event("response.content_part.done", with_fields(&place, part)));
            }
            ItemBody::Reasoning(text) => {
                let place = with_fields(&place, json!({"summary_index": 0}));
                let more = with_fields(&place, json!({"text": text}));
                events.push(numbers.event("response.reasoning_summary_text.done", more));
                let part = json!({"part": {"type": "summary_text", "text": text}});
                let part = with_fields(&place, part);
                events.push(numbers.event("response.reasoning_summary_part.done", part));
            }
            ItemBody::Run(run) => {
                let name = match (&run.purpose, status) {
                    (Purpose::WebSearch { .. }, _) => "response.web_search_call.completed",
                    (_, ItemStatus::Completed) => "response.mcp_call.completed",
                    _ => "response.mcp_call.failed",
                };
                events.push(numbers.event(name, place));
            }
        }
        let done = json!({"output_index": item.index, "item": item.to_json()});
        events.push(numbers.event("response.output_item.done", done));
    }
}

impl SentItem {
    fn to_json(&self) -> Value {
        let (id, status) = (&self.id, self.status.as_str());
        match &self.body {
            ItemBody::Text(text) => {
                let is_begun = self.status == ItemStatus::InProgress && text.text.is_empty();
                let content =
                    if is_begun { Vec::new() } else { vec![output_text(&text.text, &text.citations)] };
                let phase = if self.is_last { "final_answer" } else { "commentary" };
                let mut message = json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content});
                if self.status.has_ended() {
                    message["phase"] = phase.into();
                }
                message
            }
            ItemBody::Reasoning(text) if text.is_empty() => {
                json!({"id": id, "type": "reasoning", "status": status, "summary": []})
            }
            ItemBody::Reasoning(text) => {
                let summary = json!([{"type": "summary_text", "text": text}]);
                json!({"id": id, "type": "reasoning", "status": status, "summary": summary})
            }
            ItemBody::Run(run) => run.to_json(id, status),
        }
    }
}

impl RunItem {
    fn to_json(&self, id: &str, status: &str) -> Value {
        let arguments = match &self.purpose {
            Purpose::WebSearch { query } => {
                let sources: Vec<Value> =
                    self.sources.iter().map(|url| json!({"type": "url", "url": url})).collect();
                let action =
                    json!({"type": "search", "query": query, "queries": [query], "sources": sources});
                return json!({"id": id, "type": "web_search_call", "status": status, "action": action});
            }
            Purpose::Tool if self.arguments.trim().is_empty() => NO_ARGUMENTS.to_owned(),
            Purpose::Tool => self.arguments.clone(),
            Purpose::Skill(skill) => json!({"skill": skill.full_name}).to_string(),
            Purpose::Agent(agent) => json!({"agent": agent.full_name}).to_string(),
        };
        let output = (!self.report.is_empty()).then_some(&self.report);
        json!({"id": id, "type": "mcp_call", "status": status, "server_label": SERVER_LABEL, "name": self.tool,
            "arguments": arguments, "output": output, "error": null,
            "approval_request_id": null})
    }
}

/// Returns true for the parts that are items.
const fn is_shown(part: &ContentPart) -> bool {
    !matches!(part.body, PartContent::File { .. })
}

fn web_url(place: &PassagePlace) -> Option<String> {
    match place {
        PassagePlace::Web { .. } => render::source_href(place),
        PassagePlace::File { .. } => None,
    }
}

/// Returns the part of a message with this text.
pub(crate) fn output_text(text: &str, citations: &[UrlCitation]) -> Value {
    let annotations: Vec<Value> = citations.iter().map(annotation).collect();
    json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []})
}

fn annotation(citation: &UrlCitation) -> Value {
    let UrlCitation { url, title, start_index, end_index, file } = citation;
    if let Some(path) = file {
        let name = path.rsplit('/').next().unwrap_or_default();
        return json!({"type": "file_citation", "file_id": encode_file_id(path), "filename": name,
            "index": end_index});
    }
    json!({"type": "url_citation", "url": url, "title": title, "start_index": start_index,
        "end_index": end_index})
}

/// Adds fields to an object.
pub(crate) fn with_fields(object: &Value, more: Value) -> Value {
    let (Value::Object(mut fields), Value::Object(more)) = (object.clone(), more) else { return Value::Null };
    fields.extend(more);
    Value::Object(fields)
}
