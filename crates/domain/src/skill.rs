//! The name of a skill, in questions and answers.

use crate::id::SkillId;

/// The name of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SkillName {
    /// Its identifier, made from its full name.
    pub id: SkillId,
    /// Its short name, which another skill may have as well.
    pub name: String,
    /// `<plugin>:<folder>`, which no other has.
    pub full_name: String,
}
