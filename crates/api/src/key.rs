//! Authenticates requests by their keys (section 5), within the operator's rates and before anything else.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::access::AccessError;
use control::{Authenticator, Principal, PublicCode, UseCaseError};
use domain::scope::Permission;
use http_common::limits::TARGET_MAX_BYTES;
use http_common::{BudgetExceeded, BudgetHolder, BudgetShare, HeldShares, RateLimiter};
use telemetry::trace::SpanContext;

use crate::error::{ApiError, Code};
use crate::metrics::ApiMetrics;
use crate::operations::{Accepts, Operation};

/// The header that carries the key.
const API_KEY: &str = "x-api-key";

/// The state of the authentication layer.
#[derive(Clone)]
pub(crate) struct AuthLayer {
    pub(crate) access: Authenticator,
    pub(crate) guard: Arc<RateLimiter>,
    pub(crate) metrics: Arc<ApiMetrics>,
}

/// Passes a request with a valid key on with its principal, unless its scope or a rate forbids it. Answers any other
/// request with 401 and an empty body.
pub(crate) async fn authenticate_request(
    State(layer): State<AuthLayer>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let operation = operation_of(&request);
    let is_target_too_long = http_common::is_target_too_long(request.uri());
    let traced = request.extensions().get::<SpanContext>().is_some();
    let address = layer.guard.request_address(request.extensions(), request.headers());
    let mut response =
        match layer.admit_request(address, request.headers(), operation, is_target_too_long).await {
            Ok((principal, shares)) => {
                let holder = BudgetHolder::Account(principal.account());
                request.extensions_mut().insert(principal);
                if let Some(operation) =
                    operation.known_operation().filter(|one| one.accepts != Accepts::Nothing)
                {
                    request.extensions_mut().insert(operation);
                }
                let mut response = next.run(request).await;
                response.extensions_mut().insert(holder);
                for share in shares.into_iter().flatten() {
                    HeldShares::hold_share(response.extensions_mut(), share);
                }
                response
            }
            Err(refusal) => refusal,
        };
    layer.finish_response(&mut response, operation, began);
    if let Some(operation) = operation.known_operation().filter(|_| traced) {
        response.extensions_mut().insert(operation);
    }
    response
}

/// Keeps caches from storing a response, or from sharing it between keys.
fn set_private_caching(headers: &mut HeaderMap) {
    let policy = headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if policy != "no-store" {
        headers.append(header::VARY, HeaderValue::from_static("X-Api-Key"));
    }
}

/// Returns the key in the headers; the empty string if there are several, because intermediaries may choose another one.
#[must_use]
pub fn key_of(headers: &HeaderMap) -> &str {
    let mut keys = headers.get_all(API_KEY).iter();
    let only = keys.next().filter(|_| keys.next().is_none());
    only.and_then(|key| key.to_str().ok()).unwrap_or_default()
}

/// Creates the response to a request without a valid key.
pub(crate) fn unauthorized_response() -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey"))];
    (StatusCode::UNAUTHORIZED, challenge).into_response()
}

/// The operation that a request addresses.
#[derive(Clone, Copy)]
pub(crate) enum RequestedOperation {
    /// An operation of the interface.
    Known(&'static Operation),
    /// A method that its path does not have.
    NoSuchMethod,
    /// A path that the interface does not have.
    NoSuchPath,
}

impl RequestedOperation {
    fn known_operation(self) -> Option<&'static Operation> {
        match self {
            Self::Known(operation) => Some(operation),
            Self::NoSuchMethod | Self::NoSuchPath => None,
        }
    }

    /// Checks that the principal has the permission. A method that does not exist requires all of them.
    fn authorize_principal(self, access: &Authenticator, principal: &Principal) -> Result<(), UseCaseError> {
        match self {
            Self::Known(operation) => access.authorize(principal, operation.needs, operation.id),
            Self::NoSuchMethod => Permission::ALL
                .iter()
                .try_for_each(|one| access.authorize(principal, &[*one], "an unknown operation")),
            Self::NoSuchPath => Ok(()),
        }
    }
}

fn operation_of(request: &Request) -> RequestedOperation {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    match path.filter(|path| path.starts_with("/api/v1/")) {
        Some(path) => Operation::find_by_route(request.method(), path)
            .map_or(RequestedOperation::NoSuchMethod, RequestedOperation::Known),
        None => RequestedOperation::NoSuchPath,
    }
}

impl AuthLayer {
    /// Checks the key of a request, and takes the request's shares of budgets.
    pub(crate) async fn admit_request(
        &self,
        address: Option<IpAddr>,
        headers: &HeaderMap,
        asked: RequestedOperation,
        is_target_too_long: bool,
    ) -> Result<(Principal, [Option<BudgetShare>; 2]), Response> {
        if let Some(address) = address {
            self.guard.by_address(address).map_err(too_many)?;
        }
        let key = key_of(headers);
        let principal = match self.access.resolve_cached(key) {
            Some(principal) => principal,
            None => Box::pin(self.resolve_uncached(address, key)).await?,
        };
        if let Some(key) = principal.key_id() {
            self.guard.by_key(key).map_err(too_many)?;
        }
        if is_target_too_long {
            let message = format!("the path with its query is longer than {TARGET_MAX_BYTES} bytes");
            return Err(ApiError::new(Code::TargetTooLong, message).into_response());
        }
        asked
            .authorize_principal(&self.access, &principal)
            .map_err(|error| ApiError::from(error).into_response())?;
        let (budgets, holder) = (&self.guard.budgets, BudgetHolder::Account(principal.account()));
        let refused = |spent: BudgetExceeded| ApiError::from(spent).into_response();
        let request = budgets.requests.take_share(holder, 1).map_err(refused)?;
        let transfer = asked.known_operation().filter(|operation| operation.transfer);
        let transfer =
            transfer.map(|_| budgets.transfers.take_share(holder, 1)).transpose().map_err(refused)?;
        Ok((principal, [Some(request), transfer]))
    }
}

impl AuthLayer {
    /// Resolves a key that is not cached.
    async fn resolve_uncached(&self, address: Option<IpAddr>, key: &str) -> Result<Principal, Response> {
        // After too many failed keys, an address may use only keys that are known to be valid.
        if let Some(address) = address.filter(|_| !self.access.is_known(key)) {
            self.guard.check_failed_keys(address).map_err(too_many)?;
        }
        match self.access.resolve_key(key).await {
            Ok(principal) => Ok(principal),
            Err(AccessError::Unauthorized) => {
                if let Some(address) = address {
                    self.guard.record_failed_key(address);
                }
                Err(unauthorized_response())
            }
            Err(AccessError::Store(error)) => Err(ApiError::from(UseCaseError::from(error)).into_response()),
        }
    }

    /// Adds the headers that every response of an operation has, and counts it.
    pub(crate) fn finish_response(&self, response: &mut Response, asked: RequestedOperation, began: Instant) {
        set_private_caching(response.headers_mut());
        self.metrics.record_response(asked.known_operation(), response.status(), began.elapsed());
    }
}

fn too_many(wait: Duration) -> Response {
    ApiError::new(PublicCode::RateLimited, "too many requests; try again later")
        .retry_after(wait)
        .into_response()
}
