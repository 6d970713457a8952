//! `POST /v1/chat/completions` by an agent: whole, or as a stream of chunks.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use control::{Authenticator, PlainSteps, Principal};
use domain::answer::{AnswerEnding, ErrorCode};
use domain::catalog::ModelEntry;
use domain::credits::AnswerCost;
use domain::scope::Permission::Ask;
use futures_util::stream;
use http_common::{Peer, SseEvent, data_stream};
use live::LiveAnswer;
use serde_json::Value;
use telemetry::trace::SpanContext;
use tokio_util::sync::CancellationToken;

use crate::asking::{
    AnswerChoices, AskedHistory, ConversationName, FollowedAnswer, HistoryAsker, is_repeated,
};
use crate::body::{BodyBudget, ParsedBody, process_body};
use crate::chat_request::ChatRequest;
use crate::chat_wire::{Completion, CompletionHead, DeltaBody, FinishReason, UsageBody};
use crate::deltas::{AnswerDelta, AnswerDeltas};
use crate::error::{OpenAiError, OpenAiResult};
use crate::history::{History, HistoryHash, hash_after_answer};
use crate::messages::Message;
use crate::model_id::ModelId;
use crate::origin::OriginRules;
use crate::plain::{self, PlainFields, PlainReader};
use crate::readers::{AnswerFollower, FollowedStep, ReaderGuard, restart_error};
use crate::side_request::{SideTask, find_side_task, reader_reply};
use crate::tool_choice::ToolRule;

/// Lists the fields of the request that had no effect.
pub(crate) const IGNORED: HeaderName = HeaderName::from_static("x-causerie-ignored");
/// Names the conversation of an answer.
pub(crate) const CONVERSATION: HeaderName = HeaderName::from_static("x-causerie-conversation");

/// The parts of the service that completions use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ChatService {
    pub(crate) access: Authenticator,
    pub(crate) asker: HistoryAsker,
    pub(crate) plain_steps: PlainSteps,
    pub(crate) bodies: BodyBudget,
    pub(crate) origins: Arc<OriginRules>,
    pub(crate) shutdown: CancellationToken,
}

/// Answers the last message of a history.
pub(crate) async fn create_completion(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    trace: Option<Extension<SpanContext>>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Ask], "createCompletion")?;
    let headers = request.headers().clone();
    let peer = request.extensions().get::<Peer>().copied();
    let origin = chat.origins.origin_of(request.uri(), &headers, peer);
    let parse = |body: &str| {
        let mut request = ChatRequest::parse(body)?;
        let messages = request.take_messages()?;
        Ok((request, messages))
    };
    let parsed = chat.bodies.parse_body(&principal, &chat.access, request, parse).await?;
    let ParsedBody { value: (request, messages), hash: request_hash, held, size } = parsed;
    let models = chat.asker.catalogs.list_models(&principal)?;
    let id = request.model.as_deref().filter(|id| !id.is_empty());
    let id = id.map(|id| ModelId::parse(id, |id| models.iter().any(|model| model.id == id)));
    let task = find_side_task(&headers, &request.side_facts(), &messages);
    if task.is_some() || matches!(id, Some(ModelId::Plain(_))) {
        return chat.complete_plainly(principal, &models, (request, messages), id, task).await;
    }
    let history = process_body(size, move || History::from_messages(messages)).await?;
    let asked_hash = history.asked_hash;
    let (choices, ignored) = choose_answer(id, &models, &request)?;
    let asked = AskedHistory {
        name: ConversationName::from_request(&headers, request.prompt_cache_key.as_deref()),
        history,
        choices,
        place: None,
        request_hash,
        is_repeated: is_repeated(&headers),
        trace: trace.map(|Extension(trace)| trace),
    };
    let followed = chat.asker.ask_question(&principal, asked).await?;
    drop(held);
    let meta = followed.live.meta();
    let head = CompletionHead {
        id: format!("chatcmpl-{}", meta.answer),
        created: u64::try_from(meta.created_at.micros() / 1_000_000).unwrap_or_default(),
        model: request.model.clone().unwrap_or_else(|| meta.model.clone()),
        includes_usage: request.includes_usage(),
    };
    let conversation = meta.conversation.to_string();
    let reading = CompletionReader::new(chat, principal, head, asked_hash, followed, origin);
    let mut response =
        if request.is_streamed() { reading.stream_chunks() } else { reading.read_whole().await? };
    add_header(response.headers_mut(), CONVERSATION, &conversation);
    name_ignored(&mut response, &ignored);
    Ok(response)
}

/// Names the fields of the request that had no effect.
pub(crate) fn name_ignored(response: &mut Response, ignored: &[&str]) {
    if !ignored.is_empty() {
        add_header(response.headers_mut(), IGNORED, &ignored.join(", "));
    }
}

pub(crate) fn add_header(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

impl ChatService {
    /// Answers in one step of a model, without an agent and a conversation.
    async fn complete_plainly(
        self,
        principal: Principal,
        models: &[ModelEntry],
        (request, messages): (ChatRequest, Vec<Message>),
        id: Option<ModelId>,
        task: Option<SideTask>,
    ) -> OpenAiResult<Response> {
        let mut ignored: Vec<&str> = request.agent_fields().chain(request.unused_fields()).collect();
        // An agent has no model of its own here.
        let mut choices = AnswerChoices { agent: None, ..AnswerChoices::from_model(id) };
        if let Some(effort) = &request.reasoning_effort
            && !choices.set_effort(effort, models)
        {
            ignored.push("reasoning_effort");
        }
        let is_meant = |entry: &&ModelEntry| match &choices.model {
            Some(model) => entry.id == *model,
            None => entry.default,
        };
        let entry = models.iter().find(is_meant);
        let id = self.asker.histories.new_message_id();
        let head = CompletionHead {
            id: format!("chatcmpl-{id}"),
            created: self.asker.histories.now_seconds(),
            model: request.model.clone().or_else(|| Some(entry?.id.clone())).unwrap_or_default(),
            includes_usage: request.includes_usage(),
        };
        if let Some(task) = task.filter(|_| entry.is_some_and(|entry| entry.builtin)) {
            return Ok(reply_as_reader(&head, task, &request, &messages));
        }
        let AnswerChoices { model, settings, .. } = choices;
        let fields = PlainFields { model, settings, ..PlainFields::of_completion(&request)? };
        let step = self.plain_steps.begin_step(&principal, plain::convert_request(fields, messages)?).await?;
        ignored.extend(&step.ignored);
        let reading = PlainReader::new(head, principal, self.access, self.shutdown, step);
        let mut response = if request.is_streamed() {
            reading.stream_chunks()
        } else {
            json_response(reading.read_whole().await?)
        };
        name_ignored(&mut response, &ignored);
        Ok(response)
    }
}

/// Replies to a side request as the built-in reader does, which writes no texts: at once, and without a cost.
fn reply_as_reader(
    head: &CompletionHead,
    task: SideTask,
    request: &ChatRequest,
    messages: &[Message],
) -> Response {
    let content = reader_reply(task, messages);
    let usage = UsageBody::from(AnswerCost::default());
    if request.is_streamed() {
        let text = DeltaBody::of_content(&content);
        let mut lines = vec![head.chunk(DeltaBody::first(), None), head.chunk(text, None)];
        lines.extend(head.last_chunks(FinishReason::Stop, usage));
        let whole = stream::iter([SseEvent::from_data(&lines)]);
        return data_stream(whole, std::future::pending());
    }
    json_response(head.completion(Completion {
        content: &content,
        reasoning: "",
        tool_calls: Vec::new(),
        citations: &[],
        finish: FinishReason::Stop,
        usage,
    }))
}

/// Returns the choices of a question, and the fields that have no effect.
fn choose_answer(
    id: Option<ModelId>,
    models: &[ModelEntry],
    request: &ChatRequest,
) -> OpenAiResult<(AnswerChoices, Vec<&'static str>)> {
    let mut choices = AnswerChoices::from_model(id);
    let mut ignored = Vec::new();
    if request.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        refuse_forced_tools(request.tool_choice.as_ref())?;
        ignored.push("tools");
    }
    if let Some(effort) = &request.reasoning_effort
        && !choices.set_effort(effort, models)
    {
        ignored.push("reasoning_effort");
    }
    ignored.extend(request.plain_fields());
    ignored.extend((request.store == Some(false)).then_some("store"));
    ignored.extend(request.unused_fields());
    choices.web_search = match &request.web_search_options {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Object(_)) => true,
        Some(_) => {
            return Err(OpenAiError::invalid_field("web_search_options", "send an object, such as {}"));
        }
    };
    choices.jurisdictions = request.metadata_words("jurisdictions");
    choices.skills = request.metadata_words("skills");
    Ok((choices, ignored))
}

/// Refuses a request that only a call of the client's tools would fulfil.
pub(crate) fn refuse_forced_tools(choice: Option<&Value>) -> OpenAiResult<()> {
    if choice.is_some_and(ToolRule::is_forced) {
        let message =
            "an agent calls its own tools alone: send tool_choice \"auto\", or use the model plain/…";
        return Err(OpenAiError::invalid_field("tool_choice", message));
    }
    Ok(())
}

/// Reads an answer as a completion.
struct CompletionReader {
    chat: ChatService,
    principal: Principal,
    head: CompletionHead,
    /// The hash of the history with its question.
    asked_hash: HistoryHash,
    live: Arc<LiveAnswer>,
    follower: AnswerFollower,
    reader: ReaderGuard,
    deltas: AnswerDeltas,
}

impl CompletionReader {
    fn new(
        chat: ChatService,
        principal: Principal,
        head: CompletionHead,
        asked_hash: HistoryHash,
        FollowedAnswer { live, reader }: FollowedAnswer,
        origin: String,
    ) -> Self {
        let follower = AnswerFollower::new(live.clone(), chat.shutdown.clone());
        let deltas = AnswerDeltas::new(origin);
        Self { chat, principal, head, asked_hash, live, follower, reader, deltas }
    }

    /// Streams the chunks.
    fn stream_chunks(self) -> Response {
        let revoked = self.chat.access.clone().await_revocation(self.principal.clone());
        let chunks = stream::unfold(self, async |mut reader| {
            let lines = reader.next_lines().await?;
            Some((SseEvent::from_data(&lines), reader))
        });
        data_stream(chunks, revoked)
    }

    /// Returns the next lines of the stream; `None` at its end. Cancel safe until the answer has ended.
    async fn next_lines(&mut self) -> Option<Vec<String>> {
        loop {
            let deltas = &mut self.deltas;
            let lines = match self.follower.next_step(|answer| deltas.read_state(answer)).await? {
                FollowedStep::Began => vec![self.head.chunk(DeltaBody::first(), None)],
                FollowedStep::Interrupted => vec![restart_error().to_json()],
                FollowedStep::State(deltas, ending) => {
                    let mut lines: Vec<String> = deltas.iter().map(|delta| self.delta_chunk(delta)).collect();
                    if let Some(ending) = ending {
                        lines.extend(self.last_lines(&ending).await);
                    }
                    lines
                }
            };
            if !lines.is_empty() {
                return Some(lines);
            }
        }
    }

    fn delta_chunk(&self, delta: &AnswerDelta) -> String {
        let body = match delta {
            AnswerDelta::Content(text) => DeltaBody::of_content(text),
            AnswerDelta::Reasoning(text) => DeltaBody::of_reasoning(text),
        };
        self.head.chunk(body, None)
    }

    /// Returns the lines after the last text.
    async fn last_lines(&mut self, ending: &AnswerEnding) -> Vec<String> {
        let bill = self.finish_reading().await;
        let finish = match finish_of(ending) {
            Ok(finish) => finish,
            Err(error) => return vec![error.to_json()],
        };
        let citations = self.deltas.citations();
        let cited =
            (!citations.is_empty()).then(|| self.head.chunk(DeltaBody::of_citations(citations), None));
        cited.into_iter().chain(self.head.last_chunks(finish, UsageBody::from(bill))).collect()
    }

    /// Records what the client has got, and returns what the answer has cost.
    async fn finish_reading(&mut self) -> AnswerCost {
        self.reader.finish();
        let (conversation, answer) = (self.live.meta().conversation, self.live.meta().answer);
        let after = hash_after_answer(&self.asked_hash, self.deltas.content());
        // Failures were logged. Without the hash the next question is placed by the questions before it.
        let _ = self.chat.asker.histories.record_sent_answer(&self.principal, answer, after).await;
        let bill = self.chat.asker.answers.answer_bill(&self.principal, conversation, answer).await;
        bill.unwrap_or_default()
    }

    /// Waits for the end of the answer, and returns it as a whole.
    async fn read_whole(mut self) -> OpenAiResult<Response> {
        let revoked = self.chat.access.clone().await_revocation(self.principal.clone());
        self.follower.wait_for_end(revoked).await?;
        let deltas = &mut self.deltas;
        let (deltas, ending) =
            self.live.read_answer(|answer| (deltas.read_state(answer), answer.ending.clone()));
        let reasoning: String = deltas
            .iter()
            .filter_map(|delta| match delta {
                AnswerDelta::Reasoning(text) => Some(text.as_str()),
                AnswerDelta::Content(_) => None,
            })
            .collect();
        let bill = self.finish_reading().await;
        let finish = finish_of(&ending.unwrap_or(AnswerEnding::Stopped))?;
        let body = self.head.completion(Completion {
            content: self.deltas.content(),
            reasoning: reasoning.trim(),
            tool_calls: Vec::new(),
            citations: self.deltas.citations(),
            finish,
            usage: UsageBody::from(bill),
        });
        Ok(json_response(body))
    }
}

/// Creates a response with this JSON.
pub(crate) fn json_response(body: String) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Returns the reason why an answer ended.
fn finish_of(ending: &AnswerEnding) -> OpenAiResult<FinishReason> {
    match ending {
        AnswerEnding::Done | AnswerEnding::Stopped => Ok(FinishReason::Stop),
        AnswerEnding::Failed(failure) => match failure.code {
            ErrorCode::OutputExhausted => Ok(FinishReason::Length),
            ErrorCode::ModelRefused => Ok(FinishReason::ContentFilter),
            _ => Err(failure.into()),
        },
    }
}
