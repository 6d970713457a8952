//! Examples of bodies, composed of the examples of their fields.

use serde_json::{Map, Value};
use utoipa::openapi::{Content, OpenApi, RefOr};

/// The maximum nesting of schemas.
const DEPTH_MAX: usize = 16;

/// Adds an example to each body without one.
pub(super) fn add_examples(document: &mut OpenApi) {
    let json = serde_json::to_value(&*document).expect("the schema holds nothing that JSON cannot");
    for operation in super::operations_mut(document) {
        if let Some(RefOr::T(body)) = &mut operation.request_body {
            set_missing_examples(&json, body.content.values_mut());
        }
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                set_missing_examples(&json, response.content.values_mut());
            }
        }
    }
}

fn set_missing_examples<'a>(json: &Value, contents: impl Iterator<Item = &'a mut RefOr<Content>>) {
    for content in contents {
        if let RefOr::T(content) = content
            && content.example.is_none()
            && content.examples.is_empty()
            && let Some(schema) = &content.schema
            && let Ok(schema) = serde_json::to_value(schema)
        {
            content.example = schema_example(json, &schema, DEPTH_MAX);
        }
    }
}

/// Returns an example of a schema; `None` if its fields have none, such as the content of a file.
fn schema_example(json: &Value, schema: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return schema_example(json, json.pointer(reference.trim_start_matches('#'))?, depth);
    }
    if let Some(shown) = schema.pointer("/examples/0").or(schema.pointer("/oneOf/0/examples/0")) {
        return Some(shown.clone());
    }
    if let Some(items) = schema.get("items") {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).max(1);
        let item = schema_example(json, items, depth)?;
        return Some(Value::Array((0..least).map(|_| item.clone()).collect()));
    }
    if let Some(first) = schema.pointer("/oneOf/0") {
        return schema_example(json, first, depth);
    }
    let properties = schema.get("properties")?.as_object()?;
    let shown = properties
        .iter()
        .filter_map(|(name, field)| Some((name.clone(), schema_example(json, field, depth)?)));
    Some(Value::Object(shown.collect::<Map<_, _>>()))
}
