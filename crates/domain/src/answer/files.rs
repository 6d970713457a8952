//! The files that an answer names before its first step.

use super::{Answer, ContentPart, PartContent, part_id};
use crate::step::INSTRUCTIONS_FILE;

impl Answer {
    /// Adds the file whose text belongs to the instructions, unless the user attached it, too.
    pub(super) fn name_instructions(&mut self) {
        let path = INSTRUCTIONS_FILE;
        if !self.attached_paths().any(|attached| attached == path) {
            let id = part_id(self.id, "instructions", 0, 0);
            self.parts.push(ContentPart {
                id,
                step: None,
                body: PartContent::File { path: path.to_owned() },
            });
        }
    }

    /// Returns the paths that the user attached.
    pub(super) fn attached_paths(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match &part.body {
            PartContent::File { path } if part.step.is_none() => Some(path.as_str()),
            PartContent::File { .. }
            | PartContent::Text(_)
            | PartContent::Reasoning(_)
            | PartContent::Run(_) => None,
        })
    }
}
