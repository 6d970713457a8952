//! Reads plugins of the standard Agent Plugins 1.0.0: `plugin.json` in the plugin's root, with a closed schema, and
//! `mcp.json` beside it, with another.
//!
//! A violation of the schema of `plugin.json` rejects the plugin, except unknown fields and an `extensions` that is not
//! an object. A violation in `mcp.json` disables all servers; a violation in a server's entry disables that server.

use serde_json::{Map, Value};

use crate::agent_plugins_schema::{
    MANIFEST, SERVERS, checked_name, checked_server, is_field, wrong_servers_file,
};
use crate::line_numbers::line_of;
use crate::reader::PluginReader;
use crate::servers::{self, KEY, McpServer, Placeholders, ServerSource, ServerWarning};
use crate::tree::{PluginTree, TreeError};

impl PluginReader {
    /// Reads the manifest of a plugin and returns its name; `None` if the plugin is rejected. `tree` is rooted at the
    /// plugin.
    pub(crate) fn manifest_name(&mut self, tree: &PluginTree) -> Option<String> {
        let (manifest, text) = self.read_json_with_text(tree, MANIFEST)?;
        let manifest = manifest.as_object()?;
        let line = |key: &str| line_of(&text, &[key]);
        for key in manifest.keys().filter(|key| !is_field(key)) {
            self.add_notice(
                &tree.display_path(MANIFEST),
                line(key),
                format!("unknown field {key}: it is ignored"),
                false,
            );
        }
        if manifest.get("extensions").is_some_and(|extensions| !extensions.is_object()) {
            let warning = "extensions is not a JSON object: it is ignored";
            self.add_notice(&tree.display_path(MANIFEST), line("extensions"), warning, false);
        }
        match checked_name(manifest) {
            Ok(name) => Some(name),
            Err((key, why)) => {
                let at = line(key).or(Some(1));
                self.add_notice(
                    &tree.display_path(MANIFEST),
                    at,
                    format!("the plugin is not loaded: {why}"),
                    true,
                );
                None
            }
        }
    }

    /// Returns the servers of a plugin. `tree` is rooted at the plugin.
    pub(crate) fn standard_servers(&mut self, tree: &PluginTree, plugin: &str) -> Vec<McpServer> {
        if !tree.is_file(SERVERS) {
            match tree.find_problem(SERVERS) {
                None if tree.is_folder(SERVERS) => self.report_skipped(tree, SERVERS, "it is not a file"),
                None | Some(TreeError::Missing) => {}
                Some(error) => self.report_skipped(tree, SERVERS, error.to_string()),
            }
            return Vec::new();
        }
        let Some((file, text)) = self.read_json_with_text(tree, SERVERS) else { return Vec::new() };
        let wrong = file.as_object().and_then(wrong_servers_file);
        let Some(map) = file.get(KEY).and_then(Value::as_object).filter(|_| wrong.is_none()) else {
            let (key, why) = wrong.unwrap_or((KEY, format!("{KEY} is not a JSON object")));
            let at = line_of(&text, &[key]).or(Some(1));
            self.add_notice(&tree.display_path(SERVERS), at, format!("no MCP server is loaded: {why}"), true);
            return Vec::new();
        };
        let mut remarks: Vec<ServerWarning> = Vec::new();
        let mut valid = Map::new();
        let source = ServerSource { text: &text, keys: &[KEY] };
        for (called, entry) in map {
            match checked_server(tree, entry) {
                Ok(()) => {
                    valid.insert(called.clone(), entry.clone());
                }
                Err((key, why)) => {
                    let at = source.line_of_keys(&[called, key]).or_else(|| source.line_of_keys(&[called]));
                    remarks.push((at, format!("the server {called}: {why}"), true));
                }
            }
        }
        let found = servers::parse_servers(plugin, &valid, source, Placeholders::Standard, &mut remarks);
        for (line, warning, skipped) in remarks {
            self.add_notice(&tree.display_path(SERVERS), line, warning, skipped);
        }
        found
    }
}
