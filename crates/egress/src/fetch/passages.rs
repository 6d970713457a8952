//! Splits a page's text into passages that can be cited.

use domain::citation::{Passage, Place};

use super::readable::Block;
use crate::WebUrl;

/// The longest passage, in bytes.
pub const PASSAGE_MAX_BYTES: usize = 4 * 1024;
/// The maximum number of passages per fetch.
pub const PASSAGES_MAX: usize = 40;
/// From this length on, a passage ends at the next heading.
const ENOUGH_BYTES: usize = 1024;

/// Returns the passages from `first` on, and the number of the next one if there are more.
pub(super) fn of(blocks: &[Block], url: &WebUrl, title: &str, first: usize) -> (Vec<Passage>, Option<usize>) {
    let texts = texts(blocks);
    let rest = first.saturating_add(PASSAGES_MAX);
    let next = (texts.len() > rest).then_some(rest);
    let place = || Place::Web { url: url.as_str().to_owned(), title: title.to_owned() };
    let passages = texts.into_iter().skip(first).take(PASSAGES_MAX);
    (passages.map(|text| Passage { place: place(), text }).collect(), next)
}

fn texts(blocks: &[Block]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut text = String::new();
    for block in blocks {
        for piece in pieces(&block.text) {
            let full = text.len() + 1 + piece.len() > PASSAGE_MAX_BYTES;
            if full || (block.is_heading && text.len() >= ENOUGH_BYTES) {
                texts.push(std::mem::take(&mut text));
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(piece);
        }
    }
    texts.push(text);
    // The first text is empty if the first block fills a passage.
    texts.retain(|text| !text.is_empty());
    texts
}

/// Splits a block into pieces that fit, at the end of a sentence if possible, otherwise at a word.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > PASSAGE_MAX_BYTES {
        let most = rest.floor_char_boundary(PASSAGE_MAX_BYTES);
        let head = &rest[..most];
        let ends = [". ", "\n", " "].iter().filter_map(|end| head.rfind(end).map(|at| at + end.len()));
        // A sentence end in the first half is ignored, because the piece would be too short.
        let at = ends.into_iter().find(|at| *at > most / 2).unwrap_or(most);
        pieces.push(rest[..at].trim_end());
        rest = rest[at..].trim_start();
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str, is_heading: bool) -> Block {
        Block { text: text.to_owned(), is_heading }
    }

    #[test]
    fn passages_are_bounded_and_lose_nothing() {
        let blocks = [
            block("# One", true),
            block(&"A sentence here. ".repeat(500), false),
            block(&"x".repeat(9000), false),
        ];
        let all = texts(&blocks);
        assert!(all.iter().all(|text| text.len() <= PASSAGE_MAX_BYTES));
        let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
        let before: String = blocks.iter().map(|block| block.text.as_str()).collect();
        assert_eq!(letters(&all.concat()), letters(&before));
        assert!(all[0].ends_with("here."), "{}", all[0]);
    }

    #[test]
    fn a_passage_ends_before_a_heading_when_it_is_long_enough() {
        let blocks = [
            block("short", false),
            block("# One", true),
            block(&"a ".repeat(600), false),
            block("# Two", true),
        ];
        let all = texts(&blocks);
        assert!(all[0].starts_with("short\n# One\n") && all[1] == "# Two", "{all:?}");
    }

    #[test]
    fn a_long_page_is_given_in_turns() {
        let url = WebUrl::parse("https://example.org/").expect("an address");
        let blocks: Vec<Block> =
            (0..100).map(|number| block(&format!("{number} {}", "b".repeat(4000)), false)).collect();
        let (first, next) = of(&blocks, &url, "T", 0);
        assert_eq!((first.len(), next), (PASSAGES_MAX, Some(PASSAGES_MAX)));
        let (last, next) = of(&blocks, &url, "T", 80);
        assert_eq!((last.len(), next), (20, None));
        assert!(last[0].text.starts_with("80 "));
        assert_eq!(of(&blocks, &url, "T", usize::MAX), (Vec::new(), None));
    }
}
