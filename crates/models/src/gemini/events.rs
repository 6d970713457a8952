//! Folds the frames of a stream into the events of a step. Pure: no connection, no clock.

use std::collections::{HashSet, VecDeque};

use domain::step::{StepError, StepEvent, StopReason, TokenUsage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error;
use crate::finish::StepEnding;
use crate::format::WireFormat;
use crate::gemini::grounding::Grounding;
use crate::lenient;
use crate::output::{StepOutput, StreamProgress, VendorCall, merge_usage};
use crate::sse::SseFrame;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiChunk<'a> {
    #[serde(default, borrow)]
    candidates: Option<Vec<Option<GeminiCandidate<'a>>>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    prompt_feedback: Option<Feedback>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage_metadata: Option<GeminiUsage>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCandidate<'a> {
    #[serde(default, deserialize_with = "lenient::or_default")]
    index: u32,
    #[serde(default, borrow)]
    content: Option<GeminiOutputContent<'a>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    finish_reason: Option<String>,
    #[serde(default)]
    grounding_metadata: Option<Value>,
    #[serde(default)]
    citation_metadata: Option<Value>,
}

#[derive(Deserialize)]
struct GeminiOutputContent<'a> {
    #[serde(default, borrow)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiOutputPart<'a> {
    #[serde(default)]
    text: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    thought: bool,
    #[serde(default, deserialize_with = "lenient::or_default")]
    thought_signature: Option<String>,
    #[serde(default, borrow)]
    function_call: Option<GeminiFunctionCall<'a>>,
}

#[derive(Deserialize)]
struct GeminiFunctionCall<'a> {
    #[serde(default, deserialize_with = "lenient::or_default")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    name: String,
    #[serde(default, borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default, deserialize_with = "lenient::or_default")]
    block_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GeminiUsage {
    #[serde(deserialize_with = "lenient::count")]
    prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    cached_content_token_count: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    candidates_token_count: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    thoughts_token_count: Option<u64>,
}

impl GeminiUsage {
    /// Adds thoughts to the output tokens, which the vendor counts separately. Cached content is already part of the
    /// input.
    fn to_usage(&self) -> Option<TokenUsage> {
        if self.prompt_token_count.is_none() && self.candidates_token_count.is_none() {
            return None;
        }
        let of = |count: Option<u64>| count.unwrap_or(0);
        let thoughts = of(self.thoughts_token_count);
        Some(TokenUsage {
            input_tokens: of(self.prompt_token_count).saturating_add(of(self.tool_use_prompt_token_count)),
            cached_tokens: of(self.cached_content_token_count),
            output_tokens: of(self.candidates_token_count).saturating_add(thoughts),
            reasoning_tokens: thoughts,
            estimated: false,
        })
    }
}

/// The state of a step's stream.
#[derive(Debug, Default)]
pub(crate) struct GeminiFold {
    output: StepOutput,
    ending: StepEnding,
    usage: Option<TokenUsage>,
    /// Signed parts of the current text. They are emitted after it, so that they do not split it.
    signed: Vec<String>,
    grounding: Grounding,
}

impl GeminiFold {
    /// Creates a fold for a transcript that already uses the identifiers in `taken`.
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self { output: StepOutput::new(taken), ..Self::default() }
    }

    /// Returns true when the model is done. The stream has no end marker.
    pub(crate) fn is_done(&self) -> bool {
        self.ending.stop.is_some()
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
        let chunk: GeminiChunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            Err(_) => match frame.mend_json() {
                Some(mended) => return self.fold_frame(&mended, ready),
                None if data.is_empty() || data == "[DONE]" || !frame.event.is_empty() => {
                    return Ok(StreamProgress::More);
                }
                None => return Err(unreadable_frame()),
            },
        };
        if !error::is_empty(&chunk.error) {
            return Err(error::in_stream(data));
        }
        if chunk.candidates.is_none()
            && let Some(error) = error::parse_reported(data)
        {
            return Err(error);
        }
        merge_usage(&mut self.usage, chunk.usage_metadata.as_ref().and_then(GeminiUsage::to_usage));
        for candidate in
            chunk.candidates.into_iter().flatten().flatten().filter(|candidate| candidate.index == 0)
        {
            for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
                self.fold_part(part.get(), ready)?;
            }
            self.grounding.add_metadata(candidate.grounding_metadata, candidate.citation_metadata);
            if let Some(reason) = candidate.finish_reason {
                if reason == "MISSING_THOUGHT_SIGNATURE" {
                    return Err(error::rejected_step(format!("it stopped for the reason {reason}")));
                }
                self.ending.take_reason(&reason)?;
            }
        }
        // A blocked question has no candidates.
        if chunk.prompt_feedback.and_then(|feedback| feedback.block_reason).is_some() {
            self.ending = StepEnding { stop: Some(StopReason::Filtered), is_unknown: false };
        }
        if self.output.is_full() {
            self.ending = StepEnding { stop: Some(StopReason::OutputFull), is_unknown: false };
            return self.end_stream(ready);
        }
        Ok(StreamProgress::More)
    }

    /// Handles the end of the stream. Finishes the step if the model is done, and fails otherwise.
    pub(crate) fn end_stream(
        &mut self,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        if !self.is_done() {
            return Err(error::unavailable_step("its stream ended early"));
        }
        self.emit_signed(ready);
        self.grounding.emit_sources(&mut self.output, ready);
        self.output.finish_step(self.ending, self.usage, ready)
    }

    /// Folds a part. A signed part is also emitted verbatim, after its content.
    fn fold_part(&mut self, json: &str, ready: &mut VecDeque<StepEvent>) -> Result<(), StepError> {
        let part: GeminiOutputPart<'_> = serde_json::from_str(json).map_err(|_| unreadable_frame())?;
        let is_signed = part.thought_signature.is_some_and(|signature| !signature.is_empty());
        let text = part.text.unwrap_or_default();
        if part.function_call.is_some() || part.thought {
            self.emit_signed(ready);
        }
        let is_emitted = match part.function_call {
            Some(call) => {
                let arguments = call.args.map(RawValue::get).filter(|args| *args != "null").unwrap_or("");
                let id = call.id.unwrap_or_default();
                let call = VendorCall { id, tool: call.name, arguments: arguments.to_owned() };
                self.output.accept_call(call, ready)?
            }
            None if part.thought => {
                self.output.emit_reasoning(text, ready);
                true
            }
            None => {
                self.output.emit_text(text, ready);
                if is_signed {
                    self.output.count_bytes(json.len());
                    self.signed.push(json.to_owned());
                }
                false
            }
        };
        if is_emitted && is_signed {
            self.output.emit_opaque(WireFormat::Gemini, json.to_owned(), ready);
        }
        Ok(())
    }

    fn emit_signed(&mut self, ready: &mut VecDeque<StepEvent>) {
        for json in std::mem::take(&mut self.signed) {
            self.output.emit_opaque(WireFormat::Gemini, json, ready);
        }
    }
}

fn unreadable_frame() -> StepError {
    error::unavailable_step("its stream contains an unreadable frame")
}

#[cfg(test)]
mod tests;
