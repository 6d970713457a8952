//! Previews of documents: the text and the sizes of pages, and pages as pictures. Workers parse; the agent forwards
//! their replies.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

use documents::{
    DocumentFormat, DocumentSegment, DrawnDocument, ExtractBounds, INPUT_MAX_BYTES, find_passage_marks,
    page_sizes, without_signatures,
};
use domain::unread::UnreadReason;
use protocol::preview::{
    DocumentPreview, MARKS_MAX, PAGES_MAX, PICTURE_MAX_BYTES, PageRequest, PreviewRequest, PreviewText,
    TEXT_MAX_BYTES, TEXTS_MAX,
};

use super::ToolLimits;
use super::child::{WorkerAnswer, WorkerError, ask_worker};
use super::jail::Jail;
use super::library;
use super::pictures::{mark_out, page_size_out, picture_size};
use super::request::ChildTask;

/// No page is started after this time, and the timeouts of a worker.
const PAGES_TIME_MAX: Duration = Duration::from_secs(4);
const PREVIEW_TIME_MAX: Duration = Duration::from_secs(12);
const PICTURE_TIME_MAX: Duration = Duration::from_secs(10);

/// Returns the text of a document in a worker.
pub(crate) async fn preview_document(request: PreviewRequest, limits: &ToolLimits) -> DocumentPreview {
    let path = request.path.clone();
    match ask_worker(ChildTask::Preview(request), limits, PREVIEW_TIME_MAX).await {
        Ok(WorkerAnswer::Preview(mut preview)) => {
            if preview.unit == DocumentFormat::Archive.page_word() {
                add_recognized(&mut preview, &path, limits).await;
            }
            preview
        }
        Ok(_) => unreadable_preview(UnreadReason::Broken),
        Err(WorkerError { reason, .. }) => unreadable_preview(reason.unwrap_or(UnreadReason::Broken)),
    }
}

/// Adds the text of images in the shown files of an archive, if the index has it: the worker does no text recognition.
async fn add_recognized(preview: &mut DocumentPreview, path: &str, limits: &ToolLimits) {
    let mut shown: BTreeMap<u32, String> = BTreeMap::new();
    for text in &preview.texts {
        if let Some(page) = text.page {
            shown.entry(page).or_default().push_str(&without_space(&text.text));
        }
    }
    let (Some(library), Some((first, _))) = (&limits.library, shown.first_key_value()) else { return };
    let Some(found) = library::find_file(path, limits).await else { return };
    let Some(stored) = library.read_stored_pages(&found.path, found.stamp, *first, TEXTS_MAX).await else {
        return;
    };
    let used: usize = preview.texts.iter().map(|text| text.text.len()).sum();
    let mut room = TEXT_MAX_BYTES.saturating_sub(used);
    for piece in stored.pieces {
        let Some((page, known)) = piece.page.and_then(|page| Some((page, shown.get(&page)?))) else {
            continue;
        };
        if known.contains(&without_space(&piece.text)) {
            continue;
        }
        if piece.text.len() > room || preview.texts.len() >= TEXTS_MAX {
            preview.truncated = true;
            return;
        }
        room -= piece.text.len();
        preview.texts.push(PreviewText { page: Some(page), name: None, inner_sheet: None, text: piece.text });
    }
}

fn without_space(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Draws a page in a worker; `None` if it cannot be drawn within the limits.
pub(crate) async fn draw_in_worker(request: PageRequest, limits: &ToolLimits) -> Option<Vec<u8>> {
    match ask_worker(ChildTask::Picture(request), limits, PICTURE_TIME_MAX).await {
        Ok(WorkerAnswer::Picture(Some(digits))) => domain::hex::decode_hex(&digits),
        Ok(_) | Err(_) => None,
    }
}

fn unreadable_preview(reason: UnreadReason) -> DocumentPreview {
    DocumentPreview { reason: Some(reason.code().to_owned()), ..DocumentPreview::default() }
}

/// Reads the text of a document and the sizes of its pages, in a worker.
pub(super) fn read_preview(jail: &Jail, request: &PreviewRequest) -> DocumentPreview {
    let Ok((path, mut file)) = jail.open_file(&request.path) else {
        return unreadable_preview(UnreadReason::Missing);
    };
    let first_page = request.first_page.max(1);
    let bounds = ExtractBounds {
        first_page,
        last_page: first_page.saturating_add(PAGES_MAX - 1),
        text_max_bytes: TEXT_MAX_BYTES,
        until: Some(Instant::now() + PAGES_TIME_MAX),
        may_cut: true,
    };
    let Ok(again) = file.try_clone() else { return unreadable_preview(UnreadReason::Broken) };
    let extracted = jail.extract_text(&path, again, &bounds);
    let bytes = file.rewind().ok().and_then(|()| read_document_bytes(file)).unwrap_or_default();
    let sizes = page_sizes(&bytes, first_page, PAGES_MAX);
    let sizes: Vec<_> = sizes.into_iter().flatten().map(page_size_out).collect();
    let cited = request.cited.as_ref().filter(|_| !sizes.is_empty());
    let marks = cited.map(|cited| find_passage_marks(&bytes, cited.page, &cited.passage, MARKS_MAX));
    let marks = marks.into_iter().flatten().map(mark_out).collect();
    drop(bytes);
    let mut document = match extracted {
        Ok(document) => document,
        Err(error) => return DocumentPreview { sizes, marks, ..unreadable_preview(error.unread_reason()) },
    };
    let mut preview = DocumentPreview {
        pages: document.pages,
        sizes,
        marks,
        truncated: document.truncated || !document.cut_pages.is_empty(),
        ..DocumentPreview::default()
    };
    document.format.page_word().clone_into(&mut preview.unit);
    preview.is_markdown = document.format == DocumentFormat::Markdown;
    if document.format == DocumentFormat::Archive {
        retain_whole_files(&mut document.segments);
    }
    let mut room = TEXT_MAX_BYTES;
    let mut shown_sheet = None;
    for segment in document.segments {
        let sheet = sheet_of(&segment, document.format);
        let (name, inner_sheet) = match &segment.inner {
            Some(inner) => {
                let is_other = shown_sheet != sheet;
                shown_sheet.clone_from(&sheet);
                (Some(inner.name.clone()), sheet.map(|sheet| sheet.name).filter(|_| is_other))
            }
            None => (sheet.map(|sheet| sheet.name), None),
        };
        let mut text = segment.text;
        if preview.texts.len() >= TEXTS_MAX || text.len() > room {
            preview.truncated = true;
            text.truncate(text.floor_char_boundary(room));
        }
        room -= text.len();
        if !text.is_empty() && preview.texts.len() < TEXTS_MAX {
            preview.texts.push(PreviewText { page: segment.page, name, inner_sheet, text });
        }
    }
    preview
}

/// A sheet of a workbook, or of one in an archive.
#[derive(Clone, PartialEq, Eq)]
struct SheetName {
    page: Option<u32>,
    inner_page: Option<String>,
    name: String,
}

/// Returns the sheet that a text is of.
fn sheet_of(segment: &DocumentSegment, format: DocumentFormat) -> Option<SheetName> {
    let format = segment.inner.as_ref().map_or(format, |inner| inner.format);
    // The heading of rows has the names of the columns, too.
    let heading = segment.heading.as_deref().filter(|_| format == DocumentFormat::Workbook)?;
    let inner_page = segment.inner.as_ref().and_then(|inner| inner.page.clone());
    let name = heading.split(": ").next().unwrap_or_default().to_owned();
    Some(SheetName { page: segment.page, inner_page, name })
}

/// Drops the files of an archive that do not fit behind the first one: they are requested later.
fn retain_whole_files(segments: &mut Vec<DocumentSegment>) {
    let first = segments.first().and_then(|segment| segment.page);
    let mut bytes = 0;
    let too_many = segments.iter().find(|segment| {
        bytes += segment.text.len();
        segment.page != first && bytes > TEXT_MAX_BYTES
    });
    if let Some(end) = too_many.map(|segment| segment.page) {
        segments.retain(|segment| segment.page < end);
    }
}

/// Draws a page, in a worker, as hexadecimal digits of a PNG.
pub(super) fn draw_page(jail: &Jail, request: &PageRequest) -> Option<String> {
    let (_, file) = jail.open_file(&request.path).ok()?;
    let png = DrawnDocument::from_bytes(&read_document_bytes(file)?)?
        .ok()?
        .draw_page(request.page, picture_size(request.viewer))?;
    (png.len() <= PICTURE_MAX_BYTES).then(|| domain::hex::encode_hex(&png))
}

/// Returns the bytes of a file, up to the size limit of documents; for a signed file, the bytes of the enclosed one.
pub(super) fn read_document_bytes(file: std::fs::File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(INPUT_MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(without_signatures(bytes))
}

#[cfg(test)]
mod tests {
    use domain::image::ImageKind;
    use protocol::preview::{CitedOnPage, PICTURE_PIXELS_MAX, Viewer};

    use super::*;

    const LEASE: &[u8] = include_bytes!("../../../documents/tests/fixtures/lease.pdf");

    /// A folder with a document in it.
    fn document_workspace(bytes: &[u8]) -> (tempfile::TempDir, Jail) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.pdf"), bytes).unwrap();
        let jail = Jail::open_workspace(folder.path()).unwrap();
        (folder, jail)
    }

    fn page_request(path: &str, page: u32) -> PageRequest {
        PageRequest { path: path.to_owned(), page, viewer: Viewer::Person }
    }

    fn drawn_size(jail: &Jail, page: u32) -> Option<(u32, u32)> {
        let digits = draw_page(jail, &page_request("/a.pdf", page))?;
        ImageKind::Png.dimensions(&domain::hex::decode_hex(&digits)?)
    }

    /// A PDF of one page with these boxes.
    fn one_page_pdf(boxes: &str) -> Vec<u8> {
        format!(
            "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n\
             2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
             3 0 obj<</Type/Page/Parent 2 0 R {boxes}>>endobj\ntrailer<</Root 1 0 R>>\n"
        )
        .into_bytes()
    }

    #[test]
    fn preview_of_pdf_marks_passage() {
        let (_folder, jail) = document_workspace(LEASE);
        let request = PreviewRequest { path: "/a.pdf".to_owned(), first_page: 1, cited: None };
        let preview = read_preview(&jail, &request);
        let pages = preview.pages.unwrap();
        assert!(pages > 1 && preview.is_within_limits(1), "{preview:?}");
        assert_eq!(preview.sizes.len(), pages as usize);
        assert_eq!(drawn_size(&jail, 1), Some(preview.sizes[0].picture_size()));
        assert_eq!(drawn_size(&jail, pages + 1), None);
        assert_eq!(drawn_size(&jail, 0), None);
        assert!(preview.marks.is_empty());
        let passage = preview.texts[0].text.lines().find(|line| line.len() > 40).unwrap().to_owned();
        let cited = |page| Some(CitedOnPage { page, passage: passage.clone() });
        let of_page =
            |page| read_preview(&jail, &PreviewRequest { cited: cited(page), ..request.clone() }).marks;
        let marks = of_page(1);
        assert!(!marks.is_empty(), "{passage}");
        let size = preview.sizes[0];
        assert!(
            marks
                .iter()
                .all(|mark| mark.left + mark.width <= size.width && mark.top + mark.height <= size.height)
        );
        assert!(of_page(2).is_empty() && of_page(99).is_empty());
        let later = read_preview(&jail, &PreviewRequest { first_page: 2, ..request });
        assert!(later.texts.iter().all(|text| text.page >= Some(2)), "{later:?}");
    }

    #[test]
    fn draw_page_within_limits_or_none() {
        for boxes in [
            "/MediaBox[0 0 1000000000 1000000000]",
            "/MediaBox[0 0 1 20000]",
            "/MediaBox[0 0 20000 1]",
            "/MediaBox[0 0 0 0]",
            "/MediaBox[0 0 1e38 1e38]",
            "/MediaBox[5 5 -600 -800]/Rotate 90",
            "/MediaBox[0 0 600 800]/CropBox[700 900 800 1000]",
            "",
        ] {
            let (_folder, jail) = document_workspace(&one_page_pdf(boxes));
            let preview = read_preview(
                &jail,
                &PreviewRequest { path: "/a.pdf".to_owned(), first_page: 1, cited: None },
            );
            assert!(preview.is_within_limits(1), "{boxes}: {preview:?}");
            if let Some((width, height)) = drawn_size(&jail, 1) {
                assert!(
                    u64::from(width) * u64::from(height) <= PICTURE_PIXELS_MAX,
                    "{boxes}: {width} {height}"
                );
            }
        }
    }

    #[test]
    fn preview_archive_gives_whole_files() {
        let segment = |page: u32, bytes: usize| DocumentSegment {
            page: Some(page),
            lines: None,
            heading: None,
            text: "x".repeat(bytes),
            inner: None,
            columns: None,
        };
        let pages = |sizes: &[(u32, usize)]| {
            let mut segments: Vec<_> = sizes.iter().map(|(page, bytes)| segment(*page, *bytes)).collect();
            retain_whole_files(&mut segments);
            segments.iter().filter_map(|segment| segment.page).collect::<Vec<_>>()
        };
        let half = TEXT_MAX_BYTES / 2;
        assert_eq!(pages(&[(4, half), (4, half), (5, 1)]), [4, 4]);
        assert_eq!(pages(&[(4, half), (5, 9), (5, half), (6, 1)]), [4]);
        assert_eq!(pages(&[(4, half), (5, half), (6, 1)]), [4, 5]);
        assert_eq!(pages(&[(4, 3 * half), (4, 1)]), [4, 4], "the first is cut if need be");
        assert!(pages(&[]).is_empty());
    }

    #[test]
    fn preview_archive_names_sheets() {
        let archive = zip_of(&[
            ("a.txt", &b"A lease."[..]),
            (
                "flats.fods",
                workbook_xml(&[("Flats", &["Unit", "7"]), ("Rent", &["Unit", "18500"])]).as_bytes(),
            ),
        ]);
        let (_folder, jail) = document_workspace(&archive);
        let request = PreviewRequest { path: "/a.pdf".to_owned(), first_page: 1, cited: None };
        let preview = read_preview(&jail, &request);
        let texts: Vec<_> = preview
            .texts
            .iter()
            .map(|text| (text.page.unwrap(), text.inner_sheet.as_deref(), text.text.as_str()))
            .collect();
        let expected = [
            (1, None, "a.txt"),
            (1, None, "A lease."),
            (2, None, "flats.fods"),
            (2, Some("Flats"), "Unit\n7"),
            (2, Some("Rent"), "Unit\n18500"),
        ];
        assert_eq!(texts, expected);
        assert!(!preview.is_markdown && preview.is_within_limits(1));
    }

    /// An archive of files.
    fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            std::io::Write::write_all(&mut writer, content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    /// A workbook with sheets of one column.
    fn workbook_xml(sheets: &[(&str, &[&str])]) -> String {
        let row = |value: &&str| {
            format!(
                "<table:table-row><table:table-cell office:value-type=\"string\"><text:p>{value}</text:p></table:table-cell></table:table-row>"
            )
        };
        let sheet = |(name, rows): &(&str, &[&str])| {
            format!(
                "<table:table table:name=\"{name}\">{}</table:table>",
                rows.iter().map(row).collect::<String>()
            )
        };
        let sheets: String = sheets.iter().map(sheet).collect();
        format!(
            "<?xml version=\"1.0\"?>\n<office:document \
             office:mimetype=\"application/vnd.oasis.opendocument.spreadsheet\"><office:body>\
             <office:spreadsheet>{sheets}</office:spreadsheet></office:body></office:document>"
        )
    }

    #[test]
    fn a_notebook_is_markdown() {
        let folder = tempfile::tempdir().unwrap();
        let notebook = r##"{"cells": [{"cell_type": "markdown", "source": "# Rent"}]}"##;
        std::fs::write(folder.path().join("a.ipynb"), notebook).unwrap();
        std::fs::write(folder.path().join("b.ipynb"), "{\"cells\": 7}").unwrap();
        let jail = Jail::open_workspace(folder.path()).unwrap();
        let preview = |path: &str| {
            read_preview(&jail, &PreviewRequest { path: path.to_owned(), first_page: 1, cited: None })
        };
        assert!(preview("/a.ipynb").is_markdown);
        assert!(!preview("/b.ipynb").is_markdown, "it is text");
    }

    #[test]
    fn draw_page_of_non_pdf_fails() {
        for bytes in [&b"%PDF-"[..], b"", b"<svg onload=alert(1)>", &LEASE[..LEASE.len() / 3]] {
            let (_folder, jail) = document_workspace(bytes);
            let _ = drawn_size(&jail, 1);
        }
        let (_folder, jail) = document_workspace(b"text");
        assert_eq!(drawn_size(&jail, 1), None);
        assert_eq!(draw_page(&jail, &page_request("/../../etc/passwd", 1)), None);
        let missing = PreviewRequest { path: "/none.pdf".to_owned(), first_page: 1, cited: None };
        assert_eq!(read_preview(&jail, &missing).reason.as_deref(), Some("missing"));
    }
}
