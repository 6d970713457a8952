//! Converts the result of a call to text and citable passages.

use domain::citation::{Passage, PassagePlace};
use serde_json::Value;

use crate::text::{self, clean_paragraphs};

/// Longer outputs are truncated.
pub const OUTPUT_MAX_BYTES: usize = 64 * 1024;
/// Limits the passages of an output; further resources are in its text.
pub const PASSAGES_MAX: usize = 40;
/// Longer resources are split into several passages.
const PASSAGE_MAX_BYTES: usize = 4 * 1024;
/// Limits a cited URI.
const URI_MAX_BYTES: usize = 2048;
/// Limits the title of a cited URI.
const TITLE_MAX_BYTES: usize = 300;
const CUT: &str = "\n(cut here: the output was longer)";
/// Limits the content blocks of an output.
const PIECES_MAX: usize = 1000;

/// The output of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpCallOutput {
    /// Plain text for the model, at most [`OUTPUT_MAX_BYTES`].
    pub text: String,
    /// Resources with a citable address, at most [`PASSAGES_MAX`].
    pub passages: Vec<Passage>,
    /// The tool reports a failure.
    pub failed: bool,
}

/// Converts the result of a call; `None` when it is not a result.
///
/// Resources with a web address become passages, and so do files of the workspace, when `workspace` is its path as the
/// server sees it. Everything else becomes text.
#[must_use]
pub fn parse_output(result: &Value, workspace: Option<&str>) -> Option<McpCallOutput> {
    let pieces = match result.get("content") {
        None | Some(Value::Null) => &[],
        Some(content) => content.as_array()?.as_slice(),
    };
    let structured = result.get("structuredContent").filter(|structured| !structured.is_null());
    let mut passages = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    for piece in pieces.iter().take(PIECES_MAX) {
        if !add_passages(piece, workspace, &mut passages) {
            texts.push(block_text(piece));
        }
    }
    texts.retain(|text| !text.is_empty());
    // If both are present, they have the same content.
    if texts.is_empty()
        && passages.is_empty()
        && let Some(structured) = structured
    {
        texts.push(structured.to_string());
    }
    let mut text = clean_paragraphs(&texts.join("\n\n"));
    if text.len() > OUTPUT_MAX_BYTES {
        text.truncate(text.floor_char_boundary(OUTPUT_MAX_BYTES - CUT.len()));
        text.push_str(CUT);
    }
    let failed = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    Some(McpCallOutput { text, passages, failed })
}

/// Adds the passages of a resource. Returns false when it is not citable.
fn add_passages(piece: &Value, workspace: Option<&str>, passages: &mut Vec<Passage>) -> bool {
    let resource = match piece.get("type").and_then(Value::as_str) {
        Some("resource") => piece.get("resource").unwrap_or(&Value::Null),
        Some("resource_link") => piece,
        _ => return false,
    };
    let field = |name: &str| clean_paragraphs(text_field(resource, name));
    let name = Some(field("title")).filter(|title| !title.is_empty()).unwrap_or_else(|| field("name"));
    let Some(place) = resource_place(text_field(resource, "uri"), &name, workspace) else { return false };
    let text = match resource.get("text").and_then(Value::as_str) {
        Some(text) => clean_paragraphs(text),
        None if piece.get("type").is_some_and(|kind| kind == "resource_link") => {
            Some(field("description")).filter(|text| !text.is_empty()).unwrap_or(name)
        }
        None => return false,
    };
    let cut = split_text(&text);
    if cut.is_empty() || passages.len() + cut.len() > PASSAGES_MAX {
        return false;
    }
    passages.extend(cut.into_iter().map(|text| Passage { place: place.clone(), text: text.to_owned() }));
    true
}

/// Splits a text into pieces of limited length, at line ends if possible.
fn split_text(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && pieces.len() <= PASSAGES_MAX {
        let most = rest.floor_char_boundary(PASSAGE_MAX_BYTES);
        let end = if most < rest.len() {
            rest[..most].rfind('\n').filter(|at| *at > most / 2).unwrap_or(most)
        } else {
            most
        };
        let piece = rest[..end].trim();
        if !piece.is_empty() {
            pieces.push(piece);
        }
        rest = rest[end..].trim_start();
    }
    pieces
}

/// Returns the place of a resource, if answers can link to it.
fn resource_place(uri: &str, title: &str, workspace: Option<&str>) -> Option<PassagePlace> {
    if uri.len() > URI_MAX_BYTES {
        return None;
    }
    if let Some(path) = uri.strip_prefix("file://") {
        let path = path.strip_prefix(workspace?)?;
        let plain = |name: &str| !name.is_empty() && name != "." && name != "..";
        let fits = path.strip_prefix('/').is_some_and(|names| names.split('/').all(plain))
            && path.len() <= domain::limits::PATH_MAX_BYTES
            && !path.chars().any(text::is_hidden);
        return fits.then(|| PassagePlace::File {
            path: path.to_owned(),
            page: None,
            lines: None,
            page_name: None,
        });
    }
    let rest = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    let fits = !host.is_empty() && !host.contains('@') && uri.bytes().all(|byte| byte.is_ascii_graphic());
    let title = text::single_line(title);
    let title = if title.is_empty() { host } else { text::cut_bytes(&title, TITLE_MAX_BYTES) };
    fits.then(|| PassagePlace::Web { url: uri.to_owned(), title: title.to_owned() })
}

fn text_field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

/// Converts a content block to text.
fn block_text(piece: &Value) -> String {
    let media = |value: &Value, what: &str, data: &str| {
        // Four letters of base64 encode three bytes.
        let bytes = value.get(data).and_then(Value::as_str).map_or(0, |data| data.len() / 4 * 3);
        format!(
            "({what}, {}, about {bytes} bytes, not shown)",
            text::single_line(text_field(value, "mimeType"))
        )
    };
    match piece.get("type").and_then(Value::as_str) {
        Some("text") => text_field(piece, "text").to_owned(),
        Some("image") => media(piece, "an image", "data"),
        Some("audio") => media(piece, "a sound", "data"),
        Some("resource_link") => {
            let (name, uri) =
                (text::single_line(text_field(piece, "name")), text::single_line(text_field(piece, "uri")));
            format!("{name} <{uri}> {}", text::single_line(text_field(piece, "description")))
                .trim()
                .to_owned()
        }
        Some("resource") => {
            let resource = piece.get("resource").unwrap_or(&Value::Null);
            let uri = text::single_line(text_field(resource, "uri"));
            match resource.get("text").and_then(Value::as_str) {
                Some(text) => format!("<{uri}>\n{text}"),
                None => format!("<{uri}> {}", media(resource, "a file", "blob")),
            }
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output_text(result: Value) -> String {
        parse_output(&result, None).expect("an output").text
    }

    #[test]
    fn every_kind_of_content_becomes_text() {
        let all = json!({"content": [
            {"type": "text", "text": "one\u{1b}\u{202e}\ntwo"},
            {"type": "image", "data": "AAAAAAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "act:1", "name": "Act", "description": "the\nlaw"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "three"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA", "mimeType": "x/y"}},
            {"type": "new"}, 7
        ], "structuredContent": {"a": 1}});
        assert_eq!(
            output_text(all),
            "one\ntwo\n\n(an image, image/png, about 6 bytes, not shown)\n\nAct <act:1> the law\n\n\
             <file:///a>\nthree\n\n<file:///b> (a file, x/y, about 3 bytes, not shown)"
        );
        assert_eq!(output_text(json!({"content": [], "structuredContent": {"a": 1}})), r#"{"a":1}"#);
        assert_eq!(output_text(json!({"structuredContent": {"a": 1}})), r#"{"a":1}"#);
        assert_eq!(parse_output(&json!({"content": "text"}), None), None);
        let structured = json!({"content": null, "structuredContent": {"a": 1}});
        assert_eq!(parse_output(&structured, None).map(|output| output.text).as_deref(), Some("{\"a\":1}"));
        assert!(
            parse_output(&json!({"content": [], "isError": true}), None).is_some_and(|output| output.failed)
        );
    }

    #[test]
    fn addressed_resources_are_citable() {
        let web =
            PassagePlace::Web { url: "https://example.org/act".to_owned(), title: "The act".to_owned() };
        let file = PassagePlace::File {
            path: "/uploads/a.txt".to_owned(),
            page: None,
            lines: None,
            page_name: None,
        };
        let all = json!({"content": [
            {"type": "text", "text": "found"},
            {"type": "resource_link", "uri": "https://example.org/act", "name": "The act", "description": "the\nlaw"},
            {"type": "resource", "resource": {"uri": "file:///workspace/uploads/a.txt", "text": "words\u{202e}"}},
        ]});
        let passages = vec![
            Passage { place: web.clone(), text: "the\nlaw".to_owned() },
            Passage { place: file, text: "words".to_owned() },
        ];
        let here = parse_output(&all, Some("/workspace")).expect("an output");
        assert_eq!((here.text.as_str(), here.passages), ("found", passages));
        let elsewhere = parse_output(&all, None).expect("an output");
        assert_eq!(elsewhere.passages.len(), 1, "files of another host are not cited");
        assert!(elsewhere.text.contains("<file:///workspace/uploads/a.txt>\nwords"), "{}", elsewhere.text);
        for odd in [
            "https://",
            "https://user@example.org/",
            "https://example.org/a b",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "file:///workspace/../etc",
            "file:///workspacex/a",
            "file:///workspace",
        ] {
            let odd = json!({"content": [{"type": "resource", "resource": {"uri": odd, "text": "x"}}]});
            assert!(
                parse_output(&odd, Some("/workspace")).is_some_and(|output| output.passages.is_empty()),
                "{odd}"
            );
        }
        let long = format!("{}\n", "č".repeat(40)).repeat(200);
        let long =
            json!({"content": [{"type": "resource", "resource": {"uri": "https://a.b/", "text": long}}]});
        let passages = parse_output(&long, None).expect("an output").passages;
        assert!(passages.len() > 3 && passages.iter().all(|one| one.text.len() <= PASSAGE_MAX_BYTES));
    }

    #[test]
    fn an_output_is_bounded() {
        let long = output_text(json!({"content": [{"type": "text", "text": "č".repeat(OUTPUT_MAX_BYTES)}]}));
        assert!(long.len() <= OUTPUT_MAX_BYTES && long.ends_with(CUT));
        let many: Vec<Value> = (0..5000).map(|_| json!({"type": "text", "text": "x"})).collect();
        assert_eq!(output_text(json!({"content": many})).matches('x').count(), PIECES_MAX);
        let links = vec![json!({"type": "resource_link", "uri": "https://a.b/", "name": "x"}); 100];
        let links = parse_output(&json!({"content": links}), None).expect("an output");
        assert_eq!(links.passages.len(), PASSAGES_MAX);
    }
}
