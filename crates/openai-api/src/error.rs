//! Errors in OpenAI's form: the one place that gives an error its status, type and code here.
//!
//! OpenAI's libraries repeat a request after 408, 409, 429 and 5xx, unless `x-should-retry` forbids it.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use control::{ErrorKind, PublicCode, UseCaseError};
use domain::answer::{AnswerFailure, ErrorCode};
use domain::excerpt::{EXCERPT_MAX_CHARS, Excerpt};
use domain::step::{RefusedPart, StepError};
use http_common::{BUDGET_RETRY_AFTER, BudgetExceeded, ErrorFacts, JsonBodyError};
use serde::Serialize;
use serde_json::Value;

use crate::json_forms::plain_words;

/// `Retry-After` of a busy conversation and of an unavailable service, in seconds.
const RETRY_AFTER: u64 = 5;
/// Tells the libraries whether to repeat the request.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

const INVALID_REQUEST: &str = "invalid_request_error";
const SERVER_ERROR: &str = "server_error";
const INSUFFICIENT_QUOTA: &str = "insufficient_quota";
const CONTEXT_LENGTH_EXCEEDED: &str = "context_length_exceeded";

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenAiError {
    status: StatusCode,
    /// The field `type`.
    kind: &'static str,
    code: Option<Cow<'static, str>>,
    /// The field of the request that is wrong.
    param: Option<String>,
    message: String,
    /// `Retry-After`, in seconds.
    retry_after: Option<u64>,
    /// True if the same request would fail again although its status says that it may be repeated.
    is_final: bool,
}

pub(crate) type OpenAiResult<T> = Result<T, OpenAiError>;

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    message: &'a str,
    r#type: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

impl OpenAiError {
    fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, message: impl Display) -> Self {
        Self {
            status,
            kind: kind_of_status(status),
            code: Some(code.into()),
            param: None,
            message: message.to_string(),
            retry_after: None,
            is_final: false,
        }
    }

    /// Creates an error for an invalid request.
    pub(crate) fn invalid(message: impl Display) -> Self {
        Self { code: None, ..Self::new(StatusCode::BAD_REQUEST, "", message) }
    }

    /// Creates an error for an invalid field of a request.
    pub(crate) fn invalid_field(field: impl Into<String>, message: impl Display) -> Self {
        Self { param: Some(field.into()), ..Self::invalid(message) }
    }

    /// Creates the error for a request without a valid key.
    pub(crate) fn invalid_key() -> Self {
        let message = "the API key is missing or invalid: send it as `Authorization: Bearer api-…`";
        Self::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
    }

    /// Creates the error for a path that does not exist here.
    pub(crate) fn no_such_path() -> Self {
        let message = "no such path: this service has /v1/models, /v1/chat/completions, /v1/responses, /v1/conversations and \
             /v1/files";
        Self::new(StatusCode::NOT_FOUND, "unknown_url", message)
    }

    /// Creates the error for a method that the path does not have.
    pub(crate) fn no_such_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "the path does not support this method",
        )
    }

    /// Creates the error for a model that does not exist.
    pub(crate) fn no_such_model(message: impl Display) -> Self {
        let error = Self::new(StatusCode::NOT_FOUND, "model_not_found", message);
        Self { param: Some("model".to_owned()), ..error }
    }

    /// Creates the error for an object of this kind that does not exist, whose id the request has in its path.
    pub(crate) fn not_found(kind: &str, id: &str) -> Self {
        let message = format!("there is no {kind} with the id {}", Excerpt(id));
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Creates the error for a range that the file does not have.
    pub(crate) fn range_not_satisfiable(message: impl Display) -> Self {
        Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "range_not_satisfiable", message)
    }

    /// Creates an error for a body that was not received.
    pub(crate) fn of_body(status: StatusCode, code: &'static str, message: impl Display) -> Self {
        Self::new(status, code, message)
    }

    /// Creates the error for an earlier response that does not exist, whose id is in this field.
    pub(crate) fn no_previous_response(field: &str, id: &str) -> Self {
        let message = format!("there is no response with the id {}: send the whole history", Excerpt(id));
        let error = Self::new(StatusCode::BAD_REQUEST, "previous_response_not_found", message);
        Self { param: Some(field.to_owned()), ..error }
    }

    /// Creates the error for an exhausted rate.
    pub(crate) fn too_many_requests(wait: Duration) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", "too many requests; try again later")
            .retry_after(wait)
    }

    /// Creates the error for a target that is too long.
    pub(crate) fn target_too_long(bytes_max: usize) -> Self {
        let message = format!("the path with its query is longer than {bytes_max} bytes");
        Self::new(StatusCode::URI_TOO_LONG, "target_too_long", message)
    }

    /// Creates an error for a body that is not JSON, or whose field does not have the required form. The parser's message
    /// may repeat the input, so its middle is left out.
    pub(crate) fn of_json(error: &serde_json::Error, field: Option<String>) -> Self {
        let text = plain_words(&error.to_string());
        let count = text.chars().count();
        let text = if count <= 2 * EXCERPT_MAX_CHARS {
            text
        } else {
            let begin: String = text.chars().take(EXCERPT_MAX_CHARS).collect();
            let end: String = text.chars().skip(count - EXCERPT_MAX_CHARS).collect();
            format!("{begin} … {end}")
        };
        let field = field.map(|field| field.chars().take(EXCERPT_MAX_CHARS).collect::<String>());
        let place = field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
        let error = Self::invalid(format_args!("the body cannot be read: {place}{text}"));
        Self { param: field, ..error }
    }

    /// Creates the error for messages that exceed a model's context.
    pub(crate) fn context_too_long(message: impl Display) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, CONTEXT_LENGTH_EXCEEDED, message);
        Self { param: Some("messages".to_owned()), ..error }
    }

    /// Creates an error that ends by itself.
    pub(crate) fn unavailable(message: impl Display) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after: Some(RETRY_AFTER), ..error }
    }

    /// Names the input where it names the messages, which have that name in a request for a response.
    pub(crate) fn of_input(self) -> Self {
        let param = self.param.map(|param| if param == "messages" { "input".to_owned() } else { param });
        Self { param, ..self }
    }

    fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Some(seconds.max(1)), ..self }
    }

    /// Returns the body.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(&self.body()).unwrap_or_default()
    }

    /// Returns the fields of the error, without their enclosure.
    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self.body().error).unwrap_or_default()
    }

    fn body(&self) -> ErrorBody<'_> {
        let Self { kind, code, param, message, .. } = self;
        ErrorBody {
            error: ErrorFields { message, r#type: kind, param: param.as_deref(), code: code.as_deref() },
        }
    }
}

const fn kind_of_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => SERVER_ERROR,
        _ => INVALID_REQUEST,
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.is_final {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

impl From<UseCaseError> for OpenAiError {
    fn from(error: UseCaseError) -> Self {
        let code = error.code();
        match code {
            PublicCode::UnknownModel | PublicCode::UnknownAgent => return Self::no_such_model(error),
            PublicCode::InsufficientCredits | PublicCode::SpendingLimit => {
                return insufficient_quota(error.into_message());
            }
            _ => {}
        }
        let (status, word) = match code {
            PublicCode::ConversationBusy => (StatusCode::CONFLICT, "conversation_locked".into()),
            // It may be there again soon.
            PublicCode::ModelUnavailable => (StatusCode::SERVICE_UNAVAILABLE, lower_case(code.as_str())),
            _ => (status_of_kind(error.kind()), lower_case(code.as_str())),
        };
        let param = match code {
            PublicCode::AmbiguousName => Some("model"),
            PublicCode::UnknownSetting => Some("reasoning_effort"),
            PublicCode::UnknownJurisdiction | PublicCode::UnknownSkill => Some("metadata"),
            _ => None,
        };
        let waits = matches!(code, PublicCode::ConversationBusy | PublicCode::Unavailable);
        Self {
            param: param.map(str::to_owned),
            retry_after: waits.then_some(RETRY_AFTER),
            is_final: error.kind() == ErrorKind::Conflict
                && !matches!(code, PublicCode::ConversationBusy | PublicCode::ModelUnavailable),
            ..Self::new(status, word, error.into_message())
        }
    }
}

/// Returns the status of the errors of this kind.
const fn status_of_kind(kind: ErrorKind) -> StatusCode {
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

/// Creates the error for an account without credits, or a key that has reached its limit. Libraries do not repeat it.
fn insufficient_quota(message: String) -> OpenAiError {
    let error = OpenAiError::new(StatusCode::TOO_MANY_REQUESTS, INSUFFICIENT_QUOTA, message);
    OpenAiError { kind: INSUFFICIENT_QUOTA, is_final: true, ..error }
}

fn lower_case(code: &str) -> Cow<'static, str> {
    code.to_ascii_lowercase().into()
}

/// The answer failed. A repetition would get the same answer.
impl From<&AnswerFailure> for OpenAiError {
    fn from(failure: &AnswerFailure) -> Self {
        let message = &failure.message;
        let error = match failure.code {
            ErrorCode::ContextTooLong => Self::new(StatusCode::BAD_REQUEST, CONTEXT_LENGTH_EXCEEDED, message),
            ErrorCode::InsufficientCredits | ErrorCode::SpendingLimit => insufficient_quota(message.clone()),
            ErrorCode::ModelUnavailable | ErrorCode::MachineFailed | ErrorCode::Interrupted => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, lower_case(failure.code.as_str()), message)
            }
            ErrorCode::ModelRejected
            | ErrorCode::ModelKeyRefused
            | ErrorCode::ModelUnpaid
            | ErrorCode::AgentUnavailable
            | ErrorCode::TooManySteps
            | ErrorCode::OutputExhausted
            | ErrorCode::ModelRefused
            | ErrorCode::ReplyOverdue
            | ErrorCode::Internal => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, lower_case(failure.code.as_str()), message)
            }
        };
        Self { is_final: true, ..error }
    }
}

/// A step without an agent failed.
impl From<&StepError> for OpenAiError {
    fn from(error: &StepError) -> Self {
        match error {
            StepError::TooLong => Self::context_too_long(error),
            StepError::Unavailable { retry_after, .. } => {
                let unavailable = Self::new(StatusCode::SERVICE_UNAVAILABLE, "model_unavailable", error);
                let seconds = retry_after.map(|wait| wait.as_secs().max(1));
                Self { retry_after: seconds, ..unavailable }
            }
            StepError::TimedOut { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "model_unavailable", error)
            }
            StepError::Rejected { refused: RefusedPart::Request, .. } => {
                Self::new(StatusCode::BAD_REQUEST, "model_rejected", error)
            }
            StepError::Rejected { refused: RefusedPart::Key | RefusedPart::Payment, .. } => {
                let message = "the service cannot use this model now: ask the operator of this service";
                let rejected = Self::new(StatusCode::SERVICE_UNAVAILABLE, "model_rejected", message);
                Self { is_final: true, ..rejected }
            }
        }
    }
}

impl From<BudgetExceeded> for OpenAiError {
    fn from(spent: BudgetExceeded) -> Self {
        let (status, code) = match spent {
            BudgetExceeded::Own => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded"),
            BudgetExceeded::All => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        };
        Self::new(status, code, spent).retry_after(BUDGET_RETRY_AFTER)
    }
}

impl From<JsonBodyError> for OpenAiError {
    fn from(error: JsonBodyError) -> Self {
        match error {
            JsonBodyError::TooLarge(_) => Self::of_body(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error),
            JsonBodyError::TooSlow => Self::of_body(StatusCode::REQUEST_TIMEOUT, "too_slow", error),
            JsonBodyError::Malformed(error) => Self::of_json(&error, None),
            JsonBodyError::Broken(_) => Self::invalid(error),
            JsonBodyError::Spent(spent) => spent.into(),
        }
    }
}

/// Gives a refusal of the layers below the routes OpenAI's form. They refuse a request before it reaches this interface.
pub fn translate_refusal(response: &mut Response) {
    let Some(facts) = response.extensions_mut().remove::<ErrorFacts>() else { return };
    let retry_after = response.headers_mut().remove(header::RETRY_AFTER);
    let error = OpenAiError::new(response.status(), lower_case(facts.code), facts.message);
    let before = std::mem::replace(response, error.into_response());
    let headers = response.headers_mut();
    for name in [header::CONNECTION, header::ALLOW] {
        if let Some(value) = before.headers().get(&name) {
            headers.insert(name, value.clone());
        }
    }
    if let Some(retry_after) = retry_after {
        headers.insert(header::RETRY_AFTER, retry_after);
    }
    *response.extensions_mut() = before.into_parts().0.extensions;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(code: PublicCode) -> OpenAiError {
        UseCaseError::new(code, "why").into()
    }

    #[test]
    fn use_case_errors_have_openai_codes() {
        for (code, status, word, is_final) in [
            (PublicCode::UnknownModel, 404, "model_not_found", false),
            (PublicCode::ConversationBusy, 409, "conversation_locked", false),
            (PublicCode::InsufficientCredits, 429, "insufficient_quota", true),
            (PublicCode::SpendingLimit, 429, "insufficient_quota", true),
            (PublicCode::NoMachine, 409, "no_machine", true),
            (PublicCode::ModelUnavailable, 503, "model_unavailable", false),
            (PublicCode::KeyScope, 403, "key_scope", false),
        ] {
            let error = error_of(code);
            assert_eq!((error.status.as_u16(), error.code.as_deref()), (status, Some(word)), "{code:?}");
            let response = error.into_response();
            assert_eq!(response.headers().contains_key(SHOULD_RETRY), is_final, "{code:?}");
        }
        let busy = error_of(PublicCode::ConversationBusy).into_response();
        assert_eq!(busy.headers()[header::RETRY_AFTER], "5");
    }

    #[test]
    fn error_body_has_all_fields() {
        let json = OpenAiError::invalid_field("messages", "messages is empty").to_json();
        let wanted = r#"{"error":{"message":"messages is empty","type":"invalid_request_error","param":"messages","code":null}}"#;
        assert_eq!(json, wanted);
    }

    #[test]
    fn failed_answers_are_not_repeated() {
        for code in ErrorCode::ALL {
            let failure = AnswerFailure { code: *code, message: "why".to_owned() };
            assert!(OpenAiError::from(&failure).is_final, "{code:?}");
        }
    }
}
