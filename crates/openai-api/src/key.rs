//! Authenticates requests by their keys, within the operator's rates and before anything else.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::access::AccessError;
use control::{Authenticator, Principal, UseCaseError};
use http_common::limits::TARGET_MAX_BYTES;
use http_common::{BudgetHolder, BudgetShare, HeldShares, RateLimiter};

use crate::error::OpenAiError;

/// The scheme of the header `Authorization`, with the space behind it.
const BEARER: &str = "bearer ";

/// The state of the authentication layer.
#[derive(Clone)]
pub(crate) struct KeyLayer {
    pub(crate) access: Authenticator,
    pub(crate) guard: Arc<RateLimiter>,
}

/// Passes a request with a valid key on with its principal, unless a rate forbids it.
pub(crate) async fn authenticate_request(
    State(layer): State<KeyLayer>,
    mut request: Request,
    next: Next,
) -> Response {
    let address = layer.guard.request_address(request.extensions(), request.headers());
    let is_target_too_long = http_common::is_target_too_long(request.uri());
    let mut response = match layer.admit_request(address, request.headers(), is_target_too_long).await {
        Ok((principal, share)) => {
            let holder = BudgetHolder::Account(principal.account());
            request.extensions_mut().insert(principal);
            let mut response = next.run(request).await;
            response.extensions_mut().insert(holder);
            HeldShares::hold_share(response.extensions_mut(), share);
            response
        }
        Err(refusal) => refusal.into_response(),
    };
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Returns the key in the header `Authorization`; the empty string if there is none or there are several.
fn bearer_key(headers: &HeaderMap) -> &str {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let only = values.next().filter(|_| values.next().is_none());
    let text = only.and_then(|value| value.to_str().ok()).unwrap_or_default();
    match text.split_at_checked(BEARER.len()) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(BEARER) => key.trim(),
        _ => "",
    }
}

impl KeyLayer {
    async fn admit_request(
        &self,
        address: Option<IpAddr>,
        headers: &HeaderMap,
        is_target_too_long: bool,
    ) -> Result<(Principal, BudgetShare), OpenAiError> {
        if let Some(address) = address {
            self.guard.by_address(address).map_err(OpenAiError::too_many_requests)?;
        }
        let key = bearer_key(headers);
        let principal = match self.access.resolve_cached(key) {
            Some(principal) => principal,
            None => Box::pin(self.resolve_uncached(address, key)).await?,
        };
        if let Some(key) = principal.key_id() {
            self.guard.by_key(key).map_err(OpenAiError::too_many_requests)?;
        }
        if is_target_too_long {
            return Err(OpenAiError::target_too_long(TARGET_MAX_BYTES));
        }
        let holder = BudgetHolder::Account(principal.account());
        let share = self.guard.budgets.requests.take_share(holder, 1)?;
        Ok((principal, share))
    }

    /// Resolves a key that is not cached.
    async fn resolve_uncached(&self, address: Option<IpAddr>, key: &str) -> Result<Principal, OpenAiError> {
        // After too many failed keys, an address may use only keys that are known to be valid.
        if let Some(address) = address.filter(|_| !self.access.is_known(key)) {
            self.guard.check_failed_keys(address).map_err(OpenAiError::too_many_requests)?;
        }
        match self.access.resolve_key(key).await {
            Ok(principal) => Ok(principal),
            Err(AccessError::Unauthorized) => {
                if let Some(address) = address {
                    self.guard.record_failed_key(address);
                }
                Err(OpenAiError::invalid_key())
            }
            Err(AccessError::Store(error)) => Err(UseCaseError::from(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_key_takes_one_header() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).expect("a header"));
            }
            bearer_key(&headers).to_owned()
        };
        assert_eq!(of(&["Bearer api-x"]), "api-x");
        assert_eq!(of(&["bearer  api-x "]), "api-x");
        for wrong in [&[][..], &["api-x"], &["Basic api-x"], &["Bearer"], &["Bearer api-x", "Bearer api-y"]] {
            assert_eq!(of(wrong), "", "{wrong:?}");
        }
    }
}
