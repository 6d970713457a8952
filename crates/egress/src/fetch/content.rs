//! Decompresses, classifies, decodes and reads the body of a response.

use std::io::Read;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};
use flate2::read::MultiGzDecoder;

use super::{BODY_MAX_BYTES, Fetched, FetchedDocument, WebPage, passages, readable};
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
    Pdf,
    Docx,
    Xlsx,
    /// An older Excel workbook.
    Xls,
    /// An older Word document.
    Doc,
    Pptx,
    /// An older PowerPoint presentation.
    Ppt,
    Odt,
    Ods,
    Odp,
    Epub,
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
    pub fn file_extension(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(.., extension)| extension)
    }
}

/// The reason why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageContentError {
    /// The decompressed body exceeds the limit.
    TooLarge,
    /// The type is not supported.
    Unsupported(String),
    /// The body does not match its declared type or encoding.
    Broken,
}

/// The reader for a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentForm {
    Html,
    Text,
    Document(DocumentKind),
}

/// Reads a body. `kind` and `coding` are its `Content-Type` and `Content-Encoding`, in lower case.
pub(super) fn read_content(
    url: WebUrl,
    kind: &str,
    coding: &str,
    bytes: Vec<u8>,
    first_passage: usize,
) -> Result<Fetched, PageContentError> {
    let bytes = decompress_body(coding, bytes)?;
    let mime = kind.split(';').next().unwrap_or("").trim();
    let page = match content_form(mime, &bytes, &url)? {
        ContentForm::Document(kind) => return Ok(Fetched::Document(FetchedDocument { url, kind, bytes })),
        ContentForm::Html => readable::read_page(&decode_text(kind, &url, &bytes)),
        ContentForm::Text => readable::read_plain_text(&decode_text(kind, &url, &bytes)),
    };
    let title = if page.title.is_empty() { url.as_str() } else { &page.title };
    let title = text::cut_bytes(title, crate::TITLE_MAX_BYTES).to_owned();
    let (passages, next_passage) = passages::split_passages(&page.blocks, &url, &title, first_passage);
    let links = page.resolve_links(&url);
    Ok(Fetched::Page(WebPage { url, title, passages, links, next_passage }))
}

/// Decompresses a body; stops at the limit.
fn decompress_body(coding: &str, bytes: Vec<u8>) -> Result<Vec<u8>, PageContentError> {
    match coding {
        "" | "identity" => Ok(bytes),
        "gzip" | "x-gzip" => {
            let mut unpacked = Vec::new();
            let most = BODY_MAX_BYTES as u64 + 1;
            let read = MultiGzDecoder::new(bytes.as_slice()).take(most).read_to_end(&mut unpacked);
            read.map_err(|_| PageContentError::Broken)?;
            if unpacked.len() > BODY_MAX_BYTES { Err(PageContentError::TooLarge) } else { Ok(unpacked) }
        }
        // No other coding was offered.
        _ => Err(PageContentError::Broken),
    }
}

/// Selects the reader for a MIME type; missing and generic types are sniffed, and binary documents known by the extension.
fn content_form(mime: &str, bytes: &[u8], url: &WebUrl) -> Result<ContentForm, PageContentError> {
    if bytes.starts_with(b"%PDF-") {
        return Ok(ContentForm::Document(DocumentKind::Pdf));
    }
    if let Some((kind, ..)) = DocumentKind::ALL.iter().find(|(_, known, _)| *known == mime) {
        return Ok(ContentForm::Document(*kind));
    }
    match mime {
        "text/html" | "application/xhtml+xml" => Ok(ContentForm::Html),
        "text/rtf" => Ok(ContentForm::Document(DocumentKind::Rtf)),
        "application/json" | "application/xml" | "application/x-ndjson" | "application/yaml" => {
            Ok(ContentForm::Text)
        }
        _ if mime.starts_with("text/") || mime.ends_with("+json") || mime.ends_with("+xml") => {
            Ok(ContentForm::Text)
        }
        "" | "application/octet-stream" | "binary/octet-stream" | "application/x-download" => {
            sniff_form(bytes, url)
        }
        _ => Err(PageContentError::Unsupported(text::single_line(mime))),
    }
}

fn sniff_form(bytes: &[u8], url: &WebUrl) -> Result<ContentForm, PageContentError> {
    let head = &bytes[..bytes.len().min(CHARSET_WITHIN_BYTES)];
    if head.contains(&0) {
        let (path, _) = url.as_str().split_once(['?', '#']).unwrap_or((url.as_str(), ""));
        let is_named = |extension: &str| {
            path.rsplit_once('.').is_some_and(|(_, named)| named.eq_ignore_ascii_case(extension))
        };
        let document = DocumentKind::ALL.into_iter().find(|(.., extension)| is_named(extension));
        let unsupported = || PageContentError::Unsupported("application/octet-stream".to_owned());
        return document.map(|(kind, ..)| ContentForm::Document(kind)).ok_or_else(unsupported);
    }
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let html = ["<!doctype html", "<html", "<head", "<body"].iter().any(|start| head.contains(start));
    Ok(if html { ContentForm::Html } else { ContentForm::Text })
}

/// Decodes a body. The encoding is determined by, in this order: its byte order mark, its header, UTF-8 if it is
/// valid, the page's own `charset`, and detection.
fn decode_text(kind: &str, url: &WebUrl, bytes: &[u8]) -> String {
    let by_header = find_charset(kind);
    let head =
        || String::from_utf8_lossy(&bytes[..bytes.len().min(CHARSET_WITHIN_BYTES)]).to_ascii_lowercase();
    let encoding = match by_header {
        Some(encoding) => encoding,
        None if std::str::from_utf8(bytes).is_ok() => UTF_8,
        None => find_charset(&head())
            .filter(|encoding| *encoding != UTF_8)
            .unwrap_or_else(|| detect_encoding(url, bytes)),
    };
    // `decode` gives a byte order mark precedence.
    encoding.decode(bytes).0.into_owned()
}

/// Detects the encoding by letter frequencies and the top-level domain, as browsers do.
fn detect_encoding(url: &WebUrl, bytes: &[u8]) -> &'static Encoding {
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

fn find_charset(text: &str) -> Option<&'static Encoding> {
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

    fn web_url(text: &str) -> WebUrl {
        WebUrl::parse(text).expect("an address")
    }

    fn page_text(url: WebUrl, kind: &str, bytes: &[u8]) -> String {
        match read_content(url, kind, "", bytes.to_vec(), 0) {
            Ok(Fetched::Page(page)) => page.passages.iter().map(|passage| passage.text.as_str()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn letters_are_those_that_were_meant() {
        let org = || web_url("https://example.org/");
        assert_eq!(page_text(org(), "text/html; charset=\"iso-8859-2\"", b"<p>\xb9kola"), "škola");
        assert_eq!(page_text(org(), "text/html", b"<meta charset=windows-1250><p>\x9akola"), "škola");
        assert_eq!(page_text(org(), "text/html", "<meta charset=iso-8859-2><p>škola".as_bytes()), "škola");
        assert_eq!(page_text(web_url("https://example.cz/"), "text/html", b"<p>\x9akola \xf8"), "škola ř");
        assert_eq!(page_text(org(), "text/html", b"<p>caf\xe9"), "café");
        assert_eq!(page_text(org(), "text/html", b"\xff\xfe<\0p\0>\0a\0"), "a");
        assert_eq!(page_text(org(), "text/plain;charset=utf-8", b"\xef\xbb\xbfa\xff"), "a\u{fffd}");
    }

    #[test]
    fn content_form_follows_mime_and_bytes() {
        for (mime, bytes, wanted) in [
            ("text/html", "x", Ok(ContentForm::Html)),
            ("text/plain", "<html>", Ok(ContentForm::Text)),
            ("application/ld+json", "{}", Ok(ContentForm::Text)),
            ("", "<!DOCTYPE HTML>", Ok(ContentForm::Html)),
            ("application/octet-stream", "words", Ok(ContentForm::Text)),
            ("text/html", "%PDF-1.7", Ok(ContentForm::Document(DocumentKind::Pdf))),
            ("application/rtf", "{\\rtf", Ok(ContentForm::Document(DocumentKind::Rtf))),
            ("image/png", "x", Err(PageContentError::Unsupported("image/png".to_owned()))),
            (
                "application/octet-stream",
                "a\0b",
                Err(PageContentError::Unsupported("application/octet-stream".to_owned())),
            ),
        ] {
            let url = web_url("https://example.org/a?file=b.docx");
            assert_eq!(content_form(mime, bytes.as_bytes(), &url), wanted, "{mime} {bytes}");
        }
        for (address, kind) in [
            ("https://example.org/talk.PPTX?raw=1", DocumentKind::Pptx),
            ("https://example.org/book.epub#toc", DocumentKind::Epub),
        ] {
            let read = content_form("application/octet-stream", b"PK\x03\x04\0", &web_url(address));
            assert_eq!(read, Ok(ContentForm::Document(kind)), "{address}");
        }
        for (kind, mime, extension) in DocumentKind::ALL {
            assert_eq!((kind.mime(), kind.file_extension()), (mime, extension));
        }
    }

    #[test]
    fn decompress_body_rejects_too_much() {
        let packed = |length: usize| {
            let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
            packer.write_all(&vec![b' '; length]).expect("it is packed");
            packer.finish().expect("it is packed")
        };
        assert_eq!(
            decompress_body("gzip", packed(BODY_MAX_BYTES)).map(|bytes| bytes.len()),
            Ok(BODY_MAX_BYTES)
        );
        assert_eq!(decompress_body("gzip", packed(BODY_MAX_BYTES + 1)), Err(PageContentError::TooLarge));
        let twice = [packed(BODY_MAX_BYTES), packed(1)].concat();
        assert_eq!(decompress_body("gzip", twice), Err(PageContentError::TooLarge));
        assert_eq!(decompress_body("gzip", b"no gzip".to_vec()), Err(PageContentError::Broken));
        assert_eq!(decompress_body("br", Vec::new()), Err(PageContentError::Broken));
    }
}
