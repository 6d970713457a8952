//! Renders the growing end of a block without rendering the block again.
//!
//! A block changes its structure only at the end of a line. Within a line of text, and within a fence of code, new text is
//! added in one place. So the HTML before and after that place is made once for each line, from the block with a cursor
//! in its place; the text in between is rendered by itself:
//!
//! ```text
//! <ul>\n<li>one</li>\n<li><strong>Two</strong>: words and   **bo          </li>\n</ul>\n
//! └────────────────────────── before ──────────────────┘ └─ rest ──┘      └─── after ──┘
//! ```
//!
//! The text moves into `before` up to the last word that further text cannot change: at which no emphasis, code, link or
//! mark is open. Lines with other constructs are left to [`crate::emit`].

use comrak::nodes::{Node, NodeValue};

use crate::emit::{self, RawHtml};
use crate::escape::{CURSOR, escape_html};
use crate::tables::CellBudget;
use crate::{CitationSources, known_form, prepare};

/// The length of a text that may be rendered again with each addition.
const REST_MAX_BYTES: usize = 512;
/// Elements around the text at most, far from the limit of nesting.
const DEPTH_MAX: usize = 24;

/// The last line of an open block, if its text can grow by itself.
#[derive(Debug)]
pub(crate) struct OpenLine {
    /// The start of the open block in the text.
    block: usize,
    /// The bytes of the block that are rendered in `before`.
    settled: usize,
    before: String,
    after: String,
    kind: LineKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// Before the first word that is settled.
    TextStart {
        is_heading: bool,
    },
    Text {
        is_heading: bool,
    },
    /// The content of a fence with this character.
    Code(u8),
}

impl OpenLine {
    /// Finds the place at which the block grows. `cells` are those of its tables.
    pub(crate) fn begin(
        start: usize,
        block: &str,
        sources: &dyn CitationSources,
        cells: CellBudget,
    ) -> Option<Self> {
        let line = block.rfind('\n').map_or(0, |end| end + 1);
        if let Some(mark) = block.bytes().next().filter(|mark| matches!(mark, b'`' | b'~'))
            && let Some(first) = block.find('\n')
        {
            return Self::begin_code(start, &block[..=first], mark);
        }
        let content = block.len() - strip_block_marks(&block[line..]).len();
        if !begins_text(&block[content..]) || block[..content].contains(['<', CURSOR]) {
            return None;
        }
        let (before, after, is_heading) = render_around(&block[..content], sources, cells)?;
        Some(Self { block: start, settled: content, before, after, kind: LineKind::TextStart { is_heading } })
    }

    fn begin_code(start: usize, fence: &str, mark: u8) -> Option<Self> {
        let html = emit::emit_html(&format!("{fence}{CURSOR}"), &NO_SOURCES, RawHtml::Shown);
        let (before, after) = html.split_once(CURSOR)?;
        let after = after.strip_prefix('\n').filter(|after| *after == "</code></pre>\n")?;
        (before.starts_with("<pre><code") && before.ends_with('>')).then(|| Self {
            block: start,
            settled: fence.len(),
            before: before.to_owned(),
            after: after.to_owned(),
            kind: LineKind::Code(mark),
        })
    }

    /// Appends the HTML of the block to `out`; returns false if the block must be rendered as a whole.
    pub(crate) fn write_block(
        &mut self,
        start: usize,
        block: &str,
        sources: &dyn CitationSources,
        out: &mut String,
    ) -> bool {
        if start != self.block {
            return false;
        }
        let written = match self.kind {
            LineKind::Code(mark) => self.settle_code(block, mark),
            LineKind::TextStart { is_heading } | LineKind::Text { is_heading } => {
                self.settle_text(block, is_heading, sources)
            }
        };
        let Some(rest) = written else { return false };
        for text in [self.before.as_str(), rest.as_str(), self.after.as_str()] {
            out.push_str(text);
        }
        true
    }

    /// Moves complete lines into `before`; returns the HTML of the last one.
    fn settle_code(&mut self, block: &str, mark: u8) -> Option<String> {
        let may_close = |line: &str| line.trim_start().bytes().next() == Some(mark) || line.contains('\0');
        while let Some(length) = block.get(self.settled..)?.find('\n') {
            let line = &block[self.settled..=self.settled + length];
            if may_close(line) {
                return None;
            }
            escape_html(line, &mut self.before);
            self.settled += line.len();
        }
        let last = &block[self.settled..];
        let mut rest = String::new();
        if !last.is_empty() {
            if may_close(last) || last.trim_start().is_empty() {
                return None;
            }
            escape_html(last, &mut rest);
            rest.push('\n');
        }
        Some(rest)
    }

    /// Moves settled words into `before`; returns the HTML of the rest.
    fn settle_text(
        &mut self,
        block: &str,
        is_heading: bool,
        sources: &dyn CitationSources,
    ) -> Option<String> {
        let text = block.get(self.settled..)?;
        if text.contains('\n') || is_heading && text.contains('#') {
            return None;
        }
        let scan = scan_text(text)?;
        if scan.settled > 0 {
            let words = &text[..scan.settled];
            if scan.is_settled_plain {
                self.before.push_str(words);
            } else {
                let html = self.render_text(words, true, sources)?;
                self.before.push_str(&html);
            }
            self.settled += scan.settled;
            self.kind = LineKind::Text { is_heading };
        }
        let rest = &text[scan.settled..];
        if scan.is_rest_plain {
            return Some(rest.trim_end_matches(' ').to_owned());
        }
        if rest.len() > REST_MAX_BYTES {
            return None;
        }
        self.render_text(rest, false, sources)
    }

    /// Renders a text that follows the settled one.
    fn render_text(&self, text: &str, finished: bool, sources: &dyn CitationSources) -> Option<String> {
        let is_start = matches!(self.kind, LineKind::TextStart { .. });
        let cursor = if is_start { String::new() } else { CURSOR.to_string() };
        // Text without line ends has no tables.
        let mut cells = CellBudget::default();
        let prepared = prepare::prepare_markdown(&format!("{cursor}{text}"), sources, finished, &mut cells);
        let html = emit::emit_html(&prepared, sources, RawHtml::Shown);
        let text = html.strip_prefix("<p>")?.strip_prefix(cursor.as_str())?.strip_suffix("</p>\n")?;
        (known_form::is_known_form(text) && !text.contains(CURSOR)).then(|| text.to_owned())
    }
}

const NO_SOURCES: &[domain::answer::AnswerSource] = &[];

/// Renders the block with the cursor at its end. Returns the HTML before and after the cursor and whether it is in a
/// heading; `None` unless the cursor begins a paragraph or heading.
fn render_around(
    block: &str,
    sources: &dyn CitationSources,
    mut cells: CellBudget,
) -> Option<(String, String, bool)> {
    let prepared = prepare::prepare_markdown(&format!("{block}{CURSOR}"), sources, false, &mut cells);
    let mut is_heading = None;
    let html = emit::emit_parsed(&prepared, sources, RawHtml::Shown, |root| {
        let cursor = root
            .descendants()
            .find(|node| matches!(&node.data().value, NodeValue::Text(text) if text.starts_with(CURSOR)));
        is_heading = cursor.and_then(find_heading);
    });
    let is_heading = is_heading?;
    let (before, after) = html.split_once(CURSOR)?;
    let is_whole = known_form::is_known_form(&html) && !after.contains(CURSOR);
    is_whole.then(|| (before.to_owned(), after.to_owned(), is_heading))
}

/// Returns whether the block that begins with this text is a heading; `None` for other blocks than headings and paragraphs.
fn find_heading(cursor: Node<'_>) -> Option<bool> {
    let leaf = cursor.parent().filter(|_| cursor.previous_sibling().is_none())?;
    if cursor.ancestors().count() > DEPTH_MAX {
        return None;
    }
    match leaf.data().value {
        NodeValue::Paragraph => Some(false),
        NodeValue::Heading(_) => Some(true),
        _ => None,
    }
}

/// Returns a line without the marks of quotations, items and headings before its text.
fn strip_block_marks(line: &str) -> &str {
    let mut rest = line.trim_start_matches([' ', '>']);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let marks = match rest.as_bytes().get(digits) {
        Some(b'-' | b'*' | b'+') if digits == 0 => 1,
        Some(b'.' | b')') if digits > 0 => digits + 1,
        Some(b'#') if digits == 0 => rest.bytes().take_while(|byte| *byte == b'#').count(),
        _ => 0,
    };
    if marks > 0 && rest[marks..].starts_with(' ') {
        rest = rest[marks..].trim_start_matches(' ');
    }
    rest
}

/// Returns true for a text that begins no other block than a paragraph, however it goes on.
fn begins_text(text: &str) -> bool {
    let opening = text.trim_start_matches(['*', '_', '(', '"', '`']);
    let signs = text.len() - opening.len();
    signs <= 3 && !text.starts_with("``") && opening.starts_with(|c: char| c.is_alphabetic() && c != CURSOR)
}

/// The parts of a growing text that are settled.
struct TextScan {
    /// The end of the last word that further text does not change, before the space after it.
    settled: usize,
    /// True if the settled text is its own HTML.
    is_settled_plain: bool,
    /// True if the text after it is.
    is_rest_plain: bool,
}

/// Scans a text within a line; `None` if it has something that this module does not follow.
fn scan_text(text: &str) -> Option<TextScan> {
    let bytes = text.as_bytes();
    let mut scan = TextScan { settled: 0, is_settled_plain: true, is_rest_plain: true };
    let mut emphasis: Option<&[u8]> = None;
    let mut is_plain = true;
    let mut at = 0;
    while at < bytes.len() {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        match bytes[at] {
            b' ' if emphasis.is_none() && before.is_some_and(is_word_byte) => {
                scan.settled = at;
                scan.is_settled_plain &= is_plain;
                is_plain = true;
            }
            b'`' => {
                is_plain = false;
                match end_of_code(bytes, at) {
                    Some(end) => at = end - 1,
                    None => break,
                }
            }
            b'[' => {
                is_plain = false;
                match end_of_brackets(bytes, at)? {
                    Some(end) => at = end - 1,
                    None => break,
                }
            }
            sign @ (b'*' | b'_') => {
                let run = bytes[at..].iter().take_while(|byte| **byte == sign).count();
                let Some(after) = bytes.get(at + run).copied() else {
                    is_plain = false;
                    break;
                };
                let run = &bytes[at..at + run];
                match emphasis_role(run, before, after, emphasis)? {
                    EmphasisRole::Text => {}
                    EmphasisRole::Opens => emphasis = Some(run),
                    EmphasisRole::Closes => emphasis = None,
                }
                is_plain = false;
                at += run.len() - 1;
            }
            b'&' | b'"' | b'>' | b'@' | b'!' => is_plain = false,
            b'<' if matches!(bytes.get(at + 1), Some(b' ' | b'=' | b'0'..=b'9')) => is_plain = false,
            b'<' | b']' | b'\\' | b'$' | b'~' | b'|' | b'\0'..0x20 | 0x7f => return None,
            // An address.
            b'/' if before == Some(b'/') => is_plain = false,
            b'w' if before == Some(b'w') => is_plain = false,
            // A no-break space, the ends of lines, and the characters of marks.
            0xc2 if bytes.get(at + 1) == Some(&0xa0) => is_plain = false,
            0xe2 if bytes[at..].starts_with(&[0xe2, 0x80]) => is_plain = false,
            0xee => return None,
            _ => {}
        }
        at += 1;
    }
    scan.is_rest_plain = is_plain && emphasis.is_none();
    Some(scan)
}

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Returns the end of the code that begins at `at`; `None` while it is open.
fn end_of_code(bytes: &[u8], at: usize) -> Option<usize> {
    let count_ticks = |at: usize| bytes[at..].iter().take_while(|byte| **byte == b'`').count();
    let ticks = count_ticks(at);
    let mut next = at + ticks;
    while let Some(found) = bytes[next..].iter().position(|byte| *byte == b'`') {
        let run = count_ticks(next + found);
        next += found + run;
        // A run at the end may grow.
        if next == bytes.len() {
            return None;
        }
        if run == ticks {
            return Some(next);
        }
    }
    None
}

/// Returns the end of the mark, link or text in brackets that begins at `at`; `Some(None)` while it is open, and `None` for
/// other things.
#[expect(clippy::option_option, reason = "the caller stops at one and gives up at the other")]
fn end_of_brackets(bytes: &[u8], at: usize) -> Option<Option<usize>> {
    let is_odd = |byte: u8| {
        matches!(byte, b'[' | b'\\' | b'`' | b'<' | b'*' | b'_' | b'~' | b'$' | b'!' | b'|' | 0xee)
    };
    let mut next = at + 1;
    loop {
        match bytes.get(next) {
            None => return Some(None),
            Some(b']') => break,
            Some(byte) if is_odd(*byte) || *byte < b' ' => return None,
            Some(_) => next += 1,
        }
    }
    match bytes.get(next + 1) {
        None => Some(None),
        Some(b'(') => {
            let mut end = next + 2;
            loop {
                match bytes.get(end) {
                    None => return Some(None),
                    Some(b')') => return Some(Some(end + 1)),
                    Some(b'(' | b'<' | b'"' | b'\'' | b'\\' | 0xee) => return None,
                    Some(byte) if *byte <= b' ' => return None,
                    Some(_) => end += 1,
                }
            }
        }
        Some(_) => Some(Some(next + 1)),
    }
}

enum EmphasisRole {
    Text,
    Opens,
    Closes,
}

/// Returns what a run of `*` or `_` does; `None` in doubt.
fn emphasis_role(run: &[u8], before: Option<u8>, after: u8, open: Option<&[u8]>) -> Option<EmphasisRole> {
    let begins = before.is_none_or(|byte| matches!(byte, b' ' | b'('));
    if before == Some(b' ') && after == b' ' {
        return Some(EmphasisRole::Text);
    }
    if run[0] == b'_' && before.is_some_and(is_word_byte) && is_word_byte(after) {
        return Some(EmphasisRole::Text);
    }
    match open {
        None => (begins && is_word_byte(after) && run.len() <= 3).then_some(EmphasisRole::Opens),
        Some(open) => {
            let ends_word = before.is_some_and(|byte| is_word_byte(byte) || b".,:;!?)%".contains(&byte));
            let ends = ends_word && b" .,:;!?)".contains(&after);
            (open == run && ends).then_some(EmphasisRole::Closes)
        }
    }
}
