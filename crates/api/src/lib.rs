//! The public interface, `/api/v1`: a face of the use cases in [`control`].
//!
//! A handler extracts its input, calls one use case and converts the result. [`error`] maps errors to statuses, [`wire`]
//! defines the public JSON. [`key`] authenticates a request before anything else. Each operation is declared once, beside
//! its handler, and listed in [`operations`]: the router, the authorization and the document that [`openapi`] publishes
//! follow from that.

mod catalogs;
mod catch_panic;
mod chats;
mod direct;
mod error;
mod extract;
mod files;
mod history;
mod key;
pub mod metrics;
mod openapi;
pub mod operations;
mod replies;
mod streams;
mod vm;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use control::{
    AnswerService, Authenticator, Catalogs, CauserieService, Conversations, FileService, QuestionService, Vm,
};
use http_common::{Budgets, RateLimiter};
use tokio_util::sync::CancellationToken;

use crate::history::{ChatHistory, PageCache};
use crate::operations::OPERATIONS;
pub use catch_panic::catch_panic;
pub use direct::{Direct, DirectCall, DirectResponse, recognize_direct_call};
pub use error::{ApiError, Code, no_such_path};
pub use key::key_of;
pub use metrics::ApiMetrics;

/// The state of the router. A handler extracts the one part that it needs.
#[derive(Clone)]
struct State(Arc<Parts>);

macro_rules! parts {
    ($($part:ident: $type:ty,)*) => {
        struct Parts { $($part: $type,)* }

        $(impl FromRef<State> for $type {
            fn from_ref(state: &State) -> Self {
                state.0.$part.clone()
            }
        })*
    };
}

parts! {
    access: Authenticator,
    answers: AnswerService,
    budgets: Budgets,
    catalogs: Catalogs,
    conversations: Conversations,
    questions: QuestionService,
    vm: Vm,
    files: FileService,
    limits: ApiLimits,
    history: ChatHistory,
    ending: ApiShutdown,
    metrics: Arc<ApiMetrics>,
}

/// Limits that the operator sets.
#[derive(Debug, Clone, Copy)]
pub struct ApiLimits {
    /// The largest upload, in bytes; `None` to leave it to the quota.
    pub upload_max_bytes: Option<u64>,
    /// The time limit of a JSON body.
    pub body_timeout: Duration,
    /// The time without progress after which a body is aborted.
    pub stall_timeout: Duration,
}

/// Cancelled when the service shuts down. Open streams end then.
#[derive(Debug, Clone)]
pub struct ApiShutdown(pub CancellationToken);

/// Creates the router of the interface behind the rate limiter `guard`, and [`Direct`], which answers the
/// hottest requests without it. Both count into `metrics`.
pub fn api_router(
    service: &CauserieService,
    limits: ApiLimits,
    ending: ApiShutdown,
    guard: Arc<RateLimiter>,
    metrics: Arc<ApiMetrics>,
) -> (Router, Direct) {
    let history = ChatHistory {
        conversations: service.conversations.clone(),
        answers: service.answers.clone(),
        budgets: guard.budgets.clone(),
        pages: PageCache::default(),
    };
    let layer = key::AuthLayer { access: service.access.clone(), guard, metrics: metrics.clone() };
    let direct = Direct {
        layer: layer.clone(),
        answers: service.answers.clone(),
        access: service.access.clone(),
        files: service.files.clone(),
        ending: ending.clone(),
        collect: direct::operation_by_id("collectAnswer"),
        download: direct::operation_by_id("downloadFile"),
    };
    let state = State(Arc::new(Parts {
        access: service.access.clone(),
        answers: service.answers.clone(),
        budgets: layer.guard.budgets.clone(),
        catalogs: service.catalogs.clone(),
        conversations: service.conversations.clone(),
        questions: service.questions.clone(),
        vm: service.vm.clone(),
        files: service.files.clone(),
        limits,
        history,
        ending,
        metrics,
    }));
    let mut declared = Router::new();
    for operation in &OPERATIONS {
        for path in operation.route_paths() {
            declared = declared.route(path, (operation.route)());
        }
    }
    let interface = declared
        .route("/api/{*path}", any(no_such_path))
        .method_not_allowed_fallback(error::no_such_method)
        // Each operation limits its own body.
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
        .layer(from_fn_with_state(layer, key::authenticate_request));
    let router = Router::new()
        .merge(interface)
        // The schema and its page are public.
        .route("/docs", get(openapi::serve_reference_page))
        .route("/docs/page.js", get(openapi::serve_page_script))
        .route("/openapi.yaml", get(openapi::serve_schema_yaml))
        .route("/openapi.json", get(openapi::publish_json))
        .route("/api/v1/openapi.yaml", get(openapi::serve_schema_yaml))
        .route("/api/v1/openapi.json", get(openapi::publish_json))
        .fallback(no_such_path);
    (router, direct)
}
