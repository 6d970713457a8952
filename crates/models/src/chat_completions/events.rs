//! Folds the frames of a stream into the events of a step. Pure: no connection, no clock.

use std::collections::{HashSet, VecDeque};

use domain::citation::{CITED_MAX, Cited};
use domain::limits::{CALLS_MAX, STEP_MAX_BYTES};
use domain::step::{Call, Purpose, StepError, StepEvent, StopReason, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::thoughts::{Piece, Thoughts};
use crate::cited;
use crate::error;
use crate::lenient;
use crate::output::{CallIds, Next};
use crate::sse::Frame;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow)]
    choices: Option<Vec<Option<Choice<'a>>>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: Option<WireUsage>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    object: Option<String>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, deserialize_with = "lenient::or_default")]
    index: u32,
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    /// Set by servers that do not stream.
    #[serde(default, borrow)]
    message: Option<Delta<'a>>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta<'a> {
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
struct WireUsage {
    #[serde(default, deserialize_with = "lenient::count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient::count")]
    completion_tokens: Option<u64>,
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

impl WireUsage {
    fn read(&self) -> Option<Usage> {
        if self.prompt_tokens.is_none() && self.completion_tokens.is_none() {
            return None;
        }
        Some(Usage {
            input_tokens: self.prompt_tokens.unwrap_or(0),
            cached_tokens: self.prompt_tokens_details.as_ref().and_then(|of| of.cached_tokens).unwrap_or(0),
            output_tokens: self.completion_tokens.unwrap_or(0),
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
struct PendingCall {
    index: Option<u32>,
    id: String,
    tool: String,
    arguments: String,
}

/// The state of a step's stream.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    calls: Vec<PendingCall>,
    /// Separates thoughts from the text.
    thoughts: Thoughts,
    /// The whole text and its annotations. Citations are emitted at the end, when positions in the text are known.
    written: String,
    annotations: Vec<Value>,
    stop: Option<StopReason>,
    usage: Option<Usage>,
    refused: bool,
    bytes: usize,
    /// Set when the step makes too many calls: further calls are dropped.
    full: bool,
    /// The identifiers that the transcript already uses.
    ids: CallIds,
}

impl Fold {
    /// Creates a fold for a transcript that already uses the identifiers in `taken`.
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self { ids: CallIds::new(taken), ..Self::default() }
    }

    /// Returns true when the model is done and only usage and the end marker are missing.
    pub(crate) fn is_done(&self) -> bool {
        self.stop.is_some()
    }

    /// Folds one frame.
    pub(crate) fn frame(
        &mut self,
        frame: &Frame,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<Next, StepError> {
        let data = frame.data.trim();
        if data == "[DONE]" {
            if self.stop.is_none() && (self.bytes > 0 || !self.calls.is_empty()) {
                self.stop = Some(StopReason::Done);
            }
            return self.end(ready);
        }
        if frame.event == "error" {
            return Err(error::in_stream(data));
        }
        let known = matches!(frame.event.as_str(), "" | "message");
        match serde_json::from_str(data) {
            Ok(chunk) => self.chunk(data, chunk, ready),
            Err(_) => match lenient::without_duplicates(frame) {
                Some(deduplicated) => self.frame(&deduplicated, ready),
                None if data.is_empty() || !known => Ok(Next::More),
                None => Err(error::unavailable("its stream contains an unreadable frame")),
            },
        }
    }

    /// Folds the whole response of a server that does not stream.
    pub(crate) fn document(
        &mut self,
        body: &[u8],
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<Next, StepError> {
        let body = std::str::from_utf8(body).map_err(|_| error::unavailable("its answer is not text"))?;
        let chunk =
            serde_json::from_str(body).map_err(|_| error::unavailable("its answer cannot be read"))?;
        self.chunk(body, chunk, ready)
    }

    /// Handles the end of the stream. Finishes the step if the model is done, and fails otherwise.
    pub(crate) fn end(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        let Some(stop) = self.stop else { return Err(error::unavailable("its stream ended early")) };
        if let Some(piece) = self.thoughts.end() {
            self.piece(piece, ready);
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
            StopReason::OutputFull | StopReason::Refused | StopReason::Stopped => stop,
        };
        let text = &self.written;
        let cited = self.annotations.iter().filter_map(|annotation| source(annotation, text));
        ready.extend(cited.map(StepEvent::Cited));
        for call in calls {
            let id = self.ids.own(call.id)?;
            let arguments = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments };
            ready.push_back(StepEvent::Call(Call { id, tool: call.tool, arguments, purpose: Purpose::Tool }));
        }
        ready.push_back(StepEvent::Finished { stop, usage: self.usage });
        Ok(Next::End)
    }

    fn chunk(
        &mut self,
        data: &str,
        chunk: Chunk<'_>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<Next, StepError> {
        if chunk.error.is_some() || chunk.object.as_deref() == Some("error") {
            return Err(error::in_stream(data));
        }
        if let Some(usage) = chunk.usage.as_ref().and_then(WireUsage::read) {
            self.usage = Some(usage);
        }
        for choice in chunk.choices.into_iter().flatten().flatten().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(delta, ready)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stop = Some(match reason.as_str() {
                    "length" => StopReason::OutputFull,
                    "content_filter" => StopReason::Refused,
                    "tool_calls" | "function_call" => StopReason::Calls,
                    _ => StopReason::Done,
                });
            }
        }
        if self.full || self.bytes > STEP_MAX_BYTES {
            self.stop = Some(StopReason::OutputFull);
            return self.end(ready);
        }
        Ok(Next::More)
    }

    fn delta(&mut self, delta: Delta<'_>, ready: &mut VecDeque<StepEvent>) -> Result<(), StepError> {
        // Servers that send both fields send the same text in both.
        let reasoning = delta.reasoning_content.filter(|text| !text.is_empty()).or(delta.reasoning);
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            self.bytes += text.len();
            ready.push_back(StepEvent::Reasoning(text));
        }
        let refusal = delta.refusal.unwrap_or_default();
        self.refused |= !refusal.is_empty();
        let content = delta.content.map(content_text).transpose()?.unwrap_or_default();
        for piece in self.thoughts.take(&content) {
            self.piece(piece, ready);
        }
        if !refusal.is_empty() {
            self.piece(Piece::Text(refusal), ready);
        }
        if let Some(Value::Array(annotations)) = delta.annotations {
            let room = CITED_MAX.saturating_sub(self.annotations.len());
            self.annotations.extend(annotations.into_iter().take(room));
        }
        for piece in delta.tool_calls.into_iter().flatten().flatten() {
            if !self.full {
                self.call_piece(piece)?;
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece, ready: &mut VecDeque<StepEvent>) {
        match piece {
            Piece::Text(text) => {
                self.bytes += text.len();
                self.written.push_str(&text);
                ready.push_back(StepEvent::Text(text));
            }
            Piece::Thought(text) => {
                self.bytes += text.len();
                ready.push_back(StepEvent::Reasoning(text));
            }
        }
    }

    fn call_piece(&mut self, piece: CallPiece<'_>) -> Result<(), StepError> {
        let function = piece.function.unwrap_or(FunctionPiece { name: None, arguments: None });
        let id = piece.id.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let arguments = function.arguments.map(arguments_text).transpose()?.unwrap_or_default();
        self.bytes += id.len() + name.len() + arguments.len();
        // Some servers send the same index for every call, or none: a new identifier with a name starts a new call.
        let same = self.calls.iter().rposition(|call| match piece.index {
            Some(_) => call.index == piece.index,
            None => true,
        });
        let at = match same {
            Some(at)
                if id.is_empty()
                    || name.is_empty()
                    || self.calls[at].id == id
                    || self.calls[at].id.is_empty() =>
            {
                at
            }
            _ if self.calls.len() >= CALLS_MAX => {
                self.full = true;
                return Ok(());
            }
            _ => {
                self.calls.push(PendingCall { index: piece.index, ..PendingCall::default() });
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
        call.arguments.push_str(&arguments);
        Ok(())
    }
}

/// Reads content that is a string, a list of parts or null.
fn content_text(content: &RawValue) -> Result<String, StepError> {
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        text: Option<String>,
    }
    let unreadable = |_| error::unavailable("its stream contains an unreadable frame");
    let json = content.get();
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).map_err(unreadable),
        Some(b'[') => {
            let parts: Vec<Part> = serde_json::from_str(json).map_err(unreadable)?;
            Ok(parts.into_iter().filter_map(|part| part.text).collect())
        }
        _ => Ok(String::new()),
    }
}

/// Reads arguments that are a string or other JSON.
fn arguments_text(arguments: &RawValue) -> Result<String, StepError> {
    match arguments.get() {
        json if json.starts_with('"') => serde_json::from_str(json)
            .map_err(|_| error::unavailable("its stream contains an unreadable frame")),
        "null" => Ok(String::new()),
        json => Ok(json.to_owned()),
    }
}

/// Reads an annotation's source. Its position is in characters; without one, the source supports the whole text.
fn source(annotation: &Value, text: &str) -> Option<Cited> {
    if cited::text(annotation, "type") != "url_citation" {
        return None;
    }
    // Some servers omit the inner object.
    let of = annotation.get("url_citation").unwrap_or(annotation);
    let end = cited::number(of, "end_index").filter(|end| *end > 0);
    let at = end.map_or(text.len(), |end| cited::bytes_of(text, end));
    cited::page(at, cited::text(of, "url"), cited::text(of, "title"), cited::text(of, "content"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fold(chunks: &[Value]) -> Result<Vec<StepEvent>, StepError> {
        let mut fold = Fold::default();
        let mut ready = VecDeque::new();
        for chunk in chunks {
            let frame = Frame { event: String::new(), data: chunk.to_string() };
            if fold.frame(&frame, &mut ready)? == Next::End {
                return Ok(ready.into());
            }
        }
        fold.end(&mut ready)?;
        Ok(ready.into())
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn finish(reason: &str) -> Value {
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    }

    fn calls(events: &[StepEvent]) -> Vec<(String, String)> {
        events
            .iter()
            .filter_map(|event| match event {
                StepEvent::Call(call) => Some((call.tool.clone(), call.arguments.clone())),
                _ => None,
            })
            .collect()
    }

    fn stop(events: &[StepEvent]) -> StopReason {
        match events.last() {
            Some(StepEvent::Finished { stop, .. }) => *stop,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_reason_for_stopping_has_its_meaning() {
        for (reason, meaning) in [
            ("stop", StopReason::Done),
            ("length", StopReason::OutputFull),
            ("content_filter", StopReason::Refused),
            ("tool_calls", StopReason::Done),
            ("unheard of", StopReason::Done),
        ] {
            let events = fold(&[delta(json!({"content": "x"})), finish(reason)]).unwrap();
            assert_eq!(stop(&events), meaning, "{reason}");
        }
        let refused = fold(&[delta(json!({"refusal": "no"})), finish("stop")]).unwrap();
        assert_eq!((refused[0].clone(), stop(&refused)), (StepEvent::Text("no".into()), StopReason::Refused));
    }

    #[test]
    fn calls_are_put_together_whatever_the_server_leaves_out() {
        let call = |index: Value, id: Value, name: &str, arguments: Value| {
            let mut piece = json!({"function": {"arguments": arguments}});
            if !index.is_null() {
                piece["index"] = index;
            }
            if !id.is_null() {
                piece["id"] = id;
            }
            if !name.is_empty() {
                piece["function"]["name"] = Value::from(name);
            }
            delta(json!({"tool_calls": [piece]}))
        };
        let null = || Value::Null;
        let mixed = [
            call(json!(0), json!("a"), "one", json!("")),
            call(json!(1), json!("b"), "two", json!("{\"x")),
            call(json!(0), null(), "", json!("{}")),
            call(json!(1), null(), "", json!("\":1}")),
        ];
        let same_index = [
            call(json!(0), json!("a"), "one", json!("{}")),
            call(json!(0), json!("b"), "two", json!("{\"x\":1}")),
        ];
        let no_index = [
            call(null(), json!("a"), "one", json!("{")),
            call(null(), null(), "", json!("}")),
            call(null(), json!("b"), "two", json!({"x": 1})),
        ];
        let no_ids = [
            call(json!(0), null(), "one", json!("{}")),
            call(json!(1), json!(""), "two", json!("{\"x\":1}")),
        ];
        let same_ids = [
            call(json!(0), json!("a"), "one", null()),
            call(json!(1), json!("a"), "two", json!("{\"x\":1}")),
        ];
        for chunks in [&mixed[..], &same_index, &no_index, &no_ids, &same_ids] {
            let events = fold(&[chunks, &[finish("stop")]].concat()).unwrap();
            assert_eq!(
                calls(&events),
                [("one".into(), "{}".into()), ("two".into(), "{\"x\":1}".into())],
                "{chunks:?}"
            );
            assert_eq!(stop(&events), StopReason::Calls);
            let ids: HashSet<_> = events
                .iter()
                .filter_map(|event| match event {
                    StepEvent::Call(call) => Some(call.id.clone()),
                    _ => None,
                })
                .collect();
            assert!(ids.len() == 2 && !ids.contains(""), "{ids:?}");
        }
    }

    #[test]
    fn a_call_that_the_bound_cut_is_not_given() {
        let cut = delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{\"x"}}]}),
        );
        let events = fold(&[cut.clone(), finish("length")]).unwrap();
        assert_eq!((calls(&events), stop(&events)), (vec![], StopReason::OutputFull));
        let broken = fold(&[cut, finish("tool_calls")]).unwrap();
        assert_eq!(calls(&broken), [("t".into(), "{\"x".into())], "the tool's result reports the error");
    }

    #[test]
    fn an_identifier_of_an_earlier_step_is_replaced() {
        let mut fold = Fold::new(HashSet::from(["call_0".to_owned()]));
        let mut ready = VecDeque::new();
        let chunk = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls":
            [{"index": 0, "id": "call_0", "function": {"name": "t", "arguments": "{}"}}]}}]});
        fold.frame(&Frame { event: String::new(), data: chunk.to_string() }, &mut ready).unwrap();
        fold.end(&mut ready).unwrap();
        let Some(StepEvent::Call(call)) = ready.front() else { panic!("{ready:?}") };
        assert_ne!(call.id, "call_0");
    }

    #[test]
    fn reasoning_is_taken_once_and_content_in_each_form() {
        let events = fold(&[
            delta(json!({"reasoning_content": "a", "reasoning": "a"})),
            delta(json!({"reasoning": "b", "content": ""})),
            delta(json!({"content": [{"type": "text", "text": "c"}, {"type": "other"}]})),
            delta(json!({"content": null})),
            finish("stop"),
        ]);
        let text = |text: &str| text.to_owned();
        let expected =
            [StepEvent::Reasoning(text("a")), StepEvent::Reasoning(text("b")), StepEvent::Text(text("c"))];
        assert_eq!(events.unwrap()[..3], expected);
    }

    #[test]
    fn output_is_bounded() {
        let piece = "x".repeat(STEP_MAX_BYTES / 4);
        let chunk = delta(json!({"content": piece}));
        let events = fold(&vec![chunk; 100]).unwrap();
        assert!(events.len() < 7);
        assert_eq!(stop(&events), StopReason::OutputFull);
        let call = |index: usize| {
            delta(json!({"tool_calls": [{"index": index, "function": {"name": "t", "arguments": "{}"}}]}))
        };
        let events = fold(&(0..1000).map(call).collect::<Vec<_>>()).unwrap();
        assert_eq!((calls(&events).len(), stop(&events)), (CALLS_MAX, StopReason::OutputFull));
    }

    #[test]
    fn usage_is_the_last_that_was_reported() {
        let usage = |read: u64| {
            json!({"choices": [], "usage": {"prompt_tokens": read, "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": null}})
        };
        let events = fold(&[usage(1), finish("stop"), usage(5)]).unwrap();
        let expected = Usage { input_tokens: 5, cached_tokens: 1, output_tokens: 2, ..Usage::default() };
        assert_eq!(events, [StepEvent::Finished { stop: StopReason::Done, usage: Some(expected) }]);
    }

    #[test]
    fn a_stream_without_an_end_was_cut() {
        assert!(matches!(fold(&[delta(json!({"content": "x"}))]), Err(StepError::Unavailable { .. })));
        assert!(matches!(fold(&[json!({"error": {"message": "m"}})]), Err(StepError::Unavailable { .. })));
        let object = json!({"object": "error", "message": "m", "code": 400});
        assert!(matches!(fold(&[object]), Err(StepError::Rejected { .. })));
    }
}
