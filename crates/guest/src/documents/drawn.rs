//! Documents whose pages are drawn as pictures: PDFs and images.

use hayro_interpret::hayro_syntax::Pdf;
use protocol::preview::{PageSize, PreviewMark, Viewer};

use super::image_file::ImageFile;
use super::{DocumentFormat, ExtractError, detect, pdf, picture};

/// Returns the sizes of pages of a PDF or an image, from `first` on, counted from 1, at most `max`; `None` for other
/// formats.
pub(crate) fn page_sizes(bytes: &[u8], first: u32, max: u32) -> Option<Vec<PageSize>> {
    Some(match DrawnDocument::from_bytes(bytes)?.ok()? {
        DrawnDocument::Pdf(document) => picture::pdf_page_sizes(&document, first, max),
        DrawnDocument::Image(image) => {
            let size = |page| image.page_sides(page).map(|(width, height)| PageSize { width, height });
            (first..=image.page_count()).take(max as usize).map_while(size).collect()
        }
    })
}

/// Returns the areas of a passage on a page of a PDF, counted from 1; empty for other formats.
pub(crate) fn find_passage_marks(bytes: &[u8], page: u32, passage: &str) -> Vec<PreviewMark> {
    let document = detect::is_pdf(bytes).then(|| pdf::load_pdf(bytes).ok()).flatten();
    document.map(|document| super::marks::find_marks(&document, page, passage)).unwrap_or_default()
}

/// A document whose pages can be drawn.
pub(crate) enum DrawnDocument<'a> {
    Pdf(Pdf),
    Image(ImageFile<'a>),
}

impl<'a> DrawnDocument<'a> {
    /// Opens a PDF or an image; `None` for other formats.
    ///
    /// # Errors
    /// [`ExtractError::Encrypted`], [`ExtractError::Broken`].
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Option<Result<Self, ExtractError>> {
        if detect::is_pdf(bytes) {
            return Some(pdf::load_pdf(bytes).map(Self::Pdf));
        }
        ImageFile::from_bytes(bytes).map(|image| Ok(Self::Image(image)))
    }

    /// Returns the name of the format.
    pub(crate) const fn format_name(&self) -> &'static str {
        match self {
            Self::Pdf(_) => DocumentFormat::Pdf.name(),
            Self::Image(image) => image.format.name(),
        }
    }

    /// Returns the number of pages.
    pub(crate) fn page_count(&self) -> u32 {
        match self {
            Self::Pdf(document) => picture::pdf_page_count(document),
            Self::Image(image) => image.page_count(),
        }
    }

    /// Draws a page, counted from 1, as a PNG or JPEG. Returns `None` if the page does not exist or it cannot be
    /// drawn.
    pub(crate) fn draw_page(&self, page: u32, viewer: Viewer) -> Option<Vec<u8>> {
        match (self, viewer) {
            (Self::Pdf(document), Viewer::Person) => {
                picture::draw_pdf_page(document, page, PageSize::picture_size)
            }
            (Self::Pdf(document), Viewer::Model) => picture::draw_for_model(document, page),
            (Self::Image(image), viewer) => image.draw_page(page, viewer),
        }
    }
}
