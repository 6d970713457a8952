//! The attached files that the calls of an answer could not read.

use crate::citation::PassagePlace;
use crate::limits::ATTACHMENTS_MAX;
use crate::step::{CallResult, StepOutcome};
use crate::tool::MachineTool;
use crate::unread::{UNREAD_MAX, UnreadFile, UnreadReason};

/// The files that are unread so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct UnreadFiles {
    unread: Vec<UnreadReport>,
    /// The attached documents of which the model was shown pages as pictures.
    viewed: Vec<String>,
}

/// A file that a call could not read, and the tool that reported it.
#[derive(Debug, Clone, PartialEq)]
struct UnreadReport {
    tool: String,
    file: UnreadFile,
}

impl UnreadFiles {
    /// Returns the files with the reasons.
    pub(super) fn to_files(&self) -> Vec<UnreadFile> {
        self.unread.iter().map(|unread| unread.file.clone()).collect()
    }

    /// Records the attached files that a call could not read. A later report of the same tool replaces earlier ones. A
    /// file counts as readable if its passages were read since, or if it is a document without text whose pages were
    /// shown as pictures.
    pub(super) fn record_unread(&mut self, result: &CallResult, is_attached: impl Fn(&str) -> bool) {
        self.note_viewed(result, &is_attached);
        let is_read = |path: &str| {
            let of_file =
                |place: &PassagePlace| matches!(place, PassagePlace::File { path: of, .. } if of == path);
            result.passages.iter().any(|passage| of_file(&passage.place))
        };
        // A search lists all attached files that the index does not contain yet, whichever tool reported them before.
        let is_search = result.tool == MachineTool::Search.name();
        self.unread.retain(|unread| match unread.file.reason {
            UnreadReason::Indexing => {
                !(is_search || unread.tool == result.tool) || result.outcome != StepOutcome::Done
            }
            // Other parts of it stay unread.
            UnreadReason::Long
            | UnreadReason::ScannedPages
            | UnreadReason::InnerFiles
            | UnreadReason::Images(_) => true,
            UnreadReason::NoText if self.viewed.contains(&unread.file.path) => false,
            _ => !is_read(&unread.file.path),
        });
        for file in &result.unread {
            let is_viewed = file.reason == UnreadReason::NoText && self.viewed.contains(&file.path);
            if !is_attached(&file.path) || is_viewed || self.unread.len() >= UNREAD_MAX {
                continue;
            }
            self.unread.retain(|unread| unread.file.path != file.path);
            self.unread.push(UnreadReport { tool: result.tool.clone(), file: file.clone() });
        }
    }

    fn note_viewed(&mut self, result: &CallResult, is_attached: impl Fn(&str) -> bool) {
        for image in result.images.iter().filter(|image| image.page.is_some()) {
            let is_new = is_attached(&image.path) && !self.viewed.contains(&image.path);
            if is_new && self.viewed.len() < ATTACHMENTS_MAX {
                self.viewed.push(image.path.clone());
            }
        }
    }
}
