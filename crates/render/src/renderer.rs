//! Renders a growing text.

use std::sync::Arc;

use crate::emit::RawHtml;
use crate::escape::MARK_OPEN;
use crate::split::Segments;
use crate::tables::CellBudget;
use crate::{CitationSources, emit, prepare, render_prepared, sanitize};

/// A tail up to this length is rendered on each request, a longer one only after enough growth, so that an endless
/// block takes linear time.
const TAIL_EAGER_MAX_BYTES: usize = 2048;
/// A longer tail is rendered again when it has grown by this fraction.
const TAIL_GROWTH: usize = 16;

/// Renders a growing text as HTML: the finished blocks, each rendered once, and the tail after them. Readers see both
/// together.
#[derive(Debug, Default)]
pub struct Renderer {
    finished: Vec<Arc<str>>,
    tail: String,
    segments: Segments,
    /// The cells that tables after the finished blocks may have.
    cells: CellBudget,
    /// The length and the HTML of the closed blocks in the tail, and the cells that are left after them.
    closed: (usize, String, CellBudget),
    /// A trailing carriage return, which may belong to a line feed that follows.
    held: bool,
    tail_html: String,
    /// The start of the open block, and its length that is known to be plain.
    plain: (usize, usize),
    /// The length of the tail at its last rendering; `None` forces a rendering.
    rendered: Option<usize>,
    ended: bool,
}

impl Renderer {
    /// Appends text. `sources` are the sources known so far.
    pub fn push_text(&mut self, markdown: &str, sources: &dyn CitationSources) {
        let mut text = markdown;
        if std::mem::take(&mut self.held) {
            text = text.strip_prefix('\n').unwrap_or(text);
            self.tail.push('\n');
        }
        if let Some(before) = text.strip_suffix('\r') {
            text = before;
            self.held = true;
        }
        self.tail.push_str(&prepare::normalize_markdown(text));
        self.split_finished(sources);
    }

    /// Ends the text and renders the part that was held back.
    pub fn end_text(&mut self) {
        if std::mem::take(&mut self.held) {
            self.tail.push('\n');
        }
        self.ended = true;
        self.rendered = None;
    }

    /// Returns the finished blocks in order, each complete HTML. Blocks are appended, never changed.
    #[must_use]
    pub fn finished_blocks(&self) -> &[Arc<str>] {
        &self.finished
    }

    /// Returns the HTML after the finished blocks. A long tail may lag behind the text by a sixteenth until
    /// [`Self::end_text`].
    pub fn tail_html(&mut self, sources: &dyn CitationSources) -> &str {
        let length = self.tail.len();
        let open = if self.ended { 0 } else { self.segments.open_start() };
        let fresh = self.rendered.is_some_and(|rendered| {
            length == rendered
                || (length - open > TAIL_EAGER_MAX_BYTES && length < rendered + rendered / TAIL_GROWTH)
        });
        if !fresh {
            if self.closed.0 != open {
                let mut cells = self.cells;
                let prepared = prepare::prepare_markdown(&self.tail[..open], sources, true, &mut cells);
                self.closed = (open, render_prepared(&prepared, sources), cells);
            }
            let mut cells = if open == 0 { self.cells } else { self.closed.2 };
            let (block, out) = (&self.tail[open..], &mut self.tail_html);
            out.clear();
            out.push_str(&self.closed.1);
            let known = if self.plain.0 == open { self.plain.1 } else { 0 };
            if self.ended {
                out.push_str(&render_prepared(
                    &prepare::prepare_markdown(block, sources, true, &mut cells),
                    sources,
                ));
            } else if is_plain_paragraph(block, known) {
                self.plain = (open, block.len());
                for text in ["<p>", block.trim_end(), "</p>\n"] {
                    out.push_str(text);
                }
            } else {
                let prepared = prepare::prepare_markdown(block, sources, false, &mut cells);
                out.push_str(&sanitize::ensure_sanitized(emit::emit_html(
                    &prepared,
                    sources,
                    RawHtml::Shown,
                )));
            }
            self.rendered = Some(length);
        }
        &self.tail_html
    }

    fn split_finished(&mut self, sources: &dyn CitationSources) {
        let mut start = 0;
        while let Some(cut) = self.segments.next_end(&self.tail, start) {
            let prepared = prepare::prepare_markdown(&self.tail[start..cut], sources, true, &mut self.cells);
            self.finished.push(render_prepared(&prepared, sources).into());
            start = cut;
        }
        if start > 0 {
            self.tail.drain(..start);
            self.segments.forget_prefix(start);
            self.closed = (0, String::new(), self.cells);
            self.plain = (0, 0);
            self.rendered = None;
        }
    }
}

/// Returns true for a paragraph without any markup, the most frequent block and the cheapest to render. The first
/// `known` bytes were checked before.
fn is_plain_paragraph(block: &str, known: usize) -> bool {
    let is_plain = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || *byte >= 0x80
            || matches!(byte, b' ' | b',' | b'.' | b';' | b'?' | b'(' | b')' | b'%' | b'-')
    };
    // HTML writes a no-break space differently.
    let is_apart = |text: &str| text.contains(['\u{a0}', MARK_OPEN]);
    // `www.` starts a link, and may arrive in two pieces.
    let lately = &block.as_bytes()[known.saturating_sub(2)..];
    let Some(new) = block.get(known..) else { return false };
    (known > 0 || block.starts_with(char::is_alphabetic))
        && new.as_bytes().iter().all(is_plain)
        && (new.is_ascii() || !is_apart(new))
        && !lately.windows(3).any(|three| three == b"www")
}
