//! Classifies the failures of vendors' servers as [`StepError`]s.

mod problem;
mod reported;

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use domain::retry_after::{self, RETRY_AFTER_MAX};
use domain::step::{RefusedPart, StepError};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::connection::VendorConnectionError;
use problem::VendorProblem;
pub(crate) use reported::{all_texts, is_empty, parse_reported, reported_refusal, reported_status};

/// Longer reasons are truncated.
const REASON_MAX_CHARS: usize = 300;
/// Limits how much of an error response is read.
pub(crate) const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;

/// Classifies a response by its status and body. `redact` removes the key from what is shown of the body; what the server
/// means is read before, because a key may be a word of it.
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
}
