//! Citations that a vendor reports, and the placement of their marks.
//!
//! A vendor reports the end of the cited claim. The mark is placed after it, at the next position where a mark is
//! valid: not inside code, a word or a link's address. Without its marks the text equals the model's output, byte for
//! byte.

use super::mark::{MarkdownPiece, decided_pieces, meaning_stays, split_pieces};
use super::{PassagePlace, strip_marks};

/// The maximum number of sources of one step that a vendor may report; further ones are dropped.
pub const CITED_MAX: usize = 256;
/// The longest text that gets marks, in bytes, because each mark scans the text again.
const TEXT_MAX_BYTES: usize = 512 * 1024;
/// The number of further lines that are searched for a valid position.
const LINES_MAX: usize = 8;
/// The longest word, in characters, whose end is searched for; marks are not set inside words.
const WORD_MAX_CHARS: usize = 64;

/// A source that a vendor reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorCitation {
    /// The offset of the mark in the step's text, in bytes.
    pub at: usize,
    /// The source: a web page, or a file by the path or name that the vendor was given.
    pub place: PassagePlace,
    /// The quoted text of the source; may be empty.
    pub quote: String,
}

impl VendorCitation {
    /// Returns the size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let place = match &self.place {
            PassagePlace::File { path, page_name, .. } => {
                path.len() + page_name.as_ref().map_or(0, String::len)
            }
            PassagePlace::Web { url, title } => url.len() + title.len(),
        };
        place + self.quote.len()
    }
}

/// A vendor's source with its number in the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedCitation {
    /// The index of the cited text block in the step.
    pub block: u32,
    /// The offset of the mark in the unmarked text of the block, in bytes.
    pub at: usize,
    pub number: u32,
    pub place: PassagePlace,
    /// The quoted text of the source.
    pub quote: String,
}

/// The marks that were inserted into a text. Only records their positions, so any two are equal.
#[derive(Debug, Clone, Default)]
pub struct CitationMarkers(Vec<(usize, usize)>);

impl PartialEq for CitationMarkers {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl CitationMarkers {
    /// Inserts a mark at the offset `at` of the unmarked text, in bytes. Returns the offset of the mark.
    pub fn insert_mark(&mut self, text: &mut String, at: usize, number: u32) -> usize {
        let before = self.0.iter().filter(|(other, _)| *other <= at);
        let place = text.floor_char_boundary(at + before.map(|(_, length)| length).sum::<usize>());
        let mark = format!(" [{number}]");
        text.insert_str(place, &mark);
        self.0.push((at, mark.len()));
        place
    }
}

/// Returns the position of the mark for a claim that ends at `at`. `None` if no mark is possible there, or if
/// more of an unfinished text is needed to decide.
#[must_use]
pub fn marker_position(markdown: &str, at: usize, ended: bool) -> Option<usize> {
    if markdown.len() > TEXT_MAX_BYTES {
        return None;
    }
    let end = word_end(markdown, markdown.floor_char_boundary(at));
    let behind = trimmed_end(markdown, end);
    if is_mark_position(markdown, behind, ended) {
        return Some(behind);
    }
    if !ended {
        return None;
    }
    let rest = markdown.get(end..).unwrap_or("");
    let ends = rest.match_indices('\n').map(|(line, _)| end + line).chain([markdown.len()]);
    ends.take(LINES_MAX)
        .map(|line| trimmed_end(markdown, line))
        .find(|place| is_mark_position(markdown, *place, true))
}

/// Returns true if a mark at this position is recognized, and the rest of the text keeps its meaning.
fn is_mark_position(markdown: &str, place: usize, ended: bool) -> bool {
    let (before, after) = markdown.split_at(place);
    if before.trim().is_empty() || before.ends_with(['[', '!', '\\']) {
        return false;
    }
    let marked = format!("{before} [1]{after}");
    let is_it =
        |piece: MarkdownPiece| matches!(piece, MarkdownPiece::Mark(mark) if mark.whole == (place..place + 4));
    if ended {
        split_pieces(&marked).any(is_it) && strip_marks(&marked, |_| true) == strip_marks(markdown, |_| true)
    } else {
        !after.is_empty()
            && !after.starts_with('[')
            && decided_pieces(&marked).any(is_it)
            && meaning_stays(markdown, &marked, place, " [1]".len())
    }
}

/// Returns the end of the word that contains this position, or the position itself.
fn word_end(markdown: &str, at: usize) -> usize {
    let (before, after) = markdown.split_at(at);
    let in_word = |letter: char| letter.is_alphanumeric() && letter < '\u{2e80}';
    if !before.ends_with(in_word) {
        return at;
    }
    at + after
        .chars()
        .take(WORD_MAX_CHARS)
        .take_while(|letter| in_word(*letter))
        .map(char::len_utf8)
        .sum::<usize>()
}

/// Returns the end of the text before this position without trailing white space and end of a table row.
fn trimmed_end(markdown: &str, end: usize) -> usize {
    let before = markdown[..end].trim_end();
    before.strip_suffix('|').map_or(before, str::trim_end).len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn insert_test_mark(markdown: &str, at: usize) -> Option<String> {
        let mut text = markdown.to_owned();
        CitationMarkers::default().insert_mark(&mut text, marker_position(markdown, at, true)?, 7);
        Some(text)
    }

    #[test]
    fn marker_position_follows_claim() {
        for (markdown, claim, expected) in [
            ("It is due. Soon.", "It is due.", "It is due. [7] Soon."),
            ("It is due.\n\nSoon.", "It is due.\n\n", "It is due. [7]\n\nSoon."),
            ("Überschuss", "Über", "Überschuss [7]"),
            ("run `cargo test` now", "run `cargo", "run `cargo test` now [7]"),
            (
                "see [here](https://a.example/x) too",
                "see [here](https://a",
                "see [here](https://a.example/x) too [7]",
            ),
            (
                "see [here](https://a.example) too",
                "see [here](https://a.example)",
                "see [here](https://a.example) [7] too",
            ),
            ("see [here](https://a.example) too", "see [here]", "see [here](https://a.example) too [7]"),
            (
                "| a | b |\n|---|---|\n| c | d |\n",
                "| a | b |\n|---|---|\n| c | d |",
                "| a | b |\n|---|---|\n| c | d [7] |\n",
            ),
            ("```\nx\n```\nDone.", "```\nx", "```\nx\n```\nDone. [7]"),
            ("这是事实。另一句", "这是事实", "这是事实 [7]。另一句"),
        ] {
            assert_eq!(insert_test_mark(markdown, claim.len()).as_deref(), Some(expected));
        }
        for (markdown, at) in [("", 0), ("```\nx\n", 5), ("  \n", 2)] {
            assert_eq!(insert_test_mark(markdown, at), None, "{markdown:?}");
        }
    }

    #[test]
    fn unfinished_marker_positions_wait_until_decided() {
        assert_eq!(marker_position("It is due.", 10, false), None);
        assert_eq!(marker_position("It is due. ", 10, false), Some(10));
        assert_eq!(marker_position("It is `due", 10, false), None);
        assert_eq!(marker_position("It is due.(", 10, false), None, "it would be a link");
        assert_eq!(marker_position("See\n[1]) ", 6, false), None, "inside a mark of the model");
        assert_eq!(marker_position("1) Due. ", 1, false), None, "it would not be a list");
        assert_eq!(marker_position("```\ncode", 2, false), None, "it would not be code");
    }

    #[test]
    fn insertion_order_keeps_mark_positions() {
        let mut text = "one two three".to_owned();
        let mut marks = CitationMarkers::default();
        for (at, number) in [(13, 3), (3, 1), (7, 2), (7, 12)] {
            marks.insert_mark(&mut text, at, number);
        }
        assert_eq!(text, "one [1] two [2] [12] three [3]");
    }

    proptest! {
        #[test]
        fn removing_the_mark_restores_the_text(
            markdown in "([a-z ]|\\[|\\]|\\(|\\)|`|\n|1|é|\\||#|\\*|:|!|\\\\|>|-){0,60}",
            at in 0_usize..70,
            cut in 0_usize..70,
        ) {
            if let Some(marked) = insert_test_mark(&markdown, at) {
                prop_assert_eq!(strip_marks(&marked, |_| true), strip_marks(&markdown, |_| true));
            }
            // A decision for an unfinished text also holds for the complete one.
            let begun = &markdown[..markdown.floor_char_boundary(cut)];
            if let Some(place) = marker_position(begun, at, false) {
                let mut whole = markdown.clone();
                CitationMarkers::default().insert_mark(&mut whole, place, 7);
                prop_assert_eq!(strip_marks(&whole, |_| true), strip_marks(&markdown, |_| true));
            }
        }
    }
}
