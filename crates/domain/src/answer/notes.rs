//! The notes of an answer's steps. Each is shown once, at the end of the answer.

use crate::step_note::{NOTES_MAX, StepNote};

/// Notes with the step that they belong to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StepNotes(Vec<(u32, StepNote)>);

impl StepNotes {
    /// Adds a note unless the answer already has it or has reached the limit.
    pub(super) fn add_note(&mut self, step: u32, note: StepNote) {
        if self.0.len() < NOTES_MAX && self.0.iter().all(|(_, known)| *known != note) {
            self.0.push((step, note));
        }
    }

    /// Removes the notes of this step and later ones, because it is generated again.
    pub(super) fn remove_from_step(&mut self, step: u32) {
        self.0.retain(|(of, _)| *of < step);
    }

    /// Returns the notes as a paragraph of Markdown; `None` without notes.
    pub(super) fn to_paragraph(&self) -> Option<String> {
        let sentences: Vec<String> = self.0.iter().map(|(_, note)| note.to_sentence()).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }
}
