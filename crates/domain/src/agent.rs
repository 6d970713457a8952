//! The name of an agent, in questions and answers.

use crate::id::AgentId;

/// The name of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentName {
    /// Its identifier, derived from its full name.
    pub id: AgentId,
    /// Its short name, not necessarily unique.
    pub name: String,
    /// `<plugin>:<file name>`, unique.
    pub full_name: String,
}
