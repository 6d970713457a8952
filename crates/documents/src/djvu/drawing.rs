//! Draws the text of a DjVu page without a text layer: the shapes of its foreground, in gray.

use std::panic::{AssertUnwindSafe, catch_unwind};

use djvu_jb2::{decode, decode_dict};

use super::structure::{DjvuPage, Structure};

/// The maximum number of pixels of a page that is drawn at full size; on larger pages four pixels become one.
const PIXELS_MAX: u64 = 25_000_000;

/// Draws a page, counted from 1, as a portable graymap, and returns it with its pixels per inch. Returns `None` if the page does
/// not exist, or it has no foreground that can be decoded.
pub(crate) fn render_djvu_page(bytes: &[u8], page: u32) -> Option<(Vec<u8>, u32)> {
    let drawn = || {
        let document = Structure::from_bytes(bytes).ok()?;
        let page = (*document.pages.get((page as usize).checked_sub(1)?)?)?;
        draw_djvu_page(&document, page)
    };
    catch_unwind(AssertUnwindSafe(drawn)).ok().flatten()
}

fn draw_djvu_page(document: &Structure<'_>, page: DjvuPage<'_>) -> Option<(Vec<u8>, u32)> {
    let shapes = page.find_chunk(b"Sjbz")?;
    let dictionary = match document.shape_dictionary(page) {
        Some(dictionary) => Some(decode_dict(dictionary, None).ok()?),
        None => None,
    };
    let mask = decode(shapes, dictionary.as_ref()).ok()?;
    let is_large = u64::from(mask.width) * u64::from(mask.height) > PIXELS_MAX;
    let step = if is_large { 2 } else { 1 };
    let (width, height) = (mask.width.div_ceil(step), mask.height.div_ceil(step));
    let mut graymap = format!("P5\n{width} {height}\n255\n").into_bytes();
    graymap.reserve(width as usize * height as usize);
    let stride = mask.row_stride();
    let is_ink = |column: u32, row: u32| {
        let byte = mask.data.get(row as usize * stride + column as usize / 8);
        column < mask.width && byte.is_some_and(|byte| byte >> (7 - column % 8) & 1 == 1)
    };
    for row in 0..height {
        for column in 0..width {
            let within = (0..step * step).map(|part| (column * step + part % step, row * step + part / step));
            let ink = within.filter(|(column, row)| is_ink(*column, *row)).count();
            let share = 255 * ink / (step * step) as usize;
            graymap.push(255 - u8::try_from(share).unwrap_or(u8::MAX));
        }
    }
    Some((graymap, page.dpi() / step))
}
