//! Reads plugins of the standard Agent Plugins 1.0.0: `plugin.json` in the plugin's root, with a closed schema, and
//! `mcp.json` beside it, with another.
//!
//! Whatever violates the schema of `plugin.json` rejects the plugin, apart from unknown fields and an `extensions`
//! that is no object. A violation in `mcp.json` disables the servers, one in a server's entry that server.

use serde_json::{Map, Value};

use crate::agent_plugins_schema::{
    MANIFEST, SERVERS, checked_name, checked_server, is_field, wrong_servers_file,
};
use crate::line_numbers::line_of;
use crate::reader::Reader;
use crate::servers::{self, KEY, McpServer, Placeholders, ServerWarning, Source};
use crate::tree::{Tree, TreeError};

impl Reader {
    /// Reads the manifest of a plugin and returns its name; `None` if the plugin is rejected. `tree` is rooted at the
    /// plugin.
    pub(crate) fn manifest_name(&mut self, tree: &Tree) -> Option<String> {
        let (manifest, text) = self.document(tree, MANIFEST)?;
        let manifest = manifest.as_object()?;
        let line = |key: &str| line_of(&text, &[key]);
        for key in manifest.keys().filter(|key| !is_field(key)) {
            self.note(&tree.shown(MANIFEST), line(key), format!("unknown field {key}: it is ignored"), false);
        }
        if manifest.get("extensions").is_some_and(|extensions| !extensions.is_object()) {
            let warning = "extensions is not a JSON object: it is ignored";
            self.note(&tree.shown(MANIFEST), line("extensions"), warning, false);
        }
        match checked_name(manifest) {
            Ok(name) => Some(name),
            Err((key, why)) => {
                let at = line(key).or(Some(1));
                self.note(&tree.shown(MANIFEST), at, format!("the plugin is not loaded: {why}"), true);
                None
            }
        }
    }

    /// Returns the servers of a plugin. `tree` is rooted at the plugin.
    pub(crate) fn standard_servers(&mut self, tree: &Tree, plugin: &str) -> Vec<McpServer> {
        if !tree.is_file(SERVERS) {
            match tree.problem(SERVERS) {
                None if tree.is_folder(SERVERS) => self.skip(tree, SERVERS, "it is not a file"),
                None | Some(TreeError::Missing) => {}
                Some(error) => self.skip(tree, SERVERS, error.to_string()),
            }
            return Vec::new();
        }
        let Some((file, text)) = self.document(tree, SERVERS) else { return Vec::new() };
        let wrong = file.as_object().and_then(wrong_servers_file);
        let Some(map) = file.get(KEY).and_then(Value::as_object).filter(|_| wrong.is_none()) else {
            let (key, why) = wrong.unwrap_or((KEY, format!("{KEY} is not a JSON object")));
            let at = line_of(&text, &[key]).or(Some(1));
            self.note(&tree.shown(SERVERS), at, format!("no MCP server is loaded: {why}"), true);
            return Vec::new();
        };
        let mut remarks: Vec<ServerWarning> = Vec::new();
        let mut valid = Map::new();
        let source = Source { text: &text, keys: &[KEY] };
        for (called, entry) in map {
            match checked_server(tree, entry) {
                Ok(()) => {
                    valid.insert(called.clone(), entry.clone());
                }
                Err((key, why)) => {
                    let at = source.line(&[called, key]).or_else(|| source.line(&[called]));
                    remarks.push((at, format!("the server {called}: {why}"), true));
                }
            }
        }
        let found = servers::read(plugin, &valid, source, Placeholders::Standard, &mut remarks);
        for (line, warning, skipped) in remarks {
            self.note(&tree.shown(SERVERS), line, warning, skipped);
        }
        found
    }
}
