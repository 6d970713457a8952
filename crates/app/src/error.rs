//! Pages of errors: the one place that gives an error its status and its text.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use control::{ErrorKind, PublicCode, UseCaseError};

use crate::assets::{ADDRESSES, Addresses};
use crate::texts::Texts;

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    texts: Texts,
    assets: &'static Addresses,
    title: String,
    message: &'a str,
}

/// Creates the page of an error.
pub(crate) fn error_page(texts: Texts, status: StatusCode, message: &str) -> Response {
    let title = match status {
        StatusCode::NOT_FOUND => texts.get("error-title-not-found"),
        _ => texts.get("error-title"),
    };
    (status, render_template(&ErrorPage { texts, assets: &ADDRESSES, title, message })).into_response()
}

/// Renders a template as a response.
pub(crate) fn render_template(page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => Html(html).into_response(),
        Err(error) => {
            let _logged = UseCaseError::internal(error);
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Returns the status of the errors of a kind.
pub(crate) const fn status_of_kind(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Forbidden => StatusCode::FORBIDDEN,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns the text of an error in the visitor's language.
pub(crate) fn error_text(texts: Texts, error: &UseCaseError) -> String {
    match error.code() {
        PublicCode::NotFound => texts.get("error-not-found"),
        PublicCode::Forbidden if error.is_licence_ended() => texts.get("licence-ended"),
        PublicCode::Forbidden | PublicCode::KeyScope => texts.get("error-forbidden"),
        PublicCode::ConversationBusy => texts.get("error-conversation-busy"),
        PublicCode::InsufficientCredits | PublicCode::SpendingLimit => {
            texts.get("error-insufficient-credits")
        }
        PublicCode::NoMachine => texts.get("error-no-machine"),
        PublicCode::MachineNotRunning => texts.get("error-machine-not-running"),
        PublicCode::ModelUnavailable => texts.get("error-model-unavailable"),
        PublicCode::TooLarge => texts.get("error-too-large"),
        PublicCode::RateLimited => texts.get("error-rate-limited"),
        PublicCode::Unavailable => texts.get("error-unavailable"),
        PublicCode::Internal => texts.get("error-internal"),
        // The message says what is wrong and what to do. Only codes that visitors meet often have a text here.
        _ => texts.with("error-invalid", "reason", error.to_string()),
    }
}
