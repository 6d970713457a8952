//! The public interface, `/api/v1`: JSON in, use case, JSON out.
//!
//! Handlers extract, call one use case and convert; what a status means is decided in [`error`], how things
//! look on the wire in [`wire`]. Every call is let in by its key before anything else of it is looked at. Each operation
//! is declared once, beside its handler, and listed in [`operations`]: the router, the check of scopes and the document
//! that [`openapi`] publishes follow from that.

mod catalogs;
mod catch_panic;
mod chats;
mod error;
mod extract;
mod files;
mod history;
mod key;
pub mod metrics;
mod openapi;
pub mod operations;
mod streams;
mod vm;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use control::{Answers, Authenticator, Catalog, Catalogs, Conversations, Questions, Service, Vm};
use domain::catalog::Jurisdiction;
use http_common::{Budgets, RateLimiter};
use tokio_util::sync::CancellationToken;
use workspace::Workspaces;

use crate::history::{History, PageCache};
use crate::operations::OPERATIONS;
use crate::streams::Watch;
pub use catch_panic::catch_panic;
pub use error::{ApiError, Code};
pub use metrics::ApiMetrics;

/// What the handlers are given, each the one service that it needs: cloned for each call, and so in one piece.
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
    answers: Answers,
    budgets: Budgets,
    catalog: Arc<Catalog>,
    catalogs: Catalogs,
    conversations: Conversations,
    jurisdictions: Arc<Vec<Jurisdiction>>,
    questions: Questions,
    vm: Vm,
    workspaces: Workspaces,
    limits: Limits,
    history: History,
    watch: Watch,
    ending: Ending,
    metrics: Arc<ApiMetrics>,
}

/// Bounds that an operator sets.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest upload; `None` for none but the quota.
    pub upload_max_bytes: Option<u64>,
    /// Within this a JSON body must have come in.
    pub body_timeout: Duration,
    /// A body of which nothing comes for so long is given up.
    pub stall_timeout: Duration,
}

/// Cancelled when the service stops: open streams then let their readers go.
#[derive(Debug, Clone)]
pub struct Ending(pub CancellationToken);

/// The routes of the interface, behind this guard. What they do is counted in `figures`.
pub fn router(
    service: &Service,
    limits: Limits,
    ending: Ending,
    guard: Arc<RateLimiter>,
    metrics: Arc<ApiMetrics>,
) -> Router {
    let history = History {
        conversations: service.conversations.clone(),
        answers: service.answers.clone(),
        budgets: guard.budgets.clone(),
        pages: PageCache::default(),
    };
    let gate = key::AuthLayer { access: service.access.clone(), guard, metrics: metrics.clone() };
    let state = State(Arc::new(Parts {
        access: service.access.clone(),
        answers: service.answers.clone(),
        budgets: gate.guard.budgets.clone(),
        catalog: service.catalog.clone(),
        catalogs: service.catalogs.clone(),
        conversations: service.conversations.clone(),
        jurisdictions: service.jurisdictions.clone(),
        questions: service.questions.clone(),
        vm: service.vm.clone(),
        workspaces: service.workspaces.clone(),
        limits,
        history,
        watch: Watch { access: service.access.clone(), ending: ending.clone() },
        ending,
        metrics,
    }));
    let mut declared = Router::new();
    for operation in &OPERATIONS {
        for path in operation.routes() {
            declared = declared.route(path, (operation.route)());
        }
    }
    let interface = declared
        .route("/api/{*path}", any(error::no_such_path))
        .method_not_allowed_fallback(error::no_such_method)
        // Bodies have bounds of their own; uploads are streamed.
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
        .layer(from_fn_with_state(gate, key::authenticate));
    Router::new()
        .merge(interface)
        // The schema needs no key, nor does the page that shows it.
        .route("/docs", get(openapi::reference))
        .route("/openapi.yaml", get(openapi::publish))
        .route("/api/v1/openapi.yaml", get(openapi::publish))
        .fallback(error::no_such_path)
}
