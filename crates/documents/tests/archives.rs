//! Archives: the files in them are read, each as a page.

#[path = "support/archive.rs"]
mod archive;

use std::io::{Cursor, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use archive::zip_archive;
use documents::passages::{DocumentPassage, split_passages};
use documents::{DocumentFormat, ExtractBounds, ExtractError, Extracted, extract_bytes, extract_part};
use zip::ZipWriter;
use zip::unstable::write::FileOptionsExt;
use zip::write::SimpleFileOptions;

const LEASE: &[u8] = include_bytes!("fixtures/lease.pdf");
const LOCKED: &[u8] = include_bytes!("fixtures/locked.pdf");

fn read_zip(bytes: &[u8]) -> Extracted {
    extract_bytes(Path::new("files.zip"), bytes).expect("it can be read")
}

fn split_pieces(document: &Extracted) -> Vec<DocumentPassage> {
    split_passages(document, 1_200)
}

/// Returns the texts of a page.
fn page_texts(document: &Extracted, page: u32) -> Vec<&str> {
    let of_page = document.segments.iter().filter(|segment| segment.page == Some(page));
    of_page.map(|segment| segment.text.as_str()).collect()
}

fn zip_files(files: &[(&str, &[u8])]) -> Vec<u8> {
    zip_archive(files.iter().copied())
}

#[test]
fn zip_files_become_named_pages() {
    let document =
        zip_archive([("word/document.xml", "<w:body><w:p><w:t>Nájem je 12 500 Kč.</w:t></w:p></w:body>")]);
    let read = read_zip(&zip_files(&[
        ("smlouvy/", b""),
        ("smlouvy/byt.docx", &document),
        ("__MACOSX/smlouvy/._byt.docx", b"\0\x05\x16\x07"),
        (
            "notes/rules.md",
            b"# Keys\n\nKeys, and whatever belongs to them, cars and bicycles among them, are returned to the house\non Friday.\n\n# Dogs\n\nNo dogs.\n",
        ),
        ("notes/.DS_Store", b"\0\0\0\x01Bud1"),
        ("prices.csv", b"item;price\nchair;40\ntable;90\n"),
    ]));
    assert_eq!((read.format, read.pages, read.unread_files.len()), (DocumentFormat::Archive, Some(3), 0));
    assert_eq!(page_texts(&read, 1), ["smlouvy/byt.docx", "Nájem je 12 500 Kč."]);
    let pieces = split_pieces(&read);
    let found = |text: &str| pieces.iter().find(|piece| piece.text.contains(text)).expect("it is there");
    let keys = found("to the house\non Friday.");
    assert_eq!(keys.heading.as_deref(), Some("notes/rules.md › Keys"), "wrapped lines are one paragraph");
    assert_eq!((keys.page, keys.lines), (Some(2), Some((1, 4))));
    assert_eq!(found("No dogs.").heading.as_deref(), Some("notes/rules.md › Dogs"));
    let row = found("chair\t40");
    assert_eq!((row.page, row.heading.as_deref()), (Some(3), Some("prices.csv › item | price")));
    assert_eq!(
        found("12 500").heading.as_deref(),
        Some("smlouvy/byt.docx"),
        "no heading goes on in the next file"
    );
}

#[test]
fn pages_of_a_pdf_are_named() {
    let read = read_zip(&zip_files(&[("a.txt", b"First."), ("lease.pdf", LEASE)]));
    let pieces = split_pieces(&read);
    let headings: Vec<_> =
        pieces.iter().map(|piece| (piece.page, piece.heading.clone().unwrap_or_default())).collect();
    assert!(headings.contains(&(Some(2), "lease.pdf, page 1 › Čl. 2 Nájemné".to_owned())), "{headings:?}");
    assert!(pieces.iter().all(|piece| piece.page == Some(1) || piece.lines.is_none()));
}

#[test]
fn zip_unread_files_counted_with_reason() {
    let read = read_zip(&zip_files(&[
        ("locked.pdf", LOCKED),
        ("tool.exe", b"MZ\x90\0\x03\0\0\0\x04"),
        ("good.txt", b"Good."),
        ("broken.docx", b"PK\x03\x04 broken"),
    ]));
    assert_eq!(read.unread_files, [1, 2, 4]);
    assert_eq!(
        page_texts(&read, 1),
        ["locked.pdf\n(not read: the PDF file is encrypted and needs a password)"]
    );
    assert!(
        page_texts(&read, 2)[0]
            .starts_with("tool.exe\n(not read: the file is binary (Windows program, 9 bytes)")
    );
    assert_eq!(page_texts(&read, 3), ["good.txt", "Good."]);
    assert!(page_texts(&read, 4)[0].starts_with("broken.docx\n(not read: the ZIP file is broken"));
}

#[test]
fn zip_with_password_is_encrypted() {
    let secret =
        SimpleFileOptions::default().with_deprecated_encryption(b"secret").expect("it is a password");
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file("a.txt", secret).expect("it begins");
    writer.write_all(b"Hidden.").expect("it is written");
    writer.start_file("b.txt", SimpleFileOptions::default()).expect("it begins");
    writer.write_all(b"Open.").expect("it is written");
    let half = writer.finish().expect("it ends").into_inner();
    let document = read_zip(&half);
    assert_eq!(
        page_texts(&document, 1),
        ["a.txt\n(not read: the archived file is encrypted and needs a password)"]
    );
    assert_eq!(page_texts(&document, 2), ["b.txt", "Open."]);
    assert_eq!(document.unread_files, [1]);

    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file("a.txt", secret).expect("it begins");
    writer.write_all(b"Hidden.").expect("it is written");
    let whole = writer.finish().expect("it ends").into_inner();
    let error = extract_bytes(Path::new("files.zip"), &whole).expect_err("it has a password");
    assert!(matches!(error, ExtractError::Encrypted("ZIP")), "{error}");
}

#[test]
fn extract_part_pages_cover_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("files.zip");
    let texts: Vec<(String, String)> =
        (1..=40).map(|number| (format!("{number}.txt"), format!("Text {number}. ").repeat(50))).collect();
    let files: Vec<(&str, &[u8])> =
        texts.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
    std::fs::write(&path, zip_files(&files)).expect("it is written");
    let part = |first_page, text_max_bytes, until| {
        let bounds = ExtractBounds { first_page, text_max_bytes, until, ..ExtractBounds::default() };
        extract_part(&path, std::fs::File::open(&path).expect("it opens"), &bounds).expect("it is read")
    };
    let whole = part(1, usize::MAX, None);
    assert_eq!(whole.span.map(|span| (span.first, span.last, span.of)), Some((1, 40, 40)));
    let mut segments = Vec::new();
    let mut first = 1;
    while first <= 40 {
        let read = part(first, 2_000, None);
        let span = read.span.expect("a part");
        assert!(span.first == first && span.last >= first && span.last < first + 5, "{span:?}");
        segments.extend(read.segments);
        first = span.last + 1;
    }
    assert_eq!(segments, whole.segments);
    let past = Some(Instant::now() - Duration::from_secs(1));
    let late = part(7, usize::MAX, past);
    assert_eq!(late.span.map(|span| (span.first, span.last)), Some((7, 7)), "one file is read at least");

    // A file of many parts is not cut because little time was left at its beginning.
    let inner = zip_files(&files);
    std::fs::write(&path, zip_files(&[("inner.zip", &inner), ("last.txt", b"Last.")]))
        .expect("it is written");
    let late = part(1, usize::MAX, past);
    assert_eq!(late.span.map(|span| (span.first, span.last)), Some((1, 0)));
    assert!(late.segments.is_empty() && late.unread_files.is_empty());
    let bounds = ExtractBounds { until: past, may_cut: true, ..ExtractBounds::default() };
    let shown =
        extract_part(&path, std::fs::File::open(&path).expect("it opens"), &bounds).expect("it is read");
    assert_eq!(shown.span.map(|span| (span.first, span.last)), Some((1, 1)), "a preview shows its beginning");
    assert_eq!(page_texts(&shown, 1).last(), Some(&"(the rest is not read: it takes too long)"));
    assert_eq!(shown.unread_files, [1]);
    let soon = part(1, usize::MAX, Some(Instant::now() + Duration::from_secs(60)));
    assert_eq!(soon.span.map(|span| (span.first, span.last)), Some((1, 2)));
}

#[test]
fn zip_large_file_keeps_later_files() {
    let zeros = vec![b'0'; 65 * 1024 * 1024];
    let large: Vec<(&str, &[u8])> = ["1", "2", "3", "4"].map(|name| (name, &zeros[..])).to_vec();
    let read = read_zip(&zip_files(&[&large[..], &[("small.txt", b"Small.")]].concat()));
    assert_eq!(page_texts(&read, 5), ["small.txt", "Small."]);
    assert_eq!(read.unread_files, [1, 2, 3, 4]);
}

#[test]
fn zip_long_and_equal_names_distinct() {
    let long = format!("{}/decision.txt", "a very long folder ".repeat(20));
    let document = read_zip(&zip_files(&[(&long, b"Yes.")]));
    let name = page_texts(&document, 1)[0];
    assert!(name.starts_with('…') && name.ends_with("/decision.txt") && name.len() <= 120, "{name}");
    assert!(document.unread_files.is_empty());

    // Two files with the same name; most programs find the last one.
    let mut twice = zip_files(&[("a.txt", b"First."), ("b.txt", b"Second.")]);
    for at in (0..twice.len() - 5).rev() {
        if &twice[at..at + 5] == b"a.txt" {
            twice[at] = b'b';
        }
    }
    let document = read_zip(&twice);
    assert_eq!((page_texts(&document, 1), document.pages), (vec!["b.txt", "First."], Some(2)));
    assert_eq!(page_texts(&document, 2), ["b (2).txt", "Second."]);
    assert!(document.unread_files.is_empty());
}

#[test]
fn nested_archives_read_to_bound() {
    let mut inner = zip_files(&[("deep.txt", b"Deep.")]);
    for number in 1..=4 {
        inner = zip_files(&[(&format!("{number}.zip"), &inner), ("beside.txt", b"Beside.")]);
    }
    let read_deep = read_zip(&inner);
    let headings: Vec<_> = split_pieces(&read_deep).into_iter().filter_map(|piece| piece.heading).collect();
    assert!(headings.iter().any(|heading| heading.contains("4.zip/3.zip/beside.txt")), "{headings:?}");
    let texts = read_deep.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n");
    assert!(!texts.contains("Deep.") && texts.contains("too many documents inside each other"), "{texts}");
    assert_eq!(read_deep.unread_files, [1]);

    let many: Vec<(String, &[u8])> =
        (0..60).map(|number| (format!("{number}.txt"), &b"One of many."[..])).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let outer = read_zip(&zip_files(&[("many.zip", &zip_files(&many)), ("last.txt", b"Last.")]));
    let text = page_texts(&outer, 1).join("\n");
    assert_eq!(text.matches("One of many.").count(), 50);
    assert_eq!((text.matches("there are too many").count(), outer.unread_files.len()), (10, 1));
    assert_eq!(page_texts(&outer, 2), ["last.txt", "Last."], "the bound is that of one file of the archive");
}

#[test]
fn zip_bombs_refused_one_by_one() {
    let zeros = vec![b'0'; 65 * 1024 * 1024];
    let read_one = read_zip(&zip_files(&[("large.txt", &zeros), ("small.txt", b"Small.")]));
    assert_eq!(page_texts(&read_one, 2), ["small.txt", "Small."]);
    assert!(page_texts(&read_one, 1)[0].contains("unpacks to more than"), "{:?}", page_texts(&read_one, 1));

    // Each of these is accepted alone; they are binary, not text.
    let block = vec![0; 60 * 1024 * 1024];
    let names = ["1", "2", "3", "4", "5"];
    let read_all = read_zip(&zip_files(&names.map(|name| (name, &block[..]))));
    let refused =
        |number| page_texts(&read_all, number)[0].contains("the files before it are too large together");
    assert_eq!((1..=5).map(refused).collect::<Vec<_>>(), [false, false, false, true, true]);
}

#[test]
fn eml_too_many_parts_refused_alone() {
    let head = "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n";
    let parts = format!("{head}{}", "--b\r\n\r\n".repeat(600_000));
    let heads = format!("{}\r\nText.", "X-Header: value\r\n".repeat(600_000));
    let mut nested = String::new();
    for _ in 0..5_000 {
        nested.push_str("Content-Type:\r\n message/RFC822\r\n\r\n");
    }
    let report =
        format!("Subject: Report\r\n\r\n{}", "Final-Recipient: rfc822; a@example.org\r\n".repeat(2_000));
    let read = read_zip(&zip_files(&[
        ("parts.eml", parts.as_bytes()),
        ("heads.eml", heads.as_bytes()),
        ("nested.eml", nested.as_bytes()),
        ("good.eml", b"Subject: Good\r\n\r\nText."),
        ("report.eml", report.as_bytes()),
    ]));
    assert_eq!(read.unread_files, [1, 2, 3]);
    assert!((1..=3).all(|number| page_texts(&read, number)[0].contains("parts and is not read")));
    assert_eq!(page_texts(&read, 4), ["good.eml", "Subject: Good\nText."]);
}

#[test]
fn foreign_archives_and_images_named() {
    for (content, expected) in [
        (&b"Rar!\x1a\x07\x01\0\xff\xfe"[..], "a RAR archive cannot be read; pack its files as ZIP"),
        (b"MSCF\0\0\0\0\xff\xfe", "a cabinet cannot be read; pack its files as ZIP"),
        (b"\0\0\0\x18ftypavif\0\0\0\0mif1avif", "an AVIF image cannot be read; save it as JPEG first"),
    ] {
        let error = extract_bytes(Path::new("a"), content).expect_err("it is of another kind");
        assert_eq!(error.to_string(), expected);
    }
    let text = extract_bytes(Path::new("a.txt"), b"BZh is how bzip2 begins.").expect("a text");
    assert_eq!(text.format, DocumentFormat::Text);
}
