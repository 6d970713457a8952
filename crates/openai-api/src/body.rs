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
use http_common::{Budget, BudgetBounds, BudgetHolder, BudgetShare, limited_json_body};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::error::{OpenAiError, OpenAiResult};

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

/// A body, charged to its account until it is dropped.
pub(crate) struct RequestBody {
    pub(crate) raw: Box<RawValue>,
    held: BudgetShare,
}

impl RequestBody {
    /// Drops the body and returns its share of the budget, for as long as the parsed values live.
    pub(crate) fn into_share(self) -> BudgetShare {
        self.held
    }
}

impl BodyBudget {
    pub(crate) fn new() -> Self {
        Self(Budget::new(BudgetBounds { each: BODIES_EACH_BYTES, all: BODIES_MAX_BYTES }))
    }

    /// Reads the body of a request. Fails if the key was revoked while the body arrived.
    ///
    /// # Errors
    /// [`OpenAiError`].
    pub(crate) async fn read_body(
        &self,
        principal: &Principal,
        access: &Authenticator,
        request: Request,
    ) -> OpenAiResult<RequestBody> {
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
        let raw = limited_json_body(request, BODY_MAX_BYTES, BODY_TIMEOUT, &mut held).await?;
        if began.elapsed() >= SLOW_BODY && !access.is_still_valid(principal).await {
            return Err(OpenAiError::invalid_key());
        }
        Ok(RequestBody { raw, held })
    }
}

/// Parses a body, which must be a JSON object.
///
/// # Errors
/// [`OpenAiError`] that names the wrong field.
pub(crate) fn parse_object<T: DeserializeOwned>(body: &str) -> OpenAiResult<T> {
    if !body.starts_with('{') {
        return Err(OpenAiError::invalid("the body is not a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_str(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        OpenAiError::of_json(error.inner(), Some(field).filter(|field| !matches!(field.as_str(), "." | "?")))
    })
}
