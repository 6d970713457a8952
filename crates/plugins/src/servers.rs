//! Parses the MCP servers of a plugin: `.mcp.json`, and `mcpServers` of its manifest, in the format that agent
//! tools share; and the servers of `mcp.json`, after a check of its schema.
//!
//! Servers run in the machines, which have no network and no secrets: entries that use HTTP, or variables that
//! machines do not have, are skipped.

use std::collections::BTreeMap;

use mcp::{SERVER_NAME_MAX_BYTES, is_server_name};
use protocol::mcp::McpServerSpec;
use protocol::tool::WORKSPACE;
use serde_json::{Map, Value};

use crate::line_numbers::line_of;
use crate::{DATA_FOLDER, MACHINE_FOLDER};

/// The key of the server map, in files with other keys, too.
pub(crate) const KEY: &str = "mcpServers";
/// The maximum number of arguments per server.
const ARGUMENTS_MAX: usize = 128;
/// The maximum number of environment variables per server.
const VARIABLES_MAX: usize = 64;
/// The longest command, argument, variable or folder after expansion, in bytes.
const TEXT_MAX_BYTES: usize = 8 * 1024;
/// The maximum number of named tools, and the longest name, in bytes.
const NAMED_MAX: usize = 256;
const NAMED_MAX_BYTES: usize = 256;
/// Commands that download the programs that they run.
const FETCHERS: [&str; 7] = ["npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman"];
/// The known keys of an entry.
const KEYS: [&str; 8] = ["type", "command", "args", "env", "cwd", "tools", "read_only", "disabled"];

/// An MCP server of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    pub plugin: String,
    /// The name that its author gave it.
    pub called: String,
    /// The start command in machines. The version is empty until the plugin's files are published.
    pub spec: McpServerSpec,
    /// The tools that may run again after a crash, by the names that the server uses.
    pub read_only: Vec<String>,
}

/// A warning: the line, the text, and whether the server is skipped.
pub(crate) type ServerWarning = (Option<u32>, String, bool);

/// The location of servers: the file's text and the keys that lead to them.
#[derive(Clone, Copy)]
pub(crate) struct ServerSource<'a> {
    pub(crate) text: &'a str,
    pub(crate) keys: &'a [&'a str],
}

impl ServerSource<'_> {
    pub(crate) fn line_of_keys(&self, more: &[&str]) -> Option<u32> {
        let keys: Vec<&str> = self.keys.iter().chain(more).copied().collect();
        line_of(self.text, &keys)
    }
}

/// The placeholders of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placeholders {
    /// The variables of machines, with fallbacks; others are refused.
    Machine,
    /// `${PLUGIN_ROOT}` and `${PLUGIN_DATA}` only; similar texts are plain text.
    Standard,
}

/// A plugin's folders in a machine, and the placeholders that it may use.
struct Folders {
    root: String,
    data: String,
    placeholders: Placeholders,
}

/// Parses a map from names to server entries.
pub(crate) fn parse_servers(
    plugin: &str,
    map: &Map<String, Value>,
    source: ServerSource<'_>,
    placeholders: Placeholders,
    remarks: &mut Vec<ServerWarning>,
) -> Vec<McpServer> {
    let mut servers: Vec<McpServer> = Vec::new();
    for (called, entry) in map {
        let line = |key: &str| source.line_of_keys(&[called, key]).or_else(|| source.line_of_keys(&[called]));
        match parse_server(plugin, called, entry, placeholders) {
            Ok((server, unknown)) => {
                if server.spec.name != *called {
                    let warning = format!("the server {called} is renamed to {}", server.spec.name);
                    remarks.push((line(""), warning, false));
                }
                for key in unknown {
                    remarks.push((line(key), format!("the server {called}: {key} is ignored"), false));
                }
                let fetcher = &server.spec.command;
                if FETCHERS.contains(&fetcher.as_str()) {
                    let warning = format!(
                        "the server {called}: {fetcher} downloads what it runs, but machines have no network"
                    );
                    remarks.push((line("command"), warning, false));
                }
                servers.push(server);
            }
            Err(InvalidServer { key, why, wrong }) => {
                remarks.push((line(key), format!("the server {called}: {why}"), wrong));
            }
        }
    }
    servers
}

/// The reason why a server is skipped.
struct InvalidServer {
    key: &'static str,
    why: String,
    /// True if its author has to act.
    wrong: bool,
}

fn reject_entry<T>(key: &'static str, why: impl Into<String>) -> Result<T, InvalidServer> {
    Err(InvalidServer { key, why: why.into(), wrong: true })
}

/// Parses the entry of a server. Also returns its unknown keys.
fn parse_server<'a>(
    plugin: &str,
    called: &str,
    entry: &'a Value,
    placeholders: Placeholders,
) -> Result<(McpServer, Vec<&'a String>), InvalidServer> {
    let Some(entry) = entry.as_object() else { return reject_entry("", "it is not a JSON object") };
    let passed_over = |key, why: &str| Err(InvalidServer { key, why: why.to_owned(), wrong: false });
    if entry.get("disabled").and_then(Value::as_bool) == Some(true) {
        return passed_over("disabled", "it is disabled");
    }
    let kind = entry.get("type").and_then(Value::as_str).unwrap_or("stdio");
    if kind != "stdio" || (entry.contains_key("url") && !entry.contains_key("command")) {
        return passed_over("url", "it is skipped: only operators may grant servers over HTTP");
    }
    let Some(name) = tool_prefix(called) else {
        return reject_entry(
            "",
            format!("invalid name: use 1 to {SERVER_NAME_MAX_BYTES} letters, digits and hyphens"),
        );
    };
    let folders = Folders {
        root: format!("{MACHINE_FOLDER}/{plugin}"),
        data: format!("{DATA_FOLDER}/{plugin}"),
        placeholders,
    };
    let is_standard = placeholders == Placeholders::Standard;
    let command = match entry.get("command") {
        // A path is relative to the plugin, not to the server's working folder.
        Some(Value::String(command)) if is_standard => match command.strip_prefix("./") {
            Some(path) => format!("{}/{path}", folders.root),
            None => command.clone(),
        },
        Some(Value::String(command)) => expand_variables("command", command, &folders)?,
        _ => return reject_entry("command", "the start command is missing"),
    };
    if command.trim().is_empty() {
        return reject_entry("command", "the start command is missing");
    }
    let args = parse_texts("args", entry.get("args"), ARGUMENTS_MAX)?;
    let args = args.iter().map(|text| expand_variables("args", text, &folders)).collect::<Result<_, _>>()?;
    let folder = match entry.get("cwd") {
        None | Some(Value::Null) if is_standard => folders.root.clone(),
        None | Some(Value::Null) => WORKSPACE.to_owned(),
        Some(Value::String(folder)) => {
            let folder = expand_variables("cwd", folder, &folders)?;
            if folder.starts_with('/') {
                folder
            } else {
                format!("{}/{}", folders.root, folder.trim_start_matches("./"))
            }
        }
        Some(_) => return reject_entry("cwd", "cwd is not a text"),
    };
    let env = parse_variables(entry.get("env"), &folders)?;
    let tools = match entry.get("tools") {
        None | Some(Value::Null) => None,
        listed => Some(parse_texts("tools", listed, NAMED_MAX)?),
    };
    let read_only = parse_texts("read_only", entry.get("read_only"), NAMED_MAX)?;
    if tools.iter().flatten().chain(&read_only).any(|tool| tool.len() > NAMED_MAX_BYTES) {
        return reject_entry("tools", "the name of a tool is too long");
    }
    let unknown = entry.keys().filter(|key| !KEYS.contains(&key.as_str())).collect();
    let data_folder = Some(folders.data);
    let spec = McpServerSpec { name, version: String::new(), command, args, env, folder, data_folder, tools };
    Ok((McpServer { plugin: plugin.to_owned(), called: called.to_owned(), spec, read_only }, unknown))
}

/// Derives a valid prefix for tools' names from the author's name.
fn tool_prefix(called: &str) -> Option<String> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let name: String = called.chars().map(plain).collect();
    let name = name.trim_matches('-');
    let name = name[..name.len().min(SERVER_NAME_MAX_BYTES)].trim_end_matches('-');
    is_server_name(name).then(|| name.to_owned())
}

fn parse_texts(key: &'static str, value: Option<&Value>, most: usize) -> Result<Vec<String>, InvalidServer> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(all)) if all.len() <= most => all
            .iter()
            .map(|one| one.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .map_or_else(|| reject_entry(key, format!("{key} contains values that are not texts")), Ok),
        Some(Value::Array(_)) => reject_entry(key, format!("{key} has more than {most} texts")),
        Some(_) => reject_entry(key, format!("{key} is not a list of texts")),
    }
}

fn parse_variables(
    value: Option<&Value>,
    folders: &Folders,
) -> Result<BTreeMap<String, String>, InvalidServer> {
    let none = Map::new();
    let map = match value {
        None | Some(Value::Null) => &none,
        Some(Value::Object(map)) if map.len() <= VARIABLES_MAX => map,
        Some(Value::Object(_)) => {
            return reject_entry("env", format!("env has more than {VARIABLES_MAX} variables"));
        }
        Some(_) => return reject_entry("env", "env is not a JSON object"),
    };
    let own = [("PLUGIN_ROOT", &folders.root), ("PLUGIN_DATA", &folders.data)];
    let named = |prefix: &str| own.map(|(name, value)| (format!("{prefix}{name}"), value.clone()));
    let mut variables = BTreeMap::from(named("CLAUDE_"));
    for (name, value) in map {
        if !is_variable(name) {
            return reject_entry("env", format!("invalid variable name {name:?}"));
        }
        let text = match value {
            Value::String(text) => expand_variables("env", text, folders)?,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return reject_entry("env", format!("{name} is not a text")),
        };
        variables.insert(name.clone(), text);
    }
    variables.extend(named(""));
    Ok(variables)
}

fn is_variable(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&name.len()) && name.bytes().all(letter) && !name.as_bytes()[0].is_ascii_digit()
}

/// Returns true for a placeholder: a variable, or a setting of other programs (`user_config.key`).
fn is_wanted(name: &str) -> bool {
    name.split('.').all(is_variable)
}

/// Expands each `${NAME}` and `${NAME:-fallback}` to its value in a machine, or the placeholders of the standard.
fn expand_variables(key: &'static str, text: &str, folders: &Folders) -> Result<String, InvalidServer> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let parts = inside.split_once('}');
        let named = parts.map(|(word, after)| (word.split_once(":-"), word, after));
        let Some((split, word, after)) =
            named.filter(|(split, word, _)| is_wanted(split.map_or(*word, |(name, _)| name)))
        else {
            // Not a placeholder: copied unchanged.
            out.push_str("${");
            rest = inside;
            continue;
        };
        if folders.placeholders == Placeholders::Standard && !["PLUGIN_ROOT", "PLUGIN_DATA"].contains(&word) {
            out.push_str("${");
            rest = inside;
            continue;
        }
        let (name, otherwise) = split.map_or((word, None), |(name, otherwise)| (name, Some(otherwise)));
        match in_machine(name, folders).or(otherwise) {
            Some(value) => out.push_str(value),
            None => {
                return reject_entry(key, format!("{name} is not set in machines and has no fallback"));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    if out.len() > TEXT_MAX_BYTES || out.contains('\0') {
        return reject_entry(key, format!("{key} contains NUL or more than {TEXT_MAX_BYTES} bytes"));
    }
    Ok(out)
}

/// Returns the value of a variable in every machine.
fn in_machine<'a>(name: &str, folders: &'a Folders) -> Option<&'a str> {
    match name {
        "CLAUDE_PLUGIN_ROOT" | "PLUGIN_ROOT" => Some(&folders.root),
        "CLAUDE_PLUGIN_DATA" | "PLUGIN_DATA" => Some(&folders.data),
        "CLAUDE_PROJECT_DIR" | "HOME" | "PWD" => Some(WORKSPACE),
        "TMPDIR" => Some("/tmp"),
        "LANG" => Some("C.UTF-8"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_of_a_machine() {
        let folders = |placeholders| Folders {
            root: "/plugins/legal".to_owned(),
            data: format!("{DATA_FOLDER}/legal"),
            placeholders,
        };
        let of = |text: &str| {
            expand_variables("args", text, &folders(Placeholders::Machine)).map_err(|unfit| unfit.why)
        };
        let standard = expand_variables(
            "args",
            "${PLUGIN_DATA}/${HOME}${PLUGIN_ROOT:-x}",
            &folders(Placeholders::Standard),
        );
        let plain = "/workspace/.plugin-data/legal/${HOME}${PLUGIN_ROOT:-x}";
        assert_eq!(standard.ok().as_deref(), Some(plain), "nothing else is a placeholder");
        for (text, expanded) in [
            ("${CLAUDE_PLUGIN_ROOT}/server.py", "/plugins/legal/server.py"),
            ("${PORT:-80}${HOME}", "80/workspace"),
            ("${HOME:-/root}", "/workspace"),
            ("${EMPTY:-}x", "x"),
            ("$HOME ${} ${1} ${a b} ${", "$HOME ${} ${1} ${a b} ${"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(expanded), "{text}");
        }
        assert!(of("${user_config.url}").is_err(), "nobody is asked for settings here");
        assert!(of("${API_KEY}").is_err_and(|why| why.starts_with("API_KEY is not set in machines")));
        assert!(of(&"x".repeat(TEXT_MAX_BYTES + 1)).is_err() && of("\0").is_err());
    }

    #[test]
    fn server_names_become_tool_prefixes() {
        for (called, named) in [
            ("registry", Some("registry")),
            ("Land_Register 2", Some("land-register-2")),
            ("@scope/server", Some("scope-server")),
            ("sequential-thinking-with-a-long-name", Some("sequential-thinking-with")),
            ("č", None),
            ("", None),
        ] {
            assert_eq!(tool_prefix(called).as_deref(), named, "{called}");
        }
    }
}
