//! What was read, and how a question's words find it.

use domain::id::{AgentId, SkillId};

use crate::tree::{Found, Tree};
use crate::{Agent, DEFAULT_AGENT, McpServer, Notice, Skill};

/// Every skill, agent and MCP server that there is. Never without the default agent.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// The skills, by full name.
    pub skills: Vec<Skill>,
    /// The agents, by full name.
    pub agents: Vec<Agent>,
    /// The MCP servers, in the order of their plugins; no two have one name.
    pub servers: Vec<McpServer>,
    /// What is not as it should be.
    pub notices: Vec<Notice>,
    /// How many notices were not kept.
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

/// What was looked up: a skill or an agent.
pub trait Visited {
    /// Whether this is its identifier.
    fn has_id(&self, text: &str) -> bool;
    /// Its short name.
    fn name(&self) -> &str;
    /// Its full name.
    fn full_name(&self) -> &str;
}

/// What a word found.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup<'a, T> {
    /// This one.
    Found(&'a T),
    /// Nothing.
    Unknown,
    /// Several, which have these full names.
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
    /// The skill that a word names: by identifier, else by full name, else by name.
    #[must_use]
    pub fn skill(&self, word: &str) -> Lookup<'_, Skill> {
        look_up(&self.skills, word)
    }

    /// The agent that a word names, in the same order.
    #[must_use]
    pub fn agent(&self, word: &str) -> Lookup<'_, Agent> {
        look_up(&self.agents, word)
    }

    /// The agent of this full name, or the default one when it is gone or none is named.
    #[must_use]
    pub fn agent_or_default(&self, full_name: Option<&str>) -> Option<&Agent> {
        let named = |wanted: &str| self.agents.iter().find(|agent| agent.full_name == wanted);
        full_name.and_then(named).or_else(|| named(DEFAULT_AGENT))
    }
}

impl Library {
    /// The MCP server whose tool would be called so.
    #[must_use]
    pub fn server_of(&self, tool: &str) -> Option<&McpServer> {
        let name = mcp::server_of(tool)?;
        self.servers.iter().find(|server| server.spec.name == name)
    }

    /// Whether a call of an MCP server's tool may run again after a crash, as its plugin says.
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
