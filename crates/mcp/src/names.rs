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

/// A server's tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpTool {
    /// The server's name of the tool.
    pub original: String,
    /// The tool as it is offered to models.
    pub spec: ToolSpec,
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

/// Parses a tool in a server's list. Returns `None` when it cannot be offered.
#[must_use]
pub fn parse_tool(server: &str, listed: &Value) -> Option<McpTool> {
    let original = listed.get("name")?.as_str()?;
    if original.is_empty() || original.len() > ORIGINAL_MAX_BYTES {
        return None;
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
    Some(McpTool { original: original.to_owned(), spec })
}

/// Adds the tools of a page that `grants` permits to `tools`, without duplicates, [`TOOLS_MAX`] at most. Returns
/// the cursor of the next page.
///
/// # Errors
/// Fails when the result is not a page of tools.
pub fn tools_of_page(
    server: &str,
    page: &Value,
    grants: impl Fn(&str) -> bool,
    tools: &mut Vec<McpTool>,
) -> Result<Option<String>, NoPage> {
    let listed = page.get("tools").and_then(Value::as_array).ok_or(NoPage)?;
    for one in listed {
        if tools.len() >= TOOLS_MAX {
            return Ok(None);
        }
        let found = parse_tool(server, one).filter(|tool| grants(&tool.original));
        if let Some(found) = found.filter(|tool| tools.iter().all(|other| other.spec.name != tool.spec.name))
        {
            tools.push(found);
        }
    }
    let cursor = page.get("nextCursor").and_then(Value::as_str).filter(|_| tools.len() < TOOLS_MAX);
    Ok(cursor.map(ToOwned::to_owned))
}

/// Returns how long a page is valid, if the server reports it: stateless revisions use `ttlMs`.
#[must_use]
pub fn time_to_live(page: &Value) -> Option<Duration> {
    page.get("ttlMs").and_then(Value::as_u64).filter(|time| *time > 0).map(Duration::from_millis)
}

/// Returns a digest that identifies a list of tools.
#[must_use]
pub fn tools_digest(tools: &[McpTool]) -> String {
    let mut hash = Sha256::new();
    for McpTool { original, spec } in tools {
        for piece in [original, &spec.name, &spec.description, &spec.schema] {
            hash.update(piece.len().to_be_bytes());
            hash.update(piece);
        }
    }
    hex::encode_hex(&hash.finalize()[..16])
}

/// The result is not a page of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPage;

/// Returns the schema of a tool's arguments, which must be an object. A tool without a schema takes no arguments.
fn object_schema(schema: &Value) -> Option<String> {
    let mut schema: Map<String, Value> = match schema {
        Value::Null => Map::new(),
        given => given.as_object()?.clone(),
    };
    match schema.get("type") {
        None => _ = schema.insert("type".to_owned(), "object".into()),
        Some(kind) if kind == "object" => {}
        Some(_) => return None,
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
        Some(_) => return None,
    }
    let text = Value::Object(schema).to_string();
    (text.len() <= SCHEMA_MAX_BYTES).then_some(text)
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
            parse_tool("s", &json!({ "name": "t", "inputSchema": schema })).map(|tool| tool.spec.schema)
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
        assert_eq!(parse_tool("s", &json!({"name": "t"})).map(|tool| tool.spec.schema).as_deref(), none);
        for wrong in [
            json!("object"),
            json!([]),
            json!({"type": "string"}),
            json!({"type": "object", "properties": ["a"]}),
            json!({"type": "object", "description": "x".repeat(SCHEMA_MAX_BYTES)}),
        ] {
            assert_eq!(of(wrong), None);
        }
        assert_eq!(parse_tool("s", &json!({"name": 7, "inputSchema": {}})), None);
        let long = json!({"name": "t", "inputSchema": {}, "description": format!("a\u{202e}\u{e0041}\n{}", "b".repeat(9000))});
        let described = parse_tool("s", &long).expect("a tool").spec.description;
        assert!(described.starts_with("a\nb") && described.len() == DESCRIPTION_MAX_BYTES);
    }
}
