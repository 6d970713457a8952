//! Encodes a script's actions in each format.

mod anthropic;
mod chat_completions;
mod gemini;
mod responses;

use bytes::Bytes;
use serde_json::Value;

use crate::request::{Format, Refusal, Request};
use crate::script::Cite;

/// The number of characters of a call's arguments in one frame.
const ARGUMENTS_PIECE_CHARS: usize = 7;

/// The position of a token that is encoded when it is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// The index of the block, or of the format's equivalent.
    pub(crate) index: u64,
    /// The frame's number, in formats that number frames.
    pub(crate) number: u64,
}

/// A scripted call.
pub(crate) struct ToolUse {
    /// Its identifier; `None` generates one, an empty one is omitted.
    pub(crate) id: Option<String>,
    pub(crate) tool: String,
    /// The arguments, verbatim.
    pub(crate) arguments: String,
}

impl ToolUse {
    /// Splits the arguments.
    fn pieces(&self) -> Vec<String> {
        let characters: Vec<char> = self.arguments.chars().collect();
        characters.chunks(ARGUMENTS_PIECE_CHARS).map(|piece| piece.iter().collect()).collect()
    }
}

/// The current text, and the end of its cited part.
#[derive(Default)]
struct CitableText {
    text: String,
    cited: usize,
}

impl CitableText {
    /// Returns the uncited rest of the text and marks it as cited. Another source of the same text gets the same range.
    fn claim(&mut self) -> std::ops::Range<usize> {
        let claim = self.cited..self.text.len();
        self.cited = self.text.len();
        claim
    }
}

/// The end of an answer.
pub(crate) struct End<'a> {
    /// The stop reason, by its name in Chat Completions or in the format; `None` derives it from the actions, an empty
    /// one is omitted.
    pub(crate) finish: Option<&'a str>,
    /// Input and output tokens, if they are reported.
    pub(crate) usage: Option<(u64, u64)>,
    /// The number of end markers.
    pub(crate) done: u8,
}

/// The encoder of one answer.
pub(crate) trait VendorStream: Send {
    /// Encodes the start.
    fn begin(&mut self, usage: Option<u64>) -> Vec<Bytes>;
    /// Encodes text.
    fn say(&mut self, text: &str) -> Vec<Bytes>;
    /// Encodes reasoning.
    fn think(&mut self, text: &str) -> Vec<Bytes>;
    /// Encodes hidden reasoning.
    fn think_hidden(&mut self) -> Vec<Bytes>;
    /// Encodes a refusal.
    fn refuse(&mut self, text: &str) -> Vec<Bytes>;
    /// Encodes adjacent calls.
    fn call(&mut self, calls: &[ToolUse], interleave: bool) -> Vec<Bytes>;
    /// Encodes a search by the vendor's own tool, if the format has it.
    fn search(&mut self, _query: &str) -> Vec<Bytes> {
        Vec::new()
    }
    /// Encodes a citation of the text since the last one.
    fn cite(&mut self, cite: &Cite) -> Vec<Bytes>;
    /// Prepares a token: returns the frames before it, and its position.
    fn slot(&mut self) -> (Vec<Bytes>, Slot);
    /// Encodes a prepared token.
    fn token(&self, slot: Slot, text: &str) -> Bytes;
    /// Encodes an error inside the stream.
    fn error(&mut self, message: &str, code: &Value) -> Bytes;
    /// Encodes the end.
    fn end(&mut self, end: &End<'_>) -> Vec<Bytes>;
}

/// Creates the encoder of a request's format.
pub(crate) fn of(request: &Request) -> Box<dyn VendorStream> {
    let (seed, model) = (format!("{:016x}", request.fingerprint), request.model.clone());
    match request.format {
        Format::Anthropic => Box::new(anthropic::Messages::new(seed, model)),
        Format::ChatCompletions => Box::new(chat_completions::Chunks::new(seed, model)),
        Format::Gemini => Box::new(gemini::Contents::new(seed, model)),
        Format::Responses => Box::new(responses::Items::new(seed, model)),
    }
}

/// Returns the body of a rejection.
pub(crate) fn refusal(format: Format, refusal: &Refusal) -> Value {
    match format {
        Format::Anthropic => anthropic::refusal(refusal),
        Format::ChatCompletions | Format::Responses => chat_completions::refusal(refusal),
        Format::Gemini => gemini::refusal(refusal),
    }
}

/// Returns the list of models.
pub(crate) fn models(format: Format, names: &[&str]) -> Value {
    match format {
        Format::Anthropic => anthropic::models(names),
        Format::ChatCompletions | Format::Responses => chat_completions::models(names),
        Format::Gemini => gemini::models(names),
    }
}

fn is_too_long(refusal: &Refusal) -> bool {
    refusal.code.as_deref() == Some("context_length_exceeded")
}

fn frame(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// Encodes a frame whose event is its type.
fn named_frame(data: &Value) -> Bytes {
    Bytes::from(format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or("")))
}
