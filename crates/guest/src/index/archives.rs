//! Archives with a file that ends its reader: the other files are read without it.

use super::progress::{Batch, ExtractionProblem, IndexQueue};
use crate::documents::Span;
use crate::documents::passages::Piece;

/// The files of an archive to read after a reader was ended by one of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Narrowed {
    /// The first and last file.
    To((u32, u32)),
    /// This file is not read.
    Skip { page: u32, of: u32 },
    /// Nothing is known of the files.
    None,
}

/// Halves the files that were to be read, until one is left.
pub(super) fn without_culprit(todo: &IndexQueue) -> Narrowed {
    match (todo.pages, todo.reached) {
        (None, _) => Narrowed::To((1, 1)),
        (Some((first, last)), _) if first < last => Narrowed::To((first, first + (last - first) / 2)),
        (Some((page, _)), Some((_, of))) => Narrowed::Skip { page, of },
        // The next one tells how many there are.
        (Some((1, _)), None) => Narrowed::To((2, 2)),
        (Some(_), None) => Narrowed::None,
    }
}

/// Returns what is known of a file that ends its reader.
pub(super) fn skipped(page: u32, of: u32, problem: &ExtractionProblem) -> Batch {
    let text = format!("(file {page} of the archive is not read: {})", problem.text);
    Batch {
        pieces: vec![Piece { page: Some(page), lines: None, heading: None, text }],
        span: Some(Span { first: page, last: page, of }),
        holds_files: true,
        unread_files: vec![page],
        ..Batch::default()
    }
}
