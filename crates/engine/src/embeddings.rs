//! Embeddings: computes vectors of the passages of documents and of search queries with a vendor's model.
//!
//! The machines keep the vectors; this module asks them for passages without one, calls the model, and hands the
//! vectors back. Each request is reserved and settled like a step. A failure never fails a search: it then searches by
//! words alone.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::embedding::quantize_vector;
use domain::id::{AccountId, PostingId};
use domain::step::StepError;
use futures_util::future::{BoxFuture, FutureExt};
use machine::{GuestConnection, GuestConnectionError, PassageEmbedder};
use models::{EmbeddedTexts, EmbeddingModel};
use protocol::embedding::{
    BATCH_MAX, EmbeddedPassages, PassageVector, QUERY_MAX_BYTES, QueryVector, UnembeddedPassage,
    UnembeddedRequest,
};
use store::embeddings::{self, EmbeddingDone, EmbeddingError, EmbeddingReserve};
use store::{Store, StoreError};
use telemetry::Counter;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::environment::ServiceEnvironment;

/// The number of concurrent requests for passages. Requests of one machine run one after another.
const REQUESTS_MAX: usize = 4;
/// The number of attempts at a request for passages, the pause before the second one, which doubles, and the longest
/// pause.
const ATTEMPTS_MAX: u32 = 4;
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The number of passages of the first request. A quick answer doubles it, up to [`BATCH_MAX`]; a slow one or a failure
/// halves it, so that a model on a slow processor does not get more than it can process in time.
const BATCH_FIRST: usize = 16;
const FAST: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_secs(20);
/// The pause of a machine after a failure.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);
/// The pause of a machine whose account has too few credits.
const CREDITS_PAUSE: Duration = Duration::from_secs(10 * 60);
/// The time for which queries are not embedded after a failure, so that searches do not all wait for a vendor that is
/// down.
const QUERY_PAUSE: Duration = Duration::from_secs(30);
/// The maximum number of requests of one run: even with one passage each, more than the vectors that a machine keeps.
const BATCHES_MAX: u32 = 262_144;
/// The number of rejected passages after which a run pauses: requests for them cost the account nothing.
const REJECTED_MAX: usize = 1000;
/// Of a passage that the model rejects, half is tried, then a quarter.
const TEXT_MIN_BYTES: usize = 256;
/// A text that every model accepts.
const PROBE: &str = "text";

/// The metrics of embeddings in this process.
#[derive(Debug, Default)]
pub struct EmbeddingMetrics {
    /// Passages that got a vector.
    pub passages: Counter,
    /// Passages that the model rejects.
    pub rejected: Counter,
    /// Searches that got the vector of their query.
    pub queries: Counter,
    pub failures: Counter,
    /// Searches by words alone, because the query got no vector.
    pub words_alone: Counter,
    /// Requests that were not made because the account has too few credits.
    pub no_credits: Counter,
}

/// The reason why texts got no vectors.
#[derive(Debug, thiserror::Error)]
enum EmbedError {
    #[error("not enough credits")]
    Credits,
    #[error("{0}")]
    Vendor(StepError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EmbedError {
    /// Returns true if the model may accept other texts.
    const fn is_of_texts(&self) -> bool {
        matches!(self, Self::Vendor(StepError::TooLong | StepError::Rejected { .. }))
    }
}

/// Embeds passages and queries with one model.
pub struct EmbeddingService {
    model: EmbeddingModel,
    store: Store,
    environment: ServiceEnvironment,
    requests: Semaphore,
    /// The passages of the next request.
    batch: AtomicUsize,
    /// Queries are not embedded before this time.
    queries_rest_until: Mutex<Option<Instant>>,
    /// Accounts whose last run failed, so that each outage is logged once.
    failing: Mutex<HashSet<AccountId>>,
    metrics: EmbeddingMetrics,
}

impl EmbeddingService {
    #[must_use]
    pub fn new(model: EmbeddingModel, store: Store, environment: ServiceEnvironment) -> Arc<Self> {
        Arc::new(Self {
            model,
            store,
            environment,
            requests: Semaphore::new(REQUESTS_MAX),
            batch: AtomicUsize::new(BATCH_FIRST),
            queries_rest_until: Mutex::default(),
            failing: Mutex::default(),
            metrics: EmbeddingMetrics::default(),
        })
    }

    #[must_use]
    pub const fn metrics(&self) -> &EmbeddingMetrics {
        &self.metrics
    }

    /// Sends the machine the vector of a search's query. Without one it searches by words alone. Takes a few seconds at
    /// most.
    pub(crate) async fn hand_query(&self, account: AccountId, guest: &GuestConnection, query: &str) {
        let query = query.to_owned();
        if query.trim().is_empty() || query.len() > QUERY_MAX_BYTES || self.queries_rest() {
            self.metrics.words_alone.increment();
            return;
        }
        let texts = [query.clone()];
        let embedded = self.request_with_credits(account, &texts, self.model.embed_query(&query)).await;
        let components = match embedded {
            Ok(embedded) => embedded.vectors.first().and_then(|vector| quantize_vector(vector)),
            Err(error) => {
                // Other texts and other accounts may still succeed.
                if !error.is_of_texts() && !matches!(error, EmbedError::Credits) {
                    let until = Instant::now() + QUERY_PAUSE;
                    *self.queries_rest_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
                }
                tracing::warn!(%account, %error, "embedding of a query failed: searching by words alone");
                None
            }
        };
        let Some(components) = components else { return self.metrics.words_alone.increment() };
        let vector = QueryVector { model: self.model.space().to_owned(), query, components };
        match guest.query_vector(&vector).await {
            Ok(()) => self.metrics.queries.increment(),
            Err(error) => {
                self.metrics.words_alone.increment();
                tracing::debug!(%account, %error, "sending query vector to machine failed");
            }
        }
    }

    fn queries_rest(&self) -> bool {
        let until = self.queries_rest_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Embeds a machine's passages without a vector; returns the pause after a failure.
    async fn embed_missing(&self, account: AccountId, guest: &GuestConnection) -> Option<Duration> {
        let (mut after, mut stored_in_round, mut rejected) = (0, 0, 0);
        for _ in 0..BATCHES_MAX {
            if rejected > REJECTED_MAX {
                break;
            }
            let model = self.model.space().to_owned();
            let limit = u32::try_from(self.batch.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
            let asked = UnembeddedRequest { model: model.clone(), after, limit };
            let passages = match guest.list_unembedded(&asked).await {
                Ok(reply) => reply.passages,
                Err(error) => {
                    tracing::debug!(%account, %error, "listing passages to embed failed");
                    return pause_after(&error);
                }
            };
            let Some(last) = passages.last() else {
                if after == 0 || stored_in_round == 0 {
                    self.lock_failing().remove(&account);
                    return None;
                }
                // Earlier passages may have changed meanwhile.
                (after, stored_in_round) = (0, 0);
                continue;
            };
            after = last.id;
            let vectors = match self.passage_vectors(account, &passages).await {
                Ok(vectors) => vectors,
                Err(error) => return Some(self.log_failure(account, &error)),
            };
            rejected += vectors.iter().filter(|vector| vector.components.is_empty()).count();
            match guest.store_embeddings(&EmbeddedPassages { model, vectors }).await {
                // The machine is untrusted; its report only ends the loop.
                Ok(reply) => stored_in_round += u64::from(reply.stored),
                Err(error) => {
                    tracing::debug!(%account, %error, "sending vectors to machine failed");
                    return pause_after(&error);
                }
            }
        }
        Some(FAILURE_PAUSE)
    }

    /// Returns the vectors of passages. Rejected passages have an empty one.
    async fn passage_vectors(
        &self,
        account: AccountId,
        passages: &[UnembeddedPassage],
    ) -> Result<Vec<PassageVector>, EmbedError> {
        let mut vectors = Vec::with_capacity(passages.len());
        // A rejected batch is split until the faulty passage is alone.
        let mut batches: Vec<&[UnembeddedPassage]> = vec![passages];
        let mut accepts_some = false;
        while let Some(batch) = batches.pop() {
            let texts: Vec<String> = batch.iter().map(|passage| passage.text.clone()).collect();
            let found: Vec<Vec<f32>> = match self.with_retries(account, &texts).await {
                Ok(embedded) => embedded.vectors,
                Err(error) if error.is_of_texts() && batch.len() > 1 => {
                    if !accepts_some && !self.accepts_some(account).await {
                        return Err(error);
                    }
                    accepts_some = true;
                    let (one, other) = batch.split_at(batch.len() / 2);
                    batches.extend([other, one]);
                    continue;
                }
                Err(error) if error.is_of_texts() => {
                    vec![self.embed_shortened(account, &texts, error).await?]
                }
                Err(error) => return Err(error),
            };
            for (passage, vector) in batch.iter().zip(found) {
                let components = quantize_vector(&vector).unwrap_or_default();
                let counter =
                    if components.is_empty() { &self.metrics.rejected } else { &self.metrics.passages };
                counter.increment();
                vectors.push(PassageVector { id: passage.id, digest: passage.digest, components });
            }
        }
        Ok(vectors)
    }

    /// Returns the vector of the beginning of a rejected text; an empty one if the model rejects that, too.
    async fn embed_shortened(
        &self,
        account: AccountId,
        texts: &[String],
        rejection: EmbedError,
    ) -> Result<Vec<f32>, EmbedError> {
        let text = texts.first().map_or("", String::as_str);
        for share in [2, 4] {
            let end = text.floor_char_boundary(text.len() / share);
            if end < TEXT_MIN_BYTES {
                break;
            }
            match self.with_retries(account, &[text[..end].to_owned()]).await {
                Ok(embedded) => return Ok(embedded.vectors.into_iter().next().unwrap_or_default()),
                Err(error) if error.is_of_texts() => {}
                Err(error) => return Err(error),
            }
        }
        if self.accepts_some(account).await { Ok(Vec::new()) } else { Err(rejection) }
    }

    /// Returns true if the model accepts a test text. If it accepts none, because its key or the vendor's credit has
    /// expired, the texts are not the cause.
    async fn accepts_some(&self, account: AccountId) -> bool {
        self.with_retries(account, &[PROBE.to_owned()]).await.is_ok()
    }

    async fn with_retries(&self, account: AccountId, texts: &[String]) -> Result<EmbeddedTexts, EmbedError> {
        let mut attempt = 1;
        loop {
            let place = self.requests.acquire().await;
            let begun = Instant::now();
            let embedded = self.request_with_credits(account, texts, self.model.embed_passages(texts)).await;
            drop(place);
            match &embedded {
                Ok(_) => self.adapt_batch(begun.elapsed(), true),
                Err(EmbedError::Vendor(StepError::Unavailable { .. } | StepError::TimedOut { .. })) => {
                    self.adapt_batch(begun.elapsed(), false)
                }
                // Neither one depends on the size.
                Err(_) => {}
            }
            let Err(EmbedError::Vendor(StepError::Unavailable { retry_after, .. })) = &embedded else {
                return embedded;
            };
            if attempt >= ATTEMPTS_MAX {
                return embedded;
            }
            let pause = retry_after.unwrap_or(RETRY_PAUSE * 2_u32.pow(attempt - 1));
            sleep(pause.min(RETRY_PAUSE_MAX)).await;
            attempt += 1;
        }
    }

    /// Adapts the size of the next request to how the last one went.
    fn adapt_batch(&self, took: Duration, is_ok: bool) {
        let size = self.batch.load(Ordering::Relaxed);
        let next = if !is_ok || took > SLOW {
            size / 2
        } else if took < FAST {
            size * 2
        } else {
            size
        };
        self.batch.store(next.clamp(1, BATCH_MAX), Ordering::Relaxed);
    }

    /// Makes a request whose credits are reserved before and settled after it.
    async fn request_with_credits(
        &self,
        account: AccountId,
        texts: &[String],
        request: impl Future<Output = Result<EmbeddedTexts, StepError>>,
    ) -> Result<EmbeddedTexts, EmbedError> {
        let (id, price, model) = (self.new_posting_id(), self.model.price(), self.model.name().to_owned());
        let tokens_max = self.model.tokens_max(texts);
        let new = EmbeddingReserve {
            account,
            request: id,
            tokens_max,
            price,
            model: model.clone(),
            now: self.environment.now(),
        };
        // A dropped request releases its credits, even while they are being reserved.
        let (store, environment) = (self.store.clone(), self.environment.clone());
        let reserving = tokio::spawn(async move {
            store.write(move |tx| embeddings::reserve_embedding(tx, &new)).await?;
            Ok(Reservation { of: Some((store, environment, id)) })
        });
        let mut reservation = match reserving.await.unwrap_or(Err(StoreError::Panicked.into())) {
            Ok(reservation) => reservation,
            Err(EmbeddingError::Short(_)) => {
                self.metrics.no_credits.increment();
                return Err(EmbedError::Credits);
            }
            Err(EmbeddingError::Store(error)) => return Err(error.into()),
        };
        let embedded = request.await;
        match embedded {
            Ok(embedded) => {
                let done = EmbeddingDone {
                    request: id,
                    usage: embedded.usage,
                    price,
                    model,
                    settle: self.new_posting_id(),
                    release: self.new_posting_id(),
                    now: self.environment.now(),
                };
                self.store.write(move |tx| embeddings::settle_embedding(tx, &done)).await?;
                reservation.of = None;
                Ok(embedded)
            }
            Err(error) => {
                self.metrics.failures.increment();
                Err(EmbedError::Vendor(error))
            }
        }
    }

    /// Logs the failure of a run, once until one succeeds, and returns the pause after it.
    fn log_failure(&self, account: AccountId, error: &EmbedError) -> Duration {
        if self.lock_failing().insert(account) {
            tracing::warn!(%account, %error, "embedding of passages failed: searching them by words alone");
        }
        match error {
            EmbedError::Credits => CREDITS_PAUSE,
            EmbedError::Vendor(_) | EmbedError::Store(_) => FAILURE_PAUSE,
        }
    }

    fn lock_failing(&self) -> std::sync::MutexGuard<'_, HashSet<AccountId>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_posting_id(&self) -> PostingId {
        PostingId::from_random(self.environment.random_bits())
    }
}

impl PassageEmbedder for EmbeddingService {
    fn embed_machine_passages(
        &self,
        account: AccountId,
        guest: GuestConnection,
    ) -> BoxFuture<'_, Option<Duration>> {
        async move { self.embed_missing(account, &guest).await }.boxed()
    }
}

/// The reserved credits of a request, which are released when it is dropped.
struct Reservation {
    of: Option<(Store, ServiceEnvironment, PostingId)>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some((store, environment, request)) = self.of.take() else { return };
        // After the end of the runtime the next service releases them.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = release_reservation(&store, &environment, request).await {
                tracing::warn!(%error, "releasing credits of embeddings failed");
            }
        });
    }
}

async fn release_reservation(
    store: &Store,
    environment: &ServiceEnvironment,
    request: PostingId,
) -> Result<(), StoreError> {
    let (posting, now) = (PostingId::from_random(environment.random_bits()), environment.now());
    store.write(move |tx| embeddings::release_embedding(tx, request, posting, now)).await
}

/// Returns the pause after a machine has failed; none if a retry cannot succeed. An older agent keeps no vectors, and a
/// broken connection is followed by another one.
const fn pause_after(error: &GuestConnectionError) -> Option<Duration> {
    match error {
        GuestConnectionError::Silent => Some(FAILURE_PAUSE),
        GuestConnectionError::Connection(_)
        | GuestConnectionError::Foreign(_)
        | GuestConnectionError::Unsupported(_) => None,
    }
}

/// Releases the credits of requests that a killed service has left. No request may be in progress.
///
/// # Errors
/// When the store fails.
pub async fn release_left_over(store: &Store, environment: &ServiceEnvironment) -> Result<(), StoreError> {
    loop {
        let pending = store.read(|tx| embeddings::list_pending_embeddings(tx)).await?;
        if pending.is_empty() {
            return Ok(());
        }
        for request in pending {
            release_reservation(store, environment, request).await?;
        }
    }
}
