//! The files that an answer names before its first step.

use super::{Answer, Body, Part, part_id};
use crate::step::INSTRUCTIONS_FILE;

impl Answer {
    /// Adds the file whose text belongs to the instructions, unless the user attached it, too.
    pub(super) fn name_instructions(&mut self) {
        let path = INSTRUCTIONS_FILE;
        if !self.attached().any(|attached| attached == path) {
            let id = part_id(self.id, "instructions", 0, 0);
            self.parts.push(Part { id, step: None, body: Body::File { path: path.to_owned() } });
        }
    }

    /// Returns the paths that the user attached.
    pub(super) fn attached(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match &part.body {
            Body::File { path } if part.step.is_none() => Some(path.as_str()),
            Body::File { .. } | Body::Text(_) | Body::Reasoning(_) | Body::Run(_) => None,
        })
    }
}
