//! The plugins that were read, and lookup by the words of a question.

use domain::id::{AgentId, SkillId};

use crate::tree::{PluginTree, TreeFile};
use crate::{DEFAULT_AGENT, McpServer, Notice, PluginAgent, Skill};

/// Every available skill, agent and MCP server. Always contains the default agent.
#[derive(Debug, Clone, Default)]
pub struct PluginLibrary {
    /// The skills, sorted by full name.
    pub skills: Vec<Skill>,
    /// The agents, sorted by full name.
    pub agents: Vec<PluginAgent>,
    /// The MCP servers, in the order of their plugins; names are unique.
    pub servers: Vec<McpServer>,
    /// The problems that were found.
    pub notices: Vec<Notice>,
    /// The number of notices beyond [`crate::NOTICES_MAX`].
    pub notices_left_out: usize,
    pub(crate) shelves: Vec<SkillFiles>,
}

/// The files of a plugin's skills.
#[derive(Debug, Clone)]
pub(crate) struct SkillFiles {
    pub(crate) plugin: String,
    pub(crate) tree: PluginTree,
    /// Each skill's folder name, its folder in the tree, and its files.
    pub(crate) skills: Vec<(String, String, Vec<TreeFile>)>,
    /// The plugin's folder in the tree and all its files, where machines see all.
    pub(crate) whole: Option<(String, Vec<TreeFile>)>,
}

/// An item that can be looked up: a skill or an agent.
pub trait LookupItem {
    /// Returns true if the text is its identifier.
    fn has_id(&self, text: &str) -> bool;
    /// Returns the short name.
    fn name(&self) -> &str;
    /// Returns the full name.
    fn full_name(&self) -> &str;
}

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a, T> {
    /// Exactly one item matches.
    Found(&'a T),
    Unknown,
    /// Several items match; contains their full names.
    Ambiguous(Vec<String>),
}

impl LookupItem for Skill {
    fn has_id(&self, text: &str) -> bool {
        text.parse::<SkillId>().is_ok_and(|id| id == self.name.id)
    }

    fn name(&self) -> &str {
        &self.name.name
    }

    fn full_name(&self) -> &str {
        &self.name.full_name
    }
}

impl LookupItem for PluginAgent {
    fn has_id(&self, text: &str) -> bool {
        text.parse::<AgentId>().is_ok_and(|id| id == self.id)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn full_name(&self) -> &str {
        &self.full_name
    }
}

impl PluginLibrary {
    /// Looks up a skill: by identifier, then by full name, then by short name.
    #[must_use]
    pub fn find_skill(&self, word: &str) -> Lookup<'_, Skill> {
        look_up(&self.skills, word)
    }

    /// Looks up an agent in the same order.
    #[must_use]
    pub fn find_agent(&self, word: &str) -> Lookup<'_, PluginAgent> {
        look_up(&self.agents, word)
    }

    /// Returns true if there is an agent with this full name.
    #[must_use]
    pub fn has_agent(&self, full_name: &str) -> bool {
        self.agents.iter().any(|agent| agent.full_name == full_name)
    }

    /// Returns the agent with this full name, or the default agent if it is missing or none is named.
    #[must_use]
    pub fn agent_or_default(&self, full_name: Option<&str>) -> Option<&PluginAgent> {
        let named = |wanted: &str| self.agents.iter().find(|agent| agent.full_name == wanted);
        full_name.and_then(named).or_else(|| named(DEFAULT_AGENT))
    }
}

impl PluginLibrary {
    /// Returns the MCP server of a tool's name.
    #[must_use]
    pub fn server_of(&self, tool: &str) -> Option<&McpServer> {
        let name = mcp::server_of(tool)?;
        self.servers.iter().find(|server| server.spec.name == name)
    }

    /// Returns true if a call of an MCP server's tool may run again after a crash, as its plugin declares.
    #[must_use]
    pub fn is_repeatable(&self, tool: &str) -> bool {
        self.server_of(tool).is_some_and(|server| {
            server.read_only.iter().any(|called| mcp::offered_name(&server.spec.name, called) == tool)
        })
    }
}

fn look_up<'a, T: LookupItem>(all: &'a [T], word: &str) -> Lookup<'a, T> {
    let exact =
        all.iter().find(|one| one.has_id(word)).or_else(|| all.iter().find(|one| one.full_name() == word));
    if let Some(one) = exact {
        return Lookup::Found(one);
    }
    let named: Vec<&T> = all.iter().filter(|one| one.name() == word).collect();
    match named.as_slice() {
        [] => Lookup::Unknown,
        [one] => Lookup::Found(one),
        several => Lookup::Ambiguous(several.iter().map(|one| one.full_name().to_owned()).collect()),
    }
}
