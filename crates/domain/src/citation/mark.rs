//! The citation marks of an answer: `[12]` in its Markdown.
//!
//! A mark is a number from 1 to [`MARK_MAX`] in square brackets that is not code (fenced, indented, or in backticks),
//! not a link's text or address, and not a definition at the beginning of a line. A growing answer is shown without its
//! marks, and shown text must not change: the scanner decides from left to right, and waits where the next bytes could
//! still change the meaning of earlier ones. The wait is bounded, and the bounds are part of the grammar: the result
//! does not depend on the chunks of the text.

mod syntax;
#[cfg(test)]
mod tests;

use std::ops::Range;

use syntax::{
    CONTAINERS_MAX, Fence, Meets, SPACES_MAX, Search, address, code_span, columns, container, opens_fence,
    run,
};

/// The greatest number of a mark. Three digits, so that the year of a reported case, `[2019] UKSC 5`, is not
/// a mark.
pub const MARK_MAX: u32 = 999;
/// The most delimiters of an emphasis that are removed with a mark.
const EMPHASIS_MAX: usize = 3;

/// A piece of Markdown: text, code, or a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text without marks.
    Text(Range<usize>),
    /// A line of code with its line end, or a code span with its backticks.
    Code(Range<usize>),
    /// A mark.
    Mark(Mark),
}

impl Piece {
    /// Returns the range that stays where marks with numbers up to `last` are removed.
    fn kept(self, last: u32) -> Range<usize> {
        match self {
            Self::Text(range) | Self::Code(range) => range,
            Self::Mark(mark) if mark.number > last => mark.whole,
            Self::Mark(mark) => mark.whole.start..mark.whole.start,
        }
    }
}

/// A mark in Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The range that is removed with the mark: with the white space before it, or after it at the beginning of a line, and with the
    /// delimiters that emphasize it alone.
    pub whole: Range<usize>,
    /// The brackets and the number.
    pub brackets: Range<usize>,
    /// The number.
    pub number: u32,
}

/// Splits finished Markdown into pieces, in order and without gaps. Linear in its length.
pub fn pieces(markdown: &str) -> impl Iterator<Item = Piece> + '_ {
    let mut scanner = Scanner::default();
    let mut at = 0;
    std::iter::from_fn(move || scanner.piece(markdown, &mut at, true))
}

/// Splits unfinished Markdown into pieces, as far as they are decided.
pub fn decided_pieces(markdown: &str) -> impl Iterator<Item = Piece> + '_ {
    let mut scanner = Scanner::default();
    let mut at = 0;
    std::iter::from_fn(move || scanner.piece(markdown, &mut at, false))
}

/// Returns true if unfinished Markdown keeps its meaning after `place` when `mark_bytes` of a mark are inserted there:
/// the scanner continues in the same state. False while that is undecided.
pub(super) fn meaning_stays(unmarked: &str, marked: &str, place: usize, mark_bytes: usize) -> bool {
    let Some((end, inside_text, before)) = scan_to(unmarked, place) else { return false };
    inside_text
        && scan_to(marked, end + mark_bytes)
            .is_some_and(|(at, _, after)| at == end + mark_bytes && after == before)
}

/// Scans unfinished Markdown to the first token that ends at `place` or later. Returns its end, whether `place` is
/// its end or it is text, and the state of the scanner after it.
fn scan_to(markdown: &str, place: usize) -> Option<(usize, bool, Scanner)> {
    let mut scanner = Scanner::default();
    let mut at = 0;
    loop {
        let piece = scanner.piece(markdown, &mut at, false)?;
        if at >= place {
            return Some((at, at == place || matches!(piece, Piece::Text(_)), scanner));
        }
    }
}

/// Returns the marks of finished Markdown, in order.
pub fn marks(markdown: &str) -> impl Iterator<Item = Mark> + '_ {
    pieces(markdown).filter_map(|piece| match piece {
        Piece::Mark(mark) => Some(mark),
        Piece::Text(_) | Piece::Code(_) => None,
    })
}

/// Removes the marks from finished Markdown.
#[must_use]
pub fn strip(markdown: &str) -> String {
    strip_up_to(markdown, MARK_MAX)
}

/// Removes the marks with numbers up to `last` from finished Markdown; greater numbers in brackets are text.
#[must_use]
pub fn strip_up_to(markdown: &str, last: u32) -> String {
    let mut out = String::with_capacity(markdown.len());
    for piece in pieces(markdown) {
        out.push_str(&markdown[piece.kept(last)]);
    }
    out
}

/// Changes the numbers of the marks in finished Markdown; removes a mark without a new number.
#[must_use]
pub fn renumber(markdown: &str, number: impl Fn(u32) -> Option<u32>) -> String {
    let mut out = String::with_capacity(markdown.len());
    for piece in pieces(markdown) {
        match piece {
            Piece::Text(range) | Piece::Code(range) => out.push_str(&markdown[range]),
            Piece::Mark(mark) => {
                if let Some(number) = number(mark.number) {
                    out.push_str(&markdown[mark.whole.start..mark.brackets.start]);
                    out.push_str(&format!("[{number}]"));
                    out.push_str(&markdown[mark.brackets.end..mark.whole.end]);
                }
            }
        }
    }
    out
}

/// Removes the marks from Markdown that is still being written. [`Stripper::text`] is always a prefix of its
/// later values, and of [`strip_up_to`] of the complete text if the last number stays. Each byte is scanned a bounded number of times.
#[derive(Debug, Clone, Default)]
pub struct Stripper {
    scanner: Scanner,
    last: u32,
    pending: String,
    out: String,
}

impl Stripper {
    /// Appends text. Marks with numbers up to `last` are removed.
    pub fn push(&mut self, markdown: &str, last: u32) {
        self.last = last;
        self.pending.push_str(markdown);
        self.advance(false);
    }

    /// Returns the text without marks, as far as it is decided.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.out
    }

    /// Returns the complete text without marks.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.advance(true);
        self.out
    }

    fn advance(&mut self, ended: bool) {
        let mut at = 0;
        while let Some(piece) = self.scanner.piece(&self.pending, &mut at, ended) {
            self.out.push_str(&self.pending[piece.kept(self.last)]);
        }
        self.pending.drain(..at);
    }
}

/// The token at the beginning of the remaining text.
enum Found {
    /// Bytes of text without a mark.
    Text(usize),
    /// Bytes of code.
    Code(usize),
    /// The bytes of white space, brackets and white space, and the number.
    Mark { before: usize, brackets: usize, after: usize, number: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Position {
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
    position: Position,
    fence: Option<Fence>,
    /// The columns at which the content of the open list items begins, outermost first.
    items: Vec<usize>,
    after_blank: bool,
    in_indented_code: bool,
    after_bracket: bool,
    /// True after a letter or digit, where no emphasis of a mark begins.
    after_word: bool,
    started: bool,
}

impl Scanner {
    fn piece(&mut self, text: &str, at: &mut usize, ended: bool) -> Option<Piece> {
        let start = *at;
        let found = self.next(text.get(start..)?.as_bytes(), ended)?;
        Some(match found {
            Found::Text(length) => {
                *at = start + length;
                Piece::Text(start..*at)
            }
            Found::Code(length) => {
                *at = start + length;
                Piece::Code(start..*at)
            }
            Found::Mark { before, brackets, after, number } => {
                *at = start + before + brackets + after;
                let brackets = start + before..start + before + brackets;
                Piece::Mark(Mark { whole: start..*at, brackets, number })
            }
        })
    }

    /// Returns the next token; `None` at the end, or when more text is needed.
    fn next(&mut self, text: &[u8], ended: bool) -> Option<Found> {
        if text.is_empty() {
            return None;
        }
        match self.position {
            Position::LineStart => {
                let prefix = self.open_line(text, ended)?;
                if prefix > 0 { Some(Found::Text(prefix)) } else { self.next(text, ended) }
            }
            Position::Code => {
                let line = text.iter().position(|byte| *byte == b'\n');
                if line.is_some() {
                    self.position = Position::LineStart;
                }
                Some(Found::Code(line.map_or(text.len(), |end| end + 1)))
            }
            Position::ContentStart | Position::Content => {
                let found = self.content(text, ended)?;
                if let Found::Text(length) = found {
                    let last = text[length - 1];
                    self.after_bracket = last == b'[';
                    // A run of delimiters has the place of its beginning, in whatever pieces it comes.
                    if !matches!(last, b'*' | b'_' | b'~') {
                        self.after_word = last.is_ascii_alphanumeric() || !last.is_ascii();
                    }
                }
                if self.position == Position::ContentStart {
                    self.position = Position::Content;
                }
                Some(found)
            }
        }
    }

    fn content(&mut self, text: &[u8], ended: bool) -> Option<Found> {
        match text[0] {
            b'\n' => {
                self.position = Position::LineStart;
                Some(Found::Text(1))
            }
            b' ' | b'\t' => {
                let spaces = run(text, |byte| matches!(byte, b' ' | b'\t')).min(SPACES_MAX);
                match text.get(spaces) {
                    None if !ended && spaces < SPACES_MAX => None,
                    Some(b'[') => self.bracket(text, spaces, ended),
                    Some(b'*' | b'_' | b'~') => self.emphasis(text, spaces, ended),
                    _ => Some(Found::Text(spaces)),
                }
            }
            b'[' => self.bracket(text, 0, ended),
            b'*' | b'_' | b'~' if !self.after_word => self.emphasis(text, 0, ended),
            delimiter @ (b'*' | b'_' | b'~') => Some(Found::Text(run(text, |byte| byte == delimiter))),
            b'\\' => match text.get(1) {
                None if !ended => None,
                Some(next) if next.is_ascii_punctuation() => Some(Found::Text(2)),
                _ => Some(Found::Text(1)),
            },
            b'`' => {
                let opening = run(text, |byte| byte == b'`');
                match code_span(text, opening, ended) {
                    Search::Found(end) => Some(Found::Code(end)),
                    Search::Absent => Some(Found::Text(opening)),
                    Search::Undecided => None,
                }
            }
            b']' => match text.get(1) {
                None if !ended => None,
                Some(b'(') => match address(text, ended) {
                    Search::Found(end) => Some(Found::Text(end)),
                    Search::Absent => Some(Found::Text(1)),
                    Search::Undecided => None,
                },
                _ => Some(Found::Text(1)),
            },
            _ => Some(Found::Text(run(text, |byte| {
                !matches!(byte, b'\n' | b' ' | b'\t' | b'[' | b'\\' | b'`' | b']' | b'*' | b'_' | b'~')
            }))),
        }
    }

    /// Scans the delimiters of an emphasis after `before` bytes of white space. What emphasizes a mark alone is removed with it.
    fn emphasis(&self, text: &[u8], before: usize, ended: bool) -> Option<Found> {
        let delimiter = text[before];
        let length = run(&text[before..], |byte| byte == delimiter);
        let no_mark = Some(Found::Text(before + length.min(EMPHASIS_MAX)));
        if length > EMPHASIS_MAX {
            return no_mark;
        }
        let inside = before + length;
        match text.get(inside) {
            None if !ended => return None,
            Some(b'[') => {}
            _ => return no_mark,
        }
        let Found::Mark { brackets, number, .. } = self.bracket(&text[inside..], 0, ended)? else {
            return no_mark;
        };
        let rest = &text[inside + brackets..];
        let closing = run(rest, |byte| byte == delimiter);
        match rest.get(closing) {
            None if !ended && closing <= length => None,
            _ if closing != length => no_mark,
            next => {
                let at_start = before == 0 && self.position == Position::ContentStart;
                let space = usize::from(at_start && matches!(next, Some(b' ' | b'\t')));
                Some(Found::Mark { before: inside, brackets, after: closing + space, number })
            }
        }
    }

    /// Scans a bracket after `before` bytes of white space.
    fn bracket(&self, text: &[u8], before: usize, ended: bool) -> Option<Found> {
        let no_mark = Some(Found::Text(before + 1));
        let rest = &text[before + 1..];
        let digits = run(rest, |byte| byte.is_ascii_digit());
        if digits > 3 || rest.first() == Some(&b'0') {
            return no_mark;
        }
        match rest.get(digits) {
            None if !ended => return None,
            Some(b']') if digits > 0 => {}
            _ => return no_mark,
        }
        let at_start = before == 0 && self.position == Position::ContentStart;
        match rest.get(digits + 1) {
            None if !ended => return None,
            Some(b'(') => return no_mark,
            Some(b':') if at_start => return no_mark,
            Some(b']') if before == 0 && self.after_bracket => return no_mark,
            _ => {}
        }
        let number = rest[..digits].iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
        let after = usize::from(at_start && matches!(rest.get(digits + 1), Some(b' ' | b'\t')));
        Some(Found::Mark { before, brackets: digits + 2, after, number })
    }

    /// Scans the beginning of a line and returns the number of bytes before its content.
    fn open_line(&mut self, text: &[u8], ended: bool) -> Option<usize> {
        if let Some(fence) = self.fence {
            let meets = fence.meets(text, ended)?;
            if !matches!(meets, Meets::Inside) {
                self.fence = None;
                self.after_blank = false;
            }
            if !matches!(meets, Meets::Outside) {
                self.position = Position::Code;
                return Some(0);
            }
        }
        let indent = run(text, |byte| matches!(byte, b' ' | b'\t')).min(SPACES_MAX);
        match text.get(indent) {
            None if !ended && indent < SPACES_MAX => return None,
            Some(b'\n') => {
                self.after_blank = true;
                return Some(indent + 1);
            }
            _ => {}
        }
        let deep = columns(&text[..indent]);
        let fresh = self.after_blank || self.in_indented_code || !self.started;
        let within = self.items.iter().rev().find(|item| **item <= deep).copied().unwrap_or(0);
        if fresh && deep >= within + 4 {
            self.started = true;
            self.in_indented_code = true;
            self.position = Position::Code;
            return Some(0);
        }
        let (prefix, mut items) = self.containers(text, indent, ended)?;
        if prefix == text.len() && !ended {
            return None;
        }
        let column = columns(&text[..prefix]);
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
        if fence.is_some() {
            items.retain(|item| *item <= column);
        }
        self.items = items;
        self.fence = fence.map(|(mark, length)| Fence { mark, length, item, quoted });
        self.position = if fence.is_some() { Position::Code } else { Position::ContentStart };
        Some(prefix)
    }

    /// Returns the length of the quote and list markers at the beginning of a line, and the list items that
    /// are open after them.
    fn containers(&self, text: &[u8], indent: usize, ended: bool) -> Option<(usize, Vec<usize>)> {
        let mut at = indent;
        let mut items = self.items.clone();
        let mut marked = false;
        for _ in 0..CONTAINERS_MAX {
            let length = match container(&text[at..], ended) {
                Search::Found(length) => length,
                Search::Absent => break,
                Search::Undecided => return None,
            };
            let column = columns(&text[..at]);
            let spaces = run(&text[at + length..], |byte| matches!(byte, b' ' | b'\t')).min(SPACES_MAX);
            let content = at + length + spaces;
            if text[at] != b'>' {
                marked = true;
                items.retain(|item| *item <= column);
                let width = columns(&text[..content]) - column - length;
                let empty = text.get(content).is_none_or(|byte| *byte == b'\n');
                items.push(column + length + if empty || width > 4 { 1 } else { width });
                items.truncate(CONTAINERS_MAX);
            }
            at = content;
        }
        if !marked && self.after_blank {
            let column = columns(&text[..at]);
            items.retain(|item| *item <= column);
        }
        Some((at, items))
    }
}
