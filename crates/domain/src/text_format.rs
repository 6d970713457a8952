//! The formats of files that are texts, recognized from their name and their beginning. By this rule the machine reads
//! them, and the application shows either the lines of a file or the text that the machine reads in it.

/// The length of the beginning of a file that decides, in bytes.
pub const START_BYTES: usize = 18 * 1024;
/// The range in which a signature may occur, and in which the first element of a document begins.
const SIGNATURE_WITHIN_BYTES: usize = 1024;
/// The elements at the beginning of a message of the Czech data boxes, or of the confirmation of a delivery.
const DATA_BOX_ROOTS: [&str; 2] = ["MessageDownloadResponse", "GetDeliveryInfoResponse"];
const DATA_BOX_NAMESPACE: &str = "http://isds.czechpoint.cz/v20";

/// The format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// A text that is read line by line.
    Plain(PlainText),
    /// A PDF that happens to be a text.
    Pdf,
    Rtf,
    /// A message of a data box.
    DataBox,
    Message,
    /// Messages one after the other in a file.
    Mailbox,
    Notebook,
    FictionBook,
    Html,
    /// An OpenDocument that is a single file.
    FlatOpenDocument(OpenDocument),
    /// A document of Microsoft Office that is a single XML file.
    OfficeXml(OfficeXml),
}

/// The kinds of plain text, which have the same content: the name decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainText {
    Text,
    Markdown,
    Table,
}

/// The documents of LibreOffice, and of OpenOffice and StarOffice before their standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenDocument {
    Text,
    /// Presentations, and drawings with their pages.
    Slides,
    Workbook,
}

/// The documents of Microsoft Office that are XML files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfficeXml {
    /// A workbook of Excel 2003.
    Workbook,
    /// A document of Word 2003.
    Document,
    /// A document of any program since 2007 whose parts are elements (Flat OPC).
    Package,
}

/// The meaning of an extension, if the content may belong to several formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedFormat {
    Message,
    Html,
    Plain(PlainText),
    Notebook,
}

const EXTENSIONS: [(&str, NamedFormat); 17] = [
    ("eml", NamedFormat::Message),
    ("emlx", NamedFormat::Message),
    ("mht", NamedFormat::Message),
    ("mhtml", NamedFormat::Message),
    ("html", NamedFormat::Html),
    ("htm", NamedFormat::Html),
    ("xhtml", NamedFormat::Html),
    ("md", NamedFormat::Plain(PlainText::Markdown)),
    ("markdown", NamedFormat::Plain(PlainText::Markdown)),
    ("csv", NamedFormat::Plain(PlainText::Table)),
    ("tsv", NamedFormat::Plain(PlainText::Table)),
    ("txt", NamedFormat::Plain(PlainText::Text)),
    ("rs", NamedFormat::Plain(PlainText::Text)),
    ("py", NamedFormat::Plain(PlainText::Text)),
    ("json", NamedFormat::Plain(PlainText::Text)),
    ("xml", NamedFormat::Plain(PlainText::Text)),
    ("ipynb", NamedFormat::Notebook),
];

/// The extensions of documents of Office, under which programs export pages of the web.
const OFFICE_EXTENSIONS: &[&str] = &["xls", "xlt", "xlsx", "doc", "docx"];

impl TextFormat {
    /// Returns the format of a text, from the name of its file and its first [`START_BYTES`].
    #[must_use]
    pub fn from_name_and_start(name: &str, start: &str) -> Self {
        let named = find_named_format(name);
        // A text may mention a signature.
        let is_text_name = Self::is_text_name(name);
        let start = up_to(start.trim_start_matches('\u{feff}'), START_BYTES);
        let head = up_to(start, SIGNATURE_WITHIN_BYTES);
        // PDFs contain messages and messages contain PDFs; a text that begins as a PDF is one.
        let is_message_name = named == Some(NamedFormat::Message) && !head.starts_with("%PDF-");
        if head.contains("%PDF-") && !is_text_name && !is_message_name {
            return Self::Pdf;
        }
        if head.starts_with("{\\rtf") {
            return Self::Rtf;
        }
        if is_data_box(head) {
            return Self::DataBox;
        }
        if named == Some(NamedFormat::Message) || is_message(head) || is_web_archive(head) {
            return Self::Message;
        }
        if is_mailbox(head) {
            return Self::Mailbox;
        }
        if named == Some(NamedFormat::Notebook) {
            return Self::Notebook;
        }
        if !is_text_name && head.contains("<FictionBook") && head.trim_start().starts_with('<') {
            return Self::FictionBook;
        }
        if (!is_text_name || has_extension(name, &["xml"]))
            && let Some(kind) = office_xml(head)
        {
            return Self::OfficeXml(kind);
        }
        let is_page = looks_like_html(head) || has_extension(name, OFFICE_EXTENSIONS) && begins_as_page(head);
        if named == Some(NamedFormat::Html) || is_page {
            return Self::Html;
        }
        if let Some(kind) = flat_open_document(start) {
            return Self::FlatOpenDocument(kind);
        }
        Self::Plain(match named {
            Some(NamedFormat::Plain(plain)) => plain,
            _ => PlainText::Text,
        })
    }

    /// Returns true if the name says that a file is a text, or a page of the web.
    #[must_use]
    pub fn is_text_name(name: &str) -> bool {
        matches!(
            find_named_format(name),
            Some(NamedFormat::Html | NamedFormat::Plain(_) | NamedFormat::Notebook)
        )
    }

    /// Returns true if the name says that a file is a message.
    #[must_use]
    pub fn is_message_name(name: &str) -> bool {
        find_named_format(name) == Some(NamedFormat::Message)
    }

    /// Returns the extensions that influence the format.
    pub fn known_extensions() -> impl Iterator<Item = &'static str> {
        EXTENSIONS.into_iter().map(|(extension, _)| extension)
    }
}

impl OpenDocument {
    /// Returns the kind of document of a media type.
    #[must_use]
    pub fn from_media_type(media_type: &str) -> Option<Self> {
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

fn find_named_format(name: &str) -> Option<NamedFormat> {
    let name = name.rsplit('/').next().unwrap_or(name);
    let (stem, extension) = name.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    let known = EXTENSIONS.into_iter().find(|(known, _)| *known == extension);
    known.filter(|_| !stem.is_empty()).map(|(_, named)| named)
}

fn up_to(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

fn is_data_box(head: &str) -> bool {
    let mut tags = head.split('<').skip(1);
    let root = tags.find(|tag| !tag.starts_with(['?', '!'])).unwrap_or_default();
    let name = root.split(|letter: char| letter.is_ascii_whitespace() || letter == '>').next();
    let name = name.and_then(|name| name.rsplit(':').next()).unwrap_or_default();
    DATA_BOX_ROOTS.contains(&name) && root.contains(DATA_BOX_NAMESPACE)
}

/// Returns true for the output of a mail server or mail program, regardless of the name.
fn is_message(head: &str) -> bool {
    const FIRST: [&str; 4] = ["Return-Path: ", "Delivered-To: ", "Received: from ", "X-Original-To: "];
    FIRST.iter().any(|first| head.starts_with(first))
}

/// Returns true for a page that was saved with its resources; programs also export it under the name of a document.
fn is_web_archive(head: &str) -> bool {
    let head = head.to_ascii_lowercase();
    let is_head =
        head.starts_with("mime-version:") || head.lines().take(8).any(|line| line == "mime-version: 1.0");
    is_head && head.contains("content-type: multipart/related")
}

/// Returns true for the line between the messages of a mailbox, followed by a head.
fn is_mailbox(head: &str) -> bool {
    let mut lines = head.lines();
    lines.next().is_some_and(|line| line.starts_with("From ") && line.split_whitespace().count() >= 3)
        && lines.next().and_then(|line| line.split_once(": ")).is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| extensions.iter().any(|known| known.eq_ignore_ascii_case(extension)))
}

/// Returns the kind of a document of Office that begins like this.
fn office_xml(head: &str) -> Option<OfficeXml> {
    if !head.trim_start().starts_with('<') {
        return None;
    }
    let mut tags = head.split('<').skip(1);
    let root = tags.find(|tag| !tag.starts_with(['?', '!']))?;
    let name = root.split(|letter: char| letter.is_ascii_whitespace() || letter == '>').next()?;
    match name.rsplit(':').next()? {
        "Workbook" if head.contains("urn:schemas-microsoft-com:office:spreadsheet") => {
            Some(OfficeXml::Workbook)
        }
        "wordDocument" => Some(OfficeXml::Document),
        "package" if name == "pkg:package" => Some(OfficeXml::Package),
        _ => None,
    }
}

/// Returns true for a page without its first elements, which programs write under the name of a document of Office.
fn begins_as_page(head: &str) -> bool {
    const FIRST: [&str; 9] =
        ["<table", "<meta", "<head", "<body", "<style", "<div", "<center", "<title", "<!--"];
    let text = head.trim_start().to_ascii_lowercase();
    FIRST.iter().any(|first| text.starts_with(first))
}

fn looks_like_html(head: &str) -> bool {
    let text = head.trim_start_matches([' ', '\t', '\r', '\n']).to_ascii_lowercase();
    text.starts_with("<!doctype html")
        || text.starts_with("<html")
        || (text.starts_with("<?xml") && text.contains("<html"))
}

/// Returns the kind of an OpenDocument that is a single file.
fn flat_open_document(start: &str) -> Option<OpenDocument> {
    up_to(start, SIGNATURE_WITHIN_BYTES).find("<office:document ")?;
    let (_, media_type) = start.split_once("office:mimetype=\"")?;
    OpenDocument::from_media_type(media_type.split('>').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_texts_are_recognized() {
        let sheet = "<?xml version=\"1.0\"?><office:document xmlns:a=\"b\" \
                     office:mimetype=\"application/vnd.oasis.opendocument.spreadsheet\"><office:body/>";
        for (name, start, format) in [
            ("a.rtf", "{\\rtf1 Rent}", TextFormat::Rtf),
            ("letter.txt", "{\\rtf1 Rent}", TextFormat::Rtf),
            ("a.fods", sheet, TextFormat::FlatOpenDocument(OpenDocument::Workbook)),
            ("a.fods", &format!("\u{feff}{sheet}"), TextFormat::FlatOpenDocument(OpenDocument::Workbook)),
            ("a.ipynb", "{\"cells\": []}", TextFormat::Notebook),
            ("a.fb2", "<?xml version=\"1.0\"?>\n<FictionBook>", TextFormat::FictionBook),
            ("a.HTM", "plain", TextFormat::Html),
            ("a", "<!DOCTYPE html>", TextFormat::Html),
            ("a.mhtml", "", TextFormat::Message),
            ("a.mbox", "From ada@example.org Mon\nSubject: x\n", TextFormat::Mailbox),
            (
                "a",
                "<q:MessageDownloadResponse xmlns:q=\"http://isds.czechpoint.cz/v20\">",
                TextFormat::DataBox,
            ),
            ("a.pdf", "%PDF-1.4", TextFormat::Pdf),
            ("a.txt", "A PDF begins with %PDF-", TextFormat::Plain(PlainText::Text)),
            ("folder.html/.html", "x", TextFormat::Plain(PlainText::Text)),
            ("a.md", "# Rent", TextFormat::Plain(PlainText::Markdown)),
            ("a.tsv", "a\tb", TextFormat::Plain(PlainText::Table)),
            (
                "a.xls",
                "<?xml version=\"1.0\"?>\n<?mso-application progid=\"Excel.Sheet\"?>\n\
                 <Workbook xmlns=\"urn:schemas-microsoft-com:office:spreadsheet\">",
                TextFormat::OfficeXml(OfficeXml::Workbook),
            ),
            ("a.xml", "<w:wordDocument xmlns:w=\"x\">", TextFormat::OfficeXml(OfficeXml::Document)),
            ("a.xml", "<pkg:package xmlns:pkg=\"x\">", TextFormat::OfficeXml(OfficeXml::Package)),
            ("a.txt", "<pkg:package xmlns:pkg=\"x\">", TextFormat::Plain(PlainText::Text)),
            ("a.xml", "<package/>", TextFormat::Plain(PlainText::Text)),
            ("a.xls", " <table><tr>", TextFormat::Html),
            ("a.xml", "<table><tr>", TextFormat::Plain(PlainText::Text)),
            ("a.svg", "<svg/>", TextFormat::Plain(PlainText::Text)),
            ("a.fb2", "The tag <FictionBook", TextFormat::Plain(PlainText::Text)),
        ] {
            assert_eq!(TextFormat::from_name_and_start(name, start), format, "{name}: {start}");
        }
    }
}
