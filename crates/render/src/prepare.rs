//! Prepares Markdown for the parser: puts marks where other syntax cannot split them, one for each number, and escapes
//! formulas and reference definitions.

use std::borrow::Cow;
use std::fmt::Write;

use domain::citation::{MarkdownPiece, decided_pieces, split_pieces};

use crate::escape::{MARK_CLOSE, MARK_OPEN};
use crate::tables::{self, CellBudget};
use crate::{CitationSources, maths};

/// The number of bytes before a mark that are searched for an autolink.
const ADDRESS_MAX_BYTES: usize = 2048;

/// Normalizes line ends and removes the characters that are inserted later.
pub(crate) fn normalize_markdown(markdown: &str) -> Cow<'_, str> {
    if !markdown.contains(['\r', '\u{feff}', MARK_OPEN, MARK_CLOSE]) {
        return Cow::Borrowed(markdown);
    }
    let unified = markdown.replace("\r\n", "\n").replace('\r', "\n");
    Cow::Owned(unified.replace(['\u{feff}', MARK_OPEN, MARK_CLOSE], ""))
}

/// Prepares normalized text for the parser; its tables have at most the cells of the budget. Unfinished text is limited to its unambiguous part.
pub(crate) fn prepare_markdown(
    markdown: &str,
    sources: &dyn CitationSources,
    finished: bool,
    cells: &mut CellBudget,
) -> String {
    let bounded = tables::bound_tables(markdown, cells);
    let markdown = bounded.as_ref();
    if finished && !markdown.contains(['[', '$', '\\']) {
        return bounded.into_owned();
    }
    let mut out = String::with_capacity(markdown.len() + 64);
    // Texts that follow one another, in which a formula may be.
    let mut text = 0..0;
    let mut take = |piece: MarkdownPiece| match piece {
        MarkdownPiece::Text(range) => {
            let follows_bracket = range.start > 0 && markdown.as_bytes().get(range.start - 1) == Some(&b']');
            let defines = follows_bracket && markdown[range.clone()].starts_with(':');
            if range.start == text.end && !defines {
                text.end = range.end;
                return;
            }
            maths::push_text(&markdown[std::mem::replace(&mut text, range)], &mut out);
            if defines {
                // `]:` would define a reference; the meaning of a link must not depend on other blocks.
                out.push('\\');
            }
        }
        other => {
            maths::push_text(&markdown[std::mem::replace(&mut text, 0..0)], &mut out);
            push_piece(markdown, other, sources, &mut out);
        }
    };
    if finished {
        split_pieces(markdown).for_each(&mut take);
        maths::push_text(&markdown[text], &mut out);
    } else {
        decided_pieces(markdown).for_each(&mut take);
        maths::push_growing_text(&markdown[text], &mut out);
    }
    out
}

fn push_piece(markdown: &str, piece: MarkdownPiece, sources: &dyn CitationSources, out: &mut String) {
    match piece {
        MarkdownPiece::Text(range) | MarkdownPiece::Code(range) => out.push_str(&markdown[range]),
        MarkdownPiece::Mark(mark) if mark.is_known(|number| sources.source_place(number).is_some()) => {
            out.push_str(&markdown[mark.whole.start..mark.brackets.start]);
            if ends_with_address(out) {
                out.push(' ');
            }
            for number in &mark.numbers {
                // Writing to a string cannot fail.
                let _written = write!(out, "[{MARK_OPEN}{number}{MARK_CLOSE}]");
            }
            out.push_str(&markdown[mark.brackets.end..mark.whole.end]);
        }
        MarkdownPiece::Mark(mark) => out.push_str(&markdown[mark.whole]),
    }
}

/// Returns true if the last word is an autolink, which the parser would extend over the mark.
fn ends_with_address(text: &str) -> bool {
    let mut start = text.len().saturating_sub(ADDRESS_MAX_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let word = text[start..].rsplit(|c: char| c.is_whitespace() || c == '<').next().unwrap_or("");
    word.contains("://") || word.contains("www.") || word.contains('@')
}
