//! Reads the files in an archive. Each counts as a page, in the order in which the archive lists them.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use domain::unread::UnreadImages;

use super::archive::{PART_MAX_BYTES, TOTAL_MAX_BYTES};
use super::container::{ArchivedFile, FileContainer};
use super::embedded_images::{LISTED_MAX, images_of_inner};
use super::output::{SEGMENTS_MAX, clean_line};
use super::passages::heading_in;
use super::{
    ATTACHMENTS_MAX, DocumentFormat, DocumentSegment, EmbeddedImage, ExtractBounds, ExtractError, Extracted,
    InnerFile, Nesting, PAGES_MAX, PageRange,
};

/// The longest name of a file that is shown, in bytes.
const NAME_MAX_BYTES: usize = 120;
/// The first file is read in part only if at least this time was left at its beginning, or the caller wants only that
/// file.
const PARTIAL_READ_TIME_MIN: Duration = Duration::from_secs(5);
/// The end of a file that is read in part.
const CUT: &str = "(the rest is not read: it takes too long)";
/// The line in place of files of an archive inside another document.
const TOO_MANY_ATTACHED: &str = "(not read: there are too many)";
/// The line in place of the files beyond the unpacking limit of an archive.
const TOTAL_EXCEEDED: &str = "(not read: the files before it are too large together)";

/// Reads files of an archive within bounds, each whole. A file for which the time does not suffice is left to the next call; if it is
/// the first one and had much time, it is read in part.
///
/// # Errors
/// Fails if all files are encrypted.
pub(super) fn extract_archived_files(
    archive: &mut dyn FileContainer,
    bounds: &ExtractBounds,
    nesting: Nesting<'_>,
) -> Result<Extracted, ExtractError> {
    let mut files = archive.list_files();
    if !files.is_empty() && files.iter().all(|file| file.is_encrypted) {
        return Err(ExtractError::Encrypted(archive.format_name()));
    }
    let is_cut = files.len() > PAGES_MAX as usize;
    files.truncate(PAGES_MAX as usize);
    let of = u32::try_from(files.len()).unwrap_or(PAGES_MAX);
    let (first, last) = (bounds.first_page.max(1), bounds.last_page.min(of));
    let time_left = bounds.until.map(|until| until.saturating_duration_since(Instant::now()));
    let may_cut = bounds.may_cut || time_left.is_none_or(|left| left >= PARTIAL_READ_TIME_MIN);
    let mut pages = ArchivePages::default();
    let mut unpacked_bytes = 0_u64;
    let mut read = first - 1;
    for (page, file) in (1..=last).zip(&files) {
        // Others are refused without being unpacked.
        if file.bytes <= PART_MAX_BYTES && !file.is_encrypted {
            unpacked_bytes = unpacked_bytes.saturating_add(file.bytes);
        }
        if page < first {
            continue;
        }
        let is_late = bounds.until.is_some_and(|until| Instant::now() >= until);
        let is_full = pages.bytes >= bounds.text_max_bytes || pages.segments.len() >= SEGMENTS_MAX;
        if page > first && (is_late || is_full) {
            break;
        }
        let content = if unpacked_bytes > TOTAL_MAX_BYTES {
            Err(TOTAL_EXCEEDED.to_owned())
        } else {
            extract_archived_file(archive, file, bounds, nesting)
        };
        if (page > first || !may_cut) && content.as_ref().is_ok_and(is_broken_off) {
            break;
        }
        pages.add_file(page, file, content);
        read = page;
    }
    if read >= of && of > 0 && archive.lacks_files() {
        pages.unread.push(of);
    }
    let span = PageRange { first, last: read, of };
    Ok(Extracted { truncated: is_cut && read >= of, ..pages.into_document(span) })
}

/// Reads a file.
///
/// # Errors
/// Returns the line that says why it is not read.
fn extract_archived_file(
    archive: &mut dyn FileContainer,
    file: &ArchivedFile,
    bounds: &ExtractBounds,
    nesting: Nesting<'_>,
) -> Result<Extracted, String> {
    let refused = |error: ExtractError| format!("(not read: {error})");
    if file.is_encrypted {
        return Err(refused(ExtractError::Encrypted("archived")));
    }
    // The files of an archive are its pages; the files of an archive inside another document are its attachments.
    let own_attachments = Cell::new(ATTACHMENTS_MAX);
    let nesting = match nesting.depth {
        0 => Nesting { attachments_left: &own_attachments, ..nesting },
        _ if nesting.take_attachment() => nesting,
        _ => return Err(TOO_MANY_ATTACHED.to_owned()),
    };
    let bytes = archive.unpack_file(file.index).map_err(refused)?;
    let bounds = ExtractBounds { until: bounds.until, ..ExtractBounds::default() };
    nesting.extract_inner(Path::new(&file.name), &bytes, &bounds)
}

/// Returns true if the time did not suffice for a document.
fn is_broken_off(document: &Extracted) -> bool {
    document.span.is_some_and(|span| span.last < span.of)
}

/// The parts of an archive that were read.
#[derive(Default)]
struct ArchivePages {
    segments: Vec<DocumentSegment>,
    /// The length of the text, in bytes.
    bytes: usize,
    /// The pages of files that were not read, or not whole.
    unread: Vec<u32>,
    images: Vec<EmbeddedImage>,
    /// The images that are not recognized.
    unread_images: UnreadImages,
}

impl ArchivePages {
    fn add_file(&mut self, page: u32, file: &ArchivedFile, content: Result<Extracted, String>) {
        let name = title_of(&file.name);
        let mut title = name.clone();
        if let Err(why) = &content {
            self.unread.push(page);
            title = format!("{title}\n{why}");
        }
        self.push_segment(DocumentSegment {
            page: Some(page),
            lines: None,
            heading: Some(name.clone()),
            text: title,
            inner: Some(Rc::new(InnerFile {
                name: name.clone(),
                page: None,
                format: DocumentFormat::Archive,
            })),
            columns: None,
        });
        if let Ok(document) = content {
            self.add_document(page, file.index, &name, document);
        }
    }

    fn add_document(&mut self, page: u32, index: usize, name: &str, document: Extracted) {
        if !document.is_whole() {
            self.unread.push(page);
        }
        let is_cut = is_broken_off(&document);
        let word = document.format.page_word();
        let page_title = |inner: Option<u32>| inner.map(|inner| format!("{word} {inner}"));
        let room = LISTED_MAX.saturating_sub(self.images.len());
        self.images.extend(images_of_inner(&index.to_string(), &document).into_iter().take(room).map(
            |image| {
                let heading = Some(match &image.heading {
                    Some(heading) if document.format == DocumentFormat::Archive => {
                        format!("{name}/{heading}")
                    }
                    heading => {
                        let (name, format) = (name.to_owned(), document.format);
                        heading_in(
                            &InnerFile { name, page: page_title(image.page), format },
                            heading.as_deref(),
                        )
                    }
                });
                let line = image.line.filter(|_| document.pages.is_none());
                EmbeddedImage { page: Some(page), line, heading, ..image }
            },
        ));
        self.unread_images.add_all(document.unread_images);
        for segment in document.segments {
            let (name, inner_page, format) = match &segment.inner {
                Some(deeper) => {
                    (title_of(&format!("{name}/{}", deeper.name)), deeper.page.clone(), deeper.format)
                }
                None => (name.to_owned(), page_title(segment.page), document.format),
            };
            self.push_segment(DocumentSegment {
                page: Some(page),
                // Line numbers restart on each page of the file.
                lines: segment.lines.filter(|_| document.pages.is_none()),
                heading: segment.heading,
                text: segment.text,
                inner: Some(Rc::new(InnerFile { name, page: inner_page, format })),
                columns: segment.columns,
            });
        }
        if is_cut {
            let inner = InnerFile { name: name.to_owned(), page: None, format: DocumentFormat::Archive };
            self.push_segment(DocumentSegment {
                page: Some(page),
                lines: None,
                heading: None,
                text: CUT.to_owned(),
                inner: Some(Rc::new(inner)),
                columns: None,
            });
        }
    }

    fn into_document(self, span: PageRange) -> Extracted {
        Extracted {
            segments: self.segments,
            pages: Some(span.of),
            span: Some(span),
            unread_files: self.unread,
            images: self.images,
            unread_images: self.unread_images,
            ..Extracted::empty(DocumentFormat::Archive)
        }
    }

    fn push_segment(&mut self, segment: DocumentSegment) {
        self.bytes += segment.text.len();
        self.segments.push(segment);
    }
}

/// Returns a file's name on one line, without the beginning of a long one.
fn title_of(name: &str) -> String {
    let name = clean_line(&name.replace('\t', " "));
    if name.is_empty() {
        return "unnamed".to_owned();
    }
    // The end of a long path is more informative than its beginning.
    let cut = name.len().saturating_sub(NAME_MAX_BYTES);
    match cut {
        0 => name,
        _ => format!("…{}", &name[name.ceil_char_boundary(cut + '…'.len_utf8())..]),
    }
}
