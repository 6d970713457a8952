//! Files that are attached to a PDF, such as the receipts of an invoice, or to a note on one of its pages: each is read as a document on
//! the last page.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{
    Array, Dict, Name, Object, ObjectIdentifier, Stream, String as PdfString,
};

use super::embedded_images::images_of_inner;
use super::output::clean_line;
use super::passages::ATTACHMENT;
use super::{
    DocumentFormat, DocumentSegment, EmbeddedImage, ExtractBounds, Extracted, INPUT_MAX_BYTES, InnerFile,
    Nesting, OUTPUT_MAX_BYTES, PAGES_MAX, pdf, text,
};

/// The maximum number of files of a PDF that are examined, and the maximum number of nodes of the tree of their
/// names, and notes on its pages.
const FILES_MAX: usize = 1_000;
const NODES_MAX: usize = 10_000;
const NOTES_MAX: usize = 100_000;
/// No further page of an attached file is started after this time.
const TIME_MAX: Duration = Duration::from_secs(5);

struct PdfFile {
    name: String,
    content: Vec<u8>,
}

/// Adds the text of the attached files to the last page.
pub(super) fn add_attached_files(document: &Pdf, page: u32, into: &mut Extracted, nesting: Nesting<'_>) {
    let mut room = OUTPUT_MAX_BYTES;
    let until = Instant::now().checked_add(TIME_MAX);
    let bounds = ExtractBounds { until, ..ExtractBounds::default() };
    for (number, file) in (1..).zip(list_attached_files(document)) {
        let name = format!("{ATTACHMENT}{}", file.name);
        let read = match nesting.take_attachment() {
            true => nesting.extract_inner(Path::new(&file.name), &file.content, &bounds),
            false => Err("(not read: there are too many)".to_owned()),
        };
        let segment = |of: Option<u32>, format: DocumentFormat, heading: Option<String>, text: String| {
            let inner_page = of.map(|of| format!("{} {of}", format.page_word()));
            let inner = InnerFile { name: name.clone(), page: inner_page, format };
            DocumentSegment {
                page: Some(page),
                lines: None,
                heading,
                text,
                inner: Some(Rc::new(inner)),
                columns: None,
            }
        };
        let inner = match read {
            Ok(inner) => inner,
            Err(why) => {
                into.segments.push(segment(None, DocumentFormat::Text, None, format!("{name}\n{why}")));
                into.unread_files.push(page);
                continue;
            }
        };
        into.segments.push(segment(None, inner.format, None, name.clone()));
        if !inner.is_whole() || until.is_some_and(|until| Instant::now() >= until) {
            into.unread_files.push(page);
        }
        let images = images_of_inner(&format!("{PREFIX}{number}"), &inner).into_iter();
        into.images.extend(images.map(|image| EmbeddedImage {
            page: Some(page),
            line: None,
            heading: Some(name.clone()),
            ..image
        }));
        into.unread_images.add_all(inner.unread_images);
        for part in inner.segments {
            let Some(left) = room.checked_sub(part.text.len()) else {
                into.truncated = true;
                return;
            };
            room = left;
            into.segments.push(segment(part.page, inner.format, part.heading, part.text));
        }
    }
}

/// The letter before the number of an attached file, in the names of images inside it. Attachments of messages have other
/// letters.
pub(super) const PREFIX: char = 'p';

/// Returns the content of an attached file by the name that [`add_attached_files`] gave it.
pub(super) fn attached_file_content(document: &[u8], name: &str) -> Option<Vec<u8>> {
    let number: usize = name.strip_prefix(PREFIX)?.parse().ok()?;
    let document = pdf::load_pdf(document).ok()?;
    list_attached_files(&document).nth(number.checked_sub(1)?).map(|file| file.content)
}

/// Returns the attached files, except machine-readable copies of the pages.
fn list_attached_files(document: &Pdf) -> impl Iterator<Item = PdfFile> {
    let mut found = catch_unwind(AssertUnwindSafe(|| file_specifications(document))).unwrap_or_default();
    found.extend(catch_unwind(AssertUnwindSafe(|| specifications_of_notes(document))).unwrap_or_default());
    found.truncate(FILES_MAX);
    let mut left = INPUT_MAX_BYTES as usize;
    let mut known = HashSet::new();
    // A note may have a file that is attached to the document, too.
    found.retain(|file| embedded_stream(file).is_none_or(|stream| known.insert(stream)));
    found.into_iter().filter_map(move |file| {
        let read = catch_unwind(AssertUnwindSafe(|| read_attached_file(&file))).ok()??;
        left = left.checked_sub(read.content.len())?;
        Some(read)
    })
}

/// Returns the specifications of the files that are attached to the document as a whole.
fn file_specifications(document: &Pdf) -> Vec<Dict<'_>> {
    let mut found: Vec<Dict<'_>> = Vec::new();
    let root: Option<Dict<'_>> = document.xref().get(document.xref().root_id());
    let names = root.and_then(|root| root.get::<Dict<'_>>("Names")?.get::<Dict<'_>>("EmbeddedFiles"));
    let (mut nodes, mut visited): (Vec<Dict<'_>>, _) = (names.into_iter().collect(), 0);
    while let Some(node) = nodes.pop() {
        visited += 1;
        if visited > NODES_MAX || found.len() >= FILES_MAX {
            break;
        }
        if let Some(children) = node.get::<Array<'_>>("Kids") {
            let mut children: Vec<_> =
                array_dictionaries(&children).take(NODES_MAX.saturating_sub(nodes.len())).collect();
            children.reverse();
            nodes.extend(children);
        }
        // Alternating names and specifications.
        if let Some(pairs) = node.get::<Array<'_>>("Names") {
            found.extend(array_dictionaries(&pairs).take(FILES_MAX));
        }
    }
    found.truncate(FILES_MAX);
    found
}

/// Returns the specifications of the files that are attached to notes, in the order of pages.
fn specifications_of_notes(document: &Pdf) -> Vec<Dict<'_>> {
    let pages = document.pages();
    let notes =
        pages.iter().take(PAGES_MAX as usize).filter_map(|page| page.raw().get::<Array<'_>>("Annots"));
    let notes = notes.flat_map(|notes| array_dictionaries(&notes).collect::<Vec<_>>()).take(NOTES_MAX);
    let is_file = |note: &Dict<'_>| {
        note.get::<Name<'_>>("Subtype").is_some_and(|kind| kind.as_str() == "FileAttachment")
    };
    notes.filter(is_file).filter_map(|note| note.get::<Dict<'_>>("FS")).take(FILES_MAX).collect()
}

/// Returns the number of the object that is the content of a file.
fn embedded_stream(file: &Dict<'_>) -> Option<ObjectIdentifier> {
    let embedded = file.get::<Dict<'_>>("EF")?;
    ["UF", "F"].into_iter().find_map(|key| embedded.get_ref(key)).map(ObjectIdentifier::from)
}

fn array_dictionaries<'a>(array: &Array<'a>) -> impl Iterator<Item = Dict<'a>> {
    array.iter::<Object<'a>>().filter_map(|object| match object {
        Object::Dict(dictionary) => Some(dictionary),
        _ => None,
    })
}

fn read_attached_file(file: &Dict<'_>) -> Option<PdfFile> {
    let embedded = file.get::<Dict<'_>>("EF")?;
    let name = ["UF", "F"].into_iter().find_map(|key| file.get::<PdfString<'_>>(key));
    let name =
        name.map_or_else(|| "unnamed".to_owned(), |name| clean_line(&decode_pdf_text(name.as_bytes())));
    let relation = file.get::<Name<'_>>("AFRelationship");
    let is_same = relation.is_some_and(|relation| {
        matches!(relation.as_str(), "Alternative" | "Source" | "Data")
            && name.to_ascii_lowercase().ends_with(".xml")
    });
    if is_same {
        return None;
    }
    let stream = ["UF", "F"].into_iter().find_map(|key| embedded.get::<Stream<'_>>(key))?;
    let content = stream.decoded().ok()?.into_owned();
    Some(PdfFile { name, content })
}

/// Decodes a text of a PDF: UTF-16 or UTF-8 with its mark, else Latin letters.
fn decode_pdf_text(bytes: &[u8]) -> String {
    match bytes {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] | [0xef, 0xbb, 0xbf, ..] => text::decode_text(bytes),
        _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{embedded_image, extract_bytes};
    use super::*;

    const IMAGE: &[u8] = include_bytes!("../tests/fixtures/code_word.png");

    /// Creates a PDF of two empty pages with these attached files: name, relation, content.
    fn pdf_with_files(files: &[(&str, &str, &[u8])]) -> Vec<u8> {
        let mut out =
            b"%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R/Names<</EmbeddedFiles<</Kids[5 0 R]>>>>>>endobj\n\
            2 0 obj<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2/MediaBox[0 0 200 200]>>endobj\n\
            3 0 obj<</Type/Page/Parent 2 0 R>>endobj\n4 0 obj<</Type/Page/Parent 2 0 R>>endobj\n"
                .to_vec();
        let numbers = (6..).step_by(2).take(files.len());
        let names: Vec<String> = numbers.clone().map(|number| format!("(n{number}) {number} 0 R")).collect();
        out.extend(format!("5 0 obj<</Names[{}]>>endobj\n", names.join(" ")).into_bytes());
        for (number, (name, relation, content)) in numbers.zip(files) {
            let stream = number + 1;
            let content = domain::hex::encode_hex(content);
            let file = format!(
                "{number} 0 obj<</Type/Filespec/F({name})/AFRelationship/{relation}/EF<</F {stream} 0 R>>>>endobj\n\
                 {stream} 0 obj<</Filter/ASCIIHexDecode/Length {}>>stream\n{content}>\nendstream endobj\n",
                content.len() + 1
            );
            out.extend(file.into_bytes());
        }
        out.extend(b"trailer<</Root 1 0 R>>\n");
        out
    }

    #[test]
    fn pdf_attachments_on_last_page() {
        let files: [(&str, &str, &[u8]); 4] = [
            ("receipt.txt", "Supplement", b"Two nights in room 7."),
            ("factur-x.xml", "Alternative", b"<invoice/>"),
            ("photo.png", "Unspecified", IMAGE),
            ("program.bin", "Unspecified", b"\x7fELF\0\0\0"),
        ];
        let document = pdf_with_files(&files);
        let read = extract_bytes(Path::new("a.pdf"), &document).expect("a PDF");
        let texts: Vec<(Option<u32>, &str)> =
            read.segments.iter().map(|segment| (segment.page, segment.text.as_str())).collect();
        assert_eq!(texts[..2], [(Some(2), "Attachment: receipt.txt"), (Some(2), "Two nights in room 7.")]);
        let inner = read.segments[1].inner.as_ref().expect("a file inside");
        assert_eq!((inner.name.as_str(), inner.format), ("Attachment: receipt.txt", DocumentFormat::Text));
        assert_eq!(texts[2], (Some(2), "Attachment: photo.png"));
        assert!(texts[3].1.starts_with("Attachment: program.bin\n(not read: "), "{texts:?}");
        assert_eq!((texts.len(), &read.unread_files[..]), (4, &[2][..]));
        let [image] = &read.images[..] else { panic!("one image: {:?}", read.images) };
        assert_eq!(embedded_image(&document, image).expect("it is found again").0, IMAGE);
        let first = ExtractBounds { last_page: 1, ..ExtractBounds::default() };
        let first = super::super::extract_bytes_part(Path::new("a.pdf"), &document, &first).expect("a page");
        assert!(first.segments.is_empty() && first.unread_files.is_empty(), "{first:?}");
    }

    /// Two pages, made by PyMuPDF, each with a file at a note, and a file of the document.
    const NOTED: &[u8] = include_bytes!("../tests/fixtures/noted_files.pdf");

    #[test]
    fn pdf_note_attachments_read() {
        let read = extract_bytes(Path::new("a.pdf"), NOTED).expect("a PDF");
        let texts: Vec<(Option<u32>, &str)> =
            read.segments.iter().map(|segment| (segment.page, segment.text.as_str())).collect();
        assert_eq!(
            texts[2..],
            [
                (Some(2), "Attachment: list.txt"),
                (Some(2), "There are three keys."),
                (Some(2), "Attachment: measurements.txt"),
                (Some(2), "The left window is 140 cm wide."),
                (Some(2), "Attachment: kitchen.png"),
            ]
        );
        let [image] = &read.images[..] else { panic!("one image: {:?}", read.images) };
        assert_eq!(embedded_image(NOTED, image).expect("it is found again").0, IMAGE);
        assert!(read.unread_files.is_empty(), "{read:?}");
    }

    #[test]
    fn pdf_shared_attachment_read_once() {
        let document = pdf_with_files(&[("a.txt", "Data", b"Once."), ("b.txt", "Data", b"Twice.")]);
        let noted = String::from_utf8(document).expect("a text").replace(
            "3 0 obj<</Type/Page",
            "3 0 obj<</Annots[<</Subtype/FileAttachment/FS 8 0 R>> <</Subtype/FileAttachment/FS 8 0 R>> 3 0 R]/Type/Page",
        );
        let read = extract_bytes(Path::new("a.pdf"), noted.as_bytes()).expect("a PDF");
        let texts: Vec<&str> = read.segments.iter().map(|segment| segment.text.as_str()).collect();
        assert_eq!(texts, ["Attachment: a.txt", "Once.", "Attachment: b.txt", "Twice."]);
    }

    #[test]
    fn attached_files_do_no_harm() {
        let inner = (0..6).fold(pdf_with_files(&[("a.txt", "Data", b"Deep.")]), |inner, _| {
            pdf_with_files(&[("a.pdf", "Data", &inner)])
        });
        let read = extract_bytes(Path::new("a.pdf"), &inner).expect("a PDF");
        assert!(
            read.segments.iter().any(|segment| segment.text.contains("too many documents inside")),
            "{read:?}"
        );
        let many = vec![("a.txt", "Data", &b"Text."[..]); 60];
        let read = extract_bytes(Path::new("a.pdf"), &pdf_with_files(&many)).expect("a PDF");
        assert_eq!(read.unread_files.len(), 10, "50 are read");
        let text = String::from_utf8(pdf_with_files(&many)).expect("a text");
        let endless = text.replace("5 0 obj<<", "5 0 obj<</Kids[5 0 R 5 0 R]");
        assert!(extract_bytes(Path::new("a.pdf"), endless.as_bytes()).is_ok());
        assert_eq!(attached_file_content(b"no PDF", "p1"), None);
        assert_eq!(attached_file_content(&inner, "p0"), None);
    }
}
