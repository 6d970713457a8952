//! Signing in at the identity provider: the way there, and the way back.
//!
//! Meanwhile the browser keeps the secret of the sign-in and the page to return to in a cookie, so a sign-in
//! cannot be completed in another browser. The redirect comes from another site, so the cookie is
//! `SameSite=Lax`.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use control::Callback;
use control::single_sign_on::{SignInSecret, SingleSignOnError};
use serde::Deserialize;

use crate::browser::BrowserName;
use crate::session_cookie::{self, cookie_value, set_cookie};
use crate::sign_in::SignInPages;
use crate::visit::Visitor;
use crate::{error, paths};

/// The cookie of a sign-in over HTTPS, and over plain HTTP.
const SECURE: &str = "__Host-causerie-sign-in";
const PLAIN: &str = "causerie-sign-in";
/// The time for signing in at the provider, in seconds.
const SECONDS: u32 = 10 * 60;

/// The page to return to.
#[derive(Deserialize)]
pub(crate) struct SingleSignOnQuery {
    #[serde(default)]
    next: String,
}

/// The query with which the provider returns the user.
#[derive(Default, Deserialize)]
pub(crate) struct Returned {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    iss: Option<String>,
    error: Option<String>,
}

/// Leads to the provider.
pub(crate) async fn begin_single_sign_on(
    State(pages): State<SignInPages>,
    visitor: Visitor,
    Query(query): Query<SingleSignOnQuery>,
) -> Response {
    match pages.single_sign_on.begin_sign_in().await {
        Ok((url, secret)) => {
            let next = paths::own_address(&query.next).unwrap_or_default();
            let https = pages.single_sign_on.is_https();
            let kept = format!("{}.{next}", secret.reveal());
            let kept = set_cookie(if https { SECURE } else { PLAIN }, &kept, SECONDS, https);
            ([(header::SET_COOKIE, kept)], Redirect::to(&url)).into_response()
        }
        Err(failed) => refusal_page(&pages, &visitor, "", failed),
    }
}

/// Signs in the user who comes back from the provider.
pub(crate) async fn complete_single_sign_on(
    State(pages): State<SignInPages>,
    visitor: Visitor,
    BrowserName(browser): BrowserName,
    headers: HeaderMap,
    returned: Result<Query<Returned>, QueryRejection>,
) -> Response {
    // A query that cannot be read belongs to no sign-in.
    let returned = returned.map(|Query(returned)| returned).unwrap_or_default();
    if let Some(throttled) = throttle_address(&pages, &visitor) {
        return throttled;
    }
    let https = pages.single_sign_on.is_https();
    let name = if https { SECURE } else { PLAIN };
    let kept = cookie_value(&headers, name).unwrap_or_default();
    let (secret, next) = kept.split_once('.').unwrap_or((kept, ""));
    let callback = Callback {
        code: &returned.code,
        state: &returned.state,
        issuer: returned.iss.as_deref(),
        error: returned.error.as_deref(),
    };
    let secret = SignInSecret::parse(secret);
    let mut response = match pages.single_sign_on.complete_sign_in(secret.as_ref(), callback, browser).await {
        Ok(session) => {
            let mut response = Redirect::to(paths::own_address(next).unwrap_or(paths::HOME)).into_response();
            response.headers_mut().append(header::SET_COOKIE, session_cookie::keep_session(&session, https));
            response
        }
        Err(failed) => refusal_page(&pages, &visitor, next, failed),
    };
    // It can be used only once, even if the sign-in failed.
    response.headers_mut().append(header::SET_COOKIE, set_cookie(name, "", 0, https));
    response
}

fn throttle_address(pages: &SignInPages, visitor: &Visitor) -> Option<Response> {
    let wait = pages.sign_in_limits.take_address(visitor).err()?;
    let seconds = wait.as_secs() + 1;
    let text = visitor.texts.with("sign-in-throttled", "seconds", seconds);
    let mut response = error::error_page(visitor.texts, StatusCode::TOO_MANY_REQUESTS, &text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    Some(response)
}

/// Shows the page for signing in with the reason.
fn refusal_page(pages: &SignInPages, visitor: &Visitor, next: &str, failed: SingleSignOnError) -> Response {
    let texts = visitor.texts;
    let (status, text) = match failed {
        SingleSignOnError::NotConfigured => {
            return error::error_page(texts, StatusCode::NOT_FOUND, &texts.get("error-not-found"));
        }
        SingleSignOnError::Unavailable => {
            (StatusCode::BAD_GATEWAY, texts.get("sign-in-provider-unavailable"))
        }
        SingleSignOnError::Refused => (StatusCode::FORBIDDEN, texts.get("sign-in-provider-refused")),
        SingleSignOnError::Invalid => (StatusCode::BAD_REQUEST, texts.get("sign-in-provider-invalid")),
        SingleSignOnError::EmailNotVerified => {
            (StatusCode::FORBIDDEN, texts.get("sign-in-email-not-verified"))
        }
        SingleSignOnError::BoundToAnother => (StatusCode::FORBIDDEN, texts.get("sign-in-bound-to-another")),
        SingleSignOnError::EmailNotConfirmed => {
            (StatusCode::FORBIDDEN, texts.get("sign-in-email-not-confirmed"))
        }
        SingleSignOnError::NoAccount => (StatusCode::FORBIDDEN, texts.get("sign-in-no-account")),
        SingleSignOnError::Failed(error) => return visitor.failure_response(&error),
    };
    (status, pages.render_form(visitor, "", next, None, Some(text))).into_response()
}
