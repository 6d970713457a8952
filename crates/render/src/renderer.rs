//! Renders a text while it is being written.

use std::sync::Arc;

use crate::split::Segments;
use crate::{Sources, emit, html, prepare, sanitize};

/// The longest tail that is rendered each time it is asked for; a longer one only when it has grown enough,
/// so that a block without end costs no more than a constant for each byte.
const TAIL_EAGER_MAX_BYTES: usize = 2048;
/// A longer tail is rendered again when it has grown by this share.
const TAIL_GROWTH: usize = 16;

/// The HTML of a text that is being written: the finished blocks, each rendered once, and the tail after
/// them. Both together are what a reader sees.
#[derive(Debug, Default)]
pub struct Renderer {
    finished: Vec<Arc<str>>,
    tail: String,
    segments: Segments,
    /// The HTML of the blocks in the tail that are closed, and how long they are.
    closed: (usize, String),
    /// A carriage return at the end, which belongs to the line feed that may follow.
    held: bool,
    tail_html: Arc<str>,
    /// How long the tail was when it was rendered last; `None` when it has to be in any case.
    rendered: Option<usize>,
    ended: bool,
}

impl Renderer {
    /// Takes more text. `sources` are those known by now.
    pub fn push(&mut self, markdown: &str, sources: &dyn Sources) {
        let mut text = markdown;
        if std::mem::take(&mut self.held) {
            text = text.strip_prefix('\n').unwrap_or(text);
            self.tail.push('\n');
        }
        if let Some(before) = text.strip_suffix('\r') {
            text = before;
            self.held = true;
        }
        self.tail.push_str(&prepare::normalize(text));
        self.split(sources);
    }

    /// Ends the text: what is held back because it might go on is shown as well.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.held) {
            self.tail.push('\n');
        }
        self.ended = true;
        self.rendered = None;
    }

    /// The finished blocks in order, each whole HTML. Only ever appended to.
    #[must_use]
    pub fn finished(&self) -> &[Arc<str>] {
        &self.finished
    }

    /// The HTML after the finished blocks. A long one may lag behind the text by a sixteenth until [`Self::end`].
    pub fn tail(&mut self, sources: &dyn Sources) -> Arc<str> {
        let length = self.tail.len();
        let open = if self.ended { 0 } else { self.segments.open() };
        let fresh = self.rendered.is_some_and(|rendered| {
            length == rendered
                || (length - open > TAIL_EAGER_MAX_BYTES && length < rendered + rendered / TAIL_GROWTH)
        });
        if !fresh {
            if self.closed.0 != open {
                let prepared = prepare::prepare(&self.tail[..open], sources, true);
                self.closed = (open, html(&prepared, sources));
            }
            let block = &self.tail[open..];
            let mut out = self.closed.1.clone();
            match plain_paragraph(block).filter(|_| !self.ended) {
                Some(text) => {
                    out.push_str("<p>");
                    out.push_str(text);
                    out.push_str("</p>\n");
                }
                None if self.ended => out.push_str(&html(&prepare::prepare(block, sources, true), sources)),
                None => {
                    let prepared = prepare::prepare(block, sources, false);
                    out.push_str(&sanitize::checked(emit::emit(&prepared, sources)));
                }
            }
            self.tail_html = out.into();
            self.rendered = Some(length);
        }
        self.tail_html.clone()
    }

    fn split(&mut self, sources: &dyn Sources) {
        let mut start = 0;
        while let Some(cut) = self.segments.next(&self.tail, start) {
            let prepared = prepare::prepare(&self.tail[start..cut], sources, true);
            self.finished.push(html(&prepared, sources).into());
            start = cut;
        }
        if start > 0 {
            self.tail.drain(..start);
            self.segments.forget(start);
            self.closed = (0, String::new());
            self.rendered = None;
        }
    }
}

/// The text, if it is a paragraph in which nothing has a meaning of its own: most of what is written, and by
/// far the cheapest to show.
fn plain_paragraph(block: &str) -> Option<&str> {
    let starts = block.chars().next().is_some_and(char::is_alphabetic);
    let plain = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || *byte >= 0x80
            || matches!(byte, b' ' | b',' | b'.' | b';' | b'?' | b'(' | b')' | b'%' | b'-')
    };
    // A no-break space is written otherwise in HTML, and `www.` begins a link.
    let apart = block.contains(['\u{a0}', prepare::MARK_OPEN]) || block.contains("www");
    (starts && !apart && block.as_bytes().iter().all(plain)).then(|| block.trim_end())
}
