//! A vendor's server: opens the streams of steps and lists the models.
//!
//! Servers accept different features. A refused feature (an optional parameter, tools, the system message, so
//! much output) is left out, expressed differently or reduced, and the result is remembered per model for a
//! while.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use domain::step::{StepError, StepRequest};
use domain::step_note::StepNote;
use hyper::Method;
use reqwest::header::{self, HeaderMap, HeaderValue};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use crate::adaptation::{Adaptation, RequestRefusal};
use crate::attempt::{self, OpenedStep, Opening, StepStream, StepTimeouts};
use crate::client::VendorHttpResponse;
use crate::config::VendorConfig;
use crate::decoder::StepDecoder;
use crate::dialect::RequestDialect;
use crate::error;
use crate::format::WireFormat;
use crate::listing::{Discovered, ModelListing};
use crate::options::RequestOptions;
use crate::pause::Pause;
use crate::probe::DiscoveryFailure;
use crate::redaction::Redaction;
use crate::refusal;
use crate::schema;
use crate::server::{self, VendorError, VendorServer};

/// Bounds a request for the list of models.
pub const MODELS_TIMEOUT: Duration = Duration::from_secs(10);
/// Limits how many models are read from a list. Servers in front of many vendors list several hundred.
pub const MODELS_MAX: usize = 2_000;
const MODELS_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Limits how often one step's request is adapted for a server that refuses something in it.
const ADAPTATIONS_MAX: usize = 8;
/// Bounds how long a refusal is remembered: the server may have been reconfigured.
const LEARNED_FOR: Duration = Duration::from_secs(3600);

/// An adaptation that was learned for a model, and when.
#[derive(Debug, Clone)]
struct Learned {
    adaptation: Adaptation,
    /// `None` for properties from the server's list of models.
    at: Option<Instant>,
}

/// The form of one step's requests, and the notes about them that its reader has had.
struct Adapting {
    adaptation: Adaptation,
    retries: usize,
    noted: Vec<StepNote>,
}

/// A vendor's server and the wire format that it speaks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct VendorClient {
    format: WireFormat,
    server: VendorServer,
    timeouts: StepTimeouts,
    own: bool,
    options: Arc<RequestOptions>,
    learned: Arc<Mutex<HashMap<String, Learned>>>,
    /// Counts the changes of `learned`.
    learned_count: Arc<AtomicU64>,
    /// Counts the unreadable entries of the last list.
    unreadable_entries: Arc<AtomicUsize>,
}

impl VendorClient {
    /// Creates a client of the configured server. Connects on first use.
    ///
    /// # Errors
    /// Returns an error when the configuration is invalid.
    pub fn new(format: WireFormat, config: &VendorConfig) -> Result<Self, VendorError> {
        let own = config.base_url.as_deref().is_none_or(|base| server::is_own_address(format, base));
        let timeouts = StepTimeouts::for_server(own);
        Self::with_timeouts(
            format,
            config,
            StepTimeouts {
                first_byte: config.first_byte_timeout.unwrap_or(timeouts.first_byte),
                stall: config.stall_timeout.unwrap_or(timeouts.stall),
                ..timeouts
            },
        )
    }

    /// Creates a client with other timeouts.
    ///
    /// # Errors
    /// Returns an error when the configuration is invalid.
    pub fn with_timeouts(
        format: WireFormat,
        config: &VendorConfig,
        timeouts: StepTimeouts,
    ) -> Result<Self, VendorError> {
        let base = config.base_url.as_deref().unwrap_or(format.default_base_url());
        let server = VendorServer::new(format, base, config.key.clone())?.with_outgoing(&config.outgoing);
        let own = server.is_own(format);
        let options = Arc::new(config.options.clone());
        let (learned, learned_count, unreadable_entries) = (Arc::default(), Arc::default(), Arc::default());
        Ok(Self { format, server, timeouts, own, options, learned, learned_count, unreadable_entries })
    }

    /// Returns the same vendor with more options for one model.
    pub(crate) fn with_options(&self, model: &str, more: &Map<String, Value>) -> Self {
        Self { options: Arc::new(self.options.with_model(model, more)), ..self.clone() }
    }

    /// Returns the wire format.
    #[must_use]
    pub fn format(&self) -> WireFormat {
        self.format
    }

    /// Returns true for the vendor's own server, false for another server that speaks its format.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Makes one attempt at a step; see [`crate::StepProvider::stream_step`].
    #[must_use]
    pub fn stream_step(&self, mut request: StepRequest) -> StepStream {
        let (renamed, notes) = schema::prepare_schemas(&mut request);
        let (format, taken) = (self.format, attempt::call_ids(&request));
        let redaction = Redaction::new(self.server.clone(), &request.transcript);
        let adapting =
            Adapting { adaptation: self.known_adaptation(&request.model), retries: 0, noted: Vec::new() };
        let (vendor, request, adapting) = (self.clone(), Arc::new(request), Arc::new(Mutex::new(adapting)));
        let open = move |opening| {
            let (vendor, request, notes) = (vendor.clone(), request.clone(), notes.clone());
            let adapting = adapting.clone();
            async move { vendor.open_step(&request, opening, notes, &adapting).await }
        };
        let new_decoder = move || StepDecoder::new(format, taken.clone());
        attempt::stream_attempt(open, new_decoder, renamed, self.timeouts, redaction)
    }

    /// Returns the server's address. It contains no key.
    pub(crate) fn base_url(&self) -> &str {
        self.server.base_url()
    }

    /// Lists the server's models, in its order.
    ///
    /// # Errors
    /// Returns an error when the list cannot be fetched or read.
    pub async fn list_models(&self) -> Result<Vec<Discovered>, StepError> {
        self.discover_models().await.map_err(|failure| failure.to_step_error())
    }

    pub(crate) async fn discover_models(&self) -> Result<Vec<Discovered>, DiscoveryFailure> {
        let failed =
            |error: StepError| DiscoveryFailure::from_error(&error, self.server.key_header().is_some());
        let broken = |error| failed(error::connection_failure(error));
        let listing = async {
            let (path, query) = self.format.models_path();
            let client = self.server.http_client().map_err(failed)?;
            let url = self.server.request_url(path, query);
            let sending = client.send_request(Method::GET, &url, self.request_headers(), Vec::new());
            let mut response = sending.await.map_err(broken)?;
            if !response.status.is_success() {
                return Err(failed(self.read_refusal(response).await.error));
            }
            let body = response.read_body(MODELS_MAX_BYTES).await.map_err(broken)?;
            let body =
                body.ok_or_else(|| DiscoveryFailure::unreadable_list("its list of models is too long"))?;
            let ModelListing { mut models, unreadable } =
                self.format.parse_models(&body).ok_or_else(|| {
                    let is_json = serde_json::from_slice::<&RawValue>(&body).is_ok();
                    let cause = if is_json { "has an unknown form" } else { "is not JSON" };
                    DiscoveryFailure::unreadable_list(&format!("its list of models {cause}"))
                })?;
            self.warn_unreadable(unreadable);
            if models.len() > MODELS_MAX {
                let (vendor, listed) = (self.format.provider().as_str(), models.len());
                tracing::warn!(
                    vendor,
                    listed,
                    "model list truncated: models beyond the first {MODELS_MAX} left out"
                );
                models.truncate(MODELS_MAX);
            }
            for (model, dialect) in self.format.parse_dialects(&body).into_iter().take(MODELS_MAX) {
                self.learn_listed(model, dialect);
            }
            Ok(models)
        };
        let models = timeout(MODELS_TIMEOUT, listing)
            .await
            .unwrap_or_else(|_| Err(failed(error::unavailable_step("it did not answer in time"))))?;
        Ok(models)
    }

    /// Logs unreadable entries of the list, once until their number changes.
    fn warn_unreadable(&self, entries: usize) {
        if self.unreadable_entries.swap(entries, Ordering::Relaxed) != entries && entries > 0 {
            let vendor = self.format.provider().as_str();
            tracing::warn!(vendor, entries, "model list incomplete: entries without a name left out");
        }
    }

    fn request_headers(&self) -> HeaderMap {
        let mut headers: HeaderMap = self.server.key_header().into_iter().collect();
        if let Some((name, value)) = self.format.version_header() {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers
    }

    /// Returns what is known about a model, as far as it was learned lately.
    pub(crate) fn known_adaptation(&self, model: &str) -> Adaptation {
        let learned = self.lock_learned();
        let is_recent = |learned: &&Learned| learned.at.is_none_or(|at| at.elapsed() < LEARNED_FOR);
        let known = learned.get(model).filter(is_recent).map(|learned| learned.adaptation.clone());
        known.unwrap_or_else(|| Adaptation::new(self.format.initial_dialect(model, self.own)))
    }

    /// Counts how often something was learned.
    pub(crate) fn learned_count(&self) -> u64 {
        self.learned_count.load(Ordering::Relaxed)
    }

    fn lock_learned(&self) -> MutexGuard<'_, HashMap<String, Learned>> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store_adaptation(&self, model: &str, adaptation: Adaptation) {
        let mut learned = self.lock_learned();
        if learned.len() >= MODELS_MAX {
            learned.clear();
        }
        learned.insert(model.to_owned(), Learned { adaptation, at: Some(Instant::now()) });
        self.learned_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Stores a dialect from the list of models, unless one was already learned from the server's responses.
    fn learn_listed(&self, model: String, dialect: RequestDialect) {
        let mut learned = self.lock_learned();
        if learned.len() < MODELS_MAX {
            let adaptation = Adaptation::new(dialect);
            learned.entry(model).or_insert(Learned { adaptation, at: None });
        }
    }

    async fn read_refusal(&self, mut response: VendorHttpResponse) -> RequestRefusal {
        let status = response.status;
        let retry_after = error::retry_after_header(&response.headers, SystemTime::now());
        let body = response.read_body(error::ERROR_BODY_MAX_BYTES).await.ok().flatten().unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        let error = error::of_status(status, retry_after, &body, |text| self.server.redact_key(text));
        RequestRefusal::new(error, status.as_u16(), &body)
    }

    /// Sends the request, continued after a pause, and adapts it if the server refuses something in it, with a
    /// status or at the beginning of a response. Returns the response, with the notes that its reader has not
    /// received yet.
    async fn open_step(
        &self,
        request: &StepRequest,
        opening: Opening,
        mut notes: Vec<StepNote>,
        adapting: &Mutex<Adapting>,
    ) -> Result<OpenedStep, StepError> {
        let lock = || adapting.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut adaptation, mut retries) = {
            let adapting = lock();
            (adapting.adaptation.clone(), adapting.retries)
        };
        let pause = match opening {
            Opening::Begin(pause) => pause,
            Opening::Refused(refused) => {
                adaptation = self.adapt_request(request, &adaptation, refused, retries)?;
                retries += 1;
                Pause::default()
            }
        };
        let (path, query) = self.format.step_path(&request.model);
        loop {
            let mut headers = self.request_headers();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            let options = self.options.for_model(&request.model);
            let body =
                adaptation.dialect().encode_body(&adaptation.adapt_request(request), &pause, &options)?;
            let url = self.server.request_url(&path, query);
            let sending = self.server.http_client()?.send_request(Method::POST, &url, headers, body);
            let response = sending.await.map_err(error::connection_failure)?;
            if response.status.is_success() {
                // An adaptation that does not help is not remembered.
                if retries > 0 {
                    self.store_adaptation(&request.model, adaptation.to_lasting());
                }
                notes.extend(adaptation.step_notes(request));
                let mut adapting = lock();
                notes.retain(|note| !adapting.noted.contains(note));
                adapting.noted.extend(notes.iter().cloned());
                (adapting.adaptation, adapting.retries) = (adaptation, retries);
                return Ok(OpenedStep { response, notes });
            }
            let refused = self.read_refusal(response).await;
            adaptation = self.adapt_request(request, &adaptation, refused, retries)?;
            retries += 1;
        }
    }

    /// Returns the adaptation for another request after a refusal.
    ///
    /// # Errors
    /// Returns the refusal if no adaptation is left. Its statements about the model are remembered.
    fn adapt_request(
        &self,
        request: &StepRequest,
        adaptation: &Adaptation,
        refused: RequestRefusal,
        retries: usize,
    ) -> Result<Adaptation, StepError> {
        if let Some(other) = adaptation.after_refusal(&refused, request).filter(|_| retries < ADAPTATIONS_MAX)
        {
            tracing::info!(model = request.model, ?other, "request refused by the vendor: adapting it");
            return Ok(other);
        }
        if refusal::refuses_chat(&refused.texts) {
            self.store_adaptation(&request.model, adaptation.to_lasting().without_chat());
        } else if refused.error == StepError::TooLong
            && let Some(learned) = adaptation.learn_context(&refused, request)
        {
            self.store_adaptation(&request.model, learned);
        }
        Err(refused.error)
    }
}
