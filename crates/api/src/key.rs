//! The key of a call (section 5): looked at before anything else, at the rates that the operator set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::Authenticator;
use control::access::{AccessError, Caller};
use domain::scope::Scope;
use http_common::limits::TARGET_MAX_BYTES;
use http_common::{BudgetExceeded, HeadTooLarge, HeldShares, Holder, RateLimiter, Share};
use telemetry::trace::SpanContext;

use crate::error::{ApiError, Code};
use crate::metrics::ApiMetrics;
use crate::operations::{Accepts, Operation};

/// The header that carries the key.
const API_KEY: &str = "x-api-key";

/// What stands before every call.
#[derive(Clone)]
pub(crate) struct AuthLayer {
    pub(crate) access: Authenticator,
    pub(crate) guard: Arc<RateLimiter>,
    pub(crate) metrics: Arc<ApiMetrics>,
}

/// Lets a call with a valid key in, as its caller; answers any other 401 with an empty body. What the key may not
/// do goes no further, nor what comes too often.
pub(crate) async fn authenticate(
    State(gate): State<AuthLayer>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let operation = operation_of(&request);
    let oversize = http_common::oversize(&request);
    let traced = request.extensions().get::<SpanContext>().is_some();
    let mut response = match gate.admit(request.extensions(), request.headers(), operation, oversize).await {
        Ok((caller, shares)) => {
            let holder = Holder::Account(caller.account);
            request.extensions_mut().insert(caller);
            if let Some(operation) = operation.known().filter(|one| one.accepts != Accepts::Nothing) {
                request.extensions_mut().insert(operation);
            }
            let mut response = next.run(request).await;
            response.extensions_mut().insert(holder);
            for share in shares.into_iter().flatten() {
                HeldShares::hold(response.extensions_mut(), share);
            }
            response
        }
        Err(refusal) => refusal,
    };
    privately(response.headers_mut());
    gate.metrics.record(operation.known(), response.status(), began.elapsed());
    if let Some(operation) = operation.known().filter(|_| traced) {
        response.extensions_mut().insert(operation);
    }
    response
}

/// What a key gets is for that key alone: nobody in between keeps it, or gives it to another.
fn privately(headers: &mut HeaderMap) {
    let kept = headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if kept != "no-store" {
        headers.append(header::VARY, HeaderValue::from_static("X-Api-Key"));
    }
}

/// The one key that the headers show; none where there are several, of which others might see another.
fn shown(headers: &HeaderMap) -> &str {
    let mut keys = headers.get_all(API_KEY).iter();
    let only = keys.next().filter(|_| keys.next().is_none());
    only.and_then(|key| key.to_str().ok()).unwrap_or_default()
}

/// The answer to whoever shows no valid key.
pub(crate) fn unauthorized() -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey"))];
    (StatusCode::UNAUTHORIZED, challenge).into_response()
}

/// What a request asks for.
#[derive(Clone, Copy)]
enum Asked {
    /// An operation of the interface.
    Known(&'static Operation),
    /// A method that its path does not have.
    NoSuchMethod,
    /// A path that the interface does not have: it is refused as such.
    NoSuchPath,
}

impl Asked {
    fn known(self) -> Option<&'static Operation> {
        match self {
            Self::Known(operation) => Some(operation),
            Self::NoSuchMethod | Self::NoSuchPath => None,
        }
    }

    /// Whether a key of this scope may do it.
    fn allowed(self, scope: Scope) -> bool {
        match self {
            Self::Known(operation) => operation.allowed(scope),
            // What is not in the table is nothing for a key that may not do everything.
            Self::NoSuchMethod => scope == Scope::ALL,
            Self::NoSuchPath => true,
        }
    }
}

fn operation_of(request: &Request) -> Asked {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    match path.filter(|path| path.starts_with("/api/v1/")) {
        Some(path) => Operation::of(request.method(), path).map_or(Asked::NoSuchMethod, Asked::Known),
        None => Asked::NoSuchPath,
    }
}

impl AuthLayer {
    async fn admit(
        &self,
        extensions: &Extensions,
        headers: &HeaderMap,
        asked: Asked,
        oversize: Option<HeadTooLarge>,
    ) -> Result<(Caller, [Option<Share>; 2]), Response> {
        let address = self.guard.address(extensions, headers);
        if let Some(address) = address {
            self.guard.by_address(address).map_err(too_many)?;
        }
        if oversize == Some(HeadTooLarge::Head) {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into_response());
        }
        let key = shown(headers);
        // Whoever has guessed too often learns nothing of further keys; those in use go on from the same address.
        if let Some(address) = address.filter(|_| !self.access.is_cached(key)) {
            self.guard.check_failed_keys(address).map_err(too_many)?;
        }
        let caller = match self.access.resolve(key).await {
            Ok(caller) => caller,
            Err(AccessError::Unauthorized) => {
                if let Some(address) = address {
                    self.guard.record_failed_key(address);
                }
                return Err(unauthorized());
            }
            Err(AccessError::Store(error)) => return Err(ApiError::of_store(&error).into_response()),
        };
        self.guard.by_key(caller.key).map_err(too_many)?;
        if oversize == Some(HeadTooLarge::Target) {
            let message = format!("path and query are longer than {TARGET_MAX_BYTES} bytes");
            return Err(ApiError::new(Code::TargetTooLong, message).into_response());
        }
        if asked.allowed(caller.scope) {
            let (budgets, holder) = (&self.guard.budgets, Holder::Account(caller.account));
            let refused = |spent: BudgetExceeded| ApiError::from(spent).into_response();
            let request = budgets.requests.take(holder, 1).map_err(refused)?;
            let transfer = asked.known().filter(|operation| operation.transfer);
            let transfer =
                transfer.map(|_| budgets.transfers.take(holder, 1)).transpose().map_err(refused)?;
            return Ok((caller, [Some(request), transfer]));
        }
        let what = asked.known().map_or("an unknown operation", |operation| operation.id);
        self.access.record_scope_denial(&caller, what);
        Err(ApiError::new(Code::KeyScope, "the key's scope does not hold this").into_response())
    }
}

fn too_many(wait: Duration) -> Response {
    ApiError::new(Code::RateLimited, "too many requests; try again later").retry_after(wait).into_response()
}
