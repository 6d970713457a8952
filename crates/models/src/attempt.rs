//! One attempt at a step: sends the request, reads the stream, gives the events as they come.
//!
//! The same for every format. Servers differ in what they accept. What one turns down and is not essential (the
//! effort of reasoning, reporting usage, how the bound on output is called) is left out or said otherwise, and
//! remembered for its model.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use domain::step::{Item, StepError, StepEvent, StepRequest};
use futures_util::Stream;
use hyper::Method;
use reqwest::header::{self, HeaderMap, HeaderValue};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::client::Response;
use crate::decoder::{Decoder, Next};
use crate::format::{Dialect, Format};
use crate::lenient::Listing;
use crate::probe::Failure;
use crate::provider::{Discovered, StepStream};
use crate::server::Server;
use crate::vendor::{Options, VendorConfig, VendorError};
use crate::{error, wire};

/// The longest that a step's bytes may stay away, the first ones included.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest that a step may take altogether.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(1800);
/// How long usage is waited for after the model was done.
pub const USAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long listing the models may take.
pub const MODELS_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a step's stream is read before what it says is told.
const READ_MAX_BYTES: usize = 64 * 1024;
/// How much text that came in several pieces is told as one.
const TEXT_MAX_BYTES: usize = 4 * 1024;
/// The longest list of models that is read.
const MODELS_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The most models that are taken from a list.
pub const MODELS_MAX: usize = 200;
/// How often a request is said otherwise to a server that turns a part of it down.
const DIALECTS_MAX: usize = 4;

/// How long a server is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// See [`STALL_TIMEOUT`].
    pub stall: Duration,
    /// See [`STEP_TIMEOUT`].
    pub step: Duration,
    /// See [`USAGE_TIMEOUT`].
    pub usage: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { stall: STALL_TIMEOUT, step: STEP_TIMEOUT, usage: USAGE_TIMEOUT }
    }
}

/// A vendor's server, spoken to in one format. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Vendor {
    format: Format,
    server: Server,
    max_wait: Timeouts,
    own: bool,
    options: Arc<Options>,
    dialects: Arc<Mutex<HashMap<String, Dialect>>>,
    /// How many entries of its list could not be read when it was last read.
    odd: Arc<AtomicUsize>,
}

impl Vendor {
    /// The server of this configuration. Connects only when it is used.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn new(format: Format, config: &VendorConfig) -> Result<Self, VendorError> {
        Self::with_timeouts(format, config, Timeouts::default())
    }

    /// The same, waited for as said.
    ///
    /// # Errors
    /// When the configuration cannot be used.
    pub fn with_timeouts(
        format: Format,
        config: &VendorConfig,
        max_wait: Timeouts,
    ) -> Result<Self, VendorError> {
        let base = config.base_url.as_deref().unwrap_or(format.default_base_url());
        let server = Server::new(format, base, config.key.clone())?;
        let own = server.is_own(format);
        let options = Arc::new(config.options.clone());
        Ok(Self { format, server, max_wait, own, options, dialects: Arc::default(), odd: Arc::default() })
    }

    /// The same server, to whose requests more is added for one model.
    pub(crate) fn with_options(&self, model: &str, more: &Map<String, Value>) -> Self {
        Self { options: Arc::new(self.options.with(model, more)), ..self.clone() }
    }

    /// How it is spoken to.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether this is the vendor's own server, not one that only speaks its format.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Makes one attempt at a step; see [`crate::Provider::step`].
    #[must_use]
    pub fn step(&self, request: StepRequest) -> StepStream {
        let stage = Stage::Opening(Box::pin(begin(self.clone(), request)));
        Box::pin(Running { vendor: self.clone(), stage, ready: VecDeque::new() })
    }

    /// Where the server is. No key stands in it.
    pub(crate) fn base_url(&self) -> &str {
        self.server.base_url()
    }

    /// The models that the server lists, in its order.
    ///
    /// # Errors
    /// Why it does not tell.
    pub async fn models(&self) -> Result<Vec<Discovered>, StepError> {
        self.list().await.map_err(|failure| failure.error())
    }

    pub(crate) async fn list(&self) -> Result<Vec<Discovered>, Failure> {
        let failed = |error: StepError| Failure::of(&error, self.server.key_header().is_some());
        let listing = async {
            let (path, query) = self.format.models_path();
            let client = self.server.client().map_err(failed)?;
            let url = self.server.url(path, query);
            let sending = client.send(Method::GET, &url, self.headers(), Vec::new());
            let mut response = sending.await.map_err(wire::connection).map_err(failed)?;
            if !response.status.is_success() {
                return Err(failed(self.refusal(response).await));
            }
            let body = wire::bounded(&mut response, MODELS_MAX_BYTES).await.map_err(failed)?;
            let body = body.ok_or_else(|| Failure::unreadable("its list of models is too long"))?;
            let Listing { mut models, odd } = self.format.models(&body).ok_or_else(|| {
                let is_json = serde_json::from_slice::<&RawValue>(&body).is_ok();
                let what = if is_json { "JSON, and no list of models" } else { "no JSON" };
                Failure::unreadable(&format!("what it gives for a list of models is {what}"))
            })?;
            self.tell_odd(odd);
            models.truncate(MODELS_MAX);
            for (model, dialect) in self.format.dialects(&body).into_iter().take(MODELS_MAX) {
                self.hear(model, dialect);
            }
            Ok(models)
        };
        let models = timeout(MODELS_TIMEOUT, listing)
            .await
            .unwrap_or_else(|_| Err(failed(wire::unavailable("it did not answer in time"))))?;
        Ok(models)
    }

    /// Warns of entries of the list that could not be read, once for as long as it is as many.
    fn tell_odd(&self, odd: usize) {
        if self.odd.swap(odd, Ordering::Relaxed) != odd && odd > 0 {
            let vendor = self.format.provider().as_str();
            tracing::warn!(
                vendor,
                entries = odd,
                "entries of a vendor's list of models are left out: they name no model"
            );
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers: HeaderMap = self.server.key_header().into_iter().collect();
        if let Some((name, value)) = self.format.version_header() {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn dialect(&self, model: &str) -> Dialect {
        let dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        dialects.get(model).copied().unwrap_or_else(|| self.format.dialect(model, self.own))
    }

    fn learn(&self, model: &str, dialect: Dialect) {
        let mut dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        if dialects.len() >= MODELS_MAX {
            dialects.clear();
        }
        dialects.insert(model.to_owned(), dialect);
    }

    /// Takes over what is said of a model of which nothing was learned yet.
    fn hear(&self, model: String, dialect: Dialect) {
        let mut dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        if dialects.len() < MODELS_MAX {
            dialects.entry(model).or_insert(dialect);
        }
    }

    async fn refusal(&self, mut response: Response) -> StepError {
        let status = response.status;
        let wait = wire::retry_after(&response.headers, SystemTime::now());
        let body =
            wire::bounded(&mut response, wire::REFUSAL_MAX_BYTES).await.ok().flatten().unwrap_or_default();
        error::of_status(status, wait, &self.server.redact(&String::from_utf8_lossy(&body)))
    }

    /// Sends the request until the server takes it as it is said, and gives its stream.
    async fn open(&self, request: &StepRequest) -> Result<Response, StepError> {
        let mut dialect = self.dialect(&request.model);
        let mut said_otherwise = 0;
        let (path, query) = self.format.step_path(&request.model);
        loop {
            let mut headers = self.headers();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            let body = dialect.body(request, &self.options.of(&request.model))?;
            let url = self.server.url(&path, query);
            let sending = self.server.client()?.send(Method::POST, &url, headers, body);
            let response = sending.await.map_err(wire::connection)?;
            if response.status.is_success() {
                return Ok(response);
            }
            let refusal = self.refusal(response).await;
            match dialect.fallback(&refusal) {
                Some(other) if said_otherwise < DIALECTS_MAX => {
                    tracing::debug!(
                        model = request.model,
                        ?other,
                        "the server turned a part of the request down"
                    );
                    said_otherwise += 1;
                    dialect = other;
                    self.learn(&request.model, other);
                }
                _ => return Err(refusal),
            }
        }
    }
}

/// A step under way.
struct Running {
    vendor: Vendor,
    stage: Stage,
    ready: VecDeque<StepEvent>,
}

enum Stage {
    Opening(Pin<Box<dyn Future<Output = Result<Streaming, StepError>> + Send>>),
    Streaming(Box<Streaming>),
    /// Nothing more but why it failed.
    After(Option<StepError>),
}

struct Streaming {
    response: Response,
    decoder: Decoder,
    deadline: Instant,
    /// When something came last.
    heard: Instant,
    /// Looks whether that was too long ago. It is set again when it is due, not with each piece that comes.
    alarm: Pin<Box<Sleep>>,
}

impl Stream for Running {
    type Item = Result<StepEvent, StepError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = next_ready(&mut this.ready) {
                return Poll::Ready(Some(Ok(event)));
            }
            let progress = match &mut this.stage {
                Stage::After(failure) => {
                    let failure = failure.take().map(|failure| Err(this.clean(failure)));
                    return Poll::Ready(failure);
                }
                Stage::Opening(opening) => ready!(opening.as_mut().poll(context)).map(|streaming| {
                    this.stage = Stage::Streaming(Box::new(streaming));
                    Next::More
                }),
                Stage::Streaming(streaming) => {
                    ready!(streaming.poll_read(this.vendor.max_wait, &mut this.ready, context))
                }
            };
            match progress {
                Ok(Next::More) => {}
                Ok(Next::End) => this.stage = Stage::After(None),
                // What was said before the failure is given first.
                Err(failure) => this.stage = Stage::After(Some(failure)),
            }
        }
    }
}

/// The next event. Text that came in several pieces is one, up to [`TEXT_MAX_BYTES`].
fn next_ready(ready: &mut VecDeque<StepEvent>) -> Option<StepEvent> {
    let mut event = ready.pop_front()?;
    loop {
        match (&mut event, ready.front()) {
            (StepEvent::Text(text), Some(StepEvent::Text(more)))
            | (StepEvent::Reasoning(text), Some(StepEvent::Reasoning(more)))
                if text.len() + more.len() <= TEXT_MAX_BYTES =>
            {
                text.push_str(more);
            }
            _ => return Some(event),
        }
        ready.pop_front();
    }
}

impl Running {
    fn clean(&self, error: StepError) -> StepError {
        match error {
            StepError::Unavailable { reason, retry_after } => {
                StepError::Unavailable { reason: self.vendor.server.redact(&reason), retry_after }
            }
            StepError::Rejected { reason } => {
                StepError::Rejected { reason: self.vendor.server.redact(&reason) }
            }
            StepError::TooLong => StepError::TooLong,
        }
    }
}

async fn begin(vendor: Vendor, request: StepRequest) -> Result<Streaming, StepError> {
    let deadline = Instant::now() + vendor.max_wait.step;
    let opened = timeout(vendor.max_wait.stall, vendor.open(&request)).await;
    let response = opened.map_err(|_| wire::unavailable("it did not answer in time"))??;
    let kind = response.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let is_document = kind.starts_with("application/json");
    let called = request.transcript.iter().flat_map(|item| match item {
        Item::Step(step) => step.calls().map(|call| call.id.clone()).collect(),
        Item::Question { .. } | Item::Result(_) => Vec::new(),
    });
    let decoder = Decoder::new(vendor.format, is_document, called.collect());
    let heard = Instant::now();
    let alarm = Box::pin(sleep_until(deadline.min(heard + vendor.max_wait.stall)));
    Ok(Streaming { response, decoder, deadline, heard, alarm })
}

impl Streaming {
    /// Reads what has come, all of it but for [`READ_MAX_BYTES`], and folds it.
    fn poll_read(
        &mut self,
        max_wait: Timeouts,
        ready: &mut VecDeque<StepEvent>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Next, StepError>> {
        let mut read_bytes = 0;
        while read_bytes < READ_MAX_BYTES {
            let chunk = match self.response.poll_chunk(context) {
                Poll::Ready(Ok(Some(chunk))) => chunk,
                Poll::Ready(Ok(None)) => return Poll::Ready(self.decoder.ended(ready)),
                // The model was done: only its usage is missing.
                Poll::Ready(Err(_)) if self.decoder.is_done() => return Poll::Ready(self.decoder.cut(ready)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(wire::connection(error))),
                Poll::Pending if read_bytes > 0 => break,
                Poll::Pending => return self.poll_stalled(max_wait, ready, context),
            };
            read_bytes += chunk.len();
            if self.decoder.push(&chunk, ready)? == Next::End {
                // The end of the body usually came along: taking it lets the connection be used again.
                let _end = self.response.poll_chunk(context);
                return Poll::Ready(Ok(Next::End));
            }
        }
        self.heard = Instant::now();
        Poll::Ready(Ok(Next::More))
    }

    /// Ready when nothing has come for too long.
    fn poll_stalled(
        &mut self,
        max_wait: Timeouts,
        ready: &mut VecDeque<StepEvent>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Next, StepError>> {
        let is_done = self.decoder.is_done();
        let until = self.deadline.min(self.heard + if is_done { max_wait.usage } else { max_wait.stall });
        if until < self.alarm.deadline() {
            self.alarm.as_mut().reset(until);
        }
        loop {
            ready!(self.alarm.as_mut().poll(context));
            if Instant::now() >= until {
                break;
            }
            self.alarm.as_mut().reset(until);
        }
        // The model was done: only its usage is missing.
        Poll::Ready(if is_done {
            self.decoder.cut(ready)
        } else {
            Err(wire::unavailable("it stopped in the middle of the answer"))
        })
    }
}
