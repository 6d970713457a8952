//! Renders the operations: their calls, inputs and responses.

use std::fmt::Write;

use serde_json::Value;
use utoipa::openapi::path::Operation;

use super::DocumentationPage;
use super::shapes::{kind, row};
use super::text::{Description, Line, Plain};

/// An operation with its method and path.
pub(super) struct Placed<'a> {
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    operation: &'a Operation,
}

impl<'a> Placed<'a> {
    pub(super) fn id(&self) -> &'a str {
        self.operation.operation_id.as_deref().unwrap_or_default()
    }

    pub(super) fn summary(&self) -> &'a str {
        self.operation.summary.as_deref().unwrap_or_default()
    }
}

impl<'a> DocumentationPage<'a> {
    /// Returns the operations of a tag, in the order of the document.
    pub(super) fn of_tag(&self, tag: &str) -> Vec<Placed<'a>> {
        let paths = self.document.paths.paths.iter();
        let all = paths.flat_map(|(path, item)| {
            let methods =
                [("GET", &item.get), ("POST", &item.post), ("PATCH", &item.patch), ("DELETE", &item.delete)];
            methods.into_iter().filter_map(move |(method, operation)| {
                Some(Placed { method, path, operation: operation.as_ref()? })
            })
        });
        all.filter(|one| one.operation.tags.iter().flatten().any(|own| own == tag)).collect()
    }

    pub(super) fn operation(&self, placed: &Placed<'_>) -> String {
        let operation = &self.json["paths"][placed.path][placed.method.to_lowercase()];
        let mut out = format!(
            "<article id=\"{0}\"><h3><a href=\"#{0}\">{1}</a></h3>\
             <p class=\"call\"><b class=\"{2}\">{2}</b> <code>{3}</code></p>{4}",
            Plain(placed.id()),
            Plain(placed.summary()),
            placed.method,
            Plain(placed.path),
            Description(placed.operation.description.as_deref().unwrap_or_default()),
        );
        let _ = write!(out, "<pre><code>{}</code></pre>", Plain(called(placed, operation)));
        parameters(operation, &mut out);
        if let Some(body) = operation.get("requestBody") {
            out.push_str("<h4>Body</h4>");
            contents(body, &mut out);
        }
        out.push_str("<h4>Responses</h4>");
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            self.response(status, response, &mut out);
        }
        out.push_str("</article>");
        out
    }

    /// Returns the value itself, or the target of its `$ref`.
    fn resolved<'b>(&'b self, value: &'b Value) -> &'b Value {
        let reference = value.get("$ref").and_then(Value::as_str);
        let there = reference.and_then(|reference| self.json.pointer(reference.trim_start_matches('#')));
        there.unwrap_or(value)
    }

    fn response(&self, status: &str, response: &Value, out: &mut String) {
        let response = self.resolved(response);
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
                    Line(&codes.collect::<Vec<_>>().join(" ")),
                    Description(description)
                );
            }
            None => {
                let _ = write!(out, "{}</summary>", Line(description));
            }
        }
        if let Some(headers) = response.get("headers").and_then(Value::as_object) {
            out.push_str("<table>");
            for (name, header) in headers {
                let header = self.resolved(header);
                let description = header["description"].as_str().unwrap_or_default();
                out.push_str(&row(name, "header", false, &header["schema"], description));
            }
            out.push_str("</table>");
        }
        contents(response, out);
        out.push_str("</details>");
    }
}

fn parameters(operation: &Value, out: &mut String) {
    let Some(parameters) = operation.get("parameters").and_then(Value::as_array) else { return };
    out.push_str("<h4>Parameters</h4><table>");
    for one in parameters {
        let text = |field: &str| one[field].as_str().unwrap_or_default();
        let required = one["required"] == true;
        out.push_str(&row(text("name"), text("in"), required, &one["schema"], text("description")));
    }
    out.push_str("</table>");
}

/// Renders the media types of a body, each with its schema and examples.
fn contents(message: &Value, out: &mut String) {
    for (media, content) in message.get("content").and_then(Value::as_object).into_iter().flatten() {
        let _ = write!(out, "<p><code>{}</code> {}</p>", Plain(media), kind(&content["schema"]));
        if let Some(example) = content.get("example") {
            shown(example, out);
        }
        for (name, example) in content.get("examples").and_then(Value::as_object).into_iter().flatten() {
            let _ = write!(out, "<p class=\"name\">{}</p>", Plain(name));
            shown(&example["value"], out);
        }
    }
}

fn shown(example: &Value, out: &mut String) {
    let text = match example {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let _ = write!(out, "<pre><code>{}</code></pre>", Plain(text));
}

/// Returns the call of the operation with `curl`.
fn called(placed: &Placed<'_>, operation: &Value) -> String {
    let parameters = || operation["parameters"].as_array().into_iter().flatten();
    let example = |one: &Value| one["example"].as_str().map_or(one["example"].to_string(), str::to_owned);
    let path = parameters().filter(|one| one["in"] == "path").fold(placed.path.to_owned(), |path, one| {
        path.replace(&format!("{{{}}}", one["name"].as_str().unwrap_or_default()), &example(one))
    });
    let query: Vec<String> = parameters()
        .filter(|one| one["in"] == "query")
        .map(|one| format!("{}={}", one["name"].as_str().unwrap_or_default(), example(one)))
        .collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let mut out = String::from("curl");
    if operation.pointer("/responses/200/content/text~1event-stream").is_some() {
        out.push_str(" -N");
    }
    if operation.pointer("/responses/200/content/*~1*").is_some() {
        out.push_str(" -O");
    }
    let body = operation
        .pointer("/requestBody/content")
        .and_then(Value::as_object)
        .and_then(|all| all.iter().next());
    if placed.method != "GET" && !(placed.method == "POST" && body.is_some()) {
        let _ = write!(out, " -X {}", placed.method);
    }
    let _ = write!(out, " -H \"X-Api-Key: $KEY\" \"$URL{path}{query}\"");
    match body {
        Some((media, content)) if media.starts_with("multipart/") => {
            out.push_str(" \\\n  -F file=@lease.pdf");
            if let Some(folder) = content.pointer("/example/destination").and_then(Value::as_str) {
                let _ = write!(out, " -F destination={folder}");
            }
        }
        Some((_, content)) => {
            let examples = content.get("examples").and_then(Value::as_object);
            let first = examples.and_then(|all| all.get("simple")).map(|one| &one["value"]);
            let _ = write!(out, " \\\n  -d '{}'", first.unwrap_or(&content["example"]));
        }
        None => {}
    }
    out
}
