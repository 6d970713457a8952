//! Folds the frames of a stream into the events of a step. Pure: no connection, no clock.

use std::collections::{HashMap, HashSet, VecDeque};

use domain::citation::{CITED_MAX, VendorCitation};
use domain::step::{StepError, StepEvent, StopReason, TokenUsage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::calls::{CallItem, ITEMS_MAX, Named, ResponsesCalls};
use crate::cited;
use crate::error;
use crate::finish::{Finish, StepEnding};
use crate::format::WireFormat;
use crate::lenient;
use crate::output::{StepOutput, StreamProgress, VendorCall, merge_usage};
use crate::sse::SseFrame;

/// The fields of a call's item that the transcript has.
const CALL_FIELDS: [&str; 3] = ["call_id", "name", "arguments"];

#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(default, deserialize_with = "lenient::or_default")]
    r#type: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    output_index: Option<u64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    item_id: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    content_index: u64,
    #[serde(default)]
    annotation: Option<Value>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    summary_index: u64,
    #[serde(default)]
    delta: Option<Value>,
    /// The whole text of a part.
    #[serde(default, deserialize_with = "lenient::or_default")]
    text: String,
    /// The whole arguments of a call.
    #[serde(default, deserialize_with = "lenient::text_or_object")]
    arguments: String,
    #[serde(default, borrow)]
    item: Option<&'a RawValue>,
    #[serde(default, borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponsesOutputItem {
    #[serde(deserialize_with = "lenient::or_default")]
    id: String,
    #[serde(deserialize_with = "lenient::or_default")]
    r#type: String,
    #[serde(deserialize_with = "lenient::or_default")]
    call_id: String,
    #[serde(deserialize_with = "lenient::or_default")]
    name: String,
    #[serde(deserialize_with = "lenient::text_or_object")]
    arguments: String,
    #[serde(deserialize_with = "lenient::or_default")]
    encrypted_content: Option<String>,
    content: Option<Vec<ResponsesOutputPart>>,
}

impl ResponsesOutputItem {
    /// Returns true for a message without its text, which some servers send before the whole response.
    fn is_silent_message(&self) -> bool {
        let mut texts = self.content.iter().flatten().flat_map(ResponsesOutputPart::text_and_refusal);
        self.r#type == "message" && texts.all(str::is_empty)
    }

    fn into_call(self) -> CallItem {
        CallItem { item_id: self.id, call_id: self.call_id, tool: self.name, arguments: self.arguments }
    }
}

#[derive(Deserialize)]
struct ResponsesOutputPart {
    #[serde(default, deserialize_with = "lenient::or_default")]
    text: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    refusal: Option<String>,
    #[serde(default)]
    annotations: Option<Value>,
}

impl ResponsesOutputPart {
    /// Returns its text and its refusal.
    fn text_and_refusal(&self) -> [&str; 2] {
        [&self.text, &self.refusal].map(|text| text.as_deref().unwrap_or_default())
    }
}

/// A part of a message whose text arrives in deltas.
#[derive(Debug)]
struct PendingPart {
    /// The part's offset in the whole text.
    start: usize,
    bytes: usize,
    /// The number of sources cited so far.
    cited: usize,
}

/// A finished message, whose text the whole response may continue.
#[derive(Debug)]
struct ShownMessage {
    position: u64,
    /// Its identifier; empty if it has none.
    id: String,
    /// The offset of its text in the whole text.
    start: usize,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseObject<'a> {
    error: Option<Value>,
    #[serde(deserialize_with = "lenient::or_default")]
    status: String,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(deserialize_with = "lenient::or_default")]
    incomplete_details: Option<Incomplete>,
    #[serde(deserialize_with = "lenient::or_default")]
    usage: Option<ResponsesUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete {
    #[serde(deserialize_with = "lenient::or_default")]
    reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponsesUsage {
    #[serde(deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::or_default")]
    input_tokens_details: Option<InputDetails>,
    #[serde(deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::or_default")]
    output_tokens_details: Option<ResponsesOutputDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    #[serde(deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponsesOutputDetails {
    #[serde(deserialize_with = "lenient::count")]
    reasoning_tokens: Option<u64>,
}

impl ResponsesUsage {
    fn into_usage(self) -> Option<TokenUsage> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let cached = self.input_tokens_details.unwrap_or_default().cached_tokens;
        let reasoning = self.output_tokens_details.unwrap_or_default().reasoning_tokens;
        Some(TokenUsage {
            input_tokens: self.input_tokens.unwrap_or(0),
            cached_tokens: cached.unwrap_or(0),
            output_tokens: self.output_tokens.unwrap_or(0),
            reasoning_tokens: reasoning.unwrap_or(0),
            estimated: false,
        })
    }
}

/// The state of a step's stream.
#[derive(Debug, Default)]
pub(crate) struct ResponsesFold {
    output: StepOutput,
    /// The parts in progress, by item and part.
    parts: HashMap<(u64, u64), PendingPart>,
    calls: ResponsesCalls,
    /// The other finished items, by their identifiers, and by position if they have none.
    finished: HashSet<String>,
    /// The finished messages, at most as many as items.
    messages: Vec<ShownMessage>,
    /// The offset of the text that belongs to no finished message.
    unclaimed: usize,
    usage: Option<TokenUsage>,
}

impl ResponsesFold {
    /// Creates a fold for a transcript that already uses the identifiers in `taken`.
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self { output: StepOutput::new(taken), ..Self::default() }
    }

    /// Returns true once something of the output has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.output.has_begun()
    }

    pub(crate) fn fold_frame(
        &mut self,
        frame: &SseFrame,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let data = frame.data.trim();
        let event: ResponsesEvent<'_> = match serde_json::from_str(data) {
            Ok(event) => event,
            Err(_) if frame.event == "error" => return Err(error::in_stream(data)),
            Err(_) => match frame.mend_json() {
                Some(mended) => return self.fold_frame(&mended, ready),
                None if data == "[DONE]" || !is_known(&frame.event) => return Ok(StreamProgress::More),
                None => return Err(error::unavailable_step("its stream contains an unreadable frame")),
            },
        };
        let kind = if event.r#type.is_empty() { frame.event.as_str() } else { event.r#type.as_str() };
        match kind {
            "error" => return Err(error::in_stream(data)),
            "response.output_text.delta" => {
                self.count_delta(&event)?;
                self.output.emit_text(delta_text(event), ready);
            }
            "response.refusal.delta" => {
                self.count_delta(&event)?;
                self.output.emit_refusal(delta_text(event), ready);
            }
            "response.output_text.done" => self.end_text(&event, ready),
            "response.output_text.annotation.added" => self.emit_annotation(&event, ready),
            // A blank line separates the parts of a summary.
            "response.reasoning_summary_part.added" if event.summary_index > 0 => {
                self.output.emit_reasoning("\n\n".to_owned(), ready);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.output.emit_reasoning(delta_text(event), ready);
            }
            "response.output_item.added" => self.begin_item(event.output_index, event.item)?,
            // The end of the item should contain the whole arguments.
            "response.function_call_arguments.delta" => {
                let named = Named { item_id: &event.item_id, position: event.output_index };
                let piece = event.delta.as_ref().and_then(Value::as_str).unwrap_or_default();
                self.output.count_bytes(piece.len());
                self.calls.append_arguments(named, piece);
            }
            "response.function_call_arguments.done" => {
                let named = Named { item_id: &event.item_id, position: event.output_index };
                self.calls.complete_arguments(named, event.arguments);
                self.emit_settled(ready)?;
            }
            "response.output_item.done" => self.take_event_item(event.output_index, event.item, ready)?,
            "response.completed" | "response.incomplete" | "response.failed" => {
                return self.fold_response(kind, event.response, ready);
            }
            // Some servers report errors without the event's type.
            "" => {
                if let Some(error) = error::parse_reported(data) {
                    return Err(error);
                }
            }
            _ => {}
        }
        if self.output.is_full() {
            let full = StepEnding { stop: Some(StopReason::OutputFull), is_unknown: false };
            return self.output.finish_step(full, self.usage, ready);
        }
        Ok(StreamProgress::More)
    }

    /// Handles the end of the stream. Always an error, because a complete stream ends with an event.
    pub(crate) fn end_stream(
        &mut self,
        _ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        Err(error::unavailable_step("its stream ended early"))
    }

    /// Folds a whole response, or a part of it like that of a frame.
    pub(crate) fn fold_document(
        &mut self,
        json: String,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let raw: Option<Box<RawValue>> = RawValue::from_string(json).ok();
        let json = raw.as_deref().map_or("", RawValue::get);
        let is_whole =
            serde_json::from_str::<ResponseObject<'_>>(json).is_ok_and(|response| response.output.is_some());
        if is_whole {
            return self.fold_response("response.completed", raw.as_deref(), ready);
        }
        self.fold_frame(&SseFrame { event: String::new(), data: json.to_owned() }, ready)
    }

    /// Remembers a call whose arguments follow.
    fn begin_item(&mut self, index: Option<u64>, item: Option<&RawValue>) -> Result<(), StepError> {
        let item: ResponsesOutputItem =
            item.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default();
        if item.r#type != "function_call" {
            return Ok(());
        }
        if self.calls.begin_call(index, item.into_call()) {
            Ok(())
        } else {
            Err(error::unavailable_step("its stream has too many items"))
        }
    }

    fn count_delta(&mut self, event: &ResponsesEvent<'_>) -> Result<(), StepError> {
        let index = (event.output_index.unwrap_or(0), event.content_index);
        if self.parts.len() >= ITEMS_MAX && !self.parts.contains_key(&index) {
            return Err(error::unavailable_step("its stream has too many items"));
        }
        let bytes = event.delta.as_ref().and_then(Value::as_str).map_or(0, str::len);
        let start = self.output.written_text().len();
        self.parts.entry(index).or_insert(PendingPart { start, bytes: 0, cited: 0 }).bytes += bytes;
        Ok(())
    }

    /// Emits what the end of a part adds to its text.
    fn end_text(&mut self, event: &ResponsesEvent<'_>, ready: &mut VecDeque<StepEvent>) {
        let pending = self.parts.get_mut(&(event.output_index.unwrap_or(0), event.content_index));
        let Some(pending) = pending else { return };
        let streamed = self.output.written_text().get(pending.start..).unwrap_or_default();
        if let Some(rest) = event.text.strip_prefix(streamed) {
            pending.bytes += rest.len();
            self.output.emit_text(rest.to_owned(), ready);
        }
    }

    /// Emits a source of a part in progress.
    fn emit_annotation(&mut self, event: &ResponsesEvent<'_>, ready: &mut VecDeque<StepEvent>) {
        let pending = self.parts.get_mut(&(event.output_index.unwrap_or(0), event.content_index));
        let (Some(pending), Some(annotation)) = (pending, &event.annotation) else { return };
        pending.cited += 1;
        let text = self.output.written_text().get(pending.start..).unwrap_or("");
        let cited = parse_citation(annotation, pending.start, text);
        self.output.emit_citation(cited, ready);
    }

    /// Takes a finished item of an event.
    fn take_event_item(
        &mut self,
        index: Option<u64>,
        item: Option<&RawValue>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<(), StepError> {
        let json = item.map_or("{}", RawValue::get);
        let item = read_item(json)?;
        if item.r#type == "function_call" {
            self.calls.finish_call(index, item.into_call(), without_fields(json, &CALL_FIELDS)?);
            return self.emit_settled(ready);
        }
        self.emit_content(index.unwrap_or(0), item, json, ready)
    }

    /// Takes an item of the whole response.
    fn take_listed_item(
        &mut self,
        index: u64,
        json: &str,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<(), StepError> {
        let item = read_item(json)?;
        if item.r#type == "function_call" {
            self.calls.add_listed_call(item.into_call(), without_fields(json, &CALL_FIELDS)?);
            return self.emit_settled(ready);
        }
        self.emit_content(index, item, json, ready)
    }

    fn emit_settled(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<(), StepError> {
        while let Some((call, rest)) = self.calls.next_settled() {
            self.emit_call(call, rest, ready)?;
        }
        Ok(())
    }

    fn emit_call(
        &mut self,
        call: VendorCall,
        rest: Option<String>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<(), StepError> {
        if self.output.accept_call(call, ready)?
            && let Some(rest) = rest
        {
            self.output.emit_opaque(WireFormat::Responses, rest, ready);
        }
        Ok(())
    }

    /// Emits a finished item other than a call.
    fn emit_content(
        &mut self,
        index: u64,
        item: ResponsesOutputItem,
        json: &str,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<(), StepError> {
        let name = if item.id.is_empty() { format!("#{index} {}", item.r#type) } else { item.id.clone() };
        if item.is_silent_message() {
            return Ok(());
        }
        let content = item.content.unwrap_or_default();
        if item.r#type == "message" && self.continues_message(index, &item.id, &content, ready) {
            return Ok(());
        }
        if self.finished.len() >= ITEMS_MAX || !self.finished.insert(name) {
            return Ok(());
        }
        match item.r#type.as_str() {
            // The vendor cannot read unencrypted reasoning when it is sent back.
            "reasoning" if item.encrypted_content.is_some_and(|sealed| !sealed.is_empty()) => {
                self.output.emit_opaque(WireFormat::Responses, json.to_owned(), ready);
            }
            "message" => {
                self.emit_message(index, item.id, content, ready);
                self.output.emit_opaque(WireFormat::Responses, without_fields(json, &["content"])?, ready);
            }
            _ => {}
        }
        Ok(())
    }

    /// Emits the content of a finished message that did not arrive in deltas. Text that contradicts them is left out.
    fn emit_message(
        &mut self,
        index: u64,
        id: String,
        content: Vec<ResponsesOutputPart>,
        ready: &mut VecDeque<StepEvent>,
    ) {
        let whole: String = content.iter().flat_map(ResponsesOutputPart::text_and_refusal).collect();
        let begun = self.parts.iter().filter(|((item, _), part)| *item == index && part.bytes > 0);
        let begun = begun.map(|(_, part)| part.start).min();
        let written = self.output.written_text();
        // A server may stream a text under another position than that of its item.
        let from = begun.unwrap_or(self.unclaimed);
        let streamed = written.get(from..).filter(|text| whole.starts_with(text));
        let (mut start, mut known) = match streamed {
            _ if written.ends_with(&whole) => (written.len() - whole.len(), whole.len()),
            Some(text) => (from, text.len()),
            None if begun.is_some() => (from, whole.len()),
            None => (written.len(), 0),
        };
        self.messages.push(ShownMessage { position: index, id, start });
        for (part, at) in content.into_iter().zip(0_u64..) {
            let pending = self.parts.remove(&(index, at));
            let part_start = pending.as_ref().map_or(start, |pending| pending.start);
            let [text, refusal] = part.text_and_refusal().map(|text| {
                let skipped = known.min(text.len());
                (start, known) = (start + text.len(), known - skipped);
                text.get(skipped..).unwrap_or_default().to_owned()
            });
            self.output.emit_text(text, ready);
            self.output.emit_refusal(refusal, ready);
            let Some(Value::Array(annotations)) = part.annotations else { continue };
            if pending.is_some_and(|pending| pending.cited > 0) {
                continue; // already emitted one by one
            }
            for annotation in annotations.iter().take(CITED_MAX) {
                let text = self.output.written_text().get(part_start..).unwrap_or("");
                let cited = parse_citation(annotation, part_start, text);
                self.output.emit_citation(cited, ready);
            }
        }
        self.parts.retain(|(item, _), _| *item != index);
        self.unclaimed = self.output.written_text().len();
    }

    /// Emits what a message adds to the text that was shown of it before. Returns false for another message.
    fn continues_message(
        &mut self,
        index: u64,
        id: &str,
        content: &[ResponsesOutputPart],
        ready: &mut VecDeque<StepEvent>,
    ) -> bool {
        // Some servers give identifiers only in the whole response.
        let is_same = |shown: &&ShownMessage| {
            let is_unnamed = id.is_empty() || shown.id.is_empty();
            if is_unnamed { shown.position == index } else { shown.id == id }
        };
        let Some(shown) = self.messages.iter().rev().find(is_same) else { return false };
        let whole: String = content.iter().flat_map(ResponsesOutputPart::text_and_refusal).collect();
        let before = self.output.written_text().get(shown.start..).unwrap_or_default();
        if before.is_empty() || !whole.starts_with(before) {
            return false;
        }
        let mut known = before.len();
        for part in content {
            let [text, refusal] = part.text_and_refusal().map(|text| {
                let skipped = known.min(text.len());
                known -= skipped;
                text.get(skipped..).unwrap_or_default().to_owned()
            });
            self.output.emit_text(text, ready);
            self.output.emit_refusal(refusal, ready);
        }
        self.unclaimed = self.output.written_text().len();
        true
    }

    fn fold_response(
        &mut self,
        kind: &str,
        response: Option<&RawValue>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let response: ResponseObject<'_> = serde_json::from_str(response.map_or("{}", RawValue::get))
            .map_err(|_| error::unavailable_step("its stream contains an unreadable frame"))?;
        merge_usage(&mut self.usage, response.usage.and_then(ResponsesUsage::into_usage));
        let reason = response.incomplete_details.and_then(|details| details.reason);
        let problem = response.error.filter(|problem| !error::is_empty(problem));
        let status = response.status.as_str();
        if kind == "response.failed" || matches!(status, "failed" | "cancelled") || problem.is_some() {
            return Err(error::in_stream(&problem.unwrap_or(Value::Null).to_string()));
        }
        // Items that were not finished, or that come only here.
        for (item, index) in response.output.into_iter().flatten().zip(0..) {
            self.take_listed_item(index, item.get(), ready)?;
        }
        let is_incomplete = kind == "response.incomplete" || status == "incomplete";
        while let Some((call, rest)) = self.calls.next_at_end(is_incomplete) {
            self.emit_call(call, rest, ready)?;
        }
        let mut ending = StepEnding { stop: Some(StopReason::Done), is_unknown: false };
        if is_incomplete {
            ending.stop = Some(StopReason::OutputFull);
            if let Finish::Stop(StopReason::Filtered) =
                Finish::from_reason(reason.as_deref().unwrap_or_default())
            {
                ending.stop = Some(StopReason::Filtered);
            }
        }
        self.output.finish_step(ending, self.usage, ready)
    }
}

/// Reads an annotation's source, for a part that starts at `start` with this text. Positions in it are in characters.
fn parse_citation(annotation: &Value, start: usize, part: &str) -> Option<VendorCitation> {
    let text = |field| cited::text_field(annotation, field);
    let end =
        cited::number_field(annotation, "end_index").or_else(|| cited::number_field(annotation, "index"));
    let at = start + end.map_or(part.len(), |end| cited::bytes_of(part, end));
    match text("type") {
        "url_citation" => cited::cite_page(at, text("url"), text("title"), ""),
        "file_citation" | "container_file_citation" => cited::cite_file(at, text("filename"), None, ""),
        _ => None,
    }
}

fn read_item(json: &str) -> Result<ResponsesOutputItem, StepError> {
    serde_json::from_str(json).map_err(|_| error::unavailable_step("its stream contains an unreadable frame"))
}

/// Removes fields from an item.
fn without_fields(json: &str, removed: &[&str]) -> Result<String, StepError> {
    let mut fields: Map<String, Value> = serde_json::from_str(json)
        .map_err(|_| error::unavailable_step("its stream contains an unreadable frame"))?;
    fields.retain(|name, _| !removed.contains(&name.as_str()));
    Ok(Value::Object(fields).to_string())
}

fn delta_text(event: ResponsesEvent<'_>) -> String {
    match event.delta {
        Some(Value::String(text)) => text,
        Some(_) | None => String::new(),
    }
}

/// Returns true for events that must be readable.
fn is_known(event: &str) -> bool {
    matches!(event, "" | "message")
        || [
            "response.output_text",
            "response.output_item",
            "response.function_call",
            "response.completed",
            "response.failed",
            "response.incomplete",
            "response.refusal",
        ]
        .iter()
        .any(|known| event.starts_with(known))
}

#[cfg(test)]
mod tests;
