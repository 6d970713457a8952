//! `view`: shows pages of a PDF as pictures, or an image file, to a model that accepts images.
//!
//! The result has references only: the host draws each page again when it shows it. A page that takes too long is not
//! shown, so that the host can rely on its being drawn in time.

use std::time::{Duration, Instant};

use documents::{DocumentFormat, DrawnDocument, ExtractError, INPUT_MAX_BYTES};
use domain::image::{ImageKind, ImageRef};
use domain::unread::UnreadFile;
use protocol::preview::Viewer;
use protocol::session::image_out;
use protocol::tool::{FoundImage, FoundUnread, ToolOutput, VIEW_PAGES_MAX};
use serde::Deserialize;

use super::jail::Jail;
use super::path::{display_path, plain_line};
use super::pictures::picture_size;
use super::preview::read_document_bytes;
use super::read::describe_extent;
use super::shown_image::{self, PICTURE_TIME_MAX};

/// No page is started after this time.
const PAGES_TIME_MAX: Duration = Duration::from_secs(20);

/// Arguments of [`domain::tool::MachineTool::View`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ViewArguments {
    pub(crate) path: String,
    /// The first page; 1 by default.
    #[serde(default)]
    pub(crate) first_page: Option<u32>,
    /// The number of pages; 1 by default, at most [`VIEW_PAGES_MAX`].
    #[serde(default)]
    pub(crate) pages: Option<u32>,
}

/// Shows pages of a PDF, or an image file.
pub(super) fn view_document(jail: &Jail, arguments: &ViewArguments) -> Result<ToolOutput, String> {
    let (path, file) = jail.open_file(&arguments.path).map_err(|error| error.to_string())?;
    let name = display_path(&path);
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if size > INPUT_MAX_BYTES {
        return Ok(unreadable_output(name, &ExtractError::TooLarge { size }));
    }
    let content = read_document_bytes(file).ok_or_else(|| format!("{name} cannot be read"))?;
    // The host shows a file unchanged, so an image inside a signature is drawn.
    let is_signed = content.len() as u64 != size;
    let Some(opened) = DrawnDocument::from_bytes(&content) else {
        return Err(format!("{name} is neither a PDF nor an image that can be shown; use read"));
    };
    match opened {
        Ok(DrawnDocument::Image(image)) if image.page_count() == 1 && !is_signed => {
            shown_image::image_output(&name, shown_image::of_bytes(&name, &content))
        }
        Ok(document) => shown_pages(&name, &document, arguments),
        Err(error) => Ok(unreadable_output(name, &error)),
    }
}

fn unreadable_output(name: String, error: &ExtractError) -> ToolOutput {
    let text = format!("{name}: {}", plain_line(&error.to_string()));
    let unread = vec![FoundUnread::from(&UnreadFile { path: name, reason: error.unread_reason() })];
    ToolOutput { failed: true, text, unread, ..ToolOutput::default() }
}

fn shown_pages(
    name: &str,
    document: &DrawnDocument<'_>,
    arguments: &ViewArguments,
) -> Result<ToolOutput, String> {
    let count = document.page_count();
    let first = arguments.first_page.unwrap_or(1).max(1);
    let about = format!(
        "{name}: {}{}",
        document.format_name(),
        describe_extent(DocumentFormat::Pdf, Some(count), None)
    );
    if first > count {
        return Err(format!("{about}; there is no page {first}"));
    }
    let last = first.saturating_add(arguments.pages.unwrap_or(1).clamp(1, VIEW_PAGES_MAX) - 1).min(count);
    let began = Instant::now();
    let mut images = Vec::new();
    let mut lines = Vec::new();
    for page in first..=last {
        let drawn = if began.elapsed() < PAGES_TIME_MAX { draw_page(name, document, page) } else { None };
        lines.push(match drawn {
            Some((image, (width, height))) => {
                images.push(image);
                format!("page {page}: {width} x {height} pixels")
            }
            None => format!("page {page} cannot be drawn, or not in time"),
        });
    }
    let text = format!("{about}. As pictures: {}.", lines.join("; "));
    Ok(ToolOutput { failed: images.is_empty(), text, images, ..ToolOutput::default() })
}

/// Draws a page and returns a reference to its picture, with its width and height.
fn draw_page(name: &str, document: &DrawnDocument<'_>, page: u32) -> Option<(FoundImage, (u32, u32))> {
    let began = Instant::now();
    let picture = document.draw_page(page, picture_size(Viewer::Model))?;
    let in_time = began.elapsed() < PICTURE_TIME_MAX;
    let sides = ImageKind::from_bytes(&picture)?.dimensions(&picture)?;
    let image = ImageRef::of_page(name, page, &picture).ok()?;
    in_time.then(|| (image_out(&image), sides))
}

#[cfg(test)]
mod tests {
    use protocol::preview::{MODEL_PICTURE_SIDE, PageRequest};

    use super::*;
    use crate::tools::preview;

    const LEASE: &[u8] = include_bytes!("../../../documents/tests/fixtures/lease.pdf");
    const SCANNED: &[u8] = include_bytes!("../../../documents/tests/fixtures/scanned.pdf");

    fn view_pdf(content: &[u8], first_page: u32, pages: u32) -> Result<ToolOutput, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.pdf"), content).unwrap();
        let jail = Jail::open_workspace(folder.path()).unwrap();
        let (first_page, pages) = (Some(first_page), Some(pages));
        let output = view_document(&jail, &ViewArguments { path: "/a.pdf".to_owned(), first_page, pages })?;
        for image in &output.images {
            let request =
                PageRequest { path: "/a.pdf".to_owned(), page: image.page.unwrap(), viewer: Viewer::Model };
            let again = domain::hex::decode_hex(&preview::draw_page(&jail, &request).unwrap()).unwrap();
            let again = image_out(&ImageRef::of_page("/a.pdf", request.page, &again).unwrap());
            assert_eq!(*image, again, "the host gets the same picture");
        }
        assert!(protocol::session::output_in(output.clone()).is_ok());
        Ok(output)
    }

    #[test]
    fn view_document_shows_pages_as_pictures() {
        let output = view_pdf(LEASE, 2, 1).unwrap();
        assert_eq!(output.images.iter().map(|image| image.page).collect::<Vec<_>>(), [Some(2)]);
        let size = format!("page 2: 1108 x {MODEL_PICTURE_SIDE} pixels");
        assert!(output.text.starts_with("/a.pdf: PDF, ") && output.text.contains(&size), "{}", output.text);
        let all = view_pdf(LEASE, 1, 99).unwrap();
        assert!(all.images.len() > 1 && all.images.len() <= VIEW_PAGES_MAX as usize, "{}", all.text);
        assert_eq!(view_pdf(SCANNED, 1, 1).unwrap().images.len(), 1);
        let beyond = view_pdf(LEASE, 1000, 1).unwrap_err();
        assert!(beyond.contains("there is no page 1000"), "{beyond}");
    }

    #[test]
    fn what_cannot_be_drawn_is_said() {
        let text = view_pdf(b"only text", 1, 1).unwrap_err();
        assert!(text.contains("neither a PDF nor an image"), "{text}");
        let broken = view_pdf(b"%PDF-1.4 nothing of it", 1, 1);
        assert!(
            broken.as_ref().ok().is_none_or(|output| output.failed && output.images.is_empty()),
            "{broken:?}"
        );
        let huge = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n\
            2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
            3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 1000000000 1]>>endobj\ntrailer<</Root 1 0 R>>\n";
        let output = view_pdf(huge, 1, 1).unwrap();
        assert!(output.images.len() <= 1, "its picture has the sides of any other: {}", output.text);
    }
}
