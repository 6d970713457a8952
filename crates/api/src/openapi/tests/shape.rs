//! Validates JSON against schemas of the document. Supports only the keywords of JSON Schema that the document uses;
//! an unknown keyword is an error, so that nothing passes unchecked.

use domain::id::ConversationId;
use serde_json::{Map, Value};

/// Keywords without an effect on validity.
const ANNOTATIONS: [&str; 6] = ["description", "title", "examples", "default", "discriminator", "deprecated"];

/// Checks a value against a schema and describes the first mismatch. If the schema has `properties`, other fields are
/// errors.
pub(super) fn check_value(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolve_schema(document, schema)?;
    let keywords = schema.as_object().ok_or("the schema is no object")?;
    for (keyword, wanted) in keywords.iter().filter(|(keyword, _)| !ANNOTATIONS.contains(&keyword.as_str())) {
        let holds = match keyword.as_str() {
            "type" => is_type(wanted, value),
            "enum" => wanted.as_array().is_some_and(|values| values.contains(value)),
            "format" => value.as_str().is_none_or(|text| has_format(wanted, text)),
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= wanted.as_f64()),
            "minLength" => text_length(value).is_none_or(|length| Some(length) >= wanted.as_u64()),
            "maxLength" => text_length(value).is_none_or(|length| Some(length) <= wanted.as_u64()),
            "minItems" => item_count(value).is_none_or(|items| Some(items) >= wanted.as_u64()),
            "maxItems" => item_count(value).is_none_or(|items| Some(items) <= wanted.as_u64()),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check_value(document, wanted, item).map_err(|error| format!("{index}/{error}"))?;
                }
                true
            }
            "required" => value.as_object().is_none_or(|fields| has_all(wanted, fields)),
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    let wanted = wanted.get(name).ok_or(format!("{name} is not documented"))?;
                    check_value(document, wanted, field).map_err(|error| format!("{name}/{error}"))?;
                }
                true
            }
            // `properties` refuses all others.
            "additionalProperties" => *wanted == Value::Bool(false) && keywords.contains_key("properties"),
            "oneOf" => {
                let shapes = wanted.as_array().into_iter().flatten();
                let wrong: Vec<String> =
                    shapes.clone().filter_map(|shape| check_value(document, shape, value).err()).collect();
                if wrong.len() + 1 != shapes.count() {
                    return Err(format!("not exactly one of the shapes: {wrong:?}"));
                }
                true
            }
            "anyOf" => {
                let mut shapes = wanted.as_array().into_iter().flatten();
                shapes.any(|shape| check_value(document, shape, value).is_ok())
            }
            other => return Err(format!("nobody looks at {other}")),
        };
        if !holds {
            return Err(format!("{keyword} {wanted} does not hold for {value}"));
        }
    }
    Ok(())
}

/// Returns the schema itself, or the target of its `$ref`.
pub(super) fn resolve_schema<'a>(document: &'a Value, schema: &'a Value) -> Result<&'a Value, String> {
    let Some(reference) = schema.get("$ref").and_then(Value::as_str) else { return Ok(schema) };
    let pointer = reference.trim_start_matches('#');
    document.pointer(pointer).ok_or(format!("{reference} leads nowhere"))
}

fn is_type(wanted: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    match wanted {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => false,
    }
}

fn has_format(wanted: &Value, text: &str) -> bool {
    match wanted.as_str() {
        Some("uuid") => text.parse::<ConversationId>().is_ok() && text.len() == 36,
        Some("date-time") => {
            let shape: String =
                text.chars().map(|one| if one.is_ascii_digit() { '0' } else { one }).collect();
            shape == "0000-00-00T00:00:00.000Z"
        }
        Some("uri") => text.contains("://"),
        // Guaranteed by the type of numbers, and by the nature of file content.
        Some("int32" | "int64" | "binary") => true,
        _ => false,
    }
}

fn text_length(value: &Value) -> Option<u64> {
    value.as_str().map(|text| text.chars().count() as u64)
}

fn item_count(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

fn has_all(wanted: &Value, fields: &Map<String, Value>) -> bool {
    let names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.into_iter().all(|name| fields.contains_key(name))
}
