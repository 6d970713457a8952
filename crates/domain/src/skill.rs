//! Skills, as questions choose them and answers show them.

use crate::id::SkillId;

/// How a skill is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SkillName {
    /// Its identifier, made from its full name.
    pub id: SkillId,
    /// Its short name, which another skill may have as well.
    pub name: String,
    /// `<plugin>:<folder>`, which no other has.
    pub full_name: String,
}
