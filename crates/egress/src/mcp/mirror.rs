//! Mirrors parts of a request's body in its headers, as revision 2026-07-28 requires: the method, the name, and the
//! arguments that a tool's schema marks with `x-mcp-header`.
//!
//! The headers of a call are not longer than its arguments in base64, which are bounded.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The prefix of headers that carry arguments.
pub(super) const PARAM_PREFIX: &str = "mcp-param-";
/// The annotation of a property in a schema.
const ANNOTATION: &str = "x-mcp-header";
/// The delimiters of a base64 value.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// The reason why a tool's arguments cannot be mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidAnnotation {
    #[error("x-mcp-header is not the name of a header")]
    Name,
    #[error("x-mcp-header names are not unique")]
    Twice,
    #[error("x-mcp-header marks a property that is not a string, integer or boolean")]
    Type,
    #[error("x-mcp-header marks a value that is not reached by properties only")]
    Place,
}

/// Returns the headers that mirror a request.
pub(super) fn mirrored_request_headers(method: &str, params: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let name = params.get("name").and_then(Value::as_str).filter(|_| method == "tools/call");
    headers.extend(encode_header(method).map(|value| (METHOD, value)));
    headers.extend(name.and_then(encode_header).map(|value| (NAME, value)));
    headers
}

/// Returns the headers that mirror arguments of a tool with this schema.
///
/// # Errors
/// Fails if the schema is annotated incorrectly: the tool must not be offered.
pub(super) fn mirrored_argument_headers(
    schema: &Value,
    arguments: Option<&Value>,
) -> Result<HeaderMap, InvalidAnnotation> {
    let mut found = MirroredHeaders { names: HashSet::new(), headers: HeaderMap::new() };
    // The root is not a property.
    if schema.get(ANNOTATION).is_some() {
        return Err(InvalidAnnotation::Place);
    }
    found.add_object(schema, arguments)?;
    Ok(found.headers)
}

struct MirroredHeaders {
    names: HashSet<HeaderName>,
    headers: HeaderMap,
}

impl MirroredHeaders {
    fn add_object(&mut self, schema: &Value, value: Option<&Value>) -> Result<(), InvalidAnnotation> {
        let Some(schema) = schema.as_object() else { return Ok(()) };
        for (keyword, below) in schema {
            match (keyword.as_str(), below) {
                ("properties", Value::Object(properties)) => self.add_properties(properties, value)?,
                // These keywords hold values, not schemas.
                ("default" | "const" | "enum" | "examples", _) => {}
                _ if is_marked(below) => return Err(InvalidAnnotation::Place),
                _ => {}
            }
        }
        Ok(())
    }

    fn add_properties(
        &mut self,
        properties: &Map<String, Value>,
        value: Option<&Value>,
    ) -> Result<(), InvalidAnnotation> {
        for (name, schema) in properties {
            let value = value.and_then(|value| value.get(name));
            if let Some(annotation) = schema.get(ANNOTATION) {
                let kind = schema.get("type").and_then(Value::as_str);
                if !matches!(kind, Some("string" | "integer" | "boolean")) {
                    return Err(InvalidAnnotation::Type);
                }
                let header = annotation.as_str().filter(|header| !header.is_empty());
                let header = header.ok_or(InvalidAnnotation::Name)?;
                let header = HeaderName::from_bytes(format!("{PARAM_PREFIX}{header}").as_bytes())
                    .map_err(|_| InvalidAnnotation::Name)?;
                if !self.names.insert(header.clone()) {
                    return Err(InvalidAnnotation::Twice);
                }
                self.headers.extend(
                    value
                        .and_then(header_text)
                        .and_then(|text| encode_header(&text))
                        .map(|value| (header, value)),
                );
            }
            self.add_object(schema, value)?;
        }
        Ok(())
    }
}

/// Returns true if anything in this schema, or in these schemas, is annotated. Recursion is bounded by the JSON
/// parser.
fn is_marked(schema: &Value) -> bool {
    match schema {
        Value::Array(schemas) => schemas.iter().any(is_marked),
        Value::Object(schema) => schema.iter().any(|(keyword, below)| {
            let holds_values = matches!(keyword.as_str(), "default" | "const" | "enum" | "examples");
            keyword == ANNOTATION || !holds_values && is_marked(below)
        }),
        _ => false,
    }
}

fn header_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) => Some(value.to_string()),
        Value::Number(number) => match number.as_f64() {
            // An integer is formatted the same, however the model wrote it.
            Some(float) if number.is_f64() && float.fract() == 0.0 => Some(format!("{float:.0}")),
            _ => Some(number.to_string()),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Encodes a header value: verbatim if that is safe, otherwise in base64.
fn encode_header(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        && text.trim_matches([' ', '\t']).len() == text.len()
        && !text.is_empty()
        && !(text.starts_with(ENCODED.0) && text.ends_with(ENCODED.1));
    if is_plain {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::try_from(format!("{}{}{}", ENCODED.0, STANDARD.encode(text), ENCODED.1)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of the specification.
    #[test]
    fn values_are_plain_or_in_base64() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", "=?base64??="),
        ] {
            assert_eq!(encode_header(value).expect("a header"), header);
        }
    }

    #[test]
    fn mirrored_argument_headers_follow_schema() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "flag": { "type": "boolean", "x-mcp-header": "Flag" },
            "null": { "type": "string", "x-mcp-header": "Null" },
            "absent": { "type": "string", "x-mcp-header": "Absent" },
            "x-mcp-header": { "type": "string" },
            "nested": { "type": "object", "properties": { "deep": { "type": "string", "x-mcp-header": "Deep" } } }
        }});
        let given =
            json!({ "region": "eu", "count": 42.0, "flag": false, "null": null, "nested": { "deep": "x" } });
        let headers = mirrored_argument_headers(&schema, Some(&given)).expect("marked rightly");
        let text = |value: &HeaderValue| value.to_str().expect("text").to_owned();
        let mut found: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        found.sort_unstable();
        let all = [("count", "42"), ("deep", "x"), ("flag", "false"), ("region", "eu")];
        assert_eq!(found, all.map(|(name, value)| (format!("{PARAM_PREFIX}{name}"), value.to_owned())));
    }

    #[test]
    fn what_is_marked_wrongly_is_refused() {
        let of = |properties: Value| {
            mirrored_argument_headers(&json!({ "type": "object", "properties": properties }), None).err()
        };
        let marked = |name: &str| json!({ "type": "string", "x-mcp-header": name });
        for name in ["", "a b", "a:b", "a\r\nb", "č"] {
            assert_eq!(of(json!({ "a": marked(name) })), Some(InvalidAnnotation::Name), "{name:?}");
        }
        assert_eq!(
            of(json!({ "a": { "type": "string", "x-mcp-header": 7 } })),
            Some(InvalidAnnotation::Name)
        );
        assert_eq!(of(json!({ "a": marked("x"), "b": marked("X") })), Some(InvalidAnnotation::Twice));
        for kind in ["number", "array", "object", "null"] {
            assert_eq!(
                of(json!({ "a": { "type": kind, "x-mcp-header": "A" } })),
                Some(InvalidAnnotation::Type)
            );
        }
        for below in [
            json!({ "type": "array", "items": marked("A") }),
            json!({ "oneOf": [marked("A")] }),
            json!({ "type": "object", "additionalProperties": marked("A") }),
            json!({ "if": { "properties": { "x": marked("A") } } }),
        ] {
            assert_eq!(of(json!({ "a": below })), Some(InvalidAnnotation::Place), "{below}");
        }
        assert_eq!(mirrored_argument_headers(&marked("Root"), None), Err(InvalidAnnotation::Place));
        assert_eq!(of(json!({ "a": { "type": "string", "default": { "x-mcp-header": "A" } } })), None);
        assert_eq!(of(json!({ "a": 7 })), None);
    }
}
