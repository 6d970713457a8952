//! The checks of every request before its page: rates and sizes, the origin of changes, the session.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use control::sessions::SignedIn;
use control::{ErrorKind, PublicCode, SessionService, UseCaseError};
use http_common::{BudgetExceeded, BudgetHolder, BudgetShare, HeldShares, RateLimiter};

use crate::assets::{self, Addresses};
use crate::language::PageLanguage;
use crate::texts::Texts;
use crate::{error, headers, origin, paths, session_cookie};

/// The largest form of a signed-in user: a question whose bytes are all percent-encoded, and its other fields.
const FORM_MAX_BYTES: usize = 4 << 20;
/// The largest form of anybody else.
const STRANGERS_FORM_MAX_BYTES: usize = 16 << 10;

/// The state of the layer.
#[derive(Clone)]
pub(crate) struct VisitLayer {
    pub(crate) sessions: SessionService,
    pub(crate) guard: Arc<RateLimiter>,
    pub(crate) body_timeout: Duration,
    pub(crate) tls: bool,
}

/// The sender of a request.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) texts: Texts,
    /// The style and the script of its pages.
    pub(crate) assets: &'static Addresses,
    /// The signed-in user, if any.
    pub(crate) user: Option<SignedIn>,
    /// The address that attempts to sign in count for.
    pub(crate) address: Option<IpAddr>,
    /// True if the page was loaded over HTTPS, as far as is known.
    pub(crate) https: bool,
    /// The path of the request.
    pub(crate) path: String,
    /// The path with the query.
    pub(crate) page: String,
}

/// A visitor who is signed in. Anybody else is sent to the page for signing in; an event stream answers 401.
#[derive(Clone)]
pub(crate) struct SignedInVisitor {
    pub(crate) visitor: Visitor,
    pub(crate) signed_in: SignedIn,
}

impl Visitor {
    /// Creates the response to a failed use case.
    pub(crate) fn failure_response(&self, error: &UseCaseError) -> Response {
        error::error_page(
            self.texts,
            error::status_of_kind(error.kind()),
            &error::error_text(self.texts, error),
        )
    }
}

impl SignedInVisitor {
    /// Creates the response to a failed use case.
    pub(crate) fn failure_response(&self, error: impl Into<UseCaseError>) -> Response {
        self.visitor.failure_response(&error.into())
    }
}

/// Passes a request on with its [`Visitor`], within the limits.
pub(crate) async fn attach_visitor(
    State(layer): State<VisitLayer>,
    request: Request,
    next: Next,
) -> Response {
    let is_first = assets::asset_addresses(request.headers()).sheet.is_some();
    let mut response = match layer.admit_request(request).await {
        Ok((request, held)) => {
            let mut response = next.run(request).await;
            if let Some((holder, shares)) = held {
                response.extensions_mut().insert(holder);
                for share in shares {
                    HeldShares::hold_share(response.extensions_mut(), share);
                }
            }
            response
        }
        Err(refused) => refused,
    };
    let is_page = |media_type: &HeaderValue| media_type.as_bytes().starts_with(b"text/html");
    if is_first && response.headers().get(header::CONTENT_TYPE).is_some_and(is_page) {
        response.headers_mut().append(header::SET_COOKIE, assets::style_loaded_cookie());
    }
    headers::add_security_headers(response.headers_mut());
    response
}

/// Returns the user whose session a request carries, for handlers other than pages. `tls` is true if the
/// service itself speaks HTTPS.
pub async fn signed_in(sessions: &SessionService, headers: &HeaderMap, tls: bool) -> Option<SignedIn> {
    let secret = session_cookie::session_secret(headers, tls || origin::is_https(headers))?;
    sessions.resolve_session(&secret).await.ok().flatten()
}

impl VisitLayer {
    async fn admit_request(
        &self,
        request: Request,
    ) -> Result<(Request, Option<(BudgetHolder, Vec<BudgetShare>)>), Response> {
        let texts = Texts(PageLanguage::from_headers(request.headers()));
        let address = self.guard.request_address(request.extensions(), request.headers());
        if let Some(address) = address {
            self.guard.by_address(address).map_err(|_| rate_limit_page(texts))?;
        }
        if http_common::is_target_too_long(request.uri()) {
            return Err(StatusCode::URI_TOO_LONG.into_response());
        }
        if !origin::is_own(request.method(), request.uri(), request.headers()) {
            return Err(error::error_page(texts, StatusCode::FORBIDDEN, &texts.get("error-foreign-origin")));
        }
        let https = self.tls || origin::is_https(request.headers());
        let mut visitor = Visitor {
            texts,
            assets: assets::asset_addresses(request.headers()),
            user: None,
            address,
            https,
            path: request.uri().path().to_owned(),
            page: request.uri().path_and_query().map_or("/", PathAndQuery::as_str).to_owned(),
        };
        // Style and script are the same for everybody.
        let secret = session_cookie::session_secret(request.headers(), https);
        if let Some(secret) = secret.filter(|_| !visitor.path.starts_with(paths::ASSETS)) {
            visitor.user = self
                .sessions
                .resolve_session(&secret)
                .await
                .map_err(|error| visitor.failure_response(&error))?;
        }
        let refused = |spent: BudgetExceeded| match spent {
            BudgetExceeded::Own => rate_limit_page(texts),
            BudgetExceeded::All => {
                visitor.failure_response(&UseCaseError::new(PublicCode::Unavailable, "the budget is used up"))
            }
        };
        let holder = visitor.user.as_ref().map(|user| BudgetHolder::Account(user.principal.account()));
        let shares = holder.map(|holder| self.take_shares(holder, &visitor.path)).transpose();
        let held = holder.zip(shares.map_err(refused)?);
        // Only the handler receives files.
        let is_upload = holder.is_some() && visitor.path == paths::UPLOAD;
        let mut request = if is_upload { request } else { self.with_form(request, &visitor, holder).await? };
        request.extensions_mut().insert(visitor);
        Ok((request, held))
    }

    /// Takes the budget shares of a request to a path: one of requests, and one of transfers if it may transfer
    /// a file.
    fn take_shares(&self, holder: BudgetHolder, path: &str) -> Result<Vec<BudgetShare>, BudgetExceeded> {
        let budgets = &self.guard.budgets;
        let request = budgets.requests.take_share(holder, 1)?;
        let moves_file = path == paths::UPLOAD || path.starts_with(paths::FILES);
        let transfer = moves_file.then(|| budgets.transfers.take_share(holder, 1)).transpose()?;
        Ok([Some(request), transfer].into_iter().flatten().collect())
    }

    /// Reads the form of a request within its bounds.
    async fn with_form(
        &self,
        request: Request,
        visitor: &Visitor,
        holder: Option<BudgetHolder>,
    ) -> Result<Request, Response> {
        if request.body().is_end_stream() {
            return Ok(request);
        }
        let bytes_max = if holder.is_some() { FORM_MAX_BYTES } else { STRANGERS_FORM_MAX_BYTES };
        let too_large = || {
            error::error_page(
                visitor.texts,
                StatusCode::PAYLOAD_TOO_LARGE,
                &visitor.texts.get("error-too-large"),
            )
        };
        let announced = request.body().size_hint().upper().unwrap_or(bytes_max as u64);
        if announced > bytes_max as u64 {
            return Err(too_large());
        }
        // Charged while it is read: afterwards the question has separate limits.
        let held =
            holder.map(|holder| self.guard.budgets.body_bytes.take_share(holder, announced)).transpose();
        let _held = held.map_err(|_| rate_limit_page(visitor.texts))?;
        let (head, body) = request.into_parts();
        let read = tokio::time::timeout(self.body_timeout, to_bytes(body, bytes_max)).await;
        let Ok(read) = read else { return Err(StatusCode::REQUEST_TIMEOUT.into_response()) };
        Ok(Request::from_parts(head, Body::from(read.map_err(|_| too_large())?)))
    }
}

pub(crate) fn rate_limit_page(texts: Texts) -> Response {
    error::error_page(texts, error::status_of_kind(ErrorKind::RateLimited), &texts.get("error-rate-limited"))
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().expect("every request passes the layer"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SignedInVisitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Ok(visitor) = Visitor::from_request_parts(parts, state).await;
        if let Some(signed_in) = visitor.user.clone() {
            return Ok(Self { visitor, signed_in });
        }
        // Scripts show no page.
        let accepted = parts.headers.get(header::ACCEPT);
        if accepted.is_some_and(|accepted| accepted == "text/event-stream" || accepted == "application/json")
        {
            return Err(StatusCode::UNAUTHORIZED.into_response());
        }
        let is_form = parts.method != Method::GET;
        let next = if is_form { paths::page_of(&visitor.path) } else { &visitor.page };
        let next = Some(next).filter(|page| *page != paths::HOME);
        let done = is_form.then_some(paths::SESSION_ENDED);
        Err(Redirect::to(&paths::with_next(paths::SIGN_IN, next.and_then(paths::own_address), done))
            .into_response())
    }
}
