//! The page of the owner's account: email, password, sessions, licence, deletion.

use std::sync::Arc;

use askama::Template;
use axum::Form;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use control::credentials::CredentialsError;
use control::passwords::Standing;
use control::sessions::OpenSession;
use control::{
    Conversations, CredentialService, PublicCode, ServiceEnvironment, SessionService, UseCaseError,
};
use domain::id::SessionId;
use serde::Deserialize;

use crate::browser::BrowserName;
use crate::frame::PageFrame;
use crate::licence::LicenceView;
use crate::shown_time::ShownTime;
use crate::sign_in::SignInLimits;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;
use crate::{error, paths, session_cookie};

#[derive(Template)]
#[template(path = "account.html")]
struct OwnAccountPage {
    frame: PageFrame,
    licence: Option<LicenceView>,
    /// True if the user has a password; others sign in at the identity provider alone.
    has_password: bool,
    sessions: Vec<SessionRow>,
    /// The email of a form that was refused.
    email: String,
    done: Option<String>,
    error: Option<String>,
}

/// An open session of the user.
struct SessionRow {
    id: String,
    browser: String,
    created: ShownTime,
    used: ShownTime,
    is_current: bool,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct AccountDoneQuery {
    /// `email` or `password`.
    #[serde(default)]
    done: String,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct CredentialPages {
    pub(crate) credentials: CredentialService,
    pub(crate) sessions: SessionService,
    pub(crate) conversations: Conversations,
    pub(crate) environment: ServiceEnvironment,
    pub(crate) sign_in_limits: Arc<SignInLimits>,
}

/// The form of another email.
#[derive(Deserialize)]
pub(crate) struct EmailForm {
    #[serde(default)]
    email: String,
    #[serde(default)]
    password: String,
}

/// The form of another password.
#[derive(Deserialize)]
pub(crate) struct OwnPasswordForm {
    #[serde(default)]
    password: String,
    #[serde(default)]
    new: String,
    #[serde(default)]
    again: String,
}

/// The form that deletes the account.
#[derive(Deserialize)]
pub(crate) struct OwnDeletionForm {
    /// The password; the email of a user without one.
    #[serde(default)]
    password: String,
    /// Set once the owner has confirmed the consequences.
    #[serde(default)]
    sure: String,
}

pub(crate) async fn show_account(
    State(pages): State<CredentialPages>,
    user: SignedInVisitor,
    Query(query): Query<AccountDoneQuery>,
) -> Result<Response, Response> {
    let texts = user.visitor.texts;
    let done = match query.done.as_str() {
        "email" => Some(texts.get("account-email-changed")),
        "password" => Some(texts.get("account-password-changed")),
        "session" => Some(texts.get("account-session-ended")),
        _ => None,
    };
    pages.render_account(&user, done, None, String::new()).await
}

pub(crate) async fn change_email(
    State(pages): State<CredentialPages>,
    user: SignedInVisitor,
    Form(form): Form<EmailForm>,
) -> Result<Response, Response> {
    if let Some(throttled) = pages.throttle_password_attempt(&user) {
        return Err(throttled);
    }
    let changed =
        pages.credentials.change_email(&user.signed_in.principal, &form.password, &form.email).await;
    match changed {
        Ok(()) => Ok(Redirect::to("/account?done=email").into_response()),
        Err(refused) => pages.refuse_change(&user, refused, form.email).await,
    }
}

/// Replaces the password, ends all sessions, and signs this browser in again.
pub(crate) async fn change_password(
    State(pages): State<CredentialPages>,
    user: SignedInVisitor,
    BrowserName(browser): BrowserName,
    Form(form): Form<OwnPasswordForm>,
) -> Result<Response, Response> {
    if let Some(throttled) = pages.throttle_password_attempt(&user) {
        return Err(throttled);
    }
    let texts = user.visitor.texts;
    if form.new != form.again {
        let page =
            pages.render_account(&user, None, Some(texts.get("account-not-the-same")), String::new()).await?;
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    let changed =
        pages.credentials.change_password(&user.signed_in.principal, &form.password, &form.new).await;
    if let Err(refused) = changed {
        return pages.refuse_change(&user, refused, String::new()).await;
    }
    let mut response = Redirect::to("/account?done=password").into_response();
    // Without a session, the visitor signs in with the new password.
    if let Ok(secret) =
        pages.sessions.sign_in(&user.signed_in.email, &form.new, browser, Standing::Known).await
    {
        let kept = session_cookie::keep_session(&secret, user.visitor.https);
        response.headers_mut().append(header::SET_COOKIE, kept);
    }
    Ok(response)
}

pub(crate) async fn delete_account(
    State(pages): State<CredentialPages>,
    user: SignedInVisitor,
    Form(form): Form<OwnDeletionForm>,
) -> Result<Response, Response> {
    if let Some(throttled) = pages.throttle_password_attempt(&user) {
        return Err(throttled);
    }
    if form.sure.is_empty() {
        let unsure = user.visitor.texts.get("account-delete-unsure");
        let page = pages.render_account(&user, None, Some(unsure), String::new()).await?;
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    match pages.credentials.delete_account(&user.signed_in.principal, &form.password).await {
        Ok(()) => Ok(session_cookie::remove_session(Redirect::to("/sign-in?done=deleted").into_response())),
        Err(refused) => pages.refuse_change(&user, refused, String::new()).await,
    }
}

/// Ends one session of the user. Ending the current one redirects to signing in.
pub(crate) async fn end_session(
    State(pages): State<CredentialPages>,
    user: SignedInVisitor,
    Path(session): Path<String>,
) -> Result<Response, Response> {
    let session: SessionId = session
        .parse()
        .map_err(|_| user.failure_response(UseCaseError::new(PublicCode::NotFound, "no such session")))?;
    let ended = pages.sessions.end_session(&user.signed_in.principal, session).await;
    ended.map_err(|error| user.failure_response(error))?;
    Ok(Redirect::to("/account?done=session").into_response())
}

/// Ends all sessions of the user.
pub(crate) async fn sign_out_everywhere(
    State(pages): State<CredentialPages>,
    user: SignedInVisitor,
) -> Result<Response, Response> {
    let ended = pages.credentials.sign_out_everywhere(&user.signed_in.principal).await;
    ended.map_err(|error| user.failure_response(error))?;
    Ok(session_cookie::remove_session(Redirect::to(paths::SIGN_IN).into_response()))
}

impl CredentialPages {
    /// Counts an attempt with a password, as signing in does, because the holder of a session may not know the
    /// password. Attempts of other visitors do not count. Returns the response to an attempt beyond the limits.
    fn throttle_password_attempt(&self, user: &SignedInVisitor) -> Option<Response> {
        let wait = self.sign_in_limits.take_known(&user.signed_in.email).err()?;
        let (texts, seconds) = (user.visitor.texts, wait.as_secs() + 1);
        let text = texts.with("sign-in-throttled", "seconds", seconds);
        let mut response = error::error_page(texts, StatusCode::TOO_MANY_REQUESTS, &text);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        Some(response)
    }

    /// Returns the open sessions of the user, the current one first.
    async fn session_rows(&self, user: &SignedInVisitor) -> Result<Vec<SessionRow>, Response> {
        let texts = user.visitor.texts;
        let listed = self.sessions.list_sessions(&user.signed_in.principal).await;
        let mut sessions = listed.map_err(|error| user.failure_response(error))?;
        sessions.sort_by_key(|session| !session.is_current);
        let row = |session: OpenSession| SessionRow {
            id: session.id.to_string(),
            browser: Some(session.browser)
                .filter(|browser| !browser.is_empty())
                .unwrap_or_else(|| texts.get("account-unknown-browser")),
            created: ShownTime::from_time(texts, session.created_at),
            used: ShownTime::from_time(texts, session.used_at),
            is_current: session.is_current,
        };
        Ok(sessions.into_iter().map(row).collect())
    }

    async fn refuse_change(
        &self,
        user: &SignedInVisitor,
        refused: CredentialsError,
        email: String,
    ) -> Result<Response, Response> {
        let (status, key) = match refused {
            CredentialsError::WrongPassword => (StatusCode::FORBIDDEN, "account-wrong-password"),
            CredentialsError::WrongEmail => (StatusCode::FORBIDDEN, "operator-delete-other"),
            CredentialsError::InvalidPassword(_) => (StatusCode::BAD_REQUEST, "account-bad-password"),
            CredentialsError::InvalidEmail => (StatusCode::BAD_REQUEST, "account-bad-email"),
            CredentialsError::EmailTaken => (StatusCode::CONFLICT, "account-email-taken"),
            CredentialsError::Failed(error) => return Err(user.failure_response(error)),
        };
        let page = self.render_account(user, None, Some(user.visitor.texts.get(key)), email).await?;
        Ok((status, page).into_response())
    }

    async fn render_account(
        &self,
        user: &SignedInVisitor,
        done: Option<String>,
        error: Option<String>,
        email: String,
    ) -> Result<Response, Response> {
        let texts: Texts = user.visitor.texts;
        let has_password = self.credentials.has_password(&user.signed_in.principal).await;
        Ok(error::render_template(&OwnAccountPage {
            frame: PageFrame::load(&self.conversations, user, None).await?,
            licence: LicenceView::from_licence_end(
                texts,
                user.signed_in.licence_until,
                self.environment.now(),
            ),
            has_password: has_password.map_err(|error| user.failure_response(error))?,
            sessions: self.session_rows(user).await?,
            email,
            done,
            error,
        }))
    }
}
