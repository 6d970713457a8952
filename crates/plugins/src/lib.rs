//! Plugins: folders of skills, agents and MCP servers in the layout that agent tools share, read tolerantly and within bounds.
//!
//! [`read`] makes a [`Library`] of the plugin that is built in and of the operator's folders; [`Library::publish`]
//! lays their files out below the data folder, from where machines see them read-only; [`fingerprint`] tells
//! whether a folder has changed. What is broken is left out and told as a [`Notice`] with file and line. Nothing
//! of a plugin is ever executed here.

mod frontmatter;
mod library;
mod line_numbers;
mod mcp_config;
mod publish;
mod reader;
mod servers;
mod tools;
mod tree;

use domain::agent::AgentName;
use domain::id::AgentId;
use domain::skill::SkillName;

pub use library::{Library, Lookup, Visited};
pub use publish::PublishError;
pub use reader::{fingerprint, read, read_one};
pub use servers::McpServer;

/// Where the folder stands in a machine.
pub const MACHINE_FOLDER: &str = "/plugins";

/// The agent that answers when a question names none.
pub const DEFAULT_AGENT: &str = "causerie:assistant";

/// The longest file with a head (`SKILL.md`, an agent), in bytes.
pub const TEXT_FILE_MAX_BYTES: u64 = 256 * 1024;
/// The longest instructions of a skill or an agent that reach a model, in bytes.
pub const INSTRUCTIONS_MAX_BYTES: usize = 60 * 1024;
/// The longest description, in characters; the rest is cut.
pub const DESCRIPTION_MAX_CHARS: usize = 4096;
/// The longest name of a plugin, a skill or an agent, in bytes.
pub const NAME_MAX_BYTES: usize = 64;
/// The most plugins, skills and agents, of all folders together.
pub const PLUGINS_MAX: usize = 200;
/// The most skills.
pub const SKILLS_MAX: usize = 1000;
/// The most agents.
pub const AGENTS_MAX: usize = 1000;
/// The most files and folders of one skill.
pub const SKILL_FILES_MAX: usize = 1000;
/// The longest file of a skill, in bytes.
pub const SKILL_FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The most files and folders of a plugin that brings MCP servers.
pub const PLUGIN_FILES_MAX: usize = 10_000;
/// The longest that all files of a plugin which machines see may be together, in bytes.
pub const PLUGIN_MAX_BYTES: u64 = 128 * 1024 * 1024;
/// The most notices that are kept; more are counted.
pub const NOTICES_MAX: usize = 500;

/// A skill: instructions for one kind of task, with files that help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// How it is called.
    pub name: SkillName,
    /// What it does and when to use it, in one line.
    pub description: String,
    /// Its instructions, in Markdown.
    pub instructions: String,
    /// The plugin.
    pub plugin: String,
    /// The name of its folder.
    pub folder: String,
    /// The tools that its author names, as written: in other programs those that are used without asking the user
    /// first, which nothing here does. They neither limit nor add what is offered.
    pub tools: Vec<String>,
    /// The jurisdictions that it is for, in capitals; any when there are none.
    pub jurisdictions: Vec<String>,
    /// Its files, relative to its folder, `SKILL.md` left out; sorted.
    pub files: Vec<String>,
}

impl Skill {
    /// Its folder in the machine.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{MACHINE_FOLDER}/{}/skills/{}", self.plugin, self.folder)
    }
}

/// An agent: who answers, and how it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its identifier, made from its full name.
    pub id: AgentId,
    /// Its short name.
    pub name: String,
    /// `<plugin>:<file>`
    pub full_name: String,
    /// What it is for, in one line.
    pub description: String,
    /// The tools that it may use, as written; all when `None`.
    pub tools: Option<Vec<String>>,
    /// The model that its author wishes, as written.
    pub model: Option<String>,
    /// Its instructions, in Markdown.
    pub instructions: String,
}

impl Agent {
    /// How it is called.
    #[must_use]
    pub fn called(&self) -> AgentName {
        AgentName { id: self.id, name: self.name.clone(), full_name: self.full_name.clone() }
    }
}

/// Something in a plugin that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The file.
    pub file: String,
    /// The line, from 1, where it is known.
    pub line: Option<u32>,
    /// What it is about.
    pub text: String,
    /// Whether something was left out because of it.
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
