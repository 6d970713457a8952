//! Previews of documents for their owner: the text of pages, and pages as pictures.
//!
//! Documents are untrusted, so only the machine parses them. `POST /preview` requests the text of some pages of a document and
//! the sizes of its pages; `POST /preview/page` requests a page of a PDF or an image as a PNG or JPEG, also for a model. Both are
//! repeatable. The host treats replies as untrusted. Agents of earlier releases support neither path.

use domain::unread::UnreadReason;
use serde::{Deserialize, Serialize};

/// The path of requests for text.
pub const PREVIEW_PATH: &str = "/preview";
/// The path of requests for a picture of a page.
pub const PAGE_PATH: &str = "/preview/page";
/// The longest request, in bytes: an escaped path and passage.
pub const REQUEST_MAX_BYTES: usize = 64 * 1024;
/// The maximum number of pages of one reply.
pub const PAGES_MAX: u32 = 20;
/// The maximum text length of one reply, in bytes.
pub const TEXT_MAX_BYTES: usize = 256 * 1024;
/// The maximum name of a sheet or a file, in bytes.
pub const NAME_MAX_BYTES: usize = 200;
/// The maximum number of texts of one reply.
pub const TEXTS_MAX: usize = 4_000;
/// The maximum number of areas of a passage.
pub const MARKS_MAX: usize = 200;
/// The longest reply with text, in bytes: its text, escaped, and its numbers.
pub const PREVIEW_MAX_BYTES: usize = TEXT_MAX_BYTES * 6 + TEXTS_MAX * 64 + 64 * 1024;
/// The largest picture, in bytes.
pub const PICTURE_MAX_BYTES: usize = 8 * 1024 * 1024;
/// The longest side of a picture, and the maximum number of pixels.
pub const PICTURE_SIDE_MAX: u32 = 6_000;
pub const PICTURE_PIXELS_MAX: u64 = 6_000_000;
/// The width of a picture, in pixels, unless its pixels would be too many.
pub const PICTURE_WIDTH: u32 = 1_240;
/// The longest side of a picture for a model, in pixels: vendors shrink larger ones.
pub const MODEL_PICTURE_SIDE: u32 = 1_568;

/// A request for the text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewRequest {
    pub path: String,
    /// The first page, from 1, of formats whose pages are read one by one.
    pub first_page: u32,
    /// A passage whose place on its page is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cited: Option<CitedOnPage>,
}

/// A passage on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CitedOnPage {
    /// The page, from 1.
    pub page: u32,
    /// The text, at most [`crate::tool::PASSAGE_MAX_BYTES`].
    pub passage: String,
}

/// The text of a document, or of some of its pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentPreview {
    /// The code of an [`UnreadReason`], if the text is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of pages; `None` for formats without pages.
    #[serde(default)]
    pub pages: Option<u32>,
    /// A page, named as in its format: `page`, `slide`, `sheet`, `section` or `file`.
    #[serde(default)]
    pub unit: String,
    /// True if the text is Markdown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_markdown: bool,
    /// The pages that can be shown as pictures, from `first_page` on, at most [`PAGES_MAX`].
    #[serde(default)]
    pub sizes: Vec<PageSize>,
    /// The areas of the cited passage on its page, one for each line, at most [`MARKS_MAX`].
    #[serde(default)]
    pub marks: Vec<PreviewMark>,
    pub texts: Vec<PreviewText>,
    /// True if text beyond the limits was left out.
    #[serde(default)]
    pub truncated: bool,
}

/// The size of a page, in points, each side at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageSize {
    pub width: u32,
    pub height: u32,
}

/// An area of a page, in points from its top left corner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewMark {
    pub left: u32,
    pub top: u32,
    pub width: u32,
    pub height: u32,
}

/// A piece of text on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewText {
    /// The page, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// The name of the sheet or of the file in an archive, at most [`NAME_MAX_BYTES`], if the page is one.
    #[serde(default, alias = "sheet", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name of the sheet that begins with the text, at most [`NAME_MAX_BYTES`], if the page is a workbook in an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_sheet: Option<String>,
    pub text: String,
}

/// A request for a picture of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRequest {
    pub path: String,
    /// The page, from 1.
    pub page: u32,
    /// The viewer of the picture, which determines its size.
    #[serde(default)]
    pub viewer: Viewer,
}

/// The viewer of a picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Viewer {
    /// A person, who reads it on a screen.
    #[default]
    Person,
    /// A model that accepts images.
    Model,
}

impl PageSize {
    /// Returns the width and height of its picture for a model, in pixels.
    #[must_use]
    pub fn picture_for_model(self) -> (u32, u32) {
        let longest = f64::from(self.width.max(self.height).max(1));
        let scale = f64::from(MODEL_PICTURE_SIDE) / longest;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the longest side"
        )]
        let pixels = |points: u32| ((f64::from(points) * scale) as u32).clamp(1, MODEL_PICTURE_SIDE);
        (pixels(self.width), pixels(self.height))
    }

    /// Returns the width and height of its picture, in pixels, within the limits.
    #[must_use]
    pub fn picture_size(self) -> (u32, u32) {
        let (width, height) = (f64::from(self.width.max(1)), f64::from(self.height.max(1)));
        let side = f64::from(PICTURE_SIDE_MAX);
        #[expect(clippy::cast_precision_loss, reason = "far below the precision of a float")]
        let pixels = PICTURE_PIXELS_MAX as f64;
        let scale = (f64::from(PICTURE_WIDTH) / width)
            .min((pixels / (width * height)).sqrt())
            .min(side / width)
            .min(side / height);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the longest side"
        )]
        let pixels = |points: f64| ((points * scale) as u32).clamp(1, PICTURE_SIDE_MAX);
        (pixels(width), pixels(height))
    }
}

impl DocumentPreview {
    /// Returns true if the reply to a request for pages from this one on is within the limits.
    #[must_use]
    pub fn is_within_limits(&self, first_page: u32) -> bool {
        let bytes: usize = self.texts.iter().map(|text| text.text.len()).sum();
        let is_page = |page: u32| page >= 1 && self.pages.is_none_or(|pages| page <= pages);
        let reason = self.reason.as_deref().map(UnreadReason::of_code);
        reason.is_none_or(|reason| reason.is_some())
            && ["", "page", "slide", "sheet", "section", "file"].contains(&self.unit.as_str())
            && self.texts.len() <= TEXTS_MAX
            && bytes <= TEXT_MAX_BYTES
            && self
                .texts
                .iter()
                .flat_map(|text| [text.name.as_ref(), text.inner_sheet.as_ref()])
                .flatten()
                .all(|name| name.len() <= NAME_MAX_BYTES)
            && self.marks.len() <= MARKS_MAX
            && self.sizes.len() <= PAGES_MAX as usize
            && (self.sizes.is_empty() || is_page(first_page))
            && self.sizes.iter().all(|size| size.width >= 1 && size.height >= 1)
            && self.texts.iter().filter_map(|text| text.page).all(is_page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_size_respects_limits() {
        assert_eq!(PageSize { width: 595, height: 842 }.picture_size(), (1240, 1754));
        assert_eq!(PageSize { width: 595, height: 842 }.picture_for_model(), (1108, 1568));
        assert_eq!(PageSize { width: 1684, height: 1190 }.picture_for_model(), (1568, 1108));
        for (width, height) in
            [(1, 1), (1, u32::MAX), (u32::MAX, 1), (u32::MAX, u32::MAX), (0, 0), (14_400, 14_400)]
        {
            let (columns, rows) = PageSize { width, height }.picture_size();
            assert!((1..=PICTURE_SIDE_MAX).contains(&columns) && (1..=PICTURE_SIDE_MAX).contains(&rows));
            assert!(u64::from(columns) * u64::from(rows) <= PICTURE_PIXELS_MAX, "{width} {height}");
            let (columns, rows) = PageSize { width, height }.picture_for_model();
            assert!((1..=MODEL_PICTURE_SIDE).contains(&columns) && (1..=MODEL_PICTURE_SIDE).contains(&rows));
        }
    }

    #[test]
    fn replies_beyond_the_limits_are_detected() {
        let text =
            |page, text: &str| PreviewText { page, name: None, inner_sheet: None, text: text.to_owned() };
        let fits =
            DocumentPreview { pages: Some(2), texts: vec![text(Some(2), "a")], ..DocumentPreview::default() };
        assert!(fits.is_within_limits(1));
        let size = PageSize { width: 1, height: 1 };
        for wrong in [
            DocumentPreview { texts: vec![text(Some(3), "a")], ..fits.clone() },
            DocumentPreview { texts: vec![text(Some(0), "a")], ..fits.clone() },
            DocumentPreview { texts: vec![text(None, "a"); TEXTS_MAX + 1], ..fits.clone() },
            DocumentPreview { texts: vec![text(None, &"a".repeat(TEXT_MAX_BYTES + 1))], ..fits.clone() },
            DocumentPreview {
                texts: vec![PreviewText { name: Some("a".repeat(NAME_MAX_BYTES + 1)), ..text(None, "a") }],
                ..fits.clone()
            },
            DocumentPreview {
                texts: vec![PreviewText {
                    inner_sheet: Some("a".repeat(NAME_MAX_BYTES + 1)),
                    ..text(None, "a")
                }],
                ..fits.clone()
            },
            DocumentPreview { sizes: vec![size; PAGES_MAX as usize + 1], ..fits.clone() },
            DocumentPreview { sizes: vec![PageSize { width: 0, height: 1 }], ..fits.clone() },
            DocumentPreview { reason: Some("<b>".to_owned()), ..fits.clone() },
            DocumentPreview {
                marks: vec![PreviewMark { left: 0, top: 0, width: 1, height: 1 }; MARKS_MAX + 1],
                ..fits.clone()
            },
            DocumentPreview { unit: "<b>".to_owned(), ..fits.clone() },
        ] {
            assert!(!wrong.is_within_limits(1), "{wrong:?}");
        }
        assert!(!DocumentPreview { sizes: vec![size], ..fits }.is_within_limits(3), "beyond the last page");
    }
}
