//! Finds errors that JSON reports where a part of an answer is expected, and their texts.

use domain::step::StepError;
use serde_json::{Map, Value};

use super::problem::VendorProblem;
use super::{ERROR_BODY_MAX_BYTES, in_stream};

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

/// Returns the status that an error without one of HTTP stands for.
pub(crate) fn reported_status(refusal: &str) -> u16 {
    let problem = VendorProblem::parse_body(refusal);
    let code = problem.code.parse().ok().filter(|code| (400..600).contains(code));
    code.unwrap_or(match problem.kind.as_str() {
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

/// Returns all texts of an error's JSON, one a line, for comparison with what servers are known to say: in small letters.
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
                    // What was sent says nothing about what is refused.
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

/// Returns the field that a server checked against a schema, and what it says about it: FastAPI's `loc` and `msg`.
fn checked_field(fields: &Map<String, Value>) -> Option<(&str, &str)> {
    let field = fields.get("loc")?.as_array()?.last()?.as_str()?;
    Some((field, fields.get("msg")?.as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

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
