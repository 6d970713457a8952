//! The schemas of the standard Agent Plugins 1.0.0: of a plugin's manifest, of its servers, and of a skill's head.

use serde_json::{Map, Value};

use crate::servers::KEY;
use crate::tree::{PluginTree, TreeError};

/// The manifest, in the plugin's root.
pub(crate) const MANIFEST: &str = "plugin.json";
/// The file of the MCP servers, in the plugin's root.
pub(crate) const SERVERS: &str = "mcp.json";
/// The identifiers of the supported schemas.
const MANIFEST_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
const SERVERS_SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";
/// The longest name of a plugin and of a skill, in characters.
const NAME_MAX_CHARS: usize = 64;
/// The longest description of a skill, in characters.
const DESCRIPTION_MAX_CHARS: usize = 1024;
/// The fields of the manifest that are texts.
const TEXTS: [&str; 5] = ["version", "description", "homepage", "repository", "license"];
/// The fields of an author.
const AUTHOR: [&str; 3] = ["name", "email", "url"];

/// Returns the reason why a skill's name or description violates the Agent Skills specification.
pub(crate) fn skill_fault(name: Option<&str>, description: &str, folder: &str) -> Option<String> {
    let Some(name) = name else { return Some("name is missing".to_owned()) };
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    if name.is_empty() || name.len() > NAME_MAX_CHARS || !name.bytes().all(letter) || edges {
        return Some(format!(
            "invalid skill name {name:?}: use 1 to {NAME_MAX_CHARS} small letters, digits and single hyphens"
        ));
    }
    if name != folder {
        return Some(format!("its name is {name}, but its folder is {folder}"));
    }
    (description.chars().count() > DESCRIPTION_MAX_CHARS)
        .then(|| format!("the description is longer than {DESCRIPTION_MAX_CHARS} characters"))
}

pub(crate) fn is_field(key: &str) -> bool {
    TEXTS.contains(&key) || ["$schema", "name", "author", "keywords", "extensions"].contains(&key)
}

/// Returns the name in a manifest, or the first field that violates the schema and the reason.
pub(crate) fn checked_name(manifest: &Map<String, Value>) -> Result<String, (&'static str, String)> {
    match manifest.get("$schema").and_then(Value::as_str) {
        Some(MANIFEST_SCHEMA) => {}
        Some(other) => {
            return Err(("$schema", format!("{other:?} is not supported; use {MANIFEST_SCHEMA:?}")));
        }
        None => return Err(("$schema", format!("$schema must be {MANIFEST_SCHEMA:?}"))),
    }
    let Some(name) = manifest.get("name").and_then(Value::as_str) else {
        return Err(("name", "name is missing".to_owned()));
    };
    if !is_plugin_name(name) {
        let rule = "small letters, digits, single hyphens and periods, a letter or a digit at both ends";
        return Err(("name", format!("invalid name {name:?}: use 1 to {NAME_MAX_CHARS} {rule}")));
    }
    let is_text = |value: Option<&Value>| value.is_none_or(Value::is_string);
    if let Some(key) = TEXTS.into_iter().find(|key| !is_text(manifest.get(*key))) {
        return Err((key, format!("{key} is not a text")));
    }
    let author = manifest.get("author").map(Value::as_object);
    let is_author = |map: &Map<String, Value>| {
        map.iter().all(|(key, value)| AUTHOR.contains(&key.as_str()) && value.is_string())
    };
    if author.is_some_and(|map| !map.is_some_and(is_author)) {
        return Err(("author", "author may only have the texts name, email and url".to_owned()));
    }
    let is_list = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    if manifest.get("keywords").is_some_and(|keywords| !is_list(keywords)) {
        return Err(("keywords", "keywords is not a list of texts".to_owned()));
    }
    // The schema of other namespaces is unknown, but each is an object.
    let namespaces = manifest.get("extensions").and_then(Value::as_object);
    if namespaces.is_some_and(|map| map.values().any(|value| !value.is_object())) {
        return Err(("extensions", "extensions has a value that is not a JSON object".to_owned()));
    }
    Ok(name.to_owned())
}

fn is_plugin_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let letter = |byte: u8| inner(byte) || matches!(byte, b'-' | b'.');
    let bytes = name.as_bytes();
    (1..=NAME_MAX_CHARS).contains(&bytes.len())
        && bytes.iter().copied().all(letter)
        && bytes.first().copied().is_some_and(inner)
        && bytes.last().copied().is_some_and(inner)
        && !name.contains("--")
        && !name.contains("..")
}

/// Returns the key of `mcp.json` that violates its schema, and the reason.
pub(crate) fn wrong_servers_file(file: &Map<String, Value>) -> Option<(&'static str, String)> {
    if file.get("$schema").and_then(Value::as_str) != Some(SERVERS_SCHEMA) {
        return Some(("$schema", format!("$schema must be {SERVERS_SCHEMA:?}")));
    }
    let unknown = file.keys().find(|key| !["$schema", KEY].contains(&key.as_str()));
    unknown.map(|key| ("", format!("unknown field {key}")))
}

/// Checks the entry of a server against its schema; returns the key that violates it, and the reason.
pub(crate) fn checked_server(tree: &PluginTree, entry: &Value) -> Result<(), (&'static str, String)> {
    let Some(entry) = entry.as_object() else { return Err(("", "it is not a JSON object".to_owned())) };
    let kind = entry.get("type").and_then(Value::as_str);
    let (known, required): (&[&str], &'static str) = match kind {
        Some("stdio") => (&["type", "command", "args", "env", "cwd"], "command"),
        Some("streamable-http" | "sse") => (&["type", "url", "headers"], "url"),
        Some(other) => return Err(("type", format!("unknown type {other:?}: use stdio or streamable-http"))),
        None => return Err(("type", "there is no type: use stdio or streamable-http".to_owned())),
    };
    if let Some(key) = entry.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(("", format!("unknown field {key}")));
    }
    let Some(target) = entry.get(required).and_then(Value::as_str).filter(|text| !text.is_empty()) else {
        return Err((required, format!("{required} is not a text")));
    };
    let texts = |key: &str| match entry.get(key) {
        None => true,
        Some(Value::Object(map)) => map.values().all(Value::is_string),
        Some(_) => false,
    };
    if required == "url" {
        if !is_endpoint(target) {
            return Err(("url", "url is not a valid server address".to_owned()));
        }
        return if texts("headers") { Ok(()) } else { Err(("headers", "headers are not texts".to_owned())) };
    }
    if !texts("env") {
        return Err(("env", "env is not a JSON object of texts".to_owned()));
    }
    let is_set = |key: &&str| entry.get("env").is_some_and(|env| env.get(*key).is_some());
    if let Some(key) = ["PLUGIN_ROOT", "PLUGIN_DATA"].into_iter().find(is_set) {
        return Err(("env", format!("env may not set {key}")));
    }
    checked_path(tree, "command", target, &[])?;
    match entry.get("cwd") {
        None => Ok(()),
        Some(Value::String(folder)) => {
            checked_path(tree, "cwd", folder, &["${PLUGIN_ROOT}", "${PLUGIN_DATA}"])
        }
        Some(_) => Err(("cwd", "cwd is not a text".to_owned())),
    }
}

/// Checks that a path stays in the plugin: `./…`, or a placeholder and the rest after it. A command may also be a bare
/// name.
fn checked_path(
    tree: &PluginTree,
    key: &'static str,
    text: &str,
    placeholders: &[&str],
) -> Result<(), (&'static str, String)> {
    let rooted = |start: &&&str| {
        text.strip_prefix(**start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let below = match placeholders.iter().find(rooted) {
        Some(start) => Some((*start, &text[start.len()..])),
        None => text.strip_prefix("./").map(|rest| ("", rest)),
    };
    let Some((start, rest)) = below else {
        if placeholders.is_empty() && !text.contains(['/', '\\']) {
            return Ok(());
        }
        let bare = if placeholders.is_empty() { "a name or " } else { "" };
        return Err((key, format!("{key} must be {bare}a path in the plugin that begins with ./")));
    };
    let outside = || (key, format!("{key} {text:?} is outside the plugin"));
    let path = crate::tree::normalize_path(rest.trim_start_matches('/')).ok_or_else(outside)?;
    if start == "${PLUGIN_DATA}" {
        return Ok(());
    }
    // A link to the outside is rejected even if its target does not exist.
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    let leaves = |end| matches!(tree.find_problem(&path[..end]), Some(TreeError::Outside));
    if ends.into_iter().any(leaves) { Err(outside()) } else { Ok(()) }
}

/// Returns true for a URL with HTTPS, or of this host with HTTP, without user and fragment.
fn is_endpoint(url: &str) -> bool {
    let is_local = |host: &str| {
        let bare = host.strip_prefix('[').and_then(|rest| rest.split(']').next());
        let name = bare.unwrap_or_else(|| host.split(':').next().unwrap_or_default());
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let is_clean = !host.is_empty() && !host.contains('@') && !url.contains(['#', ' ']);
    is_clean
        && match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => is_local(host),
            _ => false,
        }
}
