//! The JSON bodies of requests, within bounds for all accounts together.
//!
//! Programs send images with each question again, so their bodies are larger than those of `/api/v1` and have a budget of
//! their own.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use control::{Authenticator, Principal};
use domain::excerpt::Excerpt;
use domain::id::KeyId;
use http_common::{Budget, BudgetBounds, BudgetHolder, BudgetShare, limited_body};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::error::{OpenAiError, OpenAiResult};
use crate::history::HistoryHash;

/// The largest body, in bytes.
pub(crate) const BODY_MAX_BYTES: usize = 64 << 20;
/// The time within which a body must be complete.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);
/// The maximum number of bytes of bodies in memory for one account, and for all.
const BODIES_EACH_BYTES: u64 = 96 << 20;
const BODIES_MAX_BYTES: u64 = 256 << 20;
/// The time after which a body has arrived slowly.
const SLOW_BODY: Duration = Duration::from_secs(1);

/// The budget of bodies. Cheap to clone.
#[derive(Clone)]
pub(crate) struct BodyBudget(Arc<Budget>);

/// The size from which a body is processed on a thread for blocking work, in bytes.
const LARGE_BODY_BYTES: usize = 256 << 10;

/// A parsed body, charged to its account until it is dropped.
pub(crate) struct ParsedBody<T> {
    pub(crate) value: T,
    /// The hash of the request and its key.
    pub(crate) hash: HistoryHash,
    /// Its share of the budget, to be kept as long as the parsed values live.
    pub(crate) held: BudgetShare,
    /// Its size in bytes.
    pub(crate) size: usize,
}

/// Does work whose time grows with a body of this size, away from the tasks of other requests if it is large. Dropping the
/// future does not end the work.
///
/// # Errors
/// Those of the work.
pub(crate) async fn process_body<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> OpenAiResult<T> + Send + 'static,
) -> OpenAiResult<T> {
    if size < LARGE_BODY_BYTES {
        return work();
    }
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(OpenAiError::unavailable("the body was not processed: try again")))
}

impl BodyBudget {
    pub(crate) fn new() -> Self {
        Self(Budget::new(BudgetBounds { each: BODIES_EACH_BYTES, all: BODIES_MAX_BYTES }))
    }

    /// Reads the body of a request and parses it. Fails if the key was revoked while the body arrived.
    ///
    /// # Errors
    /// [`OpenAiError`].
    pub(crate) async fn parse_body<T: Send + 'static>(
        &self,
        principal: &Principal,
        access: &Authenticator,
        request: Request,
        parse: impl FnOnce(&str) -> OpenAiResult<T> + Send + 'static,
    ) -> OpenAiResult<ParsedBody<T>> {
        let is_compressed = |coding: &&HeaderValue| !coding.as_bytes().eq_ignore_ascii_case(b"identity");
        if let Some(coding) = request.headers().get(header::CONTENT_ENCODING).filter(is_compressed) {
            let coding = String::from_utf8_lossy(coding.as_bytes());
            return Err(OpenAiError::invalid(format_args!(
                "compressed bodies are not supported (Content-Encoding: {}): send the body uncompressed",
                Excerpt(&coding)
            )));
        }
        let began = Instant::now();
        let mut held = self.0.empty_share(BudgetHolder::Account(principal.account()));
        let bytes = limited_body(request, BODY_MAX_BYTES, BODY_TIMEOUT, &mut held).await?;
        if began.elapsed() >= SLOW_BODY && !access.is_still_valid(principal).await {
            return Err(OpenAiError::invalid_key());
        }
        let (size, key) = (bytes.len(), principal.key_id());
        let parsed = move || {
            let text =
                std::str::from_utf8(&bytes).map_err(|_| OpenAiError::invalid("the body is not UTF-8"))?;
            Ok((parse(text)?, hash_request(key, text)))
        };
        let (value, hash) = process_body(size, parsed).await?;
        Ok(ParsedBody { value, hash, held, size })
    }
}

/// Returns the hash of a request, by which its repetition is recognized.
fn hash_request(key: Option<KeyId>, body: &str) -> HistoryHash {
    let mut hasher = Sha256::new();
    hasher.update(key.map(|key| key.to_string()).unwrap_or_default());
    hasher.update([0]);
    hasher.update(body);
    hasher.finalize().into()
}

/// Parses a body, which must be a JSON object.
///
/// # Errors
/// [`OpenAiError`] that names the wrong field.
pub(crate) fn parse_object<T: DeserializeOwned>(body: &str) -> OpenAiResult<T> {
    if !body.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
        return Err(OpenAiError::invalid("the body is not a JSON object: send one"));
    }
    let mut json = serde_json::Deserializer::from_str(body);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        OpenAiError::of_json(error.inner(), Some(field).filter(|field| !matches!(field.as_str(), "." | "?")))
    })?;
    json.end().map_err(|error| OpenAiError::of_json(&error, None))?;
    Ok(parsed)
}
