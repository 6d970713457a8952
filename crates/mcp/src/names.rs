//! Names, descriptions and schemas of tools as vendors accept them.

use std::time::Duration;

use domain::hex;
use domain::step::ToolSpec;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::text::{self, clean_paragraphs};

/// Limits a server's name.
pub const SERVER_NAME_MAX_BYTES: usize = 24;
/// Limits an offered tool's name, to a length that every vendor accepts.
pub const TOOL_NAME_MAX_BYTES: usize = 64;
/// Longer descriptions are truncated.
pub const DESCRIPTION_MAX_BYTES: usize = 4 * 1024;
/// Tools with longer schemas are skipped.
pub const SCHEMA_MAX_BYTES: usize = 32 * 1024;
/// Limits the tools of one server; further ones are skipped.
pub const TOOLS_MAX: usize = 128;
/// Separates the server's name from the tool's.
pub const DIVIDER: &str = "__";
/// The length of the digest that makes changed names unique.
const DIGEST_CHARS: usize = 8;
/// Limits a tool's name as the server reports it.
const ORIGINAL_MAX_BYTES: usize = 256;
/// Limits the tools of one list that are reported as skipped.
pub const SKIPPED_MAX: usize = 16;
/// Limits the name and the reason of a skipped tool in reports.
const SKIPPED_TEXT_MAX_BYTES: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpTool {
    /// The server's name of the tool.
    pub original: String,
    /// The tool as it is offered to models.
    pub spec: ToolSpec,
}

/// A tool that a server lists and that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedTool {
    /// The server's name of the tool, fit to be shown; empty if it has none.
    pub name: String,
    pub reason: String,
}

impl SkippedTool {
    /// Creates a report from untrusted texts.
    #[must_use]
    pub fn new(name: &str, reason: &str) -> Self {
        let shown =
            |words: &str| text::cut_bytes(&text::single_line(words), SKIPPED_TEXT_MAX_BYTES).to_owned();
        Self { name: shown(name), reason: shown(reason) }
    }
}

/// The tools of a server, as far as its list was read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ToolList {
    /// The tools to be offered.
    pub tools: Vec<McpTool>,
    /// The granted tools that cannot be offered, at most [`SKIPPED_MAX`].
    pub skipped: Vec<SkippedTool>,
}

impl ToolList {
    /// Reports a tool as skipped.
    pub fn skip(&mut self, name: &str, reason: &str) {
        if self.skipped.len() < SKIPPED_MAX {
            self.skipped.push(SkippedTool::new(name, reason));
        }
    }

    /// Removes and reports the tools for which `problem` returns a reason.
    pub fn skip_if(&mut self, problem: impl Fn(&McpTool) -> Option<String>) {
        for tool in std::mem::take(&mut self.tools) {
            match problem(&tool) {
                Some(reason) => self.skip(&tool.original, &reason),
                None => self.tools.push(tool),
            }
        }
    }
}

/// Returns true for valid server names. They contain no underscore, so that the divider is unambiguous.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    letters && (1..=SERVER_NAME_MAX_BYTES).contains(&name.len()) && !name.starts_with('-')
}

/// Returns the server in an offered tool name.
#[must_use]
pub fn server_of(tool: &str) -> Option<&str> {
    tool.split_once(DIVIDER).map(|(server, _)| server)
}

/// Returns the name under which a server's tool is offered. It depends only on the arguments, so it survives restarts;
/// a name that had to be changed contains a digest of the original, so that names stay unique.
#[must_use]
pub fn offered_name(server: &str, tool: &str) -> String {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let whole = format!("{server}{DIVIDER}{tool}");
    if whole.len() <= TOOL_NAME_MAX_BYTES && whole.bytes().all(fits) {
        return whole;
    }
    let plain: String = whole
        .chars()
        .map(|letter| if letter.is_ascii() && fits(letter as u8) { letter } else { '_' })
        .collect();
    let digest = hex::encode_hex(&Sha256::digest(tool.as_bytes()));
    let length = plain.len().min(TOOL_NAME_MAX_BYTES - DIGEST_CHARS - 1);
    format!("{}_{}", &plain[..length], &digest[..DIGEST_CHARS])
}

/// Parses a tool in a server's list.
///
/// # Errors
/// Returns the reason when it cannot be offered.
pub fn parse_tool(server: &str, listed: &Value) -> Result<McpTool, &'static str> {
    let original = listed.get("name").and_then(Value::as_str).ok_or("it has no name")?;
    if original.is_empty() {
        return Err("its name is empty");
    }
    if original.len() > ORIGINAL_MAX_BYTES {
        return Err("its name has more than 256 bytes");
    }
    let field = |name: &str| {
        listed.get(name).and_then(Value::as_str).map(clean_paragraphs).filter(|text| !text.is_empty())
    };
    let description = field("description").or_else(|| field("title")).unwrap_or_default();
    let schema = object_schema(listed.get("inputSchema").unwrap_or(&Value::Null))?;
    let spec = ToolSpec {
        name: offered_name(server, original),
        description: text::cut_bytes(&description, DESCRIPTION_MAX_BYTES).to_owned(),
        schema,
    };
    Ok(McpTool { original: original.to_owned(), spec })
}

/// Adds the tools of a page to a list: those that `grants` permits, without duplicates, [`TOOLS_MAX`] at most. Returns
/// the cursor of the next page.
///
/// # Errors
/// Fails when the result is not a page of tools.
pub fn tools_of_page(
    server: &str,
    page: &Value,
    grants: impl Fn(&str) -> bool,
    list: &mut ToolList,
) -> Result<Option<String>, NoPage> {
    let listed = page.get("tools").and_then(Value::as_array).ok_or(NoPage)?;
    for one in listed {
        let name = one.get("name").and_then(Value::as_str).unwrap_or_default();
        // Tools that the operator did not grant are not reported.
        if !name.is_empty() && !grants(name) {
            continue;
        }
        if list.tools.len() >= TOOLS_MAX {
            list.skip(name, "the server lists more than 128 tools");
            return Ok(None);
        }
        match parse_tool(server, one) {
            Err(reason) => list.skip(name, reason),
            Ok(found) if list.tools.iter().any(|other| other.spec.name == found.spec.name) => {
                list.skip(name, "the server lists another tool of this name");
            }
            Ok(found) => list.tools.push(found),
        }
    }
    let cursor = page.get("nextCursor").and_then(Value::as_str);
    Ok(cursor.map(ToOwned::to_owned))
}

/// Returns how long a page is valid, if the server reports it: stateless revisions use `ttlMs`.
#[must_use]
pub fn time_to_live(page: &Value) -> Option<Duration> {
    page.get("ttlMs").and_then(Value::as_u64).filter(|time| *time > 0).map(Duration::from_millis)
}

/// Returns a digest that identifies a list of tools and of those that were skipped.
#[must_use]
pub fn tools_digest(tools: &[McpTool], skipped: &[SkippedTool]) -> String {
    let mut hash = Sha256::new();
    for McpTool { original, spec } in tools {
        for piece in [original, &spec.name, &spec.description, &spec.schema] {
            hash.update(piece.len().to_be_bytes());
            hash.update(piece);
        }
    }
    for SkippedTool { name, reason } in skipped {
        for piece in [name, reason] {
            hash.update(piece.len().to_be_bytes());
            hash.update(piece);
        }
    }
    hex::encode_hex(&hash.finalize()[..16])
}

/// The result is not a page of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPage;

/// Returns the schema of a tool's arguments, which must be an object, or the reason why it cannot be used. A tool without a
/// schema takes no arguments.
fn object_schema(schema: &Value) -> Result<String, &'static str> {
    let mut schema: Map<String, Value> = match schema {
        Value::Null => Map::new(),
        given => given.as_object().ok_or("its input schema is not a JSON object")?.clone(),
    };
    match schema.get("type") {
        None => _ = schema.insert("type".to_owned(), "object".into()),
        Some(kind) if kind == "object" => {}
        Some(_) => return Err("its input schema does not have the type `object`"),
    }
    // Some vendors reject an object without properties.
    match schema.get("properties") {
        None | Some(Value::Null) => {
            schema.insert("properties".to_owned(), Value::Object(Map::new()));
        }
        // Servers in languages without a type for objects write no properties as an empty list.
        Some(Value::Array(none)) if none.is_empty() => {
            schema.insert("properties".to_owned(), Value::Object(Map::new()));
        }
        Some(properties) if properties.is_object() => {}
        Some(_) => return Err("the properties of its input schema are not a JSON object"),
    }
    let text = Value::Object(schema).to_string();
    if text.len() > SCHEMA_MAX_BYTES {
        return Err("its input schema has more than 32 KiB");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn offered_names_valid_and_unique() {
        assert_eq!(offered_name("registry", "look-up_1"), "registry__look-up_1");
        let odd = ["a.b", "a b", "a/b", "á", "", &"x".repeat(100), &format!("{}y", "x".repeat(99))];
        let mut names: Vec<String> = odd.iter().map(|tool| offered_name("registry", tool)).collect();
        for name in &names {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
            assert!(name.len() <= TOOL_NAME_MAX_BYTES && name.chars().all(fits), "{name}");
            assert_eq!(server_of(name), Some("registry"));
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), odd.len());
        for name in ["registry", "a-1", "1"] {
            assert!(is_server_name(name), "{name}");
        }
        for name in ["", "A", "a_b", "a__b", "-a", "a.b", "č", &"a".repeat(SERVER_NAME_MAX_BYTES + 1)] {
            assert!(!is_server_name(name), "{name}");
        }
    }

    #[test]
    fn tool_needs_object_schema() {
        let of = |schema: Value| {
            parse_tool("s", &json!({ "name": "t", "inputSchema": schema })).map(|tool| tool.spec.schema).ok()
        };
        let schema =
            of(json!({"type": "object", "properties": {"a": {"type": "string"}}})).expect("a schema");
        assert_eq!(
            serde_json::from_str::<Value>(&schema).expect("JSON")["properties"]["a"]["type"],
            "string"
        );
        let none = Some(r#"{"properties":{},"type":"object"}"#);
        for without in [
            json!(null),
            json!({}),
            json!({"type": "object", "properties": []}),
            json!({"type": "object", "properties": null}),
        ] {
            assert_eq!(of(without.clone()).as_deref(), none, "{without}");
        }
        assert_eq!(parse_tool("s", &json!({"name": "t"})).map(|tool| tool.spec.schema).ok().as_deref(), none);
        for wrong in [
            json!("object"),
            json!([]),
            json!({"type": "string"}),
            json!({"type": "object", "properties": ["a"]}),
            json!({"type": "object", "description": "x".repeat(SCHEMA_MAX_BYTES)}),
        ] {
            assert_eq!(of(wrong), None);
        }
        assert_eq!(parse_tool("s", &json!({"name": 7, "inputSchema": {}})), Err("it has no name"));
        let long = json!({"name": "t", "inputSchema": {}, "description": format!("a\u{202e}\u{e0041}\n{}", "b".repeat(9000))});
        let described = parse_tool("s", &long).expect("a tool").spec.description;
        assert!(described.starts_with("a\nb") && described.len() == DESCRIPTION_MAX_BYTES);
    }

    #[test]
    fn unusable_tools_reported_with_reason() {
        let mut list = ToolList::default();
        let page = json!({"tools": [
            {"name": "good"},
            {"name": "good"},
            {"name": "li\u{202e}st", "inputSchema": {"type": "array"}},
            {"title": "nameless"},
            {"name": "secret", "inputSchema": 7},
            {"name": "x".repeat(300)},
        ]});
        let cursor = tools_of_page("s", &page, |name| name != "secret", &mut list);
        assert_eq!((cursor, list.tools.len()), (Ok(None), 1));
        let reports: Vec<_> =
            list.skipped.iter().map(|skipped| (skipped.name.as_str(), skipped.reason.as_str())).collect();
        assert_eq!(reports[0], ("good", "the server lists another tool of this name"));
        assert_eq!(reports[1], ("list", "its input schema does not have the type `object`"));
        assert_eq!(reports[2], ("", "it has no name"));
        assert_eq!(reports[3].1, "its name has more than 256 bytes");
        assert_eq!(reports.len(), 4, "a tool that is not granted is not missed: {reports:?}");
        assert!(reports[3].0.len() <= SKIPPED_TEXT_MAX_BYTES);
        // A long list ends with one report.
        let many: Vec<Value> = (0..2 * TOOLS_MAX).map(|n| json!({ "name": format!("t{n}") })).collect();
        let mut list = ToolList::default();
        let cursor = tools_of_page("s", &json!({"tools": many, "nextCursor": "2"}), |_| true, &mut list);
        assert_eq!((cursor, list.tools.len(), list.skipped.len()), (Ok(None), TOOLS_MAX, 1));
    }
}
