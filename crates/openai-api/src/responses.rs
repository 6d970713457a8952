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
use live::{AnswerProgress, LiveAnswer};
use serde_json::{Value, json};
use telemetry::trace::SpanContext;
use tokio::sync::watch;

use crate::asking::{
    AnswerChoices, AskedHistory, ConversationName, FollowedAnswer, NamedPlace, hash_request, is_repeated,
};
use crate::chat::{
    CONVERSATION, ChatService, IGNORED, add_header, json_response, refuse_forced_tools, restart_error,
};
use crate::error::{OpenAiError, OpenAiResult};
use crate::history::{History, HistoryHash, hash_after_answer};
use crate::model_id::ModelId;
use crate::readers::{ReaderGuard, StreamStage};
use crate::request_id::id_after;
use crate::response_items::{ResponseEvent, ResponseItems};
use crate::response_request::{ResponseRequest, after_response};
use crate::response_wire::{ResponseEcho, ResponseHead, ResponseId, ResponseState};

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
    let body = chat.bodies.read_body(&principal, &chat.access, request).await?;
    let mut request = ResponseRequest::parse(body.raw.get())?;
    let request_hash = hash_request(&principal, body.raw.get());
    let input = request.take_input()?;
    let held = body.into_share();
    let models = chat.asker.catalogs.list_models(&principal)?;
    let (choices, ignored) = choose_answer(&models, &request)?;
    let history = History::from_messages(input.messages).map_err(OpenAiError::of_input)?;
    let place = match request.named_place()? {
        Some(place) => Some(place),
        None => input.after.map(after_response),
    };
    chat.check_place(&principal, &request, place).await?;
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
    if let Some(model) = request.model.take().filter(|model| !model.is_empty()) {
        head.model = model;
    }
    if background {
        // Nobody has to read it.
        reader.finish();
    }
    let reader = (!background).then_some(reader);
    let conversation = head.id.conversation.to_string();
    let reading = ResponseReader { asked_hash, ..ResponseReader::new(chat, principal, head, live, origin) };
    let mut response = if request.stream == Some(true) {
        ResponseReader { reader, ..reading }.stream_events()
    } else if background {
        reading.read_present().await
    } else {
        ResponseReader { reader, ..reading }.read_whole().await?
    };
    add_header(response.headers_mut(), CONVERSATION, &conversation);
    if !ignored.is_empty() {
        add_header(response.headers_mut(), IGNORED, &ignored.join(", "));
    }
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
    let live = chat.find_asked(&principal, found).await?.ok_or_else(|| OpenAiError::not_found("response", id))?;
    if live.read_answer(|answer| answer.ending.is_none()) {
        chat.asker.histories.stop_abandoned(&principal, found.answer).await?;
        let shutdown = chat.shutdown.cancelled();
        chat.asker.answers.wait_for_end(&principal, &live, STOP_TIMEOUT, shutdown).await;
    }
    let head = head_of(&live);
    Ok(ResponseReader::new(chat, principal, head, live, origin).read_present().await)
}

fn origin_of(chat: &ChatService, request: &Request) -> String {
    let peer = request.extensions().get::<Peer>().copied();
    chat.origins.origin_of(request.uri(), request.headers(), peer)
}

/// Returns what is known of a response without its request.
fn head_of(live: &LiveAnswer) -> ResponseHead {
    let meta = live.meta();
    ResponseHead {
        id: ResponseId { conversation: meta.conversation, answer: meta.answer },
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
    models: &[ModelEntry],
    request: &ResponseRequest,
) -> OpenAiResult<(AnswerChoices, Vec<&'static str>)> {
    let id = request.model.as_deref().filter(|id| !id.is_empty());
    let id = id.map(|id| ModelId::parse(id, |id| models.iter().any(|model| model.id == id)));
    if let Some(ModelId::Plain(_)) = id {
        let message = "models without an agent answer at /v1/chat/completions alone: ask there";
        return Err(OpenAiError::invalid_field("model", message));
    }
    if request.has_client_tools() {
        refuse_forced_tools(request.tool_choice.as_ref())?;
    }
    let mut choices = AnswerChoices::from_model(id);
    let mut ignored = request.ignored_fields();
    let effort = request.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_deref());
    if effort.is_some_and(|effort| !choices.set_effort(effort, models)) {
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
        place: Option<NamedPlace>,
    ) -> OpenAiResult<()> {
        let Some(NamedPlace::After { conversation, answer }) = place else { return Ok(()) };
        let id = ResponseId { conversation, answer };
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
    progress: watch::Receiver<AnswerProgress>,
    /// `None` for a response that goes on without readers.
    reader: Option<ReaderGuard>,
    /// The number of the last event that the client has.
    after: Option<u64>,
    items: ResponseItems,
    stage: StreamStage,
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
        let progress = live.progress();
        let items = ResponseItems::new(head.id, origin);
        let (asked_hash, reader, after, stage) = (None, None, None, StreamStage::Begin);
        Self { chat, principal, head, asked_hash, live, progress, reader, after, items, stage }
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
        match self.stage {
            StreamStage::Begin => {
                self.stage = StreamStage::Present;
                let events = self.first_events_of();
                let frames = self.encode_events(events);
                if !frames.is_empty() {
                    return Some(frames);
                }
            }
            StreamStage::Present | StreamStage::Growing => {}
            StreamStage::Ended => return None,
        }
        loop {
            if self.stage == StreamStage::Growing && !self.wait_for_change().await {
                self.stage = StreamStage::Ended;
                return Some(vec![self.restart_frame()]);
            }
            self.stage = StreamStage::Growing;
            self.progress.mark_unchanged();
            let items = &mut self.items;
            let (events, ending) =
                self.live.read_answer(|answer| (items.read_state(answer), answer.ending.clone()));
            let mut frames = self.encode_events(events);
            if let Some(ending) = ending {
                self.stage = StreamStage::Ended;
                let last = self.last_event(&ending).await;
                // It is sent even if the client had it: no stream ends without it.
                frames.push(last.encode());
            }
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

    /// Waits for a change of the answer. Returns false when the service shuts down.
    async fn wait_for_change(&mut self) -> bool {
        tokio::select! {
            // The sender lives as long as the answer.
            changed = self.progress.changed() => changed.is_ok(),
            () = self.chat.shutdown.cancelled() => false,
        }
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
        let ResponseId { conversation, answer } = self.head.id;
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
            cost: cost.or(Some(AnswerCost::default())),
        });
        (outcome, response)
    }

    /// Waits for the end of the answer, and returns it as a whole.
    async fn read_whole(self) -> OpenAiResult<Response> {
        let revoked = self.chat.access.clone().await_revocation(self.principal.clone());
        let mut progress = self.live.progress();
        tokio::select! {
            _ = progress.wait_for(|progress| progress.ended) => {}
            () = self.chat.shutdown.cancelled() => return Err(restart_error()),
            () = revoked => return Err(OpenAiError::invalid_key()),
        }
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
