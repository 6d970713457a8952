//! Fuzzes the content of containers: the parts of office documents and books in archives, the streams of compound files, and the
//! objects of iWork. A mutated container would mostly be refused before a part of it is read.

use std::io::{Cursor, Write};

use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::document::assert_promises;

/// Separates the parts of an input.
const SEPARATOR: &[u8] = b"\xff\xfd\xfe";

/// A document's name, and the parts that an input gives, in order.
type Container = (&'static str, &'static [&'static str]);

const ARCHIVES: [Container; 6] = [
    (
        "a.pptx",
        &[
            "ppt/presentation.xml",
            "ppt/_rels/presentation.xml.rels",
            "ppt/slides/slide1.xml",
            "ppt/slides/_rels/slide1.xml.rels",
            "ppt/notesSlides/notesSlide1.xml",
            "ppt/comments/comment1.xml",
            "ppt/authors.xml",
        ],
    ),
    ("a.odp", &["mimetype", "content.xml", "Object 1/content.xml", "Object 2/content.xml", "Object 3"]),
    ("a.epub", &["META-INF/container.xml", "b.opf", "s.xhtml", "META-INF/encryption.xml"]),
    (
        "a.docx",
        &[
            "word/document.xml",
            "word/styles.xml",
            "word/numbering.xml",
            "word/footnotes.xml",
            "word/endnotes.xml",
            "word/comments.xml",
        ],
    ),
    (
        "a.xlsx",
        &[
            "xl/workbook.xml",
            "xl/_rels/workbook.xml.rels",
            "xl/worksheets/sheet1.xml",
            "xl/sharedStrings.xml",
            "xl/styles.xml",
            "xl/worksheets/_rels/sheet1.xml.rels",
            "xl/comments1.xml",
            "xl/drawings/drawing1.xml",
            "xl/embeddings/a.html",
        ],
    ),
    ("a.ods", &["mimetype", "content.xml", "Object 1/content.xml"]),
];

const COMPOUNDS: [Container; 4] = [
    ("a.doc", &["/WordDocument", "/0Table", "/1Table"]),
    ("a.ppt", &["/PowerPoint Document"]),
    (
        "a.msg",
        &[
            "/__properties_version1.0",
            "/__substg1.0_0037001F",
            "/__substg1.0_1000001E",
            "/__substg1.0_10130102",
            "/__attach_version1.0_#00000000/__substg1.0_37010102",
        ],
    ),
    ("a.xls", &["/Workbook"]),
];

/// An archive of files.
const FILES: Container = ("a.zip", &["a.txt", "b.eml", "c/d.html", "e.csv", "f.pdf", "g.png"]);

/// A drawing of Visio.
const DRAWING: Container =
    ("a.vsdx", &["visio/pages/pages.xml", "visio/pages/_rels/pages.xml.rels", "visio/pages/page1.xml"]);

/// A document of iWork before 2013.
const OLD_IWORK: (&str, [&str; 2]) = ("a.key", ["index.apxl", "buildVersionHistory.plist"]);

/// The list of the main parts, without which a workbook is refused.
const WORKBOOK_RELATIONS: (&str, &[u8]) = (
    "_rels/.rels",
    b"<Relationships><Relationship Id=\"m\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/\
      officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>",
);

/// Runs one input. Its first byte selects the container.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    let Some((&how, content)) = data.split_first() else { return };
    let how = usize::from(how) % (ARCHIVES.len() + COMPOUNDS.len() + 4);
    let parts = split_parts(content);
    if let Some((name, names)) = ARCHIVES.get(how) {
        let relations = (*name == "a.xlsx").then_some(WORKBOOK_RELATIONS);
        let parts = names.iter().copied().zip(parts).chain(relations);
        assert_promises(name, &build_zip(parts));
    } else if let Some((name, names)) = COMPOUNDS.get(how - ARCHIVES.len()) {
        assert_promises(name, &build_compound_file(names.iter().zip(parts)));
    } else {
        match how - ARCHIVES.len() - COMPOUNDS.len() {
            0 => assert_promises(FILES.0, &build_zip(FILES.1.iter().copied().zip(parts))),
            1 => {
                let (name, [index, history]) = OLD_IWORK;
                assert_promises(name, &build_zip([(index, content), (history, b"".as_slice())].into_iter()));
            }
            2 => {
                let parts = [("Index/Document.iwa", pack_iwork_objects(content))];
                assert_promises(
                    "a.pages",
                    &build_zip(parts.iter().map(|(name, part)| (*name, part.as_slice()))),
                );
            }
            _ => assert_promises(DRAWING.0, &build_zip(DRAWING.1.iter().copied().zip(parts))),
        }
    }
}

/// Packs objects of iWork into a file: blocks of Snappy after their lengths.
fn pack_iwork_objects(data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for block in data.chunks(65_536) {
        let packed = snap::raw::Encoder::new().compress_vec(block).expect("it is short");
        let length = u32::try_from(packed.len()).expect("it is short").to_le_bytes();
        file.push(0);
        file.extend(&length[..3]);
        file.extend(packed);
    }
    file
}

/// Splits an input into its parts.
fn split_parts(mut content: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some(at) = content.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        parts.push(&content[..at]);
        content = &content[at + SEPARATOR.len()..];
    }
    parts.push(content);
    parts
}

fn build_zip<'a>(parts: impl Iterator<Item = (&'static str, &'a [u8])>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in parts {
        zip.start_file(name, options).expect("an archive in memory");
        zip.write_all(content).expect("an archive in memory");
    }
    zip.finish().expect("an archive in memory").into_inner()
}

fn build_compound_file<'a>(parts: impl Iterator<Item = (&'a &'static str, &'a [u8])>) -> Vec<u8> {
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).expect("a file in memory");
    for (name, content) in parts {
        if let Some((folder, _)) = name.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()) {
            file.create_storage_all(folder).expect("a file in memory");
        }
        file.create_stream(name).and_then(|mut stream| stream.write_all(content)).expect("a file in memory");
    }
    file.flush().expect("a file in memory");
    file.into_inner().into_inner()
}
