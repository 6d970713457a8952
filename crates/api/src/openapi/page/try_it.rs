//! The forms by which a reader tries calls. They are hidden, and do nothing, without the page's script.

use std::fmt::Write;

use serde_json::Value;

use super::DocumentationPage;
use super::placed_operation::PlacedOperation;
use super::samples::body_example;
use super::text::Plain;

impl DocumentationPage<'_> {
    /// Renders the form of an operation.
    pub(super) fn render_try_form(&self, placed: &PlacedOperation<'_>, operation: &Value) -> String {
        let body = operation.pointer("/requestBody/content").and_then(Value::as_object);
        let multipart = body.and_then(|body| body.get("multipart/form-data"));
        let form = if multipart.is_some() { " data-form" } else { "" };
        let mut out = format!(
            "<form class=\"try\" data-scripted hidden data-method=\"{}\" data-path=\"{}\"{form}>\
             <details><summary>Try it</summary>",
            placed.method,
            Plain(placed.path),
        );
        for one in operation["parameters"].as_array().into_iter().flatten() {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            let required = one["required"] == true;
            render_input(text("name"), text("in"), "text", required, &one["example"], &mut out);
        }
        if let Some(content) = multipart {
            let schema = self.resolve_reference(&content["schema"]);
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let is_file = field["format"] == "binary";
                let (place, kind) = if is_file { ("file", "file") } else { ("form", "text") };
                render_input(name, place, kind, is_file, &content["example"][name], &mut out);
            }
        } else if let Some(content) = body.and_then(|body| body.get("application/json")) {
            let example = serde_json::to_string_pretty(body_example(content)).unwrap_or_default();
            let rows = example.lines().count() + 1;
            let _ = write!(
                out,
                "<label>Body<textarea data-in=\"json\" rows=\"{rows}\" spellcheck=\"false\">{}</textarea></label>",
                Plain(example)
            );
        }
        out.push_str(
            "<p><button type=\"submit\">Send</button> <button type=\"button\" hidden>Stop</button></p>\
             <pre class=\"result\" aria-live=\"polite\" tabindex=\"0\"></pre></details></form>",
        );
        out
    }
}

fn render_input(name: &str, place: &str, kind: &str, required: bool, example: &Value, out: &mut String) {
    let example = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
    let required = if required { " required" } else { "" };
    let hint = if kind == "file" || example == "null" {
        String::new()
    } else {
        format!(" placeholder=\"{}\"", Plain(example))
    };
    let _ = write!(
        out,
        "<label><span>{0} <small>{place}</small></span>\
         <input name=\"{0}\" data-in=\"{place}\" type=\"{kind}\"{hint}{required} autocomplete=\"off\" spellcheck=\"false\"></label>",
        Plain(name)
    );
}
