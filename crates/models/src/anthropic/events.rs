//! Folds the frames of a stream into the events of a step. Pure: no connection, no clock.

use std::collections::{BTreeMap, HashSet, VecDeque};

use domain::citation::{CITED_MAX, VendorCitation};
use domain::step::{StepError, StepEvent, StopReason, TokenUsage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::cited;
use crate::error;
use crate::finish::StepEnding;
use crate::format::WireFormat;
use crate::lenient;
use crate::output::{StepOutput, StreamProgress, VendorCall, extend_arguments};
use crate::pause::Pause;
use crate::sse::SseFrame;
use crate::surrogates::Surrogates;

/// Limits how many blocks of a message are open at once; the format has one.
const OPEN_MAX: usize = 64;
/// Limits how often a paused step is continued.
const PAUSES_MAX: usize = 8;
/// Limits the content that is sent back to continue a step.
const PAUSED_MAX_BYTES: usize = 8 * 1024 * 1024;

#[derive(Deserialize)]
struct AnthropicEvent<'a> {
    #[serde(default, deserialize_with = "lenient::or_default")]
    r#type: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    index: u64,
    #[serde(default, borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(default)]
    delta: Option<AnthropicDelta>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    message: Option<AnthropicEventMessage>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: Option<AnthropicUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicEventMessage {
    #[serde(deserialize_with = "lenient::or_default")]
    usage: Option<AnthropicUsage>,
    #[serde(deserialize_with = "lenient::or_default")]
    container: Option<AnthropicContainer>,
    /// The whole content, which some servers repeat at the end.
    #[serde(deserialize_with = "lenient::or_default")]
    content: Vec<Value>,
}

/// The place in which the vendor's own tools run.
#[derive(Deserialize)]
struct AnthropicContainer {
    id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicDelta {
    #[serde(deserialize_with = "lenient::or_default")]
    r#type: String,
    #[serde(deserialize_with = "lenient::or_default")]
    text: String,
    #[serde(deserialize_with = "lenient::or_default")]
    thinking: String,
    #[serde(deserialize_with = "lenient::or_default")]
    signature: String,
    #[serde(deserialize_with = "lenient::or_default")]
    partial_json: String,
    citation: Value,
    #[serde(deserialize_with = "lenient::or_default")]
    stop_reason: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    container: Option<AnthropicContainer>,
}

/// Counts cover the whole message; the largest of each kind counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnthropicUsage {
    #[serde(deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::or_default")]
    output_tokens_details: Option<AnthropicOutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnthropicOutputDetails {
    #[serde(deserialize_with = "lenient::count")]
    thinking_tokens: Option<u64>,
}

impl AnthropicUsage {
    fn take_over(&mut self, later: Self) {
        // Some servers report zeros first or last.
        self.input_tokens = later.input_tokens.max(self.input_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.max(self.cache_creation_input_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.max(self.cache_read_input_tokens);
        self.output_tokens = later.output_tokens.max(self.output_tokens);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details.take());
    }

    /// Adds cache reads and writes to the input tokens, which the vendor counts separately.
    fn to_usage(&self) -> Option<TokenUsage> {
        let (input, output) = (self.input_tokens, self.output_tokens);
        if input.is_none() && output.is_none() {
            return None;
        }
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let stored = self.cache_creation_input_tokens.unwrap_or(0);
        let thinking = self.output_tokens_details.as_ref().and_then(|of| of.thinking_tokens);
        Some(TokenUsage {
            input_tokens: input.unwrap_or(0).saturating_add(cached).saturating_add(stored),
            cached_tokens: cached,
            output_tokens: output.unwrap_or(0),
            reasoning_tokens: thinking.unwrap_or(0),
            estimated: false,
        })
    }
}

/// A block that has not been closed.
#[derive(Debug)]
enum AnthropicOpenBlock {
    /// Text: its start in the whole text, and the citations that support it.
    Text {
        start: usize,
        cited: Vec<Value>,
    },
    /// The block to be sent back, and the fields that grow with each delta.
    Thinking {
        block: Map<String, Value>,
        thinking: String,
        signature: String,
    },
    Redacted(String),
    Tool(VendorCall),
    /// A block of another kind, such as a call of a vendor's own tool, whose input arrives in deltas.
    Other {
        json: String,
        input: String,
    },
}

/// The state of a step's stream.
#[derive(Debug, Default)]
pub(crate) struct AnthropicFold {
    output: StepOutput,
    open: BTreeMap<u64, AnthropicOpenBlock>,
    ending: StepEnding,
    usage: AnthropicUsage,
    is_paused: bool,
    /// True once blocks of the present message came in pieces; its text starts here.
    has_pieces: bool,
    message_start: usize,
    /// The usage of the messages that ended with a pause.
    earlier: Vec<Option<TokenUsage>>,
    /// The content that a pause is continued with, and its size.
    pause: Pause,
    pause_bytes: usize,
}

impl AnthropicFold {
    /// Creates a fold for a transcript that already uses the identifiers in `taken`.
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self { output: StepOutput::new(taken), ..Self::default() }
    }

    /// Returns true when the model is done and only the end marker is missing.
    pub(crate) fn is_done(&self) -> bool {
        self.ending.stop.is_some() && !self.is_paused
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
        if frame.event == "error" {
            return Err(error::in_stream(data));
        }
        let event: AnthropicEvent<'_> = match serde_json::from_str(data) {
            Ok(event) => event,
            Err(_) => match frame.mend_json() {
                Some(mended) => return self.fold_frame(&mended, ready),
                None if !is_known(&frame.event) => return Ok(StreamProgress::More),
                None => return Err(error::unavailable_step("its stream contains an unreadable frame")),
            },
        };
        match event.r#type.as_str() {
            "message_start" => {
                let message = event.message.unwrap_or_default();
                self.usage.take_over(message.usage.unwrap_or_default());
                self.take_container(message.container);
            }
            "content_block_start" => {
                self.has_pieces = true;
                self.begin_block(event.index, event.content_block, ready)?;
            }
            "content_block_delta" => {
                self.has_pieces = true;
                self.append_delta(event.index, event.delta.unwrap_or_default(), ready);
            }
            "content_block_stop" => {
                self.complete_text(event.index, event.content_block, ready);
                self.close_block(event.index, ready)?;
            }
            "message_delta" => self.fold_message_delta(event.delta.unwrap_or_default(), event.usage)?,
            "message" => return self.fold_document(data.to_owned(), ready),
            "message_stop" if self.closes_with_pause(ready)? => {
                self.earlier.push(std::mem::take(&mut self.usage).to_usage());
                return Ok(StreamProgress::Pause);
            }
            "message_stop" => {
                self.take_blocks(&event.message.unwrap_or_default().content, ready)?;
                self.ending.stop.get_or_insert(StopReason::Done);
                return self.finish_step(ready);
            }
            "error" => return Err(error::in_stream(data)),
            // Some servers report errors without the event's type.
            "" => {
                if let Some(error) = error::parse_reported(data) {
                    return Err(error);
                }
            }
            // Pings and unknown events.
            _ => {}
        }
        if self.output.is_full() {
            self.ending = StepEnding { stop: Some(StopReason::OutputFull), is_unknown: false };
            return self.output.finish_step(self.ending, self.whole_usage(), ready);
        }
        Ok(StreamProgress::More)
    }

    /// Prepares for the response that continues a paused step, and returns what to request it with.
    pub(crate) fn resume_step(&mut self, surrogates: &Surrogates) -> Pause {
        self.open.clear();
        self.ending = StepEnding::default();
        self.is_paused = false;
        (self.has_pieces, self.message_start) = (false, self.output.written_text().len());
        let content = self.pause.content.iter();
        let joined = content.map(|json| surrogates.join_text(json.get())).map(RawValue::from_string);
        Pause { content: joined.flatten().collect(), container: self.pause.container.clone() }
    }

    /// Folds a whole message, or a part of it like that of a frame.
    pub(crate) fn fold_document(
        &mut self,
        json: String,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let message: Value = serde_json::from_str(&json).unwrap_or_default();
        let Some(blocks) = message.get("content").and_then(Value::as_array) else {
            if message.get("type").is_some_and(|kind| kind == "message") {
                return Ok(StreamProgress::More);
            }
            return self.fold_frame(&SseFrame { event: String::new(), data: json }, ready);
        };
        self.take_blocks(blocks, ready)?;
        let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
        let usage = message.get("usage").and_then(|usage| serde_json::from_value(usage.clone()).ok());
        self.fold_message_delta(
            AnthropicDelta { stop_reason: text("stop_reason"), ..AnthropicDelta::default() },
            usage,
        )?;
        self.ending.stop.get_or_insert(StopReason::Done);
        self.finish_step(ready)
    }

    /// Takes the blocks of a whole message. Of one that came in pieces before, it emits the rest of the text, and the calls if
    /// there were none.
    fn take_blocks(&mut self, blocks: &[Value], ready: &mut VecDeque<StepEvent>) -> Result<(), StepError> {
        let kind = |block: &Value| block.get("type").and_then(Value::as_str).map(str::to_owned);
        if self.has_pieces {
            self.close_all(ready)?;
            let texts = blocks.iter().filter(|block| kind(block).as_deref() == Some("text"));
            let whole: String = texts.filter_map(|block| block.get("text")?.as_str()).collect();
            let shown = self.output.written_text().get(self.message_start..).unwrap_or_default();
            let rest = whole.strip_prefix(shown).unwrap_or_default().to_owned();
            self.output.emit_text(rest, ready);
        }
        let (has_pieces, has_calls) = (self.has_pieces, self.output.has_calls());
        let lacks = |block: &Value| !has_pieces || (!has_calls && kind(block).as_deref() == Some("tool_use"));
        for (block, index) in blocks.iter().zip(0..).filter(|(block, _)| lacks(block)) {
            let json = RawValue::from_string(block.to_string()).ok();
            self.begin_block(index, json.as_deref(), ready)?;
            self.close_block(index, ready)?;
        }
        Ok(())
    }

    /// Emits what the end of a block adds to its text.
    fn complete_text(&mut self, index: u64, block: Option<&RawValue>, ready: &mut VecDeque<StepEvent>) {
        let Some(AnthropicOpenBlock::Text { start, .. }) = self.open.get(&index) else { return };
        let block: Option<Value> = block.and_then(|json| serde_json::from_str(json.get()).ok());
        let whole = block.as_ref().and_then(|block| block.get("text")?.as_str()).unwrap_or_default();
        let shown = self.output.written_text().get(*start..).unwrap_or_default();
        let rest = whole.strip_prefix(shown).unwrap_or_default().to_owned();
        self.output.emit_text(rest, ready);
    }

    /// Handles the end of the stream. Finishes the step if the model is done, and fails otherwise.
    pub(crate) fn end_stream(
        &mut self,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        if !self.is_done() {
            return Err(error::unavailable_step("its stream ended early"));
        }
        self.finish_step(ready)
    }

    /// Closes the blocks that the server left open, and finishes the step.
    fn finish_step(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<StreamProgress, StepError> {
        self.close_all(ready)?;
        self.output.finish_step(self.ending, self.whole_usage(), ready)
    }

    fn close_all(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<(), StepError> {
        while let Some(index) = self.open.keys().next().copied() {
            self.close_block(index, ready)?;
        }
        Ok(())
    }

    /// Closes the blocks at the end of a message. Returns true for a pause that another request can continue.
    fn closes_with_pause(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<bool, StepError> {
        self.close_all(ready)?;
        Ok(self.can_continue())
    }

    fn begin_block(
        &mut self,
        index: u64,
        block: Option<&RawValue>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<(), StepError> {
        let unreadable = || error::unavailable_step("its stream contains an unreadable frame");
        let json = block.map_or("{}", RawValue::get);
        let mut fields: Map<String, Value> = serde_json::from_str(json).map_err(|_| unreadable())?;
        let text = |fields: &Map<String, Value>, name: &str| {
            fields.get(name).and_then(Value::as_str).unwrap_or("").to_owned()
        };
        let open = match text(&fields, "type").as_str() {
            "text" => {
                let start = self.output.written_text().len();
                self.output.emit_text(text(&fields, "text"), ready);
                let cited = fields.remove("citations").and_then(|cited| match cited {
                    Value::Array(cited) => Some(cited),
                    _ => None,
                });
                AnthropicOpenBlock::Text { start, cited: cited.unwrap_or_default() }
            }
            "thinking" => {
                let thinking = text(&fields, "thinking");
                let signature = text(&fields, "signature");
                fields.remove("thinking");
                self.output.emit_reasoning(thinking.clone(), ready);
                AnthropicOpenBlock::Thinking { block: fields, thinking, signature }
            }
            "redacted_thinking" => AnthropicOpenBlock::Redacted(json.to_owned()),
            "tool_use" => {
                // Arguments arrive in deltas; some servers send them whole here.
                let whole =
                    fields.get("input").filter(|input| input.as_object().is_some_and(|it| !it.is_empty()));
                AnthropicOpenBlock::Tool(VendorCall {
                    id: text(&fields, "id"),
                    tool: text(&fields, "name"),
                    arguments: whole.map(Value::to_string).unwrap_or_default(),
                })
            }
            _ => {
                self.output.count_bytes(json.len());
                AnthropicOpenBlock::Other { json: json.to_owned(), input: String::new() }
            }
        };
        // The block before it has no end.
        self.close_block(index, ready)?;
        if self.open.len() >= OPEN_MAX {
            return Err(error::unavailable_step("its stream has too many open blocks"));
        }
        self.open.insert(index, open);
        Ok(())
    }

    fn append_delta(&mut self, index: u64, delta: AnthropicDelta, ready: &mut VecDeque<StepEvent>) {
        // Some servers leave out the start of a text.
        if !self.open.contains_key(&index) && self.open.len() < OPEN_MAX {
            let start = self.output.written_text().len();
            let begun = match delta.r#type.as_str() {
                "text_delta" => Some(AnthropicOpenBlock::Text { start, cited: Vec::new() }),
                "thinking_delta" => {
                    let mut block = Map::new();
                    block.insert("type".to_owned(), "thinking".into());
                    Some(AnthropicOpenBlock::Thinking {
                        block,
                        thinking: String::new(),
                        signature: String::new(),
                    })
                }
                _ => None,
            };
            self.open.extend(begun.map(|begun| (index, begun)));
        }
        match (self.open.get_mut(&index), delta.r#type.as_str()) {
            (Some(AnthropicOpenBlock::Text { .. }), "text_delta") => self.output.emit_text(delta.text, ready),
            (Some(AnthropicOpenBlock::Text { cited, .. }), "citations_delta") if cited.len() < CITED_MAX => {
                cited.push(delta.citation);
            }
            (Some(AnthropicOpenBlock::Thinking { thinking, .. }), "thinking_delta") => {
                thinking.push_str(&delta.thinking);
                self.output.emit_reasoning(delta.thinking, ready);
            }
            (Some(AnthropicOpenBlock::Thinking { signature, .. }), "signature_delta") => {
                self.output.count_bytes(delta.signature.len());
                signature.push_str(&delta.signature);
            }
            (Some(AnthropicOpenBlock::Tool(call)), "input_json_delta") => {
                self.output.count_bytes(delta.partial_json.len());
                extend_arguments(&mut call.arguments, &delta.partial_json);
            }
            (Some(AnthropicOpenBlock::Other { input, .. }), "input_json_delta") => {
                self.output.count_bytes(delta.partial_json.len());
                input.push_str(&delta.partial_json);
            }
            _ => {}
        }
    }

    fn close_block(&mut self, index: u64, ready: &mut VecDeque<StepEvent>) -> Result<(), StepError> {
        match self.open.remove(&index) {
            Some(AnthropicOpenBlock::Thinking { mut block, thinking, signature })
                if !signature.is_empty() =>
            {
                block.insert("thinking".to_owned(), thinking.into());
                block.insert("signature".to_owned(), signature.into());
                let json = Value::Object(block).to_string();
                self.keep_block(json.clone());
                self.output.emit_opaque(WireFormat::Anthropic, json, ready);
            }
            Some(AnthropicOpenBlock::Redacted(json)) => {
                self.keep_block(json.clone());
                self.output.emit_opaque(WireFormat::Anthropic, json, ready);
            }
            Some(AnthropicOpenBlock::Tool(call)) => {
                self.output.accept_call(call, ready)?;
            }
            Some(AnthropicOpenBlock::Text { start, cited }) => {
                let text = &self.output.written_text()[start..];
                let at = start + text.len();
                // The vendor rejects empty text.
                if !text.trim().is_empty() {
                    let mut block = json!({"type": "text", "text": text});
                    if !cited.is_empty() {
                        block["citations"] = Value::from(cited.as_slice());
                    }
                    self.keep_block(block.to_string());
                }
                for citation in cited {
                    self.output.emit_citation(parse_citation(&citation, at), ready);
                }
            }
            Some(AnthropicOpenBlock::Other { json, input }) => self.keep_block(with_input(json, &input)),
            // The vendor rejects an unsigned thinking block.
            Some(AnthropicOpenBlock::Thinking { .. }) | None => {}
        }
        Ok(())
    }

    /// Keeps a block for the continuation of a pause.
    fn keep_block(&mut self, json: String) {
        self.pause_bytes += json.len();
        if self.pause_bytes <= PAUSED_MAX_BYTES {
            self.pause.content.extend(RawValue::from_string(json));
        }
    }

    /// Returns true for a pause that another request can continue. Calls of the service's tools are answered first.
    fn can_continue(&self) -> bool {
        self.is_paused
            && !self.output.has_calls()
            && !self.pause.content.is_empty()
            && self.pause_bytes <= PAUSED_MAX_BYTES
            && self.earlier.len() < PAUSES_MAX
    }

    /// Returns the usage of all messages of the step, `None` if it is unknown of one.
    fn whole_usage(&self) -> Option<TokenUsage> {
        let messages = self.earlier.iter().copied().chain([self.usage.to_usage()]);
        messages.reduce(|sum, next| Some(sum?.saturating_add(next?))).flatten()
    }

    fn take_container(&mut self, container: Option<AnthropicContainer>) {
        if let Some(container) = container {
            self.pause.container = Some(container.id);
        }
    }

    fn fold_message_delta(
        &mut self,
        delta: AnthropicDelta,
        usage: Option<AnthropicUsage>,
    ) -> Result<(), StepError> {
        self.usage.take_over(usage.unwrap_or_default());
        self.take_container(delta.container);
        let Some(reason) = delta.stop_reason else { return Ok(()) };
        self.is_paused = reason == "pause_turn";
        // A pause that is not continued leaves the text incomplete.
        self.ending.take_reason(&reason)
    }
}

/// Returns a block with the input that arrived in deltas.
fn with_input(json: String, input: &str) -> String {
    if input.trim().is_empty() {
        return json;
    }
    match (serde_json::from_str::<Map<String, Value>>(&json), serde_json::from_str(input)) {
        (Ok(mut block), Ok(input)) => {
            block.insert("input".to_owned(), input);
            Value::Object(block).to_string()
        }
        (Err(_), _) | (_, Err(_)) => json,
    }
}

/// Reads the source of a block that ends at byte `at`.
fn parse_citation(citation: &Value, at: usize) -> Option<VendorCitation> {
    let text = |field| cited::text_field(citation, field);
    let (title, quote) = (text("title"), text("cited_text"));
    match text("type") {
        "web_search_result_location" => cited::cite_page(at, text("url"), title, quote),
        "search_result_location" => cited::page_or_file(at, text("source"), title, quote),
        "char_location" | "page_location" | "content_block_location" => cited::cite_file(
            at,
            text("document_title"),
            cited::number_field(citation, "start_page_number"),
            quote,
        ),
        _ => None,
    }
}

/// Returns true for events that must be readable.
fn is_known(event: &str) -> bool {
    matches!(event, "" | "message") || event.starts_with("message_") || event.starts_with("content_block_")
}

#[cfg(test)]
mod tests;
