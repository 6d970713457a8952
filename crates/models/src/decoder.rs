//! Decodes a response body into the events of a step. Pure: no connection, no clock.

use std::collections::{HashSet, VecDeque};

use domain::step::{StepError, StepEvent};
use serde_json::value::RawValue;

use crate::adaptation::RequestRefusal;
use crate::format::WireFormat;
use crate::lenient;
use crate::output::StreamProgress;
use crate::pause::Pause;
use crate::sse::{SseFrame, SseParser};
use crate::surrogates::Surrogates;
use crate::{anthropic, chat_completions, error, gemini, responses};

/// Limits a step's response body.
pub const STREAM_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The bytes of a mark that may precede a body.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The state of a step's stream, by format.
#[derive(Debug)]
enum FormatFold {
    Anthropic(anthropic::AnthropicFold),
    ChatCompletions(chat_completions::CompletionsFold),
    Gemini(gemini::GeminiFold),
    Responses(responses::ResponsesFold),
}

impl FormatFold {
    fn fold_frame(
        &mut self,
        frame: &SseFrame,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        match self {
            Self::Anthropic(fold) => fold.fold_frame(frame, ready),
            Self::ChatCompletions(fold) => fold.fold_frame(frame, ready),
            Self::Gemini(fold) => fold.fold_frame(frame, ready),
            Self::Responses(fold) => fold.fold_frame(frame, ready),
        }
    }

    /// Folds a document: the whole answer, or a part of it like that of a frame.
    fn fold_document(
        &mut self,
        json: String,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        match self {
            Self::Anthropic(fold) => fold.fold_document(json, ready),
            Self::Responses(fold) => fold.fold_document(json, ready),
            Self::ChatCompletions(_) | Self::Gemini(_) => {
                self.fold_frame(&SseFrame { event: String::new(), data: json }, ready)
            }
        }
    }

    fn end_stream(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<StreamProgress, StepError> {
        match self {
            Self::Anthropic(fold) => fold.end_stream(ready),
            Self::ChatCompletions(fold) => fold.end_stream(ready),
            Self::Gemini(fold) => fold.end_stream(ready),
            Self::Responses(fold) => fold.end_stream(ready),
        }
    }
}

/// The kind of a body, by its first byte: servers mistake its type, and send documents where a stream was requested.
#[derive(Debug)]
enum BodyKind {
    /// Nothing but white space has come.
    Unknown(Vec<u8>),
    Stream,
    /// JSON: one document, or several.
    Document(Vec<u8>),
}

impl Default for BodyKind {
    fn default() -> Self {
        Self::Unknown(Vec::new())
    }
}

/// Decodes the response to a step, in chunks of any size. Buffers one frame at most, or one document.
#[derive(Debug)]
pub struct StepDecoder {
    frames: SseParser,
    fold: FormatFold,
    surrogates: Surrogates,
    read_bytes: usize,
    body: BodyKind,
    /// The error that came instead of any output.
    refusal: Option<String>,
}

impl StepDecoder {
    /// Creates a decoder. `taken` contains the call identifiers that the transcript already uses.
    #[must_use]
    pub fn new(format: WireFormat, taken: HashSet<String>) -> Self {
        let fold = match format {
            WireFormat::Anthropic => FormatFold::Anthropic(anthropic::AnthropicFold::new(taken)),
            WireFormat::ChatCompletions => {
                FormatFold::ChatCompletions(chat_completions::CompletionsFold::new(taken))
            }
            WireFormat::Gemini => FormatFold::Gemini(gemini::GeminiFold::new(taken)),
            WireFormat::Responses => FormatFold::Responses(responses::ResponsesFold::new(taken)),
        };
        let (frames, surrogates) = (SseParser::default(), Surrogates::default());
        Self { frames, fold, surrogates, read_bytes: 0, body: BodyKind::default(), refusal: None }
    }

    /// Returns true when the model is done and only usage and the end marker are missing.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.fold {
            FormatFold::Anthropic(fold) => fold.is_done(),
            FormatFold::ChatCompletions(fold) => fold.is_done(),
            FormatFold::Gemini(fold) => fold.is_done(),
            // Its last event contains everything.
            FormatFold::Responses(_) => false,
        }
    }

    /// Returns true once something of the model's output has arrived.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        match &self.fold {
            FormatFold::Anthropic(fold) => fold.has_begun(),
            FormatFold::ChatCompletions(fold) => fold.has_begun(),
            FormatFold::Gemini(fold) => fold.has_begun(),
            FormatFold::Responses(fold) => fold.has_begun(),
        }
    }

    /// Decodes bytes and appends the events to `ready`.
    ///
    /// # Errors
    /// Returns the error that the stream reports, or an error for an unreadable or endless stream.
    pub fn push_bytes(
        &mut self,
        bytes: &[u8],
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        self.read_bytes += bytes.len();
        if self.read_bytes > STREAM_MAX_BYTES {
            return Err(error::unavailable_step("its stream is too long"));
        }
        match &mut self.body {
            BodyKind::Stream => self.frames.push_bytes(bytes),
            BodyKind::Document(document) => {
                document.extend_from_slice(bytes);
                return Ok(StreamProgress::More);
            }
            BodyKind::Unknown(begun) => {
                begun.extend_from_slice(bytes);
                let begun = std::mem::take(begun);
                let is_blank = |byte: &u8| byte.is_ascii_whitespace() || BYTE_ORDER_MARK.contains(byte);
                match begun.iter().find(|byte| !is_blank(byte)) {
                    None => {
                        self.body = BodyKind::Unknown(begun);
                        return Ok(StreamProgress::More);
                    }
                    Some(b'{' | b'[') => {
                        self.body = BodyKind::Document(begun);
                        return Ok(StreamProgress::More);
                    }
                    Some(_) => {
                        self.body = BodyKind::Stream;
                        self.frames.push_bytes(&begun);
                    }
                }
            }
        }
        while let Some(frame) =
            self.frames.next_frame().map_err(|error| error::unavailable_step(error.to_string()))?
        {
            match self.decode_frame(frame, ready)? {
                StreamProgress::More => {}
                next => return Ok(next),
            }
        }
        Ok(StreamProgress::More)
    }

    /// Takes the pause to continue a step with. The next bytes belong to the response to the continuation.
    pub(crate) fn resume_step(&mut self) -> Pause {
        self.frames = SseParser::default();
        self.body = BodyKind::default();
        match &mut self.fold {
            FormatFold::Anthropic(fold) => fold.resume_step(&self.surrogates),
            FormatFold::ChatCompletions(_) | FormatFold::Gemini(_) | FormatFold::Responses(_) => {
                Pause::default()
            }
        }
    }

    /// Handles the end of the body.
    ///
    /// # Errors
    /// Fails like [`Self::push_bytes`], and for an incomplete response.
    pub fn end_body(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<StreamProgress, StepError> {
        if let BodyKind::Document(document) = &mut self.body {
            let document = std::mem::take(document);
            match self.decode_documents(&document, ready)? {
                StreamProgress::More => {}
                next => return Ok(next),
            }
        }
        while let Some(frame) = self.frames.take_rest_frame() {
            match self.decode_frame(frame, ready)? {
                StreamProgress::More => {}
                next => return Ok(next),
            }
        }
        self.cut_stream(ready)
    }

    /// Handles a broken or silent connection. Finishes the step if the model is done.
    ///
    /// # Errors
    /// Fails when the model is not done.
    pub fn cut_stream(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<StreamProgress, StepError> {
        let from = ready.len();
        let next = self.fold.end_stream(ready);
        self.surrogates.join_halves(ready, from);
        next
    }

    /// Decodes a body of JSON: one document, a list of them, or one a line.
    fn decode_documents(
        &mut self,
        body: &[u8],
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let unreadable = || error::unavailable_step("its answer cannot be read");
        let mut text = String::from_utf8_lossy(body).trim_start_matches('\u{feff}').to_owned();
        self.surrogates.replace_lone(&mut text);
        let parts = match parts_of(&text) {
            Some(parts) => parts,
            None => lenient::mended_json(&text).as_deref().and_then(parts_of).ok_or_else(unreadable)?,
        };
        for part in parts {
            let from = ready.len();
            let refusal = self.possible_refusal(&part);
            let next = self.fold.fold_document(part, ready);
            self.surrogates.join_halves(ready, from);
            self.refusal = refusal.filter(|_| next.is_err());
            match next? {
                StreamProgress::More => {}
                next => return Ok(next),
            }
        }
        Ok(StreamProgress::More)
    }

    fn decode_frame(
        &mut self,
        mut frame: SseFrame,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        self.surrogates.replace_lone(&mut frame.data);
        let from = ready.len();
        let next = self.fold.fold_frame(&frame, ready);
        self.surrogates.join_halves(ready, from);
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
    pub(crate) fn take_refusal(&mut self, error: &StepError) -> Option<RequestRefusal> {
        let body = self.refusal.take()?;
        Some(RequestRefusal::new(error.clone(), error::reported_status(&body), &body))
    }
}

/// Returns the JSON values of a body; a list yields its elements.
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
    fn decode_frames(format: WireFormat, frames: &[impl ToString]) -> Result<(String, bool), StepError> {
        let mut decoder = StepDecoder::new(format, HashSet::new());
        let (mut text, mut finished, mut ready) = (String::new(), None, VecDeque::new());
        let mut next = StreamProgress::More;
        for frame in frames {
            if next == StreamProgress::More {
                next =
                    decoder.push_bytes(format!("data: {}\n\n", frame.to_string()).as_bytes(), &mut ready)?;
            }
        }
        if next == StreamProgress::More {
            decoder.end_body(&mut ready)?;
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
    fn stream_with_bad_fields(format: WireFormat, bad: &Value) -> Vec<Value> {
        match format {
            WireFormat::ChatCompletions => vec![
                json!({"object": bad, "usage": bad, "choices": [null, {"index": bad, "finish_reason": bad, "delta": {
                    "role": bad, "content": "Hi", "refusal": bad, "reasoning": bad, "reasoning_content": bad,
                    "annotations": bad, "tool_calls": [null]}}], "created": bad}),
                json!({"choices": [{"delta": {}, "message": null, "finish_reason": "stop"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": bad,
                    "prompt_tokens_details": bad, "completion_tokens_details": {"reasoning_tokens": bad}}}),
            ],
            WireFormat::Anthropic => vec![
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
            WireFormat::Responses => vec![
                json!({"type": bad, "output_index": bad, "content_index": bad, "summary_index": bad}),
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi",
                    "summary_index": bad, "annotation": bad}),
                json!({"type": "response.completed", "response": {"error": null, "incomplete_details": bad,
                    "usage": {"input_tokens": 1, "output_tokens": bad, "input_tokens_details": bad,
                    "output_tokens_details": {"reasoning_tokens": bad}}}}),
            ],
            WireFormat::Gemini => vec![
                json!({"usageMetadata": bad, "promptFeedback": bad, "candidates": [null, {"index": bad,
                    "finishReason": bad, "groundingMetadata": bad, "citationMetadata": bad, "content": {"role": bad,
                    "parts": [{"text": "Hi", "thought": bad, "thoughtSignature": null}]}}]}),
                json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1,
                    "candidatesTokenCount": bad, "thoughtsTokenCount": bad}}),
            ],
        }
    }

    #[test]
    fn odd_field_keeps_answer_text() {
        for format in WireFormat::ALL {
            for bad in [json!(null), json!([1]), json!({"a": 1}), json!(-1.5), json!(false)] {
                let decoded = decode_frames(format, &stream_with_bad_fields(format, &bad));
                assert_eq!(decoded, Ok(("Hi".to_owned(), true)), "{format:?} {bad}");
            }
        }
    }

    #[test]
    fn duplicate_field_takes_last() {
        for (format, frames) in [
            (
                WireFormat::ChatCompletions,
                r#"{"choices":[{"index":0,"index":0,"delta":{"content":"H","content":"Hi"},"finish_reason":"stop"}]}"#,
            ),
            (
                WireFormat::Gemini,
                r#"{"candidates":[],"candidates":[{"content":{"parts":[{"text":"H","text":"Hi"}]},"finishReason":"STOP"}]}"#,
            ),
        ] {
            let mut decoder = StepDecoder::new(format, HashSet::new());
            let mut ready = VecDeque::new();
            let stream = format!("data: {frames}\n\n");
            assert_eq!(
                decoder.push_bytes(stream.as_bytes(), &mut ready),
                Ok(StreamProgress::More),
                "{format:?}"
            );
            decoder.end_body(&mut ready).expect("it was finished");
            assert_eq!(ready.front(), Some(&StepEvent::Text("Hi".to_owned())), "{format:?}");
        }
    }

    #[test]
    fn surrogate_halves_joined_across_frames() {
        for format in WireFormat::ALL {
            let mut frames = Vec::new();
            for frame in stream_with_bad_fields(format, &Value::Null) {
                let frame = frame.to_string();
                if frame.contains("\"Hi\"") {
                    frames.extend(
                        [r#""H\ud83d""#, r#""\uDE00i\ud83d""#].map(|half| frame.replace("\"Hi\"", half)),
                    );
                } else {
                    frames.push(frame);
                }
            }
            assert_eq!(decode_frames(format, &frames).unwrap().0, "H😀i\u{fffd}", "{format:?}");
        }
        let mut decoder = StepDecoder::new(WireFormat::ChatCompletions, HashSet::new());
        let mut ready = VecDeque::new();
        let document = r#"{"choices":[{"message":{"content":"cut \ud83d"},"finish_reason":"length"}]}"#;
        decoder.push_bytes(document.as_bytes(), &mut ready).unwrap();
        decoder.end_body(&mut ready).unwrap();
        let text = StepEvent::Text("cut ".into());
        assert_eq!((ready.len(), &ready[0], &ready[1]), (3, &text, &StepEvent::Text("\u{fffd}".into())));
    }
}
