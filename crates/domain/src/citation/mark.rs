//! The marks by which an answer cites: `[12]` in its Markdown.
//!
//! A mark is a number from 1 to [`MARK_MAX`] in square brackets that is neither code (fenced, indented, or
//! between backticks), nor a link's text or address, nor a definition at the beginning of a line. The text
//! of an answer is shown without its marks while it is still being written, so what was shown once must
//! stay: the scanner decides from left to right and waits where the next bytes could still change the
//! meaning of the ones before. How long it waits is bounded, and the bounds belong to the grammar: they
//! decide the same however the text was cut into pieces.

use std::ops::Range;

/// The greatest number of a mark. Three digits, so that the year of a reported case, `[2019] UKSC 5`, is none.
pub const MARK_MAX: u32 = 999;

/// The longest code between backticks; what closes later closes nothing.
const CODE_SPAN_MAX_BYTES: usize = 4096;
/// The longest address of a link that is skipped as such.
const ADDRESS_MAX_BYTES: usize = 2048;
/// The longest run of white space that goes together with the mark after it.
const SPACES_MAX: usize = 256;
/// How far the line that opens a fence is searched for backticks, which would make it no fence.
const FENCE_INFO_MAX_BYTES: usize = 256;
/// How many quotes and list items may open on one line.
const CONTAINERS_MAX: usize = 16;

/// A piece of Markdown: text, code, or a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text without marks.
    Text(Range<usize>),
    /// A line of code with its end, or code between backticks with them.
    Code(Range<usize>),
    /// A mark.
    Mark(Mark),
}

/// A mark in Markdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What goes when the mark goes: with the white space before it, or at the beginning of a line after it.
    pub whole: Range<usize>,
    /// The brackets and the number.
    pub brackets: Range<usize>,
    /// The number.
    pub number: u32,
}

/// The pieces of finished Markdown, in order and without gaps. Linear in its length.
pub fn pieces(markdown: &str) -> impl Iterator<Item = Piece> + '_ {
    let mut scanner = Scanner::default();
    let mut at = 0;
    std::iter::from_fn(move || scanner.piece(markdown, &mut at, true))
}

/// The pieces of Markdown that is still being written, as far as they are decided.
pub fn decided_pieces(markdown: &str) -> impl Iterator<Item = Piece> + '_ {
    let mut scanner = Scanner::default();
    let mut at = 0;
    std::iter::from_fn(move || scanner.piece(markdown, &mut at, false))
}

/// The marks of finished Markdown, in order.
pub fn marks(markdown: &str) -> impl Iterator<Item = Mark> + '_ {
    pieces(markdown).filter_map(|piece| match piece {
        Piece::Mark(mark) => Some(mark),
        Piece::Text(_) | Piece::Code(_) => None,
    })
}

/// Finished Markdown without its marks.
#[must_use]
pub fn strip(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    for piece in pieces(markdown) {
        if let Piece::Text(range) | Piece::Code(range) = piece {
            out.push_str(&markdown[range]);
        }
    }
    out
}

/// Takes the marks out of Markdown that is still being written. What [`Stripper::text`] shows is always a
/// prefix of what it shows later and of what [`strip`] makes of the whole. Each byte is looked at a bounded
/// number of times.
#[derive(Debug, Clone, Default)]
pub struct Stripper {
    scanner: Scanner,
    pending: String,
    out: String,
}

impl Stripper {
    /// Takes more text.
    pub fn push(&mut self, markdown: &str) {
        self.pending.push_str(markdown);
        self.advance(false);
    }

    /// The text without marks, as far as it is decided.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.out
    }

    /// The whole text without marks, now that no more comes.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.advance(true);
        self.out
    }

    fn advance(&mut self, ended: bool) {
        let mut at = 0;
        while let Some(piece) = self.scanner.piece(&self.pending, &mut at, ended) {
            if let Piece::Text(range) | Piece::Code(range) = piece {
                self.out.push_str(&self.pending[range]);
            }
        }
        self.pending.drain(..at);
    }
}

/// What stands at the beginning of the rest of the text.
enum Found {
    /// So many bytes without a mark.
    Text(usize),
    /// So many bytes of code.
    Code(usize),
    /// White space, brackets, white space: so many bytes each; and the number.
    Mark { before: usize, brackets: usize, after: usize, number: u32 },
}

/// Whether something was found, now that the text may end before it is certain.
enum Search {
    Found(usize),
    Absent,
    Undecided,
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

/// A fence that is open.
#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: u8,
    length: usize,
    /// The column at which the content of its list item begins: what stands further left ends both.
    item: usize,
    /// Whether it stands in a quote.
    quoted: bool,
}

/// What a line is to the fence that is open.
enum Meets {
    Inside,
    Closing,
    /// It ends what the fence stands in.
    Outside,
}

#[derive(Debug, Clone, Default)]
struct Scanner {
    position: Position,
    fence: Option<Fence>,
    /// The columns at which the content of the open list items begins, outermost first.
    items: Vec<usize>,
    after_blank: bool,
    in_indented_code: bool,
    after_bracket: bool,
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

    /// What comes next; `None` when the text is used up, or when more of it must be seen first.
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
                    self.after_bracket = text.get(length - 1) == Some(&b'[');
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
                    _ => Some(Found::Text(spaces)),
                }
            }
            b'[' => self.bracket(text, 0, ended),
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
                !matches!(byte, b'\n' | b' ' | b'\t' | b'[' | b'\\' | b'`' | b']')
            }))),
        }
    }

    /// A bracket after `before` bytes of white space.
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

    /// Looks at the beginning of a line and tells how many bytes stand before its content.
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
        // Further in, such a line goes on with the paragraph before it.
        let may_open = column < item + 4;
        let fence = if may_open { opens_fence(&text[prefix..], ended)? } else { None };
        self.started = true;
        self.in_indented_code = false;
        self.after_blank = false;
        self.after_bracket = false;
        if fence.is_some() {
            items.retain(|item| *item <= column);
        }
        self.items = items;
        self.fence = fence.map(|(mark, length)| Fence { mark, length, item, quoted });
        self.position = if fence.is_some() { Position::Code } else { Position::ContentStart };
        Some(prefix)
    }

    /// The length of the markers of quotes and list items at the beginning of a line, and the items that are
    /// open after them.
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

impl Fence {
    /// What this line is to the fence; `None` when undecided.
    fn meets(self, text: &[u8], ended: bool) -> Option<Meets> {
        let lead =
            run(text, |byte| matches!(byte, b' ' | b'\t') || (self.quoted && byte == b'>')).min(SPACES_MAX);
        let unquoted = self.quoted && !text[..lead].contains(&b'>');
        match text.get(lead) {
            None if !ended && lead < SPACES_MAX => return None,
            _ if unquoted => return Some(Meets::Outside),
            None | Some(b'\n') => return Some(Meets::Inside),
            Some(_) if columns(&text[..lead]) < self.item => return Some(Meets::Outside),
            Some(_) => {}
        }
        let closing = run(&text[lead..], |byte| byte == self.mark);
        let after = &text[lead + closing..];
        let spaces = run(after, |byte| matches!(byte, b' ' | b'\t'));
        if closing == 0 || spaces > SPACES_MAX {
            return Some(Meets::Inside);
        }
        let ends_line = match after.get(spaces) {
            None if !ended => return None,
            None | Some(b'\n') => true,
            Some(_) => false,
        };
        Some(if ends_line && closing >= self.length { Meets::Closing } else { Meets::Inside })
    }
}

/// The columns of the bytes at the beginning of a line.
fn columns(text: &[u8]) -> usize {
    text.iter().fold(0, |columns, byte| if *byte == b'\t' { columns / 4 * 4 + 4 } else { columns + 1 })
}

fn run(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|byte| !belongs(*byte)).unwrap_or(text.len())
}

/// A quote's or a list item's marker at the beginning: its length without the space after it.
fn container(text: &[u8], ended: bool) -> Search {
    let length = match text.first() {
        Some(b'>') => return Search::Found(1),
        Some(b'-' | b'+' | b'*') => 1,
        Some(byte) if byte.is_ascii_digit() => {
            let digits = run(text, |byte| byte.is_ascii_digit());
            match text.get(digits) {
                None if !ended && digits < 10 => return Search::Undecided,
                Some(b'.' | b')') if digits < 10 => digits + 1,
                _ => return Search::Absent,
            }
        }
        _ => return Search::Absent,
    };
    match text.get(length) {
        None if !ended => Search::Undecided,
        None | Some(b' ' | b'\t' | b'\n') => Search::Found(length),
        Some(_) => Search::Absent,
    }
}

/// The fence that opens here; outer `None` when undecided.
#[expect(clippy::option_option, reason = "undecided, no fence, and the fence are three answers")]
fn opens_fence(text: &[u8], ended: bool) -> Option<Option<(u8, usize)>> {
    let Some(mark @ (b'`' | b'~')) = text.first().copied() else { return Some(None) };
    let length = run(text, |byte| byte == mark);
    if length == text.len() && !ended {
        return None;
    }
    if length < 3 {
        return Some(None);
    }
    if mark == b'`' {
        for byte in text[length..].iter().take(FENCE_INFO_MAX_BYTES) {
            match byte {
                b'`' => return Some(None),
                b'\n' => return Some(Some((mark, length))),
                _ => {}
            }
        }
        if text.len() - length < FENCE_INFO_MAX_BYTES && !ended {
            return None;
        }
    }
    Some(Some((mark, length)))
}

/// The end of the code that the run of `opening` backticks at the beginning opens.
fn code_span(text: &[u8], opening: usize, ended: bool) -> Search {
    let unknown = if ended { Search::Absent } else { Search::Undecided };
    let mut at = opening;
    if at == text.len() && at <= CODE_SPAN_MAX_BYTES {
        return unknown;
    }
    loop {
        at += run(&text[at..], |byte| !matches!(byte, b'`' | b'\n'));
        if at >= CODE_SPAN_MAX_BYTES {
            return Search::Absent;
        }
        match text.get(at) {
            None => return unknown,
            Some(b'`') => {
                let closing = run(&text[at..], |byte| byte == b'`');
                at += closing;
                if at >= CODE_SPAN_MAX_BYTES {
                    return Search::Absent;
                }
                if at == text.len() && !ended {
                    return Search::Undecided;
                }
                if closing == opening {
                    return Search::Found(at);
                }
            }
            Some(_) => match ends_paragraph(&text[at + 1..], ended) {
                Some(false) => at += 1,
                Some(true) => return Search::Absent,
                None => return Search::Undecided,
            },
        }
    }
}

/// Whether the paragraph before this line ends with it.
fn ends_paragraph(line: &[u8], ended: bool) -> Option<bool> {
    let indent = run(line, |byte| matches!(byte, b' ' | b'\t'));
    if indent > SPACES_MAX {
        return Some(false);
    }
    match line.get(indent) {
        None => ended.then_some(true),
        Some(b'\n' | b'#' | b'|') => Some(true),
        Some(mark @ (b'`' | b'~')) => {
            let length = run(&line[indent..], |byte| byte == *mark);
            if length >= 3 {
                Some(true)
            } else if indent + length == line.len() && !ended {
                None
            } else {
                Some(false)
            }
        }
        Some(_) => match container(&line[indent..], ended) {
            Search::Found(_) => Some(true),
            Search::Absent => Some(false),
            Search::Undecided => None,
        },
    }
}

/// The end of the address in parentheses after the `]` at the beginning.
fn address(text: &[u8], ended: bool) -> Search {
    let mut depth = 0_usize;
    for (at, byte) in text.iter().enumerate().skip(1).take(ADDRESS_MAX_BYTES) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Search::Found(at + 1),
            b')' => depth -= 1,
            b'\n' => return Search::Absent,
            _ => {}
        }
    }
    if ended || text.len() > ADDRESS_MAX_BYTES { Search::Absent } else { Search::Undecided }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_go_with_the_space_before_them() {
        for (markdown, text) in [
            ("The term is two years [1].", "The term is two years."),
            ("two years[1][2] and [3] more", "two years and more"),
            ("[1] The lease", "The lease"),
            ("- [1] item [2]\n- other", "- item\n- other"),
            ("a [1]  \nb", "a  \nb"),
            ("as agreed [1]: two years", "as agreed: two years"),
            ("[1]", ""),
            ("příliš [12] žluťoučký", "příliš žluťoučký"),
        ] {
            assert_eq!(strip(markdown), text, "{markdown:?}");
        }
    }

    #[test]
    fn what_looks_like_a_mark_and_is_none_stays() {
        for markdown in [
            "see [1](https://example.org)",
            "[1]: https://example.org",
            "[[1]](https://example.org/)",
            "`a[1]` and ``b ` [2]``",
            "```\nx[1] = y [2]\n```\n",
            "~~~\n[1]\n```\n[2]\n~~~\n",
            "> ```\n> a [1]\n> ```\n",
            "- code:\n  ```py\n  a[1]\n  ```\n",
            "text\n\n    a[1] = 2\n\n    b[2]\n",
            "[2019] UKSC 5, [0], [01], [], [ 1 ], [1, 2], [1-3], [x]",
            "\\[1] and \\[2\\]",
            "[a](https://example.org/x[1]y(2)z)",
            "`a\nb [1] c`",
            "- a\n\n      a[1]\n",
            "> - ```\n>   a[1]\n>\n>   b[2]\n>   ```\n",
        ] {
            assert_eq!(strip(markdown), markdown, "{markdown:?}");
        }
    }

    #[test]
    fn code_ends_with_its_paragraph_and_fence() {
        assert_eq!(strip("a ` b [1]\n\nc ` d [2]"), "a ` b\n\nc ` d");
        assert_eq!(strip("- a ` b [1]\n- c ` d"), "- a ` b\n- c ` d");
        assert_eq!(strip("```\n[1]\n```\nafter [2]."), "```\n[1]\n```\nafter.");
        assert_eq!(strip("- ```\n  x[1]\nafter [2]."), "- ```\n  x[1]\nafter.");
        assert_eq!(strip("> ```\n> x[1]\nafter [2]."), "> ```\n> x[1]\nafter.");
        assert_eq!(strip("a\n    ``` b [1]"), "a\n    ``` b");
        assert_eq!(strip("1. a\n\n   more [1]\n"), "1. a\n\n   more\n");
    }

    #[test]
    fn a_half_mark_is_never_shown() {
        let mut stripper = Stripper::default();
        let mut shown = Vec::new();
        for piece in ["It is", " ", "[", "1", "]", ".", " Then `", "x[1]", "` ends ["] {
            stripper.push(piece);
            shown.push(stripper.text().to_owned());
        }
        assert_eq!(
            shown,
            [
                "It is",
                "It is",
                "It is",
                "It is",
                "It is",
                "It is.",
                "It is. Then ",
                "It is. Then ",
                "It is. Then `x[1]` ends"
            ]
        );
        assert_eq!(stripper.finish(), "It is. Then `x[1]` ends [");
    }

    #[test]
    fn waiting_is_bounded() {
        for opening in ["`", "](", "   ", "```"] {
            let mut stripper = Stripper::default();
            stripper.push("a ");
            stripper.push(opening);
            for _ in 0..10_000 {
                stripper.push("ab [x] ");
            }
            assert!(stripper.text().len() > 60_000, "{opening:?}");
        }
    }

    /// Text in which everything that matters to the scanner is frequent.
    fn markdown() -> impl Strategy<Value = String> {
        let bits = prop::sample::select(vec![
            "[1]", "[12]", "[", "]", "1", "(", ")", ":", "`", "``", "```", "~~~", "\n", "\n\n", " ", "    ",
            "\t", "- ", "1. ", "> ", "# ", "|", "\\", "a", "word ", "ř", "](x)", "[a]", "*", "+ ",
        ]);
        prop::collection::vec(bits, 0..40).prop_map(|bits| bits.concat())
    }

    proptest! {
        #[test]
        fn a_growing_text_only_grows(text in markdown(), cuts in prop::collection::vec(1_usize..6, 1..20)) {
            let whole = strip(&text);
            let mut stripper = Stripper::default();
            let mut characters = text.chars().peekable();
            let mut cuts = cuts.into_iter().cycle();
            while characters.peek().is_some() {
                let piece: String = characters.by_ref().take(cuts.next().unwrap_or(1)).collect();
                let before = stripper.text().to_owned();
                stripper.push(&piece);
                prop_assert!(stripper.text().starts_with(&before));
                prop_assert!(whole.starts_with(stripper.text()), "{:?} then {:?}", stripper.text(), whole);
            }
            prop_assert_eq!(stripper.finish(), whole);
        }

        #[test]
        fn pieces_cover_the_text(text in markdown()) {
            let mut at = 0;
            for piece in pieces(&text) {
                let range = match piece {
                    Piece::Text(range) | Piece::Code(range) => range,
                    Piece::Mark(mark) => {
                        prop_assert_eq!(&text[mark.brackets.clone()], format!("[{}]", mark.number));
                        mark.whole
                    }
                };
                prop_assert!(range.start == at && range.end > at);
                at = range.end;
            }
            prop_assert_eq!(at, text.len());
        }
    }
}
