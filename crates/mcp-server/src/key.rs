//! Authenticates requests by their keys, within the operator's rates and before anything else.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use control::access::AccessError;
use control::{Authenticator, Principal, UseCaseError};
use http_common::limits::TARGET_MAX_BYTES;
use http_common::{BudgetHolder, BudgetShare, HeldShares, RateLimiter};

use crate::error::{McpError, McpResult};
use crate::origin::OriginRules;

/// The scheme of the header `Authorization`, with the space behind it.
const BEARER: &str = "bearer ";
/// The header of a key without a scheme.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The state of the authentication layer.
#[derive(Clone)]
pub(crate) struct KeyLayer {
    pub(crate) access: Authenticator,
    pub(crate) guard: Arc<RateLimiter>,
    pub(crate) origins: OriginRules,
}

/// Passes a request with a valid key on with its principal, unless a rate forbids it.
pub(crate) async fn authenticate_request(
    State(layer): State<KeyLayer>,
    mut request: Request,
    next: Next,
) -> Response {
    let admitted = match layer.check_sender(&request) {
        Ok(address) => {
            let is_target_too_long = http_common::is_target_too_long(request.uri());
            layer.admit_request(address, request.headers(), is_target_too_long).await
        }
        Err(refusal) => Err(refusal),
    };
    let mut response = match admitted {
        Ok((principal, share)) => {
            let holder = BudgetHolder::Account(principal.account());
            request.extensions_mut().insert(principal);
            let mut response = next.run(request).await;
            response.extensions_mut().insert(holder);
            HeldShares::hold_share(response.extensions_mut(), share);
            response
        }
        Err(refusal) => refusal.into_response_to(None),
    };
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Returns the key in the headers; the empty string if there is none or there are several.
fn key_of(headers: &HeaderMap) -> &str {
    let only = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => None,
            (Some(value), None) => Some(value.to_str().unwrap_or_default()),
            (Some(_), Some(_)) => Some(""),
        }
    };
    // Another scheme is meant for a proxy before the service.
    let bearer = only(&header::AUTHORIZATION).and_then(|text| {
        let (scheme, key) = text.split_at_checked(BEARER.len())?;
        scheme.eq_ignore_ascii_case(BEARER).then(|| key.trim())
    });
    match (bearer, only(&API_KEY)) {
        (Some(bearer), Some(plain)) if bearer != plain => "",
        (bearer, plain) => bearer.or(plain).unwrap_or_default(),
    }
}

impl KeyLayer {
    /// Checks the rate of the address and the origin. Returns the address.
    fn check_sender(&self, request: &Request) -> McpResult<Option<IpAddr>> {
        let address = self.guard.request_address(request.extensions(), request.headers());
        if let Some(address) = address {
            self.guard.by_address(address).map_err(McpError::too_many_requests)?;
        }
        if self.origins.permits(request) { Ok(address) } else { Err(McpError::foreign_origin()) }
    }

    async fn admit_request(
        &self,
        address: Option<IpAddr>,
        headers: &HeaderMap,
        is_target_too_long: bool,
    ) -> McpResult<(Principal, BudgetShare)> {
        let key = key_of(headers);
        let principal = match self.access.resolve_cached(key) {
            Some(principal) => principal,
            None => Box::pin(self.resolve_uncached(address, key)).await?,
        };
        if let Some(key) = principal.key_id() {
            self.guard.by_key(key).map_err(McpError::too_many_requests)?;
        }
        if is_target_too_long {
            return Err(McpError::target_too_long(TARGET_MAX_BYTES));
        }
        let holder = BudgetHolder::Account(principal.account());
        let share = self.guard.budgets.requests.take_share(holder, 1)?;
        Ok((principal, share))
    }

    /// Resolves a key that is not cached.
    async fn resolve_uncached(&self, address: Option<IpAddr>, key: &str) -> McpResult<Principal> {
        // After too many failed keys, an address may use only keys that are known to be valid.
        if let Some(address) = address.filter(|_| !self.access.is_known(key)) {
            self.guard.check_failed_keys(address).map_err(McpError::too_many_requests)?;
        }
        match self.access.resolve_key(key).await {
            Ok(principal) => Ok(principal),
            Err(AccessError::Unauthorized) => {
                if let Some(address) = address {
                    self.guard.record_failed_key(address);
                }
                Err(McpError::invalid_key())
            }
            Err(AccessError::Store(error)) => Err(McpError::unavailable(UseCaseError::from(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_takes_one_key() {
        let of = |values: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in values {
                headers.append(*name, HeaderValue::from_str(value).expect("a header"));
            }
            key_of(&headers).to_owned()
        };
        assert_eq!(of(&[("authorization", "Bearer api-x")]), "api-x");
        assert_eq!(of(&[("x-api-key", "api-x")]), "api-x");
        assert_eq!(of(&[("authorization", "bearer  api-x "), ("x-api-key", "api-x")]), "api-x");
        assert_eq!(of(&[("authorization", "Basic eA=="), ("x-api-key", "api-x")]), "api-x");
        for wrong in [
            &[][..],
            &[("authorization", "Basic api-x")],
            &[("authorization", "Bearer api-x"), ("x-api-key", "api-y")],
            &[("x-api-key", "api-x"), ("x-api-key", "api-x")],
        ] {
            assert_eq!(of(wrong), "", "{wrong:?}");
        }
    }
}
