//! Splits a page's text into passages that can be cited.

use domain::citation::{Passage, PassagePlace};

use super::readable::PageBlock;
use crate::WebUrl;

/// The longest passage, in bytes.
pub const PASSAGE_MAX_BYTES: usize = 4 * 1024;
/// The maximum number of passages per fetch.
pub const PASSAGES_MAX: usize = 40;
/// From this length on, a passage ends at the next heading.
const ENOUGH_BYTES: usize = 1024;

/// Returns the passages from `first` on, and the number of the next one if there are more.
pub(super) fn split_passages(
    blocks: &[PageBlock],
    url: &WebUrl,
    title: &str,
    first: usize,
) -> (Vec<Passage>, Option<usize>) {
    let texts = passage_texts(blocks);
    let rest = first.saturating_add(PASSAGES_MAX);
    let next = (texts.len() > rest).then_some(rest);
    let place = || PassagePlace::Web { url: url.as_str().to_owned(), title: title.to_owned() };
    let passages = texts.into_iter().skip(first).take(PASSAGES_MAX);
    (passages.map(|text| Passage { place: place(), text }).collect(), next)
}

fn passage_texts(blocks: &[PageBlock]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut text = String::new();
    for block in blocks {
        for piece in split_block(&block.text) {
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
fn split_block(text: &str) -> Vec<&str> {
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

    fn text_block(text: &str, is_heading: bool) -> PageBlock {
        PageBlock { text: text.to_owned(), is_heading }
    }

    #[test]
    fn passages_are_bounded_and_lose_nothing() {
        let blocks = [
            text_block("# One", true),
            text_block(&"A sentence here. ".repeat(500), false),
            text_block(&"x".repeat(9000), false),
        ];
        let all = passage_texts(&blocks);
        assert!(all.iter().all(|text| text.len() <= PASSAGE_MAX_BYTES));
        let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>();
        let before: String = blocks.iter().map(|block| block.text.as_str()).collect();
        assert_eq!(letters(&all.concat()), letters(&before));
        assert!(all[0].ends_with("here."), "{}", all[0]);
    }

    #[test]
    fn split_passages_breaks_before_heading() {
        let blocks = [
            text_block("short", false),
            text_block("# One", true),
            text_block(&"a ".repeat(600), false),
            text_block("# Two", true),
        ];
        let all = passage_texts(&blocks);
        assert!(all[0].starts_with("short\n# One\n") && all[1] == "# Two", "{all:?}");
    }

    #[test]
    fn split_passages_continues_long_page() {
        let url = WebUrl::parse("https://example.org/").expect("an address");
        let blocks: Vec<PageBlock> =
            (0..100).map(|number| text_block(&format!("{number} {}", "b".repeat(4000)), false)).collect();
        let (first, next) = split_passages(&blocks, &url, "T", 0);
        assert_eq!((first.len(), next), (PASSAGES_MAX, Some(PASSAGES_MAX)));
        let (last, next) = split_passages(&blocks, &url, "T", 80);
        assert_eq!((last.len(), next), (20, None));
        assert!(last[0].text.starts_with("80 "));
        assert_eq!(split_passages(&blocks, &url, "T", usize::MAX), (Vec::new(), None));
    }
}
