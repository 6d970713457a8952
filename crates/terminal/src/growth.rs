//! The text of a growing answer, as what each state adds to the states before.

use std::collections::BTreeSet;

use crate::marks::{CitationMark, push_mark, write_marked};

/// The part of an answer's text that has been shown.
#[derive(Debug, Default)]
pub(crate) struct ShownText {
    /// The raw text, without marks.
    written: String,
    /// The shown marks.
    marked: BTreeSet<CitationMark>,
}

/// The addition of a state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextGrowth {
    /// The place from which the text is shown again, because an attempt was repeated and differs there: the start of a line.
    pub(crate) repeated_from: Option<usize>,
    /// The added text with its marks.
    pub(crate) added: String,
}

impl ShownText {
    /// Forgets everything, for another answer.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns what `text` adds, with its marks; `None` if only space at its end is missing.
    pub(crate) fn grow_to(
        &mut self,
        text: &str,
        marks: &[CitationMark],
        is_completed: bool,
    ) -> Option<TextGrowth> {
        let same = common_prefix(&self.written, text);
        let mut from = same;
        let mut repeated_from = None;
        if same < self.written.len() {
            if text.len() == same && self.written[same..].trim().is_empty() {
                return None;
            }
            from = text[..same].rfind('\n').map_or(0, |at| at + 1);
            self.marked.retain(|mark| mark.at < from);
            repeated_from = Some(from);
        }
        text.clone_into(&mut self.written);
        Some(TextGrowth { repeated_from, added: self.with_marks(text, from, marks, is_completed) })
    }

    /// Returns the end of a text from a place on, with its marks. Marks of already shown text, which a vendor
    /// reported late, are put at the end of its line.
    fn with_marks(&mut self, text: &str, from: usize, marks: &[CitationMark], is_completed: bool) -> String {
        let is_new = |mark: &&CitationMark| mark.at <= text.len() && !self.marked.contains(mark);
        let (late, mut new): (Vec<CitationMark>, Vec<CitationMark>) =
            marks.iter().filter(is_new).partition(|mark| mark.at < from);
        let line_end = text[from..].find('\n').map(|at| from + at);
        let place = line_end.or_else(|| is_completed.then_some(text.len()));
        self.marked.extend(new.iter());
        if let Some(at) = place {
            self.marked.extend(late.iter());
            new.extend(late.into_iter().map(|mark| CitationMark { at, ..mark }));
            new.sort_by_key(|mark| mark.at);
        }
        let mut added = String::new();
        // A mark right after the shown text.
        let at_once = new.iter().take_while(|mark| mark.at == from).count();
        if from > 0 {
            added.extend(text[..from].chars().next_back());
            new.drain(..at_once).for_each(|mark| push_mark(mark.number, &mut added));
            added.remove(0);
        }
        added.push_str(&write_marked(&text[from..], from, &new));
        added
    }
}

/// Returns the text without parts that the next state may change: trailing white space and an open citation mark.
pub(crate) fn settled_text(text: &str) -> &str {
    let mark =
        text.rfind('[').filter(|at| text[at + 1..].chars().all(|c| c.is_ascii_digit() || ", ".contains(c)));
    text[..mark.unwrap_or(text.len())].trim_end()
}

/// Returns the length of the common prefix, at a character boundary.
pub(crate) fn common_prefix(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
