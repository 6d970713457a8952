//! Classifies the failures of vendors' servers as [`StepError`]s.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use domain::retry_after::{self, RETRY_AFTER_MAX};
use domain::step::{RefusedPart, StepError};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::connection::VendorConnectionError;

/// Longer reasons are truncated.
const REASON_MAX_CHARS: usize = 300;
/// Limits how much of an error response is read.
pub(crate) const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;

/// The words of vendors for an account without credit: codes, then phrases of messages.
const UNPAID_CODES: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_not_active",
    "billing_hard_limit_reached",
    "exceeded_current_quota_error",
    "insufficient_balance",
];
const UNPAID_PHRASES: &[&str] = &[
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "insufficient funds",
    "requires more credits",
    "doesn't have any credits",
    "billing to be enabled",
    "billing is not active",
];
/// Their words for a key that they do not accept.
const KEY_CODES: &[&str] =
    &["invalid_api_key", "authentication_error", "permission_error", "unauthenticated", "unauthorized"];
const KEY_PHRASES: &[&str] =
    &["api key not valid", "invalid api key", "incorrect api key", "api key expired", "invalid x-api-key"];
/// The words of a 403 that is not about the key.
const NOT_THE_KEY_PHRASES: &[&str] =
    &["moderation", "flagged", "policy", "region", "country", "location", "territory", "model"];

/// An error in any of the forms that servers send.
#[derive(Debug, Default, Deserialize)]
struct WireError {
    #[serde(default)]
    message: Value,
    /// FastAPI's message: a text, or a list of objects with `msg`.
    #[serde(default)]
    detail: Value,
    #[serde(default)]
    code: Value,
    #[serde(default)]
    r#type: Value,
    /// Google's error code.
    #[serde(default)]
    status: Value,
    /// Contains Google's retry delay.
    #[serde(default)]
    details: Value,
}

struct VendorProblem {
    message: String,
    code: String,
    kind: String,
    /// The retry delay in the body.
    retry_after: Option<Duration>,
}

impl VendorProblem {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, the inner object itself, or plain text.
    fn parse_body(body: &str) -> Self {
        let value: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
        let inner = match value {
            Value::Object(mut object) => object.remove("error").unwrap_or(Value::Object(object)),
            Value::Array(mut items) if !items.is_empty() => {
                let mut first = items.swap_remove(0);
                if first["error"].is_object() { first["error"].take() } else { first }
            }
            other => other,
        };
        if let Value::String(message) = inner {
            return Self { message, code: String::new(), kind: String::new(), retry_after: None };
        }
        let error: WireError = serde_json::from_value(inner).unwrap_or_default();
        Self {
            message: Some(value_text(&error.message))
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| detail_text(&error.detail)),
            code: value_text(&error.code),
            kind: value_text(if error.r#type.is_null() { &error.status } else { &error.r#type }),
            retry_after: retry_delay(&error.details),
        }
    }

    fn is_too_long(&self) -> bool {
        let message = self.message.to_lowercase();
        self.code == "context_length_exceeded"
            || matches!(self.kind.as_str(), "exceed_context_size_error" | "request_too_large")
            || [
                "maximum context length",
                "context length",
                "context window",
                "context size",
                "prompt is too long",
                "exceed context limit",
                "input token count",
                // The rest of the window is negative.
                "max_tokens must be at least 1",
                "max_completion_tokens must be at least 1",
            ]
            .iter()
            .any(|phrase| message.contains(phrase))
    }

    /// Returns true for the codes of an account without credit.
    fn is_unpaid_code(&self) -> bool {
        [&self.code, &self.kind].iter().any(|text| UNPAID_CODES.contains(&text.as_str()))
    }

    /// Classifies a permanent error: a refused key or missing credit concerns the operator, never the question.
    fn classify_refusal(&self, status: Option<StatusCode>) -> RefusedPart {
        let message = self.message.to_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
        let is_code = |codes: &[&str]| {
            [&self.code, &self.kind].iter().any(|text| codes.contains(&text.to_lowercase().as_str()))
        };
        match status.map(|status| status.as_u16()) {
            Some(402) => RefusedPart::Payment,
            _ if self.is_unpaid_code() || says(UNPAID_PHRASES) => RefusedPart::Payment,
            Some(401 | 407) => RefusedPart::Key,
            // The question, the model or the place, not the key.
            Some(403) if is_code(&["model_not_found"]) || says(NOT_THE_KEY_PHRASES) => RefusedPart::Request,
            Some(403) => RefusedPart::Key,
            _ if is_code(KEY_CODES) || says(KEY_PHRASES) => RefusedPart::Key,
            _ => RefusedPart::Request,
        }
    }

    fn reason_or(&self, default: &str) -> String {
        [&self.message, &self.code, &self.kind]
            .into_iter()
            .find(|text| !text.is_empty())
            .map_or_else(|| default.to_owned(), Clone::clone)
    }
}

/// Reads the messages of a `detail`.
fn detail_text(value: &Value) -> String {
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| value_text(item.get("msg").unwrap_or(item)))
            .collect::<Vec<_>>()
            .join("; "),
        Value::Object(fields) => {
            fields.get("message").or(fields.get("msg")).map_or_else(String::new, value_text)
        }
        other => value_text(other),
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Classifies a response by its status and body. `redact` removes the key from the quoted part of the body. The
/// body is classified before, because a key may be one of its words.
pub(crate) fn of_status(
    status: StatusCode,
    retry_after: Option<Duration>,
    body: &str,
    redact: impl Fn(&str) -> String,
) -> StepError {
    let problem = VendorProblem::parse_body(body);
    if status == StatusCode::PAYLOAD_TOO_LARGE || (status.is_client_error() && problem.is_too_long()) {
        return StepError::TooLong;
    }
    let reason = format!("{}: {}", status.as_u16(), redact(&problem.reason_or("no reason given")));
    // A vendor reports an exhausted quota with the status of rate limits.
    let is_quota_exhausted = status == StatusCode::TOO_MANY_REQUESTS && problem.is_unpaid_code();
    if is_temporary(status) && !is_quota_exhausted {
        match unavailable_step(reason) {
            StepError::Unavailable { reason, .. } => {
                StepError::Unavailable { reason, retry_after: retry_after.or(problem.retry_after) }
            }
            other => other,
        }
    } else {
        let refused = problem.classify_refusal(Some(status));
        StepError::Rejected { refused, status: Some(status.as_u16()), reason: truncate_reason(&reason) }
    }
}

/// Classifies an error inside a stream. Unknown errors count as temporary.
pub(crate) fn in_stream(body: &str) -> StepError {
    let problem = VendorProblem::parse_body(body);
    if problem.is_too_long() {
        return StepError::TooLong;
    }
    let reason: Cow<'_, str> = problem.reason_or("it reported an error").into();
    let status = problem.code.parse().ok().and_then(|code: u16| StatusCode::from_u16(code).ok());
    let is_permanent = status.is_some_and(|status| status.is_client_error() && !is_temporary(status))
        || matches!(
            problem.kind.as_str(),
            "invalid_request_error"
                | "authentication_error"
                | "permission_error"
                | "not_found_error"
                | "billing_error"
        )
        || matches!(
            problem.code.as_str(),
            "insufficient_quota"
                | "invalid_api_key"
                | "model_not_found"
                | "invalid_prompt"
                | "data_residency_mismatch"
                | "bio_policy"
        );
    if is_permanent {
        StepError::Rejected {
            refused: problem.classify_refusal(status),
            status: None,
            reason: truncate_reason(&reason),
        }
    } else {
        unavailable_step(reason)
    }
}

/// Returns the error that JSON reports instead of a part of an answer: `{"error": …}`, `{"code", "message"}` or
/// `{"detail"}`; `None` if it reports none.
pub(crate) fn parse_reported(json: &str) -> Option<StepError> {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(json) else { return None };
    let has_error = fields.get("error").is_some_and(|error| !is_empty(error));
    let is_text = |name: &str| fields.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let is_bare = is_text("message")
        && ["code", "status", "error_code", "status_code"].iter().any(|name| fields.contains_key(*name));
    let has_detail = fields.get("detail").is_some_and(|detail| !is_empty(detail));
    (has_error || is_bare || has_detail).then(|| in_stream(json))
}

/// Returns the part of a frame or document that tells why a request was refused: `error`, that of a failed response or of a
/// choice, or the whole of a bare one. Other parts repeat the request.
pub(crate) fn reported_refusal(json: &str) -> Option<String> {
    if json.len() > ERROR_BODY_MAX_BYTES {
        return None;
    }
    let value: Value = serde_json::from_str(json).ok()?;
    let errors = ["/error", "/response/error", "/choices/0/error"];
    let error = errors.iter().filter_map(|at| value.pointer(at)).find(|error| !is_empty(error));
    match error {
        Some(error) => Some(serde_json::json!({ "error": error }).to_string()),
        None => (value["type"] == "error" || parse_reported(json).is_some()).then(|| json.to_owned()),
    }
}

/// Returns the HTTP status equivalent to an error that was reported without one.
pub(crate) fn reported_status(refusal: &str) -> u16 {
    let problem = VendorProblem::parse_body(refusal);
    let code = problem.code.parse().ok().filter(|code| (400..600).contains(code));
    code.unwrap_or_else(|| match problem.kind.as_str() {
        "overloaded_error" | "rate_limit_error" | "timeout_error" => 503,
        _ => 400,
    })
}

/// Returns true for an error that reports nothing: `{}`, `null`, `""`, or fields without a value.
pub(crate) fn is_empty(error: &Value) -> bool {
    match error {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// Returns all texts of an error's JSON in lower case, one per line, for comparison with known messages of servers.
pub(crate) fn all_texts(body: &str) -> String {
    fn collect_texts(value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::String(text) => {
                // Gateways put the error of the server behind them into a text.
                match serde_json::from_str::<Value>(text) {
                    Ok(inner @ (Value::Object(_) | Value::Array(_))) if depth < 4 => {
                        collect_texts(&inner, depth + 1, out);
                    }
                    _ => out.push_str(text),
                }
                out.push('\n');
            }
            Value::Array(items) => items.iter().for_each(|item| collect_texts(item, depth, out)),
            Value::Object(fields) => {
                let place = checked_field(fields);
                if let Some((field, message)) = place {
                    out.push_str(&format!("{field}: {message}\n"));
                }
                for (name, value) in fields {
                    // The echoed request does not tell which part is refused.
                    if place.is_some() && name == "input" {
                        continue;
                    }
                    if value.is_number() && !["code", "status"].contains(&name.as_str()) {
                        out.push_str(&format!("{name} {value}\n"));
                    } else {
                        collect_texts(value, depth, out);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut out = String::new();
    match serde_json::from_str(body) {
        Ok(value) => collect_texts(&value, 0, &mut out),
        Err(_) => out.push_str(body),
    }
    out.to_lowercase()
}

/// Returns the field that a server checked against a schema, and its message: FastAPI's `loc` and `msg`.
fn checked_field(fields: &Map<String, Value>) -> Option<(&str, &str)> {
    let field = fields.get("loc")?.as_array()?.last()?.as_str()?;
    Some((field, fields.get("msg")?.as_str()?))
}

/// Classifies a connection error. Omits the address, which may be secret.
pub(crate) fn connection_failure(error: VendorConnectionError) -> StepError {
    unavailable_step(match &error {
        VendorConnectionError::Timeout => "it did not answer in time",
        VendorConnectionError::Unreadable => "its compressed answer cannot be read",
        VendorConnectionError::Connect(_) => connect_reason(&error),
        VendorConnectionError::Proxied(inner) if inner.is_timeout() => "it did not answer in time",
        VendorConnectionError::Proxied(inner) if inner.is_connect() => connect_reason(inner),
        VendorConnectionError::Broken(_) | VendorConnectionError::Proxied(_) => "the connection broke",
    })
}

/// Explains why no connection was made.
fn connect_reason(error: &dyn Error) -> &'static str {
    let mut source = error.source();
    while let Some(inner) = source {
        let words = inner.to_string();
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            match inner.kind() {
                io::ErrorKind::ConnectionRefused => return "it cannot be reached: the connection was refused",
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    return "it cannot be reached: no route to its host";
                }
                _ => {}
            }
        }
        if words.contains("dns error") || words.contains("failed to lookup address") {
            return "it cannot be reached: its host name cannot be resolved";
        }
        if words.contains("certificate") {
            return "it cannot be reached: its certificate is not trusted";
        }
        source = inner.source();
    }
    "it cannot be reached"
}

pub(crate) fn unavailable_step(reason: impl Into<String>) -> StepError {
    StepError::Unavailable { reason: truncate_reason(&reason.into()), retry_after: None }
}

/// Creates the error of a server that was waited for too long.
pub(crate) fn timed_out(reason: &str, had_begun: bool) -> StepError {
    StepError::TimedOut { reason: reason.to_owned(), had_begun }
}

pub(crate) fn rejected_step(reason: impl Into<String>) -> StepError {
    StepError::Rejected {
        refused: RefusedPart::Request,
        status: None,
        reason: truncate_reason(&reason.into()),
    }
}

/// Puts a text on one line and truncates it.
fn truncate_reason(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        if out.len() > 4 * REASON_MAX_CHARS {
            break;
        }
    }
    match out.char_indices().nth(REASON_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &out[..end]),
        None => out,
    }
}

/// Returns true for statuses that are worth a retry.
fn is_temporary(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error()
}

/// Reads the retry delay from the headers, in milliseconds, seconds or as a date, capped at [`RETRY_AFTER_MAX`].
pub(crate) fn retry_after_header(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let wait = header("retry-after-ms").and_then(|text| text.parse().ok()).map(|wait: f64| wait / 1000.0);
    let wait = wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match wait {
        Some(wait) => Some(wait.min(RETRY_AFTER_MAX)),
        None => retry_after::parse_retry_after(header("retry-after")?, now),
    }
}

/// Reads the retry delay from an error's details: `"retryDelay": "34s"`.
fn retry_delay(details: &Value) -> Option<Duration> {
    let delay = details.as_array()?.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    retry_after::parse_seconds(delay.strip_suffix('s')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_error(status: u16, body: &str) -> StepError {
        of_status(StatusCode::from_u16(status).unwrap(), Some(Duration::from_secs(2)), body, str::to_owned)
    }

    #[test]
    fn statuses_classify_temporary_or_permanent() {
        for code in [408, 409, 425, 429, 500, 502, 503, 504, 529] {
            let StepError::Unavailable { retry_after, .. } = status_error(code, "{}") else {
                panic!("{code}")
            };
            assert_eq!(retry_after, Some(Duration::from_secs(2)));
        }
        for code in [301, 400, 401, 402, 403, 404, 422] {
            assert!(matches!(status_error(code, "<html>"), StepError::Rejected { .. }), "{code}");
        }
        let is_quota_exhausted =
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
        assert!(matches!(status_error(429, is_quota_exhausted), StepError::Rejected { .. }));
    }

    #[test]
    fn key_and_payment_errors_distinguished() {
        let refused = |code, body: &str| match status_error(code, body) {
            StepError::Rejected { refused, .. } => refused,
            other => panic!("{code} {body}: {other}"),
        };
        for (code, body, expected) in [
            (401, "", RefusedPart::Key),
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided: sk","code":"invalid_api_key"}}"#,
                RefusedPart::Key,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}"#,
                RefusedPart::Key,
            ),
            (403, "<html>Forbidden</html>", RefusedPart::Key),
            (
                403,
                r#"{"error":{"type":"permission_error","message":"Your API key lacks permission"}}"#,
                RefusedPart::Key,
            ),
            (403, r#"{"error":{"message":"Your input was flagged by moderation"}}"#, RefusedPart::Request),
            (
                403,
                r#"{"error":{"message":"Project has no access to model x","code":"model_not_found"}}"#,
                RefusedPart::Request,
            ),
            (
                403,
                r#"{"error":{"message":"Country, region, or territory not supported"}}"#,
                RefusedPart::Request,
            ),
            (402, "", RefusedPart::Payment),
            (402, r#"{"error":{"message":"Insufficient Balance"}}"#, RefusedPart::Payment),
            (429, r#"{"error":{"message":"m","code":"insufficient_quota"}}"#, RefusedPart::Payment),
            (429, r#"{"error":{"message":"m","type":"exceeded_current_quota_error"}}"#, RefusedPart::Payment),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
                RefusedPart::Payment,
            ),
            (
                400,
                r#"{"error":{"message":"messages: at least one message is required"}}"#,
                RefusedPart::Request,
            ),
            (404, r#"{"error":{"message":"no such model"}}"#, RefusedPart::Request),
        ] {
            assert_eq!(refused(code, body), expected, "{code} {body}");
        }
        for (body, expected) in [
            (r#"{"error":{"type":"authentication_error","message":"m"}}"#, RefusedPart::Key),
            (r#"{"error":{"code":402,"message":"m"}}"#, RefusedPart::Payment),
            (r#"{"error":{"type":"billing_error","message":"m"}}"#, RefusedPart::Payment),
            (r#"{"error":{"type":"invalid_request_error","message":"m"}}"#, RefusedPart::Request),
        ] {
            assert!(
                matches!(in_stream(body), StepError::Rejected { refused, .. } if refused == expected),
                "{body}"
            );
        }
    }

    #[test]
    fn retry_after_read_in_every_form() {
        let wait = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after_header(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770))
        };
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(wait("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "Tue, 06 Nov 1984 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("retry-after", "999999999"), Some(RETRY_AFTER_MAX));
        for nonsense in ["", "-1", "soon", "NaN", "inf"] {
            assert_eq!(wait("retry-after", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn retry_after_read_from_body() {
        let body = r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[
            {"@type":"type.googleapis.com/google.rpc.QuotaFailure"},
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
        let error = of_status(StatusCode::TOO_MANY_REQUESTS, None, body, str::to_owned);
        let StepError::Unavailable { retry_after, .. } = error else { panic!("{error}") };
        assert_eq!(retry_after, Some(Duration::from_millis(34_500)));
    }

    #[test]
    fn too_long_recognized_in_all_wordings() {
        for body in [
            r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","code":400}"#,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            r#"[{"error":{"message":"prompt is too long"}}]"#,
            r#"{"object":"error","message":"max_tokens must be at least 1, got -186.","code":400}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 1 + 2 > 2"}}"#,
            r#"{"error":{"code":400,"message":"The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            r#"{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":null}}"#,
        ] {
            assert_eq!(status_error(400, body), StepError::TooLong, "{body}");
        }
        assert_eq!(status_error(413, ""), StepError::TooLong);
        // A gateway may mix the fields of two vendors.
        let both =
            r#"{"error":{"type":"exceed_context_size_error","status":"INVALID_ARGUMENT","message":7}}"#;
        assert_eq!(status_error(400, both), StepError::TooLong);
    }

    #[test]
    fn common_word_key_keeps_classification() {
        let classify = |key: &str, message: &str| {
            let body = serde_json::json!({"error": {"message": message}}).to_string();
            let secret = domain::secret::Secret::new(key);
            of_status(StatusCode::BAD_REQUEST, None, &body, |text| secret.redact(text))
        };
        for key in ["context", "length", "t", "context length"] {
            assert_eq!(classify(key, "maximum context length is 4096"), StepError::TooLong, "{key}");
        }
        // No part of a key is left where the reason is cut.
        let message = format!("{} a-very-secret-key", "x".repeat(REASON_MAX_CHARS - 10));
        let StepError::Rejected { reason, .. } = classify("a-very-secret-key", &message) else { panic!() };
        assert!(!reason.contains("a-ve"), "{reason}");
    }

    #[test]
    fn reason_bounded_to_one_line() {
        let StepError::Rejected { reason, status: Some(400), .. } =
            status_error(400, &format!("a\nb{}", "x".repeat(10_000)))
        else {
            panic!()
        };
        assert!(reason.chars().count() <= 301 && !reason.contains('\n'), "{reason}");
    }

    #[test]
    fn in_stream_errors_classified() {
        assert!(matches!(in_stream(r#"{"error":"it broke"}"#), StepError::Unavailable { .. }));
        assert!(matches!(in_stream(r#"{"error":{"code":503}}"#), StepError::Unavailable { .. }));
        assert!(matches!(in_stream(r#"{"error":{"code":400}}"#), StepError::Rejected { .. }));
        assert!(matches!(in_stream("null"), StepError::Unavailable { .. }));
    }

    #[test]
    fn parse_reported_skips_answer_parts() {
        for reported_error in [
            r#"{"error":{"message":"m"}}"#,
            r#"{"error":"it broke","choices":[]}"#,
            r#"{"code":500,"message":"provider down"}"#,
            r#"{"detail":"Internal error"}"#,
            r#"{"detail":[{"loc":["body"],"msg":"m"}]}"#,
        ] {
            assert!(parse_reported(reported_error).is_some(), "{reported_error}");
        }
        for none in [
            r#"{"error":{},"choices":[]}"#,
            r#"{"error":null}"#,
            r#"{"error":{"code":null,"message":""}}"#,
            r#"{"message":{"usage":{}},"type":"message_start"}"#,
            "[]",
        ] {
            assert_eq!(parse_reported(none), None, "{none}");
        }
    }
}
