//! `POST /v1/chat/completions` without an agent: one step of a model, whose calls of tools are the client's.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use axum::response::Response;
use control::plain_steps::{PlainOptions, PlainRefusal, PlainRequest, PlainStep, ResponseFormat};
use control::{Authenticator, Principal};
use domain::step::{
    CallResult, OutputBlock, Purpose, Step, StepCall, StepEvent, StepOutcome, StopReason, ToolSpec,
    TranscriptItem,
};
use futures_util::stream;
use http_common::{SseEvent, data_stream};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::chat_request::ChatRequest;
use crate::chat_wire::{Completion, CompletionHead, DeltaBody, FinishReason, ToolCallBody, UsageBody};
use crate::error::{OpenAiError, OpenAiResult};
use crate::json_forms::{JsonObject, TextOrList};
use crate::messages::{Message, MessageRole, SentCall};
use crate::tool_choice::ToolRule;

/// The schema of a tool without parameters.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
/// The arguments of a call without any.
const NO_ARGUMENTS: &str = "{}";
/// The maximum number of texts at which a model stops.
const STOPS_MAX: usize = 16;

/// The parts of a request that a model gets besides the messages.
#[derive(Debug, Default)]
pub(crate) struct PlainFields {
    pub(crate) model: Option<String>,
    /// The settings of the model.
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) options: PlainOptions,
    pub(crate) output_max_tokens: Option<u32>,
}

impl PlainFields {
    /// Converts a request for a completion.
    ///
    /// # Errors
    /// [`OpenAiError`] that names the wrong field.
    pub(crate) fn of_completion(request: &ChatRequest) -> OpenAiResult<Self> {
        let tools = request.tools.iter().flatten().map(|JsonObject(tool)| {
            let function = tool.function.as_ref().filter(|_| tool.r#type == "function");
            let function = function.map(|JsonObject(function)| function);
            new_tool(
                function.map(|function| &function.name),
                function.and_then(|function| function.description.as_ref()),
                function.and_then(|function| function.parameters.as_ref()),
            )
        });
        let fields = Self {
            tools: tools.collect::<Result<_, _>>()?,
            options: convert_options(request)?,
            output_max_tokens: request.output_max_tokens(),
            ..Self::default()
        };
        fields.with_tool_choice(request.tool_choice.as_ref())
    }

    /// Permits the calls that the client chooses.
    ///
    /// # Errors
    /// [`OpenAiError`] if the choice is not understood.
    pub(crate) fn with_tool_choice(mut self, choice: Option<&Value>) -> OpenAiResult<Self> {
        let rule = choice.filter(|choice| !choice.is_null()).map(ToolRule::parse).transpose()?;
        if let Some(ToolRule { choice, allowed }) = rule {
            if let Some(allowed) = allowed {
                self.tools.retain(|tool| allowed.contains(&tool.name));
            }
            self.options.tool_choice = Some(choice);
        }
        if self.tools.is_empty() {
            // Vendors refuse a choice among no tools.
            (self.options.tool_choice, self.options.parallel_tool_calls) = (None, None);
        }
        Ok(self)
    }
}

/// Converts messages to a plain model.
///
/// # Errors
/// [`OpenAiError`] for messages that it does not take.
pub(crate) fn convert_request(fields: PlainFields, messages: Vec<Message>) -> OpenAiResult<PlainRequest> {
    let PlainFields { model, settings, tools, options, output_max_tokens } = fields;
    let mut plain =
        PlainRequest { model, settings, tools, options, output_max_tokens, ..PlainRequest::default() };
    let mut calls = CallIds::default();
    for message in messages {
        if !message.files.is_empty() {
            let message = "plain models take text alone: leave files out, or use a model with its agent";
            return Err(OpenAiError::invalid_field("messages", message));
        }
        let item = match message.role {
            MessageRole::System => {
                if !plain.instructions.is_empty() {
                    plain.instructions.push_str("\n\n");
                }
                plain.instructions.push_str(&message.text);
                continue;
            }
            MessageRole::User => TranscriptItem::Question { text: message.text, attachments: Vec::new() },
            MessageRole::Assistant => TranscriptItem::Step(Arc::new(convert_step(message, &mut calls))),
            MessageRole::Tool => TranscriptItem::Result(Arc::new(convert_result(message, &mut calls))),
        };
        plain.transcript.push(item);
    }
    match plain.transcript.last() {
        Some(TranscriptItem::Question { text, .. }) if text.trim().is_empty() => {
            Err(OpenAiError::invalid_field("messages", "the last message is empty: send a text"))
        }
        Some(TranscriptItem::Question { .. } | TranscriptItem::Result(_)) => Ok(plain),
        Some(TranscriptItem::Step(_)) | None => {
            let message = "the last message must be the user's, or a tool's";
            Err(OpenAiError::invalid_field("messages", message))
        }
    }
}

/// Creates a tool of the client; one without a name is no function.
pub(crate) fn new_tool(
    name: Option<&String>,
    description: Option<&String>,
    schema: Option<&Value>,
) -> OpenAiResult<ToolSpec> {
    let wrong = || OpenAiError::invalid_field("tools", "only tools of type function are supported");
    let schema = schema.filter(|schema| schema.is_object());
    Ok(ToolSpec {
        name: name.ok_or_else(wrong)?.clone(),
        description: description.cloned().unwrap_or_default(),
        schema: schema.map_or_else(|| NO_PARAMETERS.to_owned(), Value::to_string),
    })
}

fn convert_options(request: &ChatRequest) -> OpenAiResult<PlainOptions> {
    let stop = match &request.stop {
        None => Vec::new(),
        Some(TextOrList::Text(text)) => vec![text.clone()],
        Some(TextOrList::List(texts)) if texts.len() > STOPS_MAX => {
            let message = format!("too many texts: send at most {STOPS_MAX}");
            return Err(OpenAiError::invalid_field("stop", message));
        }
        Some(TextOrList::List(texts)) => texts.clone(),
    };
    let format = request.response_format.as_ref().filter(|format| !format.is_null());
    let format = format.map(|format| convert_format(format, &format["json_schema"], "response_format"));
    Ok(PlainOptions {
        tool_choice: None,
        response_format: format.transpose()?.flatten(),
        stop,
        temperature: request.temperature,
        top_p: request.top_p,
        seed: request.seed,
        frequency_penalty: request.frequency_penalty,
        presence_penalty: request.presence_penalty,
        parallel_tool_calls: request.parallel_tool_calls,
    })
}

/// Converts the format of an output, which the request has in this field. `body` has its name and schema.
///
/// # Errors
/// [`OpenAiError`].
pub(crate) fn convert_format(
    format: &Value,
    body: &Value,
    field: &str,
) -> OpenAiResult<Option<ResponseFormat>> {
    match format["type"].as_str() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(ResponseFormat::JsonObject)),
        Some("json_schema") if body["schema"].is_object() => {
            let name = body["name"].as_str().unwrap_or("output").to_owned();
            Ok(Some(ResponseFormat::JsonSchema { name, schema: body["schema"].clone() }))
        }
        _ => {
            let message = "use the type text, json_object, or json_schema with a schema";
            Err(OpenAiError::invalid_field(field, message))
        }
    }
}

/// The ids of calls. Those that a client leaves out are made up, because vendors want them.
#[derive(Debug, Default)]
struct CallIds {
    tools: HashMap<String, String>,
    /// The calls without a result, in their order.
    pending: VecDeque<String>,
    made_up: usize,
}

impl CallIds {
    fn add_call(&mut self, call: &mut SentCall) {
        if call.id.is_empty() {
            call.id = format!("call_{}", self.made_up);
            self.made_up += 1;
        }
        self.tools.insert(call.id.clone(), call.name.clone());
        self.pending.push_back(call.id.clone());
    }

    /// Returns the call of a result. A result without an id is that of the first call that has none.
    fn take_call(&mut self, id: Option<String>) -> String {
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            return self.pending.pop_front().unwrap_or_default();
        };
        self.pending.retain(|pending| *pending != id);
        id
    }
}

fn convert_step(message: Message, calls: &mut CallIds) -> Step {
    let mut blocks = Vec::new();
    if !message.text.is_empty() {
        blocks.push(OutputBlock::Text(message.text));
    }
    blocks.extend(message.calls.into_iter().map(|mut call| {
        calls.add_call(&mut call);
        let SentCall { id, name: tool, arguments } = call;
        let arguments = if arguments.trim().is_empty() { NO_ARGUMENTS.to_owned() } else { arguments };
        OutputBlock::Call(StepCall { id, tool, arguments, purpose: Purpose::Tool })
    }));
    Step { blocks, ..Step::default() }
}

fn convert_result(message: Message, calls: &mut CallIds) -> CallResult {
    let call = calls.take_call(message.call_id);
    CallResult {
        tool: calls.tools.get(&call).cloned().unwrap_or_default(),
        call,
        outcome: StepOutcome::Done,
        text: message.text,
        passages: Vec::new(),
        written: Vec::new(),
        images: Vec::new(),
        unread: Vec::new(),
    }
}

impl From<PlainRefusal> for OpenAiError {
    fn from(refusal: PlainRefusal) -> Self {
        match refusal {
            PlainRefusal::UseCase(error) => error.into(),
            PlainRefusal::TooLong { context_tokens } => Self::context_too_long(format_args!(
                "the messages are longer than the {context_tokens} tokens that this model reads"
            )),
        }
    }
}

/// Reads a step as a completion.
pub(crate) struct PlainReader {
    pub(crate) head: CompletionHead,
    pub(crate) principal: Principal,
    pub(crate) access: Authenticator,
    pub(crate) shutdown: CancellationToken,
    step: PlainStep,
    has_begun: bool,
    has_ended: bool,
    /// The number of calls so far.
    calls: usize,
}

impl PlainReader {
    pub(crate) fn new(
        head: CompletionHead,
        principal: Principal,
        access: Authenticator,
        shutdown: CancellationToken,
        step: PlainStep,
    ) -> Self {
        Self { head, principal, access, shutdown, step, has_begun: false, has_ended: false, calls: 0 }
    }

    /// Streams the chunks.
    pub(crate) fn stream_chunks(self) -> Response {
        let revoked = self.access.clone().await_revocation(self.principal.clone());
        let chunks = stream::unfold(self, async |mut reader| {
            let lines = reader.next_lines().await?;
            Some((SseEvent::from_data(&lines), reader))
        });
        data_stream(chunks, revoked)
    }

    async fn next_lines(&mut self) -> Option<Vec<String>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(vec![self.head.chunk(DeltaBody::first(), None)]);
        }
        if self.has_ended {
            return None;
        }
        loop {
            let delta = match self.next_event().await {
                Ok(StepEvent::Text(text)) => self.head.chunk(DeltaBody::of_content(&text), None),
                Ok(StepEvent::Reasoning(text)) => self.head.chunk(DeltaBody::of_reasoning(&text), None),
                Ok(StepEvent::Call(call)) => {
                    let call = ToolCallBody::new(call, Some(self.calls));
                    self.calls += 1;
                    self.head.chunk(DeltaBody::of_call(call), None)
                }
                Ok(StepEvent::Finished { stop, .. }) => {
                    self.has_ended = true;
                    let usage = UsageBody::from(self.step.bill());
                    return Some(self.head.last_chunks(finish_of(stop, self.calls), usage));
                }
                Ok(
                    StepEvent::WasReasoning
                    | StepEvent::Cited(_)
                    | StepEvent::Noted(_)
                    | StepEvent::Opaque { .. },
                ) => continue,
                Err(error) => {
                    self.has_ended = true;
                    return Some(vec![error.to_json()]);
                }
            };
            return Some(vec![delta]);
        }
    }

    /// Returns the next event. A stream that ends without its last event is an error.
    async fn next_event(&mut self) -> OpenAiResult<StepEvent> {
        tokio::select! {
            event = self.step.next_event() => match event {
                Some(Ok(event)) => Ok(event),
                Some(Err(error)) => Err((&error).into()),
                None => Err(OpenAiError::unavailable("the model's answer was cut off: try again")),
            },
            () = self.shutdown.cancelled() => {
                Err(OpenAiError::unavailable("the service is restarting: try again"))
            }
        }
    }

    /// Waits for the end of the step, and returns it as a whole.
    pub(crate) async fn read_whole(mut self) -> OpenAiResult<String> {
        let revoked = self.access.clone().await_revocation(self.principal.clone());
        tokio::select! {
            whole = self.gather_output() => whole,
            () = revoked => Err(OpenAiError::invalid_key()),
        }
    }

    async fn gather_output(&mut self) -> OpenAiResult<String> {
        let (mut content, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
        loop {
            match self.next_event().await? {
                StepEvent::Text(text) => content.push_str(&text),
                StepEvent::Reasoning(text) => reasoning.push_str(&text),
                StepEvent::WasReasoning => reasoning.push_str(&std::mem::take(&mut content)),
                StepEvent::Call(call) => calls.push(ToolCallBody::new(call, None)),
                StepEvent::Cited(_) | StepEvent::Noted(_) | StepEvent::Opaque { .. } => {}
                StepEvent::Finished { stop, .. } => {
                    let finish = finish_of(stop, calls.len());
                    return Ok(self.head.completion(Completion {
                        content: &content,
                        reasoning: &reasoning,
                        tool_calls: calls,
                        citations: &[],
                        finish,
                        usage: UsageBody::from(self.step.bill()),
                    }));
                }
            }
        }
    }
}

fn finish_of(stop: StopReason, calls: usize) -> FinishReason {
    match stop {
        StopReason::OutputFull => FinishReason::Length,
        StopReason::Filtered => FinishReason::ContentFilter,
        StopReason::Done | StopReason::Calls | StopReason::Refused | StopReason::Stopped if calls > 0 => {
            FinishReason::ToolCalls
        }
        StopReason::Done | StopReason::Calls | StopReason::Refused | StopReason::Stopped => {
            FinishReason::Stop
        }
    }
}

#[cfg(test)]
mod tests {
    use control::plain_steps::ToolChoice;

    use super::*;

    fn convert(body: &str) -> OpenAiResult<PlainRequest> {
        let mut request = ChatRequest::parse(body)?;
        let messages = request.take_messages()?;
        convert_request(PlainFields::of_completion(&request)?, messages)
    }

    #[test]
    fn messages_become_transcript() {
        let plain = convert(
            r#"{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "Rain"}],
               "tools": [{"type": "function", "function": {"name": "weather"}}], "tool_choice": "required",
               "response_format": {"type": "json_object"}, "stop": "END", "max_completion_tokens": 9}"#,
        )
        .expect("a request");
        assert_eq!((plain.instructions.as_str(), plain.transcript.len()), ("Be brief.", 3));
        let Some(TranscriptItem::Result(result)) = plain.transcript.last() else { panic!("{plain:?}") };
        assert_eq!((result.tool.as_str(), result.text.as_str()), ("weather", "Rain"));
        assert_eq!(plain.tools[0].schema, NO_PARAMETERS);
        assert_eq!(plain.options.tool_choice, Some(ToolChoice::Required));
        assert_eq!(plain.options.response_format, Some(ResponseFormat::JsonObject));
        assert_eq!(
            (plain.options.stop.as_slice(), plain.output_max_tokens),
            (&["END".to_owned()][..], Some(9))
        );
    }

    #[test]
    fn missing_ids_are_made_up() {
        let plain = convert(
            r#"{"messages": [{"role": "user", "content": "Weather?"},
                {"role": "assistant", "tool_calls": [{"id": null, "function": {"name": "f", "arguments": {"a": 1}}},
                    {"function": {"name": "g"}}]},
                {"role": "tool", "content": "one"}, {"role": "tool", "tool_call_id": null, "content": "two"},
                {"role": "assistant", "function_call": {"name": "h", "arguments": "{}"}},
                {"role": "function", "name": "h", "content": "three"}]}"#,
        )
        .expect("a request");
        let results = plain.transcript.iter().filter_map(|item| match item {
            TranscriptItem::Result(result) => Some((result.call.as_str(), result.tool.as_str())),
            _ => None,
        });
        assert_eq!(results.collect::<Vec<_>>(), [("call_0", "f"), ("call_1", "g"), ("h", "h")]);
        let TranscriptItem::Step(step) = &plain.transcript[1] else { panic!("{plain:?}") };
        let calls = step.blocks.iter().filter_map(|block| match block {
            OutputBlock::Call(call) => Some((call.id.as_str(), call.arguments.as_str())),
            _ => None,
        });
        assert_eq!(calls.collect::<Vec<_>>(), [("call_0", "{\"a\":1}"), ("call_1", "{}")]);
    }

    #[test]
    fn allowed_tools_are_the_only_ones() {
        let plain = convert(
            r#"{"messages": [{"role": "user", "content": "a"}], "parallel_tool_calls": false, "seed": 7,
                "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}],
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required",
                    "tools": [{"type": "function", "function": {"name": "g"}}]}}}"#,
        )
        .expect("a request");
        assert_eq!(plain.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["g"]);
        assert_eq!(plain.options.tool_choice, Some(ToolChoice::Required));
        assert_eq!((plain.options.parallel_tool_calls, plain.options.seed), (Some(false), Some(7)));
        let none = convert(
            r#"{"messages": [{"role": "user", "content": "a"}], "tool_choice": "auto", "parallel_tool_calls": true}"#,
        );
        let options = none.expect("a request").options;
        assert_eq!((options.tool_choice, options.parallel_tool_calls), (None, None));
    }

    #[test]
    fn wrong_options_are_refused() {
        let with =
            |more: &str| convert(&format!(r#"{{"messages": [{{"role": "user", "content": "a"}}]{more}}}"#));
        assert!(with("").is_ok());
        for more in [
            r#", "tools": [{"type": "retrieval"}]"#,
            r#", "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "some""#,
            r#", "response_format": {"type": "xml"}"#,
            r#", "response_format": {"type": "json_schema"}"#,
        ] {
            assert!(with(more).is_err(), "{more}");
        }
        assert!(convert(r#"{"messages": [{"role": "assistant", "content": "a"}]}"#).is_err());
        assert!(convert(r#"{"messages": []}"#).is_err());
        assert!(convert(r#"{"messages": [{"role": "user", "content": " "}]}"#).is_err());
    }

    #[test]
    fn calls_finish_with_their_reason() {
        assert_eq!(finish_of(StopReason::Done, 1), FinishReason::ToolCalls);
        assert_eq!(finish_of(StopReason::Calls, 0), FinishReason::Stop);
        assert_eq!(finish_of(StopReason::OutputFull, 1), FinishReason::Length);
    }
}
