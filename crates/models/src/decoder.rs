//! The body of an answer, as it arrives, becomes the events of a step. Pure: no connection, no clock.

use std::collections::{HashSet, VecDeque};

use domain::step::{StepError, StepEvent};

use crate::format::Format;
use crate::output::Next;
use crate::sse::{Frame, Frames};
use crate::{anthropic, chat_completions, error, gemini, responses};

/// The most that is read of one step's stream.
pub const STREAM_MAX_BYTES: usize = 64 * 1024 * 1024;

/// What a step's stream has told so far, by its format.
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

    fn document(&mut self, body: &[u8], ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        match self {
            Self::ChatCompletions(fold) => fold.document(body, ready),
            Self::Anthropic(_) | Self::Gemini(_) | Self::Responses(_) => Err(error::document(body)),
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

/// Decodes one answer, however its bytes arrive. Holds one frame at most, or the one document.
#[derive(Debug)]
pub struct Decoder {
    frames: Frames,
    fold: Fold,
    read_bytes: usize,
    /// A server that does not stream answers with one JSON document.
    whole: Option<Vec<u8>>,
}

impl Decoder {
    /// For an event stream of this format, or for one document, in an exchange that has calls of these identifiers already.
    #[must_use]
    pub fn new(format: Format, is_document: bool, taken: HashSet<String>) -> Self {
        let whole = is_document.then(Vec::new);
        let fold = match format {
            Format::Anthropic => Fold::Anthropic(anthropic::Fold::new(taken)),
            Format::ChatCompletions => Fold::ChatCompletions(chat_completions::Fold::new(taken)),
            Format::Gemini => Fold::Gemini(gemini::Fold::new(taken)),
            Format::Responses => Fold::Responses(responses::Fold::new(taken)),
        };
        Self { frames: Frames::default(), fold, read_bytes: 0, whole }
    }

    /// Whether the model was done, so that only usage and the end's mark are missing.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.fold {
            Fold::ChatCompletions(fold) => fold.is_done(),
            Fold::Gemini(fold) => fold.is_done(),
            // Their end is marked, and tells all.
            Fold::Anthropic(_) | Fold::Responses(_) => false,
        }
    }

    /// Takes bytes; what they tell is put behind what is ready.
    ///
    /// # Errors
    /// What the stream says, or that it cannot be read or does not end.
    pub fn push(&mut self, bytes: &[u8], ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        self.read_bytes += bytes.len();
        if self.read_bytes > STREAM_MAX_BYTES {
            return Err(error::unavailable("its stream does not end"));
        }
        if let Some(whole) = &mut self.whole {
            whole.extend_from_slice(bytes);
            return Ok(Next::More);
        }
        self.frames.push(bytes);
        while let Some(frame) = self.frames.next().map_err(|error| error::unavailable(error.to_string()))? {
            if let Next::End = self.fold.frame(&frame, ready)? {
                return Ok(Next::End);
            }
        }
        Ok(Next::More)
    }

    /// The body has ended.
    ///
    /// # Errors
    /// As [`Self::push`], and when the answer was cut.
    pub fn ended(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        if let Some(whole) = self.whole.take() {
            self.fold.document(&whole, ready)?;
        }
        if let Some(frame) = self.frames.rest()
            && let Next::End = self.fold.frame(&frame, ready)?
        {
            return Ok(Next::End);
        }
        self.fold.end(ready)
    }

    /// The connection broke or fell silent: what the model was done with stands.
    ///
    /// # Errors
    /// When it was not done.
    pub fn cut(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        self.fold.end(ready)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What a step comes to whose stream has these frames: its text, and whether its usage is known.
    fn said(format: Format, frames: &[Value]) -> Result<(String, bool), StepError> {
        let mut decoder = Decoder::new(format, false, HashSet::new());
        let (mut text, mut finished, mut ready) = (String::new(), None, VecDeque::new());
        let mut next = Next::More;
        for frame in frames {
            if next == Next::More {
                next = decoder.push(format!("data: {frame}\n\n").as_bytes(), &mut ready)?;
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

    /// A stream of each format that says "Hi", in which `odd` stands wherever no word of the answer does.
    fn stream(format: Format, odd: &Value) -> Vec<Value> {
        match format {
            Format::ChatCompletions => vec![
                json!({"object": odd, "usage": odd, "choices": [null, {"index": odd, "finish_reason": odd, "delta": {
                    "role": odd, "content": "Hi", "refusal": odd, "reasoning": odd, "reasoning_content": odd,
                    "annotations": odd, "tool_calls": [null]}}], "created": odd}),
                json!({"choices": [{"delta": {}, "message": null, "finish_reason": "stop"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": odd,
                    "prompt_tokens_details": odd, "completion_tokens_details": {"reasoning_tokens": odd}}}),
            ],
            Format::Anthropic => vec![
                json!({"type": "message_start", "message": {"id": odd, "usage": {"input_tokens": 1,
                    "cache_read_input_tokens": odd, "output_tokens_details": odd}}}),
                json!({"type": odd, "index": odd, "message": odd, "usage": odd}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "citations": odd}}),
                json!({"type": "content_block_delta", "index": 0, "usage": odd, "message": odd, "delta":
                    {"type": "text_delta", "text": "Hi", "signature": odd, "thinking": odd, "stop_reason": odd}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "text": odd}, "usage": odd}),
                json!({"type": "message_stop"}),
            ],
            Format::Responses => vec![
                json!({"type": odd, "output_index": odd, "content_index": odd, "summary_index": odd}),
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi",
                    "summary_index": odd, "annotation": odd}),
                json!({"type": "response.completed", "response": {"error": null, "incomplete_details": odd,
                    "usage": {"input_tokens": 1, "output_tokens": odd, "input_tokens_details": odd,
                    "output_tokens_details": {"reasoning_tokens": odd}}}}),
            ],
            Format::Gemini => vec![
                json!({"usageMetadata": odd, "promptFeedback": odd, "candidates": [null, {"index": odd,
                    "finishReason": odd, "groundingMetadata": odd, "citationMetadata": odd, "content": {"role": odd,
                    "parts": [{"text": "Hi", "thought": odd, "thoughtSignature": null}]}}]}),
                json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1,
                    "candidatesTokenCount": odd, "thoughtsTokenCount": odd}}),
            ],
        }
    }

    #[test]
    fn one_odd_field_takes_no_word_of_an_answer_along() {
        for format in Format::ALL {
            for odd in [json!(null), json!([1]), json!({"a": 1}), json!(-1.5), json!(false)] {
                let came = said(format, &stream(format, &odd));
                assert_eq!(came, Ok(("Hi".to_owned(), true)), "{format:?} {odd}");
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
            let mut decoder = Decoder::new(format, false, HashSet::new());
            let mut ready = VecDeque::new();
            let stream = format!("data: {frames}\n\n");
            assert_eq!(decoder.push(stream.as_bytes(), &mut ready), Ok(Next::More), "{format:?}");
            decoder.ended(&mut ready).expect("it was finished");
            assert_eq!(ready.front(), Some(&StepEvent::Text("Hi".to_owned())), "{format:?}");
        }
    }
}
