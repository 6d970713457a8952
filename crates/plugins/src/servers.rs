//! MCP servers that a plugin brings: `.mcp.json`, and `mcpServers` of its manifest, in the form that agent tools share.
//!
//! A server is run in the machines, which have no network and hold no secret: what speaks over HTTP is left out, and so
//! is what wants a variable that no machine has.

use std::collections::BTreeMap;

use mcp::{SERVER_NAME_MAX_BYTES, is_server_name};
use protocol::mcp::Server;
use protocol::tool::WORKSPACE;
use serde_json::{Map, Value};

use crate::MACHINE_FOLDER;
use crate::line_numbers::line_of;

/// The key under which servers stand, where anything else does.
pub(crate) const KEY: &str = "mcpServers";
/// The most arguments of a server.
const ARGUMENTS_MAX: usize = 128;
/// The most variables of its environment.
const VARIABLES_MAX: usize = 64;
/// The longest command, argument, variable or folder, in bytes, after expansion.
const TEXT_MAX_BYTES: usize = 8 * 1024;
/// The most tools that are named, and the longest of their names, in bytes.
const NAMED_MAX: usize = 256;
const NAMED_MAX_BYTES: usize = 256;
/// Commands that fetch what they run.
const FETCHERS: [&str; 7] = ["npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman"];
/// What an entry may hold.
const KEYS: [&str; 8] = ["type", "command", "args", "env", "cwd", "tools", "read_only", "disabled"];

/// An MCP server of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// The plugin.
    pub plugin: String,
    /// As its author called it.
    pub called: String,
    /// How machines start it. Its version is empty until the plugin's files are laid out.
    pub spec: Server,
    /// The tools that may run again after a crash, by the names that the server gives them.
    pub read_only: Vec<String>,
}

/// Something that is to be told: the line, what, and whether the server is left out for it.
pub(crate) type ServerWarning = (Option<u32>, String, bool);

/// Where servers stand: the file's text, and the keys that lead to them in it.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    pub(crate) keys: &'a [&'a str],
}

impl Source<'_> {
    fn line(&self, more: &[&str]) -> Option<u32> {
        let keys: Vec<&str> = self.keys.iter().chain(more).copied().collect();
        line_of(self.text, &keys)
    }
}

/// Reads the servers of a map from names to entries.
pub(crate) fn read(
    plugin: &str,
    map: &Map<String, Value>,
    source: Source<'_>,
    remarks: &mut Vec<ServerWarning>,
) -> Vec<McpServer> {
    let mut servers: Vec<McpServer> = Vec::new();
    for (called, entry) in map {
        let line = |key: &str| source.line(&[called, key]).or_else(|| source.line(&[called]));
        match server(plugin, called, entry) {
            Ok((server, unknown)) => {
                if server.spec.name != *called {
                    let told = format!("the server {called} is called {} here", server.spec.name);
                    remarks.push((line(""), told, false));
                }
                for key in unknown {
                    remarks.push((line(key), format!("the server {called}: {key} is passed over"), false));
                }
                let fetcher = &server.spec.command;
                if FETCHERS.contains(&fetcher.as_str()) {
                    let told = format!(
                        "the server {called}: {fetcher} fetches what it runs, and machines have no network"
                    );
                    remarks.push((line("command"), told, false));
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

/// Why a server is left out.
struct InvalidServer {
    key: &'static str,
    why: String,
    /// Whether its author has to do something.
    wrong: bool,
}

fn unfit<T>(key: &'static str, why: impl Into<String>) -> Result<T, InvalidServer> {
    Err(InvalidServer { key, why: why.into(), wrong: true })
}

/// A server as machines start it, and the keys of the entry that nobody knows here.
fn server<'a>(
    plugin: &str,
    called: &str,
    entry: &'a Value,
) -> Result<(McpServer, Vec<&'a String>), InvalidServer> {
    let Some(entry) = entry.as_object() else { return unfit("", "it is no JSON object") };
    let passed_over = |key, why: &str| Err(InvalidServer { key, why: why.to_owned(), wrong: false });
    if entry.get("disabled").and_then(Value::as_bool) == Some(true) {
        return passed_over("disabled", "it is disabled");
    }
    let kind = entry.get("type").and_then(Value::as_str).unwrap_or("stdio");
    if kind != "stdio" || (entry.contains_key("url") && !entry.contains_key("command")) {
        return passed_over("url", "it is not called: servers over HTTP are the operator's to grant");
    }
    let Some(name) = name(called) else {
        return unfit("", format!("a name has 1 to {SERVER_NAME_MAX_BYTES} letters, digits and hyphens"));
    };
    let root = format!("{MACHINE_FOLDER}/{plugin}");
    let command = match entry.get("command") {
        Some(Value::String(command)) => expanded("command", command, &root)?,
        _ => return unfit("command", "there is no command that starts it"),
    };
    if command.trim().is_empty() {
        return unfit("command", "there is no command that starts it");
    }
    let args = texts("args", entry.get("args"), ARGUMENTS_MAX)?;
    let args = args.iter().map(|text| expanded("args", text, &root)).collect::<Result<_, _>>()?;
    let folder = match entry.get("cwd") {
        None | Some(Value::Null) => WORKSPACE.to_owned(),
        Some(Value::String(folder)) => {
            let folder = expanded("cwd", folder, &root)?;
            if folder.starts_with('/') {
                folder
            } else {
                format!("{root}/{}", folder.trim_start_matches("./"))
            }
        }
        Some(_) => return unfit("cwd", "cwd is no text"),
    };
    let env = variables(entry.get("env"), &root)?;
    let tools = match entry.get("tools") {
        None | Some(Value::Null) => None,
        listed => Some(texts("tools", listed, NAMED_MAX)?),
    };
    let read_only = texts("read_only", entry.get("read_only"), NAMED_MAX)?;
    if tools.iter().flatten().chain(&read_only).any(|tool| tool.len() > NAMED_MAX_BYTES) {
        return unfit("tools", "a tool's name is too long");
    }
    let unknown = entry.keys().filter(|key| !KEYS.contains(&key.as_str())).collect();
    let spec = Server { name, version: String::new(), command, args, env, folder, tools };
    Ok((McpServer { plugin: plugin.to_owned(), called: called.to_owned(), spec, read_only }, unknown))
}

/// A name that tools' names can begin with: the author's, as far as it can.
fn name(called: &str) -> Option<String> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let name: String = called.chars().map(plain).collect();
    let name = name.trim_matches('-');
    let name = name[..name.len().min(SERVER_NAME_MAX_BYTES)].trim_end_matches('-');
    is_server_name(name).then(|| name.to_owned())
}

fn texts(key: &'static str, value: Option<&Value>, most: usize) -> Result<Vec<String>, InvalidServer> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(all)) if all.len() <= most => all
            .iter()
            .map(|one| one.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .map_or_else(|| unfit(key, format!("{key} holds something else than texts")), Ok),
        Some(Value::Array(_)) => unfit(key, format!("{key} holds more than {most} texts")),
        Some(_) => unfit(key, format!("{key} is no list of texts")),
    }
}

fn variables(value: Option<&Value>, root: &str) -> Result<BTreeMap<String, String>, InvalidServer> {
    let map = match value {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(map)) if map.len() <= VARIABLES_MAX => map,
        Some(Value::Object(_)) => {
            return unfit("env", format!("env holds more than {VARIABLES_MAX} variables"));
        }
        Some(_) => return unfit("env", "env is no JSON object"),
    };
    let mut variables = BTreeMap::from([("CLAUDE_PLUGIN_ROOT".to_owned(), root.to_owned())]);
    for (name, value) in map {
        if !is_variable(name) {
            return unfit("env", format!("{name:?} cannot be the name of a variable"));
        }
        let text = match value {
            Value::String(text) => expanded("env", text, root)?,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return unfit("env", format!("{name} is no text")),
        };
        variables.insert(name.clone(), text);
    }
    Ok(variables)
}

fn is_variable(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&name.len()) && name.bytes().all(letter) && !name.as_bytes()[0].is_ascii_digit()
}

/// Whether this is to be replaced: a variable, or a setting of other programs (`user_config.key`).
fn is_wanted(name: &str) -> bool {
    name.split('.').all(is_variable)
}

/// The text with each `${NAME}` and `${NAME:-otherwise}` as it is in a machine.
fn expanded(key: &'static str, text: &str, root: &str) -> Result<String, InvalidServer> {
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
            // It is something else, and stays as it is.
            out.push_str("${");
            rest = inside;
            continue;
        };
        let (name, otherwise) = split.map_or((word, None), |(name, otherwise)| (name, Some(otherwise)));
        match in_machine(name, root).or(otherwise) {
            Some(value) => out.push_str(value),
            None => {
                return unfit(key, format!("{name} is set in no machine, and nothing is said for that case"));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    if out.len() > TEXT_MAX_BYTES || out.contains('\0') {
        return unfit(key, format!("{key} holds NUL or more than {TEXT_MAX_BYTES} bytes"));
    }
    Ok(out)
}

/// What a variable is in every machine.
fn in_machine<'a>(name: &str, root: &'a str) -> Option<&'a str> {
    match name {
        "CLAUDE_PLUGIN_ROOT" => Some(root),
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
        let of = |text: &str| expanded("args", text, "/plugins/legal").map_err(|unfit| unfit.why);
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
        assert!(of("${API_KEY}").is_err_and(|why| why.starts_with("API_KEY is set in no machine")));
        assert!(of(&"x".repeat(TEXT_MAX_BYTES + 1)).is_err() && of("\0").is_err());
    }

    #[test]
    fn names_become_such_as_tools_can_begin_with() {
        for (called, named) in [
            ("registry", Some("registry")),
            ("Land_Register 2", Some("land-register-2")),
            ("@scope/server", Some("scope-server")),
            ("sequential-thinking-with-a-long-name", Some("sequential-thinking-with")),
            ("č", None),
            ("", None),
        ] {
            assert_eq!(name(called).as_deref(), named, "{called}");
        }
    }
}
