//! Signing in and out.
//!
//! Guessing passwords is throttled per address, per network around an IPv6 address, per email from one address,
//! and less strictly per email, so that an attacker at one address cannot lock the owner out. An attempt counts
//! before the password is compared, so that concurrent attempts count as well. A browser in which the owner has
//! signed in before is counted separately, so that attackers with many addresses cannot lock the owner out.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Form;
use axum::extract::{self, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use control::known_browser::KnownBrowser;
use control::passwords::Standing;
use control::sessions::SignInError;
use control::{ErrorKind, SessionService, SingleSignOn, UseCaseError};
use http_common::{GcraLimiter, IPV6_WIDER_BITS, wider_networks};
use serde::Deserialize;

use crate::assets::Addresses;
use crate::browser::BrowserName;
use crate::frame::language_choices;
use crate::language::PageLanguage;
use crate::texts::Texts;
use crate::visit::{SignedInVisitor, Visitor};
use crate::{error, paths, session_cookie};

/// The attempts of one address: one in this time after a burst. Many people may share an address.
const ADDRESS_INTERVAL: Duration = Duration::from_secs(10);
const ADDRESS_BURST: u32 = 20;
/// The attempts of a wider network of IPv6, in addresses, for each of [`IPV6_WIDER_BITS`].
const NETWORK_ADDRESSES: [u32; IPV6_WIDER_BITS.len()] = [4, 16];
/// The attempts for one email from one address, and of one known browser.
const PAIR_INTERVAL: Duration = Duration::from_secs(30);
const PAIR_BURST: u32 = 10;
/// The attempts for one email from any address.
const EMAIL_INTERVAL: Duration = Duration::from_secs(5);
const EMAIL_BURST: u32 = 60;
/// The time after which an attempt is worth repeating when too many passwords are compared.
const BUSY_RETRY: Duration = Duration::from_secs(2);

/// Limits the attempts to sign in.
pub(crate) struct SignInLimits {
    addresses: GcraLimiter,
    networks: [GcraLimiter; IPV6_WIDER_BITS.len()],
    pairs: GcraLimiter,
    emails: GcraLimiter,
    known: GcraLimiter,
}

impl Default for SignInLimits {
    fn default() -> Self {
        Self {
            addresses: GcraLimiter::with_interval(ADDRESS_INTERVAL, ADDRESS_BURST),
            networks: NETWORK_ADDRESSES.map(|addresses| {
                GcraLimiter::with_interval(ADDRESS_INTERVAL / addresses, ADDRESS_BURST * addresses)
            }),
            pairs: GcraLimiter::with_interval(PAIR_INTERVAL, PAIR_BURST),
            emails: GcraLimiter::with_interval(EMAIL_INTERVAL, EMAIL_BURST),
            known: GcraLimiter::with_interval(PAIR_INTERVAL, PAIR_BURST),
        }
    }
}

impl SignInLimits {
    /// Takes an attempt without an email, or returns the time to wait for one.
    pub(crate) fn take_address(&self, visitor: &Visitor) -> Result<(), Duration> {
        self.addresses.take_request(&visitor.address)?;
        let networks = visitor.address.map(wider_networks).unwrap_or_default();
        networks.iter().zip(&self.networks).try_for_each(|(network, limiter)| limiter.take_request(network))
    }

    /// Takes an attempt of somebody who is known, or returns the time to wait for one.
    pub(crate) fn take_known(&self, who: &impl Hash) -> Result<(), Duration> {
        self.known.take_request(who)
    }

    /// Takes an attempt, or returns the time to wait for one.
    pub(crate) fn take_attempt(&self, visitor: &Visitor, email: &str) -> Result<(), Duration> {
        self.take_address(visitor)?;
        let email = email.trim().to_lowercase();
        self.pairs.take_request(&(visitor.address, &email))?;
        self.emails.take_request(&email)
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    texts: Texts,
    assets: &'static Addresses,
    languages: [(PageLanguage, bool); 3],
    /// The text of the button that leads to the identity provider.
    provider: Option<&'a str>,
    /// The address of that button.
    elsewhere: String,
    email: &'a str,
    next: &'a str,
    /// The change that led here.
    done: Option<String>,
    error: Option<String>,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct SignInQuery {
    /// The page to return to.
    #[serde(default)]
    next: String,
    /// `deleted` after the account was deleted, [`paths::SESSION_ENDED`] after a session has ended.
    #[serde(default)]
    done: String,
}

/// The form for signing in.
#[derive(Deserialize)]
pub(crate) struct SignInForm {
    #[serde(default)]
    email: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    next: String,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct SignInPages {
    pub(crate) sessions: SessionService,
    pub(crate) single_sign_on: SingleSignOn,
    pub(crate) sign_in_limits: Arc<SignInLimits>,
}

/// Shows the form. Redirects visitors who are already signed in.
pub(crate) async fn show_sign_in(
    State(pages): State<SignInPages>,
    visitor: Visitor,
    extract::Query(query): extract::Query<SignInQuery>,
) -> Response {
    if visitor.user.is_some() {
        return Redirect::to(paths::own_address(&query.next).unwrap_or(paths::HOME)).into_response();
    }
    let done = match query.done.as_str() {
        "deleted" => Some(visitor.texts.get("account-deleted")),
        paths::SESSION_ENDED => Some(visitor.texts.get("sign-in-ended")),
        _ => None,
    };
    pages.render_form(&visitor, "", &query.next, done, None)
}

pub(crate) async fn sign_in(
    State(pages): State<SignInPages>,
    visitor: Visitor,
    headers: HeaderMap,
    BrowserName(browser): BrowserName,
    Form(given): Form<SignInForm>,
) -> Response {
    let texts = visitor.texts;
    let kept = session_cookie::known_browser(&headers, visitor.https);
    let (standing, taken) = match pages.take_sign_in_attempt(&visitor, &given.email, kept.as_ref()).await {
        Ok(taken) => taken,
        Err(error) => return visitor.failure_response(&error),
    };
    let refused = |status: StatusCode, error: String| {
        let page = pages.render_form(&visitor, &given.email, &given.next, None, Some(error));
        (status, page).into_response()
    };
    let later = |status: StatusCode, error: String, seconds: u64| {
        let mut response = refused(status, error);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        response
    };
    if let Err(wait) = taken {
        let seconds = wait.as_secs() + 1;
        let text = texts.with("sign-in-throttled", "seconds", seconds);
        return later(StatusCode::TOO_MANY_REQUESTS, text, seconds);
    }
    match pages.sessions.sign_in(&given.email, &given.password, browser, standing).await {
        Ok(secret) => {
            let next = paths::own_address(&given.next).unwrap_or(paths::HOME);
            let mut response = Redirect::to(next).into_response();
            let session = session_cookie::keep_session(&secret, visitor.https);
            response.headers_mut().append(header::SET_COOKIE, session);
            // Without it, the next attempt counts as one from an unknown browser.
            if let Ok(Some(known)) = pages.sessions.proof_of_browser(&given.email).await {
                let known = session_cookie::keep_known(&known, visitor.https);
                response.headers_mut().append(header::SET_COOKIE, known);
            }
            response
        }
        Err(SignInError::Failed(error)) if error.kind() == ErrorKind::Unavailable => {
            later(error::status_of_kind(error.kind()), error::error_text(texts, &error), BUSY_RETRY.as_secs())
        }
        Err(SignInError::Denied) => refused(StatusCode::UNAUTHORIZED, texts.get("sign-in-denied")),
        Err(SignInError::Failed(error)) => visitor.failure_response(&error),
    }
}

pub(crate) async fn sign_out(
    State(sessions): State<SessionService>,
    user: SignedInVisitor,
) -> Result<Response, Response> {
    let ended = sessions.sign_out(&user.signed_in.principal).await;
    ended.map_err(|error| user.failure_response(error))?;
    Ok(session_cookie::remove_session(Redirect::to(paths::SIGN_IN).into_response()))
}

impl SignInPages {
    /// Takes an attempt to sign in with this email. Returns whose it is, and the time to wait if there are too many.
    async fn take_sign_in_attempt(
        &self,
        visitor: &Visitor,
        email: &str,
        kept: Option<&KnownBrowser>,
    ) -> Result<(Standing, Result<(), Duration>), UseCaseError> {
        if let Some(kept) = kept
            && self.sessions.browser_standing(email, kept).await? == Standing::Known
        {
            let taken = self.sign_in_limits.take_known(&(kept.nonce(), email.trim().to_lowercase()));
            return Ok((Standing::Known, taken));
        }
        Ok((Standing::Stranger, self.sign_in_limits.take_attempt(visitor, email)))
    }

    /// Creates the page with the form.
    pub(crate) fn render_form(
        &self,
        visitor: &Visitor,
        email: &str,
        next: &str,
        done: Option<String>,
        error: Option<String>,
    ) -> Response {
        let texts = visitor.texts;
        let next = paths::own_address(next).unwrap_or_default();
        error::render_template(&SignInPage {
            texts,
            assets: visitor.assets,
            languages: language_choices(texts),
            provider: self.single_sign_on.button_text(),
            elsewhere: paths::with_next(
                paths::SIGN_IN_ELSEWHERE,
                Some(next).filter(|next| !next.is_empty()),
                None,
            ),
            email,
            next,
            done,
            error,
        })
    }
}
