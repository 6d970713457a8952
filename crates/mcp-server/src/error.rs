//! Errors of the protocol: the one place that gives an error its JSON-RPC code and its HTTP status.
//!
//! Errors of tools are results ([`crate::output`]), so that the model of the client reads them.

use std::fmt::Display;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::{ErrorKind, PublicCode, UseCaseError};
use domain::excerpt::{EXCERPT_MAX_CHARS, Excerpt};
use http_common::{BUDGET_RETRY_AFTER, BudgetExceeded, JsonBodyError};
use mcp::{
    HANDSHAKE_REVISIONS, HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
    MISSING_CAPABILITY, PARSE_ERROR, STATELESS_REVISIONS, TASKS_EXTENSION, UNSUPPORTED_REVISION,
};
use serde_json::{Value, json};

use crate::request_id::RequestId;

/// `Retry-After` of an unavailable service, in seconds.
const RETRY_AFTER: u64 = 5;

/// An error of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct McpError {
    /// The status of the response, in the revisions that have statuses of errors.
    status: StatusCode,
    code: i64,
    message: String,
    data: Option<Value>,
    /// `Retry-After`, in seconds.
    retry_after: Option<u64>,
}

pub(crate) type McpResult<T> = Result<T, McpError>;

impl McpError {
    fn new(status: StatusCode, code: i64, message: impl Display) -> Self {
        Self { status, code, message: message.to_string(), data: None, retry_after: None }
    }

    /// Creates an error without a code of the protocol. Its code is its status, because the protocol reserves others.
    fn of_status(status: StatusCode, message: impl Display) -> Self {
        Self::new(status, i64::from(status.as_u16()), message)
    }

    /// Creates the error for a request without a valid key.
    pub(crate) fn invalid_key() -> Self {
        let message = "the API key is missing or invalid: send it as `Authorization: Bearer api-…`";
        Self::of_status(StatusCode::UNAUTHORIZED, message)
    }

    /// Creates the error for a request from a page of another site.
    pub(crate) fn foreign_origin() -> Self {
        Self::of_status(StatusCode::FORBIDDEN, "pages of other sites may not call this server")
    }

    /// Creates the error for an exhausted rate.
    pub(crate) fn too_many_requests(wait: Duration) -> Self {
        Self::of_status(StatusCode::TOO_MANY_REQUESTS, "too many requests; try again later").retry_after(wait)
    }

    /// Creates the error for a request that was refused before its message was read.
    pub(crate) fn unavailable(error: UseCaseError) -> Self {
        let status = match error.kind() {
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, ..error.into() }
    }

    /// Creates the error for a target that is too long.
    pub(crate) fn target_too_long(bytes_max: usize) -> Self {
        let message = format!("the path with its query is longer than {bytes_max} bytes");
        Self::of_status(StatusCode::URI_TOO_LONG, message)
    }

    /// Creates the error for another method of HTTP than POST.
    pub(crate) fn only_post() -> Self {
        let message = "send messages by POST: this server has neither sessions nor streams of its own";
        Self::of_status(StatusCode::METHOD_NOT_ALLOWED, message)
    }

    /// Creates an error for a body that is not a message.
    pub(crate) fn invalid_request(message: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, message)
    }

    /// Creates an error for parameters that cannot be read, or lack what each request has.
    pub(crate) fn malformed_params(message: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID_PARAMS, message)
    }

    /// Creates an error for parameters that name something unknown.
    pub(crate) fn invalid_params(message: impl Display) -> Self {
        Self::new(StatusCode::OK, INVALID_PARAMS, message)
    }

    /// Creates the error for a resource that does not exist.
    pub(crate) fn no_such_resource(uri: &str) -> Self {
        let message = format!("there is no resource {}: resources/list lists some", Excerpt(uri));
        Self { data: Some(json!({ "uri": excerpt(uri) })), ..Self::invalid_params(message) }
    }

    /// Creates the error for a method that does not exist.
    pub(crate) fn no_such_method(method: &str) -> Self {
        let message = format!("the method {} does not exist", Excerpt(method));
        Self::new(StatusCode::NOT_FOUND, METHOD_NOT_FOUND, message)
    }

    /// Creates an error for a header that does not match the body.
    pub(crate) fn header_mismatch(message: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, message)
    }

    /// Creates the error for a revision that is not served.
    pub(crate) fn unsupported_revision(requested: &str) -> Self {
        let data = json!({ "supported": supported_revisions(), "requested": excerpt(requested) });
        let message = format!("the revision {} of the protocol is not served", Excerpt(requested));
        let error = Self::new(StatusCode::BAD_REQUEST, UNSUPPORTED_REVISION, message);
        Self { data: Some(data), ..error }
    }

    /// Creates the error for a request about tasks of a client that does not know them.
    pub(crate) fn tasks_undeclared() -> Self {
        let data = json!({ "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } });
        let message = "declare the extension io.modelcontextprotocol/tasks in the request";
        let error = Self::new(StatusCode::BAD_REQUEST, MISSING_CAPABILITY, message);
        Self { data: Some(data), ..error }
    }

    /// Logs a failure for operators, and creates an error without its details.
    pub(crate) fn internal(error: impl Display) -> Self {
        UseCaseError::internal(error).into()
    }

    fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Some(seconds.max(1)), ..self }
    }

    /// Returns the same error with the code that resources have in the revisions with a handshake.
    pub(crate) fn with_code(self, code: i64) -> Self {
        Self { code, ..self }
    }

    /// Returns true if what the parameters name does not exist.
    pub(crate) fn is_about_params(&self) -> bool {
        self.code == INVALID_PARAMS && self.status == StatusCode::OK
    }

    /// Returns the message, for the request with this id.
    pub(crate) fn to_message(&self, id: Option<&RequestId>) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        match id {
            Some(id) => json!({ "jsonrpc": "2.0", "id": id.to_value(), "error": error }),
            None => json!({ "jsonrpc": "2.0", "error": error }),
        }
    }

    /// Returns the response to the request with this id.
    pub(crate) fn into_response_to(self, id: Option<&RequestId>) -> Response {
        let body = self.to_message(id).to_string();
        let content_type = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut response = (self.status, [content_type], body).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                // Without metadata of an authorization server, because there is none.
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
            }
            _ => {}
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Returns every revision that is served, the newest first.
pub(crate) fn supported_revisions() -> Vec<&'static str> {
    STATELESS_REVISIONS.into_iter().chain(HANDSHAKE_REVISIONS).collect()
}

fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_MAX_CHARS).collect()
}

impl From<UseCaseError> for McpError {
    fn from(error: UseCaseError) -> Self {
        let code = error.code();
        let of_status = |status: u16| i64::from(status);
        let number = match error.kind() {
            ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::TooLarge => INVALID_PARAMS,
            ErrorKind::Internal => INTERNAL_ERROR,
            ErrorKind::Forbidden => of_status(403),
            ErrorKind::Conflict => of_status(409),
            ErrorKind::RateLimited => of_status(429),
            ErrorKind::Unavailable => of_status(503),
        };
        let retry_after = (code == PublicCode::Unavailable).then_some(RETRY_AFTER);
        let data = Some(json!({ "code": code.as_str() }));
        let message = error.into_message();
        Self { status: StatusCode::OK, code: number, message, data, retry_after }
    }
}

impl From<BudgetExceeded> for McpError {
    fn from(spent: BudgetExceeded) -> Self {
        let status = match spent {
            BudgetExceeded::Own => StatusCode::TOO_MANY_REQUESTS,
            BudgetExceeded::All => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::of_status(status, spent).retry_after(BUDGET_RETRY_AFTER)
    }
}

impl From<JsonBodyError> for McpError {
    fn from(error: JsonBodyError) -> Self {
        match error {
            JsonBodyError::TooLarge(_) => Self::of_status(StatusCode::PAYLOAD_TOO_LARGE, error),
            JsonBodyError::TooSlow => Self::of_status(StatusCode::REQUEST_TIMEOUT, error),
            JsonBodyError::Malformed(error) => {
                let message = format!("the body is not JSON: {}", Excerpt(&error.to_string()));
                Self::new(StatusCode::BAD_REQUEST, PARSE_ERROR, message)
            }
            JsonBodyError::Broken(_) => Self::invalid_request(error),
            JsonBodyError::Spent(spent) => spent.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_revision_lists_supported_ones() {
        let message = McpError::unsupported_revision("1900-01-01").to_message(Some(&RequestId::Number(1)));
        assert_eq!(message["id"], 1);
        assert_eq!(message["error"]["code"], -32022);
        assert_eq!(message["error"]["data"]["requested"], "1900-01-01");
        assert_eq!(message["error"]["data"]["supported"][0], "2026-07-28");
    }

    #[test]
    fn use_case_errors_stay_outside_reserved_codes() {
        for code in PublicCode::ALL {
            let number = McpError::from(UseCaseError::new(*code, "why")).code;
            assert!(number > 0 || matches!(number, INVALID_PARAMS | INTERNAL_ERROR), "{code:?}: {number}");
        }
    }

    #[test]
    fn refused_key_names_bearer_alone() {
        let response = McpError::invalid_key().into_response_to(None);
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Bearer");
    }
}
