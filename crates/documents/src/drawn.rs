//! Documents whose pages are drawn as pictures: PDFs and images.

use hayro_interpret::hayro_syntax::Pdf;

use super::image_file::ImageFile;
use super::marks::PassageMark;
use super::{DocumentFormat, ExtractError, detect, pdf, picture};

/// The size of a page, in points, or of an image, in pixels; each side at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize {
    pub width: u32,
    pub height: u32,
}

/// The size of the picture of a page.
#[derive(Debug, Clone, Copy)]
pub struct PictureSize {
    /// Returns the width and height of the picture of a page of this size, in pixels.
    pub pixels: fn(PageSize) -> (u32, u32),
    /// The maximum size of the picture's file, in bytes: the page of a PDF is drawn smaller until it fits.
    pub max_bytes: Option<usize>,
}

/// Returns the sizes of pages of a PDF or an image, from `first` on, counted from 1, at most `max`; `None` for other
/// formats.
pub fn page_sizes(bytes: &[u8], first: u32, max: u32) -> Option<Vec<PageSize>> {
    Some(match DrawnDocument::from_bytes(bytes)?.ok()? {
        DrawnDocument::Pdf(document) => picture::pdf_page_sizes(&document, first, max),
        DrawnDocument::Image(image) => {
            let size = |page| image.page_sides(page).map(|(width, height)| PageSize { width, height });
            (first..=image.page_count()).take(max as usize).map_while(size).collect()
        }
    })
}

/// Returns the areas of a passage on a page of a PDF, counted from 1, at most `max`; empty for other formats.
pub fn find_passage_marks(bytes: &[u8], page: u32, passage: &str, max: usize) -> Vec<PassageMark> {
    let document = detect::is_pdf(bytes).then(|| pdf::load_pdf(bytes).ok()).flatten();
    document.map(|document| super::marks::find_marks(&document, page, passage, max)).unwrap_or_default()
}

/// A document whose pages can be drawn.
pub enum DrawnDocument<'a> {
    Pdf(Pdf),
    Image(ImageFile<'a>),
}

impl<'a> DrawnDocument<'a> {
    /// Opens a PDF or an image; `None` for other formats.
    ///
    /// # Errors
    /// [`ExtractError::Encrypted`], [`ExtractError::Broken`].
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Result<Self, ExtractError>> {
        if detect::is_pdf(bytes) {
            return Some(pdf::load_pdf(bytes).map(Self::Pdf));
        }
        ImageFile::from_bytes(bytes).map(|image| Ok(Self::Image(image)))
    }

    /// Returns the name of the format.
    pub const fn format_name(&self) -> &'static str {
        match self {
            Self::Pdf(_) => DocumentFormat::Pdf.name(),
            Self::Image(image) => image.format().name(),
        }
    }

    /// Returns the number of pages.
    pub fn page_count(&self) -> u32 {
        match self {
            Self::Pdf(document) => picture::pdf_page_count(document),
            Self::Image(image) => image.page_count(),
        }
    }

    /// Draws a page, counted from 1, as a PNG or JPEG. Returns `None` if the page does not exist or it cannot be
    /// drawn.
    #[must_use]
    pub fn draw_page(&self, page: u32, size: PictureSize) -> Option<Vec<u8>> {
        match self {
            Self::Pdf(document) => picture::draw_pdf_page(document, page, size),
            Self::Image(image) => image.draw_page(page, size),
        }
    }
}
