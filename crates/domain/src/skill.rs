//! The name of a skill, in questions and answers.

use crate::id::SkillId;

/// The name of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SkillName {
    /// Its identifier, derived from its full name.
    pub id: SkillId,
    /// Its short name, not necessarily unique.
    pub name: String,
    /// `<plugin>:<folder>`, unique.
    pub full_name: String,
}
