//! Images inside documents that have text: which of them may show text, and where they stand.

use std::path::Path;

use domain::image::ImageKind;
use domain::unread::{UnreadImage, UnreadImages};
use serde::{Deserialize, Serialize};

use super::archive::Archive;
use super::{ExtractError, Extracted};

/// The maximum number of images of a document whose text is recognized.
pub(crate) const IMAGES_MAX: usize = 100;
/// The maximum number of images of a document that are looked at: as many as an archive has parts.
pub(super) const LISTED_MAX: usize = 10_000;
/// The least sides of an image whose text is recognized, in pixels: smaller ones are symbols and signs.
const WIDTH_MIN: u32 = 200;
const HEIGHT_MIN: u32 = 60;
/// The most pixels of one image, and of all images of a document together.
const PIXELS_MAX: u64 = 25_000_000;
const TOTAL_PIXELS_MAX: u64 = 200_000_000;
/// The largest image in bytes, and the beginning that has its sides.
const IMAGE_MAX_BYTES: u64 = 16 * 1024 * 1024;
const HEAD_BYTES: u64 = 128 * 1024;

/// An image inside a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedImage {
    /// The name of its part in the document's archive, or its area on the page of a PDF.
    pub part: String,
    /// The page that it is on, where the format has pages.
    pub page: Option<u32>,
    /// The last line before it, where the format has lines.
    pub line: Option<u32>,
    /// The heading above it.
    pub heading: Option<String>,
}

/// Retains the images of a document that can be recognized, and counts those that would have to be, but are not. Symbols, drawings and
/// addresses of other files are neither.
pub(super) fn retain_recognizable(archive: &mut Archive<'_>, document: &mut Extracted) {
    let (mut images_left, mut pixels_left) = (IMAGES_MAX, TOTAL_PIXELS_MAX);
    let mut unread = UnreadImages::NONE;
    document.images.retain(|image| {
        let pixels = match pixels(archive, &image.part) {
            Ok(pixels) => pixels,
            Err(reason) => {
                unread.add(reason, 1);
                return false;
            }
        };
        let Some(pixels) = pixels else { return false };
        let left = pixels_left.checked_sub(pixels).filter(|_| images_left > 0);
        match left {
            Some(left) => (pixels_left, images_left) = (left, images_left - 1),
            None => unread.add(UnreadImage::TooMany, 1),
        }
        left.is_some()
    });
    document.unread_images = unread;
}

/// Returns the number of pixels of an image that may show text; `None` if the part is none.
fn pixels(archive: &mut Archive<'_>, part: &str) -> Result<Option<u64>, UnreadImage> {
    let Some(head) = beginning(archive, part, HEAD_BYTES)? else { return Ok(None) };
    let Some(kind) = ImageKind::of(&head) else {
        return if has_name_of_kind(part) { Err(UnreadImage::Failed) } else { Ok(None) };
    };
    let (width, height) = kind.sides(&head).ok_or(UnreadImage::Failed)?;
    if width < WIDTH_MIN || height < HEIGHT_MIN {
        return Ok(None);
    }
    let pixels = u64::from(width) * u64::from(height);
    let fits = pixels <= PIXELS_MAX && archive.declared_bytes(part) <= IMAGE_MAX_BYTES;
    if fits { Ok(Some(pixels)) } else { Err(UnreadImage::TooLarge) }
}

/// Returns true if the name promises an image of a kind that is recognized.
fn has_name_of_kind(part: &str) -> bool {
    let extension = Path::new(part).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        ["png", "jpg", "jpeg", "gif", "webp"].contains(&extension.to_ascii_lowercase().as_str())
    })
}

/// Returns the content of an image in a document's archive, if it can be recognized.
pub(super) fn content(document: &[u8], part: &str) -> Option<Vec<u8>> {
    let mut archive = Archive::open(document).ok()?;
    pixels(&mut archive, part).ok()??;
    let image = beginning(&mut archive, part, IMAGE_MAX_BYTES + 1).ok()??;
    (image.len() as u64 <= IMAGE_MAX_BYTES).then_some(image)
}

/// Returns the beginning of a part; `None` if there is no such part.
fn beginning(archive: &mut Archive<'_>, part: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, UnreadImage> {
    let too_large = |error| match error {
        ExtractError::Bomb { .. } => UnreadImage::TooLarge,
        _ => UnreadImage::Failed,
    };
    archive.beginning(part, max_bytes).map_err(too_large)
}
