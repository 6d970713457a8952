//! Draws pages of a PDF as pictures, for their preview and for models.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hayro::vello_cpu::color::palette::css::WHITE;
use hayro::vello_cpu::{Pixmap, RasterizerSettings, RenderContext, Resources, TargetInit};
use hayro::{RenderCache, RenderSettings, render_into};
use hayro_interpret::InterpreterSettings;
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::page::Page;
use hayro_interpret::kurbo::Affine;

use super::drawn::{PageSize, PictureSize};

/// Returns the sizes of pages, from `first` on, counted from 1; at most `max`, and none after one that cannot be read.
pub(super) fn pdf_page_sizes(document: &Pdf, first: u32, max: u32) -> Vec<PageSize> {
    let sizes = || {
        let pages = document.pages().iter().skip(first.saturating_sub(1) as usize).take(max as usize);
        pages.map_while(pdf_page_size).collect()
    };
    catch_unwind(AssertUnwindSafe(sizes)).unwrap_or_default()
}

/// The divisors of a picture's sides, tried in order until its file is small enough.
const DIVISORS: [u32; 3] = [1, 2, 4];

/// Returns the number of pages.
pub(super) fn pdf_page_count(document: &Pdf) -> u32 {
    let count = catch_unwind(AssertUnwindSafe(|| document.pages().len()));
    u32::try_from(count.unwrap_or(0)).unwrap_or(u32::MAX)
}

/// Draws a page, counted from 1, as a PNG. Returns `None` if the page does not exist or it cannot be drawn within these
/// limits.
pub(super) fn draw_pdf_page(document: &Pdf, page: u32, size: PictureSize) -> Option<Vec<u8>> {
    let mut pictures = DIVISORS.into_iter().map_while(|divisor| {
        draw_sized_page(document, page, |page_size| {
            let (columns, rows) = (size.pixels)(page_size);
            (columns.div_ceil(divisor), rows.div_ceil(divisor))
        })
    });
    pictures.find(|picture| size.max_bytes.is_none_or(|max_bytes| picture.len() <= max_bytes))
}

/// Draws a page as a PNG of this many columns and rows.
fn draw_sized_page(document: &Pdf, page: u32, picture: impl Fn(PageSize) -> (u32, u32)) -> Option<Vec<u8>> {
    let draw = || {
        let page = document.pages().get((page as usize).checked_sub(1)?)?;
        draw_page(page, picture(pdf_page_size(page)?))
    };
    catch_unwind(AssertUnwindSafe(draw)).ok().flatten()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float that is too large saturates"
)]
fn pdf_page_size(page: &Page<'_>) -> Option<PageSize> {
    let (width, height) = page.render_dimensions();
    let is_size = |side: f32| side.is_finite() && side >= 1.0;
    (is_size(width) && is_size(height))
        .then(|| PageSize { width: width.round() as u32, height: height.round() as u32 })
}

fn draw_page(page: &Page<'_>, (columns, rows): (u32, u32)) -> Option<Vec<u8>> {
    let (width, height) = page.render_dimensions();
    let scale =
        Affine::scale_non_uniform(f64::from(columns) / f64::from(width), f64::from(rows) / f64::from(height));
    let transform = scale * Affine::new(page.initial_transform(true).as_coeffs());
    let (columns, rows) = (u16::try_from(columns).ok()?, u16::try_from(rows).ok()?);
    let mut context = RenderContext::new(columns, rows);
    let cache = RenderCache::new();
    let settings = InterpreterSettings::default();
    render_into(page, &cache, &settings, &RenderSettings::default(), &mut context, transform);
    context.flush();
    let mut picture = Pixmap::new(columns, rows);
    let onto_white =
        RasterizerSettings { target_init: TargetInit::Clear(WHITE), ..RasterizerSettings::default() };
    context.render_with(&mut picture, &mut Resources::default(), onto_white);
    picture.into_png().ok()
}
