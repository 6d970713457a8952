//! `POST /v1/chat/completions` without an agent: one step of a model, whose calls of tools are the client's.

use std::collections::HashMap;
use std::sync::Arc;

use axum::response::Response;
use control::plain_steps::{PlainOptions, PlainRefusal, PlainRequest, PlainStep, ResponseFormat, ToolChoice};
use control::{Authenticator, Principal};
use domain::step::{
    CallResult, OutputBlock, Purpose, Step, StepCall, StepEvent, StepOutcome, StopReason, ToolSpec,
    TranscriptItem,
};
use futures_util::stream;
use http_common::{SseEvent, data_stream};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::chat_request::{ChatRequest, StopBody, ToolBody};
use crate::chat_wire::{Completion, CompletionHead, DeltaBody, FinishReason, ToolCallBody, UsageBody};
use crate::error::{OpenAiError, OpenAiResult};
use crate::messages::{Message, MessageRole};

/// The schema of a tool without parameters.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
/// The maximum number of texts at which a model stops.
const STOPS_MAX: usize = 16;

/// Converts a request. `settings` are those of its model.
///
/// # Errors
/// [`OpenAiError`] that names the wrong field.
pub(crate) fn convert_request(
    request: &ChatRequest,
    messages: Vec<Message>,
    model: Option<String>,
    settings: Vec<(String, String)>,
) -> OpenAiResult<PlainRequest> {
    let mut plain = PlainRequest {
        model,
        settings,
        tools: request.tools.iter().flatten().map(convert_tool).collect::<Result<_, _>>()?,
        options: convert_options(request)?,
        output_max_tokens: request.output_max_tokens(),
        ..PlainRequest::default()
    };
    let mut tools: HashMap<String, String> = HashMap::new();
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
            MessageRole::Assistant => {
                let names = message.calls.iter().map(|call| (call.id.clone(), call.function.name.clone()));
                tools.extend(names);
                TranscriptItem::Step(Arc::new(convert_step(message)))
            }
            MessageRole::Tool => TranscriptItem::Result(Arc::new(convert_result(message, &tools))),
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

fn convert_tool(tool: &ToolBody) -> OpenAiResult<ToolSpec> {
    let function = tool.function.as_ref().filter(|_| tool.r#type == "function");
    let Some(function) = function else {
        return Err(OpenAiError::invalid_field("tools", "only tools of type function are supported"));
    };
    let schema = function.parameters.as_ref().filter(|schema| schema.is_object());
    Ok(ToolSpec {
        name: function.name.clone(),
        description: function.description.clone().unwrap_or_default(),
        schema: schema.map_or_else(|| NO_PARAMETERS.to_owned(), Value::to_string),
    })
}

fn convert_options(request: &ChatRequest) -> OpenAiResult<PlainOptions> {
    let stop = match &request.stop {
        None => Vec::new(),
        Some(StopBody::One(text)) => vec![text.clone()],
        Some(StopBody::Several(texts)) if texts.len() > STOPS_MAX => {
            let message = format!("too many texts: send at most {STOPS_MAX}");
            return Err(OpenAiError::invalid_field("stop", message));
        }
        Some(StopBody::Several(texts)) => texts.clone(),
    };
    let has_tools = request.tools.as_ref().is_some_and(|tools| !tools.is_empty());
    Ok(PlainOptions {
        // Vendors refuse a choice among no tools.
        tool_choice: request.tool_choice.as_ref().filter(|_| has_tools).map(convert_choice).transpose()?,
        response_format: request.response_format.as_ref().map(convert_format).transpose()?.flatten(),
        stop,
        temperature: request.temperature,
        top_p: request.top_p,
        ..PlainOptions::default()
    })
}

fn convert_choice(choice: &Value) -> OpenAiResult<ToolChoice> {
    match (choice.as_str(), choice["function"]["name"].as_str()) {
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (Some("none"), _) => Ok(ToolChoice::Never),
        (Some("required"), _) => Ok(ToolChoice::Required),
        (None, Some(name)) => Ok(ToolChoice::Function(name.to_owned())),
        _ => {
            let message = "use \"auto\", \"none\", \"required\" or an object with the name of a function";
            Err(OpenAiError::invalid_field("tool_choice", message))
        }
    }
}

fn convert_format(format: &Value) -> OpenAiResult<Option<ResponseFormat>> {
    match format["type"].as_str() {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(ResponseFormat::JsonObject)),
        Some("json_schema") if format["json_schema"]["schema"].is_object() => {
            let name = format["json_schema"]["name"].as_str().unwrap_or("output").to_owned();
            Ok(Some(ResponseFormat::JsonSchema { name, schema: format["json_schema"]["schema"].clone() }))
        }
        _ => {
            let message = "use the type text, json_object, or json_schema with a schema";
            Err(OpenAiError::invalid_field("response_format", message))
        }
    }
}

fn convert_step(message: Message) -> Step {
    let mut blocks = Vec::new();
    if !message.text.is_empty() {
        blocks.push(OutputBlock::Text(message.text));
    }
    blocks.extend(message.calls.into_iter().map(|call| {
        OutputBlock::Call(StepCall {
            id: call.id,
            tool: call.function.name,
            arguments: call.function.arguments,
            purpose: Purpose::Tool,
        })
    }));
    Step { blocks, ..Step::default() }
}

fn convert_result(message: Message, tools: &HashMap<String, String>) -> CallResult {
    let call = message.call_id.unwrap_or_default();
    CallResult {
        tool: tools.get(&call).cloned().unwrap_or_default(),
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
    use super::*;

    fn convert(body: &str) -> OpenAiResult<PlainRequest> {
        let mut request = ChatRequest::parse(body)?;
        let messages = request.take_messages()?;
        convert_request(&request, messages, None, Vec::new())
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
