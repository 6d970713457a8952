//! Reads plugins: folders of skills, agents and MCP servers in the layout that agent tools share, tolerantly and
//! within bounds.
//!
//! [`read_plugins`] builds a [`PluginLibrary`] from the built-in plugin and the operator's folders;
//! [`PluginLibrary::publish_skills`] copies their files below the data folder, where machines see them read-only;
//! [`fingerprint_folders`] detects changes of folders. Broken items are skipped and reported as a [`Notice`] with file
//! and line. This crate never executes any part of a plugin.

mod agent_plugins;
mod agent_plugins_schema;
mod fingerprint;
mod frontmatter;
mod library;
mod line_numbers;
mod markdown;
mod mcp_config;
mod publish;
mod reader;
mod servers;
mod tools;
mod tree;

use domain::agent::AgentName;
use domain::id::AgentId;
use domain::skill::SkillName;

pub use fingerprint::fingerprint_folders;
pub use library::{Lookup, LookupItem, PluginLibrary};
pub use publish::PublishError;
pub use reader::{read_one, read_plugins};
pub use servers::McpServer;

/// The path of the folder in a machine.
pub const MACHINE_FOLDER: &str = "/plugins";

/// The folder in a machine in which each plugin with MCP servers has a separate folder for data. It belongs to the
/// account's workspace, so it survives updates of the plugin.
pub const DATA_FOLDER: &str = "/workspace/.plugin-data";

/// The agent that answers if a question names none.
pub const DEFAULT_AGENT: &str = "causerie:assistant";

/// The longest file with frontmatter (`SKILL.md`, an agent), in bytes.
pub const TEXT_FILE_MAX_BYTES: u64 = 256 * 1024;
/// The maximum length of a skill's or agent's instructions, in bytes; the rest is cut.
pub const INSTRUCTIONS_MAX_BYTES: usize = 60 * 1024;
/// The maximum length of a description, in characters; the rest is cut.
pub const DESCRIPTION_MAX_CHARS: usize = 4096;
/// The longest name of a plugin, a skill or an agent, in bytes.
pub const NAME_MAX_BYTES: usize = 64;
/// The maximum number of plugins over all folders.
pub const PLUGINS_MAX: usize = 200;
/// The maximum number of skills.
pub const SKILLS_MAX: usize = 1000;
/// The maximum number of agents.
pub const AGENTS_MAX: usize = 1000;
/// The maximum number of files and folders per skill.
pub const SKILL_FILES_MAX: usize = 1000;
/// The largest file of a skill, in bytes.
pub const SKILL_FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The maximum number of files and folders of a plugin with MCP servers.
pub const PLUGIN_FILES_MAX: usize = 10_000;
/// The maximum total size of the files of a plugin that machines see, in bytes.
pub const PLUGIN_MAX_BYTES: u64 = 128 * 1024 * 1024;
/// The maximum number of recorded notices; further ones are only counted.
pub const NOTICES_MAX: usize = 500;

/// A skill: instructions for one kind of task, with supporting files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: SkillName,
    /// A one-line description: what it does and when to use it.
    pub description: String,
    /// The instructions, in Markdown.
    pub instructions: String,
    pub plugin: String,
    /// The name of its folder.
    pub folder: String,
    /// The tools that its author lists, as written. Other programs use these without asking the user; here they
    /// neither limit nor extend the offered tools.
    pub tools: Vec<String>,
    /// The jurisdictions that it applies to, in upper case; all if empty.
    pub jurisdictions: Vec<String>,
    /// The files, relative to its folder, without `SKILL.md`; sorted.
    pub files: Vec<String>,
}

impl Skill {
    /// Returns its folder in the machine.
    #[must_use]
    pub fn machine_folder(&self) -> String {
        format!("{MACHINE_FOLDER}/{}/skills/{}", self.plugin, self.folder)
    }
}

/// An agent: a role with instructions and tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginAgent {
    /// The identifier, derived from the full name.
    pub id: AgentId,
    pub name: String,
    /// `<plugin>:<file>`
    pub full_name: String,
    /// A one-line description of its purpose.
    pub description: String,
    /// The tools that it may use, as written; all if `None`.
    pub tools: Option<Vec<String>>,
    /// The model that its author prefers, as written.
    pub model: Option<String>,
    /// The instructions, in Markdown.
    pub instructions: String,
}

impl PluginAgent {
    #[must_use]
    pub fn to_agent_name(&self) -> AgentName {
        AgentName { id: self.id, name: self.name.clone(), full_name: self.full_name.clone() }
    }
}

/// A problem in a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The folder of the plugin, or the path that could not be read as one.
    pub folder: String,
    pub file: String,
    /// The line, from 1, if known.
    pub line: Option<u32>,
    pub text: String,
    /// True if something was skipped because of it.
    pub skipped: bool,
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.text)
    }
}
