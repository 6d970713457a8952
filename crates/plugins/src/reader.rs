//! Finds plugins in folders, and skills and agents in plugins.
//!
//! A folder may be a marketplace (`.claude-plugin/marketplace.json`), a plugin (`plugin.json`, or
//! `.claude-plugin/plugin.json`, or `skills/` or `agents/`), a single skill (`SKILL.md`), or a folder of these. If
//! both manifests exist, `plugin.json` counts.

mod names;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use domain::id::{AgentId, SkillId};
use domain::skill::SkillName;
use serde_json::Value;

use self::names::{
    NAME_RULE, escape_text, folder_name, is_elsewhere, is_name, is_standard, read_jurisdictions,
};
use crate::agent_plugins_schema;
use crate::frontmatter::{self, Frontmatter};
use crate::library::{PluginLibrary, SkillFiles};
use crate::tree::{Embedded, PluginTree, TreeError, join_path, normalize_path};
use crate::{
    AGENTS_MAX, McpServer, NOTICES_MAX, Notice, PLUGINS_MAX, PluginAgent, SKILL_FILE_MAX_BYTES,
    SKILL_FILES_MAX, SKILLS_MAX, Skill, TEXT_FILE_MAX_BYTES, tools,
};

pub(crate) const MANIFEST: &str = ".claude-plugin/plugin.json";
const MARKETPLACE: &str = ".claude-plugin/marketplace.json";
const SKILL_FILE: &str = "SKILL.md";
pub(crate) const SERVERS: &str = ".mcp.json";
/// The longest manifest, in bytes.
const MANIFEST_MAX_BYTES: u64 = 1024 * 1024;

static EMBEDDED: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Reads the built-in plugin and the plugins of the folders, in this order: the first of several plugins with the same
/// name is used. Blocks.
#[must_use]
pub fn read_plugins(folders: &[PathBuf]) -> PluginLibrary {
    let mut reader = PluginReader::default();
    reader.read_tree(&PluginTree::Embedded(EMBEDDED));
    for folder in folders {
        reader.read_folder(folder);
    }
    reader.into_library()
}

/// Reads a single folder, to check it for its author. Blocks.
#[must_use]
pub fn read_one(folder: &Path) -> PluginLibrary {
    let mut reader = PluginReader::default();
    reader.read_folder(folder);
    let PluginLibrary { skills, agents, servers, .. } = &reader.library;
    if skills.is_empty() && agents.is_empty() && servers.is_empty() {
        // A plugin with only other parts, such as commands, is not broken.
        let is_plugin = !reader.plugins.is_empty();
        let folder = folder.display().to_string();
        reader.add_notice(&folder, None, "no skill, agent or MCP server found", !is_plugin);
    }
    reader.into_library()
}

#[derive(Default)]
pub(crate) struct PluginReader {
    pub(crate) library: PluginLibrary,
    plugins: HashSet<String>,
    /// The folder of the plugin that is being read.
    reading: Option<String>,
}

/// A plugin that was found.
pub(crate) struct Plugin<'a> {
    pub(crate) tree: &'a PluginTree,
    /// The folder in the tree.
    pub(crate) root: String,
    pub(crate) name: String,
    /// The folders of its skills and the files of its agents.
    skills: Vec<String>,
    agents: Vec<String>,
    pub(crate) servers: Vec<McpServer>,
    /// True if it follows the standard Agent Plugins, whose skills are strict, too.
    is_standard: bool,
}

impl PluginReader {
    fn into_library(mut self) -> PluginLibrary {
        self.library.skills.sort_by(|one, other| one.name.full_name.cmp(&other.name.full_name));
        self.library.agents.sort_by(|one, other| one.full_name.cmp(&other.full_name));
        self.library
    }

    pub(crate) fn add_notice(
        &mut self,
        file: &str,
        line: Option<u32>,
        text: impl Into<String>,
        skipped: bool,
    ) {
        if self.library.notices.len() < NOTICES_MAX {
            let (file, text) = (escape_text(file), escape_text(&text.into()));
            let folder = self.reading.clone().unwrap_or_else(|| file.clone());
            self.library.notices.push(Notice { folder, file, line, text, skipped });
        } else {
            self.library.notices_left_out += 1;
        }
    }

    pub(crate) fn report_skipped(&mut self, tree: &PluginTree, path: &str, why: impl Into<String>) {
        self.add_notice(&tree.display_path(path), None, why, true);
    }

    fn read_folder(&mut self, folder: &Path) {
        self.reading = None;
        match PluginTree::open_folder(folder) {
            Ok(tree) => self.read_tree(&tree),
            Err(error) => self.add_notice(&folder.display().to_string(), None, error.to_string(), true),
        }
    }

    fn read_tree(&mut self, tree: &PluginTree) {
        if self.read_known_folder(tree, "") {
            return;
        }
        match tree.list_names("") {
            Ok(names) => {
                for name in names.iter().filter(|name| tree.is_folder(name)) {
                    self.read_known_folder(tree, name);
                }
            }
            Err(error) => self.report_skipped(tree, "", error.to_string()),
        }
    }

    /// Reads a single folder. Returns `false` if it contains nothing known.
    fn read_known_folder(&mut self, tree: &PluginTree, root: &str) -> bool {
        let is_standard = is_standard(tree, root);
        if tree.is_file(&join_path(root, MARKETPLACE)) {
            let lists_root = self.read_marketplace(tree, root);
            if is_standard && !lists_root {
                self.standard_plugin(tree, root);
            }
            return true;
        }
        let is_plugin = is_standard
            || tree.is_file(&join_path(root, MANIFEST))
            || tree.is_folder(&join_path(root, "skills"))
            || tree.is_folder(&join_path(root, "agents"))
            || tree.is_file(&join_path(root, SERVERS));
        if is_plugin {
            self.read_plugin(tree, root, &Value::Null);
            return true;
        }
        if !tree.is_file(&join_path(root, SKILL_FILE)) {
            return false;
        }
        self.reading = Some(escape_text(tree.display_path(root).trim_end_matches('/')));
        let name = folder_name(tree, root).to_owned();
        let skills = vec![root.to_owned()];
        let (agents, servers) = (Vec::new(), Vec::new());
        let is_standard = false;
        self.add_plugin(Plugin { tree, root: root.to_owned(), name, skills, agents, servers, is_standard });
        true
    }

    /// Reads the plugins of a marketplace. Returns true if its own folder is one of them.
    fn read_marketplace(&mut self, tree: &PluginTree, root: &str) -> bool {
        let Some(market) = self.read_json(tree, &join_path(root, MARKETPLACE)) else { return false };
        let mut lists_root = false;
        let file = join_path(root, MARKETPLACE);
        let listed = market.get("plugins").and_then(Value::as_array).cloned().unwrap_or_default();
        if listed.is_empty() {
            self.report_skipped(tree, &file, "it lists no plugins");
        }
        for entry in listed.iter().take(PLUGINS_MAX) {
            self.reading = None;
            let name = entry.get("name").and_then(Value::as_str).unwrap_or("a plugin without a name");
            let source = entry.get("source");
            if source.is_some_and(is_elsewhere) {
                let notice = format!("{name}: it is not loaded, because its source is on another server");
                self.add_notice(&tree.display_path(&file), None, notice, false);
                continue;
            }
            match source.map(|source| source.as_str().and_then(normalize_path)) {
                Some(Some(source)) => {
                    lists_root |= source.is_empty();
                    let folder = if source.is_empty() { root.to_owned() } else { join_path(root, &source) };
                    if tree.is_folder(&folder) {
                        self.read_plugin(tree, &folder, entry);
                    } else {
                        self.report_skipped(
                            tree,
                            &file,
                            format!("{name}: the folder {source} does not exist"),
                        );
                    }
                }
                _ => self.report_skipped(
                    tree,
                    &file,
                    format!("{name}: its source is not a folder below this one"),
                ),
            }
        }
        lists_root
    }

    /// Reads a plugin of the standard Agent Plugins. Reads nothing outside of its folder.
    fn standard_plugin(&mut self, tree: &PluginTree, root: &str) {
        self.reading = Some(escape_text(tree.display_path(root).trim_end_matches('/')));
        let tree = match tree.subtree_at(root) {
            Ok(tree) => &tree.clone(),
            Err(error) => return self.report_skipped(tree, root, error.to_string()),
        };
        let Some(name) = self.manifest_name(tree) else { return };
        if !tree.is_folder("skills") && tree.has_entry("skills") {
            self.report_skipped(tree, "skills", "it is not a folder of the plugin");
        }
        let (skills, agents) = (self.list_entries(tree, "skills"), self.list_entries(tree, "agents"));
        self.passed_over(tree, "", &Value::Null, false);
        let servers = self.standard_servers(tree, &name);
        if tree.is_file(SERVERS) {
            self.add_notice(
                &tree.display_path(SERVERS),
                None,
                "it is ignored: mcp.json counts beside plugin.json",
                false,
            );
        }
        self.add_plugin(Plugin {
            tree,
            root: String::new(),
            name,
            skills,
            agents,
            servers,
            is_standard: true,
        });
    }

    /// Reads a plugin; `entry` is its marketplace entry.
    fn read_plugin(&mut self, tree: &PluginTree, root: &str, entry: &Value) {
        if is_standard(tree, root) {
            return self.standard_plugin(tree, root);
        }
        self.reading = Some(escape_text(tree.display_path(root).trim_end_matches('/')));
        let manifest_file = join_path(root, MANIFEST);
        let manifest = if tree.is_file(&manifest_file) {
            let Some(manifest) = self.read_json(tree, &manifest_file) else { return };
            manifest
        } else {
            Value::Null
        };
        let declared = |key: &str| manifest.get(key).or_else(|| entry.get(key));
        let name = entry.get("name").or_else(|| manifest.get("name")).and_then(Value::as_str);
        let name = name.unwrap_or_else(|| folder_name(tree, root)).to_owned();
        // A marketplace entry that lists skills refers only to these, because several plugins may share the folder.
        let only_listed = manifest.is_null() && entry.get("skills").is_some();
        let mut skills = Vec::new();
        if !only_listed {
            skills.extend(self.list_entries(tree, &join_path(root, "skills")));
        }
        for path in self.manifest_paths(tree, root, "skills", declared("skills")) {
            if tree.is_file(&join_path(&path, SKILL_FILE)) {
                skills.push(path);
            } else {
                skills.extend(self.list_entries(tree, &path));
            }
        }
        let mut agents = Vec::new();
        if !only_listed {
            agents.extend(self.list_entries(tree, &join_path(root, "agents")));
        }
        for path in self.manifest_paths(tree, root, "agents", declared("agents")) {
            if tree.is_folder(&path) {
                agents.extend(self.list_entries(tree, &path))
            } else {
                agents.push(path)
            }
        }
        self.passed_over(tree, root, &manifest, only_listed);
        let unique = |mut all: Vec<String>| {
            let mut seen = HashSet::new();
            all.retain(|path| seen.insert(path.clone()));
            all
        };
        let (skills, agents) = (unique(skills), unique(agents));
        let servers =
            if only_listed { Vec::new() } else { self.read_servers(tree, root, &name, &manifest, entry) };
        let is_standard = false;
        self.add_plugin(Plugin { tree, root: root.to_owned(), name, skills, agents, servers, is_standard });
    }

    /// Reports features of a plugin that this service does not support.
    fn passed_over(&mut self, tree: &PluginTree, root: &str, manifest: &Value, only_listed: bool) {
        if only_listed {
            return;
        }
        let has = |key: &str, path: &str| {
            manifest.get(key).is_some()
                || tree.is_folder(&join_path(root, path))
                || tree.is_file(&join_path(root, path))
        };
        for (key, path, warning) in
            [("hooks", "hooks", "hooks are not run"), ("commands", "commands", "commands are not offered")]
        {
            if has(key, path) {
                self.add_notice(&tree.display_path(&join_path(root, path)), None, warning, false);
            }
        }
    }

    /// Lists the entries of a plugin's folder; empty if it does not exist.
    fn list_entries(&mut self, tree: &PluginTree, folder: &str) -> Vec<String> {
        if !tree.is_folder(folder) {
            return Vec::new();
        }
        match tree.list_names(folder) {
            Ok(names) => names.iter().map(|name| join_path(folder, name)).collect(),
            Err(error) => {
                self.report_skipped(tree, folder, error.to_string());
                Vec::new()
            }
        }
    }

    /// Returns the paths under a key of the manifest: a text or a list of texts.
    fn manifest_paths(
        &mut self,
        tree: &PluginTree,
        root: &str,
        key: &str,
        value: Option<&Value>,
    ) -> Vec<String> {
        let written: Vec<&str> = match value {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            Some(_) => {
                self.add_notice(
                    &tree.display_path(&join_path(root, MANIFEST)),
                    None,
                    format!("{key} is not a path"),
                    false,
                );
                Vec::new()
            }
        };
        let mut paths = Vec::new();
        for one in written.into_iter().take(SKILLS_MAX) {
            match normalize_path(one) {
                Some(path) => paths.push(join_path(root, &path).trim_end_matches('/').to_owned()),
                None => self.report_skipped(
                    tree,
                    &join_path(root, MANIFEST),
                    format!("{key}: {one:?} is outside the plugin"),
                ),
            }
        }
        paths
    }

    fn add_plugin(&mut self, plugin: Plugin<'_>) {
        let Plugin { tree, root, name, .. } = &plugin;
        if !is_name(name) {
            return self.report_skipped(tree, root, format!("invalid plugin name {name:?}: use {NAME_RULE}"));
        }
        if self.plugins.len() >= PLUGINS_MAX {
            return self.report_skipped(
                tree,
                root,
                format!("too many plugins: {PLUGINS_MAX} is the maximum"),
            );
        }
        if !self.plugins.insert(name.clone()) {
            return self.report_skipped(
                tree,
                root,
                format!("duplicate plugin {name}: the first one is used"),
            );
        }
        let mut shelf =
            SkillFiles { plugin: name.clone(), tree: (*tree).clone(), skills: Vec::new(), whole: None };
        for folder in &plugin.skills {
            self.read_skill(&plugin, folder, &mut shelf);
        }
        for file in &plugin.agents {
            self.read_agent(&plugin, file);
        }
        if !plugin.servers.is_empty() {
            self.keep_servers(plugin, &mut shelf);
        }
        self.library.shelves.push(shelf);
    }

    fn read_skill(&mut self, plugin: &Plugin<'_>, folder: &str, shelf: &mut SkillFiles) {
        let tree = plugin.tree;
        let file = join_path(folder, SKILL_FILE);
        if !tree.is_file(&file) {
            // Folders beside skills often contain files that the skills share.
            if tree.is_folder(folder) && !tree.has_entry(&file) {
                self.add_notice(
                    &tree.display_path(folder),
                    None,
                    "it is not a skill: SKILL.md is missing",
                    false,
                );
            } else if let Some(error) = tree.find_problem(folder).or_else(|| tree.find_problem(&file)) {
                self.report_skipped(tree, folder, error.to_string());
            }
            return;
        }
        let short = folder_name(tree, folder).to_owned();
        if !is_name(&short) {
            return self.report_skipped(
                tree,
                folder,
                format!("invalid skill name {short:?}: use {NAME_RULE}"),
            );
        }
        if shelf.skills.iter().any(|(name, ..)| *name == short) {
            return self.report_skipped(
                tree,
                folder,
                format!("duplicate skill {short}: the first one is used"),
            );
        }
        if self.library.skills.len() >= SKILLS_MAX {
            return self.report_skipped(
                tree,
                folder,
                format!("too many skills: {SKILLS_MAX} is the maximum"),
            );
        }
        let Some((head, description)) = self.read_head(tree, &file, !plugin.is_standard) else { return };
        let fault = plugin.is_standard.then(|| {
            agent_plugins_schema::skill_fault(head.get_text("name").as_deref(), &description, &short)
        });
        if let Some(fault) = fault.flatten() {
            return self.add_notice(
                &tree.display_path(&file),
                head.line_of_key("name").or(Some(1)),
                fault,
                true,
            );
        }
        let Some(files) = self.list_skill_files(tree, folder) else { return };
        let full_name = format!("{}:{short}", plugin.name);
        let own = |path: &str| path[folder.len()..].trim_start_matches('/').to_owned();
        let name = self.choose_name(tree, &file, &head, &short);
        let tools = self.read_tool_names(tree, &file, &head, "allowed-tools").unwrap_or_default();
        let instructions = self.read_instructions(tree, &file, &head, &plugin.name);
        self.library.skills.push(Skill {
            name: SkillName { id: SkillId::from_full_name(&full_name), name, full_name },
            description,
            tools,
            jurisdictions: read_jurisdictions(&head),
            instructions,
            plugin: plugin.name.clone(),
            files: files.iter().map(|file| own(&file.path)).filter(|path| path != SKILL_FILE).collect(),
            folder: short.clone(),
        });
        shelf.skills.push((short, folder.to_owned(), files));
    }

    fn list_skill_files(&mut self, tree: &PluginTree, folder: &str) -> Option<Vec<crate::tree::TreeFile>> {
        self.files_of(tree, folder, SKILL_FILES_MAX)
    }

    pub(crate) fn files_of(
        &mut self,
        tree: &PluginTree,
        folder: &str,
        most: usize,
    ) -> Option<Vec<crate::tree::TreeFile>> {
        let mut skipped = Vec::new();
        let found = tree.list_files(folder, most, &mut |path, error| {
            skipped.push((path.to_owned(), error.to_string()));
        });
        for (path, why) in skipped {
            self.report_skipped(tree, &path, why);
        }
        match found {
            Ok(mut files) => {
                for file in files.iter().filter(|file| file.size > SKILL_FILE_MAX_BYTES) {
                    self.report_skipped(
                        tree,
                        &file.path,
                        TreeError::TooLong(SKILL_FILE_MAX_BYTES).to_string(),
                    );
                }
                files.retain(|file| file.size <= SKILL_FILE_MAX_BYTES);
                Some(files)
            }
            Err(error) => {
                self.report_skipped(tree, folder, error.to_string());
                None
            }
        }
    }

    fn read_agent(&mut self, plugin: &Plugin<'_>, file: &str) {
        let tree = plugin.tree;
        let Some(short) = folder_name(tree, file).strip_suffix(".md").map(str::to_owned) else { return };
        if !tree.is_file(file) || short.eq_ignore_ascii_case("readme") {
            return;
        }
        if !is_name(&short) {
            return self.report_skipped(tree, file, format!("invalid agent name {short:?}: use {NAME_RULE}"));
        }
        if self.library.agents.len() >= AGENTS_MAX {
            return self.report_skipped(tree, file, format!("too many agents: {AGENTS_MAX} is the maximum"));
        }
        if tree
            .any_text(file, TEXT_FILE_MAX_BYTES)
            .is_ok_and(|(text, _)| !frontmatter::has_frontmatter(&text))
        {
            let notice = "it is not an agent: the frontmatter is missing";
            return self.add_notice(&tree.display_path(file), None, notice, false);
        }
        let Some((head, description)) = self.read_head(tree, file, false) else { return };
        let full_name = format!("{}:{short}", plugin.name);
        if self.library.agents.iter().any(|agent| agent.full_name == full_name) {
            return self.report_skipped(
                tree,
                file,
                format!("duplicate agent {full_name}: the first one is used"),
            );
        }
        let model = head.get_text("model").filter(|model| model != "inherit");
        let name = self.choose_name(tree, file, &head, &short);
        let tools = self.read_tool_names(tree, file, &head, "tools");
        let instructions = self.read_instructions(tree, file, &head, &plugin.name);
        self.library.agents.push(PluginAgent {
            id: AgentId::from_full_name(&full_name),
            name,
            full_name,
            description,
            tools: tools.filter(|tools| !tools.iter().any(|tool| tool == "*")),
            model,
            instructions,
        });
    }

    /// Returns the tools under this key and reports unknown names.
    fn read_tool_names(
        &mut self,
        tree: &PluginTree,
        file: &str,
        head: &Frontmatter,
        key: &str,
    ) -> Option<Vec<String>> {
        let named = head.get_names(key)?;
        if let Some(unknown) = tools::list_unknown_tools(&named) {
            self.add_notice(
                &tree.display_path(file),
                head.line_of_key(key),
                format!("{key} lists unknown tools: {unknown}"),
                false,
            );
        }
        Some(named)
    }

    pub(crate) fn read_json(&mut self, tree: &PluginTree, file: &str) -> Option<Value> {
        self.read_json_with_text(tree, file).map(|(value, _)| value)
    }

    /// Reads a JSON object, and returns its text, too.
    pub(crate) fn read_json_with_text(&mut self, tree: &PluginTree, file: &str) -> Option<(Value, String)> {
        let read = tree.read_text(file, MANIFEST_MAX_BYTES);
        let text = match read {
            Ok(text) => text,
            Err(error) => {
                self.report_skipped(tree, file, error.to_string());
                return None;
            }
        };
        match serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) {
            Ok(value) if value.is_object() => Some((value, text)),
            Ok(_) => {
                self.add_notice(&tree.display_path(file), Some(1), "it is not a JSON object", true);
                None
            }
            Err(error) => {
                let line = u32::try_from(error.line()).ok();
                self.add_notice(
                    &tree.display_path(file),
                    line,
                    format!("it is not valid JSON: {error}"),
                    true,
                );
                None
            }
        }
    }
}
