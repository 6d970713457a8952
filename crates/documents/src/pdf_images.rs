//! Images beside the text of a PDF's page: images that may show text which is not on the page, and their pictures.

use std::collections::HashSet;

use hayro_interpret::kurbo::{Affine, Point, Rect};
use hayro_interpret::{CacheKey, Image};

use super::{EmbeddedImage, pdf, scan};

/// The maximum number of images of a page that are examined; a page with more consists of tiles.
const DRAWN_MAX: usize = 500;
/// The minimum sides of an area whose text is recognized, in points, and its minimum resolution in pixels per inch.
const WIDTH_MIN: f64 = 120.0;
const HEIGHT_MIN: f64 = 40.0;
const DPI_MIN: f64 = 60.0;
const POINTS_PER_INCH: f64 = 72.0;
/// Images with a smaller distance, in points, are strips of one.
const STRIP_GAP: f64 = 1.0;
/// An area with more letters of the page's text is a background, a scan with its text, or a figure with its words.
const LETTERS_MAX: usize = 12;

/// An area of a page that images cover.
#[derive(Debug, Clone, Copy)]
struct Area {
    rect: Rect,
    pixels: f64,
    /// Identifies the image drawn in it.
    key: u128,
}

/// The images of a page, and the places of its letters.
#[derive(Debug, Default)]
pub(super) struct PageImages {
    drawn: Vec<Area>,
    letters: Vec<Point>,
}

impl PageImages {
    /// Adds an image that is drawn on the page.
    pub(super) fn add_image(&mut self, image: &Image<'_, '_>, transform: Affine) {
        let (width, height) = (f64::from(image.width()), f64::from(image.height()));
        let rect = transform.transform_rect_bbox(Rect::new(0.0, 0.0, width, height));
        let key = match image {
            Image::Stencil(stencil) => stencil.cache_key(),
            Image::Raster(raster) => raster.cache_key(),
        };
        if rect.is_finite() && self.drawn.len() <= DRAWN_MAX {
            self.drawn.push(Area { rect, pixels: width * height, key });
        }
    }

    /// Adds a letter of the page's text.
    pub(super) fn add_letter(&mut self, at: Point) {
        self.letters.push(at);
    }

    /// Returns the areas of a page whose text is to be recognized, except areas `seen` on earlier pages.
    pub(super) fn into_embedded(self, page: u32, seen: &mut HashSet<u128>) -> Vec<EmbeddedImage> {
        if self.drawn.len() > DRAWN_MAX {
            return Vec::new();
        }
        let may_show_text = |area: &Area| {
            let dpi = (area.pixels / area.rect.area()).sqrt() * POINTS_PER_INCH;
            let letters = self.letters.iter().filter(|letter| area.rect.contains(**letter));
            area.rect.width() >= WIDTH_MIN
                && area.rect.height() >= HEIGHT_MIN
                && dpi >= DPI_MIN
                && letters.take(LETTERS_MAX + 1).count() <= LETTERS_MAX
        };
        let areas = join_touching_areas(self.drawn).into_iter().filter(may_show_text);
        areas
            .filter(|area| seen.insert(area.key))
            .map(|area| EmbeddedImage {
                part: area_part_name(area.rect),
                page: Some(page),
                line: None,
                heading: None,
            })
            .collect()
    }
}

/// Joins images that touch or cover each other.
fn join_touching_areas(mut drawn: Vec<Area>) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    while let Some(mut area) = drawn.pop() {
        // Areas that were apart may touch the grown area.
        while let Some(at) = areas.iter().position(|other| are_touching(area.rect, other.rect)) {
            let other = areas.swap_remove(at);
            let key = area.key.wrapping_add(other.key);
            area = Area { rect: area.rect.union(other.rect), pixels: area.pixels + other.pixels, key };
        }
        areas.push(area);
    }
    areas.sort_by(|one, other| one.rect.y0.total_cmp(&other.rect.y0));
    areas
}

fn are_touching(one: Rect, other: Rect) -> bool {
    one.inflate(STRIP_GAP, STRIP_GAP).overlaps(other)
}

/// Names an area of a page, in whole points.
fn area_part_name(area: Rect) -> String {
    let Rect { x0, y0, x1, y1 } = area.expand();
    format!("area {x0} {y0} {x1} {y1}")
}

fn parse_area_part(part: &str) -> Option<Rect> {
    let sides: Vec<f64> =
        part.strip_prefix("area ")?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [x0, y0, x1, y1] = sides[..] else { return None };
    Some(Rect::new(x0, y0, x1, y1))
}

/// Renders an area of a page, counted from 1, as a portable graymap, and returns it with its pixels per inch.
pub(super) fn render_image_area(document: &[u8], page: u32, part: &str) -> Option<(Vec<u8>, u32)> {
    let rendered =
        scan::render_page_images(&pdf::load_pdf(document).ok()?, page, Some(parse_area_part(part)?))?;
    let dpi = rendered.dpi;
    Some((rendered.into_pgm(), dpi))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn_area(x0: f64, y0: f64, x1: f64, y1: f64) -> Area {
        let rect = Rect::new(x0, y0, x1, y1);
        Area { rect, pixels: rect.area() * 4.0, key: rect.x0.to_bits().into() }
    }

    fn find_image_parts(drawn: &[Area], letters: &[Point]) -> Vec<String> {
        let images = PageImages { drawn: drawn.to_vec(), letters: letters.to_vec() };
        let found = images.into_embedded(3, &mut HashSet::new());
        assert!(found.iter().all(|image| image.page == Some(3)));
        found.into_iter().map(|image| image.part).collect()
    }

    #[test]
    fn pdf_image_strips_joined_small_ignored() {
        let strips: Vec<Area> = (0..20)
            .map(|n| f64::from(n) * 10.5)
            .map(|y| drawn_area(50.0, 100.0 + y, 350.0, 110.0 + y))
            .collect();
        let symbol = drawn_area(400.0, 100.0, 430.0, 130.0);
        assert_eq!(find_image_parts(&[&strips[..], &[symbol]].concat(), &[]), ["area 50 100 350 310"]);
        let coarse = Area { pixels: 50.0 * 30.0, ..drawn_area(50.0, 400.0, 550.0, 700.0) };
        assert!(find_image_parts(&[coarse], &[]).is_empty());
        assert!(find_image_parts(&[drawn_area(50.0, 100.0, 350.0, 300.0); DRAWN_MAX + 1], &[]).is_empty());
    }

    #[test]
    fn images_under_text_are_left_out() {
        let image = drawn_area(50.0, 100.0, 350.0, 300.0);
        let letters = |number: usize| vec![Point::new(60.0, 110.0); number];
        assert_eq!(find_image_parts(&[image], &letters(LETTERS_MAX)).len(), 1);
        assert!(find_image_parts(&[image], &letters(LETTERS_MAX + 1)).is_empty());
        assert_eq!(
            find_image_parts(&[image], &[Point::new(10.0, 10.0); 500]).len(),
            1,
            "text beside it is another's"
        );
    }

    #[test]
    fn pdf_repeated_image_read_once() {
        let mut seen = HashSet::new();
        let images = |x| PageImages { drawn: vec![drawn_area(x, 100.0, 350.0, 300.0)], letters: Vec::new() };
        assert_eq!(images(50.0).into_embedded(1, &mut seen).len(), 1);
        assert!(images(50.0).into_embedded(2, &mut seen).is_empty());
        assert_eq!(images(51.0).into_embedded(2, &mut seen).len(), 1);
    }

    #[test]
    fn areas_are_read_back() {
        let area = Rect::new(10.5, -3.2, 300.0, 200.9);
        assert_eq!(parse_area_part(&area_part_name(area)), Some(Rect::new(10.0, -4.0, 300.0, 201.0)));
        for odd in ["area 1 2 3", "word/media/image1.png", "area 1 2 3 x"] {
            assert_eq!(parse_area_part(odd), None, "{odd}");
        }
    }
}
