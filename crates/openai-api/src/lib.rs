//! The interface of programs that speak to OpenAI, `/v1`: another face of the use cases in [`control`].
//!
//! Conversations, files, credits, keys and machines are the same as those of `/api/v1`. A handler extracts its input, calls
//! use cases and converts their results. [`error`] gives errors OpenAI's form, [`key`] authenticates a request before
//! anything else, [`model_id`] tells which model and which agent a request means.
//!
//! # Where to look
//!
//! - Histories and the conversations that they continue: `history.rs`, `asking.rs`; their messages: `messages.rs`; files in
//!   them: `sent_files.rs`.
//! - Completions and responses without an agent: `plain.rs`, `plain_response.rs`; requests beside a conversation:
//!   `side_request.rs`.
//! - JSON in requests: `body.rs`, `json_forms.rs`, `request_fields.rs`, `tool_choice.rs`.
//! - Completions: `chat.rs`, `chat_request.rs`, `chat_wire.rs`; what a growing answer adds: `deltas.rs`; clients that leave:
//!   `readers.rs`.
//! - Responses: `responses.rs`, `response_request.rs`, `response_wire.rs`; the items of a growing answer and their events:
//!   `response_items.rs`.
//! - Summaries of long inputs: `compaction.rs`, `summary.rs`.
//! - Conversations and their items: `conversations.rs`, `stored_items.rs`. Files: `files.rs`. Lists in pages: `paging.rs`.

mod asking;
mod body;
mod chat;
mod chat_request;
mod chat_wire;
mod compaction;
mod conversations;
mod deltas;
mod error;
mod files;
mod history;
mod json_forms;
mod key;
mod messages;
mod model_id;
mod models;
mod origin;
mod paging;
mod path_ids;
mod plain;
mod plain_response;
mod readers;
mod request_fields;
mod response_items;
mod response_request;
mod response_wire;
mod responses;
mod sent_files;
mod side_request;
mod stored_items;
mod summary;
mod tool_choice;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get, post};
use control::{Authenticator, Catalogs, CauserieService};
use http_common::RateLimiter;
use tokio_util::sync::CancellationToken;

use crate::asking::HistoryAsker;
use crate::body::BodyBudget;
use crate::chat::ChatService;
use crate::error::OpenAiError;
use crate::files::FilesState;
use crate::key::KeyLayer;
use crate::origin::OriginRules;
use crate::readers::AnswerReaders;
pub use error::translate_refusal;

/// The path of the interface.
const ROOT: &str = "/v1";

/// The state of the router. A handler extracts the one part that it needs.
#[derive(Clone)]
struct OpenAiState(Arc<OpenAiParts>);

macro_rules! parts {
    ($($part:ident: $type:ty,)*) => {
        struct OpenAiParts { $($part: $type,)* }

        $(impl FromRef<OpenAiState> for $type {
            fn from_ref(state: &OpenAiState) -> Self {
                state.0.$part.clone()
            }
        })*
    };
}

parts! {
    access: Authenticator,
    catalogs: Catalogs,
    chat: ChatService,
    files: FilesState,
}

/// Returns true for the paths of this interface.
#[must_use]
pub fn is_own_path(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The circumstances of the interface.
pub struct OpenAiConfig {
    /// True if the service itself speaks TLS.
    pub tls: bool,
    /// The maximum size of an uploaded file, in bytes.
    pub upload_max_bytes: Option<u64>,
    /// The time within which the client of an upload must make progress.
    pub stall_timeout: Duration,
    /// Cancelled when the service shuts down.
    pub shutdown: CancellationToken,
}

/// Creates the router of the interface behind the rate limiter `guard`.
pub fn openai_router(service: &CauserieService, config: OpenAiConfig, guard: Arc<RateLimiter>) -> Router {
    let OpenAiConfig { tls, upload_max_bytes, stall_timeout, shutdown } = config;
    let access = service.access.clone();
    let layer = KeyLayer { access: access.clone(), guard: guard.clone() };
    let readers = AnswerReaders::new(service.client_histories.clone(), access.clone(), shutdown.clone());
    let asker = HistoryAsker {
        questions: service.questions.clone(),
        answers: service.answers.clone(),
        catalogs: service.catalogs.clone(),
        conversations: service.conversations.clone(),
        histories: service.client_histories.clone(),
        files: service.files.clone(),
        readers,
    };
    let files = FilesState {
        access: access.clone(),
        files: service.files.clone(),
        guard: guard.clone(),
        upload_max_bytes,
        stall_timeout,
    };
    let chat = ChatService {
        access: access.clone(),
        asker,
        plain_steps: service.plain_steps.clone(),
        bodies: BodyBudget::new(),
        origins: Arc::new(OriginRules { tls, guard }),
        shutdown,
    };
    let state =
        OpenAiState(Arc::new(OpenAiParts { access, catalogs: service.catalogs.clone(), chat, files }));
    Router::new()
        .route("/v1/models", get(models::list_models))
        .route("/v1/models/{*id}", get(models::find_model))
        .route("/v1/chat/completions", post(chat::create_completion))
        .route("/v1/responses", post(responses::create_response))
        .route("/v1/responses/compact", post(compaction::compact_input))
        .route("/v1/responses/{id}", get(responses::find_response).delete(responses::delete_response))
        .route("/v1/responses/{id}/input_items", get(responses::list_input_items))
        .route("/v1/responses/{id}/cancel", post(responses::cancel_response))
        .route("/v1/conversations", post(conversations::create_conversation))
        .route(
            "/v1/conversations/{id}",
            get(conversations::find_conversation)
                .post(conversations::update_conversation)
                .delete(conversations::delete_conversation),
        )
        .route(
            "/v1/conversations/{id}/items",
            get(conversations::list_items).post(conversations::refuse_new_items),
        )
        .route(
            "/v1/conversations/{id}/items/{item}",
            get(conversations::find_item).delete(conversations::refuse_deletion),
        )
        .route("/v1/files", get(files::list_files).post(files::upload_file))
        .route("/v1/files/{id}", get(files::find_file).delete(files::delete_file))
        .route("/v1/files/{id}/content", get(files::send_content))
        .route("/v1", any(no_such_path))
        .route("/v1/", any(no_such_path))
        .route("/v1/{*path}", any(no_such_path))
        .method_not_allowed_fallback(no_such_method)
        // Each route limits its own body.
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
        .layer(from_fn_with_state(layer, key::authenticate_request))
}

async fn no_such_path() -> OpenAiError {
    OpenAiError::no_such_path()
}

async fn no_such_method() -> OpenAiError {
    OpenAiError::no_such_method()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_own_path_needs_whole_segment() {
        for path in ["/v1", "/v1/", "/v1/models"] {
            assert!(is_own_path(path), "{path}");
        }
        for path in ["/", "/v10", "/api/v1/models", "/v2/models"] {
            assert!(!is_own_path(path), "{path}");
        }
    }
}
