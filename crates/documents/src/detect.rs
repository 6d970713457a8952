//! Detects the format of a file from its content, and from its name if the content is ambiguous.

use std::path::Path;

use domain::text_format::{OfficeXml, OpenDocument, PlainText, START_BYTES, TextFormat};

use super::archive::ZipReader;
use super::container::{self, FileContainer};
use super::image_file::ImageFormat;
use super::{DocumentFormat, ExtractError, ForeignFormat, djvu, iwork, mobi, parts, signed, visio, xps};

pub(super) enum DetectedContent<'a> {
    Pdf,
    Djvu,
    /// With the name of its main part.
    Docx(ZipReader<'a>, String),
    Odt(ZipReader<'a>),
    /// A document of Pages, Numbers or Keynote, with its folder.
    IWork(ZipReader<'a>, String),
    Workbook(Workbook),
    Rtf,
    Doc,
    Ppt,
    /// With the name of its main part.
    Pptx(ZipReader<'a>, String),
    Odp(ZipReader<'a>),
    /// The body of an OpenDocument that is a single file.
    FlatOpenDocument(OpenDocument, &'a [u8]),
    OfficeXml(OfficeXml),
    Visio(ZipReader<'a>),
    /// With the list of its documents.
    Xps(ZipReader<'a>, String),
    Epub(ZipReader<'a>),
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
    Archive(Box<dyn FileContainer + 'a>),
    Html,
    Plain(DocumentFormat),
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

/// The extensions of workbooks of Excel before 2007.
const WORKBOOK_EXTENSIONS: [&str; 3] = ["xls", "xlt", "xla"];

/// Returns the name extensions that influence the detected format.
pub fn known_extensions() -> impl Iterator<Item = &'static str> {
    TextFormat::known_extensions().chain(WORKBOOK_EXTENSIONS)
}

pub(super) fn detect_content<'a>(path: &Path, bytes: &'a [u8]) -> Result<DetectedContent<'a>, ExtractError> {
    let name = path.to_string_lossy();
    if is_zip(bytes) {
        return detect_zip_content(bytes);
    }
    if is_compound(bytes) {
        return detect_compound_content(bytes, path);
    }
    // A text may mention the signature. Messages are written into PDFs and PDFs into messages; a file that begins as a
    // PDF is one.
    let is_message_name = TextFormat::is_message_name(&name) && !bytes.starts_with(b"%PDF-");
    if is_pdf(bytes) && !TextFormat::is_text_name(&name) && !is_message_name {
        return Ok(DetectedContent::Pdf);
    }
    if djvu::is_djvu(bytes) {
        return Ok(DetectedContent::Djvu);
    }
    if bytes.starts_with(b"{\\rtf") {
        return Ok(DetectedContent::Rtf);
    }
    if let Some(archive) = container::open_container(path, bytes)? {
        return Ok(DetectedContent::Archive(archive));
    }
    if mobi::is_book(bytes) {
        return Ok(DetectedContent::Mobi);
    }
    if signed::is_cms(bytes) {
        return Ok(DetectedContent::Signed);
    }
    // A text may begin with a short signature, too.
    let start = &bytes[..bytes.len().min(START_BYTES)];
    let format = TextFormat::from_name_and_start(&name, &super::text::decode_text(start));
    let is_text = super::text::detect_encoding(bytes).is_some();
    if format != TextFormat::DataBox
        && !(is_text && start[..start.len().min(PDF_MARK_WITHIN_BYTES)].is_ascii())
    {
        no_document(bytes)?;
    }
    Ok(match format {
        TextFormat::Pdf => DetectedContent::Pdf,
        TextFormat::Rtf => DetectedContent::Rtf,
        TextFormat::DataBox => DetectedContent::DataBox,
        TextFormat::Message => DetectedContent::Eml,
        TextFormat::Mailbox => DetectedContent::Mailbox,
        TextFormat::Notebook => DetectedContent::Notebook,
        TextFormat::FictionBook => DetectedContent::FictionBook,
        TextFormat::Html => DetectedContent::Html,
        TextFormat::OfficeXml(kind) => DetectedContent::OfficeXml(kind),
        TextFormat::FlatOpenDocument(kind) => match open_document_body(bytes) {
            Some(body) => DetectedContent::FlatOpenDocument(kind, body),
            None => DetectedContent::Plain(DocumentFormat::Text),
        },
        TextFormat::Plain(PlainText::Text) => DetectedContent::Plain(DocumentFormat::Text),
        TextFormat::Plain(PlainText::Markdown) => DetectedContent::Plain(DocumentFormat::Markdown),
        TextFormat::Plain(PlainText::Table) => DetectedContent::Plain(DocumentFormat::Table),
    })
}

/// Fails if the signature shows that a file is not a document.
fn no_document(bytes: &[u8]) -> Result<(), ExtractError> {
    let magic = || MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, kind)| *kind);
    if let Some(kind) = ImageFormat::from_signature(bytes).map(ImageFormat::name).or_else(magic) {
        return Err(ExtractError::Binary { kind, size: bytes.len() as u64 });
    }
    // Archives that are not files inside others were unpacked by a program.
    if let Some(format) = ForeignFormat::from_signature(bytes) {
        return Err(format.unsupported_error());
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
    ImageFormat::from_signature(bytes).is_some() && super::text::detect_encoding(bytes).is_none()
}

/// Returns true for a PDF, which may begin with something else. An archive or message may also begin with a PDF inside it.
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

fn detect_zip_content(bytes: &[u8]) -> Result<DetectedContent<'_>, ExtractError> {
    let mut archive = ZipReader::from_bytes(bytes)?;
    if let Some(main) = parts::main_part(&mut archive)? {
        match main.split('/').next() {
            Some("word") => return Ok(DetectedContent::Docx(archive, main)),
            Some("ppt") => return Ok(DetectedContent::Pptx(archive, main)),
            _ => {}
        }
    }
    if archive.has_part("xl/workbook.xml") {
        archive.check_total()?;
        return Ok(DetectedContent::Workbook(Workbook::Xlsx));
    }
    if archive.has_part("xl/workbook.bin") {
        archive.check_total()?;
        return Ok(DetectedContent::Workbook(Workbook::Xlsb));
    }
    if (archive.has_part("mimetype") || archive.has_part("content.xml"))
        && let Some(open) = open_document(&mut archive)?
    {
        return Ok(match open {
            OpenDocument::Text => DetectedContent::Odt(archive),
            OpenDocument::Slides => DetectedContent::Odp(archive),
            OpenDocument::Workbook => DetectedContent::Workbook(Workbook::Ods),
        });
    }
    if archive.has_part("META-INF/container.xml") {
        return Ok(DetectedContent::Epub(archive));
    }
    if let Some(root) = iwork::find_root_folder(&mut archive) {
        return Ok(DetectedContent::IWork(archive, root));
    }
    if archive.has_part(visio::PAGES) {
        return Ok(DetectedContent::Visio(archive));
    }
    if let Some(list) = xps::find_document_list(&mut archive)? {
        return Ok(DetectedContent::Xps(archive, list));
    }
    Ok(DetectedContent::Archive(Box::new(archive)))
}

fn open_document(archive: &mut ZipReader<'_>) -> Result<Option<OpenDocument>, ExtractError> {
    let manifest =
        |archive: &mut ZipReader<'_>| archive.read_part_text("META-INF/manifest.xml", parts::LIST_MAX_BYTES);
    let kind = match archive.read_part_start("mimetype", KIND_MAX_BYTES)? {
        Some(kind) => OpenDocument::from_media_type(&String::from_utf8_lossy(&kind)),
        // StarOffice declares it in the list of the parts.
        None => OpenDocument::from_media_type(&manifest(archive)?),
    };
    let Some(open) = kind else { return Ok(None) };
    if manifest(archive)?.contains("encryption-data") {
        return Err(ExtractError::Encrypted("OpenDocument"));
    }
    if !archive.has_part("content.xml") {
        return Ok(None);
    }
    if matches!(open, OpenDocument::Workbook) {
        archive.check_total()?;
    }
    Ok(Some(open))
}

/// Returns the body of an OpenDocument that is a single file.
fn open_document_body(bytes: &[u8]) -> Option<&[u8]> {
    const BODY: &[u8] = b"<office:body";
    let at = bytes.windows(BODY.len()).position(|window| window == BODY)?;
    Some(&bytes[at..])
}

/// Detects the compound files of Microsoft Office before 2007, of Outlook, and of encrypted later ones.
fn detect_compound_content(bytes: &[u8], path: &Path) -> Result<DetectedContent<'static>, ExtractError> {
    let file = super::mail::open_compound_file(bytes)?;
    if file.exists("/EncryptedPackage") {
        return Err(ExtractError::Encrypted("Office"));
    }
    if file.exists("/WordDocument") {
        return Ok(DetectedContent::Doc);
    }
    if file.exists("/PowerPoint Document") {
        return Ok(DetectedContent::Ppt);
    }
    if file.exists("/__properties_version1.0") {
        return Ok(DetectedContent::Msg);
    }
    let is_workbook_name =
        path.extension().and_then(|extension| extension.to_str()).is_some_and(|extension| {
            WORKBOOK_EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(extension))
        });
    if file.exists("/Workbook") || file.exists("/Book") || is_workbook_name {
        return Ok(DetectedContent::Workbook(Workbook::Xls));
    }
    Err(ExtractError::Binary { kind: "a compound file of an unknown program", size: bytes.len() as u64 })
}
