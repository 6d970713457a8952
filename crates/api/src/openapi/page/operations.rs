//! Renders the operations: their calls, inputs and responses.

use std::fmt::Write;

use serde_json::Value;

use super::DocumentationPage;
use super::placed_operation::PlacedOperation;
use super::samples::render_samples;
use super::shapes::{describe_schema, render_field_row};
use super::text::{Description, DescriptionLine, Plain};

impl<'a> DocumentationPage<'a> {
    /// Returns the operations of a tag, in the order of the document.
    pub(super) fn of_tag(&self, tag: &str) -> Vec<PlacedOperation<'a>> {
        let paths = self.document.paths.paths.iter();
        let all = paths.flat_map(|(path, item)| {
            let methods =
                [("GET", &item.get), ("POST", &item.post), ("PATCH", &item.patch), ("DELETE", &item.delete)];
            methods.into_iter().filter_map(move |(method, operation)| {
                Some(PlacedOperation { method, path, operation: operation.as_ref()? })
            })
        });
        all.filter(|one| one.operation.tags.iter().flatten().any(|own| own == tag)).collect()
    }

    /// Renders an operation: its description on one side, samples of its call and response on the other.
    pub(super) fn render_operation(&self, placed: &PlacedOperation<'_>) -> String {
        let operation = &self.json["paths"][placed.path][placed.method.to_lowercase()];
        let mut out = format!(
            "<article id=\"{0}\" class=\"operation\"><h3><a href=\"#{0}\">{1}</a></h3>\
             <p class=\"call\"><b class=\"{2}\">{2}</b> <code>{3}</code></p><div class=\"example\">{4}",
            Plain(placed.id()),
            Plain(placed.summary()),
            placed.method,
            Plain(placed.path),
            render_samples(placed, operation),
        );
        self.render_success(operation, &mut out);
        out.push_str(&self.render_try_form(placed, operation));
        out.push_str("</div><div class=\"text\">");
        out.push_str(&Description(placed.operation.description.as_deref().unwrap_or_default()).to_string());
        render_parameters(operation, &mut out);
        if let Some(body) = operation.get("requestBody") {
            out.push_str("<h4>Body</h4>");
            self.render_request_body(body, &mut out);
        }
        out.push_str("<h4>Responses</h4>");
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            self.render_response(status, response, &mut out);
        }
        out.push_str("</div></article>");
        out
    }

    /// Renders the example of the first success.
    fn render_success(&self, operation: &Value, out: &mut String) {
        let Some((status, response)) = operation["responses"].as_object().and_then(|all| all.iter().next())
        else {
            return;
        };
        let response = self.resolve_reference(response);
        let content = response.get("content").and_then(Value::as_object).and_then(|all| all.values().next());
        let examples = content.and_then(|content| content.get("examples")?.as_object()?.values().next_back());
        let example =
            examples.map(|one| &one["value"]).or(content.and_then(|content| content.get("example")));
        let _ =
            write!(out, "<figure><figcaption><b class=\"s2\">{}</b> Response</figcaption>", Plain(status));
        match example {
            Some(example) => render_example(example, out),
            None => {
                let description = response["description"].as_str().unwrap_or_default();
                let _ = write!(out, "<p>{}</p>", DescriptionLine(description));
            }
        }
        out.push_str("</figure>");
    }

    /// Renders the fields of a request's body.
    fn render_request_body(&self, body: &Value, out: &mut String) {
        for (media, content) in body["content"].as_object().into_iter().flatten() {
            let _ =
                write!(out, "<p><code>{}</code> {}</p>", Plain(media), describe_schema(&content["schema"]));
            out.push_str(&self.render_fields(&content["schema"]));
            let examples = content.get("examples").and_then(Value::as_object).into_iter().flatten();
            for (name, example) in examples {
                let _ = write!(out, "<details><summary>Example: {}</summary>", Plain(name));
                render_example(&example["value"], out);
                out.push_str("</details>");
            }
        }
    }

    /// Returns the value itself, or the target of its `$ref`.
    pub(super) fn resolve_reference<'b>(&'b self, value: &'b Value) -> &'b Value {
        let reference = value.get("$ref").and_then(Value::as_str);
        let there = reference.and_then(|reference| self.json.pointer(reference.trim_start_matches('#')));
        there.unwrap_or(value)
    }

    fn render_response(&self, status: &str, response: &Value, out: &mut String) {
        let response = self.resolve_reference(response);
        let description = response["description"].as_str().unwrap_or_default();
        let class = status.get(..1).unwrap_or_default();
        let _ = write!(out, "<details><summary><b class=\"s{class}\">{}</b> ", Plain(status));
        match description.strip_prefix("- ") {
            // Shows the names of several codes first, and their meanings below.
            Some(list) => {
                let codes = list.split("\n- ").filter_map(|line| line.split_once(": ")).map(|(code, _)| code);
                let _ = write!(
                    out,
                    "{}</summary>{}",
                    DescriptionLine(&codes.collect::<Vec<_>>().join(" ")),
                    Description(description)
                );
            }
            None => {
                let _ = write!(out, "{}</summary>", DescriptionLine(description));
            }
        }
        if let Some(headers) = response.get("headers").and_then(Value::as_object) {
            out.push_str("<table>");
            for (name, header) in headers {
                let header = self.resolve_reference(header);
                let description = header["description"].as_str().unwrap_or_default();
                out.push_str(&render_field_row(name, "header", false, &header["schema"], description));
            }
            out.push_str("</table>");
        }
        render_media_types(response, out);
        out.push_str("</details>");
    }
}

fn render_parameters(operation: &Value, out: &mut String) {
    let Some(parameters) = operation.get("parameters").and_then(Value::as_array) else { return };
    out.push_str("<h4>Parameters</h4><table>");
    for one in parameters {
        let text = |field: &str| one[field].as_str().unwrap_or_default();
        let required = one["required"] == true;
        out.push_str(&render_field_row(
            text("name"),
            text("in"),
            required,
            &one["schema"],
            text("description"),
        ));
    }
    out.push_str("</table>");
}

/// Renders the media types of a body, each with its schema and examples.
fn render_media_types(message: &Value, out: &mut String) {
    for (media, content) in message.get("content").and_then(Value::as_object).into_iter().flatten() {
        let _ = write!(out, "<p><code>{}</code> {}</p>", Plain(media), describe_schema(&content["schema"]));
        if let Some(example) = content.get("example") {
            render_example(example, out);
        }
        for (name, example) in content.get("examples").and_then(Value::as_object).into_iter().flatten() {
            let _ = write!(out, "<p class=\"name\">{}</p>", Plain(name));
            render_example(&example["value"], out);
        }
    }
}

fn render_example(example: &Value, out: &mut String) {
    let text = match example {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let _ = write!(out, "<pre tabindex=\"0\"><code>{}</code></pre>", Plain(text));
}
