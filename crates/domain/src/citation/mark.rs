//! The citation marks of an answer: `[12]`, `[1, 2]`, `[1; 2]` or `[1-3]` in its Markdown. This is the only parser of them.
//!
//! A mark has numbers from 1 to [`MARK_MAX`] in square brackets. It is not in code (fenced, indented, in backticks or
//! in HTML), in a formula, in a link or in a URL, and not a definition at the beginning of a line. Behind a digit, a
//! bracket, a single letter, a TeX command or a name of a program it is an index ([`WordState`] decides). The scanner knows
//! only the form: a mark counts if all its numbers have sources, which the reader looks up ([`CitationMark::is_known`]); any
//! other mark is text.
//!
//! A growing answer is shown without its marks, and shown text must not change: the scanner decides from left to right, and
//! waits where the next bytes could still change the meaning of earlier ones. The wait is bounded, and the bounds are part
//! of the grammar: the result does not depend on the chunks of the text.

mod enclosure;
mod numbers;
mod replacer;
mod syntax;
#[cfg(test)]
mod tests;
mod word;

use std::ops::Range;

pub use replacer::{DecidedPiece, MarkReplacer};

use enclosure::{Enclosures, html_code_tag};
use numbers::scan_numbers;
use syntax::{
    CONTAINERS_MAX, CodeFence, FenceRelation, SPACES_MAX, ScanResult, code_span, ends_paragraph,
    find_address_end, leading_columns, opens_fence, run_length, scan_container_marker,
};
use word::{Admits, WordState, ends_word};

/// The greatest number of a mark. Three digits, so that the year of a reported case, `[2019] UKSC 5`, is not
/// a mark.
pub const MARK_MAX: u32 = 999;
/// The maximum number of numbers in one mark. A longer list is text.
pub const MARK_NUMBERS_MAX: usize = 16;
/// The maximum number of delimiters of an emphasis that are removed with a mark.
const EMPHASIS_MAX: usize = 3;

/// A piece of Markdown: text, code, or a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkdownPiece {
    Text(Range<usize>),
    /// A line of code with its line end, or a code span with its backticks.
    Code(Range<usize>),
    Mark(CitationMark),
}

impl MarkdownPiece {
    /// Returns the range that stays where marks of known numbers are removed.
    fn kept_range(self, known: &impl Fn(u32) -> bool) -> Range<usize> {
        match self {
            Self::Text(range) | Self::Code(range) => range,
            Self::Mark(mark) if mark.is_known(known) => mark.whole.start..mark.whole.start,
            Self::Mark(mark) => mark.whole,
        }
    }
}

/// A mark in Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CitationMark {
    /// The range that is removed with the mark: with the white space before it, or after it at the beginning of a line, and with the
    /// delimiters that emphasize it alone.
    pub whole: Range<usize>,
    /// The brackets and their content.
    pub brackets: Range<usize>,
    /// The numbers, at least one and at most [`MARK_NUMBERS_MAX`]; ranges are expanded.
    pub numbers: Vec<u32>,
}

impl CitationMark {
    /// Returns true if all its numbers are known. Otherwise it is text.
    #[must_use]
    pub fn is_known(&self, known: impl Fn(u32) -> bool) -> bool {
        self.numbers.iter().all(|number| known(*number))
    }
}

/// Splits finished Markdown into pieces, in order and without gaps. Linear in its length.
pub fn split_pieces(markdown: &str) -> impl Iterator<Item = MarkdownPiece> + '_ {
    let mut scanner = Scanner::default();
    let mut at = 0;
    std::iter::from_fn(move || scanner.next_piece(markdown, &mut at, true))
}

/// Splits unfinished Markdown into pieces, up to the first undecided one.
pub fn decided_pieces(markdown: &str) -> impl Iterator<Item = MarkdownPiece> + '_ {
    let mut scanner = Scanner::default();
    let mut at = 0;
    std::iter::from_fn(move || scanner.next_piece(markdown, &mut at, false))
}

/// Returns true if unfinished Markdown keeps its meaning after `place` when `mark_bytes` of a mark are inserted there:
/// the scanner continues in the same state. False while that is undecided.
pub(super) fn meaning_stays(unmarked: &str, marked: &str, place: usize, mark_bytes: usize) -> bool {
    let Some((end, inside_text, mut before)) = scan_to(unmarked, place) else { return false };
    let Some((at, _, after)) = scan_to(marked, end + mark_bytes) else { return false };
    // A mark is recognized only if nothing encloses it.
    before.enclosures.retain_of(&after.enclosures);
    inside_text && at == end + mark_bytes && Scanner { after_mark: before.after_mark, ..after } == before
}

/// Scans unfinished Markdown to the first token that ends at `place` or later. Returns its end, whether `place` is
/// its end or it is text, and the state of the scanner after it.
fn scan_to(markdown: &str, place: usize) -> Option<(usize, bool, Scanner)> {
    let mut scanner = Scanner::default();
    let mut at = 0;
    loop {
        let piece = scanner.next_piece(markdown, &mut at, false)?;
        if at >= place {
            return Some((at, at == place || matches!(piece, MarkdownPiece::Text(_)), scanner));
        }
    }
}

/// Returns all texts with the form of a mark in finished Markdown, in order.
pub fn find_marks(markdown: &str) -> impl Iterator<Item = CitationMark> + '_ {
    let searched = if markdown.contains('[') { markdown } else { "" };
    split_pieces(searched).filter_map(|piece| match piece {
        MarkdownPiece::Mark(mark) => Some(mark),
        MarkdownPiece::Text(_) | MarkdownPiece::Code(_) => None,
    })
}

/// Returns the numbers that finished Markdown cites and that are known, in the order of its marks, with repetitions.
pub fn cited_numbers<'t>(
    markdown: &'t str,
    known: impl Fn(u32) -> bool + 't,
) -> impl Iterator<Item = u32> + 't {
    find_marks(markdown).filter(move |mark| mark.is_known(&known)).flat_map(|mark| mark.numbers)
}

/// Removes the marks of known numbers from finished Markdown. Other numbers in brackets are text.
#[must_use]
pub fn strip_marks(markdown: &str, known: impl Fn(u32) -> bool) -> String {
    if !markdown.contains('[') {
        return markdown.to_owned();
    }
    let mut out = String::with_capacity(markdown.len());
    for piece in split_pieces(markdown) {
        out.push_str(&markdown[piece.kept_range(&known)]);
    }
    out
}

/// A number in a text whose marks are renumbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renumbered {
    To(u32),
    /// It has a source that is not passed on: the number is removed.
    Dropped,
    /// It has no source: its mark is text, and is kept.
    Unknown,
}

/// Changes the numbers of the marks in finished Markdown. Escapes text that looks like a mark but has no sources, so
/// that the new numbers do not turn it into one.
#[must_use]
pub fn renumber_marks(markdown: &str, number: impl Fn(u32) -> Renumbered) -> String {
    let mut out = String::with_capacity(markdown.len());
    for piece in split_pieces(markdown) {
        let mark = match piece {
            MarkdownPiece::Text(range) | MarkdownPiece::Code(range) => {
                out.push_str(&markdown[range]);
                continue;
            }
            MarkdownPiece::Mark(mark) => mark,
        };
        let CitationMark { whole, brackets, .. } = mark.clone();
        if !mark.is_known(|of| number(of) != Renumbered::Unknown) {
            out.push_str(&markdown[whole.start..brackets.start]);
            out.push('\\');
            out.push_str(&markdown[brackets.start..whole.end]);
            continue;
        }
        let to = mark.numbers.into_iter().filter_map(|of| match number(of) {
            Renumbered::To(number) => Some(format!("[{number}]")),
            Renumbered::Dropped | Renumbered::Unknown => None,
        });
        let to: String = to.collect();
        if !to.is_empty() {
            out.push_str(&markdown[whole.start..brackets.start]);
            out.push_str(&to);
            out.push_str(&markdown[brackets.end..whole.end]);
        }
    }
    out
}

/// Removes the marks from Markdown that is still being written. [`Stripper::text`] is always a prefix of its
/// later values, and of [`strip_marks`] of the complete text if the same numbers are known. Each byte is scanned a
/// bounded number of times.
#[derive(Debug, Clone, Default)]
pub struct Stripper {
    scanner: Scanner,
    pending: String,
    out: String,
}

impl Stripper {
    /// Appends text. Marks of known numbers are removed.
    pub fn push(&mut self, markdown: &str, known: impl Fn(u32) -> bool) {
        self.pending.push_str(markdown);
        self.strip_pending(known, false);
    }

    /// Returns the decided part of the text, without marks.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.out
    }

    /// Returns the complete text without marks.
    #[must_use]
    pub fn finish(mut self, known: impl Fn(u32) -> bool) -> String {
        self.strip_pending(known, true);
        self.out
    }

    fn strip_pending(&mut self, known: impl Fn(u32) -> bool, ended: bool) {
        let mut at = 0;
        while let Some(piece) = self.scanner.next_piece(&self.pending, &mut at, ended) {
            self.out.push_str(&self.pending[piece.kept_range(&known)]);
        }
        self.pending.drain(..at);
    }
}

/// The token at the beginning of the remaining text.
enum MarkToken {
    /// Bytes of text without a mark.
    Text(usize),
    /// Bytes of closed text: a link's address, or the rest of an enclosure without a mark. A mark may follow.
    Closed(usize),
    Code(usize),
    /// The bytes of white space, brackets and white space, and the numbers.
    Mark {
        before: usize,
        brackets: usize,
        after: usize,
        numbers: Vec<u32>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LinePosition {
    /// Before a line's first byte.
    #[default]
    LineStart,
    /// Before the first byte of a line's content.
    ContentStart,
    /// In a line's content.
    Content,
    /// In a line of code.
    Code,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Scanner {
    position: LinePosition,
    fence: Option<CodeFence>,
    /// The columns at which the content of the open list items begins, outermost first.
    items: Vec<usize>,
    after_blank: bool,
    in_indented_code: bool,
    after_bracket: bool,
    /// True after a letter or digit, where no emphasis of a mark begins.
    after_word: bool,
    after_mark: bool,
    /// The text before it in the line.
    word: WordState,
    enclosures: Enclosures,
    started: bool,
}

impl Scanner {
    fn next_piece(&mut self, text: &str, at: &mut usize, ended: bool) -> Option<MarkdownPiece> {
        let start = *at;
        let found = self.next_token(text.get(start..)?, ended)?;
        Some(match found {
            MarkToken::Text(length) | MarkToken::Closed(length) => {
                *at = start + length;
                MarkdownPiece::Text(start..*at)
            }
            MarkToken::Code(length) => {
                *at = start + length;
                MarkdownPiece::Code(start..*at)
            }
            MarkToken::Mark { before, brackets, after, numbers } => {
                *at = start + before + brackets + after;
                let brackets = start + before..start + before + brackets;
                MarkdownPiece::Mark(CitationMark { whole: start..*at, brackets, numbers })
            }
        })
    }

    /// Returns the next token; `None` at the end, or when more text is needed.
    fn next_token(&mut self, text: &str, ended: bool) -> Option<MarkToken> {
        if text.is_empty() {
            return None;
        }
        match self.position {
            LinePosition::LineStart => {
                let prefix = self.open_line(text.as_bytes(), ended)?;
                if prefix > 0 { Some(MarkToken::Text(prefix)) } else { self.next_token(text, ended) }
            }
            LinePosition::Code => {
                let line = text.find('\n');
                if line.is_some() {
                    self.position = LinePosition::LineStart;
                }
                Some(MarkToken::Code(line.map_or(text.len(), |end| end + 1)))
            }
            LinePosition::ContentStart | LinePosition::Content => {
                let mut found = self.scan_content(text, ended)?;
                if let MarkToken::Mark { brackets, before, .. } = found {
                    match self.enclosures.find_end_around(text, before + brackets, ended) {
                        ScanResult::Found(end) => found = MarkToken::Closed(end),
                        ScanResult::Absent => self.enclosures.close_all(),
                        ScanResult::Undecided => return None,
                    }
                }
                self.advance_over(text, &found);
                Some(found)
            }
        }
    }

    /// Moves the state over a token of a line's content.
    fn advance_over(&mut self, text: &str, found: &MarkToken) {
        self.after_mark = matches!(found, MarkToken::Mark { .. });
        match found {
            MarkToken::Text(length) => {
                let token = &text[..*length];
                let last = token.as_bytes()[length - 1];
                self.after_bracket = last == b'[';
                // A run of delimiters has the position of its beginning, even if it arrives in pieces.
                if !matches!(last, b'*' | b'_' | b'~') {
                    self.after_word = last.is_ascii_alphanumeric() || !last.is_ascii();
                }
                let next = text[*length..].chars().next();
                if self.enclosures.pass_token(token, self.word.last_char(), next) {
                    self.word = WordState::after_closed();
                } else {
                    token.chars().for_each(|character| self.word.pass_char(character));
                }
            }
            MarkToken::Closed(length) => {
                self.after_bracket = false;
                self.after_word = false;
                self.enclosures.close_enclosure(&text[..*length]);
                self.word = WordState::after_closed();
            }
            MarkToken::Code(_) => {
                self.enclosures.close_all();
                self.word = WordState::after_closed();
            }
            MarkToken::Mark { .. } => {}
        }
        match text.as_bytes()[0] {
            b'\n' if matches!(found, MarkToken::Text(1)) => self.position = LinePosition::LineStart,
            _ => self.position = LinePosition::Content,
        }
    }

    fn scan_content(&self, text: &str, ended: bool) -> Option<MarkToken> {
        let bytes = text.as_bytes();
        match bytes[0] {
            b'\n' => Some(MarkToken::Text(1)),
            b' ' | b'\t' => {
                let spaces = run_length(bytes, |byte| matches!(byte, b' ' | b'\t')).min(SPACES_MAX);
                match bytes.get(spaces) {
                    None if !ended && spaces < SPACES_MAX => None,
                    Some(b'[') => self.scan_bracket(text, spaces, ended),
                    Some(b'*' | b'_' | b'~') => self.scan_emphasis(text, spaces, ended),
                    _ => Some(MarkToken::Text(spaces)),
                }
            }
            b'[' => self.scan_bracket(text, 0, ended),
            b'*' | b'_' | b'~' if !self.after_word => self.scan_emphasis(text, 0, ended),
            delimiter @ (b'*' | b'_' | b'~') => {
                Some(MarkToken::Text(run_length(bytes, |byte| byte == delimiter)))
            }
            b'\\' => match bytes.get(1) {
                None if !ended => None,
                Some(next) if next.is_ascii_punctuation() => Some(MarkToken::Text(2)),
                _ => Some(MarkToken::Text(1)),
            },
            b'$' => {
                let signs = if bytes.starts_with(b"$$") { 2 } else { 1 };
                // The following text decides whether a formula begins or ends.
                (ended || bytes.len() > signs).then_some(MarkToken::Text(signs))
            }
            b'<' => html_code_tag(text, ended).map(MarkToken::Text),
            b'`' => {
                let opening = run_length(bytes, |byte| byte == b'`');
                match code_span(bytes, opening, ended) {
                    ScanResult::Found(end) => Some(MarkToken::Code(end)),
                    ScanResult::Absent => Some(MarkToken::Text(opening)),
                    ScanResult::Undecided => None,
                }
            }
            b']' => match bytes.get(1) {
                None if !ended => None,
                Some(b'(') => match find_address_end(bytes, ended) {
                    ScanResult::Found(end) => Some(MarkToken::Closed(end)),
                    ScanResult::Absent => Some(MarkToken::Text(1)),
                    ScanResult::Undecided => None,
                },
                _ => Some(MarkToken::Text(1)),
            },
            _ => Some(MarkToken::Text(run_length(bytes, |byte| {
                !matches!(
                    byte,
                    b'\n' | b' ' | b'\t' | b'[' | b'\\' | b'`' | b']' | b'*' | b'_' | b'~' | b'$' | b'<'
                )
            }))),
        }
    }

    /// Scans the delimiters of an emphasis after `before` bytes of white space. Delimiters that emphasize only a mark
    /// are removed with it.
    fn scan_emphasis(&self, text: &str, before: usize, ended: bool) -> Option<MarkToken> {
        let bytes = text.as_bytes();
        let delimiter = bytes[before];
        // The length of a longer run does not matter.
        let most = (before + EMPHASIS_MAX + 1).min(bytes.len());
        let length = run_length(&bytes[before..most], |byte| byte == delimiter);
        let no_mark = Some(MarkToken::Text(before + length.min(EMPHASIS_MAX)));
        if length > EMPHASIS_MAX {
            return no_mark;
        }
        let inside = before + length;
        match bytes.get(inside) {
            None if !ended => return None,
            Some(b'[') => {}
            _ => return no_mark,
        }
        let MarkToken::Mark { brackets, numbers, .. } = self.scan_bracket(&text[inside..], 0, ended)? else {
            return no_mark;
        };
        let rest = &bytes[inside + brackets..];
        let closing = run_length(&rest[..rest.len().min(EMPHASIS_MAX + 1)], |byte| byte == delimiter);
        match rest.get(closing) {
            None if !ended && closing <= length => None,
            _ if closing != length => no_mark,
            next => {
                let at_start = before == 0 && self.position == LinePosition::ContentStart;
                let space = usize::from(at_start && matches!(next, Some(b' ' | b'\t')));
                Some(MarkToken::Mark { before: inside, brackets, after: closing + space, numbers })
            }
        }
    }

    /// Scans a bracket after `before` bytes of white space.
    fn scan_bracket(&self, text: &str, before: usize, ended: bool) -> Option<MarkToken> {
        let no_mark = Some(MarkToken::Text(before + 1));
        let admits = if before > 0 || self.after_mark { Admits::Mark } else { self.word.admitted_bracket() };
        if admits == Admits::Nothing {
            return no_mark;
        }
        let Some((length, numbers)) = scan_numbers(&text[before + 1..], ended)? else { return no_mark };
        let brackets = length + 2;
        let rest = &text[before + brackets..];
        let at_start = before == 0 && self.position == LinePosition::ContentStart;
        match rest.as_bytes().first() {
            None if !ended => return None,
            Some(b'(') => return no_mark,
            Some(b':') if at_start => return no_mark,
            Some(b']') if before == 0 && self.after_bracket => return no_mark,
            _ => {}
        }
        if admits == Admits::MarkAtEndOfWord && !ends_word(rest, ended)? {
            return no_mark;
        }
        let after = usize::from(at_start && rest.starts_with([' ', '\t']));
        Some(MarkToken::Mark { before, brackets, after, numbers })
    }

    /// Scans the beginning of a line and returns the number of bytes before its content.
    fn open_line(&mut self, text: &[u8], ended: bool) -> Option<usize> {
        if let Some(fence) = self.fence {
            let meets = fence.classify_line(text, ended)?;
            if !matches!(meets, FenceRelation::Inside) {
                self.fence = None;
                self.after_blank = false;
            }
            if !matches!(meets, FenceRelation::Outside) {
                self.position = LinePosition::Code;
                return Some(0);
            }
        }
        let indent = run_length(text, |byte| matches!(byte, b' ' | b'\t')).min(SPACES_MAX);
        match text.get(indent) {
            None if !ended && indent < SPACES_MAX => return None,
            Some(b'\n') => {
                self.after_blank = true;
                self.enclosures.close_all();
                return Some(indent + 1);
            }
            _ => {}
        }
        let is_new = ends_paragraph(text, ended)?;
        let deep = leading_columns(&text[..indent]);
        let fresh = self.after_blank || self.in_indented_code || !self.started;
        let within = self.items.iter().rev().find(|item| **item <= deep).copied().unwrap_or(0);
        if fresh && deep >= within + 4 {
            self.started = true;
            self.in_indented_code = true;
            self.position = LinePosition::Code;
            return Some(0);
        }
        let (prefix, mut items) = self.scan_containers(text, indent, ended)?;
        if prefix == text.len() && !ended {
            return None;
        }
        let column = leading_columns(&text[..prefix]);
        let item = items.iter().rev().find(|item| **item <= column).copied().unwrap_or(0);
        let quoted = text[..prefix].contains(&b'>');
        // A line that is indented further continues the paragraph before it.
        let may_open = column < item + 4;
        let fence = if may_open { opens_fence(&text[prefix..], ended)? } else { None };
        self.started = true;
        self.in_indented_code = false;
        self.after_blank = false;
        self.after_bracket = false;
        self.after_word = false;
        self.after_mark = false;
        self.word = WordState::default();
        if is_new && !(quoted && self.enclosures.quoted) || fence.is_some() {
            self.enclosures.close_all();
        }
        self.enclosures.quoted = quoted;
        if fence.is_some() {
            items.retain(|item| *item <= column);
        }
        self.items = items;
        self.fence = fence.map(|(mark, length)| CodeFence { mark, length, item, quoted });
        self.position = if fence.is_some() { LinePosition::Code } else { LinePosition::ContentStart };
        Some(prefix)
    }

    /// Returns the length of the quote and list markers at the beginning of a line, and the list items that
    /// are open after them.
    fn scan_containers(&self, text: &[u8], indent: usize, ended: bool) -> Option<(usize, Vec<usize>)> {
        let mut at = indent;
        let mut items = self.items.clone();
        let mut marked = false;
        for _ in 0..CONTAINERS_MAX {
            let length = match scan_container_marker(&text[at..], ended) {
                ScanResult::Found(length) => length,
                ScanResult::Absent => break,
                ScanResult::Undecided => return None,
            };
            let column = leading_columns(&text[..at]);
            let spaces =
                run_length(&text[at + length..], |byte| matches!(byte, b' ' | b'\t')).min(SPACES_MAX);
            let content = at + length + spaces;
            if text[at] != b'>' {
                marked = true;
                items.retain(|item| *item <= column);
                let width = leading_columns(&text[..content]) - column - length;
                let empty = text.get(content).is_none_or(|byte| *byte == b'\n');
                items.push(column + length + if empty || width > 4 { 1 } else { width });
                items.truncate(CONTAINERS_MAX);
            }
            at = content;
        }
        if !marked && self.after_blank {
            let column = leading_columns(&text[..at]);
            items.retain(|item| *item <= column);
        }
        Some((at, items))
    }
}
