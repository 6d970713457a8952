//! PDF: assembles positioned glyphs into lines, and each page into a segment.
//!
//! The library interprets a page's drawing instructions and reports runs of glyphs with their places. Pages are guarded
//! one by one, because a malformed one may make it panic.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use hayro_interpret::font::{Glyph, GlyphRun, PositionedGlyph};
use hayro_interpret::hayro_cmap::WritingMode;
use hayro_interpret::hayro_syntax::page::Page;
use hayro_interpret::hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect, Vec2};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, SoftMask, interpret_page,
};

use super::pdf_direction::{Gaps, GlyphPlace, is_page_right_to_left, is_right_to_left, logical_line};
use super::pdf_images::PageImages;
use super::pdf_letters::GlyphLetters;
use super::pdf_paragraphs::{PdfLine, assemble_paragraphs};
use super::pdf_xfa::FormText;
use super::{
    DocumentFormat, DocumentSegment, ExtractBounds, ExtractError, Extracted, Nesting, OUTPUT_MAX_BYTES,
    PAGES_MAX, PageRange, pdf_files, pdf_xfa,
};

/// The maximum number of lines per page; further ones are left out.
const LINES_MAX: usize = 20_000;
/// The maximum number of glyphs per page; further ones are left out.
const GLYPHS_MAX: usize = 1_000_000;
/// The maximum number of drawing operations per page, and of clips among them. Each form sets one, and forms that draw each
/// other can create endless ones from a few bytes.
const OPERATIONS_MAX: usize = 4_000_000;
const CLIPS_MAX: usize = 50_000;
/// The maximum number of notes about unreadable pages.
const NOTES_MAX: usize = 20;
/// A page whose images cover this part of it and that has at most this number of letters is a scan.
const SCAN_COVERED_MIN: f64 = 0.3;
const SCAN_LETTERS_MAX: usize = 40;
/// A gap of this many font sizes separates words.
const WORD_GAP: f64 = 0.15;
/// A gap of this many font sizes separates the cells of a row.
const CELL_GAP: f64 = 1.8;
/// Units of a run's glyphs that differ by at most this factor are the same.
const SAME_UNIT_FACTOR: f64 = 1.01;
/// The units of a glyph's space in a font size.
const UNITS_PER_SIZE: f64 = 1000.0;

pub(super) fn extract_pdf(
    bytes: &[u8],
    bounds: &ExtractBounds,
    nesting: Nesting<'_>,
) -> Result<Extracted, ExtractError> {
    let document = load_pdf(bytes)?;
    let pages = catch_unwind(AssertUnwindSafe(|| document.pages().len()))
        .map_err(|_| ExtractError::broken_file("PDF", "its structure cannot be read"))?;
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    if pages == 0 {
        return Err(ExtractError::broken_file("PDF", "it has no pages"));
    }
    let of = pages.min(PAGES_MAX);
    let first = bounds.first_page.max(1);
    let last = bounds.last_page.min(of);
    let mut cache = InterpreterCache::new();
    let mut letters = GlyphLetters::new(&document);
    let (mut segments, mut notes, mut scans) = (Vec::new(), Vec::new(), Vec::new());
    let (mut cut_pages, mut damaged_pages) = (Vec::new(), Vec::new());
    let (mut images, mut seen_images, mut has_scans) = (Vec::new(), HashSet::new(), false);
    let (mut next, mut read_bytes) = (first, 0);
    while next <= last {
        let late = bounds.until.is_some_and(|until| Instant::now() >= until);
        if next > first && (late || read_bytes >= bounds.text_max_bytes) {
            break;
        }
        let mut drawing = Drawing::with_letters(&mut letters);
        let page = document.pages().get(next as usize - 1);
        let whole = page.is_some_and(|page| {
            catch_unwind(AssertUnwindSafe(|| drawing.draw_page(&document, page, &cache))).is_ok()
        });
        if (!whole || drawing.is_cut) && notes.len() < NOTES_MAX {
            notes.push(format!("page {next} could not be read whole"));
        }
        if !whole {
            // A panic may have left the cache in any state.
            cache = InterpreterCache::new();
        }
        let (is_cut, is_damaged) = (drawing.is_cut, !(whole || drawing.is_cut));
        let covered = drawing.covered;
        let page_images = std::mem::take(&mut drawing.images);
        let (text, is_text_cut) = drawing.into_text();
        if is_cut || is_text_cut {
            cut_pages.push(next);
        }
        let is_scan = covered >= SCAN_COVERED_MIN
            && text.chars().filter(|letter| letter.is_alphanumeric()).nth(SCAN_LETTERS_MAX).is_none();
        // Unreadable text may be recognized; otherwise the page is reported like a scan.
        has_scans |= is_scan;
        if is_damaged {
            damaged_pages.push(next);
        }
        if is_scan || is_damaged {
            scans.push(next);
        } else {
            images.extend(page_images.into_embedded(next, &mut seen_images));
        }
        read_bytes += text.len();
        if !text.is_empty() {
            segments.push(DocumentSegment {
                page: Some(next),
                lines: None,
                heading: None,
                text,
                inner: None,
                columns: None,
            });
        }
        next += 1;
    }
    let read = next - 1;
    let mut extracted = Extracted {
        segments,
        pages: Some(pages),
        truncated: pages > of && read >= of,
        notes,
        span: Some(PageRange { first, last: read, of }),
        scans,
        cut_pages,
        damaged_pages,
        images,
        ..Extracted::empty(DocumentFormat::Pdf)
    };
    if first == 1 {
        replace_placeholder(&document, &mut extracted)?;
    }
    if read == of && first <= of {
        pdf_files::add_attached_files(&document, of, &mut extracted, nesting);
    }
    if extracted.segments.is_empty() && !has_scans && first == 1 && read >= of {
        return Err(match extracted.notes.is_empty() {
            true => ExtractError::NoText { pages },
            false => ExtractError::broken_file("PDF", "none of its pages can be read"),
        });
    }
    Ok(extracted)
}

/// Replaces the page of a form that a viewer lays out by the form's text.
fn replace_placeholder(document: &Pdf, extracted: &mut Extracted) -> Result<(), ExtractError> {
    let page = extracted.segments.first().filter(|segment| segment.page == Some(1));
    let shown = page.map(|segment| segment.text.clone()).unwrap_or_default();
    let form = catch_unwind(AssertUnwindSafe(|| pdf_xfa::form_text(document, &shown)));
    let Ok(Some(FormText { text, is_cut })) = form else { return Ok(()) };
    if text.is_empty() {
        return Err(ExtractError::Unsupported {
            kind: "a form that a viewer lays out (dynamic XFA)",
            remedy: "open it in Adobe Reader and print it to a PDF",
        });
    }
    extracted.segments.retain(|segment| segment.page != Some(1));
    let segment =
        DocumentSegment { page: Some(1), lines: None, heading: None, text, inner: None, columns: None };
    extracted.segments.insert(0, segment);
    extracted.scans.retain(|page| *page != 1);
    extracted.damaged_pages.retain(|page| *page != 1);
    extracted.images.retain(|image| image.page != Some(1));
    if is_cut && !extracted.cut_pages.contains(&1) {
        extracted.cut_pages.insert(0, 1);
    }
    Ok(())
}

pub(super) fn load_pdf(bytes: &[u8]) -> Result<Pdf, ExtractError> {
    let loaded = catch_unwind(|| Pdf::new(bytes.to_vec()));
    match loaded {
        Err(_) => Err(ExtractError::broken_file("PDF", "its structure cannot be read")),
        Ok(Ok(document)) => Ok(document),
        Ok(Err(LoadPdfError::Decryption(DecryptionError::PasswordProtected))) => {
            Err(ExtractError::Encrypted("PDF"))
        }
        Ok(Err(LoadPdfError::Decryption(_))) => {
            Err(ExtractError::broken_file("PDF", "its encryption is unknown"))
        }
        Ok(Err(LoadPdfError::Invalid)) => {
            Err(ExtractError::broken_file("PDF", "its structure cannot be read"))
        }
    }
}

/// The text of a page while it is drawn.
struct Drawing<'l, 'd> {
    letters: &'l mut GlyphLetters<'d>,
    lines: Vec<DrawnLine>,
    glyphs: usize,
    operations: usize,
    clips: usize,
    /// True if text, or more that may hold some, was left out.
    is_cut: bool,
    /// The place of the last run that was filled, which may be drawn once more for its outline.
    filled_at: Option<Point>,
    /// The area of the page, and the part of it that images cover; overlapping images count twice.
    area: f64,
    covered: f64,
    images: PageImages,
}

impl<'l, 'd> Drawing<'l, 'd> {
    fn with_letters(letters: &'l mut GlyphLetters<'d>) -> Self {
        Self {
            letters,
            lines: Vec::new(),
            glyphs: 0,
            operations: 0,
            clips: 0,
            is_cut: false,
            filled_at: None,
            area: 0.0,
            covered: 0.0,
            images: PageImages::default(),
        }
    }

    fn draw_page<'a>(&mut self, document: &'a Pdf, page: &Page<'a>, cache: &InterpreterCache<'a>) {
        let start = Affine::new(page.initial_transform(true).as_coeffs());
        let (width, height) = page.render_dimensions();
        let bounds = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
        self.area = bounds.area();
        let mut context = Context::new(start, bounds, cache, document.xref(), InterpreterSettings::default());
        interpret_page(page, &mut context, self);
    }

    /// Returns the text of the page, and true if it exceeds the limit.
    fn into_text(self) -> (String, bool) {
        let lines = self.lines.iter();
        let is_backward = is_page_right_to_left(lines.map(|line| line.line.text.as_str()));
        let lines: Vec<PdfLine> = self.lines.into_iter().map(|line| line.into_line(is_backward)).collect();
        let mut text = assemble_paragraphs(&lines);
        let is_cut = text.len() > OUTPUT_MAX_BYTES;
        text.truncate(text.floor_char_boundary(OUTPUT_MAX_BYTES));
        (text, is_cut)
    }

    /// Counts an operation. Ends the page by unwinding when there are too many, because the library cannot be stopped
    /// otherwise; text drawn until then stays.
    fn count_operation(&mut self) {
        self.operations += 1;
        if self.operations > OPERATIONS_MAX || self.clips > CLIPS_MAX || self.glyphs > GLYPHS_MAX {
            self.is_cut = true;
            resume_unwind(Box::new("the page draws too much"));
        }
    }

    /// Adds a glyph. `unit` is the length of a unit of its font along the line, if the font does not define it.
    fn add_glyph(
        &mut self,
        glyph: &PositionedGlyph<'_>,
        transform: Affine,
        mode: WritingMode,
        unit: Option<f64>,
    ) {
        self.glyphs += 1;
        let Some(text) = self.letters.of_glyph(glyph) else { return };
        let origin = transform * Point::ORIGIN;
        let ahead = match mode {
            WritingMode::Horizontal => transform * Point::new(1.0, 0.0) - origin,
            WritingMode::Vertical => transform * Point::new(0.0, -1.0) - origin,
        };
        let drawn_length = ahead.hypot();
        let length = unit.unwrap_or(drawn_length);
        let size = (transform.determinant().abs() * length / drawn_length).sqrt() * UNITS_PER_SIZE;
        if !(origin.is_finite() && size.is_finite() && length > 0.0) {
            return;
        }
        if self.lines.len() > LINES_MAX {
            self.is_cut = true;
            return;
        }
        if text.contains(char::is_alphanumeric) {
            self.images.add_letter(origin);
        }
        let direction = ahead / drawn_length;
        let width = match mode {
            WritingMode::Horizontal => f64::from(glyph_advance(glyph).unwrap_or(500.0)) * length,
            WritingMode::Vertical => size,
        };
        let across = Vec2::new(-direction.y, direction.x);
        let (x, y) = (origin.to_vec2().dot(direction), origin.to_vec2().dot(across));
        let angle = direction.y.atan2(direction.x).to_degrees().round();
        #[expect(clippy::cast_possible_truncation, reason = "at most 180")]
        let angle = angle as i32;
        self.place_glyph(&PdfLine { left: x, right: x + width, y, size, angle, text });
    }

    /// Adds a glyph to the last line or begins another one.
    fn place_glyph(&mut self, glyph: &PdfLine) {
        let size = glyph.size;
        let Some(drawn) = self.lines.last_mut().filter(|DrawnLine { line, .. }| {
            line.angle == glyph.angle && (glyph.y - line.y).abs() < 0.5 * size.max(line.size)
        }) else {
            return self.lines.push(DrawnLine::from_glyph(glyph));
        };
        let room = 2.0 * size.max(1.0);
        let line = &mut drawn.line;
        if glyph.left > line.right - room {
            match glyph.left - line.right {
                gap if gap > CELL_GAP * size => line.text.push('\t'),
                gap if gap > WORD_GAP * size && !line.text.ends_with([' ', '\t']) => line.text.push(' '),
                _ => {}
            }
        } else {
            // Words and letters from right to left are drawn in any order.
            let is_backward = drawn.is_backward || glyph.text.contains(is_right_to_left);
            let goes_on = drawn.glyphs.last().is_some_and(|last| (glyph.left - last.right).abs() < room);
            if !(is_backward && (goes_on || glyph.right < line.left + room)) {
                return self.lines.push(DrawnLine::from_glyph(glyph));
            }
        }
        drawn.append_glyph(glyph);
    }
}

/// A line with the places of its glyphs, as drawn.
struct DrawnLine {
    line: PdfLine,
    glyphs: Vec<GlyphPlace>,
    /// True if it has letters from right to left.
    is_backward: bool,
}

impl DrawnLine {
    fn from_glyph(glyph: &PdfLine) -> Self {
        let line = PdfLine { text: String::new(), ..glyph.clone() };
        let mut drawn = Self { line, glyphs: Vec::new(), is_backward: false };
        drawn.append_glyph(glyph);
        drawn
    }

    /// Appends a glyph to the drawn ones.
    fn append_glyph(&mut self, glyph: &PdfLine) {
        let line = &mut self.line;
        let begin = line.text.len();
        push_glyph(&mut line.text, &glyph.text);
        let end = line.text.len();
        self.glyphs.push(GlyphPlace { left: glyph.left, right: glyph.right, begin, end });
        self.is_backward = self.is_backward || glyph.text.contains(is_right_to_left);
        line.left = line.left.min(glyph.left);
        line.right = line.right.max(glyph.right);
        line.size = line.size.max(glyph.size);
    }

    /// Returns the line in reading order.
    fn into_line(self, is_page_backward: bool) -> PdfLine {
        let Self { line, glyphs, is_backward } = self;
        if !is_backward {
            return line;
        }
        let gaps = Gaps { word: WORD_GAP * line.size, cell: CELL_GAP * line.size };
        PdfLine { text: logical_line(&line.text, &glyphs, gaps, is_page_backward), ..line }
    }
}

fn glyph_advance(glyph: &Glyph<'_>) -> Option<f32> {
    match glyph {
        Glyph::Outline(outline) => outline.advance_width(),
        Glyph::Type3(drawn) => drawn.advance_width(),
    }
}

/// Returns the length of a unit along the line in a run of a font that the document lacks. The library stretches the glyphs
/// of its substitute, each to the width that the document says, so their units have different lengths.
fn unit_of_substitute(run: &GlyphRun<'_, '_>, transform: Affine) -> Option<f64> {
    let drawn: Vec<(Point, f64, Option<f32>)> = run
        .glyphs()
        .iter()
        .map(|glyph| {
            let transform = transform * glyph.transform();
            let origin = transform * Point::ORIGIN;
            (origin, (transform * Point::new(1.0, 0.0) - origin).hypot(), glyph_advance(glyph))
        })
        .collect();
    let (shortest, longest) =
        drawn.iter().fold((f64::MAX, 0.0_f64), |(low, high), (_, unit, _)| (low.min(*unit), high.max(*unit)));
    if longest <= shortest * SAME_UNIT_FACTOR {
        return None;
    }
    // The distance to the next glyph is this glyph's width, for most of them.
    let mut units: Vec<f64> = drawn
        .windows(2)
        .filter_map(|pair| Some((pair[1].0 - pair[0].0).hypot() / f64::from(pair[0].2?)))
        .filter(|unit| unit.is_finite() && *unit > 0.0)
        .collect();
    let middle = units.len() / 2;
    (!units.is_empty()).then(|| *units.select_nth_unstable_by(middle, f64::total_cmp).1)
}

impl<'a> Device<'a> for Drawing<'_, '_> {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, mode: &DrawMode) {
        self.count_operation();
        let transform = props.transform;
        let at = run.glyphs().first().map(|glyph| transform * glyph.transform() * Point::ORIGIN);
        if matches!(mode, DrawMode::Stroke(_)) && at.is_some() && self.filled_at == at {
            return;
        }
        self.filled_at = at;
        let mode = run.writing_mode();
        let unit = match mode {
            WritingMode::Horizontal => unit_of_substitute(run, transform),
            WritingMode::Vertical => None,
        };
        for glyph in run.glyphs() {
            if self.glyphs > GLYPHS_MAX {
                self.is_cut = true;
                break;
            }
            self.add_glyph(glyph, transform * glyph.transform(), mode, unit);
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {
        self.count_operation();
    }

    fn push_clip_path(&mut self, _: &ClipPath) {
        self.clips += 1;
        self.count_operation();
    }

    fn push_clip_rect(&mut self, _: &Rect) {
        self.clips += 1;
        self.count_operation();
    }

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {
        self.count_operation();
    }

    fn draw_image(&mut self, image: Image<'a, '_>, props: ImageDrawProps<'a>) {
        self.count_operation();
        let pixels = f64::from(image.width()) * f64::from(image.height());
        let covered = pixels * props.transform.determinant().abs() / self.area.max(1.0);
        if covered.is_finite() {
            self.covered += covered;
        }
        self.images.add_image(&image, props.transform);
    }
    fn draw_rect(&mut self, _: &Rect, _: DrawProps<'a>, _: &DrawMode) {
        self.count_operation();
    }

    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
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
