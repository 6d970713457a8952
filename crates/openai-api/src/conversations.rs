//! `/v1/conversations`: the conversations of the account, and their items.
//!
//! A conversation here begins with its first question, and changes by questions alone. So one that is created without a
//! question is an id, under which the first question begins it; and items are neither added nor deleted one by one.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use control::client_histories::PlaceLookup;
use control::conversations::{ConversationChange, ConversationSummary};
use control::{Principal, PublicCode, UseCaseError};
use domain::id::ConversationId;
use domain::scope::Permission::{Ask, Read};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::asking::conversation_of;
use crate::body::{ParsedBody, parse_object};
use crate::chat::{ChatService, json_response, name_ignored};
use crate::error::{OpenAiError, OpenAiResult};
use crate::json_forms::UnusedField;
use crate::paging::{PageQuery, list_body};
use crate::path_ids::{id_after, nth_after};
use crate::request_fields::Metadata;
use crate::response_wire::{NamedConversation, ResponseId, conversation_text, created_text};
use crate::responses::origin_of;
use crate::stored_items::{ItemReader, answer_items, no_such_item, question_item};

/// The path before the ids of conversations.
const PATH: &str = "/v1/conversations/";
/// The only name in `metadata` that is kept.
const TITLE: &str = "title";

/// The body of a request that creates a conversation or changes it.
#[derive(Debug, Deserialize)]
struct ConversationBody {
    #[serde(default)]
    items: UnusedField,
    #[serde(default)]
    metadata: Option<Metadata>,
}

/// A conversation that a request names.
struct FoundConversation {
    /// Its id as the client knows it.
    name: String,
    /// `None` for one that has not begun.
    stored: Option<ConversationId>,
    /// The time at which its id was created, in seconds.
    created: u64,
}

/// Creates the id of a conversation, which begins with its first question.
pub(crate) async fn create_conversation(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Ask], "createConversation")?;
    let body = chat.read_conversation(&principal, request).await?;
    if body.items.is_set() {
        let message = "a conversation begins with its first question: leave items out, and send them as input of the \
                       first response";
        return Err(OpenAiError::invalid_field("items", message));
    }
    let id = ConversationId::from_random(chat.asker.histories.new_message_id().bits());
    let made = conversation_body(&created_text(id), seconds_of(id), json!({}));
    let mut response = json_response(made.to_string());
    if body.metadata.is_some_and(|metadata| metadata != Metadata::default()) {
        name_ignored(&mut response, &["metadata"]);
    }
    Ok(response)
}

/// Returns a conversation.
pub(crate) async fn find_conversation(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Read], "findConversation")?;
    let found = chat.named_conversation(&principal, id_after(&request, PATH)).await?;
    let Some(id) = found.stored else {
        return Ok(json_response(conversation_body(&found.name, found.created, json!({})).to_string()));
    };
    let summary = chat.asker.conversations.find_summary(&principal, id).await;
    Ok(summary_response(&found.name, &summary.map_err(|error| refusal_of(&found.name, error))?))
}

/// Changes the title of a conversation.
pub(crate) async fn update_conversation(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Ask], "updateConversation")?;
    let found = chat.named_conversation(&principal, id_after(&request, PATH)).await?;
    let metadata = chat.read_conversation(&principal, request).await?.metadata;
    let missing = || OpenAiError::invalid_field("metadata", "metadata is missing");
    let mut metadata = metadata.ok_or_else(missing)?;
    let title = metadata.take(TITLE);
    if metadata != Metadata::default() {
        let message = "conversations keep no metadata but their title: send {\"title\": …} alone";
        return Err(OpenAiError::invalid_field("metadata", message));
    }
    let Some(id) = found.stored else {
        let message = "the conversation has not begun: change its title after the first question";
        return Err(OpenAiError::invalid_field("metadata", message));
    };
    let change = ConversationChange { title, pinned: None };
    let changed = chat.asker.conversations.update_conversation(&principal, id, change).await;
    Ok(summary_response(&found.name, &changed.map_err(|error| refusal_of(&found.name, error))?))
}

/// Deletes a conversation with its responses.
pub(crate) async fn delete_conversation(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Ask], "deleteConversation")?;
    let found = chat.named_conversation(&principal, id_after(&request, PATH)).await?;
    if let Some(id) = found.stored {
        let deleted = chat.asker.conversations.delete_conversation(&principal, id).await;
        deleted.map_err(|error| refusal_of(&found.name, error))?;
    }
    let body = json!({"id": found.name, "object": "conversation.deleted", "deleted": true});
    Ok(json_response(body.to_string()))
}

/// Lists the items of a conversation.
pub(crate) async fn list_items(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Read], "listConversationItems")?;
    let origin = origin_of(&chat, &request);
    let page = PageQuery::parse(request.uri().query())?;
    let found = chat.named_conversation(&principal, id_after(&request, PATH)).await?;
    let Some(conversation) = found.stored else {
        return Ok(json_response(list_body(Vec::new(), false).to_string()));
    };
    let conversations = &chat.asker.conversations;
    let reader = ItemReader { conversations, principal: &principal, conversation, origin: &origin };
    Ok(json_response(reader.read_page(&page).await?.to_string()))
}

/// Returns one item of a conversation.
pub(crate) async fn find_item(
    State(chat): State<ChatService>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> OpenAiResult<Response> {
    chat.access.authorize(&principal, &[Read], "findConversationItem")?;
    let origin = origin_of(&chat, &request);
    let found = chat.named_conversation(&principal, id_after(&request, PATH)).await?;
    let item = nth_after(&request, PATH, 2);
    let id = ResponseId::of_item(item).filter(|id| Some(id.conversation) == found.stored);
    let id = id.ok_or_else(|| no_such_item(item))?;
    let live = chat.asker.answers.find_answer(&principal, id.conversation, id.answer).await;
    let live = live.map_err(|error| match error.code() {
        PublicCode::NotFound => no_such_item(item),
        _ => error.into(),
    })?;
    let items = if item == id.question_id() {
        let asked = chat.asker.conversations.asked_exchange(&principal, id.conversation, id.answer).await?;
        vec![question_item(id, &asked.text, &asked.attachments)]
    } else {
        live.read_answer(|answer| answer_items(id, answer, &origin))
    };
    let found = items.into_iter().find(|found| found["id"] == item).ok_or_else(|| no_such_item(item))?;
    Ok(json_response(found.to_string()))
}

/// Refuses to add items.
pub(crate) async fn refuse_new_items() -> OpenAiError {
    let message = "items are added by questions alone: ask POST /v1/responses with this conversation";
    OpenAiError::invalid_field("items", message)
}

/// Refuses to delete an item.
pub(crate) async fn refuse_deletion() -> OpenAiError {
    OpenAiError::invalid("single items cannot be deleted: delete the conversation, or ask its question again")
}

impl ChatService {
    async fn read_conversation(
        &self,
        principal: &Principal,
        request: Request,
    ) -> OpenAiResult<ConversationBody> {
        let parse = |body: &str| {
            // The body may be left out.
            let body: ConversationBody = parse_object(if body.is_empty() { "{}" } else { body })?;
            body.metadata.as_ref().map_or(Ok(()), Metadata::check_bounds)?;
            Ok(body)
        };
        let parsed = self.bodies.parse_body(principal, &self.access, request, parse).await?;
        let ParsedBody { value, .. } = parsed;
        Ok(value)
    }

    /// Returns the conversation with an id.
    async fn named_conversation(&self, principal: &Principal, id: &str) -> OpenAiResult<FoundConversation> {
        let named = NamedConversation::parse(id).ok_or_else(|| OpenAiError::not_found("conversation", id))?;
        let stored = match named {
            NamedConversation::Stored(id) => Some(id),
            NamedConversation::Created(name) => {
                let place = self.asker.histories.find_place(principal, PlaceLookup::Name(name)).await?;
                place.map(conversation_of)
            }
        };
        let name = match stored {
            Some(stored) if !id.starts_with("conv_") => conversation_text(stored),
            _ => id.to_owned(),
        };
        let id = id.rsplit('_').next().and_then(|id| id.parse::<ConversationId>().ok());
        let created = id.map_or(0, seconds_of);
        Ok(FoundConversation { name, stored, created })
    }
}

/// Returns the time in an id, in seconds: its first 48 bits are milliseconds.
fn seconds_of(id: ConversationId) -> u64 {
    u64::try_from(id.bits() >> 80).unwrap_or_default() / 1_000
}

fn refusal_of(id: &str, error: UseCaseError) -> OpenAiError {
    match error.code() {
        PublicCode::NotFound => OpenAiError::not_found("conversation", id),
        _ => error.into(),
    }
}

fn summary_response(name: &str, summary: &ConversationSummary) -> Response {
    let created = u64::try_from(summary.created_at.micros() / 1_000_000).unwrap_or_default();
    json_response(conversation_body(name, created, json!({TITLE: summary.title})).to_string())
}

fn conversation_body(id: &str, created: u64, metadata: Value) -> Value {
    json!({"id": id, "object": "conversation", "created_at": created, "metadata": metadata})
}
