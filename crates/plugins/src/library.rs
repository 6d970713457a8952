//! The plugins that were read, and lookup by the words of a question.

use domain::id::{AgentId, SkillId};

use crate::tree::{Found, Tree};
use crate::{Agent, DEFAULT_AGENT, McpServer, Notice, Skill};

/// Every available skill, agent and MCP server. Always contains the default agent.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// The skills, sorted by full name.
    pub skills: Vec<Skill>,
    /// The agents, sorted by full name.
    pub agents: Vec<Agent>,
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
    pub(crate) tree: Tree,
    /// Each skill's folder name, its folder in the tree, and its files.
    pub(crate) skills: Vec<(String, String, Vec<Found>)>,
    /// The plugin's folder in the tree and all its files, where machines see all.
    pub(crate) whole: Option<(String, Vec<Found>)>,
}

/// An item that can be looked up: a skill or an agent.
pub trait Visited {
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
    /// No item matches.
    Unknown,
    /// Several items match; contains their full names.
    Ambiguous(Vec<String>),
}

impl Visited for Skill {
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

impl Visited for Agent {
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

impl Library {
    /// Looks up a skill: by identifier, then by full name, then by short name.
    #[must_use]
    pub fn skill(&self, word: &str) -> Lookup<'_, Skill> {
        look_up(&self.skills, word)
    }

    /// Looks up an agent in the same order.
    #[must_use]
    pub fn agent(&self, word: &str) -> Lookup<'_, Agent> {
        look_up(&self.agents, word)
    }

    /// Returns true if there is an agent with this full name.
    #[must_use]
    pub fn has_agent(&self, full_name: &str) -> bool {
        self.agents.iter().any(|agent| agent.full_name == full_name)
    }

    /// Returns the agent with this full name, or the default agent if it is missing or none is named.
    #[must_use]
    pub fn agent_or_default(&self, full_name: Option<&str>) -> Option<&Agent> {
        let named = |wanted: &str| self.agents.iter().find(|agent| agent.full_name == wanted);
        full_name.and_then(named).or_else(|| named(DEFAULT_AGENT))
    }
}

impl Library {
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
            server.read_only.iter().any(|called| mcp::offered(&server.spec.name, called) == tool)
        })
    }
}

fn look_up<'a, T: Visited>(all: &'a [T], word: &str) -> Lookup<'a, T> {
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
