//! `POST /v1/responses` without an agent: one step of a model as a response that is not stored, whose calls of tools are the
//! client's.

use axum::response::Response;
use control::Principal;
use control::plain_steps::PlainStep;
use domain::catalog::ModelEntry;
use domain::credits::AnswerCost;
use domain::step::{StepCall, StepEvent, StopReason};
use futures_util::stream;
use http_common::{SseEvent, data_stream};
use serde_json::{Value, json};

use crate::asking::AnswerChoices;
use crate::chat::{ChatService, json_response, name_ignored};
use crate::error::{OpenAiError, OpenAiResult};
use crate::model_id::ModelId;
use crate::plain::{PlainFields, convert_request};
use crate::readers::restart_error;
use crate::response_items::{EventNumbers, ResponseEvent, output_text, with_fields};
use crate::response_request::{ResponseInput, ResponseRequest};
use crate::response_wire::{ResponseHead, ResponseState};
use crate::side_request::{SideTask, reader_reply};

impl ChatService {
    /// Answers in one step of a model, without an agent and a conversation.
    pub(crate) async fn respond_plainly(
        self,
        principal: Principal,
        models: &[ModelEntry],
        (request, input): (ResponseRequest, ResponseInput),
        id: Option<ModelId>,
        task: Option<SideTask>,
    ) -> OpenAiResult<Response> {
        if request.names_place() || input.after.is_some() {
            let field = request.place_field().unwrap_or("input");
            let message = "plain models keep no responses: send the whole input";
            return Err(OpenAiError::invalid_field(field, message));
        }
        let mut ignored = request.fields_ignored_plainly();
        // An agent has no model of its own here.
        let mut choices = AnswerChoices { agent: None, ..AnswerChoices::from_model(id) };
        if request.effort().is_some_and(|effort| !choices.set_effort(effort, models)) {
            ignored.push("reasoning.effort");
        }
        let is_meant = |entry: &&ModelEntry| match &choices.model {
            Some(model) => entry.id == *model,
            None => entry.default,
        };
        let entry = models.iter().find(is_meant);
        let tail = format!("{:032x}", self.asker.histories.new_message_id().bits());
        let named = request.model.clone().filter(|model| !model.is_empty());
        let head = ResponseHead {
            id: format!("resp_{tail}"),
            conversation: None,
            created: self.asker.histories.now_seconds(),
            model: named.or_else(|| Some(entry?.id.clone())).unwrap_or_default(),
            background: false,
            echo: request.to_plain_echo(),
        };
        let source = match task.filter(|_| entry.is_some_and(|entry| entry.builtin)) {
            Some(task) => StepSource::Reply(Some(reader_reply(task, &input.messages))),
            None => {
                let AnswerChoices { model, settings, .. } = choices;
                let fields = PlainFields { model, settings, ..request.plain_input()? };
                let plain = convert_request(fields, input.messages).map_err(OpenAiError::of_input)?;
                let step = self.plain_steps.begin_step(&principal, plain).await;
                let step = step.map_err(OpenAiError::from).map_err(OpenAiError::of_input)?;
                let name =
                    |name: &&'static str| if *name == "response_format" { "text.format" } else { *name };
                ignored.extend(step.ignored.iter().map(name));
                StepSource::Model(Box::new(step))
            }
        };
        let reading = PlainResponseReader::new(self, principal, head, tail, source);
        let mut response =
            if request.stream == Some(true) { reading.stream_events() } else { reading.read_whole().await? };
        name_ignored(&mut response, &ignored);
        Ok(response)
    }
}

/// The source of the events.
enum StepSource {
    Model(Box<PlainStep>),
    /// The reply of the built-in reader, which is free; `None` once it was read.
    Reply(Option<String>),
}

impl StepSource {
    async fn next_event(&mut self) -> Option<OpenAiResult<StepEvent>> {
        match self {
            Self::Model(step) => Some(step.next_event().await?.map_err(|error| (&error).into())),
            Self::Reply(text) => Some(Ok(match text.take() {
                Some(text) => StepEvent::Text(text),
                None => StepEvent::Finished { stop: StopReason::Done, usage: None },
            })),
        }
    }

    fn bill(&self) -> AnswerCost {
        match self {
            Self::Model(step) => step.bill(),
            Self::Reply(_) => AnswerCost::default(),
        }
    }
}

/// An item that grows.
struct OpenItem {
    id: String,
    kind: OpenKind,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenKind {
    Reasoning,
    Text,
}

/// The items of a response, and their events.
struct PlainItems {
    /// The end of the ids of its items.
    tail: String,
    /// The number of items that were sent.
    count: usize,
    done: Vec<Value>,
    open: Option<OpenItem>,
    calls: usize,
    numbers: EventNumbers,
}

/// Reads a step as a response.
struct PlainResponseReader {
    chat: ChatService,
    principal: Principal,
    head: ResponseHead,
    source: StepSource,
    items: PlainItems,
    has_begun: bool,
    has_ended: bool,
}

impl PlainResponseReader {
    /// Creates a reader. `tail` is the part of the id that the ids of items have, too.
    fn new(
        chat: ChatService,
        principal: Principal,
        head: ResponseHead,
        tail: String,
        source: StepSource,
    ) -> Self {
        let numbers = EventNumbers::default();
        let items = PlainItems { tail, count: 0, done: Vec::new(), open: None, calls: 0, numbers };
        Self { chat, principal, head, source, items, has_begun: false, has_ended: false }
    }

    /// Streams the events.
    fn stream_events(self) -> Response {
        let revoked = self.chat.access.clone().await_revocation(self.principal.clone());
        let frames = stream::unfold(self, async |mut reader| {
            let events = reader.next_events().await?;
            let frames: Vec<_> = events.into_iter().map(ResponseEvent::encode).collect();
            Some((SseEvent::from_named(&frames), reader))
        });
        data_stream(frames, revoked)
    }

    async fn next_events(&mut self) -> Option<Vec<ResponseEvent>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let response = self.head.response(ResponseState::open("in_progress", Vec::new()));
            let fields = json!({"response": response});
            let numbers = &mut self.items.numbers;
            let names = ["response.created", "response.in_progress"];
            return Some(names.iter().map(|name| numbers.event(name, fields.clone())).collect());
        }
        while !self.has_ended {
            let mut events = Vec::new();
            match self.next_event().await {
                Ok(StepEvent::Finished { stop, .. }) => {
                    let (name, response) = self.finish(stop, &mut events);
                    events.push(self.items.numbers.event(name, json!({"response": response})));
                }
                Ok(event) => self.items.read_event(event, &mut events),
                Err(error) => {
                    self.has_ended = true;
                    self.items.close_open("incomplete", false, &mut events);
                    let output = std::mem::take(&mut self.items.done);
                    let failed = ResponseState {
                        error: Some(error.to_value()),
                        ..ResponseState::open("failed", output)
                    };
                    let fields = json!({"response": self.head.response(failed)});
                    events.push(self.items.numbers.event("response.failed", fields));
                }
            }
            if !events.is_empty() {
                return Some(events);
            }
        }
        None
    }

    /// Returns the next event. A stream that ends without its last event is an error.
    async fn next_event(&mut self) -> OpenAiResult<StepEvent> {
        tokio::select! {
            event = self.source.next_event() => {
                let cut = || OpenAiError::unavailable("the model's answer was cut off: try again");
                event.unwrap_or_else(|| Err(cut()))
            }
            () = self.chat.shutdown.cancelled() => Err(restart_error()),
        }
    }

    /// Ends the items, and returns the name of the last event and the response.
    fn finish(&mut self, stop: StopReason, events: &mut Vec<ResponseEvent>) -> (&'static str, Value) {
        self.has_ended = true;
        let incomplete = match stop {
            StopReason::OutputFull => Some("max_output_tokens"),
            StopReason::Filtered => Some("content_filter"),
            StopReason::Done | StopReason::Calls | StopReason::Refused | StopReason::Stopped => None,
        };
        let status = if incomplete.is_some() { "incomplete" } else { "completed" };
        self.items.close_open(status, self.items.calls == 0, events);
        let response = self.head.response(ResponseState {
            incomplete,
            completed: incomplete.is_none().then(|| self.chat.asker.histories.now_seconds()),
            cost: Some(self.source.bill()),
            ..ResponseState::open(status, std::mem::take(&mut self.items.done))
        });
        (if incomplete.is_some() { "response.incomplete" } else { "response.completed" }, response)
    }

    /// Waits for the end of the step, and returns it as a whole.
    async fn read_whole(mut self) -> OpenAiResult<Response> {
        let revoked = self.chat.access.clone().await_revocation(self.principal.clone());
        let gathered = async {
            loop {
                // A client that does not follow the events gets none.
                let mut events = Vec::new();
                match self.next_event().await? {
                    StepEvent::Finished { stop, .. } => {
                        return OpenAiResult::Ok(self.finish(stop, &mut events).1);
                    }
                    event => self.items.read_event(event, &mut events),
                }
            }
        };
        let response = tokio::select! {
            response = gathered => response?,
            () = revoked => return Err(OpenAiError::invalid_key()),
        };
        Ok(json_response(response.to_string()))
    }
}

impl PlainItems {
    fn read_event(&mut self, event: StepEvent, events: &mut Vec<ResponseEvent>) {
        match event {
            StepEvent::Text(text) => self.append(OpenKind::Text, &text, events),
            StepEvent::Reasoning(text) => self.append(OpenKind::Reasoning, &text, events),
            StepEvent::WasReasoning => {
                let Some(OpenItem { kind: OpenKind::Text, text, .. }) = &self.open else { return };
                let text = text.clone();
                // What was sent as text is another item.
                self.close_open("incomplete", false, events);
                self.done.pop();
                self.append(OpenKind::Reasoning, &text, events);
            }
            StepEvent::Call(call) => self.push_call(call, events),
            StepEvent::Cited(_)
            | StepEvent::Noted(_)
            | StepEvent::Opaque { .. }
            | StepEvent::Finished { .. } => {}
        }
    }

    /// Returns the id of the next item, and its place.
    fn next_place(&mut self, prefix: &str) -> (String, usize) {
        let index = self.count;
        self.count += 1;
        (format!("{prefix}_{}_{index}", self.tail), index)
    }

    /// Appends text to the open item, or begins another one.
    fn append(&mut self, kind: OpenKind, text: &str, events: &mut Vec<ResponseEvent>) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close_open("completed", false, events);
            self.open_item(kind, events);
        }
        let Some(open) = &mut self.open else { return };
        open.text.push_str(text);
        let place = json!({"item_id": open.id, "output_index": self.count - 1, "delta": text});
        let (name, more) = match kind {
            OpenKind::Text => ("response.output_text.delta", json!({"content_index": 0, "logprobs": []})),
            OpenKind::Reasoning => ("response.reasoning_summary_text.delta", json!({"summary_index": 0})),
        };
        events.push(self.numbers.event(name, with_fields(&place, more)));
    }

    fn open_item(&mut self, kind: OpenKind, events: &mut Vec<ResponseEvent>) {
        let prefix = if kind == OpenKind::Text { "msg" } else { "rs" };
        let (id, index) = self.next_place(prefix);
        let place = json!({"item_id": id, "output_index": index});
        let open = OpenItem { id, kind, text: String::new() };
        let added = json!({"output_index": index, "item": open.to_json("in_progress", false)});
        events.push(self.numbers.event("response.output_item.added", added));
        let (name, more) = match kind {
            OpenKind::Text => {
                ("response.content_part.added", json!({"content_index": 0, "part": output_text("", &[])}))
            }
            OpenKind::Reasoning => (
                "response.reasoning_summary_part.added",
                json!({"summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
            ),
        };
        events.push(self.numbers.event(name, with_fields(&place, more)));
        self.open = Some(open);
    }

    /// Ends the item that grows, if there is one.
    fn close_open(&mut self, status: &str, is_last: bool, events: &mut Vec<ResponseEvent>) {
        let Some(open) = self.open.take() else { return };
        let index = self.count - 1;
        let place = json!({"item_id": open.id, "output_index": index});
        let item = open.to_json(status, is_last);
        match open.kind {
            OpenKind::Text => {
                let place = with_fields(&place, json!({"content_index": 0}));
                let part = json!({"part": output_text(&open.text, &[])});
                let text = with_fields(&place, json!({"text": open.text, "logprobs": []}));
                events.push(self.numbers.event("response.output_text.done", text));
                events.push(self.numbers.event("response.content_part.done", with_fields(&place, part)));
            }
            OpenKind::Reasoning => {
                let place = with_fields(&place, json!({"summary_index": 0}));
                let part = json!({"part": {"type": "summary_text", "text": open.text}});
                let text = with_fields(&place, json!({"text": open.text}));
                events.push(self.numbers.event("response.reasoning_summary_text.done", text));
                let part = with_fields(&place, part);
                events.push(self.numbers.event("response.reasoning_summary_part.done", part));
            }
        }
        let done = json!({"output_index": index, "item": item});
        events.push(self.numbers.event("response.output_item.done", done));
        self.done.push(item);
    }

    /// Adds a call, which models finish at once.
    fn push_call(&mut self, call: StepCall, events: &mut Vec<ResponseEvent>) {
        self.close_open("completed", false, events);
        self.calls += 1;
        let (id, index) = self.next_place("fc");
        let place = json!({"item_id": id, "output_index": index});
        let item = |status: &str, arguments: &str| {
            json!({"id": id, "type": "function_call", "status": status, "call_id": call.id, "name": call.tool,
                "arguments": arguments})
        };
        let added = json!({"output_index": index, "item": item("in_progress", "")});
        let delta = with_fields(&place, json!({"delta": call.arguments}));
        let whole = with_fields(&place, json!({"arguments": call.arguments, "name": call.tool}));
        let item = item("completed", &call.arguments);
        let done = json!({"output_index": index, "item": item});
        for (name, fields) in [
            ("response.output_item.added", added),
            ("response.function_call_arguments.delta", delta),
            ("response.function_call_arguments.done", whole),
            ("response.output_item.done", done),
        ] {
            events.push(self.numbers.event(name, fields));
        }
        self.done.push(item);
    }
}

impl OpenItem {
    fn to_json(&self, status: &str, is_last: bool) -> Value {
        let Self { id, kind, text } = self;
        let is_begun = status == "in_progress";
        match kind {
            OpenKind::Text => {
                let content = if is_begun { Vec::new() } else { vec![output_text(text, &[])] };
                let mut message = json!({"id": id, "type": "message", "role": "assistant", "status": status,
                    "content": content});
                if !is_begun {
                    message["phase"] = if is_last { "final_answer" } else { "commentary" }.into();
                }
                message
            }
            OpenKind::Reasoning => {
                let summary =
                    if is_begun { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
                json!({"id": id, "type": "reasoning", "status": status, "summary": summary})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::step::StepCall;

    use super::*;

    fn new_items() -> PlainItems {
        let (tail, numbers) = ("7".to_owned(), EventNumbers::default());
        PlainItems { tail, count: 0, done: Vec::new(), open: None, calls: 0, numbers }
    }

    fn read(items: &mut PlainItems, events: Vec<StepEvent>) -> Vec<&'static str> {
        let mut sent = Vec::new();
        for event in events {
            items.read_event(event, &mut sent);
        }
        items.close_open("completed", true, &mut sent);
        sent.into_iter().map(|event| event.encode().0).collect()
    }

    #[test]
    fn texts_and_calls_are_items() {
        let mut items = new_items();
        let call = StepCall {
            id: "c".to_owned(),
            tool: "weather".to_owned(),
            arguments: "{}".to_owned(),
            purpose: domain::step::Purpose::Tool,
        };
        let names = read(
            &mut items,
            vec![
                StepEvent::Reasoning("So.".to_owned()),
                StepEvent::Text("It ".to_owned()),
                StepEvent::Text("rains.".to_owned()),
                StepEvent::Call(call),
            ],
        );
        assert_eq!(names.iter().filter(|name| name.ends_with("output_item.done")).count(), 3);
        assert!(names.contains(&"response.function_call_arguments.done"), "{names:?}");
        let kinds: Vec<_> = items.done.iter().filter_map(|item| item["type"].as_str()).collect();
        assert_eq!(kinds, ["reasoning", "message", "function_call"]);
        assert_eq!(
            (&items.done[1]["content"][0]["text"], &items.done[1]["phase"]),
            (&json!("It rains."), &json!("commentary"))
        );
        assert_eq!((&items.done[2]["call_id"], &items.done[2]["arguments"]), (&json!("c"), &json!("{}")));
    }

    #[test]
    fn text_that_was_reasoning_is_replaced() {
        let mut items = new_items();
        let events = vec![
            StepEvent::Text("Hm.".to_owned()),
            StepEvent::WasReasoning,
            StepEvent::Text("Yes.".to_owned()),
        ];
        read(&mut items, events);
        let [thought, text] = &items.done[..] else { unreachable!("{:?}", items.done) };
        assert_eq!(thought["summary"][0]["text"], "Hm.");
        assert_eq!((&text["content"][0]["text"], &text["phase"]), (&json!("Yes."), &json!("final_answer")));
        assert_ne!(thought["id"], text["id"]);
    }
}
