//! Errors on the wire (section 7): the one place that gives an error its HTTP status.

use std::fmt::Display;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use control::{ErrorKind, PublicCode, UseCaseError};
use domain::excerpt::EXCERPT_MAX_CHARS;
use http_common::{BUDGET_RETRY_AFTER, BudgetExceeded, ErrorFacts};
use serde::Serialize;
use workspace::WorkspaceError;

/// `Retry-After` of a busy conversation and of an unavailable service, in seconds.
const RETRY_AFTER: &str = "5";

/// The codes of errors, for programs: codes of the use cases and codes of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A code of a use case.
    UseCase(PublicCode),
    /// The path does not have the method.
    MethodNotAllowed,
    /// The file has no byte in the range.
    RangeNotSatisfiable,
    /// The request target is too long.
    TargetTooLong,
    /// The request's line and headers are too large.
    HeadTooLarge,
    /// The body did not arrive in time.
    TooSlow,
}

impl From<PublicCode> for Code {
    fn from(code: PublicCode) -> Self {
        Self::UseCase(code)
    }
}

impl Code {
    /// The codes of HTTP.
    const OF_HTTP: [Self; 5] = [
        Self::MethodNotAllowed,
        Self::RangeNotSatisfiable,
        Self::TargetTooLong,
        Self::HeadTooLarge,
        Self::TooSlow,
    ];

    /// Returns every code, in the order of the schema.
    pub fn all() -> impl Iterator<Item = Self> {
        PublicCode::ALL.iter().copied().map(Self::UseCase).chain(Self::OF_HTTP)
    }

    /// Returns the code on the wire, and its status.
    #[must_use]
    pub const fn on_the_wire(self) -> (&'static str, StatusCode) {
        match self {
            Self::UseCase(code) => (code.as_str(), status_of_kind(code.kind())),
            Self::MethodNotAllowed => ("METHOD_NOT_ALLOWED", StatusCode::METHOD_NOT_ALLOWED),
            Self::RangeNotSatisfiable => ("RANGE_NOT_SATISFIABLE", StatusCode::RANGE_NOT_SATISFIABLE),
            Self::TargetTooLong => ("TARGET_TOO_LONG", StatusCode::URI_TOO_LONG),
            Self::HeadTooLarge => ("HEAD_TOO_LARGE", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Self::TooSlow => ("TOO_SLOW", StatusCode::REQUEST_TIMEOUT),
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

/// An error response.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    status: StatusCode,
    message: String,
    /// `Retry-After`, in seconds, when it is not the default.
    retry_after: Option<u64>,
}

/// The result of a handler.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// Creates an error with the status of its code.
    pub fn new(code: impl Into<Code>, message: impl Display) -> Self {
        let code = code.into();
        Self { code, status: code.on_the_wire().1, message: message.to_string(), retry_after: None }
    }

    /// Creates an error for an invalid request.
    pub fn bad_request(message: impl Display) -> Self {
        UseCaseError::invalid(message).into()
    }

    /// Creates an error for a body that is not JSON, or whose field does not have the required form. The parser's message
    /// may repeat the input, so its middle is left out.
    pub(crate) fn of_json(error: &serde_json::Error, field: Option<&str>) -> Self {
        let text = field.map_or_else(|| error.to_string(), |field| format!("{field}: {error}"));
        let count = text.chars().count();
        if count <= 2 * EXCERPT_MAX_CHARS {
            return Self::bad_request(format_args!("the body cannot be read: {text}"));
        }
        let begin: String = text.chars().take(EXCERPT_MAX_CHARS).collect();
        let end: String = text.chars().skip(count - EXCERPT_MAX_CHARS).collect();
        Self::bad_request(format_args!("the body cannot be read: {begin} … {end}"))
    }

    /// Creates an error for a conversation or message that does not exist, or belongs to another account.
    #[must_use]
    pub fn not_found() -> Self {
        UseCaseError::no_conversation().into()
    }

    /// Logs a failure for operators, and creates an error without its details.
    pub fn internal(error: impl Display) -> Self {
        UseCaseError::internal(error).into()
    }

    /// Returns true if a budget is used up and may be free again soon.
    pub(crate) fn is_spent(&self) -> bool {
        let temporary = [PublicCode::RateLimited, PublicCode::Unavailable].map(Code::UseCase);
        temporary.contains(&self.code) && self.retry_after.is_some()
    }

    /// Returns true if the conversation has changed meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        self.code == Code::UseCase(PublicCode::ConversationBusy)
    }

    /// Sets `Retry-After`, rounded up to whole seconds.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Some(seconds.max(1)), ..self }
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (code, _) = self.code.on_the_wire();
        let mut response = (self.status, Json(ErrorBody { code, message: &self.message })).into_response();
        if matches!(self.code, Code::UseCase(PublicCode::ConversationBusy | PublicCode::Unavailable)) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(ErrorFacts { code, message: self.message });
        response
    }
}

/// Answers a path that the interface does not have.
pub async fn no_such_path() -> ApiError {
    ApiError::new(PublicCode::NotFound, "no such path: /openapi.yaml lists the paths of this service")
}

/// Answers a method that the path does not have.
pub(crate) async fn no_such_method() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "the path does not support this method")
}

impl From<UseCaseError> for ApiError {
    fn from(error: UseCaseError) -> Self {
        let (code, status) = (error.code().into(), status_of_kind(error.kind()));
        Self { code, status, message: error.into_message(), retry_after: None }
    }
}

impl From<WorkspaceError> for ApiError {
    fn from(error: WorkspaceError) -> Self {
        UseCaseError::from(error).into()
    }
}

impl From<BudgetExceeded> for ApiError {
    fn from(spent: BudgetExceeded) -> Self {
        let code = match spent {
            BudgetExceeded::Own => PublicCode::RateLimited,
            BudgetExceeded::All => PublicCode::Unavailable,
        };
        Self::new(code, spent).retry_after(BUDGET_RETRY_AFTER)
    }
}
