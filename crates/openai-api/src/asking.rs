//! Asks the question of a history in the conversation that it continues.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use control::client_histories::{ClientExchange, HistoryLookup, HistoryPlace, ImportedExchange, PlaceLookup};
use control::questions::{AskOutcome, AskPlace, AskRequest};
use control::{
    AnswerService, Catalogs, ClientHistories, Conversations, FileService, Principal, PublicCode,
    QuestionService, UseCaseError,
};
use domain::answer::AnswerEnding;
use domain::catalog::ModelEntry;
use domain::hex;
use domain::id::{ConversationId, MessageId};
use live::LiveAnswer;
use sha2::{Digest, Sha256};
use telemetry::trace::SpanContext;

use crate::error::OpenAiResult;
use crate::history::{EarlierExchange, History, HistoryHash, hash_after_answer};
use crate::model_id::ModelId;
use crate::readers::{AnswerReaders, ReaderGuard};
use crate::sent_files::store_sent_files;

/// The headers in which programs name a conversation, in the order of their preference.
const NAME_HEADERS: [&str; 2] = ["x-causerie-conversation", "x-openwebui-chat-id"];
/// The longest name of a conversation that is stored as it is, in bytes.
const NAME_MAX_BYTES: usize = 512;
/// The header in which OpenAI's libraries count repetitions.
const RETRY_COUNT: &str = "x-stainless-retry-count";
/// The time for an abandoned answer to stop when its conversation goes on.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// The setting of models for `reasoning_effort`.
const REASONING_EFFORT: &str = "reasoningEffort";

/// The client's name of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ConversationName {
    pub(crate) text: Option<String>,
    /// True if each conversation of the client has another name.
    pub(crate) is_unique: bool,
}

impl ConversationName {
    /// Returns the name in the headers of a request, or else its cache key, which conversations may share.
    pub(crate) fn from_request(headers: &HeaderMap, cache_key: Option<&str>) -> Self {
        // A template that a program has not filled in is no name.
        let is_name = |text: &&str| !text.trim().is_empty() && !text.contains("{{") && !text.contains('\0');
        let named = NAME_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok().filter(is_name));
        let is_unique = named.is_some();
        let text = named.or_else(|| cache_key.filter(is_name)).map(|text| {
            if text.len() <= NAME_MAX_BYTES {
                text.to_owned()
            } else {
                hex::encode_hex(&Sha256::digest(text))
            }
        });
        Self { text, is_unique }
    }
}

/// Returns true if the client repeats a request.
pub(crate) fn is_repeated(headers: &HeaderMap) -> bool {
    let count = headers.get(RETRY_COUNT).and_then(|count| count.to_str().ok()?.parse::<u32>().ok());
    count.is_some_and(|count| count > 0)
}

/// The choices of a question.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerChoices {
    /// The id of a model; the default if `None`.
    pub(crate) model: Option<String>,
    /// The full name of an agent; the default if `None`.
    pub(crate) agent: Option<String>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) jurisdictions: Vec<String>,
    pub(crate) skills: Vec<String>,
    pub(crate) web_search: bool,
}

impl AnswerChoices {
    /// Chooses what an id of a model names.
    pub(crate) fn from_model(id: Option<ModelId>) -> Self {
        match id {
            Some(ModelId::Agent(agent)) => Self { agent: Some(agent), ..Self::default() },
            Some(ModelId::Model(model) | ModelId::Plain(model)) => {
                Self { model: Some(model), ..Self::default() }
            }
            None => Self::default(),
        }
    }

    /// Sets the effort, if the model has that setting with this value. Returns false otherwise.
    pub(crate) fn set_effort(&mut self, effort: &str, models: &[ModelEntry]) -> bool {
        let is_meant = |entry: &&ModelEntry| match &self.model {
            Some(model) => entry.id == *model,
            None => entry.default,
        };
        let Some(entry) = models.iter().find(is_meant) else { return false };
        let Some(setting) = entry.settings.iter().find(|setting| setting.key == REASONING_EFFORT) else {
            return false;
        };
        let value = setting.options.iter().find(|option| option.value.eq_ignore_ascii_case(effort));
        let Some(value) = value else { return false };
        self.settings.push((REASONING_EFFORT.to_owned(), value.value.clone()));
        true
    }
}

/// The place of a question that names it. Its history is not looked at then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamedPlace {
    /// After the last exchange of a conversation.
    Last(ConversationId),
    /// After the last exchange of the conversation with this name of the client, or the first one of a new one.
    Named(String),
    /// After this answer.
    After { conversation: ConversationId, answer: MessageId },
}

/// Returns the conversation of a place.
pub(crate) const fn conversation_of(place: HistoryPlace) -> ConversationId {
    match place {
        HistoryPlace::After { conversation, .. } | HistoryPlace::Instead { conversation, .. } => conversation,
    }
}

/// A question with its history.
pub(crate) struct AskedHistory {
    pub(crate) history: History,
    /// The place that the request names; otherwise the history finds it.
    pub(crate) place: Option<NamedPlace>,
    pub(crate) choices: AnswerChoices,
    pub(crate) name: ConversationName,
    /// The hash of the request and its key.
    pub(crate) request_hash: HistoryHash,
    /// True if the client repeats the request.
    pub(crate) is_repeated: bool,
    pub(crate) trace: Option<SpanContext>,
}

/// An answer and its reader.
pub(crate) struct FollowedAnswer {
    pub(crate) live: Arc<LiveAnswer>,
    pub(crate) reader: ReaderGuard,
}

/// Asks questions of histories. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HistoryAsker {
    pub(crate) questions: QuestionService,
    pub(crate) answers: AnswerService,
    pub(crate) catalogs: Catalogs,
    pub(crate) conversations: Conversations,
    pub(crate) histories: ClientHistories,
    pub(crate) files: FileService,
    pub(crate) readers: AnswerReaders,
}

impl HistoryAsker {
    /// Asks the question, or joins the answer of the same request.
    ///
    /// # Errors
    /// [`OpenAiError`](crate::error::OpenAiError); nothing was asked then.
    pub(crate) async fn ask_question(
        &self,
        principal: &Principal,
        asked: AskedHistory,
    ) -> OpenAiResult<FollowedAnswer> {
        if asked.is_repeated
            && let Some(live) = self.find_repeated(principal, asked.request_hash).await?
        {
            return Ok(self.follow(principal, live));
        }
        let AskedHistory { history, place: named, choices, name, request_hash, trace, .. } = asked;
        let attachments = store_sent_files(&self.files, principal, history.files).await?;
        let (mut users_hash, mut conversation, mut name) = (history.users_hash, None, name);
        let lookup = match &named {
            Some(NamedPlace::Last(named)) => {
                conversation = Some(*named);
                None
            }
            Some(NamedPlace::Named(named)) => {
                name = ConversationName { text: Some(named.clone()), is_unique: true };
                Some(PlaceLookup::Name(named.clone()))
            }
            Some(NamedPlace::After { conversation, answer }) => {
                Some(PlaceLookup::Answer { conversation: *conversation, answer: *answer })
            }
            None => {
                let hashes = history.earlier.last().map(|last| (last.after_hash, last.users_hash));
                let (name, is_name_unique) = (name.text.clone(), name.is_unique);
                Some(PlaceLookup::History(HistoryLookup { name, is_name_unique, hashes }))
            }
        };
        if let Some(named) = &named {
            // No history of other requests has this hash.
            users_hash = hash_after_answer(&users_hash, &format!("{named:?}"));
        }
        let imported = Arc::new(self.import_exchanges(history.earlier));
        let client = ClientExchange { name: name.text, users_hash, request_hash, imported, lookup };
        // A question that continues an answer may leave the model to the conversation.
        let keeps_model = named.is_some() && choices.model.is_none() && choices.agent.is_none();
        let request = AskRequest {
            input: history.question,
            conversation,
            place: AskPlace::Next,
            attachments,
            model: choices.model,
            settings: choices.settings,
            jurisdictions: choices.jurisdictions,
            web_search: choices.web_search,
            changes_conversation: !keeps_model,
            agent: choices.agent,
            skills: choices.skills,
            instructions: history.instructions,
            functions: Vec::new(),
            asks_user: false,
            client: Some(client),
            idempotency: None,
            trace,
        };
        let live = self.submit_question(principal, request).await?;
        Ok(self.follow(principal, live))
    }

    fn follow(&self, principal: &Principal, live: Arc<LiveAnswer>) -> FollowedAnswer {
        let (conversation, answer) = (live.meta().conversation, live.meta().answer);
        let reader = self.readers.add_reader(principal, conversation, answer);
        FollowedAnswer { live, reader }
    }

    /// Returns the answer of the same request, unless it was stopped because its client had left.
    async fn find_repeated(
        &self,
        principal: &Principal,
        request_hash: HistoryHash,
    ) -> OpenAiResult<Option<Arc<LiveAnswer>>> {
        let found = self.histories.find_repeated(principal, request_hash).await?;
        let Some((conversation, answer)) = found else { return Ok(None) };
        match self.answers.find_replayed(principal, conversation, answer).await {
            Ok(live) => {
                let is_stopped = live.read_answer(|answer| answer.ending == Some(AnswerEnding::Stopped));
                Ok((!is_stopped).then_some(live))
            }
            Err(error) if error.code() == PublicCode::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Submits the question. If the conversation is busy with an answer that its client has left, that one is stopped.
    async fn submit_question(
        &self,
        principal: &Principal,
        request: AskRequest,
    ) -> OpenAiResult<Arc<LiveAnswer>> {
        let asked = match self.questions.ask_question(principal, request.clone()).await {
            Err(busy) if busy.code() == PublicCode::ConversationBusy => {
                if !self.end_abandoned(principal, &request).await? {
                    return Err(busy.into());
                }
                self.questions.ask_question(principal, request).await?
            }
            asked => asked?,
        };
        match asked {
            AskOutcome::Accepted { live, .. } => Ok(live),
            AskOutcome::Replayed { conversation, answer } => {
                Ok(self.answers.find_replayed(principal, conversation, answer).await?)
            }
        }
    }

    /// Ends the abandoned answer of the conversation that a question continues. Returns false if there is none.
    async fn end_abandoned(&self, principal: &Principal, request: &AskRequest) -> Result<bool, UseCaseError> {
        let lookup = request.client.as_ref().and_then(|client| client.lookup.clone());
        let conversation = match lookup {
            None => request.conversation,
            Some(lookup) => {
                let place = self.histories.find_place(principal, lookup).await?;
                place.map(conversation_of)
            }
        };
        let Some(conversation) = conversation else { return Ok(false) };
        let Some(answer) = self.readers.abandoned_in(conversation) else { return Ok(false) };
        self.histories.stop_abandoned(principal, answer).await?;
        let live = self.answers.find_replayed(principal, conversation, answer).await?;
        self.answers.wait_for_end(principal, &live, STOP_TIMEOUT, future::pending()).await;
        Ok(true)
    }

    fn import_exchanges(&self, earlier: Vec<EarlierExchange>) -> Vec<ImportedExchange> {
        let import = |exchange: EarlierExchange| ImportedExchange {
            question: self.histories.new_message_id(),
            answer: self.histories.new_message_id(),
            text: exchange.question,
            reply: exchange.answer,
            users_hash: exchange.users_hash,
            after_hash: exchange.after_hash,
        };
        earlier.into_iter().map(import).collect()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn conversation_name_prefers_headers() {
        let mut headers = HeaderMap::new();
        let name = ConversationName::from_request(&headers, Some("cache"));
        assert_eq!((name.text.as_deref(), name.is_unique), (Some("cache"), false));
        headers.insert("x-openwebui-chat-id", HeaderValue::from_static("chat"));
        headers.insert("x-causerie-conversation", HeaderValue::from_static("{{CHAT_ID}}"));
        let name = ConversationName::from_request(&headers, Some("cache"));
        assert_eq!((name.text.as_deref(), name.is_unique), (Some("chat"), true));
        headers.insert("x-causerie-conversation", HeaderValue::from_static("own"));
        let name = ConversationName::from_request(&headers, None);
        assert_eq!(name.text.as_deref(), Some("own"));
        let long = ConversationName::from_request(&HeaderMap::new(), Some(&"x".repeat(600)));
        assert_eq!(long.text.map(|text| text.len()), Some(64));
        assert_eq!(ConversationName::from_request(&HeaderMap::new(), Some(" ")).text, None);
    }

    #[test]
    fn is_repeated_reads_count() {
        let of = |count: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_COUNT, HeaderValue::from_static(count));
            is_repeated(&headers)
        };
        assert!(of("1") && of("2") && !of("0") && !of("x"));
        assert!(!is_repeated(&HeaderMap::new()));
    }
}
