//! Encodes a script's actions in each format.

mod anthropic;
mod chat_completions;
mod gemini;
mod responses;

use bytes::Bytes;
use serde_json::Value;

use crate::request::{VendorFormat, VendorRefusal, VendorRequest};
use crate::script::Cite;

/// The number of characters of a call's arguments in one frame.
const ARGUMENTS_PIECE_CHARS: usize = 7;

/// The position of a token that is encoded when it is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenSlot {
    /// The index of the block, or of the format's equivalent.
    pub(crate) index: u64,
    /// The frame's number, in formats that number frames.
    pub(crate) number: u64,
}

pub(crate) struct ToolUse {
    /// Its identifier; `None` generates one, an empty one is omitted.
    pub(crate) id: Option<String>,
    pub(crate) tool: String,
    pub(crate) arguments: String,
}

impl ToolUse {
    fn split_arguments(&self) -> Vec<String> {
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
    fn claim_uncited(&mut self) -> std::ops::Range<usize> {
        let claim = self.cited..self.text.len();
        self.cited = self.text.len();
        claim
    }
}

/// The end of an answer.
pub(crate) struct AnswerEnd<'a> {
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
    fn encode_start(&mut self, usage: Option<u64>) -> Vec<Bytes>;
    fn encode_text(&mut self, text: &str) -> Vec<Bytes>;
    fn encode_reasoning(&mut self, text: &str) -> Vec<Bytes>;
    fn encode_hidden_reasoning(&mut self) -> Vec<Bytes>;
    fn encode_refusal(&mut self, text: &str) -> Vec<Bytes>;
    fn encode_calls(&mut self, calls: &[ToolUse], interleave: bool) -> Vec<Bytes>;
    /// Encodes a search by the vendor's own tool, if the format has it.
    fn encode_search(&mut self, _query: &str) -> Vec<Bytes> {
        Vec::new()
    }
    /// Encodes a citation of the text since the last one.
    fn encode_citation(&mut self, cite: &Cite) -> Vec<Bytes>;
    /// Prepares a token: returns the frames before it, and its position.
    fn reserve_token(&mut self) -> (Vec<Bytes>, TokenSlot);
    /// Encodes a prepared token.
    fn encode_token(&self, slot: TokenSlot, text: &str) -> Bytes;
    /// Encodes an error inside the stream.
    fn encode_error(&mut self, message: &str, code: &Value) -> Bytes;
    fn encode_end(&mut self, end: &AnswerEnd<'_>) -> Vec<Bytes>;
}

/// Creates the encoder of a request's format.
pub(crate) fn new_encoder(request: &VendorRequest) -> Box<dyn VendorStream> {
    let (seed, model) = (format!("{:016x}", request.fingerprint), request.model.clone());
    match request.format {
        VendorFormat::Anthropic => Box::new(anthropic::AnthropicEncoder::new(seed, model)),
        VendorFormat::ChatCompletions => Box::new(chat_completions::ChatCompletionsEncoder::new(seed, model)),
        VendorFormat::Gemini => Box::new(gemini::Contents::new(seed, model)),
        VendorFormat::Responses => Box::new(responses::Items::new(seed, model)),
    }
}

/// Returns the body of a rejection.
pub(crate) fn refusal_body(format: VendorFormat, refusal: &VendorRefusal) -> Value {
    match format {
        VendorFormat::Anthropic => anthropic::refusal_body(refusal),
        VendorFormat::ChatCompletions | VendorFormat::Responses => chat_completions::refusal_body(refusal),
        VendorFormat::Gemini => gemini::refusal_body(refusal),
    }
}

/// Returns the list of models.
pub(crate) fn model_list(format: VendorFormat, names: &[&str]) -> Value {
    match format {
        VendorFormat::Anthropic => anthropic::model_list(names),
        VendorFormat::ChatCompletions | VendorFormat::Responses => chat_completions::model_list(names),
        VendorFormat::Gemini => gemini::model_list(names),
    }
}

fn is_too_long(refusal: &VendorRefusal) -> bool {
    refusal.code.as_deref() == Some("context_length_exceeded")
}

fn data_frame(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// Encodes a frame whose event is its type.
fn named_frame(data: &Value) -> Bytes {
    Bytes::from(format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or("")))
}
