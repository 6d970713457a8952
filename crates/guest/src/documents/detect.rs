//! Detects the format of a file from its content, and from its name if the content is ambiguous.

use std::path::Path;

use super::archive::Archive;
use super::{ExtractError, Format};

/// A detected format.
pub(super) enum Content<'a> {
    Pdf,
    Docx(Archive<'a>),
    Odt(Archive<'a>),
    Workbook(Workbook),
    Rtf,
    Doc,
    Ppt,
    Pptx(Archive<'a>),
    Odp(Archive<'a>),
    Epub(Archive<'a>),
    Eml,
    Msg,
    Archive(Archive<'a>),
    Html,
    Plain(Format),
}

/// The kinds of workbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workbook {
    Xlsx,
    Xlsb,
    Xls,
    Ods,
}

/// The range at the start of a file in which the PDF signature may occur, in bytes.
pub(super) const PDF_MARK_WITHIN_BYTES: usize = 1024;
/// Signatures of files that are not documents, with their descriptions.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"RIFF", "WebP image, sound or video"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\0", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"Rar!", "RAR archive"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"ID3", "MP3 sound"),
    (b"OggS", "Ogg sound or video"),
    (b"\x1a\x45\xdf\xa3", "Matroska video"),
    (b"wOF2", "font"),
    (b"\0asm", "WebAssembly program"),
];

pub(super) fn content<'a>(path: &Path, bytes: &'a [u8]) -> Result<Content<'a>, ExtractError> {
    let extension = path.extension().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
    let start = &bytes[..bytes.len().min(PDF_MARK_WITHIN_BYTES)];
    if start.windows(5).any(|window| window == b"%PDF-") && !is_text_name(&extension) {
        return Ok(Content::Pdf);
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return zipped(bytes);
    }
    if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
        return compound(bytes, &extension);
    }
    if bytes.starts_with(b"{\\rtf") {
        return Ok(Content::Rtf);
    }
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        // A text may begin with a short signature, too.
        if super::text::encoding(bytes).is_none() || !start.is_ascii() {
            return Err(ExtractError::Binary { kind, size: bytes.len() as u64 });
        }
    }
    if extension == "eml" || is_message(start) {
        return Ok(Content::Eml);
    }
    if matches!(extension.as_str(), "html" | "htm" | "xhtml") || looks_like_html(start) {
        return Ok(Content::Html);
    }
    Ok(Content::Plain(match extension.as_str() {
        "md" | "markdown" => Format::Markdown,
        "csv" | "tsv" => Format::Table,
        _ => Format::Text,
    }))
}

/// Returns true for extensions of text files, whatever their content mentions.
fn is_text_name(extension: &str) -> bool {
    matches!(
        extension,
        "txt" | "md" | "markdown" | "csv" | "tsv" | "html" | "htm" | "rs" | "py" | "json" | "xml"
    )
}

/// Returns true for what a mail server or program has written, without regard to the name.
fn is_message(start: &[u8]) -> bool {
    const FIRST: [&[u8]; 4] = [b"Return-Path: ", b"Delivered-To: ", b"Received: from ", b"X-Original-To: "];
    FIRST.iter().any(|first| start.starts_with(first))
}

fn looks_like_html(start: &[u8]) -> bool {
    let text = super::text::decode(start);
    let text = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).to_ascii_lowercase();
    text.starts_with("<!doctype html")
        || text.starts_with("<html")
        || (text.starts_with("<?xml") && text.contains("<html"))
}

fn zipped(bytes: &[u8]) -> Result<Content<'_>, ExtractError> {
    let mut archive = Archive::open(bytes)?;
    if archive.contains("word/document.xml") {
        return Ok(Content::Docx(archive));
    }
    if archive.contains("xl/workbook.xml") {
        archive.check_total()?;
        return Ok(Content::Workbook(Workbook::Xlsx));
    }
    if archive.contains("xl/workbook.bin") {
        archive.check_total()?;
        return Ok(Content::Workbook(Workbook::Xlsb));
    }
    if archive.contains("mimetype") && archive.contains("content.xml") {
        let kind = archive.text("mimetype", 200)?;
        if kind.contains("opendocument.text") {
            return Ok(Content::Odt(archive));
        }
        if kind.contains("opendocument.presentation") {
            return Ok(Content::Odp(archive));
        }
        if kind.contains("opendocument.spreadsheet") {
            archive.check_total()?;
            return Ok(Content::Workbook(Workbook::Ods));
        }
    }
    if archive.contains("ppt/presentation.xml") {
        return Ok(Content::Pptx(archive));
    }
    if archive.contains("META-INF/container.xml") {
        return Ok(Content::Epub(archive));
    }
    Ok(Content::Archive(archive))
}

/// Detects the compound files of Microsoft Office before 2007, of Outlook, and of encrypted later ones.
fn compound(bytes: &[u8], extension: &str) -> Result<Content<'static>, ExtractError> {
    let file = super::mail::open(bytes)?;
    if file.exists("/EncryptedPackage") {
        return Err(ExtractError::Encrypted("Office"));
    }
    if file.exists("/WordDocument") {
        return Ok(Content::Doc);
    }
    if file.exists("/PowerPoint Document") {
        return Ok(Content::Ppt);
    }
    if file.exists("/__properties_version1.0") {
        return Ok(Content::Msg);
    }
    if file.exists("/Workbook") || file.exists("/Book") || matches!(extension, "xls" | "xlt" | "xla") {
        return Ok(Content::Workbook(Workbook::Xls));
    }
    Err(ExtractError::Binary { kind: "a compound file of no known program", size: bytes.len() as u64 })
}
