//! A fake vendor for tests: a server that speaks the formats of all vendors and follows scripts. The path selects the
//! format; each script works in all of them.
//!
//! No product build contains it. It validates requests as strictly as the vendors do, and violates the format only
//! when a script requires it. Its behaviour is selected by, in this order,
//!
//! 1. a line `STANDIN {json}` in the last user's message, with a [`Script`] as JSON;
//! 2. the model's name: see [`run_script::builtin_script`] for the names; `text-200x5` writes 200 tokens at 5 ms each.
//!
//! A script has a step for each request after the last user's message (tool results lead to the next step). A step can
//! have several tries: repeating the same request runs the next one. The server keeps no other state between requests,
//! so equal requests get equal answers.
//!
//! It also plays the other servers that the service calls: see [`web`](mod@web). [`scripted_vendor`] and [`scripted_site`] are
//! smaller ones that a test scripts and holds from its own process, without an async runtime.
//!
//! `GET /standin/requests` returns the received requests, like [`FakeVendorHandle::serve_requests`] within the process.

mod attempt;
pub mod drivers;
pub mod embeddings;
mod instructions;
mod log;
mod mcp;
mod player;
pub mod port;
pub mod postgres;
pub mod processes;
mod request;
pub mod script;
pub mod scripted_site;
pub mod scripted_vendor;
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

pub use log::{LoggedRequest, RequestOutcome};
pub use script::Script;
pub use web::WebRequest;

use log::RequestLog;
use request::{VendorFormat, VendorRefusal, VendorRequest};
use script::Try;

/// Limits the body of a request.
const REQUEST_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Limits how many requests are tracked for repetition.
const TRIES_MAX: usize = 100_000;

/// Distinguishes Anthropic's list of models from others of the same path.
const ANTHROPIC_VERSION: &str = "anthropic-version";

/// The server's requirements besides the format.
#[derive(Debug, Clone, Default)]
pub struct FakeVendorSettings {
    /// The key that every request must carry, if any.
    pub key: Option<String>,
}

struct FakeVendorState {
    settings: FakeVendorSettings,
    log: Arc<RequestLog>,
    /// Counts each request by its fingerprint.
    tries: Mutex<HashMap<u64, usize>>,
}

/// A running server. Dropping the handle stops it.
#[derive(Debug)]
pub struct FakeVendorHandle {
    address: SocketAddr,
    log: Arc<RequestLog>,
    web: Arc<web::FakeWeb>,
    task: JoinHandle<()>,
}

impl FakeVendorHandle {
    /// Returns the value for `OPENAI_BASE_URL`.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the base address of a search engine: `/searxng`, `/brave`, `/tavily`.
    #[must_use]
    pub fn web_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests to the search engines, oldest first.
    #[must_use]
    pub fn web_requests(&self) -> Vec<WebRequest> {
        self.web.asked_requests()
    }

    /// Waits until the requests to the search engines satisfy `wanted`. Cancel safe.
    pub async fn until_web(&self, wanted: impl Fn(&[WebRequest]) -> bool) {
        self.web.wait_until(wanted).await;
    }

    /// Returns the value for `ANTHROPIC_BASE_URL`, `GEMINI_BASE_URL` and the like.
    #[must_use]
    pub fn root_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.log.all_requests()
    }

    /// Waits until the requests satisfy `wanted`. Cancel safe.
    pub async fn wait_for_requests(&self, wanted: impl Fn(&[LoggedRequest]) -> bool) -> Vec<LoggedRequest> {
        self.log.wait_until(wanted).await
    }
}

impl Drop for FakeVendorHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves on `listener` until the handle is dropped. Accepts any key.
///
/// # Errors
/// Fails when the listener has no address.
pub fn serve_on(listener: TcpListener) -> io::Result<FakeVendorHandle> {
    serve_with(listener, FakeVendorSettings::default())
}

/// Serves on `listener` until the handle is dropped.
///
/// # Errors
/// Fails when the listener has no address.
pub fn serve_with(listener: TcpListener, settings: FakeVendorSettings) -> io::Result<FakeVendorHandle> {
    let address = listener.local_addr()?;
    let log = Arc::new(RequestLog::default());
    let web = Arc::new(web::FakeWeb::default());
    let vendor = Arc::new(FakeVendorState { settings, log: log.clone(), tries: Mutex::default() });
    let routes = Router::new()
        .route("/v1/chat/completions", post(serve_completion))
        .route("/v1/messages", post(serve_completion))
        .route("/v1/responses", post(serve_completion))
        .route("/v1beta/models/{call}", post(serve_completion))
        .route("/v1/embeddings", post(serve_embeddings))
        .route("/v1/models", get(serve_models))
        .route("/v1beta/models", get(serve_models))
        .route("/standin/requests", get(serve_requests))
        .route("/standin/reset", post(reset_log))
        .layer(DefaultBodyLimit::max(REQUEST_MAX_BYTES))
        .with_state(vendor)
        .merge(web::search_routes(web.clone()))
        .merge(site::site_routes(web.clone()))
        .merge(mcp::mcp_routes(web.clone()));
    let listener = listener.tap_io(|stream| {
        // A token must be sent at once; without the option it is only late.
        let _later = stream.set_nodelay(true);
    });
    let task = tokio::spawn(async move {
        // Serving ends only with the task.
        let _ended = axum::serve(listener, routes).await;
    });
    Ok(FakeVendorHandle { address, log, web, task })
}

/// Serves on a free port of this host.
///
/// # Errors
/// Fails when no port can be opened.
pub async fn start_server() -> io::Result<FakeVendorHandle> {
    serve_on(TcpListener::bind(("127.0.0.1", 0)).await?)
}

async fn serve_completion(
    State(vendor): State<Arc<FakeVendorState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let number =
        vendor.log.begin_request(uri.path_and_query().map_or("", |path| path.as_str()), &headers, &body);
    let format = request_format(&uri, &headers);
    let attempt = match vendor.choose_try(format, &uri, &headers, &body) {
        Ok(attempt) => attempt,
        Err(refusal) => {
            vendor.log.end_request(number, RequestOutcome::Refused(refusal.status));
            return refusal_response(format, &refusal, None);
        }
    };
    let (request, attempt) = attempt;
    if let Some(status) = attempt.status {
        vendor.log.end_request(number, RequestOutcome::Refused(status));
        let refusal = VendorRefusal {
            status,
            message: attempt.message.clone().unwrap_or_else(|| "the script says so".to_owned()),
            code: attempt.code.clone(),
        };
        return refusal_response(format, &refusal, attempt.retry_after.as_deref());
    }
    let played = player::play_answer(&request, &attempt, log::RunningAnswer::new(vendor.log.clone(), number));
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(played)).into_response()
}

async fn serve_embeddings(
    State(vendor): State<Arc<FakeVendorState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let number = vendor.log.begin_request(uri.path(), &headers, &body);
    let refused = |refusal: &VendorRefusal| {
        vendor.log.end_request(number, RequestOutcome::Refused(refusal.status));
        refusal_response(VendorFormat::ChatCompletions, refusal, None)
    };
    if let Err(refusal) = vendor.check_key_and_headers(VendorFormat::ChatCompletions, &uri, &headers) {
        return refused(&refusal);
    }
    match embeddings::respond_to_embeddings(&serde_json::from_slice(&body).unwrap_or_default()) {
        Ok(embedded) => {
            vendor.log.end_request(number, RequestOutcome::Done);
            Json(embedded).into_response()
        }
        Err((status, error)) => {
            vendor.log.end_request(number, RequestOutcome::Refused(status));
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (status, Json(error)).into_response()
        }
    }
}

fn request_format(uri: &Uri, headers: &HeaderMap) -> VendorFormat {
    match uri.path() {
        "/v1/messages" => VendorFormat::Anthropic,
        "/v1/responses" => VendorFormat::Responses,
        "/v1/models" if headers.contains_key(ANTHROPIC_VERSION) => VendorFormat::Anthropic,
        path if path.starts_with("/v1beta/") => VendorFormat::Gemini,
        _ => VendorFormat::ChatCompletions,
    }
}

impl FakeVendorState {
    fn choose_try(
        &self,
        format: VendorFormat,
        uri: &Uri,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<(VendorRequest, Try), VendorRefusal> {
        self.check_key_and_headers(format, uri, headers)?;
        let model = uri.path().rsplit('/').next().unwrap_or("").trim_end_matches(":streamGenerateContent");
        let request = VendorRequest::parse(format, model, body)?;
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= TRIES_MAX {
            tries.clear();
        }
        let count = tries.entry(request.fingerprint).or_default();
        let attempt = attempt::select_try(&request, *count)?;
        *count += 1;
        Ok((request, attempt))
    }

    fn check_key_and_headers(
        &self,
        format: VendorFormat,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), VendorRefusal> {
        if let Some(key) = &self.settings.key {
            let (name, prefix) = format.key_header();
            let given = headers.get(name).and_then(|value| value.to_str().ok());
            if given != Some(&format!("{prefix}{key}")) {
                return Err(VendorRefusal::new(401, "Incorrect API key provided", "invalid_api_key"));
            }
        }
        if format == VendorFormat::Anthropic && !headers.contains_key(ANTHROPIC_VERSION) {
            return Err(VendorRefusal::new(400, "anthropic-version: header is required", "invalid_request"));
        }
        if format == VendorFormat::Gemini && (uri.query() != Some("alt=sse") || !uri.path().contains(':')) {
            return Err(VendorRefusal::new(
                400,
                "only streamGenerateContent?alt=sse is served here",
                "invalid_request",
            ));
        }
        Ok(())
    }
}

fn refusal_response(format: VendorFormat, refusal: &VendorRefusal, retry_after: Option<&str>) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(vendor_stream::refusal_body(format, refusal))).into_response();
    if let Some(value) = retry_after.and_then(|value| value.parse().ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

async fn serve_models(uri: Uri, headers: HeaderMap) -> Json<Value> {
    Json(vendor_stream::model_list(request_format(&uri, &headers), script::NAMES))
}

async fn serve_requests(State(vendor): State<Arc<FakeVendorState>>) -> Json<Value> {
    Json(vendor.log.all_requests().iter().map(LoggedRequest::to_json).collect())
}

async fn reset_log(State(vendor): State<Arc<FakeVendorState>>) -> StatusCode {
    vendor.log.clear();
    vendor.tries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    StatusCode::NO_CONTENT
}
