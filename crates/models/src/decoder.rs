//! Decodes a response body into the events of a step. Pure: no connection, no clock.

use std::collections::{HashSet, VecDeque};

use domain::step::{StepError, StepEvent};
use serde_json::value::RawValue;

use crate::adaptation::Refused;
use crate::format::Format;
use crate::lenient;
use crate::output::Next;
use crate::pause::Pause;
use crate::sse::{Frame, Frames};
use crate::surrogates::Surrogates;
use crate::{anthropic, chat_completions, error, gemini, responses};

/// Limits a step's response body.
pub const STREAM_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The bytes of a mark that may precede a body.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The state of a step's stream, by format.
#[derive(Debug)]
enum Fold {
    Anthropic(anthropic::Fold),
    ChatCompletions(chat_completions::Fold),
    Gemini(gemini::Fold),
    Responses(responses::Fold),
}

impl Fold {
    fn frame(&mut self, frame: &Frame, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        match self {
            Self::Anthropic(fold) => fold.frame(frame, ready),
            Self::ChatCompletions(fold) => fold.frame(frame, ready),
            Self::Gemini(fold) => fold.frame(frame, ready),
            Self::Responses(fold) => fold.frame(frame, ready),
        }
    }

    /// Folds a document: the whole answer, or a part of it like that of a frame.
    fn document(&mut self, json: String, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        match self {
            Self::Anthropic(fold) => fold.document(json, ready),
            Self::Responses(fold) => fold.document(json, ready),
            Self::ChatCompletions(_) | Self::Gemini(_) => {
                self.frame(&Frame { event: String::new(), data: json }, ready)
            }
        }
    }

    fn end(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        match self {
            Self::Anthropic(fold) => fold.end(ready),
            Self::ChatCompletions(fold) => fold.end(ready),
            Self::Gemini(fold) => fold.end(ready),
            Self::Responses(fold) => fold.end(ready),
        }
    }
}

/// The kind of a body, by its first byte: servers mistake its type, and send documents where a stream was requested.
#[derive(Debug)]
enum Body {
    /// Nothing but white space has come.
    Unknown(Vec<u8>),
    Stream,
    /// JSON: one document, or several.
    Document(Vec<u8>),
}

impl Default for Body {
    fn default() -> Self {
        Self::Unknown(Vec::new())
    }
}

/// Decodes the response to a step, in chunks of any size. Buffers one frame at most, or one document.
#[derive(Debug)]
pub struct Decoder {
    frames: Frames,
    fold: Fold,
    surrogates: Surrogates,
    read_bytes: usize,
    body: Body,
    /// The error that came instead of any output.
    refusal: Option<String>,
}

impl Decoder {
    /// Creates a decoder. `taken` contains the call identifiers that the transcript already uses.
    #[must_use]
    pub fn new(format: Format, taken: HashSet<String>) -> Self {
        let fold = match format {
            Format::Anthropic => Fold::Anthropic(anthropic::Fold::new(taken)),
            Format::ChatCompletions => Fold::ChatCompletions(chat_completions::Fold::new(taken)),
            Format::Gemini => Fold::Gemini(gemini::Fold::new(taken)),
            Format::Responses => Fold::Responses(responses::Fold::new(taken)),
        };
        let (frames, surrogates) = (Frames::default(), Surrogates::default());
        Self { frames, fold, surrogates, read_bytes: 0, body: Body::default(), refusal: None }
    }

    /// Returns true when the model is done and only usage and the end marker are missing.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.fold {
            Fold::Anthropic(fold) => fold.is_done(),
            Fold::ChatCompletions(fold) => fold.is_done(),
            Fold::Gemini(fold) => fold.is_done(),
            // Its last event contains everything.
            Fold::Responses(_) => false,
        }
    }

    /// Returns true once something of the model's output has arrived.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        match &self.fold {
            Fold::Anthropic(fold) => fold.has_begun(),
            Fold::ChatCompletions(fold) => fold.has_begun(),
            Fold::Gemini(fold) => fold.has_begun(),
            Fold::Responses(fold) => fold.has_begun(),
        }
    }

    /// Decodes bytes and appends the events to `ready`.
    ///
    /// # Errors
    /// Returns the error that the stream reports, or an error for an unreadable or endless stream.
    pub fn push(&mut self, bytes: &[u8], ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        self.read_bytes += bytes.len();
        if self.read_bytes > STREAM_MAX_BYTES {
            return Err(error::unavailable("its stream is too long"));
        }
        match &mut self.body {
            Body::Stream => self.frames.push(bytes),
            Body::Document(document) => {
                document.extend_from_slice(bytes);
                return Ok(Next::More);
            }
            Body::Unknown(begun) => {
                begun.extend_from_slice(bytes);
                let begun = std::mem::take(begun);
                let is_blank = |byte: &u8| byte.is_ascii_whitespace() || BYTE_ORDER_MARK.contains(byte);
                match begun.iter().find(|byte| !is_blank(byte)) {
                    None => {
                        self.body = Body::Unknown(begun);
                        return Ok(Next::More);
                    }
                    Some(b'{' | b'[') => {
                        self.body = Body::Document(begun);
                        return Ok(Next::More);
                    }
                    Some(_) => {
                        self.body = Body::Stream;
                        self.frames.push(&begun);
                    }
                }
            }
        }
        while let Some(frame) = self.frames.next().map_err(|error| error::unavailable(error.to_string()))? {
            match self.frame(frame, ready)? {
                Next::More => {}
                next => return Ok(next),
            }
        }
        Ok(Next::More)
    }

    /// Takes what a paused step is continued with. The next bytes are those of the response to that.
    pub(crate) fn resume(&mut self) -> Pause {
        self.frames = Frames::default();
        self.body = Body::default();
        match &mut self.fold {
            Fold::Anthropic(fold) => fold.resume(&self.surrogates),
            Fold::ChatCompletions(_) | Fold::Gemini(_) | Fold::Responses(_) => Pause::default(),
        }
    }

    /// Handles the end of the body.
    ///
    /// # Errors
    /// Fails like [`Self::push`], and for an incomplete response.
    pub fn ended(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        if let Body::Document(document) = &mut self.body {
            let document = std::mem::take(document);
            match self.documents(&document, ready)? {
                Next::More => {}
                next => return Ok(next),
            }
        }
        while let Some(frame) = self.frames.rest() {
            match self.frame(frame, ready)? {
                Next::More => {}
                next => return Ok(next),
            }
        }
        self.cut(ready)
    }

    /// Handles a broken or silent connection. Finishes the step if the model is done.
    ///
    /// # Errors
    /// Fails when the model is not done.
    pub fn cut(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        let from = ready.len();
        let next = self.fold.end(ready);
        self.surrogates.join(ready, from);
        next
    }

    /// Decodes a body of JSON: one document, a list of them, or one a line.
    fn documents(&mut self, body: &[u8], ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        let unreadable = || error::unavailable("its answer cannot be read");
        let mut text = String::from_utf8_lossy(body).trim_start_matches('\u{feff}').to_owned();
        self.surrogates.replace(&mut text);
        let parts = match parts_of(&text) {
            Some(parts) => parts,
            None => lenient::mended_json(&text).as_deref().and_then(parts_of).ok_or_else(unreadable)?,
        };
        for part in parts {
            let from = ready.len();
            let refusal = self.possible_refusal(&part);
            let next = self.fold.document(part, ready);
            self.surrogates.join(ready, from);
            self.refusal = refusal.filter(|_| next.is_err());
            match next? {
                Next::More => {}
                next => return Ok(next),
            }
        }
        Ok(Next::More)
    }

    fn frame(&mut self, mut frame: Frame, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        self.surrogates.replace(&mut frame.data);
        let from = ready.len();
        let next = self.fold.frame(&frame, ready);
        self.surrogates.join(ready, from);
        if next.is_err() {
            self.refusal = self.possible_refusal(&frame.data);
        }
        next
    }

    /// Returns the error that JSON reports, unless something of the output has arrived.
    fn possible_refusal(&self, json: &str) -> Option<String> {
        (!self.has_begun()).then(|| error::reported_refusal(json)).flatten()
    }

    /// Takes the refusal of a response that had no output but `error`.
    pub(crate) fn take_refusal(&mut self, error: &StepError) -> Option<Refused> {
        let body = self.refusal.take()?;
        Some(Refused::new(error.clone(), error::reported_status(&body), &body))
    }
}

/// Returns the JSON values of a body, and those of lists in it.
fn parts_of(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.ok()?.get();
        if value.starts_with('[') {
            let list: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            parts.extend(list.into_iter().map(|part| part.get().to_owned()));
        } else {
            parts.push(value.to_owned());
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Decodes a stream and returns its text, and whether it reports usage.
    fn decode(format: Format, frames: &[impl ToString]) -> Result<(String, bool), StepError> {
        let mut decoder = Decoder::new(format, HashSet::new());
        let (mut text, mut finished, mut ready) = (String::new(), None, VecDeque::new());
        let mut next = Next::More;
        for frame in frames {
            if next == Next::More {
                next = decoder.push(format!("data: {}\n\n", frame.to_string()).as_bytes(), &mut ready)?;
            }
        }
        if next == Next::More {
            decoder.ended(&mut ready)?;
        }
        for event in ready {
            match event {
                StepEvent::Text(more) => text.push_str(&more),
                StepEvent::Finished { usage, .. } => finished = Some(usage.is_some()),
                _ => {}
            }
        }
        Ok((text, finished.expect("it was finished")))
    }

    /// Builds a stream that says "Hi" and contains `bad` in all fields without text.
    fn stream(format: Format, bad: &Value) -> Vec<Value> {
        match format {
            Format::ChatCompletions => vec![
                json!({"object": bad, "usage": bad, "choices": [null, {"index": bad, "finish_reason": bad, "delta": {
                    "role": bad, "content": "Hi", "refusal": bad, "reasoning": bad, "reasoning_content": bad,
                    "annotations": bad, "tool_calls": [null]}}], "created": bad}),
                json!({"choices": [{"delta": {}, "message": null, "finish_reason": "stop"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": bad,
                    "prompt_tokens_details": bad, "completion_tokens_details": {"reasoning_tokens": bad}}}),
            ],
            Format::Anthropic => vec![
                json!({"type": "message_start", "message": {"id": bad, "usage": {"input_tokens": 1,
                    "cache_read_input_tokens": bad, "output_tokens_details": bad}}}),
                json!({"type": bad, "index": bad, "message": bad, "usage": bad}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "citations": bad}}),
                json!({"type": "content_block_delta", "index": 0, "usage": bad, "message": bad, "delta":
                    {"type": "text_delta", "text": "Hi", "signature": bad, "thinking": bad, "stop_reason": bad}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "text": bad}, "usage": bad}),
                json!({"type": "message_stop"}),
            ],
            Format::Responses => vec![
                json!({"type": bad, "output_index": bad, "content_index": bad, "summary_index": bad}),
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi",
                    "summary_index": bad, "annotation": bad}),
                json!({"type": "response.completed", "response": {"error": null, "incomplete_details": bad,
                    "usage": {"input_tokens": 1, "output_tokens": bad, "input_tokens_details": bad,
                    "output_tokens_details": {"reasoning_tokens": bad}}}}),
            ],
            Format::Gemini => vec![
                json!({"usageMetadata": bad, "promptFeedback": bad, "candidates": [null, {"index": bad,
                    "finishReason": bad, "groundingMetadata": bad, "citationMetadata": bad, "content": {"role": bad,
                    "parts": [{"text": "Hi", "thought": bad, "thoughtSignature": null}]}}]}),
                json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1,
                    "candidatesTokenCount": bad, "thoughtsTokenCount": bad}}),
            ],
        }
    }

    #[test]
    fn one_odd_field_takes_no_word_of_an_answer_along() {
        for format in Format::ALL {
            for bad in [json!(null), json!([1]), json!({"a": 1}), json!(-1.5), json!(false)] {
                let decoded = decode(format, &stream(format, &bad));
                assert_eq!(decoded, Ok(("Hi".to_owned(), true)), "{format:?} {bad}");
            }
        }
    }

    #[test]
    fn a_field_that_comes_twice_is_read_as_its_last() {
        for (format, frames) in [
            (
                Format::ChatCompletions,
                r#"{"choices":[{"index":0,"index":0,"delta":{"content":"H","content":"Hi"},"finish_reason":"stop"}]}"#,
            ),
            (
                Format::Gemini,
                r#"{"candidates":[],"candidates":[{"content":{"parts":[{"text":"H","text":"Hi"}]},"finishReason":"STOP"}]}"#,
            ),
        ] {
            let mut decoder = Decoder::new(format, HashSet::new());
            let mut ready = VecDeque::new();
            let stream = format!("data: {frames}\n\n");
            assert_eq!(decoder.push(stream.as_bytes(), &mut ready), Ok(Next::More), "{format:?}");
            decoder.ended(&mut ready).expect("it was finished");
            assert_eq!(ready.front(), Some(&StepEvent::Text("Hi".to_owned())), "{format:?}");
        }
    }

    #[test]
    fn a_character_is_joined_whose_halves_come_in_two_frames() {
        for format in Format::ALL {
            let mut frames = Vec::new();
            for frame in stream(format, &Value::Null) {
                let frame = frame.to_string();
                if frame.contains("\"Hi\"") {
                    frames.extend(
                        [r#""H\ud83d""#, r#""\uDE00i\ud83d""#].map(|half| frame.replace("\"Hi\"", half)),
                    );
                } else {
                    frames.push(frame);
                }
            }
            assert_eq!(decode(format, &frames).unwrap().0, "H😀i\u{fffd}", "{format:?}");
        }
        let mut decoder = Decoder::new(Format::ChatCompletions, HashSet::new());
        let mut ready = VecDeque::new();
        let document = r#"{"choices":[{"message":{"content":"cut \ud83d"},"finish_reason":"length"}]}"#;
        decoder.push(document.as_bytes(), &mut ready).unwrap();
        decoder.ended(&mut ready).unwrap();
        let text = StepEvent::Text("cut ".into());
        assert_eq!((ready.len(), &ready[0], &ready[1]), (3, &text, &StepEvent::Text("\u{fffd}".into())));
    }
}
