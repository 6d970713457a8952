//! Finds a cited passage in a text, so that a page can mark it.

use std::ops::Range;

use crate::cells::CellSeparator;

/// The fewest characters without white space that are searched for: fewer stand anywhere.
const SOUGHT_MIN_CHARS: usize = 8;
/// The most lines of headings above the rows of a passage.
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
    pub(super) fn plain(text: String) -> Self {
        Self { before: text, ..Self::default() }
    }

    /// Returns true if there is no text.
    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.marked.is_empty() && self.after.is_empty()
    }

    /// Marks the passage where it stands in the text, whatever its white space.
    pub(super) fn mark(text: String, passage: &str) -> Self {
        match find(&text, passage) {
            Some(range) => Self::split(&text, range),
            None => Self::plain(text),
        }
    }

    /// Marks lines, counted from 1, if the text has them.
    pub(super) fn mark_lines(text: String, lines: (u32, u32)) -> Self {
        let (first, last) = (lines.0.max(1) as usize, lines.1 as usize);
        let mut starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        let Some(start) = starts.nth(first - 1).filter(|start| *start < text.len()) else {
            return Self::plain(text);
        };
        let mut rest = text[start..].match_indices('\n').map(|(at, _)| start + at);
        let end = rest.nth(last.saturating_sub(first)).unwrap_or(text.len());
        Self::split(&text, start..end)
    }

    /// Shows the cells of its rows apart.
    pub(super) fn separate_cells(&mut self) {
        let mut separator = CellSeparator::default();
        for piece in [&mut self.before, &mut self.marked, &mut self.after] {
            *piece = separator.separate(piece);
        }
    }

    fn split(text: &str, range: Range<usize>) -> Self {
        Self {
            before: text[..range.start].to_owned(),
            marked: text[range.clone()].to_owned(),
            after: text[range.end..].to_owned(),
        }
    }
}

/// Returns where a passage stands in a text, or else what follows the headings of columns above its rows, or else its longest line.
/// Differences of white space do not count.
fn find(text: &str, passage: &str) -> Option<Range<usize>> {
    let (dense, places) = dense(text);
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
fn dense(text: &str) -> (String, Vec<(usize, usize)>) {
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

    fn marked(text: &str, passage: &str) -> String {
        let MarkedText { before, marked, after } = MarkedText::mark(text.to_owned(), passage);
        assert_eq!(format!("{before}{marked}{after}"), text, "nothing is lost");
        marked
    }

    #[test]
    fn a_passage_is_found_whatever_its_white_space() {
        let text = "Nájem\n\n  činí 18 500 Kč\r\nměsíčně. Dále nic.";
        assert_eq!(marked(text, "činí 18 500 Kč měsíčně."), "činí 18 500 Kč\r\nměsíčně.");
        assert_eq!(marked(text, "Nájem činí"), "Nájem\n\n  činí");
        assert_eq!(marked(text, "Kauce činí 10 Kč"), "");
        assert_eq!(marked(text, "činí"), "", "too short to be found at its place");
        assert_eq!(marked("", "Kauce činí"), "");
    }

    #[test]
    fn the_longest_line_of_a_passage_that_is_not_there_as_a_whole_is_marked() {
        let text = "# Lease\nThe monthly rent is 18,500 crowns.\n";
        assert_eq!(
            marked(text, "Lease › Rent\nThe monthly rent is 18,500 crowns."),
            "The monthly rent is 18,500 crowns."
        );
    }

    #[test]
    fn rows_are_marked_without_the_headings_that_stand_further_up() {
        let text = "Births\nRegion\tBoys\nNorth\t150\nSouth\t200\nIsles\t300";
        let passage = "Births\nRegion\tBoys\nSouth\t200\nIsles\t300";
        assert_eq!(marked(text, passage), "South\t200\nIsles\t300");
    }

    #[test]
    fn lines_are_marked_as_far_as_there_are_any() {
        let lines = |lines| MarkedText::mark_lines("a\nb\nc\nd".to_owned(), lines).marked;
        assert_eq!(lines((2, 3)), "b\nc");
        assert_eq!(lines((4, 9)), "d");
        assert_eq!(lines((0, 1)), "a");
        assert_eq!(lines((5, 6)), "");
        assert_eq!(lines((3, 2)), "c");
    }
}
