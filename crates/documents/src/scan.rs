//! Renders the images of a PDF's page, in gray, as placed on it, for text recognition of a scan.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hayro_interpret::font::GlyphRun;
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageData, ImageDrawProps,
    InterpreterCache, InterpreterSettings, SoftMask, interpret_page,
};

/// The resolution in pixels per inch, and the resolution of a page whose pixels would exceed their limit.
const DPI: f64 = 300.0;
const DPI_MIN: f64 = 70.0;
/// The maximum number of pixels of a page, and of one image on it.
const PIXELS_MAX: f64 = 25e6;
const IMAGE_PIXELS_MAX: u64 = 100_000_000;
/// The maximum number of samples of an image for one pixel, in each direction.
const SAMPLES_MAX: u32 = 4;
const POINTS_PER_INCH: f64 = 72.0;

/// A page in gray.
pub(crate) struct GrayPage {
    width: usize,
    height: usize,
    pub(crate) dpi: u32,
    pixels: Vec<u8>,
}

impl GrayPage {
    /// Returns the page as a portable graymap.
    pub(crate) fn into_pgm(self) -> Vec<u8> {
        let mut out = format!("P5\n{} {}\n255\n", self.width, self.height).into_bytes();
        out.extend_from_slice(&self.pixels);
        out
    }
}

/// Renders the images of a page, counted from 1, or of an area of it, in points from its upper left corner. Returns `None` if the
/// page does not exist or it cannot be interpreted.
pub(crate) fn render_page_images(document: &Pdf, page: u32, area: Option<Rect>) -> Option<GrayPage> {
    catch_unwind(AssertUnwindSafe(|| draw_page_images(document, page, area))).ok().flatten()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded by the maximum pixels of a page"
)]
fn draw_page_images(document: &Pdf, page: u32, area: Option<Rect>) -> Option<GrayPage> {
    let page = document.pages().get((page as usize).checked_sub(1)?)?;
    let (width, height) = page.render_dimensions();
    let whole = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
    let shown = area.map_or(whole, |area| area.intersect(whole));
    let (width, height) = (shown.width(), shown.height());
    let area = width * height;
    if !(area.is_finite() && width >= 1.0 && height >= 1.0) {
        return None;
    }
    let scale = (DPI / POINTS_PER_INCH).min((PIXELS_MAX / area).sqrt());
    let dpi = (scale * POINTS_PER_INCH).max(DPI_MIN) as u32;
    let (columns, rows) = ((width * scale) as usize, (height * scale) as usize);
    let pixels = vec![255; columns.max(1) * rows.max(1)];
    let mut gray = GrayPage { width: columns.max(1), height: rows.max(1), dpi, pixels };
    let origin = Affine::translate((-shown.x0, -shown.y0));
    let start = Affine::scale(scale) * origin * Affine::new(page.initial_transform(true).as_coeffs());
    let bounds = Rect::new(0.0, 0.0, width * scale, height * scale);
    let cache = InterpreterCache::new();
    let mut context = Context::new(start, bounds, &cache, document.xref(), InterpreterSettings::default());
    interpret_page(page, &mut context, &mut gray);
    Some(gray)
}

impl GrayPage {
    /// Draws samples of an image, whose pixels `transform` maps to the page. `sample` returns the gray value at a column
    /// and row of the image; `None` leaves the pixel unchanged.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the page")]
    fn paste_samples(
        &mut self,
        size: (u32, u32),
        transform: Affine,
        sample: impl Fn(usize, usize) -> Option<u8>,
    ) {
        let (width, height) = (f64::from(size.0), f64::from(size.1));
        let determinant = transform.determinant();
        if !determinant.is_finite() || determinant.abs() < 1e-9 {
            return;
        }
        let inverse = transform.inverse();
        let covered = transform.transform_rect_bbox(Rect::new(0.0, 0.0, width, height));
        let columns =
            (covered.x0.max(0.0) as usize)..(covered.x1.ceil().clamp(0.0, self.width as f64) as usize);
        let rows =
            (covered.y0.max(0.0) as usize)..(covered.y1.ceil().clamp(0.0, self.height as f64) as usize);
        // Shrunk images are averaged, so that thin strokes stay.
        let shrunk = (1.0 / determinant.abs()).sqrt().ceil().clamp(1.0, f64::from(SAMPLES_MAX)) as u32;
        for row in rows {
            for column in columns.clone() {
                let (mut sum, mut count) = (0_u32, 0_u32);
                for step in 0..shrunk * shrunk {
                    let within = |step: u32| (f64::from(step) + 0.5) / f64::from(shrunk);
                    let at = inverse
                        * Point::new(
                            column as f64 + within(step % shrunk),
                            row as f64 + within(step / shrunk),
                        );
                    if (0.0..width).contains(&at.x)
                        && (0.0..height).contains(&at.y)
                        && let Some(value) = sample(at.x as usize, at.y as usize)
                    {
                        sum += u32::from(value);
                        count += 1;
                    }
                }
                if let Some(value) = sum.checked_div(count) {
                    self.pixels[row * self.width + column] = value as u8;
                }
            }
        }
    }
}

/// Joins the lines of recognized text to paragraphs, each one line; blank lines separate them.
pub(super) fn join_recognized_lines(text: &str) -> String {
    let mut out = String::new();
    let mut is_begun = false;
    for line in text.lines().map(str::trim) {
        let line = line.replace(|letter: char| letter.is_control(), " ");
        if line.is_empty() {
            is_begun = false;
            continue;
        }
        if is_begun {
            let is_split = out.ends_with('-')
                && out.trim_end_matches('-').ends_with(char::is_alphabetic)
                && line.starts_with(char::is_lowercase);
            if is_split {
                out.pop();
            } else {
                out.push(' ');
            }
        } else if !out.is_empty() {
            out.push_str("\n\n");
        }
        out.push_str(&line);
        is_begun = true;
    }
    out
}

fn scale_transform(transform: Affine, factors: (f32, f32)) -> Affine {
    transform * Affine::scale_non_uniform(f64::from(factors.0), f64::from(factors.1))
}

impl<'a> Device<'a> for GrayPage {
    fn draw_image(&mut self, image: Image<'a, '_>, props: ImageDrawProps<'a>) {
        if u64::from(image.width()) * u64::from(image.height()) > IMAGE_PIXELS_MAX {
            return;
        }
        match image {
            Image::Raster(raster) => raster.with_rgba(
                |data, _| {
                    let size = (data.width(), data.height());
                    let transform = scale_transform(props.transform, data.scale_factors());
                    let columns = size.0 as usize;
                    match &data {
                        ImageData::Luma(luma) => {
                            self.paste_samples(size, transform, |x, y| {
                                luma.data.get(y * columns + x).copied()
                            });
                        }
                        ImageData::Rgb(rgb) => self.paste_samples(size, transform, |x, y| {
                            let [red, green, blue] = *rgb.data.get(3 * (y * columns + x)..)?.first_chunk()?;
                            // The luminance of ITU-R BT.601.
                            let gray = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
                            u8::try_from(gray / 1000).ok()
                        }),
                    }
                },
                None,
            ),
            // Any color counts as ink.
            Image::Stencil(stencil) => stencil.with_stencil(
                |mask, _| {
                    let transform = scale_transform(props.transform, mask.scale_factors);
                    let columns = mask.width as usize;
                    self.paste_samples((mask.width, mask.height), transform, |x, y| {
                        Some(255 - mask.data.get(y * columns + x)?)
                    });
                },
                None,
            ),
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}
    fn draw_glyph_run(&mut self, _: &GlyphRun<'_, 'a>, _: DrawProps<'a>, _: &DrawMode) {}
    fn push_clip_path(&mut self, _: &ClipPath) {}
    fn push_clip_rect(&mut self, _: &Rect) {}
    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}
    fn draw_rect(&mut self, _: &Rect, _: DrawProps<'a>, _: &DrawMode) {}
    fn pop_clip(&mut self) {}
    fn pop_transparency_group(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognized_lines_become_paragraphs() {
        let text = "Nájemné činí 15 000 Kč a je splatné do pá-\ntého dne.\n \nKauce\nje 3 měsíce.\n\u{c}";
        assert_eq!(
            join_recognized_lines(text),
            "Nájemné činí 15 000 Kč a je splatné do pátého dne.\n\nKauce je 3 měsíce."
        );
    }

    #[test]
    fn images_are_drawn_where_they_lie() {
        let white = vec![255; 16];
        let mut page = GrayPage { width: 4, height: 4, dpi: 72, pixels: white };
        // Two by two pixels, shown twice as large and half beyond the right edge.
        let image = [0_u8, 10, 20, 30];
        page.paste_samples((2, 2), Affine::translate((2.0, 0.0)) * Affine::scale(2.0), |x, y| {
            Some(image[2 * y + x])
        });
        assert_eq!(page.pixels[..8], [255, 255, 0, 0, 255, 255, 0, 0]);
        assert_eq!(page.pixels[8..], [255, 255, 20, 20, 255, 255, 20, 20]);
        page.paste_samples((8, 8), Affine::scale(0.5), |x, _| Some(if x % 2 == 0 { 0 } else { 200 }));
        assert!(page.pixels.iter().all(|pixel| *pixel == 100), "shrunk pixels are averaged");
        page.paste_samples((2, 2), Affine::scale(0.0), |_, _| Some(1));
    }
}
