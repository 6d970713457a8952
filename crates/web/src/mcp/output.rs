//! What a tool gives, as text.

use serde_json::Value;

use super::McpOutput;
use super::names::paragraphs;
use crate::text;

/// The longest output of a call, in bytes; more is cut off.
pub const OUTPUT_MAX_BYTES: usize = 64 * 1024;
/// What stands where something was cut off.
const CUT: &str = "\n(cut here: the output was longer)";
/// The most pieces of an output.
const PIECES_MAX: usize = 1000;

/// The output in the result of a call; `None` when it is none.
pub(super) fn of(result: &Value) -> Option<McpOutput> {
    let pieces = match result.get("content") {
        Some(content) => content.as_array()?.as_slice(),
        None => &[],
    };
    let structured = result.get("structuredContent").filter(|structured| !structured.is_null());
    let mut said: Vec<String> =
        pieces.iter().take(PIECES_MAX).map(piece).filter(|text| !text.is_empty()).collect();
    // Where both are there, they say the same.
    if said.is_empty()
        && let Some(structured) = structured
    {
        said.push(structured.to_string());
    }
    let mut output = paragraphs(&said.join("\n\n"));
    if output.len() > OUTPUT_MAX_BYTES {
        output.truncate(output.floor_char_boundary(OUTPUT_MAX_BYTES - CUT.len()));
        output.push_str(CUT);
    }
    let failed = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    Some(McpOutput { text: output, failed })
}

fn piece(piece: &Value) -> String {
    let of = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let media = |value: &Value, what: &str, data: &str| {
        // Four letters of base64 stand for three bytes.
        let bytes = value.get(data).and_then(Value::as_str).map_or(0, |data| data.len() / 4 * 3);
        format!("({what}, {}, about {bytes} bytes, not shown)", text::line(&of(value, "mimeType")))
    };
    match piece.get("type").and_then(Value::as_str) {
        Some("text") => of(piece, "text"),
        Some("image") => media(piece, "an image", "data"),
        Some("audio") => media(piece, "a sound", "data"),
        Some("resource_link") => {
            let (name, uri) = (text::line(&of(piece, "name")), text::line(&of(piece, "uri")));
            format!("{name} <{uri}> {}", text::line(&of(piece, "description"))).trim().to_owned()
        }
        Some("resource") => {
            let resource = piece.get("resource").unwrap_or(&Value::Null);
            let uri = text::line(&of(resource, "uri"));
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

    fn text(result: Value) -> String {
        of(&result).expect("an output").text
    }

    #[test]
    fn every_kind_of_content_becomes_text() {
        let all = json!({"content": [
            {"type": "text", "text": "one\u{1b}\u{202e}\ntwo"},
            {"type": "image", "data": "AAAAAAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "https://example.org/a", "name": "Act", "description": "the\nlaw"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "three"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA", "mimeType": "x/y"}},
            {"type": "new"}, 7
        ], "structuredContent": {"a": 1}});
        assert_eq!(
            text(all),
            "one\ntwo\n\n(an image, image/png, about 6 bytes, not shown)\n\nAct <https://example.org/a> the law\n\n\
             <file:///a>\nthree\n\n<file:///b> (a file, x/y, about 3 bytes, not shown)"
        );
        assert_eq!(text(json!({"content": [], "structuredContent": {"a": 1}})), r#"{"a":1}"#);
        assert_eq!(text(json!({"structuredContent": {"a": 1}})), r#"{"a":1}"#);
        assert_eq!(of(&json!({"content": "text"})), None);
        assert!(of(&json!({"content": [], "isError": true})).is_some_and(|output| output.failed));
    }

    #[test]
    fn an_output_is_bounded() {
        let long = text(json!({"content": [{"type": "text", "text": "č".repeat(OUTPUT_MAX_BYTES)}]}));
        assert!(long.len() <= OUTPUT_MAX_BYTES && long.ends_with(CUT));
        let many: Vec<Value> = (0..5000).map(|_| json!({"type": "text", "text": "x"})).collect();
        assert_eq!(text(json!({"content": many})).matches('x').count(), PIECES_MAX);
    }
}
