//! `/v1/responses`: answers by an agent as responses: whole, as a stream of events, or in the background.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use control::{Principal, PublicCode};
use domain::answer::{AnswerEnding, ErrorCode};
use domain::catalog::ModelEntry;
use domain::credits::AnswerCost;
use domain::scope::Permission::{Ask, Read};
use futures_util::stream;
use http_common::{Peer, SseEvent, data_stream};
use live::LiveAnswer;
use serde_json::{Value, json};
use telemetry::trace::SpanContext;

use crate::asking::{AnswerChoices, AskedHistory, ConversationName, FollowedAnswer, NamedPlace, is_repeated};
use crate::body::{ParsedBody, process_body};
use crate::chat::{CONVERSATION, ChatService, add_header, json_response, name_ignored, refuse_forced_tools};
use crate::error::{OpenAiError, OpenAiResult};
use crate::history::{History, HistoryHash, hash_after_answer};
use crate::model_id::ModelId;
use crate::paging::PageQuery;
use crate::path_ids::id_after;
use crate::readers::{AnswerFollower, FollowedStep, ReaderGuard, restart_error};
use crate::response_items::{ResponseEvent, ResponseItems};
use crate::response_request::{ResponseInput, ResponseRequest, after_response};
use crate::response_wire::{ResponseEcho, ResponseHead, ResponseId, ResponseState, conversation_text};
use crate::side_request::find_side_task;
use crate::stored_items::question_item;

/// The path before the ids of responses.
const PATH: &str = "/v1/responses/";
/// The time for a cancelled answer to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest number of an event after which a stream may continue.
const AFTER_MAX: u64 = (1 << 53) - 1;

/// Answers the last message of the input.
pub(crate) async fn create_response(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    trace: Option<Extension<SpanContext>>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Ask], "createResponse")?;
    let headers = request.headers().clone();
    let origin = origin_of(&chat, &request);
    let parse = |body: &str| {
        let mut request = ResponseRequest::parse(body)?;
        let input = request.take_input()?;
        Ok((request, input))
    };
    let parsed = chat.bodies.parse_body(&principal, &chat.access, request, parse).await?;
    let ParsedBody { value: (mut request, input), hash: request_hash, held, size } = parsed;
    let models = chat.asker.catalogs.list_models(&principal)?;
    let id = request.model.as_deref().filter(|id| !id.is_empty());
    let id = id.map(|id| ModelId::parse(id, |id| models.iter().any(|model| model.id == id)));
    let task = find_side_task(&headers, &request.side_facts(), &input.messages);
    // A request that names a response or a conversation is a question of it.
    let task = task.filter(|_| !request.names_place() && input.after.is_none());
    if task.is_some() || matches!(id, Some(ModelId::Plain(_))) {
        return chat.respond_plainly(principal, &models, (request, input), id, task).await;
    }
    let (choices, ignored) = choose_answer(id, &models, &request)?;
    let ResponseInput { mut messages, after } = input;
    // Calls of the client's tools say nothing to an agent.
    messages.retain(|message| message.calls.is_empty() || !message.text.is_empty());
    let history = process_body(size, move || History::from_messages(messages)).await;
    let history = history.map_err(OpenAiError::of_input)?;
    let place = match request.named_place()? {
        Some(place) => Some(place),
        None => after.map(after_response),
    };
    chat.check_place(&principal, &request, place.as_ref()).await?;
    let named = place.clone();
    let asked_hash = place.is_none().then_some(history.asked_hash);
    let asked = AskedHistory {
        name: ConversationName::from_request(&headers, request.prompt_cache_key.as_deref()),
        history,
        choices,
        place,
        request_hash,
        is_repeated: is_repeated(&headers),
        trace: trace.map(|Extension(trace)| trace),
    };
    let FollowedAnswer { live, mut reader } =
        chat.asker.ask_question(&principal, asked).await.map_err(OpenAiError::of_input)?;
    drop(held);
    let background = request.background == Some(true);
    let mut head = head_of(&live);
    head.background = background;
    head.echo = request.to_echo();
    if let Some(NamedPlace::Named(name)) = &named {
        // The client knows it by this id.
        head.conversation = Some(name.clone());
    }
    if let Some(model) = request.model.take().filter(|model| !model.is_empty()) {
        head.model = model;
    }
    if background {
        // Nobody has to read it.
        reader.finish();
    }
    let reader = (!background).then_some(reader);
    let conversation = live.meta().conversation.to_string();
    let reading = ResponseReader { asked_hash, ..ResponseReader::new(chat, principal, head, live, origin) };
    let mut response = if request.stream == Some(true) {
        ResponseReader { reader, ..reading }.stream_events()
    } else if background {
        reading.read_present().await
    } else {
        ResponseReader { reader, ..reading }.read_whole().await?
    };
    add_header(response.headers_mut(), CONVERSATION, &conversation);
    name_ignored(&mut response, &ignored);
    Ok(response)
}

/// Returns a response in its present state, or streams its events.
pub(crate) async fn find_response(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Read], "findResponse")?;
    let (is_streamed, after) = parse_query(request.uri().query().unwrap_or_default())?;
    let origin = origin_of(&chat, &request);
    let id = id_after(&request, PATH);
    let found = ResponseId::parse(id).ok_or_else(|| OpenAiError::not_found("response", id))?;
    let ResponseId { conversation, answer } = found;
    let live = chat.asker.answers.find_answer(&principal, conversation, answer).await;
    let live = live.map_err(|error| match error.code() {
        PublicCode::NotFound => OpenAiError::not_found("response", id),
        _ => error.into(),
    })?;
    let head = head_of(&live);
    if !is_streamed {
        return Ok(ResponseReader::new(chat, principal, head, live, origin).read_present().await);
    }
    let reader = chat.asker.readers.join_readers(&principal, answer);
    let reading = ResponseReader::new(chat, principal, head, live, origin);
    Ok(ResponseReader { reader, after, ..reading }.stream_events())
}

/// Lists the input of a response: its question. What was said before is in its conversation.
pub(crate) async fn list_input_items(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Read], "listInputItems")?;
    let page = PageQuery::parse(request.uri().query())?;
    let id = id_after(&request, PATH);
    let missing = || OpenAiError::not_found("response", id);
    let found = ResponseId::parse(id).ok_or_else(missing)?;
    let asked = chat.asker.conversations.asked_exchange(&principal, found.conversation, found.answer).await;
    let asked = asked.map_err(|error| match error.code() {
        PublicCode::NotFound => missing(),
        _ => error.into(),
    })?;
    let item = question_item(found, &asked.text, &asked.attachments);
    Ok(json_response(page.page_of(vec![item])?.to_string()))
}

/// Deletes a response with its conversation, if it has no other one.
pub(crate) async fn delete_response(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Ask], "deleteResponse")?;
    let id = id_after(&request, PATH);
    let missing = || OpenAiError::not_found("response", id);
    let found = ResponseId::parse(id).ok_or_else(missing)?;
    chat.find_asked(&principal, found).await?.ok_or_else(missing)?;
    let conversations = &chat.asker.conversations;
    let shown = conversations.shown_branch(&principal, found.conversation).await?;
    let versions = conversations.list_versions(&principal, found.conversation, 0, 1).await?;
    if shown.exchanges != 1 || shown.last != found.answer || !versions.is_empty() {
        let message = "the conversation of this response has others: delete it at /v1/conversations/…";
        return Err(OpenAiError::invalid(message));
    }
    conversations.delete_conversation(&principal, found.conversation).await?;
    Ok(json_response(json!({"id": id, "object": "response", "deleted": true}).to_string()))
}

/// Stops an answer, and returns its response.
pub(crate) async fn cancel_response(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Ask], "cancelResponse")?;
    let origin = origin_of(&chat, &request);
    let id = id_after(&request, PATH);
    let found = ResponseId::parse(id).ok_or_else(|| OpenAiError::not_found("response", id))?;
    let live =
        chat.find_asked(&principal, found).await?.ok_or_else(|| OpenAiError::not_found("response", id))?;
    if live.read_answer(|answer| answer.ending.is_none()) {
        chat.asker.histories.stop_abandoned(&principal, found.answer).await?;
        let shutdown = chat.shutdown.cancelled();
        chat.asker.answers.wait_for_end(&principal, &live, STOP_TIMEOUT, shutdown).await;
    }
    let head = head_of(&live);
    Ok(ResponseReader::new(chat, principal, head, live, origin).read_present().await)
}

/// Returns the origin with which links in the answer to a request begin.
pub(crate) fn origin_of(chat: &ChatService, request: &Request) -> String {
    let peer = request.extensions().get::<Peer>().copied();
    chat.origins.origin_of(request.uri(), request.headers(), peer)
}

fn id_of(live: &LiveAnswer) -> ResponseId {
    let meta = live.meta();
    ResponseId { conversation: meta.conversation, answer: meta.answer }
}

/// Returns what is known of a response without its request.
fn head_of(live: &LiveAnswer) -> ResponseHead {
    let meta = live.meta();
    ResponseHead {
        id: id_of(live).to_text(),
        conversation: Some(conversation_text(meta.conversation)),
        created: u64::try_from(meta.created_at.micros() / 1_000_000).unwrap_or_default(),
        model: meta.model.clone(),
        background: false,
        echo: ResponseEcho::default(),
    }
}

/// Returns whether the query asks for a stream, and the number after which it continues.
fn parse_query(query: &str) -> OpenAiResult<(bool, Option<u64>)> {
    let (mut is_streamed, mut after) = (false, None);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "stream" if matches!(value, "true" | "false") => is_streamed = value == "true",
            "stream" => return Err(OpenAiError::invalid_field("stream", "stream is true or false")),
            "starting_after" => {
                let number = value.parse().ok().filter(|number| *number <= AFTER_MAX);
                let message = "starting_after is not the number of an event: send its sequence_number";
                let refused = || OpenAiError::invalid_field("starting_after", message);
                after = Some(number.ok_or_else(refused)?);
            }
            _ => {}
        }
    }
    if after.is_some() && !is_streamed {
        let message = "starting_after needs stream=true";
        return Err(OpenAiError::invalid_field("starting_after", message));
    }
    Ok((is_streamed, after))
}

/// Returns the choices of a question, and the fields that have no effect.
fn choose_answer(
    id: Option<ModelId>,
    models: &[ModelEntry],
    request: &ResponseRequest,
) -> OpenAiResult<(AnswerChoices, Vec<&'static str>)> {
    if request.has_client_tools() {
        refuse_forced_tools(request.tool_choice.as_ref())?;
    }
    let mut choices = AnswerChoices::from_model(id);
    let mut ignored = request.ignored_fields();
    if request.effort().is_some_and(|effort| !choices.set_effort(effort, models)) {
        ignored.push("reasoning.effort");
    }
    choices.web_search = request.permits_web_search();
    choices.jurisdictions = request.metadata_words("jurisdictions");
    choices.skills = request.metadata_words("skills");
    Ok((choices, ignored))
}

impl ChatService {
    /// Checks that the answer exists after which a question is asked.
    async fn check_place(
        &self,
        principal: &Principal,
        request: &ResponseRequest,
        place: Option<&NamedPlace>,
    ) -> OpenAiResult<()> {
        let Some(NamedPlace::After { conversation, answer }) = place else { return Ok(()) };
        let id = ResponseId { conversation: *conversation, answer: *answer };
        if self.find_asked(principal, id).await?.is_some() {
            return Ok(());
        }
        let named = request.previous_response_id.as_ref();
        let field = named.map_or("input", |_| "previous_response_id");
        Err(OpenAiError::no_previous_response(field, &id.to_text()))
    }

    /// Returns the answer that a response is. The permission to ask is enough.
    async fn find_asked(
        &self,
        principal: &Principal,
        id: ResponseId,
    ) -> OpenAiResult<Option<Arc<LiveAnswer>>> {
        match self.asker.answers.find_replayed(principal, id.conversation, id.answer).await {
            Ok(live) => Ok(Some(live)),
            Err(error) if error.code() == PublicCode::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads an answer as a response.
struct ResponseReader {
    chat: ChatService,
    principal: Principal,
    head: ResponseHead,
    /// The hash of the history with its question, if the history has found its conversation.
    asked_hash: Option<HistoryHash>,
    live: Arc<LiveAnswer>,
    follower: AnswerFollower,
    /// `None` for a response that goes on without readers.
    reader: Option<ReaderGuard>,
    /// The number of the last event that the client has.
    after: Option<u64>,
    items: ResponseItems,
}

/// The outcome of an answer in the terms of responses.
struct Outcome {
    status: &'static str,
    event: &'static str,
    incomplete: Option<&'static str>,
    error: Option<Value>,
}

impl Outcome {
    fn of_ending(ending: &AnswerEnding) -> Self {
        let incomplete =
            |status, reason| Self { status, event: "response.incomplete", incomplete: reason, error: None };
        match ending {
            AnswerEnding::Done => {
                let (status, event) = ("completed", "response.completed");
                Self { status, event, incomplete: None, error: None }
            }
            AnswerEnding::Stopped => incomplete("cancelled", None),
            AnswerEnding::Failed(failure) => match failure.code {
                ErrorCode::OutputExhausted => incomplete("incomplete", Some("max_output_tokens")),
                ErrorCode::ModelRefused => incomplete("incomplete", Some("content_filter")),
                _ => {
                    let error = Some(OpenAiError::from(failure).to_value());
                    Self { status: "failed", event: "response.failed", incomplete: None, error }
                }
            },
        }
    }
}

impl ResponseReader {
    fn new(
        chat: ChatService,
        principal: Principal,
        head: ResponseHead,
        live: Arc<LiveAnswer>,
        origin: String,
    ) -> Self {
        let follower = AnswerFollower::new(live.clone(), chat.shutdown.clone());
        let items = ResponseItems::new(id_of(&live), origin);
        let (asked_hash, reader, after) = (None, None, None);
        Self { chat, principal, head, asked_hash, live, follower, reader, after, items }
    }

    /// Streams the events.
    fn stream_events(self) -> Response {
        let revoked = self.chat.access.clone().await_revocation(self.principal.clone());
        let frames = stream::unfold(self, async |mut reader| {
            let frames = reader.next_frames().await?;
            Some((SseEvent::from_named(&frames), reader))
        });
        data_stream(frames, revoked)
    }

    /// Returns the next frames of the stream; `None` at its end. Cancel safe until the answer has ended.
    async fn next_frames(&mut self) -> Option<Vec<(&'static str, String)>> {
        loop {
            let items = &mut self.items;
            let frames = match self.follower.next_step(|answer| items.read_state(answer)).await? {
                FollowedStep::Began => {
                    let events = self.first_events_of();
                    self.encode_events(events)
                }
                FollowedStep::Interrupted => vec![self.restart_frame()],
                FollowedStep::State(events, ending) => {
                    let mut frames = self.encode_events(events);
                    if let Some(ending) = ending {
                        // It is sent even if the client had it: no stream ends without it.
                        frames.push(self.last_event(&ending).await.encode());
                    }
                    frames
                }
            };
            if !frames.is_empty() {
                return Some(frames);
            }
        }
    }

    fn encode_events(&self, events: Vec<ResponseEvent>) -> Vec<(&'static str, String)> {
        events.into_iter().filter_map(|event| event.encode_after(self.after)).collect()
    }

    /// Returns the events before all items.
    fn first_events_of(&mut self) -> Vec<ResponseEvent> {
        let status = if self.head.background { "queued" } else { "in_progress" };
        let response =
            |status| json!({"response": self.head.response(ResponseState::open(status, Vec::new()))});
        let numbers = &mut self.items.numbers;
        let mut events = vec![numbers.event("response.created", response(status))];
        if self.head.background {
            events.push(numbers.event("response.queued", response(status)));
        } else {
            numbers.skip();
        }
        events.push(numbers.event("response.in_progress", response("in_progress")));
        events
    }

    /// Returns the frame with which a stream ends before its answer. Programs differ in where they look for the error.
    fn restart_frame(&mut self) -> (&'static str, String) {
        let error = restart_error().to_value();
        let fields =
            json!({"code": error["code"], "message": error["message"], "param": null, "error": error});
        self.items.numbers.event("error", fields).encode()
    }

    async fn last_event(&mut self, ending: &AnswerEnding) -> ResponseEvent {
        let (outcome, response) = self.finish_reading(ending).await;
        self.items.numbers.event(outcome.event, json!({"response": response}))
    }

    /// Records what the client has got, and returns the response.
    async fn finish_reading(&mut self, ending: &AnswerEnding) -> (Outcome, Value) {
        if let Some(reader) = &mut self.reader {
            reader.finish();
        }
        let ResponseId { conversation, answer } = id_of(&self.live);
        let items = &self.items;
        let asked = self.asked_hash;
        let (output, after) = self.live.read_answer(|answer| {
            let texts = || items.texts(answer).filter(|text| !text.is_empty());
            let after = asked.map(|asked| texts().fold(asked, |hash, text| hash_after_answer(&hash, text)));
            (items.output(answer), after)
        });
        if let Some(after) = after {
            // Failures were logged. Without the hash the next question is placed by the questions before it.
            let _ = self.chat.asker.histories.record_sent_answer(&self.principal, answer, after).await;
        }
        let cost = self.chat.asker.answers.answer_bill(&self.principal, conversation, answer).await.ok();
        let outcome = Outcome::of_ending(ending);
        let response = self.head.response(ResponseState {
            status: outcome.status,
            output,
            error: outcome.error.clone(),
            incomplete: outcome.incomplete,
            completed: None,
            cost: cost.or(Some(AnswerCost::default())),
        });
        (outcome, response)
    }

    /// Waits for the end of the answer, and returns it as a whole.
    async fn read_whole(mut self) -> OpenAiResult<Response> {
        let revoked = self.chat.access.clone().await_revocation(self.principal.clone());
        self.follower.wait_for_end(revoked).await?;
        Ok(self.read_present().await)
    }

    /// Returns the present state.
    async fn read_present(mut self) -> Response {
        let items = &mut self.items;
        let (is_begun, ending) = self.live.read_answer(|answer| {
            items.read_state(answer);
            (!answer.parts.is_empty(), answer.ending.clone())
        });
        if let Some(ending) = ending {
            let (_, response) = self.finish_reading(&ending).await;
            return json_response(response.to_string());
        }
        let status = if self.head.background && !is_begun { "queued" } else { "in_progress" };
        let items = &mut self.items;
        let output = self.live.read_answer(|answer| {
            items.read_state(answer);
            items.output(answer)
        });
        json_response(self.head.response(ResponseState::open(status, output)).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_names_stream_and_number() {
        assert_eq!(parse_query(""), Ok((false, None)));
        assert_eq!(parse_query("stream=true&include[]=x&starting_after=7"), Ok((true, Some(7))));
        for wrong in [
            "stream=yes",
            "starting_after=7",
            "stream=true&starting_after=-1",
            "stream=true&starting_after=99999999999999999999",
            "stream=true&starting_after=x",
        ] {
            assert!(parse_query(wrong).is_err(), "{wrong}");
        }
    }
}
