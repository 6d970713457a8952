//! The routes of monitoring (`/healthz`, `/readyz`, `/metrics`), and the answer to unknown paths.

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::{CACHE_CONTROL, VARY};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use control::CheckStatus;
use domain::account::AccountRole;
use serde_json::json;

use crate::metrics::{self, MetricSources};

/// Returns the routes for monitoring; they need no key.
pub fn monitoring_router(sources: MetricSources) -> Router {
    Router::new()
        .route("/healthz", get(async || StatusCode::OK))
        .route("/readyz", get(answer_readiness))
        .route(metrics::METRICS, get(metrics::show_metrics))
        .with_state(sources)
}

/// Answers an unknown path: with a page for browsers, otherwise with an error of the API.
pub async fn answer_unknown_path(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let page = app::without_slash(&method, uri.path(), &headers)
        .or_else(|| app::no_such_page(&method, uri.path(), &headers));
    match page {
        Some(page) => page,
        None => api::no_such_path().await.into_response(),
    }
}

/// Answers 200 if requests can be served; with `?verbose`, each check as JSON. Reasons and values name addresses of vendors and
/// messages of the kernel, so they are for operators.
async fn answer_readiness(
    State(sources): State<MetricSources>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let checks = sources.service.run_checks().await;
    let is_ready = checks.iter().all(|check| check.status != CheckStatus::Fail);
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut words = query.as_deref().unwrap_or_default().split('&');
    if words.any(|word| matches!(word.split('=').next(), Some("verbose"))) {
        let checks = match is_operator(&sources, &headers).await {
            true => json!(checks),
            false => {
                checks.iter().map(|check| json!({ "name": check.name, "status": check.status })).collect()
            }
        };
        let private = [(CACHE_CONTROL, "no-store"), (VARY, "X-Api-Key, Cookie")];
        (status, private, Json(json!({ "ready": is_ready, "checks": checks }))).into_response()
    } else {
        status.into_response()
    }
}

/// Returns true if the request has a key of an operator's account, or the session of an operator.
async fn is_operator(sources: &MetricSources, headers: &HeaderMap) -> bool {
    let service = &sources.service;
    if let Some(user) = app::signed_in(&service.sessions, headers, sources.tls).await
        && user.role == AccountRole::Operator
    {
        return true;
    }
    let Ok(principal) = service.access.resolve_key(api::key_of(headers)).await else { return false };
    let account = service.admin.find_account(&principal.account().to_string()).await;
    account.is_ok_and(|account| account.role == AccountRole::Operator)
}
