//! Extracts text from documents, for the tools and the index.
//!
//! [`extract_file`] returns the text of a file in segments with their page or lines; [`passages`] splits the segments
//! into pieces that can be quoted and cited. The format is detected from the content, and from the file name only
//! if the content is ambiguous.
//!
//! Files are untrusted. This crate does not protect the process against a parser that uses too much memory or
//! time: `guest` calls it in a worker, which has limits and can be killed. It does no I/O but reading the file that it is
//! given.
//!
//! # Where to look
//!
//! - The format of a file: `detect.rs`; the formats and their pages: `format.rs`.
//! - Files inside archives: `archived_files.rs`, `container.rs`; archives that a program unpacks: `unpacked.rs`; messages:
//!   `mail.rs`; signed files: `signed.rs`.
//! - Images inside documents: `embedded_images.rs`, `pdf_images.rs`.
//! - Pages as pictures: `drawn.rs`; the place of a passage on a page: `marks.rs`.
//! - What makes the service read documents again: `reader_version.rs`.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use domain::unread::{UnreadImages, UnreadReason};
use serde::{Deserialize, Serialize};

pub use columns::Columns;
pub use detect::known_extensions;
pub use drawn::{DrawnDocument, PageSize, PictureSize, find_passage_marks, page_sizes};
pub use embedded_images::{EmbeddedImage, IMAGES_MAX};
pub use format::DocumentFormat;
pub use image_file::{ImageFile, ImageFormat};
pub use kept_files::KeptFiles;
pub use marks::PassageMark;
pub use reader_version::{READER_VERSION, reader_of};
pub use unpacked::{ForeignFormat, HEAD_BYTES, UNPACKED_MAX_BYTES, UnpackedArchive};

mod archive;
mod archived_files;
mod book;
mod cell_value;
mod chart;
mod clause;
mod columns;
mod container;
mod data_box;
mod delimited;
mod detect;
mod djvu;
mod drawn;
mod embedded_files;
mod embedded_images;
mod epub;
mod equation;
mod fiction_book;
mod form_field;
mod format;
mod headings;
mod html;
mod image_file;
mod iwork;
mod kept_files;
mod legacy;
mod loose_images;
mod mac_letters;
mod mail;
mod mail_head;
mod mail_text;
mod marks;
mod mathml;
mod mobi;
mod notebook;
mod number_format;
mod numbering;
mod odf_objects;
mod ods;
mod odt;
mod office_xml;
mod outlook;
mod output;
mod packed;
mod parts;
pub mod passages;
mod pdf;
mod pdf_direction;
mod pdf_files;
mod pdf_images;
mod pdf_letters;
mod pdf_paragraphs;
mod pdf_xfa;
mod picture;
mod pst;
mod reader_version;
mod row_groups;
mod rows;
mod rtf;
mod scan;
mod seven_zip;
mod sheet;
mod sheet_notes;
mod signed;
mod slides;
mod tables_of_sheet;
mod text;
mod unpacked;
mod visio;
mod word;
mod word_notes;
mod xls_formats;
mod xml;
mod xml_encoding;
mod xps;
mod zip_names;

/// The largest file that is read, in bytes.
pub const INPUT_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The maximum text of one document, in bytes; the rest is left out and the result says so.
pub const OUTPUT_MAX_BYTES: usize = 8 * 1024 * 1024;
/// The maximum number of pages per document.
pub const PAGES_MAX: u32 = 5_000;
/// The maximum number of attachments that are read of a message, including the attachments of messages in it.
const ATTACHMENTS_MAX: u32 = 50;
/// The maximum nesting depth of documents that are read.
const NESTING_MAX: u32 = 3;
/// The maximum number of pixels of an image whose text is recognized.
const PIXELS_MAX: u64 = 100_000_000;
/// The line in place of a document that is not read.
const TOO_DEEP: &str = "(not read: too many documents inside each other)";

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// The format that was detected.
    pub format: DocumentFormat,
    /// The text in reading order. No segment is empty.
    pub segments: Vec<DocumentSegment>,
    /// The number of pages (or sheets), if the format has pages.
    pub pages: Option<u32>,
    /// The number of lines, if they are counted through the document.
    pub lines: Option<u32>,
    /// True if text beyond [`OUTPUT_MAX_BYTES`] or [`PAGES_MAX`] was left out.
    pub truncated: bool,
    /// Descriptions of unreadable parts, such as a broken page.
    pub notes: Vec<String>,
    /// The pages that were read, if the format allows reading single pages; `None` if the document was read as a
    /// whole.
    pub span: Option<PageRange>,
    /// The read pages that show images and hardly any text.
    pub scans: Vec<u32>,
    /// The pages whose text was cut off at the limit for one page.
    pub cut_pages: Vec<u32>,
    /// The damaged pages, whose text may be incomplete: pages in `scans` that are not scans.
    pub damaged_pages: Vec<u32>,
    /// The files inside the document that were not read, or not whole: pages of an archive, attachments of a message from 1 on.
    pub unread_files: Vec<u32>,
    /// The images inside the document that may show text.
    pub images: Vec<EmbeddedImage>,
    /// The images inside the document that may show text and are not recognized.
    pub unread_images: UnreadImages,
}

impl Extracted {
    /// Returns true if all text was read, except the text in images.
    fn is_whole(&self) -> bool {
        let is_to_end = self.span.is_none_or(|span| span.last >= span.of);
        is_to_end && !self.truncated && self.cut_pages.is_empty() && self.unread_files.is_empty()
    }

    /// Creates a document without text, pages or lines.
    const fn empty(format: DocumentFormat) -> Self {
        Self {
            format,
            segments: Vec::new(),
            pages: None,
            lines: None,
            truncated: false,
            notes: Vec::new(),
            span: None,
            scans: Vec::new(),
            cut_pages: Vec::new(),
            damaged_pages: Vec::new(),
            unread_files: Vec::new(),
            images: Vec::new(),
            unread_images: UnreadImages::NONE,
        }
    }
}

/// A range of pages that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRange {
    /// The first page, from 1.
    pub first: u32,
    /// The last page; below `first` if none was read.
    pub last: u32,
    /// The number of pages of the document, at most [`PAGES_MAX`].
    pub of: u32,
}

/// The part of a document to read. Formats without random access to pages are read as a whole.
#[derive(Debug, Clone, Copy)]
pub struct ExtractBounds {
    /// The first page, from 1.
    pub first_page: u32,
    pub last_page: u32,
    /// The text after which no further page is begun, in bytes.
    pub text_max_bytes: usize,
    /// The time after which no further page is begun. At least one page is read.
    pub until: Option<Instant>,
    /// True if the first page may be read in part in this time, where a page is a whole file.
    pub may_cut: bool,
}

impl Default for ExtractBounds {
    fn default() -> Self {
        Self {
            first_page: 1,
            last_page: u32::MAX,
            text_max_bytes: OUTPUT_MAX_BYTES,
            until: None,
            may_cut: false,
        }
    }
}

/// A contiguous text with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentSegment {
    /// The page, from 1, where the format has pages.
    pub page: Option<u32>,
    /// The first and last line of the text, from 1 and inclusive, where the format has lines.
    pub lines: Option<(u32, u32)>,
    /// The heading above the text, where the format marks headings.
    pub heading: Option<String>,
    /// The text; lines end with `\n`, without one at the end. No control characters but `\n` and `\t`.
    pub text: String,
    /// The file inside the document that contains the text, if the document is an archive.
    pub inner: Option<Rc<InnerFile>>,
    /// The headings of the columns, if the text is rows of a table.
    pub columns: Option<Columns>,
}

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerFile {
    /// Its name with its folders, on one line. The beginning of a long name is left out.
    pub name: String,
    /// The page with the text, named as in its format, if it has pages: `slide 3`.
    pub page: Option<String>,
    pub format: DocumentFormat,
}

/// The reason why a file has no text.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// The file is larger than [`INPUT_MAX_BYTES`].
    #[error("the file has {size} bytes; documents are read up to {INPUT_MAX_BYTES} bytes")]
    TooLarge {
        /// The size in bytes.
        size: u64,
    },
    /// The file is not a document.
    #[error("the file is binary ({kind}, {size} bytes) and has no text to read")]
    Binary {
        kind: &'static str,
        /// The size in bytes.
        size: u64,
    },
    /// The format is not supported.
    #[error("{kind} cannot be read; {remedy}")]
    Unsupported { kind: &'static str, remedy: &'static str },
    /// The format is read by a program that the machine does not have.
    #[error("{kind} cannot be read without the program {program}; pack its files as ZIP")]
    NoProgram { kind: &'static str, program: &'static str },
    /// The file needs a password.
    #[error("the {0} file is encrypted and needs a password")]
    Encrypted(&'static str),
    /// The document has pages, but no text on them.
    #[error("the document has {pages} pages without any text, probably scanned images")]
    NoText {
        /// The number of pages.
        pages: u32,
    },
    /// The file, or a part of it that is needed, unpacks to an implausible size.
    #[error("the file or a part of it unpacks to more than {bound} bytes and is not read")]
    Bomb {
        /// The bound that was exceeded, in bytes.
        bound: u64,
    },
    /// The file consists of too many parts.
    #[error("the file has more than {bound} parts and is not read")]
    TooManyParts {
        /// The bound that was exceeded.
        bound: usize,
    },
    /// The file violates its format.
    #[error("the {format} file is broken: {reason}")]
    Broken { format: &'static str, reason: String },
}

impl ExtractError {
    /// Returns the reason code.
    #[must_use]
    pub fn unread_reason(&self) -> UnreadReason {
        match self {
            Self::TooLarge { .. } | Self::Bomb { .. } | Self::TooManyParts { .. } => UnreadReason::TooLarge,
            Self::Binary { kind, .. } if kind.contains("image") => UnreadReason::Image,
            Self::Binary { .. } | Self::Unsupported { .. } | Self::NoProgram { .. } => {
                UnreadReason::UnknownForm
            }
            Self::Encrypted(_) => UnreadReason::Encrypted,
            Self::NoText { .. } => UnreadReason::NoText,
            Self::Read(_) | Self::Broken { .. } => UnreadReason::Broken,
        }
    }

    /// Returns true if the same file may be read later.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::NoProgram { .. })
    }

    fn broken_file(format: &'static str, reason: impl std::fmt::Display) -> Self {
        let mut reason = reason.to_string().replace(char::is_control, " ");
        reason.truncate(reason.floor_char_boundary(REASON_MAX_BYTES));
        Self::Broken { format, reason }
    }
}

/// The maximum length of a parser's error, in bytes.
const REASON_MAX_BYTES: usize = 300;

/// Extracts the text of a file. Only the extension of `path` is used.
///
/// # Errors
/// Fails if the file is too large, binary, encrypted, broken, or in an unsupported format.
pub fn extract_file(path: &Path, file: File) -> Result<Extracted, ExtractError> {
    extract_part(path, file, &ExtractBounds::default())
}

/// Extracts the text of a part of a file, if its format can be read in parts.
///
/// # Errors
/// Like [`extract_file`].
pub fn extract_part(path: &Path, file: File, bounds: &ExtractBounds) -> Result<Extracted, ExtractError> {
    let size = file.metadata()?.len();
    if size > INPUT_MAX_BYTES {
        return Err(ExtractError::TooLarge { size });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(INPUT_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > INPUT_MAX_BYTES {
        return Err(ExtractError::TooLarge { size: bytes.len() as u64 });
    }
    extract_bytes_part(path, &bytes, bounds)
}

/// Extracts the text of the files that a program has unpacked of an archive.
///
/// # Errors
/// Fails if the program unpacked no file.
pub fn extract_unpacked(
    unpacked: &UnpackedArchive,
    bounds: &ExtractBounds,
) -> Result<Extracted, ExtractError> {
    let nesting = Nesting { depth: 0, attachments_left: &Cell::new(ATTACHMENTS_MAX) };
    catch_parser_panic("archive", || {
        archived_files::extract_archived_files(&mut packed::Tar::open_unpacked(unpacked)?, bounds, nesting)
    })
}

/// Extracts the text of a file's content.
///
/// # Errors
/// Like [`extract_file`].
pub fn extract_bytes(path: &Path, bytes: &[u8]) -> Result<Extracted, ExtractError> {
    extract_bytes_part(path, bytes, &ExtractBounds::default())
}

fn extract_bytes_part(path: &Path, bytes: &[u8], bounds: &ExtractBounds) -> Result<Extracted, ExtractError> {
    extract_content(path, bytes, bounds, Nesting { depth: 0, attachments_left: &Cell::new(ATTACHMENTS_MAX) })
}

/// The place of a document inside others.
#[derive(Clone, Copy)]
struct Nesting<'a> {
    depth: u32,
    /// The attachments that are still read, of all documents of the file together.
    attachments_left: &'a Cell<u32>,
}

impl Nesting<'_> {
    fn next_level(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// Extracts the text of a document inside this one. An image has one part: itself.
    ///
    /// # Errors
    /// Returns the line that says why it is not read.
    fn extract_inner(self, path: &Path, bytes: &[u8], bounds: &ExtractBounds) -> Result<Extracted, String> {
        if self.depth >= NESTING_MAX {
            return Err(TOO_DEEP.to_owned());
        }
        if let Some(image) = embedded_images::of_image(bytes) {
            return Ok(image);
        }
        // One document inside another does not end the reading of all.
        let extracted =
            catch_parser_panic("inner", || extract_content(path, bytes, bounds, self.next_level()));
        extracted.map_err(|error| format!("(not read: {error})"))
    }

    /// Takes one of the attachments that are still read.
    fn take_attachment(self) -> bool {
        let left = self.attachments_left.get();
        self.attachments_left.set(left.saturating_sub(1));
        left > 0
    }
}

/// Returns the content inside the signatures of a file; other files unchanged.
#[must_use]
pub fn without_signatures(bytes: Vec<u8>) -> Vec<u8> {
    if !signed::is_cms(&bytes) {
        return bytes;
    }
    signed::extract_signed_content(&bytes).map(std::borrow::Cow::into_owned).unwrap_or(bytes)
}

/// Renders the images of a page of a PDF or DjVu document, counted from 1, as a portable graymap, and returns it with its pixels per inch.
#[must_use]
pub fn render_scan(bytes: &[u8], page: u32) -> Option<(Vec<u8>, u32)> {
    if djvu::is_djvu(bytes) {
        return djvu::render_djvu_page(bytes, page);
    }
    let rendered = scan::render_page_images(&pdf::load_pdf(bytes).ok()?, page, None)?;
    let dpi = rendered.dpi;
    Some((rendered.into_pgm(), dpi))
}

/// An image for text recognition, with its pixels per inch if they are known.
type FoundImage = (Vec<u8>, Option<u32>);

/// Returns an image inside a document; `None` if it cannot be recognized.
fn embedded_image(document: &[u8], image: &EmbeddedImage) -> Option<FoundImage> {
    if let Some((file, image)) = embedded_images::in_inner(document, &image.part) {
        return embedded_image(&without_signatures(file), &image);
    }
    if djvu::is_djvu(document) {
        let (rendered, dpi) = djvu::render_djvu_page(document, image.page?)?;
        return Some((rendered, Some(dpi).filter(|dpi| *dpi > 0)));
    }
    if detect::is_pdf(document) {
        let page = image.page?;
        // A scanned page of a file inside another has no part.
        let (rendered, dpi) = match image.part.is_empty() {
            true => render_scan(document, page)?,
            false => pdf_images::render_image_area(document, page, &image.part)?,
        };
        return Some((rendered, Some(dpi)));
    }
    if image.part.is_empty() {
        return Some((recognizable_image(document.to_vec())?, None));
    }
    Some((embedded_images::find_image_content(document, &image.part)?, None))
}

/// Returns an image file for text recognition; `None` if it cannot be decoded.
#[must_use]
pub fn recognizable_image(bytes: Vec<u8>) -> Option<Vec<u8>> {
    image_file::for_recognition(bytes)
}

/// Returns a document with the recognized text on one page; `None` if nothing was recognized.
#[must_use]
pub fn recognized_document(page: u32, text: &str) -> Option<Extracted> {
    let text = scan::join_recognized_lines(text);
    let segments = vec![DocumentSegment {
        page: Some(page),
        lines: None,
        heading: None,
        text,
        inner: None,
        columns: None,
    }];
    let is_text = !segments[0].text.is_empty();
    is_text.then_some(Extracted { segments, pages: Some(page), ..Extracted::empty(DocumentFormat::Pdf) })
}

fn extract_content(
    path: &Path,
    bytes: &[u8],
    bounds: &ExtractBounds,
    nesting: Nesting<'_>,
) -> Result<Extracted, ExtractError> {
    use detect::DetectedContent;
    use domain::text_format::{OfficeXml, OpenDocument};
    match detect::detect_content(path, bytes)? {
        DetectedContent::Pdf => pdf::extract_pdf(bytes, bounds, nesting),
        DetectedContent::Djvu => catch_parser_panic("DjVu", || djvu::extract_djvu(bytes, bounds)),
        DetectedContent::Docx(archive, main) => {
            catch_parser_panic("DOCX", || word::extract_word(archive, &main, nesting))
        }
        DetectedContent::Odt(archive) => catch_parser_panic("ODT", || odt::extract_odt(archive, nesting)),
        DetectedContent::IWork(archive, root) => {
            catch_parser_panic("iWork", || iwork::extract_iwork(archive, &root))
        }
        DetectedContent::Workbook(kind) => {
            catch_parser_panic("workbook", || sheet::extract_workbook(bytes, kind, nesting))
        }
        DetectedContent::Rtf => catch_parser_panic("RTF", || Ok(rtf::extract_rtf(bytes))),
        DetectedContent::Doc => catch_parser_panic("DOC", || legacy::extract_doc(bytes)),
        DetectedContent::Ppt => catch_parser_panic("PPT", || legacy::extract_ppt(bytes)),
        DetectedContent::Pptx(archive, main) => {
            catch_parser_panic("PPTX", || slides::extract_pptx(archive, &main, nesting))
        }
        DetectedContent::Odp(archive) => catch_parser_panic("ODP", || odt::extract_slides(archive, nesting)),
        DetectedContent::Xps(archive, list) => catch_parser_panic("XPS", || xps::extract_xps(archive, &list)),
        DetectedContent::Visio(archive) => catch_parser_panic("Visio", || visio::extract_visio(archive)),
        DetectedContent::OfficeXml(OfficeXml::Workbook) => {
            catch_parser_panic("workbook", || office_xml::extract_workbook_xml(bytes))
        }
        DetectedContent::OfficeXml(OfficeXml::Document) => {
            catch_parser_panic("Word", || word::extract_flat(bytes))
        }
        DetectedContent::OfficeXml(OfficeXml::Package) => catch_parser_panic("Flat OPC", || {
            extract_content(path, &office_xml::flat_opc_to_zip(bytes)?, bounds, nesting)
        }),
        DetectedContent::FlatOpenDocument(kind, body) => catch_parser_panic("OpenDocument", || match kind {
            OpenDocument::Text => odt::extract_flat(body, DocumentFormat::Odt),
            OpenDocument::Slides => odt::extract_flat(body, DocumentFormat::Presentation),
            OpenDocument::Workbook => sheet::extract_flat(body),
        }),
        DetectedContent::Epub(archive) => catch_parser_panic("EPUB", || epub::extract_epub(archive)),
        DetectedContent::FictionBook => {
            catch_parser_panic("FictionBook", || fiction_book::extract_fiction_book(bytes))
        }
        DetectedContent::Mobi => catch_parser_panic("book", || mobi::extract_mobi(bytes)),
        DetectedContent::Notebook => catch_parser_panic("notebook", || notebook::extract_notebook(bytes)),
        DetectedContent::Eml => catch_parser_panic("message", || mail::extract_eml(bytes, nesting)),
        DetectedContent::Mailbox => {
            catch_parser_panic("message", || Ok(mail::extract_mailbox(bytes, nesting)))
        }
        DetectedContent::Msg => catch_parser_panic("message", || outlook::extract_outlook(bytes, nesting)),
        DetectedContent::DataBox => {
            catch_parser_panic("message", || data_box::extract_data_message(bytes, nesting))
        }
        DetectedContent::Signed => {
            let content = signed::extract_signed_content(bytes)?;
            // The name of the signed file precedes the extension, unless it is the text of a mail.
            let path = path.with_extension(if signed::is_mail(&content) { "eml" } else { "" });
            catch_parser_panic("CMS", || extract_content(&path, &content, bounds, nesting))
        }
        DetectedContent::Archive(mut archive) => catch_parser_panic("archive", || {
            archived_files::extract_archived_files(archive.as_mut(), bounds, nesting)
        }),
        // Images of a page are not parts of its file.
        DetectedContent::Html => {
            catch_parser_panic("HTML", || Ok(Extracted { images: Vec::new(), ..html::extract_html(bytes) }))
        }
        DetectedContent::Plain(format) => text::extract_text(bytes, format),
    }
}

/// Converts a panic of the parser to an error; some libraries panic on malformed files.
fn catch_parser_panic(
    format: &'static str,
    parse: impl FnOnce() -> Result<Extracted, ExtractError>,
) -> Result<Extracted, ExtractError> {
    catch_unwind(AssertUnwindSafe(parse))
        .unwrap_or_else(|_| Err(ExtractError::broken_file(format, "its parser gave up")))
}
