//! How each format says what a script does.

mod anthropic;
mod chat_completions;
mod gemini;
mod responses;

use bytes::Bytes;
use serde_json::Value;

use crate::request::{Format, Refusal, Request};
use crate::script::Cite;

/// How many characters of a call's arguments go into one frame.
const ARGUMENTS_PIECE_CHARS: usize = 7;

/// Where a token goes that is made when it is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    /// The block, or whatever the format counts by.
    pub(crate) index: u64,
    /// The frame's number, where the format numbers them.
    pub(crate) number: u64,
}

/// A call that a script makes.
pub(crate) struct ToolUse {
    /// Its identifier; `None` to make one up, empty to leave it out.
    pub(crate) id: Option<String>,
    pub(crate) tool: String,
    /// What is sent, as it stands.
    pub(crate) arguments: String,
}

impl ToolUse {
    /// The arguments in pieces.
    fn pieces(&self) -> Vec<String> {
        let characters: Vec<char> = self.arguments.chars().collect();
        characters.chunks(ARGUMENTS_PIECE_CHARS).map(|piece| piece.iter().collect()).collect()
    }
}

/// What was said of the present text, and how much of it has its source named.
#[derive(Default)]
struct Said {
    text: String,
    cited: usize,
}

impl Said {
    /// What has no source yet, from now on with one. Another source of the same words gets them again.
    fn claim(&mut self) -> std::ops::Range<usize> {
        let claim = self.cited..self.text.len();
        self.cited = self.text.len();
        claim
    }
}

/// How an answer ends.
pub(crate) struct End<'a> {
    /// The reason, by the names of Chat Completions or the format's own; `None` for what the actions suggest, empty
    /// for none.
    pub(crate) finish: Option<&'a str>,
    /// Tokens read and written, if they are told.
    pub(crate) usage: Option<(u64, u64)>,
    /// How often the end is marked.
    pub(crate) done: u8,
}

/// A format as it is spoken in one answer.
pub(crate) trait VendorStream: Send {
    /// What comes before everything.
    fn begin(&mut self, usage: Option<u64>) -> Vec<Bytes>;
    /// A piece of text.
    fn say(&mut self, text: &str) -> Vec<Bytes>;
    /// A piece of a thought.
    fn think(&mut self, text: &str) -> Vec<Bytes>;
    /// A thought that is not shown.
    fn think_hidden(&mut self) -> Vec<Bytes>;
    /// A piece of a refusal.
    fn refuse(&mut self, text: &str) -> Vec<Bytes>;
    /// Calls next to each other.
    fn call(&mut self, calls: &[ToolUse], interleave: bool) -> Vec<Bytes>;
    /// A source of what was said since the last one.
    fn cite(&mut self, cite: &Cite) -> Vec<Bytes>;
    /// Makes place for a token: what must be sent before it, and where it goes.
    fn slot(&mut self) -> (Vec<Bytes>, Slot);
    /// The token in its place.
    fn token(&self, slot: Slot, text: &str) -> Bytes;
    /// An error in mid-stream.
    fn error(&mut self, message: &str, code: &Value) -> Bytes;
    /// The end.
    fn end(&mut self, end: &End<'_>) -> Vec<Bytes>;
}

/// The voice of a request's format.
pub(crate) fn of(request: &Request) -> Box<dyn VendorStream> {
    let (seed, model) = (format!("{:016x}", request.fingerprint), request.model.clone());
    match request.format {
        Format::Anthropic => Box::new(anthropic::Messages::new(seed, model)),
        Format::ChatCompletions => Box::new(chat_completions::Chunks::new(seed, model)),
        Format::Gemini => Box::new(gemini::Contents::new(seed, model)),
        Format::Responses => Box::new(responses::Items::new(seed, model)),
    }
}

/// A refusal's body in the format.
pub(crate) fn refusal(format: Format, refusal: &Refusal) -> Value {
    match format {
        Format::Anthropic => anthropic::refusal(refusal),
        Format::ChatCompletions | Format::Responses => chat_completions::refusal(refusal),
        Format::Gemini => gemini::refusal(refusal),
    }
}

/// A list of models in the format.
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

/// A frame whose event is named by its type.
fn named_frame(data: &Value) -> Bytes {
    Bytes::from(format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or("")))
}
