//! PDF: assembles positioned glyphs into lines, lines into paragraphs, and each page into a segment.
//!
//! The library walks a page's drawing instructions and reports each character with its position. It panics on
//! malformed files, so each walk is guarded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use pdf_extract::{Document, MediaBox, Object, ObjectId, OutputDev, OutputError, Transform, output_doc};
use unicode_normalization::UnicodeNormalization;

use super::clause;
use super::{Bounds, ExtractError, Extracted, Format, OUTPUT_MAX_BYTES, PAGES_MAX, Segment, Span};

/// The maximum number of lines per page; further ones are left out.
const LINES_MAX: usize = 20_000;
/// The maximum number of notes about unreadable pages.
const NOTES_MAX: usize = 20;
/// A gap of this many font sizes separates words.
const WORD_GAP: f64 = 0.15;
/// A gap of this many font sizes separates the cells of a row.
const CELL_GAP: f64 = 1.8;
/// A line step larger than the usual one by this factor separates paragraphs.
const PARAGRAPH_STEP: f64 = 1.3;

/// The number of pages per walk: after a page that fails, the following pages are walked again.
const PAGES_AT_ONCE: u32 = 64;

pub(super) fn extract(bytes: &[u8], bounds: &Bounds) -> Result<Extracted, ExtractError> {
    let mut document = load(bytes)?;
    let ids: Vec<ObjectId> = document.get_pages().into_values().collect();
    let pages = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    if pages == 0 {
        return Err(ExtractError::broken("PDF", "it has no pages"));
    }
    let of = pages.min(PAGES_MAX);
    let first = bounds.first_page.max(1);
    let last = bounds.last_page.min(of);
    let mut device = Device::new(first, bounds);
    let mut notes = Vec::new();
    while device.next <= last && !device.over {
        let start = device.next;
        let end = last.min(start.saturating_add(PAGES_AT_ONCE - 1));
        let whole = show(&mut document, &ids[start as usize - 1..end as usize])
            && fenced(|| output_doc(&document, &mut device));
        if whole {
            device.next = end + 1;
        } else if !device.over {
            note(&mut notes, device.next);
            device.finish();
        }
    }
    let read = device.next - 1;
    let all = first == 1 && read >= of;
    if device.segments.is_empty() && all {
        return Err(match notes.is_empty() {
            true => ExtractError::NoText { pages },
            false => ExtractError::broken("PDF", "none of its pages can be read"),
        });
    }
    Ok(Extracted {
        format: Format::Pdf,
        segments: device.segments,
        pages: Some(pages),
        lines: None,
        truncated: pages > of && read >= of,
        notes,
        span: Some(Span { first, last: read, of }),
    })
}

/// Reduces the document's page tree to these pages, so that a walk visits no others. Inherited attributes are still
/// resolved through each page's own parents.
fn show(document: &mut Document, pages: &[ObjectId]) -> bool {
    let root = document.catalog().and_then(|catalog| catalog.get(b"Pages")).and_then(Object::as_reference);
    let Ok(root) = root else { return false };
    let Ok(tree) = document.get_object_mut(root).and_then(Object::as_dict_mut) else { return false };
    tree.set("Kids", Object::Array(pages.iter().map(|id| Object::Reference(*id)).collect()));
    true
}

fn load(bytes: &[u8]) -> Result<Document, ExtractError> {
    let loaded = catch_unwind(|| Document::load_mem(bytes));
    let mut document = loaded
        .map_err(|_| ExtractError::broken("PDF", "its structure cannot be read"))?
        .map_err(|error| ExtractError::broken("PDF", error))?;
    if document.is_encrypted() {
        let opened = catch_unwind(AssertUnwindSafe(|| document.decrypt("").is_ok())).unwrap_or(false);
        if !opened {
            return Err(ExtractError::Encrypted("PDF"));
        }
    }
    Ok(document)
}

/// Returns true if drawing completed without an error or a panic.
fn fenced(draw: impl FnOnce() -> Result<(), OutputError>) -> bool {
    matches!(catch_unwind(AssertUnwindSafe(draw)), Ok(Ok(())))
}

fn note(notes: &mut Vec<String>, page: u32) {
    if notes.len() < NOTES_MAX {
        notes.push(format!("page {page} could not be read whole"));
    }
}

/// A line of text as drawn.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    left: f64,
    right: f64,
    /// The distance from the upper edge of the page.
    y: f64,
    size: f64,
    text: String,
}

struct Device {
    segments: Vec<Segment>,
    lines: Vec<Line>,
    /// The page being drawn, or the next one.
    next: u32,
    height: f64,
    word_begins: bool,
    bytes: usize,
    first: u32,
    bounds: Bounds,
    /// True if a bound was reached, so that no further page is started.
    over: bool,
}

impl Device {
    fn new(first: u32, bounds: &Bounds) -> Self {
        Self {
            segments: Vec::new(),
            lines: Vec::new(),
            next: first,
            height: 0.0,
            word_begins: false,
            bytes: 0,
            first,
            bounds: *bounds,
            over: false,
        }
    }

    /// Turns the drawn page into a segment.
    fn finish(&mut self) {
        let mut text = paragraphs(&std::mem::take(&mut self.lines));
        text.truncate(text.floor_char_boundary(OUTPUT_MAX_BYTES));
        self.bytes += text.len();
        if !text.is_empty() {
            self.segments.push(Segment { page: Some(self.next), lines: None, heading: None, text });
        }
        self.word_begins = false;
        self.next += 1;
    }
}

impl OutputDev for Device {
    fn begin_page(
        &mut self,
        _page: u32,
        media: &MediaBox,
        _art: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        let late = self.bounds.until.is_some_and(|until| Instant::now() >= until);
        self.over = self.next > self.first && (late || self.bytes >= self.bounds.text_max_bytes);
        if self.over {
            // Any error stops the walk.
            return Err(OutputError::FormatError(std::fmt::Error));
        }
        self.lines.clear();
        self.height = media.ury - media.lly;
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.finish();
        Ok(())
    }

    fn output_character(
        &mut self,
        place: &Transform,
        width: f64,
        _spacing: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        // The scale of the text, regardless of its rotation.
        let scale = (place.m11 * place.m22 - place.m12 * place.m21).abs().sqrt();
        let size = (font_size * scale).abs();
        let (x, y) = (place.m31, self.height - place.m32);
        if !(x.is_finite() && y.is_finite() && size.is_finite()) || self.lines.len() > LINES_MAX {
            return Ok(());
        }
        let right = x + width * size;
        let word_begins = std::mem::take(&mut self.word_begins);
        match self.lines.last_mut() {
            Some(line)
                if (y - line.y).abs() < 0.5 * size.max(line.size) && x > line.right - 2.0 * size.max(1.0) =>
            {
                let gap = x - line.right;
                if gap > CELL_GAP * size {
                    line.text.push('\t');
                } else if word_begins && gap > WORD_GAP * size && !line.text.ends_with([' ', '\t']) {
                    line.text.push(' ');
                }
                push_glyph(&mut line.text, text);
                line.right = line.right.max(right);
                line.size = line.size.max(size);
            }
            _ => {
                let mut line = Line { left: x, right, y, size, text: String::new() };
                push_glyph(&mut line.text, text);
                self.lines.push(line);
            }
        }
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.word_begins = true;
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        Ok(())
    }
}

/// Expands ligatures and drops non-characters.
fn push_glyph(line: &mut String, glyph: &str) {
    for c in glyph.chars() {
        match c {
            '\u{fb00}' => line.push_str("ff"),
            '\u{fb01}' => line.push_str("fi"),
            '\u{fb02}' => line.push_str("fl"),
            '\u{fb03}' => line.push_str("ffi"),
            '\u{fb04}' => line.push_str("ffl"),
            '\u{ad}' => line.push('-'),
            '\t' | '\n' | '\u{a0}' | '\u{2002}'..='\u{200a}' => line.push(' '),
            _ if c.is_control() || c == '\u{feff}' || c == '\u{200b}' => {}
            _ => line.push(c),
        }
    }
}

/// The relation between two consecutive lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    /// The line was wrapped: the sentence continues.
    Wrap,
    /// Both are rows of a table.
    Row,
    /// A new paragraph begins.
    Paragraph,
}

/// Returns the page's text: one line per paragraph or row, paragraphs separated by blank lines.
fn paragraphs(lines: &[Line]) -> String {
    let mut lines: Vec<Line> = lines
        .iter()
        .map(|line| Line { text: tidy(&line.text), ..line.clone() })
        .filter(|line| !line.text.is_empty())
        .collect();
    // The page number is not part of the text.
    if lines.len() > 1 && lines.last().is_some_and(|line| is_page_number(&line.text)) {
        lines.pop();
    }
    let layout = Layout::of(&lines);
    let mut out = String::new();
    let mut before: Option<&Line> = None;
    for line in &lines {
        match before.map(|before| layout.joint(before, line)) {
            None => {}
            Some(Joint::Paragraph) => out.push_str("\n\n"),
            Some(Joint::Row) => out.push('\n'),
            Some(Joint::Wrap) => {
                let split = out.ends_with('-')
                    && out.trim_end_matches('-').ends_with(char::is_alphabetic)
                    && line.text.starts_with(char::is_lowercase);
                if split {
                    out.pop();
                } else {
                    out.push(' ');
                }
            }
        }
        out.push_str(&line.text);
        before = Some(line);
    }
    out
}

/// Returns true for up to four digits, also between dashes.
fn is_page_number(text: &str) -> bool {
    let inner = text.trim_matches(['-', '–', '—', ' ']);
    !inner.is_empty() && inner.len() <= 4 && inner.chars().all(|c| c.is_ascii_digit())
}

/// Composes letters, collapses spaces, and trims spaces around tabs and at the ends.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.trim().nfc() {
        match c {
            ' ' if out.ends_with([' ', '\t']) => {}
            '\t' => {
                out.truncate(out.trim_end_matches([' ', '\t']).len());
                out.push('\t');
            }
            _ => out.push(c),
        }
    }
    out
}

/// The layout of a page, by which paragraphs are separated.
struct Layout {
    left: f64,
    width: f64,
    /// The usual distance between lines, in font sizes.
    step: f64,
}

impl Layout {
    fn of(lines: &[Line]) -> Self {
        let left = lines.iter().map(|line| line.left).fold(f64::INFINITY, f64::min);
        let right = lines.iter().map(|line| line.right).fold(f64::NEG_INFINITY, f64::max);
        let mut steps: Vec<f64> = lines
            .windows(2)
            .map(|pair| (pair[1].y - pair[0].y) / pair[1].size.max(1.0))
            .filter(|step| (0.5..2.5).contains(step))
            .collect();
        steps.sort_by(f64::total_cmp);
        // A quantile below the median: pages of many short paragraphs have more wide steps than narrow ones.
        let step = steps.get(steps.len() / 3).copied().unwrap_or(1.2);
        Self { left, width: (right - left).max(1.0), step }
    }

    fn joint(&self, before: &Line, line: &Line) -> Joint {
        let step = (line.y - before.y) / line.size.max(1.0);
        if before.text.contains('\t') || line.text.contains('\t') {
            let same_table =
                before.text.contains('\t') && line.text.contains('\t') && step > 0.0 && step < 3.0;
            return if same_table { Joint::Row } else { Joint::Paragraph };
        }
        let ends = before.text.ends_with(['.', ':', ';', '!', '?']);
        let lower = line.text.starts_with(char::is_lowercase);
        if step < 0.0 {
            // The text jumps up: another column, in which a sentence may continue.
            return if lower && !ends { Joint::Wrap } else { Joint::Paragraph };
        }
        if step > self.step * PARAGRAPH_STEP || (line.size / before.size - 1.0).abs() > 0.12 {
            return Joint::Paragraph;
        }
        if lower && !ends {
            return Joint::Wrap;
        }
        let short = before.right < self.left + 0.85 * self.width;
        let very_short = before.right < self.left + 0.6 * self.width;
        let indented = line.left > before.left + 0.8 * line.size;
        let starts = clause::start(&line.text).is_some() && (ends || short);
        if starts || (ends && (short || indented)) || very_short {
            return Joint::Paragraph;
        }
        if matches!(clause::start(&before.text), Some(clause::Start::Section(heading)) if heading == before.text)
        {
            return Joint::Paragraph;
        }
        Joint::Wrap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(left: f64, right: f64, y: f64, text: &str) -> Line {
        Line { left, right, y, size: 10.0, text: text.to_owned() }
    }

    #[test]
    fn lines_become_paragraphs() {
        let page = [
            line(50.0, 200.0, 20.0, "Čl. 3 Nájemné"),
            line(50.0, 500.0, 32.0, "Nájemné činí 15 000 Kč a je splatné do pátého dne kalen-"),
            line(50.0, 480.0, 44.0, "dářního měsíce. Podle dohody smluvních stran podle"),
            line(50.0, 300.0, 56.0, "§ 12 se platí předem."),
            line(50.0, 490.0, 68.0, "Kauce činí trojnásobek nájemného a skládá se při podpisu této"),
            line(50.0, 120.0, 80.0, "smlouvy."),
            line(50.0, 300.0, 110.0, "Byt\tCena"),
            line(50.0, 300.0, 122.0, "A\t1 000"),
            line(280.0, 300.0, 800.0, "– 12 –"),
        ];
        assert_eq!(
            paragraphs(&page),
            "Čl. 3 Nájemné\n\nNájemné činí 15 000 Kč a je splatné do pátého dne kalendářního měsíce. Podle dohody \
             smluvních stran podle § 12 se platí předem.\n\nKauce činí trojnásobek nájemného a skládá se při podpisu \
             této smlouvy.\n\nByt\tCena\nA\t1 000"
        );
    }

    #[test]
    fn marks_that_come_apart_are_composed() {
        assert_eq!(tidy("  vy\u{301}pove\u{30c}d\u{30c}   z \t  x "), "výpověď z\tx");
    }
}
