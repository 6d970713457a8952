//! Search engines for tests, on the vendor's port. The website at `/site` and the MCP servers at `/mcp` have their own
//! modules.
//!
//! - `/searxng/search`, `/brave/res/v1/web/search`, `/tavily/search`: the base addresses are `/searxng`, `/brave`
//!   and `/tavily`. Any query finds two pages of this server and one elsewhere, in a fixed order.
//! - A word of the query selects a fault: `status-429` returns that status (with `Retry-After: 7`), `nothing` finds
//!   nothing, `malformed` returns invalid JSON, `huge` never ends, `stall` never answers, `odd` returns unusual results.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Limits the logged requests.
const ASKED_MAX: usize = 10_000;
/// The chunk of an endless body.
const PIECE: &[u8] = &[b' '; 16 * 1024];

/// A request to one of these servers.
#[derive(Debug, Clone)]
pub struct WebRequest {
    /// `searxng`, `brave`, `tavily`, `site`, `mcp`.
    pub server: &'static str,
    /// The query parameters or the body, as JSON.
    pub parameters: Value,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
}

impl WebRequest {
    /// Returns a header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The shared state of these servers.
#[derive(Debug, Default)]
pub(crate) struct FakeWeb {
    asked: Mutex<Vec<WebRequest>>,
    grew: Notify,
}

impl FakeWeb {
    pub(crate) fn asked_requests(&self) -> Vec<WebRequest> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn wait_until(&self, wanted: impl Fn(&[WebRequest]) -> bool) {
        loop {
            let grew = self.grew.notified();
            tokio::pin!(grew);
            grew.as_mut().enable();
            if wanted(&self.asked_requests()) {
                return;
            }
            grew.await;
        }
    }

    pub(crate) fn note_request(&self, server: &'static str, parameters: Value, headers: &HeaderMap) {
        let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() < ASKED_MAX {
            asked.push(WebRequest { server, parameters, headers });
        }
        drop(asked);
        self.grew.notify_waiters();
    }
}

pub(crate) fn search_routes(web: Arc<FakeWeb>) -> Router {
    Router::new()
        .route("/searxng/search", get(serve_searxng))
        .route("/brave/res/v1/web/search", get(serve_brave))
        .route("/tavily/search", post(serve_tavily))
        .with_state(web)
}

type Parameters = Query<std::collections::BTreeMap<String, String>>;

async fn serve_searxng(
    State(web): State<Arc<FakeWeb>>,
    Query(parameters): Parameters,
    headers: HeaderMap,
) -> Response {
    web.note_request("searxng", json!(parameters), &headers);
    let query = parameters.get("q").cloned().unwrap_or_default();
    if query.trim().is_empty() {
        return (StatusCode::BAD_REQUEST, Json(json!({"error": "No query"}))).into_response();
    }
    if parameters.get("format").map(String::as_str) != Some("json") {
        return (StatusCode::FORBIDDEN, "Forbidden").into_response();
    }
    query_fault(&query, |status| (status, "<!doctype html><title>no</title>").into_response()).unwrap_or_else(|| {
        let pages = search_results(&query, &headers).into_iter().map(|(title, url, text)| {
            json!({"title": title, "url": url, "content": text, "engine": "standin", "engines": ["standin"],
                   "category": "general", "score": 1.0, "positions": [1], "publishedDate": null})
        });
        Json(json!({"query": query, "number_of_results": 0, "results": pages.collect::<Vec<_>>(), "answers": [],
                    "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": []}))
        .into_response()
    })
}

async fn serve_brave(
    State(web): State<Arc<FakeWeb>>,
    Query(parameters): Parameters,
    headers: HeaderMap,
) -> Response {
    web.note_request("brave", json!(parameters), &headers);
    let refuse = |status: StatusCode, code: &str, detail: &str| {
        let error = json!({"id": "1", "code": code, "detail": detail, "status": status.as_u16(), "meta": {}});
        (status, Json(json!({"type": "ErrorResponse", "error": error, "time": 1}))).into_response()
    };
    let unprocessable = |detail| refuse(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION", detail);
    let key = headers.get("x-subscription-token").and_then(|key| key.to_str().ok());
    if key.is_none_or(|key| key != "brave-key") {
        let detail = format!("The provided subscription token {} is invalid.", key.unwrap_or(""));
        return refuse(StatusCode::UNPROCESSABLE_ENTITY, "SUBSCRIPTION_TOKEN_INVALID", &detail);
    }
    let query = parameters.get("q").cloned().unwrap_or_default();
    if query.is_empty() || query.chars().count() > 400 || query.split_whitespace().count() > 50 {
        return unprocessable("q: 1 to 400 characters and 50 words");
    }
    let count = parameters.get("count").and_then(|count| count.parse::<usize>().ok());
    let Some(count) = count.filter(|count| (1..=20).contains(count)) else {
        return unprocessable("count: 1 to 20");
    };
    if parameters.get("country").is_some_and(|country| country == "CZ") {
        return unprocessable("country: not one of the known countries");
    }
    query_fault(&query, |status| refuse(status, "RATE_LIMITED", "Request rate limit exceeded")).unwrap_or_else(|| {
        let mut body = json!({"type": "search", "query": {"original": query, "more_results_available": false},
                              "mixed": {"type": "mixed", "main": [], "top": [], "side": []}});
        let pages: Vec<Value> = search_results(&query, &headers)
            .into_iter()
            .take(count)
            .map(|(title, url, text)| {
                let marked = text.replacen("page", "<strong>page</strong>", 1);
                json!({"type": "search_result", "title": title, "url": url, "description": marked,
                       "language": "en", "family_friendly": true})
            })
            .collect();
        if !pages.is_empty() {
            body["web"] = json!({"type": "search", "results": pages, "family_friendly": true});
        }
        Json(body).into_response()
    })
}

async fn serve_tavily(State(web): State<Arc<FakeWeb>>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    web.note_request("tavily", body.clone(), &headers);
    let refuse =
        |status: StatusCode, error: &str| (status, Json(json!({"detail": {"error": error}}))).into_response();
    let key = headers.get(header::AUTHORIZATION).and_then(|key| key.to_str().ok());
    if key != Some("Bearer tavily-key") {
        return refuse(StatusCode::UNAUTHORIZED, "Unauthorized: missing or invalid API key.");
    }
    let Some(query) = body.get("query").and_then(Value::as_str).filter(|query| !query.is_empty()) else {
        return refuse(StatusCode::BAD_REQUEST, "Query is missing.");
    };
    if query.chars().count() > 400 {
        return refuse(StatusCode::BAD_REQUEST, "Query is too long. Max query length is 400 characters.");
    }
    let count = body.get("max_results").and_then(Value::as_u64);
    let Some(count) = count.filter(|count| *count <= 20) else {
        return refuse(StatusCode::BAD_REQUEST, "Invalid max results.");
    };
    query_fault(query, |status| refuse(status, "Your request has been blocked.")).unwrap_or_else(|| {
        let count = usize::try_from(count).unwrap_or(0);
        let pages = search_results(query, &headers).into_iter().take(count).map(|(title, url, text)| {
            json!({"title": title, "url": url, "content": text, "score": 0.9, "raw_content": null})
        });
        Json(json!({"query": query, "follow_up_questions": null, "answer": null, "images": [],
                    "results": pages.collect::<Vec<_>>(), "response_time": 0.1, "request_id": "1"}))
        .into_response()
    })
}

/// Returns the fault that a word of the query selects.
fn query_fault(query: &str, refuse: impl Fn(StatusCode) -> Response) -> Option<Response> {
    query.split_whitespace().find_map(|word| match word {
        "malformed" => {
            Some(([(header::CONTENT_TYPE, "application/json")], "{\"results\": [").into_response())
        }
        "huge" => {
            let pieces = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(PIECE)));
            Some(Body::from_stream(pieces).into_response())
        }
        "stall" => {
            let nothing = stream::pending::<Result<Bytes, std::io::Error>>();
            Some(Body::from_stream(nothing).into_response())
        }
        _ => {
            let status = word.strip_prefix("status-")?.parse().ok()?;
            let mut response = refuse(StatusCode::from_u16(status).ok()?);
            response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("7"));
            Some(response)
        }
    })
}

/// Returns the results: title, URL, text.
fn search_results(query: &str, headers: &HeaderMap) -> Vec<(String, String, String)> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let page = |title: &str, url: String, text: &str| (title.to_owned(), url, text.to_owned());
    if query.split_whitespace().any(|word| word == "nothing") {
        return Vec::new();
    }
    if query.split_whitespace().any(|word| word == "odd") {
        return vec![
            page("A script", "javascript:alert(1)".to_owned(), ""),
            page("A file", "file:///etc/passwd".to_owned(), ""),
            page("With a name", "https://user:word@example.org/".to_owned(), ""),
            page("", "https://untitled.example/".to_owned(), "\u{1b}[31mred\u{202e}\u{200b} &lt;b&gt;"),
            page("Twice", "https://untitled.example/#again".to_owned(), ""),
            page(&"long ".repeat(1000), "https://long.example/".to_owned(), &"text ".repeat(10_000)),
        ];
    }
    vec![
        page("Notice periods", format!("http://{host}/site/notice"), "This page tells of notice & terms."),
        page("The lease act", format!("http://{host}/site/act"), "A page with the act's text."),
        page("Elsewhere", "https://elsewhere.example/a?b=c".to_owned(), "Another page."),
    ]
}
