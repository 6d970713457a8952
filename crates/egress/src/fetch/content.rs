//! Decompresses, classifies, decodes and reads the body of a response.

use std::io::Read;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};
use flate2::read::MultiGzDecoder;

use super::{BODY_MAX_BYTES, Document, Fetched, Page, passages, readable};
use crate::{WebUrl, text};

/// The longest `Content-Type` that is read, in bytes.
pub(super) const KIND_MAX_BYTES: usize = 256;
/// The range in which a page declares its encoding, in bytes from its start.
const CHARSET_WITHIN_BYTES: usize = 1024;
/// The length of the sample that determines the encoding, in bytes.
const SAMPLE_MAX_BYTES: usize = 256 * 1024;

/// The type of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// PDF.
    Pdf,
    /// Word.
    Docx,
    /// An Excel workbook.
    Xlsx,
    /// An older Excel workbook.
    Xls,
    /// An older Word document.
    Doc,
    /// A PowerPoint presentation.
    Pptx,
    /// An older PowerPoint presentation.
    Ppt,
    /// An OpenDocument text.
    Odt,
    /// An OpenDocument spreadsheet.
    Ods,
    /// An OpenDocument presentation.
    Odp,
    /// A book.
    Epub,
    /// Rich text.
    Rtf,
}

impl DocumentKind {
    const ALL: [(Self, &'static str, &'static str); 12] = [
        (Self::Pdf, "application/pdf", "pdf"),
        (Self::Docx, "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
        (Self::Xlsx, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
        (Self::Xls, "application/vnd.ms-excel", "xls"),
        (Self::Doc, "application/msword", "doc"),
        (Self::Pptx, "application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
        (Self::Ppt, "application/vnd.ms-powerpoint", "ppt"),
        (Self::Odt, "application/vnd.oasis.opendocument.text", "odt"),
        (Self::Ods, "application/vnd.oasis.opendocument.spreadsheet", "ods"),
        (Self::Odp, "application/vnd.oasis.opendocument.presentation", "odp"),
        (Self::Epub, "application/epub+zip", "epub"),
        (Self::Rtf, "application/rtf", "rtf"),
    ];

    /// Returns the MIME type.
    #[must_use]
    pub fn mime(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, mime, _)| mime)
    }

    /// Returns the file extension, without a dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(.., extension)| extension)
    }
}

/// The reason why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The decompressed body exceeds the limit.
    TooLarge,
    /// The type is not supported.
    Unsupported(String),
    /// The body does not match its declared type or encoding.
    Broken,
}

/// The reader for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Text,
    Document(DocumentKind),
}

/// Reads a body. `kind` and `coding` are its `Content-Type` and `Content-Encoding`, in lower case.
pub(super) fn read(
    url: WebUrl,
    kind: &str,
    coding: &str,
    bytes: Vec<u8>,
    first_passage: usize,
) -> Result<Fetched, Unreadable> {
    let bytes = unpack(coding, bytes)?;
    let mime = kind.split(';').next().unwrap_or("").trim();
    let page = match form(mime, &bytes, &url)? {
        Form::Document(kind) => return Ok(Fetched::Document(Document { url, kind, bytes })),
        Form::Html => readable::read(&letters(kind, &url, &bytes)),
        Form::Text => readable::plain(&letters(kind, &url, &bytes)),
    };
    let title = if page.title.is_empty() { url.as_str() } else { &page.title };
    let title = text::cut(title, crate::TITLE_MAX_BYTES).to_owned();
    let (passages, next_passage) = passages::of(&page.blocks, &url, &title, first_passage);
    let links = page.links(&url);
    Ok(Fetched::Page(Page { url, title, passages, links, next_passage }))
}

/// Decompresses a body; stops at the limit.
fn unpack(coding: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Unreadable> {
    match coding {
        "" | "identity" => Ok(bytes),
        "gzip" | "x-gzip" => {
            let mut unpacked = Vec::new();
            let most = BODY_MAX_BYTES as u64 + 1;
            let read = MultiGzDecoder::new(bytes.as_slice()).take(most).read_to_end(&mut unpacked);
            read.map_err(|_| Unreadable::Broken)?;
            if unpacked.len() > BODY_MAX_BYTES { Err(Unreadable::TooLarge) } else { Ok(unpacked) }
        }
        // No other coding was offered.
        _ => Err(Unreadable::Broken),
    }
}

/// Selects the reader for a MIME type; missing and generic types are sniffed, and binary documents known by the extension.
fn form(mime: &str, bytes: &[u8], url: &WebUrl) -> Result<Form, Unreadable> {
    if bytes.starts_with(b"%PDF-") {
        return Ok(Form::Document(DocumentKind::Pdf));
    }
    if let Some((kind, ..)) = DocumentKind::ALL.iter().find(|(_, known, _)| *known == mime) {
        return Ok(Form::Document(*kind));
    }
    match mime {
        "text/html" | "application/xhtml+xml" => Ok(Form::Html),
        "text/rtf" => Ok(Form::Document(DocumentKind::Rtf)),
        "application/json" | "application/xml" | "application/x-ndjson" | "application/yaml" => {
            Ok(Form::Text)
        }
        _ if mime.starts_with("text/") || mime.ends_with("+json") || mime.ends_with("+xml") => Ok(Form::Text),
        "" | "application/octet-stream" | "binary/octet-stream" | "application/x-download" => {
            seen(bytes, url)
        }
        _ => Err(Unreadable::Unsupported(text::line(mime))),
    }
}

fn seen(bytes: &[u8], url: &WebUrl) -> Result<Form, Unreadable> {
    let head = &bytes[..bytes.len().min(CHARSET_WITHIN_BYTES)];
    if head.contains(&0) {
        let (path, _) = url.as_str().split_once(['?', '#']).unwrap_or((url.as_str(), ""));
        let is_named = |extension: &str| {
            path.rsplit_once('.').is_some_and(|(_, named)| named.eq_ignore_ascii_case(extension))
        };
        let document = DocumentKind::ALL.into_iter().find(|(.., extension)| is_named(extension));
        let unsupported = || Unreadable::Unsupported("application/octet-stream".to_owned());
        return document.map(|(kind, ..)| Form::Document(kind)).ok_or_else(unsupported);
    }
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let html = ["<!doctype html", "<html", "<head", "<body"].iter().any(|start| head.contains(start));
    Ok(if html { Form::Html } else { Form::Text })
}

/// Decodes a body. The encoding is determined by, in this order: its byte order mark, its header, UTF-8 if it is
/// valid, the page's own `charset`, and detection.
fn letters(kind: &str, url: &WebUrl, bytes: &[u8]) -> String {
    let by_header = charset(kind);
    let head =
        || String::from_utf8_lossy(&bytes[..bytes.len().min(CHARSET_WITHIN_BYTES)]).to_ascii_lowercase();
    let encoding = match by_header {
        Some(encoding) => encoding,
        None if std::str::from_utf8(bytes).is_ok() => UTF_8,
        None => charset(&head()).filter(|encoding| *encoding != UTF_8).unwrap_or_else(|| guess(url, bytes)),
    };
    // `decode` gives a byte order mark precedence.
    encoding.decode(bytes).0.into_owned()
}

/// Detects the encoding by letter frequencies and the top-level domain, as browsers do.
fn guess(url: &WebUrl, bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&bytes[..bytes.len().min(SAMPLE_MAX_BYTES)], true);
    let host = url.host();
    let domain = host.rsplit('.').next().filter(|domain| is_top_level(domain));
    detector.guess(domain.map(str::as_bytes), Utf8Detection::Deny)
}

/// Returns true if the detector accepts the domain: lower case, no dots, not an IP address.
fn is_top_level(domain: &str) -> bool {
    domain.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit())
        && domain.bytes().any(|byte| byte.is_ascii_lowercase())
}

fn charset(text: &str) -> Option<&'static Encoding> {
    let (_, rest) = text.split_once("charset=")?;
    let label = rest.trim_start_matches(['"', '\'', ' ']);
    let end = label.find(['"', '\'', ' ', ';', '>', '/']).unwrap_or(label.len());
    Encoding::for_label(&label.as_bytes()[..end])
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).expect("an address")
    }

    fn page(url: WebUrl, kind: &str, bytes: &[u8]) -> String {
        match read(url, kind, "", bytes.to_vec(), 0) {
            Ok(Fetched::Page(page)) => page.passages.iter().map(|passage| passage.text.as_str()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn letters_are_those_that_were_meant() {
        let org = || url("https://example.org/");
        assert_eq!(page(org(), "text/html; charset=\"iso-8859-2\"", b"<p>\xb9kola"), "škola");
        assert_eq!(page(org(), "text/html", b"<meta charset=windows-1250><p>\x9akola"), "škola");
        assert_eq!(page(org(), "text/html", "<meta charset=iso-8859-2><p>škola".as_bytes()), "škola");
        assert_eq!(page(url("https://example.cz/"), "text/html", b"<p>\x9akola \xf8"), "škola ř");
        assert_eq!(page(org(), "text/html", b"<p>caf\xe9"), "café");
        assert_eq!(page(org(), "text/html", b"\xff\xfe<\0p\0>\0a\0"), "a");
        assert_eq!(page(org(), "text/plain;charset=utf-8", b"\xef\xbb\xbfa\xff"), "a\u{fffd}");
    }

    #[test]
    fn what_it_is_decides_how_it_is_read() {
        for (mime, bytes, wanted) in [
            ("text/html", "x", Ok(Form::Html)),
            ("text/plain", "<html>", Ok(Form::Text)),
            ("application/ld+json", "{}", Ok(Form::Text)),
            ("", "<!DOCTYPE HTML>", Ok(Form::Html)),
            ("application/octet-stream", "words", Ok(Form::Text)),
            ("text/html", "%PDF-1.7", Ok(Form::Document(DocumentKind::Pdf))),
            ("application/rtf", "{\\rtf", Ok(Form::Document(DocumentKind::Rtf))),
            ("image/png", "x", Err(Unreadable::Unsupported("image/png".to_owned()))),
            (
                "application/octet-stream",
                "a\0b",
                Err(Unreadable::Unsupported("application/octet-stream".to_owned())),
            ),
        ] {
            let url = url("https://example.org/a?file=b.docx");
            assert_eq!(form(mime, bytes.as_bytes(), &url), wanted, "{mime} {bytes}");
        }
        for (address, kind) in [
            ("https://example.org/talk.PPTX?raw=1", DocumentKind::Pptx),
            ("https://example.org/book.epub#toc", DocumentKind::Epub),
        ] {
            let read = form("application/octet-stream", b"PK\x03\x04\0", &url(address));
            assert_eq!(read, Ok(Form::Document(kind)), "{address}");
        }
        for (kind, mime, extension) in DocumentKind::ALL {
            assert_eq!((kind.mime(), kind.extension()), (mime, extension));
        }
    }

    #[test]
    fn what_unpacks_to_too_much_is_left() {
        let packed = |length: usize| {
            let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
            packer.write_all(&vec![b' '; length]).expect("it is packed");
            packer.finish().expect("it is packed")
        };
        assert_eq!(unpack("gzip", packed(BODY_MAX_BYTES)).map(|bytes| bytes.len()), Ok(BODY_MAX_BYTES));
        assert_eq!(unpack("gzip", packed(BODY_MAX_BYTES + 1)), Err(Unreadable::TooLarge));
        let twice = [packed(BODY_MAX_BYTES), packed(1)].concat();
        assert_eq!(unpack("gzip", twice), Err(Unreadable::TooLarge));
        assert_eq!(unpack("gzip", b"no gzip".to_vec()), Err(Unreadable::Broken));
        assert_eq!(unpack("br", Vec::new()), Err(Unreadable::Broken));
    }
}
