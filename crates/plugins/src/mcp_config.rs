//! Finds the MCP servers of a plugin and bounds their number.

use mcp::SERVERS_MAX;
use serde_json::{Map, Value};

use crate::PLUGIN_FILES_MAX;
use crate::library::SkillFiles;
use crate::reader::{MANIFEST, Plugin, PluginReader, SERVERS};
use crate::servers::{self, KEY, McpServer, Placeholders, ServerSource, ServerWarning};
use crate::tree::{PluginTree, join_path, normalize_path};

/// The maximum number of locations that a manifest may list for servers.
const PLACES_MAX: usize = 16;

impl PluginReader {
    /// Returns the servers of a plugin: from its own file, from the files that its manifest names, and from the
    /// manifest.
    pub(crate) fn read_servers(
        &mut self,
        tree: &PluginTree,
        root: &str,
        plugin: &str,
        manifest: &Value,
        entry: &Value,
    ) -> Vec<McpServer> {
        let mut found = Vec::new();
        let own = join_path(root, SERVERS);
        if tree.is_file(&own) {
            self.of_file(tree, &own, plugin, &mut found);
        }
        let declared = manifest.get(KEY).or_else(|| entry.get(KEY));
        let places = match declared {
            None | Some(Value::Null) => &[],
            Some(Value::Array(several)) => several.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        let manifest_file = join_path(root, MANIFEST);
        for place in places.iter().take(PLACES_MAX) {
            match place {
                Value::String(path) => match normalize_path(path).map(|path| join_path(root, &path)) {
                    Some(path) if path == own => {}
                    Some(path) => self.of_file(tree, &path, plugin, &mut found),
                    None => self.report_skipped(
                        tree,
                        &manifest_file,
                        format!("{KEY}: {path:?} is outside the plugin"),
                    ),
                },
                Value::Object(map) => {
                    let text = self
                        .read_json_with_text(tree, &manifest_file)
                        .map(|(_, text)| text)
                        .unwrap_or_default();
                    let source = ServerSource { text: &text, keys: &[KEY] };
                    self.of_map(tree, &manifest_file, plugin, map, source, &mut found);
                }
                _ => self.report_skipped(
                    tree,
                    &manifest_file,
                    format!("{KEY} is neither a path nor a JSON object"),
                ),
            }
        }
        found
    }

    fn of_file(&mut self, tree: &PluginTree, file: &str, plugin: &str, found: &mut Vec<McpServer>) {
        let Some((value, text)) = self.read_json_with_text(tree, file) else { return };
        let none = Map::new();
        let (map, keys): (_, &[&str]) = match value.get(KEY) {
            Some(Value::Object(map)) => (map, &[KEY]),
            Some(_) => {
                let line = crate::line_numbers::line_of(&text, &[KEY]);
                self.add_notice(&tree.display_path(file), line, format!("{KEY} is not a JSON object"), true);
                (&none, &[KEY])
            }
            // Some files contain only the map of servers.
            None => (value.as_object().unwrap_or(&none), &[]),
        };
        self.of_map(tree, file, plugin, map, ServerSource { text: &text, keys }, found);
    }

    fn of_map(
        &mut self,
        tree: &PluginTree,
        file: &str,
        plugin: &str,
        map: &Map<String, Value>,
        source: ServerSource<'_>,
        found: &mut Vec<McpServer>,
    ) {
        let mut remarks: Vec<ServerWarning> = Vec::new();
        found.extend(servers::parse_servers(plugin, map, source, Placeholders::Machine, &mut remarks));
        for (line, warning, skipped) in remarks {
            self.add_notice(&tree.display_path(file), line, warning, skipped);
        }
    }

    /// Adds a plugin's servers to the library, and all its files, which they may need.
    pub(crate) fn keep_servers(&mut self, plugin: Plugin<'_>, shelf: &mut SkillFiles) {
        let Plugin { tree, root, servers, .. } = plugin;
        let Some(files) = self.files_of(tree, &root, PLUGIN_FILES_MAX) else { return };
        for server in servers {
            let name = &server.spec.name;
            if self.library.servers.len() >= SERVERS_MAX {
                self.report_skipped(
                    tree,
                    &root,
                    format!("too many MCP servers: {SERVERS_MAX} is the maximum"),
                );
                break;
            }
            if self.library.servers.iter().any(|other| other.spec.name == *name) {
                self.report_skipped(
                    tree,
                    &root,
                    format!("duplicate MCP server {name}: the first one is used"),
                );
                continue;
            }
            self.library.servers.push(server);
        }
        shelf.whole = Some((root, files));
    }
}
