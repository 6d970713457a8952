//! Citations that a vendor reports, and the placement of their marks.
//!
//! A vendor reports the end of the cited claim. The mark is placed after it, at the next position where a mark is
//! valid: not inside code, a word or a link's address. Without its marks the text equals the model's output, byte for
//! byte.

use super::mark::{Piece, decided_pieces, pieces};
use super::{Place, strip};

/// The most sources that a vendor names for one step; what is beyond is left out.
pub const CITED_MAX: usize = 256;
/// The longest text into which marks are put, in bytes: looking for their places reads it again for each.
const TEXT_MAX_BYTES: usize = 512 * 1024;
/// The number of further lines that are searched for a valid position.
const LINES_MAX: usize = 8;
/// The longest word that a mark goes behind instead of into, in characters.
const WORD_MAX_CHARS: usize = 64;

/// A source that a vendor names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cited {
    /// The offset of the mark in the step's text, in bytes.
    pub at: usize,
    /// The source: a page of the web, or a file by the path or name under which the vendor knows it.
    pub place: Place,
    /// The quoted text of the source; may be empty.
    pub quote: String,
}

impl Cited {
    /// Returns the size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let place = match &self.place {
            Place::File { path, .. } => path.len(),
            Place::Web { url, title } => url.len() + title.len(),
        };
        place + self.quote.len()
    }
}

/// A vendor's source under its number in the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The text block of the step for which it stands.
    pub block: u32,
    /// The offset of the mark in the unmarked text of the block, in bytes.
    pub at: usize,
    /// Its number.
    pub number: u32,
    /// The source.
    pub place: Place,
    /// The quoted text of the source.
    pub quote: String,
}

/// The marks that were put into a text. It only says where they stand, so that any two are equal.
#[derive(Debug, Clone, Default)]
pub struct CitationMarkers(Vec<(usize, usize)>);

impl PartialEq for CitationMarkers {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl CitationMarkers {
    /// Puts a mark into the text behind so many bytes of it as it was said, and tells where it begins.
    pub fn put(&mut self, text: &mut String, at: usize, number: u32) -> usize {
        let before = self.0.iter().filter(|(other, _)| *other <= at);
        let place = text.floor_char_boundary(at + before.map(|(_, length)| length).sum::<usize>());
        let mark = format!(" [{number}]");
        text.insert_str(place, &mark);
        self.0.push((at, mark.len()));
        place
    }
}

/// Where in this Markdown the mark of a claim goes that reaches to `at`. `None` when no mark can stand there, or not
/// yet: more of a text that has not ended may decide it.
#[must_use]
pub fn marker_position(markdown: &str, at: usize, ended: bool) -> Option<usize> {
    if markdown.len() > TEXT_MAX_BYTES {
        return None;
    }
    let end = word_end(markdown, markdown.floor_char_boundary(at));
    let behind = trimmed(markdown, end);
    if fits(markdown, behind, ended) {
        return Some(behind);
    }
    if !ended {
        return None;
    }
    let rest = markdown.get(end..).unwrap_or("");
    let ends = rest.match_indices('\n').map(|(line, _)| end + line).chain([markdown.len()]);
    ends.take(LINES_MAX).map(|line| trimmed(markdown, line)).find(|place| fits(markdown, *place, true))
}

/// Returns true if a mark at this position is recognized, and removing it restores the text.
fn fits(markdown: &str, place: usize, ended: bool) -> bool {
    let (before, after) = markdown.split_at(place);
    if before.trim().is_empty() || before.ends_with(['[', '!', '\\']) {
        return false;
    }
    let marked = format!("{before} [1]{after}");
    let is_it = |piece: Piece| matches!(piece, Piece::Mark(mark) if mark.whole == (place..place + 4));
    if ended {
        pieces(&marked).any(is_it) && strip(&marked) == strip(markdown)
    } else {
        !after.is_empty() && decided_pieces(&marked).any(is_it)
    }
}

/// The end of the word in the middle of which this is, if it is in one.
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

/// The end of what stands before this place, without white space and the end of a row of a table.
fn trimmed(markdown: &str, end: usize) -> usize {
    let before = markdown[..end].trim_end();
    before.strip_suffix('|').map_or(before, str::trim_end).len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marked(markdown: &str, at: usize) -> Option<String> {
        let mut text = markdown.to_owned();
        CitationMarkers::default().put(&mut text, marker_position(markdown, at, true)?, 7);
        Some(text)
    }

    #[test]
    fn a_mark_goes_behind_the_claim_and_never_into_a_word_code_or_an_address() {
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
            assert_eq!(marked(markdown, claim.len()).as_deref(), Some(expected));
        }
        for (markdown, at) in [("", 0), ("```\nx\n", 5), ("  \n", 2)] {
            assert_eq!(marked(markdown, at), None, "{markdown:?}");
        }
    }

    #[test]
    fn while_more_comes_a_place_is_told_only_when_it_is_decided() {
        assert_eq!(marker_position("It is due.", 10, false), None);
        assert_eq!(marker_position("It is due. ", 10, false), Some(10));
        assert_eq!(marker_position("It is `due", 10, false), None);
        assert_eq!(marker_position("It is due.(", 10, false), None, "it would be a link");
    }

    #[test]
    fn marks_keep_their_places_in_whatever_order_they_come() {
        let mut text = "one two three".to_owned();
        let mut marks = CitationMarkers::default();
        for (at, number) in [(13, 3), (3, 1), (7, 2), (7, 12)] {
            marks.put(&mut text, at, number);
        }
        assert_eq!(text, "one [1] two [2] [12] three [3]");
    }

    proptest! {
        #[test]
        fn without_its_mark_a_text_is_what_was_said(
            markdown in "([a-z ]|\\[|\\]|\\(|\\)|`|\n|1|é|\\||#|\\*|:|!|\\\\|>|-){0,60}",
            at in 0_usize..70,
            cut in 0_usize..70,
        ) {
            if let Some(marked) = marked(&markdown, at) {
                prop_assert_eq!(strip(&marked), strip(&markdown));
            }
            // What is decided while more comes holds for the whole.
            let begun = &markdown[..markdown.floor_char_boundary(cut)];
            if let Some(place) = marker_position(begun, at, false) {
                let mut whole = markdown.clone();
                CitationMarkers::default().put(&mut whole, place, 7);
                prop_assert_eq!(strip(&whole), strip(&markdown));
            }
        }
    }
}
