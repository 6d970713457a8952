//! Parses the error objects of vendors' servers.

use std::time::Duration;

use domain::retry_after;
use domain::step::RefusedPart;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::Value;

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
    #[serde(default)]
    status: Value,
    /// Contains Google's retry delay.
    #[serde(default)]
    details: Value,
}

/// An error as a server reports it.
pub(super) struct VendorProblem {
    message: String,
    pub(super) code: String,
    pub(super) kind: String,
    /// The retry delay in the body.
    pub(super) retry_after: Option<Duration>,
}

impl VendorProblem {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, the inner object itself, or plain text.
    pub(super) fn parse_body(body: &str) -> Self {
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

    pub(super) fn is_too_long(&self) -> bool {
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
                // What is left of the window is negative.
                "max_tokens must be at least 1",
                "max_completion_tokens must be at least 1",
            ]
            .iter()
            .any(|phrase| message.contains(phrase))
    }

    /// Returns true for the codes of an account without credit.
    pub(super) fn is_unpaid_code(&self) -> bool {
        [&self.code, &self.kind].iter().any(|text| UNPAID_CODES.contains(&text.as_str()))
    }

    /// Tells what a permanent error does not accept: a key and money are matters of the operator, never of the question.
    pub(super) fn classify_refusal(&self, status: Option<StatusCode>) -> RefusedPart {
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

    pub(super) fn reason_or(&self, default: &str) -> String {
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

/// Reads the retry delay from an error's details: `"retryDelay": "34s"`.
fn retry_delay(details: &Value) -> Option<Duration> {
    let delay = details.as_array()?.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    retry_after::parse_seconds(delay.strip_suffix('s')?)
}
