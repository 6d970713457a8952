//! Samples of each operation: `curl` from the document, Python and TypeScript from `samples.txt`.

use std::fmt::Write;

use serde_json::Value;

use super::placed_operation::PlacedOperation;
use super::text::Plain;

const SAMPLES: &str = include_str!("samples.txt");
/// The address of the service in the samples.
const ADDRESS: &str = "http://127.0.0.1:8080";
/// The languages besides `curl`: their names in the file, and on the page.
pub(super) const LANGUAGES: [(&str, &str); 2] = [("python", "Python"), ("typescript", "TypeScript")];

/// Renders the samples of an operation, one figure for each language.
pub(super) fn render_samples(placed: &PlacedOperation<'_>, operation: &Value) -> String {
    render_figures(placed.id(), &curl_call(placed, operation))
}

/// Renders the samples at the top of the page, which create a client.
pub(super) fn render_overview() -> String {
    render_guide_samples("overview")
}

/// Renders the samples of a guide, which has one in `curl` too.
pub(super) fn render_guide_samples(id: &str) -> String {
    render_figures(id, find_sample(id, "curl").unwrap_or_default())
}

fn render_figures(id: &str, curl: &str) -> String {
    let mut out = String::from("<div class=\"samples\">");
    render_figure("curl", "curl", curl, &mut out);
    for (language, name) in LANGUAGES {
        if let Some(code) = find_sample(id, language) {
            render_figure(language, name, code, &mut out);
        }
    }
    out.push_str("</div>");
    out
}

fn render_figure(language: &str, name: &str, code: &str, out: &mut String) {
    // The script writes the address of the service that shows the page.
    let code = Plain(code).to_string().replace(ADDRESS, &format!("<span data-origin>{ADDRESS}</span>"));
    let _ = write!(
        out,
        "<figure data-panel=\"{language}\"><figcaption>{name}</figcaption><pre tabindex=\"0\"><code>{code}</code></pre></figure>",
    );
}

/// Returns the sample of an operation in a language.
pub(super) fn find_sample(id: &str, language: &str) -> Option<&'static str> {
    let operation = SAMPLES.split("\n== ").find_map(|rest| rest.strip_prefix(id)?.strip_prefix('\n'))?;
    let code = operation.split("-- ").find_map(|rest| rest.strip_prefix(language)?.strip_prefix('\n'))?;
    Some(code.trim_end())
}

/// Returns the call of the operation with `curl`.
fn curl_call(placed: &PlacedOperation<'_>, operation: &Value) -> String {
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
    let _ = write!(out, " \"$URL{path}{query}\" \\\n  -H \"X-Api-Key: $KEY\"");
    match body {
        Some((media, content)) if media.starts_with("multipart/") => {
            out.push_str(" \\\n  -F file=@lease.pdf");
            if let Some(folder) = content.pointer("/example/destination").and_then(Value::as_str) {
                let _ = write!(out, " -F destination={folder}");
            }
        }
        Some((_, content)) => {
            let _ = write!(out, " \\\n  -d '{}'", body_example(content));
        }
        None => {}
    }
    out
}

/// Returns the first shown example of a body.
pub(super) fn body_example(content: &Value) -> &Value {
    let first = content.pointer("/examples/simple/value");
    first.unwrap_or(&content["example"])
}
