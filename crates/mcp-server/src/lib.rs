//! The server of the Model Context Protocol, `/mcp`: another face of the use cases in [`control`].
//!
//! Programs with a model of their own call its tools: they ask questions, wait for answers, and read conversations and
//! files. All is the same as at `/api/v1`. One endpoint serves the revision without a handshake and those with one, of
//! which none has a session here; [`mcp`] has the revisions and codes that the client of other servers shares.
//!
//! # Where to look
//!
//! - Every request: `key.rs`, `origin.rs`; its messages: `message.rs`, `request_id.rs`; its revision and headers: `era.rs`; the methods:
//!   `endpoint.rs`; errors: `error.rs`.
//! - Tools: `tools.rs`, and `ask.rs`, `conversations.rs`, `files.rs`; their results: `output.rs`, `answers.rs`.
//! - Waiting, progress and cancellation: `waiting.rs`, `running_calls.rs`; tasks: `tasks.rs`.
//! - Resources: `resources.rs`, `uri.rs`.

mod answers;
mod ask;
mod conversations;
mod endpoint;
mod era;
mod error;
mod files;
mod key;
mod message;
mod origin;
mod output;
mod request_id;
mod resources;
mod running_calls;
mod service;
mod tasks;
mod tools;
mod uri;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware::from_fn_with_state;
use axum::routing::post;
use control::CauserieService;
use http_common::RateLimiter;
use tokio_util::sync::CancellationToken;

use crate::key::KeyLayer;
use crate::origin::OriginRules;
use crate::running_calls::RunningCalls;
use crate::service::{McpParts, McpService};

/// The path of the server.
const PATH: &str = "/mcp";

/// The circumstances of the server.
pub struct McpConfig {
    /// True if the service itself speaks TLS.
    pub tls: bool,
    /// The time limit of a body.
    pub body_timeout: Duration,
    /// Cancelled when the service shuts down.
    pub shutdown: CancellationToken,
}

/// The state of the router.
#[derive(Clone)]
struct McpState {
    service: McpService,
    guard: Arc<RateLimiter>,
}

impl FromRef<McpState> for McpService {
    fn from_ref(state: &McpState) -> Self {
        state.service.clone()
    }
}

impl FromRef<McpState> for Arc<RateLimiter> {
    fn from_ref(state: &McpState) -> Self {
        state.guard.clone()
    }
}

/// Creates the router of the server behind the rate limiter `guard`.
pub fn mcp_router(service: &CauserieService, config: McpConfig, guard: Arc<RateLimiter>) -> Router {
    let McpConfig { tls, body_timeout, shutdown } = config;
    let origins = OriginRules { tls, guard: guard.clone() };
    let layer = KeyLayer { access: service.access.clone(), guard: guard.clone(), origins };
    let parts = McpParts {
        access: service.access.clone(),
        questions: service.questions.clone(),
        answers: service.answers.clone(),
        conversations: service.conversations.clone(),
        histories: service.client_histories.clone(),
        files: service.files.clone(),
        budgets: guard.budgets.clone(),
        body_timeout,
        shutdown,
        running: RunningCalls::default(),
    };
    let state = McpState { service: McpService(Arc::new(parts)), guard };
    Router::new()
        .route(PATH, post(endpoint::receive_messages).fallback(endpoint::refuse_method))
        // The endpoint limits its body.
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
        .layer(from_fn_with_state(layer, key::authenticate_request))
}
