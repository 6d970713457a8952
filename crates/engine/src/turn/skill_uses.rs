//! The skills that a turn opens: each is counted once.

use std::collections::{HashMap, HashSet};

/// The skills whose use an answer has counted or is about to count.
#[derive(Debug, Default)]
pub(super) struct SkillUses {
    /// The skills by the calls that open them, until their results are committed.
    opening: HashMap<String, String>,
    /// Skills whose use was counted with the question or an earlier call.
    counted: HashSet<String>,
}

impl SkillUses {
    /// Creates the uses of an answer that has counted some.
    pub(super) fn after(counted: HashSet<String>) -> Self {
        Self { opening: HashMap::new(), counted }
    }

    /// Notes that a call opens a skill.
    pub(super) fn note_opening(&mut self, call: &str, skill: &str) {
        if self.counted.insert(skill.to_owned()) {
            self.opening.insert(call.to_owned(), skill.to_owned());
        }
    }

    /// Returns the skills to count with the result of this call.
    pub(super) fn take_opened(&mut self, call: &str) -> Vec<String> {
        self.opening.remove(call).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skill_is_counted_once() {
        let mut uses = SkillUses::after(HashSet::from(["tax:forms".to_owned()]));
        for (call, skill) in [("a", "tax:forms"), ("b", "law:deadlines"), ("c", "law:deadlines")] {
            uses.note_opening(call, skill);
        }
        assert!(uses.take_opened("a").is_empty(), "the question counted it");
        assert_eq!(uses.take_opened("b"), ["law:deadlines"]);
        assert!(uses.take_opened("b").is_empty() && uses.take_opened("c").is_empty());
    }
}
