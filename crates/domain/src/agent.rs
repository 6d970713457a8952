//! Agents, as questions choose them and answers show them.

use crate::id::AgentId;

/// How an agent is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentName {
    /// Its identifier, made from its full name.
    pub id: AgentId,
    /// Its short name, which another agent may have as well.
    pub name: String,
    /// `<plugin>:<file name>`, which no other has.
    pub full_name: String,
}
