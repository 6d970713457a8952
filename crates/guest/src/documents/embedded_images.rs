//! Images inside documents that have text: which of them may show text, and where they stand.

use std::io::Read;

use domain::image::ImageKind;
use serde::{Deserialize, Serialize};

use super::archive::Archive;

/// The maximum number of images of a document; further ones are not looked at.
pub(super) const IMAGES_MAX: usize = 100;
/// The least sides of an image whose text is recognized, in pixels: smaller ones are symbols and signs.
const WIDTH_MIN: u32 = 200;
const HEIGHT_MIN: u32 = 60;
/// The most pixels of one image, and of all images of a document together; further ones are left out.
const PIXELS_MAX: u64 = 25_000_000;
const TOTAL_PIXELS_MAX: u64 = 200_000_000;
/// The largest image in bytes, and the beginning that has its sides.
const IMAGE_MAX_BYTES: u64 = 16 * 1024 * 1024;
const HEAD_BYTES: u64 = 128 * 1024;

/// An image inside a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedImage {
    /// The name of its part in the document's archive.
    pub part: String,
    /// The page that it is on, where the format has pages.
    pub page: Option<u32>,
    /// The last line before it, where the format has lines.
    pub line: Option<u32>,
    /// The heading above it.
    pub heading: Option<String>,
}

/// Leaves out the images that are too small or too large to be recognized, or of another kind. Damage of an image is no
/// damage of its document.
pub(super) fn retain_recognizable(archive: &mut Archive<'_>, images: &mut Vec<EmbeddedImage>) {
    let mut pixels_left = TOTAL_PIXELS_MAX;
    images.retain(|image| {
        let pixels = beginning(archive, &image.part, HEAD_BYTES).as_deref().and_then(recognizable_pixels);
        let left = pixels.and_then(|pixels| pixels_left.checked_sub(pixels));
        pixels_left = left.unwrap_or(pixels_left);
        left.is_some()
    });
}

/// Returns the content of an image in a document's archive, if it can be recognized.
pub(crate) fn content(document: &[u8], part: &str) -> Option<Vec<u8>> {
    let mut archive = Archive::open(document).ok()?;
    let image = beginning(&mut archive, part, IMAGE_MAX_BYTES + 1)?;
    let fits = image.len() as u64 <= IMAGE_MAX_BYTES && recognizable_pixels(&image).is_some();
    fits.then_some(image)
}

fn beginning(archive: &mut Archive<'_>, part: &str, max_bytes: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    archive.part(part).ok()??.take(max_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the number of pixels by the header of an image.
fn recognizable_pixels(image: &[u8]) -> Option<u64> {
    let (width, height) = ImageKind::of(image)?.sides(image)?;
    let pixels = u64::from(width) * u64::from(height);
    (width >= WIDTH_MIN && height >= HEIGHT_MIN && pixels <= PIXELS_MAX).then_some(pixels)
}
