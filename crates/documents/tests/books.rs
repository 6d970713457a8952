//! Books of FictionBook, Mobipocket and Kindle, as other programs write them.

#[path = "support/mobi.rs"]
mod mobi;

use std::path::Path;

use documents::{DocumentFormat, ExtractError, Extracted, extract_bytes};
use mobi::MobiFile;

fn read_book(name: &str, bytes: &[u8]) -> Extracted {
    extract_bytes(Path::new(name), bytes).expect("it can be read")
}

/// Returns the pages of a document with their texts.
fn page_texts(document: &Extracted) -> Vec<(u32, &str)> {
    document
        .segments
        .iter()
        .map(|segment| (segment.page.expect("books have pages"), segment.text.as_str()))
        .collect()
}

const FICTION_BOOK: &str = "<?xml version=\"1.0\" encoding=\"windows-1251\"?>\n\
    <FictionBook xmlns=\"http://www.gribuser.ru/xml/fictionbook/2.0\"><description><title-info><genre>sf</genre>\
    <author><first-name>Антон</first-name><last-name>Чехов</last-name></author><book-title>Степь</book-title>\
    <annotation><p>Повесть.</p></annotation><lang>ru</lang></title-info>\
    <document-info><id>1234</id></document-info></description>\n\
    <body><section><title><p>Глава</p>\n<p>первая</p></title><p>Из <emphasis>N.</emphasis>,\n\tуездного \
    города<a type=\"note\">[1]</a>.</p><poem><stanza><v>Строка</v><v>другая</v></stanza></poem></section>\
    <section><title><p>Вторая</p></title><section><p>Ястреб.</p></section><section><p>Коршун.</p>\
    <section><p>Перепел.</p></section></section>\
    <table><tr><td>Птица</td><td>7</td></tr></table></section></body>\
    <body name=\"notes\"><section><title><p>1</p></title><p>Сноска.</p></section></body>\
    <binary id=\"a.png\" content-type=\"image/png\">aVZCT1J3MEtHZ28=</binary></FictionBook>";

#[test]
fn fiction_book_sections_are_pages() {
    let (bytes, ..) = encoding_rs::WINDOWS_1251.encode(FICTION_BOOK);
    for name in ["a.fb2", "a"] {
        let book = read_book(name, &bytes);
        assert_eq!(book.format, DocumentFormat::Book);
        assert_eq!(
            page_texts(&book),
            [
                (1, "Антон Чехов"),
                (1, "Степь\nПовесть."),
                (2, "Глава первая\nИз N., уездного города[1].\nСтрока\nдругая"),
                (3, "Вторая"),
                (4, "Ястреб."),
                (5, "Коршун.\nПерепел.\nПтица\t7"),
                (6, "1\nСноска."),
            ]
        );
        assert_eq!(book.segments[2].heading.as_deref(), Some("Глава первая"));
    }
}

#[test]
fn fiction_book_cut_off_is_read() {
    let end = FICTION_BOOK.find("Перепел").expect("it is there");
    let book = read_book("a.fb2", &FICTION_BOOK.as_bytes()[..end]);
    assert_eq!(page_texts(&book).last(), Some(&(5, "Коршун.")));
    let error =
        extract_bytes(Path::new("a.fb2"), &FICTION_BOOK.as_bytes()[..200]).expect_err("it has no body");
    assert!(matches!(error, ExtractError::Broken { format: "FictionBook", .. }), "{error}");
}

#[test]
fn html_about_fiction_book_not_detected() {
    let page = read_book("a.txt", b"The element is <FictionBook> and nothing else.");
    assert_eq!(page.format, DocumentFormat::Text);
    assert_eq!(page.segments[0].text, "The element is <FictionBook> and nothing else.");
}

#[test]
fn mobi_old_book_pages_decoded() {
    let first = "<html><head><guide/><metadata></head><body><h1>Pt\u{e1}ci</h1><p>A wren sings.</p>";
    let (first, ..) = encoding_rs::WINDOWS_1252.encode(first);
    let book = MobiFile {
        code_page: 1252,
        version: 6,
        packing: 1,
        records: &[&first, b"<mbp:pagebreak/><h1>More</h1><p>A k", b"not.</p></body></html>"],
        ..MobiFile::default()
    };
    let read = read_book("a.mobi", &book.into_bytes());
    assert_eq!(page_texts(&read), [(1, "Ptáci\nA wren sings."), (2, "More\nA knot.")]);
    assert!(!read.truncated);
}

#[test]
fn mobi_new_book_files_are_pages() {
    let html = "<html><body><p>Skřivan.</p></body></html><html><body><p>Čáp.</p></body></html>";
    let styles = "p { color: red }";
    // Packed: ASCII is unchanged, and other bytes are preceded by their number.
    let packed = |text: &str| {
        let mut packed = Vec::new();
        for letter in text.chars() {
            let bytes = letter.to_string().into_bytes();
            if bytes.len() > 1 {
                packed.push(u8::try_from(bytes.len()).expect("at most four"));
            }
            packed.extend(bytes);
        }
        packed
    };
    let records = [packed(html), packed(styles)].map(|record| [&record[..], b"\0xy\x83"].concat());
    let book = MobiFile {
        code_page: 65_001,
        version: 8,
        packing: 2,
        records: &[&records[0], &records[1]],
        trailers: 0b11,
        html_end: Some(u32::try_from(html.len()).expect("it is short")),
        ..MobiFile::default()
    };
    assert_eq!(page_texts(&read_book("a.azw3", &book.into_bytes())), [(1, "Skřivan."), (2, "Čáp.")]);
}

#[test]
fn mobi_dictionary_read_past_page_limit() {
    let entry = "<p>entry</p><mbp:pagebreak/>".repeat(12_000);
    let records: Vec<&[u8]> = entry.as_bytes().chunks(4096).chain([&b"<p>the last</p>"[..]]).collect();
    let book =
        MobiFile { code_page: 65_001, version: 6, packing: 1, records: &records, ..MobiFile::default() };
    let book = read_book("a.prc", &book.into_bytes());
    assert!(book.pages.is_some_and(|pages| (3_000..=5_000).contains(&pages)), "{:?}", book.pages);
    assert!(!book.truncated);
    assert!(book.segments.last().is_some_and(|segment| segment.text.ends_with("the last")));
}

#[test]
fn mobi_protected_or_damaged_book_named() {
    let error = |book: MobiFile<'_>| {
        extract_bytes(Path::new("a.mobi"), &book.into_bytes()).expect_err("it is not read")
    };
    let protected =
        MobiFile { code_page: 1252, packing: 2, encryption: 2, records: &[b"x"], ..MobiFile::default() };
    assert!(matches!(error(protected), ExtractError::Encrypted("book")));
    let damaged = MobiFile { code_page: 1252, packing: 2, records: &[b"\x80"], ..MobiFile::default() };
    assert!(matches!(error(damaged), ExtractError::Broken { format: "book", .. }));
    let unknown = MobiFile { code_page: 1252, packing: 9, records: &[b"x"], ..MobiFile::default() };
    assert!(matches!(error(unknown), ExtractError::Broken { format: "book", .. }));
    // One damaged record costs no others.
    let part = MobiFile { packing: 2, records: &[b"<p>A dunlin.</p>", b"\x80"], ..MobiFile::default() };
    let part = read_book("a.pdb", &part.into_bytes());
    assert_eq!(page_texts(&part), [(1, "A dunlin.")]);
    assert!(part.truncated);
}

#[test]
fn mobi_cut_anywhere_read_or_named() {
    let book = MobiFile {
        code_page: 65_001,
        version: 8,
        packing: 2,
        records: &[b"<p>A sanderling.</p>"],
        ..MobiFile::default()
    };
    let bytes = book.into_bytes();
    for end in 68..bytes.len() {
        match extract_bytes(Path::new("a.mobi"), &bytes[..end]) {
            Ok(read) => assert_eq!(read.format, DocumentFormat::Book),
            Err(error) => {
                assert!(matches!(error, ExtractError::Broken { format: "book", .. }), "{end}: {error}")
            }
        }
    }
}
