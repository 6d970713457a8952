//! Detects the format of a file from its content, and from its name if the content is ambiguous.

use std::path::Path;

use super::archive::Archive;
use super::container::{self, Container};
use super::image_file::ImageFormat;
use super::{
    ExtractError, ForeignFormat, Format, data_box, djvu, fiction_book, iwork, mobi, parts, signed, visio, xps,
};

/// A detected format.
pub(super) enum Content<'a> {
    Pdf,
    Djvu,
    /// With the name of its main part.
    Docx(Archive<'a>, String),
    Odt(Archive<'a>),
    /// A document of Pages, Numbers or Keynote, with its folder.
    IWork(Archive<'a>, String),
    Workbook(Workbook),
    Rtf,
    Doc,
    Ppt,
    /// With the name of its main part.
    Pptx(Archive<'a>, String),
    Odp(Archive<'a>),
    /// The body of an OpenDocument that is a single file.
    FlatOpenDocument(OpenDocument, &'a [u8]),
    Visio(Archive<'a>),
    /// With the list of its documents.
    Xps(Archive<'a>, String),
    Epub(Archive<'a>),
    FictionBook,
    /// A book of Mobipocket or Kindle.
    Mobi,
    Notebook,
    Eml,
    /// Messages one after the other in a file.
    Mailbox,
    Msg,
    /// A message of a data box.
    DataBox,
    /// A file inside a signature.
    Signed,
    Archive(Box<dyn Container + 'a>),
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
const PDF_MARK_WITHIN_BYTES: usize = 1024;
/// The most bytes of the first element of an OpenDocument that is a single file.
const FLAT_ROOT_MAX_BYTES: usize = 16 * 1024;
/// The longest name of a kind of OpenDocument, in bytes.
const KIND_MAX_BYTES: u64 = 200;
/// Signatures of files that are not documents, with their descriptions.
const MAGIC: &[(&[u8], &str)] = &[
    (b"RIFF", "sound or video"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"ID3", "MP3 sound"),
    (b"OggS", "Ogg sound or video"),
    (b"\x1a\x45\xdf\xa3", "Matroska video"),
    (b"wOF2", "font"),
    (b"\0asm", "WebAssembly program"),
    (b"\x78\x9f\x3e\x22", "a message of Outlook as winmail.dat"),
    (b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d", "OneNote section"),
    (b"\xffWPC", "WordPerfect document"),
    (b"ITSF", "compiled help"),
];

/// Signatures of archives of other kinds, with their places.
const ARCHIVES: &[(usize, &[u8], &str)] = &[(0, b"LZIP", "an lzip archive")];
/// Signatures of images that are not recognized, with their places.
const IMAGES: &[(usize, &[u8], &str)] = &[(4, b"ftypavif", "an AVIF image")];

/// The meaning of an extension, where the content may be that of several formats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Message,
    Html,
    Plain(Format),
    Notebook,
    /// A workbook of Excel before 2007.
    Workbook,
}

const EXTENSIONS: [(&str, Named); 19] = [
    ("eml", Named::Message),
    ("mht", Named::Message),
    ("mhtml", Named::Message),
    ("html", Named::Html),
    ("htm", Named::Html),
    ("xhtml", Named::Html),
    ("md", Named::Plain(Format::Markdown)),
    ("markdown", Named::Plain(Format::Markdown)),
    ("csv", Named::Plain(Format::Table)),
    ("tsv", Named::Plain(Format::Table)),
    ("txt", Named::Plain(Format::Text)),
    ("rs", Named::Plain(Format::Text)),
    ("py", Named::Plain(Format::Text)),
    ("json", Named::Plain(Format::Text)),
    ("xml", Named::Plain(Format::Text)),
    ("ipynb", Named::Notebook),
    ("xls", Named::Workbook),
    ("xlt", Named::Workbook),
    ("xla", Named::Workbook),
];

/// Returns the extensions of names that have a say in the format of a file.
pub fn extensions() -> impl Iterator<Item = &'static str> {
    EXTENSIONS.into_iter().map(|(extension, _)| extension)
}

fn named(path: &Path) -> Option<Named> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    EXTENSIONS.into_iter().find(|(known, _)| *known == extension).map(|(_, named)| named)
}

pub(super) fn content<'a>(path: &Path, bytes: &'a [u8]) -> Result<Content<'a>, ExtractError> {
    let named = named(path);
    // A text may mention the signature.
    let is_text_name = matches!(named, Some(Named::Html | Named::Plain(_) | Named::Notebook));
    let start = &bytes[..bytes.len().min(PDF_MARK_WITHIN_BYTES)];
    if is_zip(bytes) {
        return zipped(bytes);
    }
    if is_compound(bytes) {
        return compound(bytes, named);
    }
    // Messages are written into PDFs and PDFs into messages; what begins as a PDF is one.
    let is_message_name = named == Some(Named::Message) && !bytes.starts_with(b"%PDF-");
    if is_pdf(bytes) && !is_text_name && !is_message_name {
        return Ok(Content::Pdf);
    }
    if djvu::is_djvu(bytes) {
        return Ok(Content::Djvu);
    }
    if bytes.starts_with(b"{\\rtf") {
        return Ok(Content::Rtf);
    }
    if let Some(archive) = container::open(path, bytes)? {
        return Ok(Content::Archive(archive));
    }
    if mobi::is_book(bytes) {
        return Ok(Content::Mobi);
    }
    if signed::is_cms(bytes) {
        return Ok(Content::Signed);
    }
    if data_box::is_message(start) {
        return Ok(Content::DataBox);
    }
    // A text may begin with a short signature, too.
    if super::text::encoding(bytes).is_none() || !start.is_ascii() {
        no_document(bytes)?;
    }
    if named == Some(Named::Message) || is_message(start) || is_web_archive(start) {
        return Ok(Content::Eml);
    }
    if is_mailbox(start) {
        return Ok(Content::Mailbox);
    }
    if named == Some(Named::Notebook) {
        return Ok(Content::Notebook);
    }
    if !is_text_name && fiction_book::is_book(bytes) {
        return Ok(Content::FictionBook);
    }
    if named == Some(Named::Html) || looks_like_html(start) {
        return Ok(Content::Html);
    }
    if let Some((kind, body)) = flat_open_document(bytes) {
        return Ok(Content::FlatOpenDocument(kind, body));
    }
    Ok(Content::Plain(match named {
        Some(Named::Plain(format)) => format,
        _ => Format::Text,
    }))
}

/// Fails for a file that is no document by its signature.
fn no_document(bytes: &[u8]) -> Result<(), ExtractError> {
    let magic = || MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, kind)| *kind);
    if let Some(kind) = ImageFormat::of(bytes).map(ImageFormat::name).or_else(magic) {
        return Err(ExtractError::Binary { kind, size: bytes.len() as u64 });
    }
    // Those that are no files inside others were unpacked by a program.
    if let Some(format) = ForeignFormat::of(bytes) {
        return Err(format.unsupported());
    }
    for (kinds, remedy) in [(ARCHIVES, "pack its files as ZIP"), (IMAGES, "save it as JPEG first")] {
        let found =
            kinds.iter().find(|(at, mark, _)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(mark)));
        if let Some((_, _, kind)) = found {
            return Err(ExtractError::Unsupported { kind, remedy });
        }
    }
    Ok(())
}

/// Returns true for an image of a kind that is known.
pub(super) fn is_image(bytes: &[u8]) -> bool {
    ImageFormat::of(bytes).is_some() && super::text::encoding(bytes).is_none()
}

/// Returns true for a PDF, which may begin with something else. An archive or message may as well begin with a PDF that lies
/// in it.
pub(super) fn is_pdf(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(PDF_MARK_WITHIN_BYTES)];
    !is_zip(bytes) && !is_compound(bytes) && start.windows(5).any(|window| window == b"%PDF-")
}

pub(super) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Returns true for a compound file, the container of older office formats and of messages of Outlook.
fn is_compound(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
}

/// Returns true for what a mail server or program has written, without regard to the name.
fn is_message(start: &[u8]) -> bool {
    const FIRST: [&[u8]; 4] = [b"Return-Path: ", b"Delivered-To: ", b"Received: from ", b"X-Original-To: "];
    FIRST.iter().any(|first| start.starts_with(first))
}

/// Returns true for a page that was saved with what it shows; programs also export it under the name of a document.
fn is_web_archive(start: &[u8]) -> bool {
    let head = String::from_utf8_lossy(start).to_ascii_lowercase();
    let is_head =
        head.starts_with("mime-version:") || head.lines().take(8).any(|line| line == "mime-version: 1.0");
    is_head && head.contains("content-type: multipart/related")
}

/// Returns true for the line between the messages of a mailbox, followed by a head.
fn is_mailbox(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let mut lines = text.lines();
    lines.next().is_some_and(|line| line.starts_with("From ") && line.split_whitespace().count() >= 3)
        && lines.next().and_then(|line| line.split_once(": ")).is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
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
    if let Some(main) = parts::main_part(&mut archive)? {
        match main.split('/').next() {
            Some("word") => return Ok(Content::Docx(archive, main)),
            Some("ppt") => return Ok(Content::Pptx(archive, main)),
            _ => {}
        }
    }
    if archive.contains("xl/workbook.xml") {
        archive.check_total()?;
        return Ok(Content::Workbook(Workbook::Xlsx));
    }
    if archive.contains("xl/workbook.bin") {
        archive.check_total()?;
        return Ok(Content::Workbook(Workbook::Xlsb));
    }
    if (archive.contains("mimetype") || archive.contains("content.xml"))
        && let Some(open) = open_document(&mut archive)?
    {
        return Ok(match open {
            OpenDocument::Text => Content::Odt(archive),
            OpenDocument::Slides => Content::Odp(archive),
            OpenDocument::Workbook => Content::Workbook(Workbook::Ods),
        });
    }
    if archive.contains("META-INF/container.xml") {
        return Ok(Content::Epub(archive));
    }
    if let Some(root) = iwork::root(&mut archive) {
        return Ok(Content::IWork(archive, root));
    }
    if archive.contains(visio::PAGES) {
        return Ok(Content::Visio(archive));
    }
    if let Some(list) = xps::list(&mut archive)? {
        return Ok(Content::Xps(archive, list));
    }
    Ok(Content::Archive(Box::new(archive)))
}

/// The documents of LibreOffice, and of OpenOffice and StarOffice before their standard.
pub(super) enum OpenDocument {
    Text,
    /// Presentations, and drawings with their pages.
    Slides,
    Workbook,
}

fn open_document(archive: &mut Archive<'_>) -> Result<Option<OpenDocument>, ExtractError> {
    let manifest = |archive: &mut Archive<'_>| archive.text("META-INF/manifest.xml", parts::LIST_MAX_BYTES);
    let kind = match archive.beginning("mimetype", KIND_MAX_BYTES)? {
        Some(kind) => OpenDocument::of(&String::from_utf8_lossy(&kind)),
        // StarOffice says it in the list of the parts.
        None => OpenDocument::of(&manifest(archive)?),
    };
    let Some(open) = kind else { return Ok(None) };
    if manifest(archive)?.contains("encryption-data") {
        return Err(ExtractError::Encrypted("OpenDocument"));
    }
    if !archive.contains("content.xml") {
        return Ok(None);
    }
    if matches!(open, OpenDocument::Workbook) {
        archive.check_total()?;
    }
    Ok(Some(open))
}

impl OpenDocument {
    /// Returns the kind of document of a media type.
    fn of(media_type: &str) -> Option<Self> {
        let kinds = media_type.split_once("opendocument.").or_else(|| media_type.split_once("vnd.sun.xml."));
        let (_, kind) = kinds?;
        let is = |names: &[&str]| names.iter().any(|name| kind.starts_with(name));
        if is(&["spreadsheet", "calc"]) {
            return Some(Self::Workbook);
        }
        if is(&["text", "writer"]) {
            return Some(Self::Text);
        }
        is(&["presentation", "graphics", "impress", "draw"]).then_some(Self::Slides)
    }
}

/// Returns the kind and the body of an OpenDocument that is a single file; `None` if it is none.
fn flat_open_document(bytes: &[u8]) -> Option<(OpenDocument, &[u8])> {
    let place = |of: &str, within: usize| {
        bytes[..bytes.len().min(within)].windows(of.len()).position(|window| window == of.as_bytes())
    };
    let root = place("<office:document ", PDF_MARK_WITHIN_BYTES)?;
    let media_type = place("office:mimetype=\"", root + FLAT_ROOT_MAX_BYTES)?;
    let media_type = String::from_utf8_lossy(bytes[media_type..].split(|byte| *byte == b'>').next()?);
    let kind = OpenDocument::of(&media_type)?;
    let body = place("<office:body", bytes.len())?;
    Some((kind, &bytes[body..]))
}

/// Detects the compound files of Microsoft Office before 2007, of Outlook, and of encrypted later ones.
fn compound(bytes: &[u8], named: Option<Named>) -> Result<Content<'static>, ExtractError> {
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
    if file.exists("/Workbook") || file.exists("/Book") || named == Some(Named::Workbook) {
        return Ok(Content::Workbook(Workbook::Xls));
    }
    Err(ExtractError::Binary { kind: "a compound file of no known program", size: bytes.len() as u64 })
}
