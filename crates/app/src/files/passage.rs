//! Finds a cited passage in a text, so that a page can mark it.

use std::ops::Range;

use crate::cells::CellSeparator;

/// The minimum number of characters, without white space, to search for: shorter texts occur anywhere.
const SOUGHT_MIN_CHARS: usize = 8;
/// The maximum number of heading lines above the rows of a passage.
const HEADINGS_MAX: usize = 16;

/// A text with a marked part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MarkedText {
    pub(super) before: String,
    /// Empty if nothing is marked.
    pub(super) marked: String,
    pub(super) after: String,
}

impl MarkedText {
    /// Returns the text without a mark.
    pub(super) fn without_mark(text: String) -> Self {
        Self { before: text, ..Self::default() }
    }

    /// Returns true if the text is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.marked.is_empty() && self.after.is_empty()
    }

    /// Marks the passage in the text, ignoring differences of white space.
    pub(super) fn with_passage(text: String, passage: &str) -> Self {
        match find_passage(&text, passage) {
            Some(range) => Self::from_range(&text, range),
            None => Self::without_mark(text),
        }
    }

    /// Marks lines, counted from 1, if the text has them.
    pub(super) fn mark_lines(text: String, lines: (u32, u32)) -> Self {
        let (first, last) = (lines.0.max(1) as usize, lines.1 as usize);
        let mut starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        let Some(start) = starts.nth(first - 1).filter(|start| *start < text.len()) else {
            return Self::without_mark(text);
        };
        let mut rest = text[start..].match_indices('\n').map(|(at, _)| start + at);
        let end = rest.nth(last.saturating_sub(first)).unwrap_or(text.len());
        Self::from_range(&text, start..end)
    }

    /// Shows the cells of its rows apart.
    pub(super) fn separate_cells(&mut self) {
        let mut separator = CellSeparator::default();
        for piece in [&mut self.before, &mut self.marked, &mut self.after] {
            *piece = separator.separate_piece(piece);
        }
    }

    fn from_range(text: &str, range: Range<usize>) -> Self {
        Self {
            before: text[..range.start].to_owned(),
            marked: text[range.clone()].to_owned(),
            after: text[range.end..].to_owned(),
        }
    }
}

/// Returns the range of a passage in a text: of the whole passage, or else of the part below its column
/// headings, or else of its longest line. Ignores differences of white space.
fn find_passage(text: &str, passage: &str) -> Option<Range<usize>> {
    let (dense, places) = strip_white_space(text);
    let longest = passage.lines().max_by_key(|line| line.len()).unwrap_or_default();
    let breaks = passage.match_indices('\n').take(HEADINGS_MAX).map(|(at, _)| &passage[at + 1..]);
    let rows = breaks.filter(|rows| rows.contains('\n'));
    std::iter::once(passage).chain(rows).chain([longest]).find_map(|sought| {
        let sought: String = sought.chars().filter(|letter| !letter.is_whitespace()).collect();
        if sought.chars().count() < SOUGHT_MIN_CHARS {
            return None;
        }
        let at = dense.find(&sought)?;
        let place = |at: usize| places.binary_search_by_key(&at, |(dense, _)| *dense).ok();
        let first = places[place(at)?].1;
        let (last_at, _) = sought.char_indices().next_back()?;
        let last = places[place(at + last_at)?].1;
        let end = last + text[last..].chars().next().map_or(0, char::len_utf8);
        Some(first..end)
    })
}

/// Returns a text without its white space, and for each character left its position there and in the text.
fn strip_white_space(text: &str) -> (String, Vec<(usize, usize)>) {
    let (mut dense, mut places) = (String::with_capacity(text.len()), Vec::new());
    for (at, letter) in text.char_indices().filter(|(_, letter)| !letter.is_whitespace()) {
        places.push((dense.len(), at));
        dense.push(letter);
    }
    (dense, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked_part(text: &str, passage: &str) -> String {
        let MarkedText { before, marked, after } = MarkedText::with_passage(text.to_owned(), passage);
        assert_eq!(format!("{before}{marked}{after}"), text, "nothing is lost");
        marked
    }

    #[test]
    fn find_passage_ignores_white_space() {
        let text = "Nájem\n\n  činí 18 500 Kč\r\nměsíčně. Dále nic.";
        assert_eq!(marked_part(text, "činí 18 500 Kč měsíčně."), "činí 18 500 Kč\r\nměsíčně.");
        assert_eq!(marked_part(text, "Nájem činí"), "Nájem\n\n  činí");
        assert_eq!(marked_part(text, "Kauce činí 10 Kč"), "");
        assert_eq!(marked_part(text, "činí"), "", "too short to be found at its place");
        assert_eq!(marked_part("", "Kauce činí"), "");
    }

    #[test]
    fn find_passage_tries_longest_line() {
        let text = "# Lease\nThe monthly rent is 18,500 crowns.\n";
        assert_eq!(
            marked_part(text, "Lease › Rent\nThe monthly rent is 18,500 crowns."),
            "The monthly rent is 18,500 crowns."
        );
    }

    #[test]
    fn find_passage_drops_column_headings() {
        let text = "Births\nRegion\tBoys\nNorth\t150\nSouth\t200\nIsles\t300";
        let passage = "Births\nRegion\tBoys\nSouth\t200\nIsles\t300";
        assert_eq!(marked_part(text, passage), "South\t200\nIsles\t300");
    }

    #[test]
    fn mark_lines_ends_with_text() {
        let lines = |lines| MarkedText::mark_lines("a\nb\nc\nd".to_owned(), lines).marked;
        assert_eq!(lines((2, 3)), "b\nc");
        assert_eq!(lines((4, 9)), "d");
        assert_eq!(lines((0, 1)), "a");
        assert_eq!(lines((5, 6)), "");
        assert_eq!(lines((3, 2)), "c");
    }
}
