//! Finds places where a growing text can be split into blocks that are rendered separately.
//!
//! A split is made only where the parser would produce the same blocks from both sides together. The splitter tracks
//! the top-level blocks line by line:
//!
//! ```text
//!            blank line, heading, rule                 any line that is none of these
//! Between ──────────────────────────── Paragraph, Html, List, Quote, Code, Fence
//!    └── an ambiguous line ──> Unsure: no more splits
//! ```

/// The minimum length of a segment; shorter blocks are combined.
const SEGMENT_MIN_BYTES: usize = 256;

/// Splits a growing text into segments of whole blocks.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    splitter: Splitter,
    /// The number of bytes that were examined.
    seen: usize,
    /// The last possible split.
    closed: usize,
}

impl Segments {
    /// Returns the end of the segment that starts at `start`, if the text contains it. Examines each line once.
    pub(crate) fn next(&mut self, text: &str, start: usize) -> Option<usize> {
        while let Some(length) = text[self.seen..].find('\n') {
            let line = self.seen..self.seen + length;
            self.seen = line.end + 1;
            let cut = match self.splitter.line(&text[line.clone()]) {
                Cut::None => continue,
                Cut::Before => line.start,
                Cut::After => self.seen,
            };
            self.closed = cut;
            if cut >= start + SEGMENT_MIN_BYTES {
                return Some(cut);
            }
        }
        None
    }

    /// Returns the start of the open block, after all text was examined.
    pub(crate) fn open(&self) -> usize {
        self.closed
    }

    /// Adjusts positions after so many bytes were removed from the start of the text.
    pub(crate) fn forget(&mut self, bytes: usize) {
        self.seen -= bytes;
        self.closed -= bytes;
    }
}

/// The place of a split, relative to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    None,
    Before,
    After,
}

/// The open top-level block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Between,
    /// A paragraph, or a table when it has pipes.
    Paragraph { piped: bool },
    /// A paragraph that began a formula of several lines.
    Formula(Formula),
    /// A paragraph or HTML block that ends with a blank line.
    Html,
    /// A list: the content column of its last item, whether the last line was blank, and whether a line may belong to
    /// the item or end the list.
    List { offset: usize, blank: bool, lazy: bool },
    /// A block quote, and whether a line may belong to it.
    Quote { lazy: bool },
    /// Indented code.
    Code,
    /// A fence of so many characters.
    Fence { mark: u8, length: usize },
    /// A construct that this splitter does not track.
    Unsure,
}

/// A formula of several lines, which are text whatever they begin with, if it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Formula {
    closing: &'static [u8],
    /// True if a line would be something else outside of a formula.
    is_ambiguous: bool,
    /// True if it has an index or an exponent, and is a formula for that.
    has_sign: bool,
    /// True if it has no code, marks or further signs around formulas.
    is_plain: bool,
    piped: bool,
}

/// The kind of a line with less than four columns of indentation, taken by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Text,
    Rule,
    Heading,
    Fence {
        mark: u8,
        length: usize,
    },
    Quote,
    /// A list item: its content column, whether it has content, and whether it may interrupt a paragraph.
    Item {
        offset: usize,
        empty: bool,
        interrupts: bool,
    },
    /// A line of `=` or of one or two `-`, which may underline a heading.
    Underline,
    /// The possible start of HTML that ends with a blank line.
    Tag,
    /// The possible start of HTML that continues over blank lines.
    RawHtml,
}

/// Tracks blocks line by line.
#[derive(Debug, Default)]
struct Splitter {
    state: State,
}

impl Splitter {
    /// Processes a whole line, without its end, and returns whether to split before or after it.
    fn line(&mut self, line: &str) -> Cut {
        let indent = columns(line);
        let rest = line.trim_start_matches([' ', '\t']).trim_end_matches([' ', '\t']).as_bytes();
        let (state, cut) = match self.state {
            State::Unsure => (State::Unsure, Cut::None),
            State::Fence { mark, length } => {
                let closes = indent < 4 && rest.len() >= length && rest.iter().all(|byte| *byte == mark);
                if closes { (State::Between, Cut::After) } else { (self.state, Cut::None) }
            }
            _ if opens_section(rest) => (State::Unsure, Cut::None),
            _ if rest.is_empty() => after_blank(self.state),
            State::Formula(formula) => formula.line(classify(line, indent.min(3), rest), rest),
            State::Between | State::Paragraph { .. }
                if indent < 4 && Formula::begins(self.state, rest).is_some() =>
            {
                (Formula::begins(self.state, rest).map_or(State::Unsure, State::Formula), Cut::None)
            }
            State::Between => begin(indent, classify(line, indent, rest), rest, Cut::None),
            State::Code if indent >= 4 => (State::Code, Cut::None),
            State::Code => begin(indent, classify(line, indent, rest), rest, Cut::Before),
            State::Paragraph { piped } => paragraph(piped, indent, classify(line, indent, rest), rest),
            State::Html if indent >= 4 || matches!(classify(line, indent, rest), Line::Text | Line::Tag) => {
                (State::Html, Cut::None)
            }
            State::Html => (State::Unsure, Cut::None),
            State::Quote { lazy } => quote(lazy, indent, classify(line, indent, rest), rest),
            State::List { offset, lazy, .. } if indent >= offset => {
                let certain = !lazy || matches!(classify(line, indent.min(3), rest), Line::Text);
                let state = State::List { offset, blank: false, lazy };
                (if certain { state } else { State::Unsure }, Cut::None)
            }
            State::List { offset, blank, lazy } => {
                list(offset, blank, lazy, indent, classify(line, indent, rest), rest)
            }
        };
        self.state = state;
        cut
    }
}

impl Formula {
    /// Returns the formula that begins at the start of this line, and does not end in it.
    fn begins(state: State, rest: &[u8]) -> Option<Self> {
        let (piped, opening, closing): (bool, &[u8], &'static [u8]) = match state {
            State::Between if rest.starts_with(b"$$") => (false, b"$$", b"$$"),
            State::Between => (false, b"\\[", b"\\]"),
            State::Paragraph { piped } => (piped, b"\\[", b"\\]"),
            _ => return None,
        };
        let body = rest.strip_prefix(opening)?;
        let begun = Self { closing, is_ambiguous: false, has_sign: false, is_plain: true, piped };
        (!contains(body, closing)).then(|| begun.after(body))
    }

    /// Processes a further line.
    fn line(self, line: Line, rest: &[u8]) -> (State, Cut) {
        let after = self.after(rest);
        if !contains(rest, self.closing) {
            let is_ambiguous = self.is_ambiguous || line != Line::Text;
            return (State::Formula(Self { is_ambiguous, ..after }), Cut::None);
        }
        let is_certain = self.has_sign && self.is_plain && rest == self.closing;
        let is_paragraph = line == Line::Text && (!self.is_ambiguous || is_certain);
        (if is_paragraph { State::Paragraph { piped: after.piped } } else { State::Unsure }, Cut::None)
    }

    fn after(self, body: &[u8]) -> Self {
        let is_plain = !body.iter().any(|byte| b"`[$<".contains(byte))
            && [b"\\(", b"\\_", b"\\^"].iter().all(|sign| !contains(body, *sign));
        Self {
            piped: self.piped || is_piped(body),
            has_sign: self.has_sign || body.iter().any(|byte| b"^_".contains(byte)),
            is_plain: self.is_plain && is_plain,
            ..self
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|here| here == part)
}

/// Returns true if a line may open an element that holds the blocks that follow.
fn opens_section(rest: &[u8]) -> bool {
    rest.windows(8).any(|name| name.eq_ignore_ascii_case(b"<details"))
}

fn after_blank(state: State) -> (State, Cut) {
    match state {
        State::Between => (State::Between, Cut::None),
        State::Paragraph { .. } | State::Html | State::Quote { .. } => (State::Between, Cut::After),
        State::Formula(Formula { is_ambiguous: false, .. }) => (State::Between, Cut::After),
        State::Formula(_) => (State::Unsure, Cut::None),
        State::List { offset, lazy, .. } => (State::List { offset, blank: true, lazy }, Cut::None),
        State::Code | State::Fence { .. } | State::Unsure => (state, Cut::None),
    }
}

/// Processes a line where nothing is open, or that ends the open block: `before` is the split before it.
fn begin(indent: usize, line: Line, rest: &[u8], before: Cut) -> (State, Cut) {
    if indent >= 4 {
        return (State::Code, before);
    }
    match line {
        Line::Rule | Line::Heading => (State::Between, Cut::After),
        Line::Fence { mark, length } => (State::Fence { mark, length }, before),
        Line::Quote => (State::Quote { lazy: false }, before),
        Line::Item { offset, empty: false, .. } => {
            (State::List { offset, blank: false, lazy: false }, before)
        }
        // The content of an empty item may follow, or something else.
        Line::Item { empty: true, .. } | Line::RawHtml => (State::Unsure, before),
        Line::Underline if rest == b"-" => (State::Unsure, before),
        Line::Tag => (State::Html, before),
        Line::Text | Line::Underline => (State::Paragraph { piped: is_piped(rest) }, before),
    }
}

fn paragraph(piped: bool, indent: usize, line: Line, rest: &[u8]) -> (State, Cut) {
    let goes_on = (State::Paragraph { piped: piped || is_piped(rest) }, Cut::None);
    if indent >= 4 {
        // It continues a paragraph, but ends a table and is code.
        return if piped { (State::Unsure, Cut::None) } else { goes_on };
    }
    match line {
        // Tables and paragraphs are interrupted by different lines.
        Line::Underline | Line::Rule if piped && rest[0] != b'*' && rest[0] != b'_' => {
            (State::Unsure, Cut::None)
        }
        Line::Item { empty: true, .. } | Line::Item { interrupts: false, .. } if piped => {
            (State::Unsure, Cut::None)
        }
        Line::Underline => (State::Between, Cut::After),
        Line::Text => goes_on,
        Line::Item { empty: true, .. } | Line::Item { interrupts: false, .. } => goes_on,
        Line::Tag => (State::Html, Cut::None),
        Line::Rule | Line::Heading | Line::Fence { .. } | Line::Quote | Line::RawHtml | Line::Item { .. } => {
            begin(indent, line, rest, Cut::Before)
        }
    }
}

fn quote(lazy: bool, indent: usize, line: Line, rest: &[u8]) -> (State, Cut) {
    match line {
        _ if indent >= 4 => (State::Unsure, Cut::None),
        Line::Quote => (State::Quote { lazy: false }, Cut::None),
        Line::Underline if rest == b"-" => (State::Unsure, Cut::None),
        Line::Text | Line::Underline => (State::Quote { lazy: true }, Cut::None),
        Line::Tag | Line::RawHtml => (State::Unsure, Cut::None),
        Line::Item { interrupts: false, .. } if lazy => (State::Unsure, Cut::None),
        Line::Rule | Line::Heading | Line::Fence { .. } | Line::Item { .. } => {
            begin(indent, line, rest, if lazy { Cut::None } else { Cut::Before })
        }
    }
}

/// Processes a line to the left of the content of the list's last item.
fn list(offset: usize, blank: bool, lazy: bool, indent: usize, line: Line, rest: &[u8]) -> (State, Cut) {
    if indent >= 4 {
        let state = if blank { State::Unsure } else { State::List { offset, blank: false, lazy: true } };
        return (state, Cut::None);
    }
    match line {
        Line::Item { offset, empty: false, .. } => {
            (State::List { offset, blank: false, lazy: false }, Cut::None)
        }
        Line::Item { empty: true, .. } | Line::RawHtml => (State::Unsure, Cut::None),
        Line::Underline if rest == b"-" => (State::Unsure, Cut::None),
        Line::Text | Line::Tag | Line::Underline if !blank => {
            let certain = line == Line::Text || (line == Line::Underline && !lazy);
            (
                if certain { State::List { offset, blank: false, lazy: true } } else { State::Unsure },
                Cut::None,
            )
        }
        Line::Text
        | Line::Tag
        | Line::Underline
        | Line::Rule
        | Line::Heading
        | Line::Fence { .. }
        | Line::Quote => begin(indent, line, rest, Cut::Before),
    }
}

/// Returns the columns of a line's indentation.
fn columns(line: &str) -> usize {
    let mut columns = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += 4 - columns % 4,
            _ => break,
        }
    }
    columns
}

/// Returns true if a line may belong to a table.
fn is_piped(rest: &[u8]) -> bool {
    rest.contains(&b'|') || rest.iter().all(|byte| matches!(byte, b':' | b'-' | b' ' | b'\t'))
}

fn classify(line: &str, indent: usize, rest: &[u8]) -> Line {
    let first = rest.first().copied().unwrap_or(b' ');
    match first {
        b'#' => {
            let level = rest.iter().take_while(|byte| **byte == b'#').count();
            let ends = rest.get(level).is_none_or(|byte| matches!(byte, b' ' | b'\t'));
            if level <= 6 && ends { Line::Heading } else { Line::Text }
        }
        b'`' | b'~' => {
            let length = rest.iter().take_while(|byte| **byte == first).count();
            let info = &rest[length..];
            if length >= 3 && (first == b'~' || !info.contains(&b'`')) {
                Line::Fence { mark: first, length }
            } else {
                Line::Text
            }
        }
        b'>' => Line::Quote,
        b'<' => match rest.get(1) {
            Some(b'!' | b'?') => Line::RawHtml,
            Some(byte) if byte.is_ascii_alphabetic() || *byte == b'/' => {
                let name: Vec<u8> = rest[1..].iter().take(8).map(u8::to_ascii_lowercase).collect();
                let raw =
                    ["script", "pre", "style", "textarea"].iter().any(|raw| name.starts_with(raw.as_bytes()));
                if raw { Line::RawHtml } else { Line::Tag }
            }
            _ => Line::Text,
        },
        b'-' | b'*' | b'_' | b'=' | b'+' => {
            let only = rest.iter().all(|byte| *byte == first);
            let count = rest.iter().filter(|byte| **byte == first).count();
            let spaced = rest.iter().all(|byte| *byte == first || matches!(byte, b' ' | b'\t'));
            if spaced && count >= 3 && matches!(first, b'-' | b'*' | b'_') {
                Line::Rule
            } else if only && matches!(first, b'-' | b'=') {
                Line::Underline
            } else if matches!(first, b'-' | b'*' | b'+') {
                item(line, indent, 1, true)
            } else {
                Line::Text
            }
        }
        b'0'..=b'9' => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits <= 9 && matches!(rest.get(digits), Some(b'.' | b')')) {
                item(line, indent, digits + 1, &rest[..digits] == b"1")
            } else {
                Line::Text
            }
        }
        _ => Line::Text,
    }
}

/// Returns the list item whose marker has the length `width`.
fn item(line: &str, indent: usize, width: usize, interrupts: bool) -> Line {
    let content = line.trim_start_matches([' ', '\t']).get(width..).unwrap_or("");
    if !content.is_empty() && !content.starts_with([' ', '\t']) {
        return Line::Text;
    }
    let marker_end = indent + width;
    let mut column = marker_end;
    for byte in content.bytes() {
        match byte {
            b' ' => column += 1,
            b'\t' => column += 4 - column % 4,
            _ => break,
        }
    }
    let empty = content.trim_matches([' ', '\t']).is_empty();
    let spaces = column - marker_end;
    let offset = if empty || spaces > 4 { marker_end + 1 } else { marker_end + spaces };
    Line::Item { offset, empty, interrupts }
}
