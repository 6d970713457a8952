//! Documents that the account's machine shows: PDFs as pictures of their pages with their text, others as text.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::UseCaseError;
use domain::citation::{PageKind, PassagePlace};
use domain::image::ImageKind;
use domain::unread::UnreadReason;
use http_common::BudgetHolder;
use machine::preview::{CitedOnPage, DocumentPreview, PAGES_MAX, PageSize, PreviewMark, PreviewText};
use sha2::{Digest, Sha256};
use workspace::OpenFile;

use super::FilePages;
use super::indexing::unread_text;
use super::passage::MarkedText;
use super::sheet::SheetView;
use crate::cited::CitedPassage;
use crate::links::shown_name;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;

/// The digits of a digest in the address of a picture.
const VERSION_DIGITS: usize = 16;

/// A document, or some of its pages.
pub(super) struct DocumentView {
    pub(super) pages: Vec<PageView>,
    /// The number of its pages, if only some are shown.
    pub(super) range: Option<String>,
    pub(super) previous: Option<u32>,
    pub(super) next: Option<u32>,
    /// True if text was left out.
    pub(super) is_cut: bool,
}

/// A page, or a document without pages.
pub(super) struct PageView {
    number: Option<u32>,
    /// The name of the file in an archive.
    inner: Option<String>,
    pub(super) title: Option<String>,
    pub(super) picture: Option<PagePictureView>,
    pub(super) text: MarkedText,
    /// Where the sheets of a workbook in an archive begin in its text, and their names.
    sheet_starts: Vec<(usize, String)>,
    /// The text as tables, if the page is a sheet of a workbook, or a workbook in an archive.
    pub(super) sheets: Vec<SheetView>,
    /// The text as safe HTML, if it is Markdown without a marked passage.
    pub(super) html: Option<String>,
    /// True for the page with the cited passage.
    pub(super) is_cited: bool,
}

impl PageView {
    fn new(number: Option<u32>, title: Option<String>) -> Self {
        Self {
            number,
            inner: None,
            title,
            picture: None,
            text: MarkedText::default(),
            sheet_starts: Vec::new(),
            sheets: Vec::new(),
            html: None,
            is_cited: false,
        }
    }

    /// Returns true for the page with the cited passage, if no part of its picture shows it.
    pub(super) fn is_cited_whole(&self) -> bool {
        self.is_cited && self.picture.as_ref().is_none_or(|picture| picture.marks.is_empty())
    }

    /// Returns true for the page whose picture contains the cited passage, if the passage is not marked on it.
    pub(super) fn is_mark_missing(&self) -> bool {
        self.picture.is_some() && self.is_cited_whole() && self.text.marked.is_empty()
    }

    /// Returns true if the page shows the cited passage.
    pub(super) fn shows_passage(&self) -> bool {
        self.is_cited && (self.picture.is_some() || !self.text.marked.is_empty())
    }
}

/// A page as a picture.
pub(super) struct PagePictureView {
    pub(super) address: String,
    pub(super) alt: String,
    pub(super) width: u32,
    pub(super) height: u32,
    /// The size of the page, in points, and the areas of the cited passage on it.
    pub(super) size: PageSize,
    pub(super) marks: Vec<PreviewMark>,
}

/// The outcome of asking the machine for a document.
pub(super) enum DocumentOutcome {
    Document(DocumentView),
    /// The reason why it is not shown, in words.
    Unreadable(String),
}

impl FilePages {
    /// Has the machine read a document, from a page on; 0 means the page of the cited passage, or the first page.
    pub(super) async fn read_document(
        &self,
        user: &SignedInVisitor,
        file: &OpenFile,
        href: &str,
        cited: Option<&CitedPassage>,
        page: usize,
    ) -> Result<DocumentOutcome, UseCaseError> {
        let texts = user.visitor.texts;
        let principal = &user.signed_in.principal;
        let cited_page = cited.and_then(|cited| match &cited.place {
            PassagePlace::File { page, .. } => *page,
            PassagePlace::Web { .. } => None,
        });
        let page = u32::try_from(page).ok().filter(|page| *page > 0).or(cited_page).unwrap_or(1);
        // The file list of an archive is long: only the part that fits is shown.
        let is_archive = PageKind::from_path(&file.name) == PageKind::File;
        let first = if is_archive { page } else { (page - 1) / PAGES_MAX * PAGES_MAX + 1 };
        let preview = {
            let _place =
                self.budgets.previews.acquire_permit(BudgetHolder::Account(principal.account())).await;
            let passage = cited.and_then(|cited| cited.text.as_deref()).map(str::to_owned);
            let cited = cited_page.zip(passage).map(|(page, passage)| CitedOnPage { page, passage });
            self.files.preview_document(principal, &file.path, first, cited).await?
        };
        Ok(match preview {
            None => DocumentOutcome::Unreadable(texts.get("document-no-machine")),
            Some(preview) => match (&preview.reason, preview.sizes.is_empty()) {
                (Some(reason), true) => {
                    let reason = UnreadReason::of_code(reason).unwrap_or(UnreadReason::Broken);
                    DocumentOutcome::Unreadable(match reason {
                        UnreadReason::UnknownForm | UnreadReason::Image => texts.get("files-no-preview"),
                        reason => unread_text(texts, reason),
                    })
                }
                _ => {
                    let is_markdown = preview.is_markdown;
                    let mut document = document_view(texts, file, href, cited, first, preview);
                    if is_markdown {
                        document = with_html(document).await?;
                    }
                    DocumentOutcome::Document(document)
                }
            },
        })
    }

    /// Sends a page of a PDF or an image as a picture that the machine draws.
    pub(super) async fn send_page_picture(
        &self,
        user: &SignedInVisitor,
        file: &OpenFile,
        page: u32,
        of: &str,
    ) -> Result<Response, Response> {
        let principal = &user.signed_in.principal;
        // The picture of another version would be cached as this version's.
        if of != content_version(file) {
            return Err(StatusCode::NOT_FOUND.into_response());
        }
        let picture = {
            let _place =
                self.budgets.previews.acquire_permit(BudgetHolder::Account(principal.account())).await;
            self.files.page_picture(principal, &file.path, page).await
        };
        let picture = picture.map_err(|error| user.failure_response(error))?;
        let Some(picture) = picture else { return Err(StatusCode::SERVICE_UNAVAILABLE.into_response()) };
        let kind = ImageKind::from_bytes(&picture).unwrap_or(ImageKind::Png);
        let mut response = picture.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind.mime_type()));
        let kept = HeaderValue::from_static("private, max-age=31536000, immutable");
        headers.insert(header::CACHE_CONTROL, kept);
        Ok(response)
    }
}

/// Returns the version of a file's content in addresses.
fn content_version(file: &OpenFile) -> String {
    let digest = domain::hex::encode_hex(&Sha256::digest(file.etag.as_bytes()));
    digest[..VERSION_DIGITS].to_owned()
}

fn document_view(
    texts: Texts,
    file: &OpenFile,
    href: &str,
    cited: Option<&CitedPassage>,
    first: u32,
    preview: DocumentPreview,
) -> DocumentView {
    let mut pages = drawn_pages(texts, file, href, first, &preview.sizes);
    add_texts(&mut pages, texts, &preview.unit, preview.texts);
    if let Some(cited) = cited {
        mark_cited_page(&mut pages, cited, preview.marks);
    }
    for page in &mut pages {
        let is_sheet = |name: &str| PageKind::from_path(name) == PageKind::Sheet;
        if preview.unit == "sheet" {
            page.sheets = vec![SheetView::from_text(&page.text)];
        } else if let Some(name) = page.inner.as_deref().filter(|name| is_sheet(name)) {
            page.sheets = SheetView::all_of(&page.text, &page.sheet_starts, name);
        } else if !preview.is_markdown {
            page.text.separate_cells();
        }
    }
    let is_sheet_cut = pages.iter().flat_map(|page| &page.sheets).any(|sheet| sheet.is_cut);
    let is_cut = preview.truncated || is_sheet_cut;
    let total = preview.pages.unwrap_or_default();
    let numbers = || pages.iter().filter_map(|page| page.number);
    let (last, is_range, range) = if preview.unit == "file" {
        let last = numbers().max().unwrap_or(first);
        (last, first > 1 || last < total, "document-range-files")
    } else {
        let last = first.saturating_add(PAGES_MAX - 1).min(total);
        (last, total > PAGES_MAX && numbers().all(|number| number <= last), "document-range")
    };
    DocumentView {
        range: is_range.then(|| texts.with(range, "pages", format!("{first}–{last} / {total}"))),
        previous: (is_range && first > 1).then(|| first.saturating_sub(PAGES_MAX).max(1)),
        next: (is_range && last < total).then_some(last + 1),
        is_cut,
        pages,
    }
}

/// Renders the texts of a document as Markdown if it is Markdown. A text with a marked passage is shown as source.
async fn with_html(mut document: DocumentView) -> Result<DocumentView, UseCaseError> {
    // Parsing takes milliseconds.
    let rendering = tokio::task::spawn_blocking(move || {
        for page in document.pages.iter_mut().filter(|page| page.text.marked.is_empty()) {
            page.html = Some(render::render_document(&page.text.before));
        }
        document
    });
    rendering.await.map_err(UseCaseError::internal)
}

/// Returns the pages that the machine draws, from `first` on, still without their texts.
fn drawn_pages(texts: Texts, file: &OpenFile, href: &str, first: u32, sizes: &[PageSize]) -> Vec<PageView> {
    let version = content_version(file);
    let drawn = (first..).zip(sizes).map(|(number, size)| {
        let (width, height) = size.picture_size();
        let title = texts.with("document-page", "page", number.to_string());
        let picture = PagePictureView {
            address: format!("{href}?drawn={number}&version={version}"),
            alt: format!("{title}, {}", shown_name(&file.name)),
            width,
            height,
            size: *size,
            marks: Vec::new(),
        };
        PageView { picture: Some(picture), ..PageView::new(Some(number), Some(title)) }
    });
    drawn.collect()
}

/// Adds texts to their pages, and adds pages for texts whose page is not drawn.
fn add_texts(pages: &mut Vec<PageView>, texts: Texts, unit: &str, found: Vec<PreviewText>) {
    let key = match unit {
        "slide" => "document-slide",
        "sheet" => "document-sheet",
        "section" => "document-section",
        "file" => "document-file",
        _ => "document-page",
    };
    for text in found {
        let at = pages.iter().position(|page| page.number == text.page).unwrap_or_else(|| {
            let title = text.page.map(|page| {
                let title = texts.with(key, "page", page.to_string());
                text.name.as_ref().map_or(title.clone(), |name| format!("{title} · {}", shown_name(name)))
            });
            let inner = text.name.clone().filter(|_| unit == "file");
            pages.push(PageView { inner, ..PageView::new(text.page, title) });
            pages.len() - 1
        });
        let page = &mut pages[at];
        let shown = &mut page.text.before;
        if !shown.is_empty() {
            shown.push_str("\n\n");
        }
        page.sheet_starts.extend(text.inner_sheet.map(|name| (shown.len(), shown_name(&name))));
        shown.push_str(&text.text);
    }
}

/// Marks the cited passage on its page, or in the first text that has it, and the page.
fn mark_cited_page(pages: &mut [PageView], cited: &CitedPassage, marks: Vec<PreviewMark>) {
    let page = match &cited.place {
        PassagePlace::File { page, .. } => *page,
        PassagePlace::Web { .. } => None,
    };
    for view in pages {
        if page.is_some() && view.number != page {
            continue;
        }
        if let Some(passage) = &cited.text {
            view.text = MarkedText::with_passage(std::mem::take(&mut view.text.before), passage);
        }
        if page.is_some() || !view.text.marked.is_empty() {
            view.is_cited = true;
            if let Some(picture) = &mut view.picture {
                picture.marks = marks;
            }
            return;
        }
    }
}
