//! Folds the frames of a stream into the events of a step. Pure: no connection, no clock.

use std::collections::{HashSet, VecDeque};

use domain::citation::{CITED_MAX, VendorCitation};
use domain::limits::{CALLS_MAX, STEP_MAX_BYTES};
use domain::step::{Purpose, StepCall, StepError, StepEvent, StopReason, TokenUsage};
use domain::step_note::StepNote;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::thoughts::{ThoughtPiece, Thoughts};
use crate::cited;
use crate::error;
use crate::finish::StepEnding;
use crate::lenient;
use crate::output::{CallIds, StreamProgress, extend_arguments, is_object, merge_usage};
use crate::sse::SseFrame;

#[derive(Deserialize)]
struct CompletionsChunk<'a> {
    #[serde(default, borrow)]
    choices: Option<Vec<Option<CompletionsChoice<'a>>>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: Option<CompletionsUsage>,
    /// Where Groq reports usage.
    #[serde(default, deserialize_with = "lenient::or_default")]
    x_groq: Option<Groq>,
    #[serde(default)]
    error: Value,
    #[serde(default, borrow)]
    object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Groq {
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: Option<CompletionsUsage>,
}

#[derive(Deserialize)]
struct CompletionsChoice<'a> {
    #[serde(default, deserialize_with = "lenient::or_default")]
    index: u32,
    #[serde(default, borrow)]
    delta: Option<CompletionsDelta<'a>>,
    /// Set by servers that do not stream.
    #[serde(default, borrow)]
    message: Option<CompletionsDelta<'a>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    finish_reason: Option<String>,
    /// Where Kimi reports usage.
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: Option<CompletionsUsage>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct CompletionsDelta<'a> {
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    refusal: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    reasoning_content: Option<String>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    reasoning: Option<String>,
    #[serde(default, borrow)]
    tool_calls: Option<Vec<Option<CallPiece<'a>>>>,
    /// The call of servers that know only one.
    #[serde(default, borrow)]
    function_call: Option<FunctionPiece<'a>>,
    #[serde(default)]
    annotations: Option<Value>,
}

#[derive(Deserialize)]
struct CallPiece<'a> {
    #[serde(default, deserialize_with = "lenient::or_default")]
    index: Option<u32>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    id: Option<String>,
    #[serde(default, borrow)]
    function: Option<FunctionPiece<'a>>,
}

#[derive(Deserialize)]
struct FunctionPiece<'a> {
    #[serde(default, deserialize_with = "lenient::or_default")]
    name: Option<String>,
    #[serde(default, borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CompletionsUsage {
    #[serde(default, deserialize_with = "lenient::count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    completion_tokens: Option<u64>,
    /// The name of some servers for the tokens of the prompt.
    #[serde(default, deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    /// The name of some servers for the tokens of the completion.
    #[serde(default, deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default, deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    #[serde(default, deserialize_with = "lenient::count")]
    reasoning_tokens: Option<u64>,
}

impl CompletionsUsage {
    fn to_usage(&self) -> Option<TokenUsage> {
        let read = self.prompt_tokens.max(self.input_tokens);
        let written = self.completion_tokens.max(self.output_tokens);
        if read.is_none() && written.is_none() {
            return None;
        }
        Some(TokenUsage {
            input_tokens: read.unwrap_or(0),
            cached_tokens: self.prompt_tokens_details.as_ref().and_then(|of| of.cached_tokens).unwrap_or(0),
            output_tokens: written.unwrap_or(0),
            reasoning_tokens: self
                .completion_tokens_details
                .as_ref()
                .and_then(|of| of.reasoning_tokens)
                .unwrap_or(0),
            estimated: false,
        })
    }
}

/// A call whose arguments are incomplete.
#[derive(Debug, Default)]
struct PendingCompletionsCall {
    index: Option<u32>,
    id: String,
    tool: String,
    arguments: String,
}

/// The state of a step's stream.
#[derive(Debug, Default)]
pub(crate) struct CompletionsFold {
    calls: Vec<PendingCompletionsCall>,
    /// Separates thoughts from the text.
    thoughts: Thoughts,
    /// The content that came in pieces, with its thoughts: some servers repeat all of it at the end.
    streamed: String,
    /// The whole text and its annotations. Citations are emitted at the end, when positions in the text are known.
    written: String,
    annotations: Vec<Value>,
    ending: StepEnding,
    usage: Option<TokenUsage>,
    refused: bool,
    bytes: usize,
    /// The calls beyond [`CALLS_MAX`].
    left_out: HashSet<(Option<u32>, String)>,
    /// The identifiers that the transcript already uses.
    ids: CallIds,
}

impl CompletionsFold {
    /// Creates a fold for a transcript that already uses the identifiers in `taken`.
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self { ids: CallIds::new(taken), ..Self::default() }
    }

    /// Returns true when the model is done and only usage and the end marker are missing.
    pub(crate) fn is_done(&self) -> bool {
        self.ending.stop.is_some()
    }

    /// Returns true once something of the output has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.bytes > 0
    }

    pub(crate) fn fold_frame(
        &mut self,
        frame: &SseFrame,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let data = frame.data.trim();
        if data == "[DONE]" {
            if self.ending.stop.is_none() && (self.bytes > 0 || !self.calls.is_empty()) {
                self.ending.stop = Some(StopReason::Done);
            }
            return self.end_stream(ready);
        }
        if frame.event == "error" {
            return Err(error::in_stream(data));
        }
        let known = matches!(frame.event.as_str(), "" | "message");
        match serde_json::from_str(data) {
            Ok(chunk) => self.fold_chunk(data, chunk, ready),
            Err(_) => match frame.mend_json() {
                Some(mended) => self.fold_frame(&mended, ready),
                None if data.is_empty() || !known => Ok(StreamProgress::More),
                None => Err(error::unavailable_step("its stream contains an unreadable frame")),
            },
        }
    }

    /// Handles the end of the stream. Finishes the step if the model is done, and fails otherwise.
    pub(crate) fn end_stream(
        &mut self,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let Some(stop) = self.ending.stop else {
            return Err(error::unavailable_step("its stream ended early"));
        };
        if let Some(piece) = self.thoughts.take_held() {
            self.emit_piece(piece, ready);
        }
        let mut calls = std::mem::take(&mut self.calls);
        calls.retain(|call| !call.tool.is_empty());
        if stop == StopReason::OutputFull
            && calls.last().is_some_and(|call| serde_json::from_str::<&RawValue>(&call.arguments).is_err())
        {
            // The output limit truncated the call, so its arguments are unknown.
            calls.pop();
        }
        let stop = match stop {
            StopReason::Done | StopReason::Calls if self.refused => StopReason::Refused,
            StopReason::Done | StopReason::Calls if calls.is_empty() => StopReason::Done,
            StopReason::Done | StopReason::Calls => StopReason::Calls,
            StopReason::OutputFull | StopReason::Refused | StopReason::Filtered | StopReason::Stopped => stop,
        };
        let text = &self.written;
        let cited = self.annotations.iter().filter_map(|annotation| parse_citation(annotation, text));
        ready.extend(cited.map(StepEvent::Cited));
        for call in calls {
            let id = self.ids.claim_id(call.id)?;
            let arguments = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments };
            ready.push_back(StepEvent::Call(StepCall {
                id,
                tool: call.tool,
                arguments,
                purpose: Purpose::Tool,
            }));
        }
        if let Some(calls) = u32::try_from(self.left_out.len()).ok().filter(|calls| *calls > 0) {
            ready.push_back(StepEvent::Noted(StepNote::CallsLeftOut(calls)));
        }
        if self.ending.is_unknown {
            ready.push_back(StepEvent::Noted(StepNote::UnknownStop));
        }
        ready.push_back(StepEvent::Finished { stop, usage: self.usage });
        Ok(StreamProgress::End)
    }

    fn fold_chunk(
        &mut self,
        data: &str,
        chunk: CompletionsChunk<'_>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let is_error =
            !error::is_empty(&chunk.error) || chunk.object.is_some_and(|object| object.get() == "\"error\"");
        if is_error {
            return Err(error::in_stream(data));
        }
        if chunk.choices.is_none()
            && let Some(error) = error::parse_reported(data)
        {
            return Err(error);
        }
        for usage in [chunk.usage, chunk.x_groq.and_then(|groq| groq.usage)] {
            merge_usage(&mut self.usage, usage.as_ref().and_then(CompletionsUsage::to_usage));
        }
        for choice in chunk.choices.into_iter().flatten().flatten().filter(|choice| choice.index == 0) {
            merge_usage(&mut self.usage, choice.usage.as_ref().and_then(CompletionsUsage::to_usage));
            if let Some(delta) = choice.delta {
                self.fold_delta(delta, ready)?;
            }
            if let Some(message) = choice.message {
                self.take_message(message, ready)?;
            }
            if !error::is_empty(&choice.error) {
                return Err(error::in_stream(&serde_json::json!({ "error": choice.error }).to_string()));
            }
            if let Some(reason) = choice.finish_reason {
                self.ending.take_reason(&reason)?;
            }
        }
        if self.bytes > STEP_MAX_BYTES {
            self.ending = StepEnding { stop: Some(StopReason::OutputFull), is_unknown: false };
            return self.end_stream(ready);
        }
        Ok(StreamProgress::More)
    }

    /// Takes a piece of a message.
    fn fold_delta(
        &mut self,
        delta: CompletionsDelta<'_>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<(), StepError> {
        let content = delta.content.map(content_text).transpose()?.unwrap_or_default();
        self.streamed.push_str(&content);
        self.take_fields(delta, &content, ready)
    }

    /// Takes a whole message. Of one that repeats what came in pieces, only the rest is emitted, and nothing that contradicts
    /// them.
    fn take_message(
        &mut self,
        mut message: CompletionsDelta<'_>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<(), StepError> {
        let mut content = message.content.map(content_text).transpose()?.unwrap_or_default();
        if !self.streamed.is_empty() {
            let known = [&self.streamed, &self.written].into_iter().filter(|known| !known.is_empty());
            let rest = known.map(String::as_str).find_map(|known| content.strip_prefix(known));
            content = rest.unwrap_or_default().to_owned();
            (message.reasoning, message.reasoning_content, message.refusal) = (None, None, None);
            if !self.annotations.is_empty() {
                message.annotations = None;
            }
            if !self.calls.is_empty() {
                (message.tool_calls, message.function_call) = (None, None);
            }
        }
        self.take_fields(message, &content, ready)
    }

    fn take_fields(
        &mut self,
        delta: CompletionsDelta<'_>,
        content: &str,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<(), StepError> {
        // Servers that send both fields send the same text in both.
        let reasoning = delta.reasoning_content.filter(|text| !text.is_empty()).or(delta.reasoning);
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            self.bytes += text.len();
            ready.push_back(StepEvent::Reasoning(text));
        }
        let refusal = delta.refusal.unwrap_or_default();
        self.refused |= !refusal.is_empty();
        for piece in self.thoughts.push_text(content) {
            self.emit_piece(piece, ready);
        }
        if !refusal.is_empty() {
            self.emit_piece(ThoughtPiece::Text(refusal), ready);
        }
        if let Some(Value::Array(annotations)) = delta.annotations {
            let room = CITED_MAX.saturating_sub(self.annotations.len());
            self.annotations.extend(annotations.into_iter().take(room));
        }
        for piece in delta.tool_calls.into_iter().flatten().flatten() {
            self.call_piece(piece)?;
        }
        if let Some(function) = delta.function_call {
            self.call_piece(CallPiece { index: None, id: None, function: Some(function) })?;
        }
        Ok(())
    }

    fn emit_piece(&mut self, piece: ThoughtPiece, ready: &mut VecDeque<StepEvent>) {
        match piece {
            ThoughtPiece::Text(text) => {
                self.bytes += text.len();
                self.written.push_str(&text);
                ready.push_back(StepEvent::Text(text));
            }
            ThoughtPiece::Thought(text) => {
                self.bytes += text.len();
                ready.push_back(StepEvent::Reasoning(text));
            }
            ThoughtPiece::WasThought => {
                self.written.clear();
                ready.push_back(StepEvent::WasReasoning);
            }
        }
    }

    fn call_piece(&mut self, piece: CallPiece<'_>) -> Result<(), StepError> {
        let function = piece.function.unwrap_or(FunctionPiece { name: None, arguments: None });
        let id = piece.id.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let arguments = function.arguments.map(arguments_text).transpose()?.unwrap_or_default();
        self.bytes += id.len() + name.len() + arguments.len();
        // Some servers send the same index for every call, or none: a name starts a new call, if it comes with a new
        // identifier, or without one after a complete call.
        let same = self.calls.iter().rposition(|call| match piece.index {
            Some(_) => call.index == piece.index,
            None => true,
        });
        let continues = |call: &PendingCompletionsCall| {
            name.is_empty()
                || call.tool.is_empty()
                || (!id.is_empty() && (call.id == id || call.id.is_empty()))
                || (id.is_empty() && (!is_object(&call.arguments) || is_same_call(call, &name, &arguments)))
        };
        if name.is_empty() && piece.index.is_none() && !self.left_out.is_empty() {
            return Ok(()); // of a call that was left out
        }
        let at = match same {
            Some(at) if continues(&self.calls[at]) => at,
            _ if self.calls.len() >= CALLS_MAX => {
                if !name.is_empty() {
                    let unnamed = piece.index.is_none() && id.is_empty();
                    let id = if unnamed { self.left_out.len().to_string() } else { id };
                    self.left_out.insert((piece.index, id));
                }
                return Ok(());
            }
            _ if name.is_empty() && id.is_empty() => return Ok(()),
            _ => {
                self.calls
                    .push(PendingCompletionsCall { index: piece.index, ..PendingCompletionsCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.tool.is_empty() {
            call.tool = name;
        }
        extend_arguments(&mut call.arguments, &arguments);
        Ok(())
    }
}

/// Returns true for a piece that repeats the name of its call, or the whole call.
fn is_same_call(call: &PendingCompletionsCall, name: &str, arguments: &str) -> bool {
    call.tool == name
        && (call.arguments.trim() == "{}" || arguments.is_empty() || call.arguments == arguments)
}

/// Reads content that is a string, a list of parts or null.
fn content_text(content: &RawValue) -> Result<String, StepError> {
    #[derive(Deserialize)]
    struct CompletionsTextPart {
        #[serde(default)]
        text: Option<String>,
    }
    let unreadable = |_| error::unavailable_step("its stream contains an unreadable frame");
    let json = content.get();
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).map_err(unreadable),
        Some(b'[') => {
            let parts: Vec<CompletionsTextPart> = serde_json::from_str(json).map_err(unreadable)?;
            Ok(parts.into_iter().filter_map(|part| part.text).collect())
        }
        _ => Ok(String::new()),
    }
}

/// Reads arguments that are a string or other JSON.
fn arguments_text(arguments: &RawValue) -> Result<String, StepError> {
    match arguments.get() {
        json if json.starts_with('"') => serde_json::from_str(json)
            .map_err(|_| error::unavailable_step("its stream contains an unreadable frame")),
        "null" => Ok(String::new()),
        json => Ok(json.to_owned()),
    }
}

/// Reads an annotation's source. Its position is in characters; without one, the source supports the whole text.
fn parse_citation(annotation: &Value, text: &str) -> Option<VendorCitation> {
    if cited::text_field(annotation, "type") != "url_citation" {
        return None;
    }
    // Some servers omit the inner object.
    let of = annotation.get("url_citation").unwrap_or(annotation);
    let end = cited::number_field(of, "end_index").filter(|end| *end > 0);
    let at = end.map_or(text.len(), |end| cited::bytes_of(text, end));
    cited::cite_page(
        at,
        cited::text_field(of, "url"),
        cited::text_field(of, "title"),
        cited::text_field(of, "content"),
    )
}

#[cfg(test)]
mod tests;
