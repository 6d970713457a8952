//! Renders schemas: the type of a field, its bounds, and its fields in order.

use std::fmt::Write;

use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};

use super::DocumentationPage;
use super::text::{Description, DescriptionLine, Plain};

/// Returns the name of a referenced schema.
fn referenced_schema_name(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.rsplit('/').next()
}

/// Describes a schema in a few words, with links to the schemas that it references.
pub(super) fn describe_schema(schema: &Value) -> String {
    if let Some(name) = referenced_schema_name(schema) {
        return format!("<a href=\"#schema-{0}\">{0}</a>", Plain(name));
    }
    if let Some(shapes) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array) {
        return shapes.iter().map(describe_schema).collect::<Vec<_>>().join(" or ");
    }
    let types = match &schema["type"] {
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        one => Vec::from_iter(one.as_str()),
    };
    let words = types.into_iter().map(|word| match word {
        "array" => schema
            .get("items")
            .map_or("array".to_owned(), |items| format!("array of {}", describe_schema(items))),
        "string" => schema.get("format").and_then(Value::as_str).unwrap_or("string").to_owned(),
        other => other.to_owned(),
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// Renders the bounds of a value, its enumerated words, and its default.
fn render_bounds(schema: &Value) -> String {
    let mut out = String::new();
    for (word, label) in [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("minLength", "shortest"),
        ("maxLength", "longest"),
        ("minItems", "fewest"),
        ("maxItems", "most"),
        ("default", "default"),
    ] {
        if let Some(value) = schema.get(word) {
            let _ = write!(out, "<br><small>{label} <code>{}</code></small>", Plain(value));
        }
    }
    let words = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<String> =
        words.filter_map(Value::as_str).map(|word| format!("<code>{}</code>", Plain(word))).collect();
    if !words.is_empty() {
        let _ = write!(out, "<br><small>{}</small>", words.join(" "));
    }
    out
}

/// Renders a row of a table of parameters or fields.
pub(super) fn render_field_row(
    name: &str,
    place: &str,
    required: bool,
    schema: &Value,
    description: &str,
) -> String {
    let required = if required { "<br><small>required</small>" } else { "" };
    let place = if place.is_empty() { String::new() } else { format!("<br><small>{}</small>", Plain(place)) };
    format!(
        "<tr><th scope=\"row\"><code>{}</code>{place}{required}</th><td>{}{}</td><td>{}</td></tr>",
        Plain(name),
        describe_schema(schema),
        render_bounds(schema),
        DescriptionLine(description)
    )
}

impl DocumentationPage<'_> {
    /// Renders every named schema.
    pub(super) fn render_schemas(&self) -> String {
        let Some(components) = &self.document.components else { return String::new() };
        components.schemas.keys().map(|name| self.render_schema(name)).collect()
    }

    fn render_schema(&self, name: &str) -> String {
        let json = &self.json["components"]["schemas"][name];
        let mut out = format!(
            "<article id=\"schema-{0}\"><h3><a href=\"#schema-{0}\">{0}</a></h3>{1}",
            Plain(name),
            Description(json["description"].as_str().unwrap_or_default())
        );
        let fields = self.render_fields(&json!({"$ref": format!("#/components/schemas/{name}")}));
        if fields.is_empty() {
            let _ = write!(out, "<p>{}{}</p>", describe_schema(json), render_bounds(json));
        }
        out.push_str(&fields);
        out.push_str("</article>");
        out
    }

    /// Renders a table of the fields of a named schema, in their order; empty if the schema has no fields.
    pub(super) fn render_fields(&self, reference: &Value) -> String {
        let components = self.document.components.as_ref();
        let named = referenced_schema_name(reference).and_then(|name| components?.schemas.get(name));
        let Some(RefOr::T(Schema::Object(object))) = named else { return String::new() };
        if object.properties.is_empty() {
            return String::new();
        }
        let json = self.resolve_reference(reference);
        let mut out = String::from("<table>");
        for field in object.properties.keys() {
            let of_field = &json["properties"][field];
            let description = of_field["description"].as_str().unwrap_or_default();
            out.push_str(&render_field_row(
                field,
                "",
                object.required.contains(field),
                of_field,
                description,
            ));
        }
        out.push_str("</table>");
        out
    }
}
