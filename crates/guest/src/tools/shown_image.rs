//! Shows an image file to a model: unchanged, or drawn again if it is too large, rotated, or of a format that vendors do
//! not accept.
//!
//! The result has references only: the host reads the file, or has the image drawn, each time when it shows it.

use std::fs::File;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use documents::{INPUT_MAX_BYTES, ImageFile, ImageFormat};
use domain::image::{ImageKind, ImageRef};
use domain::unread::UnreadReason;
use protocol::preview::Viewer;
use protocol::session::image_out;
use protocol::tool::{FoundImage, ToolOutput};

use super::pictures::picture_size;

/// The longest time in which a picture is drawn: half of a worker's time when it is drawn again.
pub(super) const PICTURE_TIME_MAX: Duration = Duration::from_secs(5);
/// The number of bytes that determine whether a file is an image.
const IMAGE_MARK_BYTES: u64 = 256;

/// An image as a model sees it.
pub(super) struct ShownImage {
    pub(super) image: FoundImage,
    /// Its format, its sides in pixels, and how it is shown.
    pub(super) description: String,
}

/// The reason why an image cannot be shown.
pub(super) struct ShownImageError {
    pub(super) reason: UnreadReason,
    pub(super) why: String,
}

/// Returns the image in a file, or `None` if it is not an image.
pub(super) fn shown_image(name: &str, mut file: &File) -> Option<Result<ShownImage, ShownImageError>> {
    let mut bytes = Vec::new();
    file.take(IMAGE_MARK_BYTES).read_to_end(&mut bytes).ok()?;
    file.rewind().ok()?;
    ImageFormat::from_signature(&bytes)?;
    bytes.clear();
    file.take(INPUT_MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    file.rewind().ok()?;
    Some(of_bytes(name, &bytes))
}

/// Returns the result of a tool that shows an image.
pub(super) fn image_output(
    name: &str,
    shown: Result<ShownImage, ShownImageError>,
) -> Result<ToolOutput, String> {
    let shown = shown.map_err(|ShownImageError { why, .. }| format!("{name}: {why}"))?;
    let text = format!("{name}: {}.", shown.description);
    Ok(ToolOutput { text, images: vec![shown.image], ..ToolOutput::default() })
}

/// Returns the image with these bytes.
pub(super) fn of_bytes(name: &str, bytes: &[u8]) -> Result<ShownImage, ShownImageError> {
    let not_shown = |reason, why: &str| {
        Err(ShownImageError { reason, why: format!("an image that can't be shown: {why}") })
    };
    if bytes.len() as u64 > INPUT_MAX_BYTES {
        return not_shown(UnreadReason::TooLarge, &format!("it has more than {INPUT_MAX_BYTES} bytes"));
    }
    let Some(file) = ImageFile::from_bytes(bytes) else {
        return not_shown(UnreadReason::Broken, "it has changed");
    };
    let damaged = "it is damaged, or of an unusual kind";
    let Some((width, height)) = file.page_sides(1) else { return not_shown(UnreadReason::Broken, damaged) };
    if file.is_too_large() {
        return not_shown(UnreadReason::TooLarge, "it has too many pixels");
    }
    let pages = file.page_count();
    if let Some(image) = file.as_it_is(name).filter(|_| pages == 1) {
        let description = format!("{}, {width} x {height} pixels", image.kind.mime_type());
        return Ok(ShownImage { image: image_out(&image), description });
    }
    if !file.is_decodable() {
        return not_shown(UnreadReason::TooLarge, "it is larger than models accept");
    }
    let began = Instant::now();
    let drawn = file.draw_page(1, picture_size(Viewer::Model)).and_then(|picture| {
        let image = ImageRef::of_page(name, 1, &picture).ok()?;
        Some((image, ImageKind::from_bytes(&picture)?.dimensions(&picture)?))
    });
    let Some((image, (columns, rows))) = drawn else { return not_shown(UnreadReason::Broken, damaged) };
    if began.elapsed() > PICTURE_TIME_MAX {
        return not_shown(UnreadReason::TooSlow, "decoding it takes too long");
    }
    let format = file.format().name();
    let mut description = format!("{format}, {width} x {height} pixels");
    if (columns, rows) != (width, height) {
        description.push_str(&format!(", shown as {columns} x {rows}"));
    }
    if pages > 1 {
        description.push_str(&format!("; the first of {pages} pages, view shows the others"));
    }
    Ok(ShownImage { image: image_out(&image), description })
}
