//! The page on which the first account is created, by anyone with the link that the service printed.

use askama::Template;
use axum::Form;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use control::admin::AdminError;
use control::first_owner::FirstOwnerError;
use control::passwords::Standing;
use control::{FirstOwner, SessionService, UseCaseError};
use serde::Deserialize;

use crate::assets::Addresses;
use crate::browser::BrowserName;
use crate::texts::Texts;
use crate::visit::Visitor;
use crate::{error, paths, session_cookie};

#[derive(Template)]
#[template(path = "welcome.html")]
struct WelcomePage<'a> {
    texts: Texts,
    assets: &'static Addresses,
    invitation: &'a str,
    email: &'a str,
    error: Option<String>,
}

/// The query of the link.
#[derive(Deserialize)]
pub(crate) struct InvitationQuery {
    #[serde(default)]
    invitation: String,
}

/// The form of the first account.
#[derive(Deserialize)]
pub(crate) struct NewOwner {
    #[serde(default)]
    invitation: String,
    #[serde(default)]
    email: String,
    #[serde(default)]
    password: String,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct Welcome {
    pub(crate) first_owner: FirstOwner,
    pub(crate) sessions: SessionService,
}

/// Shows the form to anyone with the link.
pub(crate) async fn show_welcome(
    State(welcome): State<Welcome>,
    visitor: Visitor,
    Query(link): Query<InvitationQuery>,
) -> Response {
    match welcome.first_owner.is_invited(&link.invitation).await {
        Ok(true) => render_welcome(&visitor, &link.invitation, "", None),
        Ok(false) => not_invited(&visitor),
        Err(failed) => visitor.failure_response(&UseCaseError::internal(failed)),
    }
}

/// Creates the account and signs its owner in.
pub(crate) async fn create_first_owner(
    State(welcome): State<Welcome>,
    visitor: Visitor,
    BrowserName(browser): BrowserName,
    Form(new): Form<NewOwner>,
) -> Response {
    let refused = |key: &str| {
        let page = render_welcome(&visitor, &new.invitation, &new.email, Some(visitor.texts.get(key)));
        (StatusCode::BAD_REQUEST, page).into_response()
    };
    match welcome.first_owner.create_owner(&new.invitation, &new.email, &new.password).await {
        Ok(()) => welcome.sign_in(&visitor, &new, browser).await,
        Err(FirstOwnerError::NotInvited) => not_invited(&visitor),
        Err(FirstOwnerError::Password(_)) => refused("welcome-bad-password"),
        Err(FirstOwnerError::Admin(AdminError::NotAnEmail(_))) => refused("welcome-bad-email"),
        Err(FirstOwnerError::Admin(failed)) => visitor.failure_response(&UseCaseError::internal(failed)),
    }
}

impl Welcome {
    async fn sign_in(&self, visitor: &Visitor, new: &NewOwner, browser: String) -> Response {
        let mut response = Redirect::to(paths::HOME).into_response();
        // Without a session, the first page leads to signing in.
        if let Ok(secret) = self.sessions.sign_in(&new.email, &new.password, browser, Standing::Known).await {
            let kept = session_cookie::keep_session(&secret, visitor.https);
            response.headers_mut().append(header::SET_COOKIE, kept);
        }
        response
    }
}

fn not_invited(visitor: &Visitor) -> Response {
    error::error_page(visitor.texts, StatusCode::NOT_FOUND, &visitor.texts.get("welcome-not-invited"))
}

fn render_welcome(visitor: &Visitor, invitation: &str, email: &str, error: Option<String>) -> Response {
    let texts = visitor.texts;
    error::render_template(&WelcomePage { texts, assets: visitor.assets, invitation, email, error })
}
