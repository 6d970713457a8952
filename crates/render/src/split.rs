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
    pub(crate) fn next_end(&mut self, text: &str, start: usize) -> Option<usize> {
        while let Some(length) = text[self.seen..].find('\n') {
            let line = self.seen..self.seen + length;
            self.seen = line.end + 1;
            let cut = match self.splitter.feed_line(&text[line.clone()]) {
                SplitPlace::None => continue,
                SplitPlace::Before => line.start,
                SplitPlace::After => self.seen,
            };
            self.closed = cut;
            if cut >= start + SEGMENT_MIN_BYTES {
                return Some(cut);
            }
        }
        None
    }

    /// Returns the start of the open block, after all text was examined.
    pub(crate) fn open_start(&self) -> usize {
        self.closed
    }

    /// Adjusts positions after this number of bytes was removed from the start of the text.
    pub(crate) fn forget_prefix(&mut self, bytes: usize) {
        self.seen -= bytes;
        self.closed -= bytes;
    }
}

/// The place of a split, relative to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SplitPlace {
    None,
    Before,
    After,
}

/// The open top-level block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum BlockState {
    #[default]
    Between,
    /// A paragraph, or a table when it has pipes.
    Paragraph {
        piped: bool,
    },
    /// A paragraph that began a formula of several lines.
    Formula(OpenFormula),
    /// A paragraph or HTML block that ends with a blank line.
    Html,
    /// A list: the content column of its last item, whether the last line was blank, and whether a line may belong to
    /// the item or end the list.
    List {
        offset: usize,
        blank: bool,
        lazy: bool,
    },
    /// A block quote, and whether a line may belong to it.
    Quote {
        lazy: bool,
    },
    Code,
    /// A fence with this number of characters.
    Fence {
        mark: u8,
        length: usize,
    },
    /// A construct that this splitter does not track.
    Unsure,
}

/// A formula of several lines, which are text regardless of their beginnings, if it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenFormula {
    closing: &'static [u8],
    /// True if a line would be something else outside of a formula.
    is_ambiguous: bool,
    /// True if it has an index or an exponent, which makes it a formula.
    has_sign: bool,
    /// True if it has no code, marks or further signs around formulas.
    is_plain: bool,
    piped: bool,
}

/// The kind of a line with less than four columns of indentation, taken by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
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
    state: BlockState,
}

impl Splitter {
    /// Processes a whole line, without its end, and returns whether to split before or after it.
    fn feed_line(&mut self, line: &str) -> SplitPlace {
        let indent = indent_columns(line);
        let rest = line.trim_start_matches([' ', '\t']).trim_end_matches([' ', '\t']).as_bytes();
        let (state, cut) = match self.state {
            BlockState::Unsure => (BlockState::Unsure, SplitPlace::None),
            BlockState::Fence { mark, length } => {
                let closes = indent < 4 && rest.len() >= length && rest.iter().all(|byte| *byte == mark);
                if closes { (BlockState::Between, SplitPlace::After) } else { (self.state, SplitPlace::None) }
            }
            _ if opens_section(rest) => (BlockState::Unsure, SplitPlace::None),
            _ if rest.is_empty() => after_blank(self.state),
            BlockState::Formula(formula) => {
                formula.continue_line(classify_line(line, indent.min(3), rest), rest)
            }
            BlockState::Between | BlockState::Paragraph { .. }
                if indent < 4 && OpenFormula::from_opening_line(self.state, rest).is_some() =>
            {
                (
                    OpenFormula::from_opening_line(self.state, rest)
                        .map_or(BlockState::Unsure, BlockState::Formula),
                    SplitPlace::None,
                )
            }
            BlockState::Between => {
                begin_block(indent, classify_line(line, indent, rest), rest, SplitPlace::None)
            }
            BlockState::Code if indent >= 4 => (BlockState::Code, SplitPlace::None),
            BlockState::Code => {
                begin_block(indent, classify_line(line, indent, rest), rest, SplitPlace::Before)
            }
            BlockState::Paragraph { piped } => {
                continue_paragraph(piped, indent, classify_line(line, indent, rest), rest)
            }
            BlockState::Html
                if indent >= 4
                    || matches!(classify_line(line, indent, rest), LineKind::Text | LineKind::Tag) =>
            {
                (BlockState::Html, SplitPlace::None)
            }
            BlockState::Html => (BlockState::Unsure, SplitPlace::None),
            BlockState::Quote { lazy } => {
                continue_quote(lazy, indent, classify_line(line, indent, rest), rest)
            }
            BlockState::List { offset, lazy, .. } if indent >= offset => {
                let certain = !lazy || matches!(classify_line(line, indent.min(3), rest), LineKind::Text);
                let state = BlockState::List { offset, blank: false, lazy };
                (if certain { state } else { BlockState::Unsure }, SplitPlace::None)
            }
            BlockState::List { offset, blank, lazy } => {
                continue_list(offset, blank, lazy, indent, classify_line(line, indent, rest), rest)
            }
        };
        self.state = state;
        cut
    }
}

impl OpenFormula {
    /// Returns the formula that begins at the start of this line, and does not end in it.
    fn from_opening_line(state: BlockState, rest: &[u8]) -> Option<Self> {
        let (piped, opening, closing): (bool, &[u8], &'static [u8]) = match state {
            BlockState::Between if rest.starts_with(b"$$") => (false, b"$$", b"$$"),
            BlockState::Between => (false, b"\\[", b"\\]"),
            BlockState::Paragraph { piped } => (piped, b"\\[", b"\\]"),
            _ => return None,
        };
        let body = rest.strip_prefix(opening)?;
        let begun = Self { closing, is_ambiguous: false, has_sign: false, is_plain: true, piped };
        (!contains_bytes(body, closing)).then(|| begun.with_line(body))
    }

    /// Processes a further line.
    fn continue_line(self, line: LineKind, rest: &[u8]) -> (BlockState, SplitPlace) {
        let after = self.with_line(rest);
        if !contains_bytes(rest, self.closing) {
            let is_ambiguous = self.is_ambiguous || line != LineKind::Text;
            return (BlockState::Formula(Self { is_ambiguous, ..after }), SplitPlace::None);
        }
        let is_certain = self.has_sign && self.is_plain && rest == self.closing;
        let is_paragraph = line == LineKind::Text && (!self.is_ambiguous || is_certain);
        (
            if is_paragraph { BlockState::Paragraph { piped: after.piped } } else { BlockState::Unsure },
            SplitPlace::None,
        )
    }

    fn with_line(self, body: &[u8]) -> Self {
        let is_plain = !body.iter().any(|byte| b"`[$<".contains(byte))
            && [b"\\(", b"\\_", b"\\^"].iter().all(|sign| !contains_bytes(body, *sign));
        Self {
            piped: self.piped || is_piped(body),
            has_sign: self.has_sign || body.iter().any(|byte| b"^_".contains(byte)),
            is_plain: self.is_plain && is_plain,
            ..self
        }
    }
}

fn contains_bytes(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|here| here == part)
}

/// Returns true if a line may open an element that holds the blocks that follow.
fn opens_section(rest: &[u8]) -> bool {
    rest.windows(8).any(|name| name.eq_ignore_ascii_case(b"<details"))
}

fn after_blank(state: BlockState) -> (BlockState, SplitPlace) {
    match state {
        BlockState::Between => (BlockState::Between, SplitPlace::None),
        BlockState::Paragraph { .. } | BlockState::Html | BlockState::Quote { .. } => {
            (BlockState::Between, SplitPlace::After)
        }
        BlockState::Formula(OpenFormula { is_ambiguous: false, .. }) => {
            (BlockState::Between, SplitPlace::After)
        }
        BlockState::Formula(_) => (BlockState::Unsure, SplitPlace::None),
        BlockState::List { offset, lazy, .. } => {
            (BlockState::List { offset, blank: true, lazy }, SplitPlace::None)
        }
        BlockState::Code | BlockState::Fence { .. } | BlockState::Unsure => (state, SplitPlace::None),
    }
}

/// Processes a line where nothing is open, or that ends the open block: `before` is the split before it.
fn begin_block(indent: usize, line: LineKind, rest: &[u8], before: SplitPlace) -> (BlockState, SplitPlace) {
    if indent >= 4 {
        return (BlockState::Code, before);
    }
    match line {
        LineKind::Rule | LineKind::Heading => (BlockState::Between, SplitPlace::After),
        LineKind::Fence { mark, length } => (BlockState::Fence { mark, length }, before),
        LineKind::Quote => (BlockState::Quote { lazy: false }, before),
        LineKind::Item { offset, empty: false, .. } => {
            (BlockState::List { offset, blank: false, lazy: false }, before)
        }
        // The content of an empty item may follow, or something else.
        LineKind::Item { empty: true, .. } | LineKind::RawHtml => (BlockState::Unsure, before),
        LineKind::Underline if rest == b"-" => (BlockState::Unsure, before),
        LineKind::Tag => (BlockState::Html, before),
        LineKind::Text | LineKind::Underline => (BlockState::Paragraph { piped: is_piped(rest) }, before),
    }
}

fn continue_paragraph(piped: bool, indent: usize, line: LineKind, rest: &[u8]) -> (BlockState, SplitPlace) {
    let goes_on = (BlockState::Paragraph { piped: piped || is_piped(rest) }, SplitPlace::None);
    if indent >= 4 {
        // It continues a paragraph, but ends a table and is code.
        return if piped { (BlockState::Unsure, SplitPlace::None) } else { goes_on };
    }
    match line {
        // Tables and paragraphs are interrupted by different lines.
        LineKind::Underline | LineKind::Rule if piped && rest[0] != b'*' && rest[0] != b'_' => {
            (BlockState::Unsure, SplitPlace::None)
        }
        LineKind::Item { empty: true, .. } | LineKind::Item { interrupts: false, .. } if piped => {
            (BlockState::Unsure, SplitPlace::None)
        }
        LineKind::Underline => (BlockState::Between, SplitPlace::After),
        LineKind::Text => goes_on,
        LineKind::Item { empty: true, .. } | LineKind::Item { interrupts: false, .. } => goes_on,
        LineKind::Tag => (BlockState::Html, SplitPlace::None),
        LineKind::Rule
        | LineKind::Heading
        | LineKind::Fence { .. }
        | LineKind::Quote
        | LineKind::RawHtml
        | LineKind::Item { .. } => begin_block(indent, line, rest, SplitPlace::Before),
    }
}

fn continue_quote(lazy: bool, indent: usize, line: LineKind, rest: &[u8]) -> (BlockState, SplitPlace) {
    match line {
        _ if indent >= 4 => (BlockState::Unsure, SplitPlace::None),
        LineKind::Quote => (BlockState::Quote { lazy: false }, SplitPlace::None),
        LineKind::Underline if rest == b"-" => (BlockState::Unsure, SplitPlace::None),
        LineKind::Text | LineKind::Underline => (BlockState::Quote { lazy: true }, SplitPlace::None),
        LineKind::Tag | LineKind::RawHtml => (BlockState::Unsure, SplitPlace::None),
        LineKind::Item { interrupts: false, .. } if lazy => (BlockState::Unsure, SplitPlace::None),
        LineKind::Rule | LineKind::Heading | LineKind::Fence { .. } | LineKind::Item { .. } => {
            begin_block(indent, line, rest, if lazy { SplitPlace::None } else { SplitPlace::Before })
        }
    }
}

/// Processes a line to the left of the content of the list's last item.
fn continue_list(
    offset: usize,
    blank: bool,
    lazy: bool,
    indent: usize,
    line: LineKind,
    rest: &[u8],
) -> (BlockState, SplitPlace) {
    if indent >= 4 {
        let state =
            if blank { BlockState::Unsure } else { BlockState::List { offset, blank: false, lazy: true } };
        return (state, SplitPlace::None);
    }
    match line {
        LineKind::Item { offset, empty: false, .. } => {
            (BlockState::List { offset, blank: false, lazy: false }, SplitPlace::None)
        }
        LineKind::Item { empty: true, .. } | LineKind::RawHtml => (BlockState::Unsure, SplitPlace::None),
        LineKind::Underline if rest == b"-" => (BlockState::Unsure, SplitPlace::None),
        LineKind::Text | LineKind::Tag | LineKind::Underline if !blank => {
            let certain = line == LineKind::Text || (line == LineKind::Underline && !lazy);
            (
                if certain {
                    BlockState::List { offset, blank: false, lazy: true }
                } else {
                    BlockState::Unsure
                },
                SplitPlace::None,
            )
        }
        LineKind::Text
        | LineKind::Tag
        | LineKind::Underline
        | LineKind::Rule
        | LineKind::Heading
        | LineKind::Fence { .. }
        | LineKind::Quote => begin_block(indent, line, rest, SplitPlace::Before),
    }
}

/// Returns the columns of a line's indentation.
fn indent_columns(line: &str) -> usize {
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

fn classify_line(line: &str, indent: usize, rest: &[u8]) -> LineKind {
    let first = rest.first().copied().unwrap_or(b' ');
    match first {
        b'#' => {
            let level = rest.iter().take_while(|byte| **byte == b'#').count();
            let ends = rest.get(level).is_none_or(|byte| matches!(byte, b' ' | b'\t'));
            if level <= 6 && ends { LineKind::Heading } else { LineKind::Text }
        }
        b'`' | b'~' => {
            let length = rest.iter().take_while(|byte| **byte == first).count();
            let info = &rest[length..];
            if length >= 3 && (first == b'~' || !info.contains(&b'`')) {
                LineKind::Fence { mark: first, length }
            } else {
                LineKind::Text
            }
        }
        b'>' => LineKind::Quote,
        b'<' => match rest.get(1) {
            Some(b'!' | b'?') => LineKind::RawHtml,
            Some(byte) if byte.is_ascii_alphabetic() || *byte == b'/' => {
                let name: Vec<u8> = rest[1..].iter().take(8).map(u8::to_ascii_lowercase).collect();
                let raw =
                    ["script", "pre", "style", "textarea"].iter().any(|raw| name.starts_with(raw.as_bytes()));
                if raw { LineKind::RawHtml } else { LineKind::Tag }
            }
            _ => LineKind::Text,
        },
        b'-' | b'*' | b'_' | b'=' | b'+' => {
            let only = rest.iter().all(|byte| *byte == first);
            let count = rest.iter().filter(|byte| **byte == first).count();
            let spaced = rest.iter().all(|byte| *byte == first || matches!(byte, b' ' | b'\t'));
            if spaced && count >= 3 && matches!(first, b'-' | b'*' | b'_') {
                LineKind::Rule
            } else if only && matches!(first, b'-' | b'=') {
                LineKind::Underline
            } else if matches!(first, b'-' | b'*' | b'+') {
                classify_item(line, indent, 1, true)
            } else {
                LineKind::Text
            }
        }
        b'0'..=b'9' => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits <= 9 && matches!(rest.get(digits), Some(b'.' | b')')) {
                classify_item(line, indent, digits + 1, &rest[..digits] == b"1")
            } else {
                LineKind::Text
            }
        }
        _ => LineKind::Text,
    }
}

/// Returns the list item whose marker has the length `width`.
fn classify_item(line: &str, indent: usize, width: usize, interrupts: bool) -> LineKind {
    let content = line.trim_start_matches([' ', '\t']).get(width..).unwrap_or("");
    if !content.is_empty() && !content.starts_with([' ', '\t']) {
        return LineKind::Text;
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
    LineKind::Item { offset, empty, interrupts }
}
