//! A vendor's server: opens the streams of steps and lists the models.
//!
//! Servers differ in what they accept. An optional parameter that a server rejects (the reasoning effort, usage
//! reporting, the name of the output limit) is dropped or renamed, and the result is remembered per model.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use domain::step::{StepError, StepRequest};
use hyper::Method;
use reqwest::header::{self, HeaderMap, HeaderValue};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::attempt::{self, StepStream, Timeouts};
use crate::client::Response;
use crate::config::VendorConfig;
use crate::decoder::Decoder;
use crate::dialect::Dialect;
use crate::error;
use crate::format::Format;
use crate::listing::{Discovered, Listing};
use crate::options::Options;
use crate::pause::Pause;
use crate::probe::Failure;
use crate::redaction::Redaction;
use crate::server::{Server, VendorError};

/// Bounds a request for the list of models.
pub const MODELS_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits how many models are read from a list. Servers in front of many vendors list several hundred.
pub const MODELS_MAX: usize = 2_000;
const MODELS_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Limits how often one step's request is changed for a server that rejects a parameter.
const DIALECTS_MAX: usize = 4;

/// A vendor's server and the wire format that it speaks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Vendor {
    format: Format,
    server: Server,
    timeouts: Timeouts,
    own: bool,
    options: Arc<Options>,
    dialects: Arc<Mutex<HashMap<String, Dialect>>>,
    /// Counts the unreadable entries of the last list.
    unreadable_entries: Arc<AtomicUsize>,
}

impl Vendor {
    /// Creates a client of the configured server. Connects on first use.
    ///
    /// # Errors
    /// Returns an error when the configuration is invalid.
    pub fn new(format: Format, config: &VendorConfig) -> Result<Self, VendorError> {
        Self::with_timeouts(format, config, Timeouts::default())
    }

    /// Creates a client with other timeouts.
    ///
    /// # Errors
    /// Returns an error when the configuration is invalid.
    pub fn with_timeouts(
        format: Format,
        config: &VendorConfig,
        timeouts: Timeouts,
    ) -> Result<Self, VendorError> {
        let base = config.base_url.as_deref().unwrap_or(format.default_base_url());
        let server = Server::new(format, base, config.key.clone())?;
        let own = server.is_own(format);
        let options = Arc::new(config.options.clone());
        let (dialects, unreadable_entries) = (Arc::default(), Arc::default());
        Ok(Self { format, server, timeouts, own, options, dialects, unreadable_entries })
    }

    /// Returns the same vendor with more options for one model.
    pub(crate) fn with_options(&self, model: &str, more: &Map<String, Value>) -> Self {
        Self { options: Arc::new(self.options.with(model, more)), ..self.clone() }
    }

    /// Returns the wire format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns true for the vendor's own server, false for another server that speaks its format.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Makes one attempt at a step; see [`crate::Provider::step`].
    #[must_use]
    pub fn step(&self, request: StepRequest) -> StepStream {
        let (format, taken) = (self.format, attempt::call_ids(&request));
        let redaction = Redaction::new(self.server.clone(), &request.transcript);
        let (vendor, request) = (self.clone(), Arc::new(request));
        let open = move |pause| {
            let (vendor, request) = (vendor.clone(), request.clone());
            async move { vendor.open(&request, &pause).await }
        };
        let decoder = move |is_document| Decoder::new(format, is_document, taken);
        attempt::stream(open, decoder, self.timeouts, redaction)
    }

    /// Returns the server's address. It contains no key.
    pub(crate) fn base_url(&self) -> &str {
        self.server.base_url()
    }

    /// Lists the server's models, in its order.
    ///
    /// # Errors
    /// Returns an error when the list cannot be fetched or read.
    pub async fn models(&self) -> Result<Vec<Discovered>, StepError> {
        self.list().await.map_err(|failure| failure.error())
    }

    pub(crate) async fn list(&self) -> Result<Vec<Discovered>, Failure> {
        let failed = |error: StepError| Failure::of(&error, self.server.key_header().is_some());
        let broken = |error| failed(error::connection(error));
        let listing = async {
            let (path, query) = self.format.models_path();
            let client = self.server.client().map_err(failed)?;
            let url = self.server.url(path, query);
            let sending = client.send(Method::GET, &url, self.headers(), Vec::new());
            let mut response = sending.await.map_err(broken)?;
            if !response.status.is_success() {
                return Err(failed(self.rejection(response).await));
            }
            let body = response.read(MODELS_MAX_BYTES).await.map_err(broken)?;
            let body = body.ok_or_else(|| Failure::unreadable("its list of models is too long"))?;
            let Listing { mut models, unreadable } = self.format.models(&body).ok_or_else(|| {
                let is_json = serde_json::from_slice::<&RawValue>(&body).is_ok();
                let cause = if is_json { "has an unknown form" } else { "is not JSON" };
                Failure::unreadable(&format!("its list of models {cause}"))
            })?;
            self.warn_unreadable(unreadable);
            if models.len() > MODELS_MAX {
                let (vendor, listed) = (self.format.provider().as_str(), models.len());
                tracing::warn!(vendor, listed, "left out models beyond the first {MODELS_MAX} of the list");
                models.truncate(MODELS_MAX);
            }
            for (model, dialect) in self.format.dialects(&body).into_iter().take(MODELS_MAX) {
                self.learn_listed(model, dialect);
            }
            Ok(models)
        };
        let models = timeout(MODELS_TIMEOUT, listing)
            .await
            .unwrap_or_else(|_| Err(failed(error::unavailable("it did not answer in time"))))?;
        Ok(models)
    }

    /// Logs unreadable entries of the list, once until their number changes.
    fn warn_unreadable(&self, entries: usize) {
        if self.unreadable_entries.swap(entries, Ordering::Relaxed) != entries && entries > 0 {
            let vendor = self.format.provider().as_str();
            tracing::warn!(vendor, entries, "left out entries without a model name in the list of models");
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

    /// Stores a dialect from the list of models, unless one was already learned from the server's responses.
    fn learn_listed(&self, model: String, dialect: Dialect) {
        let mut dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        if dialects.len() < MODELS_MAX {
            dialects.entry(model).or_insert(dialect);
        }
    }

    async fn rejection(&self, mut response: Response) -> StepError {
        let status = response.status;
        let retry_after = error::retry_after_header(&response.headers, SystemTime::now());
        let body = response.read(error::ERROR_BODY_MAX_BYTES).await.ok().flatten().unwrap_or_default();
        error::of_status(status, retry_after, &self.server.redact(&String::from_utf8_lossy(&body)))
    }

    /// Sends the request, continued after a pause, in other dialects if the server rejects a parameter, and returns the
    /// response.
    async fn open(&self, request: &StepRequest, pause: &Pause) -> Result<Response, StepError> {
        let mut dialect = self.dialect(&request.model);
        let mut retries = 0;
        let (path, query) = self.format.step_path(&request.model);
        loop {
            let mut headers = self.headers();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            let body = dialect.body(request, pause, &self.options.of(&request.model))?;
            let url = self.server.url(&path, query);
            let sending = self.server.client()?.send(Method::POST, &url, headers, body);
            let response = sending.await.map_err(error::connection)?;
            if response.status.is_success() {
                // What does not help is not learned.
                if retries > 0 {
                    self.learn(&request.model, dialect);
                }
                return Ok(response);
            }
            let rejection = self.rejection(response).await;
            match dialect.fallback(&rejection) {
                Some(fallback) if retries < DIALECTS_MAX => {
                    tracing::info!(
                        model = request.model,
                        ?fallback,
                        "request parameter rejected, retrying in another dialect"
                    );
                    retries += 1;
                    dialect = fallback;
                }
                _ => return Err(rejection),
            }
        }
    }
}
