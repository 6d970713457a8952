//! The name of an agent, in questions and answers.

use crate::id::AgentId;

/// The name of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentName {
    /// Its identifier, made from its full name.
    pub id: AgentId,
    /// Its short name, which another agent may have as well.
    pub name: String,
    /// `<plugin>:<file name>`, which no other has.
    pub full_name: String,
}
