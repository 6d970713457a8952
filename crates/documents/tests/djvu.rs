//! DjVu documents: `rooks.djvu` has three pages that share a dictionary of shapes, as `minidjvu` packs them. The first two have a text,
//! as `djvused` adds it; the third is a scan.

use std::path::Path;

use documents::{
    DocumentFormat, ExtractBounds, ExtractError, Extracted, OUTPUT_MAX_BYTES, extract_bytes, extract_part,
};

const ROOKS: &[u8] = include_bytes!("fixtures/rooks.djvu");
/// The head of the text of the second page.
const SECOND_TEXT: &[u8] = b"TXTz\0\0\0\x58";

fn read_djvu(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    extract_bytes(Path::new("a.djvu"), bytes)
}

fn segment_texts(document: &Extracted) -> Vec<(Option<u32>, &str)> {
    document.segments.iter().map(|segment| (segment.page, segment.text.as_str())).collect()
}

fn place_of(mark: &[u8]) -> usize {
    ROOKS.windows(mark.len()).position(|window| window == mark).expect("it is there")
}

/// Returns the first page as a separate file, without its shared shapes.
fn first_page() -> Vec<u8> {
    let page = place_of(b"FORM\0\0\x01\xb7DJVU");
    [b"AT&T", &ROOKS[page..page + 8 + 0x1b7]].concat()
}

fn djvu_chunk(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("it is short").to_be_bytes();
    let padding: &[u8] = if content.len() % 2 == 1 { &[0] } else { &[] };
    [kind, &length[..], content, padding].concat()
}

/// Makes a document of one page with these chunks.
fn djvu_page(chunks: &[Vec<u8>]) -> Vec<u8> {
    let content = [&b"DJVU"[..], &chunks.concat()].concat();
    [&b"AT&T"[..], &djvu_chunk(b"FORM", &content)].concat()
}

fn plain_text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("it is short").to_be_bytes();
    djvu_chunk(b"TXTa", &[&length[1..], text.as_bytes(), &[1]].concat())
}

#[test]
fn djvu_pages_without_text_are_scans() {
    let document = read_djvu(ROOKS).expect("it is read");
    let first = "The rooks of the old town\n\nRooks nest in colonies.\nTheir nests are high in the trees.";
    let second = "A jackdaw lives in the tower.\nIt keeps to its partner.";
    assert_eq!(segment_texts(&document), [(Some(1), first), (Some(2), second)]);
    assert_eq!((document.format, document.pages, document.scans), (DocumentFormat::Djvu, Some(3), vec![3]));
    assert!(document.notes.is_empty() && !document.truncated);
}

#[test]
fn a_range_of_pages_is_read() {
    let file = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut &file, ROOKS).expect("it is written");
    std::io::Seek::rewind(&mut &file).expect("it is a file");
    let bounds = ExtractBounds { first_page: 2, last_page: 2, ..ExtractBounds::default() };
    let document = extract_part(Path::new("a.djvu"), file, &bounds).expect("it is read");
    assert_eq!((document.segments.len(), document.segments[0].page), (1, Some(2)));
    let span = document.span.expect("it has pages");
    assert_eq!((span.first, span.last, span.of), (2, 2, 3));
}

#[test]
fn djvu_single_page_detected_by_content() {
    for name in ["a", "a.djv", "a.pdf", "a.bin"] {
        let document = extract_bytes(Path::new(name), &first_page()).expect("it is read");
        assert_eq!((document.format, document.pages), (DocumentFormat::Djvu, Some(1)), "{name}");
        assert!(document.segments[0].text.contains("colonies"), "{name}");
    }
}

#[test]
fn djvu_uncompressed_text_and_blank_page() {
    let document = read_djvu(&djvu_page(&[plain_text("A r\u{fc}ck")])).expect("it is read");
    assert_eq!(segment_texts(&document), [(Some(1), "A rück")]);
    let error = read_djvu(&djvu_page(&[plain_text("\u{1f}")])).expect_err("it shows nothing");
    assert!(matches!(error, ExtractError::NoText { pages: 1 }), "{error}");
    let error = read_djvu(&djvu_page(&[])).expect_err("it shows nothing");
    assert!(matches!(error, ExtractError::NoText { pages: 1 }), "{error}");
}

#[test]
fn djvu_text_beyond_bound_truncated() {
    let line = "rooks and jackdaws in the tower\n";
    let document = read_djvu(&djvu_page(&[plain_text(&line.repeat(300_000))])).expect("it is read");
    assert!(document.cut_pages == [1] && document.segments[0].text.len() == OUTPUT_MAX_BYTES);
}

#[test]
fn djvu_unreadable_refused_with_reason() {
    let refused = |bytes: &[u8]| read_djvu(bytes).expect_err("it is not read").to_string();
    let cut = refused(&ROOKS[..ROOKS.len() - 1]);
    assert_eq!(cut, "the DjVu file is broken: its end is missing");
    let secure = [b"SDJVFORM", &ROOKS[8..]].concat();
    assert!(refused(&secure).contains("encrypted"), "{}", refused(&secure));
    // Its directory declares that its pages are other files.
    let mut indirect = ROOKS.to_vec();
    indirect[24] &= 0x7f;
    assert!(refused(&indirect).contains("whose pages are other files"), "{}", refused(&indirect));
    let mut without_pages = ROOKS.to_vec();
    without_pages[16] = b'X';
    assert!(refused(&without_pages).contains("no directory"), "{}", refused(&without_pages));
}

#[test]
fn djvu_damaged_page_named_others_read() {
    let mut damaged = ROOKS.to_vec();
    damaged[place_of(SECOND_TEXT) + SECOND_TEXT.len()] ^= 0xff;
    let document = read_djvu(&damaged).expect("the others are read");
    assert_eq!((segment_texts(&document).len(), document.scans), (1, vec![2, 3]));
    assert_eq!(document.notes, ["page 2 could not be read whole"]);
    // The place of a page that the directory names.
    let mut misplaced = ROOKS.to_vec();
    misplaced[27 + 2 * 4] = 0x7f;
    let document = read_djvu(&misplaced).expect("the others are read");
    assert_eq!(document.notes, ["page 2 could not be read whole"]);
}

#[test]
fn no_damage_brings_it_down() {
    for at in 0..ROOKS.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = ROOKS.to_vec();
            damaged[at] ^= change;
            if let Err(error) = read_djvu(&damaged) {
                assert!(!error.to_string().contains("gave up"), "byte {at}: {error}");
            }
        }
        let cut = read_djvu(&ROOKS[..at]).map(|document| document.format);
        assert!(!matches!(cut, Ok(DocumentFormat::Djvu)), "{at} bytes");
    }
}
