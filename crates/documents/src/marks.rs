//! Finds a passage on a page of a PDF: the areas of its lines, so that a picture of the page can show it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hayro_interpret::font::{Glyph, GlyphRun};
use hayro_interpret::hayro_cmap::BfString;
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps, InterpreterCache,
    InterpreterSettings, SoftMask, interpret_page,
};
use unicode_normalization::UnicodeNormalization;

/// An area of a page, in points from its top left corner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassageMark {
    pub left: u32,
    pub top: u32,
    pub width: u32,
    pub height: u32,
}

/// The maximum number of letters per page; further ones are not searched.
const LETTERS_MAX: usize = 200_000;
/// The minimum number of letters that are searched for: shorter texts match anywhere.
const SOUGHT_MIN: usize = 10;
/// The units of a glyph's space in a font size, and how far letters reach above and below their line.
const UNITS_PER_SIZE: f64 = 1000.0;
const ABOVE: f64 = 0.8;
const BELOW: f64 = 0.25;

/// Returns the areas of a passage on a page, counted from 1, one for each line and at most `max`; none if it is not found.
pub(super) fn find_marks(document: &Pdf, page: u32, passage: &str, max: usize) -> Vec<PassageMark> {
    catch_unwind(AssertUnwindSafe(|| {
        let letters = PageLetters::from_page(document, page)?;
        Some(find_passage_areas(&letters.0, passage, max))
    }))
    .ok()
    .flatten()
    .unwrap_or_default()
}

/// The letters and digits of a page in the order in which they are drawn.
#[derive(Default)]
struct PageLetters(Vec<Letter>, Option<Point>);

#[derive(Debug, Clone, Copy)]
struct Letter {
    letter: char,
    area: Rect,
}

impl PageLetters {
    fn from_page(document: &Pdf, page: u32) -> Option<Self> {
        let page = document.pages().get((page as usize).checked_sub(1)?)?;
        let start = Affine::new(page.initial_transform(true).as_coeffs());
        let (width, height) = page.render_dimensions();
        let bounds = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
        let cache = InterpreterCache::new();
        let mut context =
            Context::new(start, bounds, &cache, document.xref(), InterpreterSettings::default());
        let mut letters = Self::default();
        interpret_page(page, &mut context, &mut letters);
        Some(letters)
    }

    fn add_glyph(&mut self, glyph: &Glyph<'_>, transform: Affine) {
        let text = match glyph.as_unicode() {
            Some(BfString::Char(letter)) => letter.to_string(),
            Some(BfString::String(text)) => text,
            None => char::from_u32(glyph.char_code())
                .filter(char::is_ascii)
                .map_or_else(String::new, String::from),
        };
        let advance = match glyph {
            Glyph::Outline(outline) => outline.advance_width(),
            Glyph::Type3(drawn) => drawn.advance_width(),
        };
        let advance = f64::from(advance.unwrap_or(500.0));
        let space = Rect::new(0.0, -BELOW * UNITS_PER_SIZE, advance, ABOVE * UNITS_PER_SIZE);
        let area = transform.transform_rect_bbox(space);
        if area.is_finite() {
            self.0.extend(comparable_letters(&text).map(|letter| Letter { letter, area }));
        }
    }
}

/// Returns the letters and digits by which texts are compared.
fn comparable_letters(text: &str) -> impl Iterator<Item = char> + '_ {
    text.nfkc().filter(|letter| letter.is_alphanumeric())
}

/// Returns the areas of a passage, one for each line; of its paragraphs alone if the page does not contain it as a whole.
fn find_passage_areas(page: &[Letter], passage: &str, max: usize) -> Vec<PassageMark> {
    let drawn: Vec<char> = page.iter().map(|letter| letter.letter).collect();
    let text: String = drawn.iter().collect();
    let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    starts.push(text.len());
    let find = |sought: &str| {
        let sought: String = comparable_letters(sought).collect();
        let count = sought.chars().count();
        let at = (count >= SOUGHT_MIN).then(|| text.find(&sought)).flatten()?;
        let first = starts.binary_search(&at).ok()?;
        Some(first..first + count)
    };
    let ranges = match find(passage) {
        Some(range) => vec![range],
        None => passage.lines().filter_map(find).collect(),
    };
    let mut lines = Vec::<Rect>::new();
    for range in ranges {
        let mut is_begun = false;
        for letter in &page[range] {
            let area = letter.area;
            let line = lines.last_mut().filter(|line| is_begun && is_same_line(line, &area));
            if let Some(line) = line {
                *line = line.union(area);
            } else if lines.len() < max {
                lines.push(area);
            } else {
                break;
            }
            is_begun = true;
        }
    }
    lines.iter().filter_map(area_to_mark).collect()
}

fn is_same_line(line: &Rect, letter: &Rect) -> bool {
    (line.center().y - letter.center().y).abs() < 0.5 * line.height().min(letter.height())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float that is too large saturates"
)]
fn area_to_mark(area: &Rect) -> Option<PassageMark> {
    let (left, top) = (area.x0.max(0.0).floor(), area.y0.max(0.0).floor());
    let (width, height) = (area.x1.ceil() - left, area.y1.ceil() - top);
    (width >= 1.0 && height >= 1.0).then_some(PassageMark {
        left: left as u32,
        top: top as u32,
        width: width as u32,
        height: height as u32,
    })
}

impl<'a> Device<'a> for PageLetters {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, mode: &DrawMode) {
        let at = run.glyphs().first().map(|glyph| props.transform * glyph.transform() * Point::ORIGIN);
        // A text that was filled may be drawn once more for its outline.
        if matches!(mode, DrawMode::Stroke(_)) && at.is_some() && self.1 == at {
            return;
        }
        self.1 = at;
        for glyph in run.glyphs() {
            if self.0.len() < LETTERS_MAX {
                self.add_glyph(glyph, props.transform * glyph.transform());
            }
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_clip_rect(&mut self, _: &Rect) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {}
    fn draw_rect(&mut self, _: &Rect, _: DrawProps<'a>, _: &DrawMode) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters of lines of a page, each ten points wide and high.
    fn page_with_lines(lines: &[&str]) -> Vec<Letter> {
        let mut drawn = Vec::new();
        for (row, line) in lines.iter().enumerate() {
            for (column, letter) in line.chars().enumerate() {
                let (x, y) = (10.0 * column as f64, 20.0 * row as f64);
                let area = Rect::new(x, y, x + 10.0, y + 10.0);
                drawn.extend(comparable_letters(&letter.to_string()).map(|letter| Letter { letter, area }));
            }
        }
        drawn
    }

    #[test]
    fn find_passage_areas_one_per_line() {
        let page = page_with_lines(&["Before. The rent is", "18,500 crowns a mon-", "th. After."]);
        let found = find_passage_areas(&page, "The rent is 18,500 crowns a month.", 10);
        let area = |left, top, width| PassageMark { left, top, width, height: 10 };
        assert_eq!(found, vec![area(80, 0, 110), area(0, 20, 190), area(0, 40, 20)]);
        assert_eq!(find_passage_areas(&page, "The deposit is 10 crowns.", 10), vec![]);
        assert_eq!(find_passage_areas(&page, "The rent", 10), vec![], "too short to be found at its place");
    }

    #[test]
    fn find_passage_areas_paragraphs_alone() {
        let page = page_with_lines(&["The rent is due.", "The notice period ends."]);
        let found = find_passage_areas(&page, "Lease › Notice\nThe notice period ends.", 10);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].top, 20);
    }
}
