//! A vendor for tests: a server that speaks the formats of all vendors and does what it is told. The path tells the
//! format, and whatever a script says is said in each of them.
//!
//! It is part of no product build. It keeps to the format strictly, so that a request which a real vendor
//! would refuse is refused here too, and it breaks the format only where a script says so. What it does is
//! chosen, in this order, by
//!
//! 1. a line `STANDIN {json}` in the last user's message, the JSON being a [`Script`];
//! 2. the model's name: see [`script::builtin`] for the names; `text-200x5` says 200 tokens at 5 ms each.
//!
//! A script has a step for each request that follows on the last user's message (tool results lead to the
//! next step), and a step can have several tries: the same request made again gets the next one. The server
//! holds nothing else from one request to the next, so the same requests have the same answers.
//!
//! Beside the vendor it plays what else the service speaks to: see [`web`](mod@web).
//!
//! `GET /standin/requests` tells what was asked, as [`Handle::requests`] does within the process.

mod instructions;
mod log;
mod mcp;
mod player;
pub mod postgres;
mod request;
pub mod script;
mod site;
mod vendor_stream;
mod web;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use log::{Outcome, Seen};
pub use script::Script;
pub use web::Asked;

use log::Log;
use request::{Format, Refusal, Request};
use script::Try;

/// The greatest request that is read.
const REQUEST_MAX_BYTES: usize = 64 * 1024 * 1024;
/// How many different requests are told apart when they are made again.
const TRIES_MAX: usize = 100_000;

/// The header that tells Anthropic's format from others of the same path.
const ANTHROPIC_VERSION: &str = "anthropic-version";

/// What a server wants besides the format.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The key that every request must carry; `None` asks for none.
    pub key: Option<String>,
}

struct Vendor {
    settings: Settings,
    log: Arc<Log>,
    /// How often each request came, by its fingerprint.
    tries: Mutex<HashMap<u64, usize>>,
}

/// A running stand-in. It stops taking requests when this is dropped.
#[derive(Debug)]
pub struct Handle {
    address: SocketAddr,
    log: Arc<Log>,
    web: Arc<web::Web>,
    task: JoinHandle<()>,
}

impl Handle {
    /// What `OPENAI_BASE_URL` is to be set to.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The address below which the search engines stand: `/searxng`, `/brave`, `/tavily`.
    #[must_use]
    pub fn web_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked of the search engines so far, oldest first.
    #[must_use]
    pub fn web_requests(&self) -> Vec<Asked> {
        self.web.asked()
    }

    /// Waits until what was asked of these satisfies `wanted`. Cancel safe.
    pub async fn until_web(&self, wanted: impl Fn(&[Asked]) -> bool) {
        self.web.until(wanted).await;
    }

    /// What `ANTHROPIC_BASE_URL`, `GEMINI_BASE_URL` and the like are to be set to.
    #[must_use]
    pub fn root_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Seen> {
        self.log.all()
    }

    /// Waits until what was asked satisfies `wanted`. Cancel safe.
    pub async fn until(&self, wanted: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        self.log.until(wanted).await
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves on `listener` until the handle is dropped. Any key will do.
///
/// # Errors
/// When the listener has no address.
pub fn serve(listener: TcpListener) -> io::Result<Handle> {
    serve_with(listener, Settings::default())
}

/// Serves on `listener` until the handle is dropped.
///
/// # Errors
/// When the listener has no address.
pub fn serve_with(listener: TcpListener, settings: Settings) -> io::Result<Handle> {
    let address = listener.local_addr()?;
    let log = Arc::new(Log::default());
    let web = Arc::new(web::Web::default());
    let vendor = Arc::new(Vendor { settings, log: log.clone(), tries: Mutex::default() });
    let routes = Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/v1/messages", post(complete))
        .route("/v1/responses", post(complete))
        .route("/v1beta/models/{call}", post(complete))
        .route("/v1/models", get(models))
        .route("/v1beta/models", get(models))
        .route("/standin/requests", get(requests))
        .route("/standin/reset", post(reset))
        .layer(DefaultBodyLimit::max(REQUEST_MAX_BYTES))
        .with_state(vendor)
        .merge(web::routes(web.clone()))
        .merge(site::routes(web.clone()))
        .merge(mcp::routes(web.clone()));
    let listener = listener.tap_io(|stream| {
        // A token must leave at once; a socket that refuses the option only makes it later.
        let _later = stream.set_nodelay(true);
    });
    let task = tokio::spawn(async move {
        // Serving ends only with the task.
        let _ended = axum::serve(listener, routes).await;
    });
    Ok(Handle { address, log, web, task })
}

/// Serves on a free port of this host.
///
/// # Errors
/// When no port can be opened.
pub async fn start() -> io::Result<Handle> {
    serve(TcpListener::bind(("127.0.0.1", 0)).await?)
}

async fn complete(State(vendor): State<Arc<Vendor>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let number = vendor.log.begin(uri.path_and_query().map_or("", |path| path.as_str()), &headers, &body);
    let format = format_of(&uri, &headers);
    let attempt = match vendor.choose(format, &uri, &headers, &body) {
        Ok(attempt) => attempt,
        Err(refusal) => {
            vendor.log.end(number, Outcome::Refused(refusal.status));
            return refuse(format, &refusal, None);
        }
    };
    let (request, attempt) = attempt;
    if let Some(status) = attempt.status {
        vendor.log.end(number, Outcome::Refused(status));
        let refusal = Refusal {
            status,
            message: attempt.message.clone().unwrap_or_else(|| "the script says so".to_owned()),
            code: attempt.code.clone(),
        };
        return refuse(format, &refusal, attempt.retry_after.as_deref());
    }
    let played = player::play(&request, &attempt, log::Running::new(vendor.log.clone(), number));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(played)).into_response()
}

fn format_of(uri: &Uri, headers: &HeaderMap) -> Format {
    match uri.path() {
        "/v1/messages" => Format::Anthropic,
        "/v1/responses" => Format::Responses,
        "/v1/models" if headers.contains_key(ANTHROPIC_VERSION) => Format::Anthropic,
        path if path.starts_with("/v1beta/") => Format::Gemini,
        _ => Format::ChatCompletions,
    }
}

impl Vendor {
    fn choose(
        &self,
        format: Format,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<(Request, Try), Refusal> {
        self.check(format, uri, headers)?;
        let model = uri.path().rsplit('/').next().unwrap_or("").trim_end_matches(":streamGenerateContent");
        let request = Request::parse(format, model, body)?;
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= TRIES_MAX {
            tries.clear();
        }
        let count = tries.entry(request.fingerprint).or_default();
        let attempt = script::attempt(&request, *count)?;
        *count += 1;
        Ok((request, attempt))
    }

    fn check(&self, format: Format, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        if let Some(key) = &self.settings.key {
            let (name, prefix) = format.key_header();
            let given = headers.get(name).and_then(|value| value.to_str().ok());
            if given != Some(&format!("{prefix}{key}")) {
                return Err(Refusal::new(401, "Incorrect API key provided", "invalid_api_key"));
            }
        }
        if format == Format::Anthropic && !headers.contains_key(ANTHROPIC_VERSION) {
            return Err(Refusal::new(400, "anthropic-version: header is required", "invalid_request"));
        }
        if format == Format::Gemini && (uri.query() != Some("alt=sse") || !uri.path().contains(':')) {
            return Err(Refusal::new(
                400,
                "only streamGenerateContent?alt=sse is served here",
                "invalid_request",
            ));
        }
        Ok(())
    }
}

fn refuse(format: Format, refusal: &Refusal, retry_after: Option<&str>) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(vendor_stream::refusal(format, refusal))).into_response();
    if let Some(value) = retry_after.and_then(|value| value.parse().ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

async fn models(uri: Uri, headers: HeaderMap) -> Json<Value> {
    Json(vendor_stream::models(format_of(&uri, &headers), script::NAMES))
}

async fn requests(State(vendor): State<Arc<Vendor>>) -> Json<Value> {
    Json(vendor.log.all().iter().map(Seen::to_json).collect())
}

async fn reset(State(vendor): State<Arc<Vendor>>) -> StatusCode {
    vendor.log.clear();
    vendor.tries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    StatusCode::NO_CONTENT
}
