//! Reads messages: the head, the text, and the attachments that are documents.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io::{Cursor, Read};
use std::path::Path;

use cfb::CompoundFile;
use encoding_rs::{Encoding, UTF_16LE};
use mail_parser::mailbox::mbox::MessageIterator;
use mail_parser::{Address, Message, MessageParser, MimeHeaders, PartType};

use super::detect::Content;
use super::embedded_images::images_of_inner;
use super::output::Writer;
use super::{
    ATTACHMENTS_MAX, Bounds, ExtractError, Extracted, Format, INPUT_MAX_BYTES, NESTING_MAX, Nesting,
    TOO_DEEP, WantedAttachment, detect, html,
};

/// The line in place of attachments that are not read.
const TOO_MANY: &str = "(further attachments are not read: there are too many)";
/// The most recipients that are shown.
const ADDRESSES_MAX: usize = 50;
/// The largest stream of a message of Outlook, in bytes.
const STREAM_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The messages of a file as they are written, with their attachments.
struct Messages<'a> {
    writer: Writer,
    /// The number of attachments that were met in the file. Those of files among them are not counted.
    attachments: u32,
    nesting: Nesting<'a>,
}

/// Reads a message in the Internet's format.
pub(super) fn eml(bytes: &[u8], nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    let message = MessageParser::default().parse(bytes);
    let message = message.ok_or_else(|| ExtractError::broken("message", "it has no head"))?;
    let mut messages = Messages::new(nesting);
    messages.write(&message, nesting.depth);
    Ok(messages.writer.finish(Format::Message))
}

/// Reads a mailbox: messages one after the other.
pub(super) fn mailbox(bytes: &[u8], nesting: Nesting<'_>) -> Extracted {
    let mut messages = Messages::new(nesting);
    for message in MessageIterator::new(bytes).flatten() {
        if let Some(message) = MessageParser::default().parse(message.contents()) {
            messages.writer.end_heading();
            messages.write(&message, nesting.depth);
        }
        if messages.writer.is_full() {
            break;
        }
    }
    messages.writer.finish(Format::Message)
}

impl<'a> Messages<'a> {
    fn new(nesting: Nesting<'a>) -> Self {
        Self { writer: Writer::new(), attachments: 0, nesting }
    }

    fn write(&mut self, message: &Message<'_>, depth: u32) {
        if let Some(subject) = message.subject() {
            self.writer.heading(&format!("Subject: {subject}"));
        }
        for (name, addresses) in [("From", message.from()), ("To", message.to()), ("Cc", message.cc())] {
            if let Some(line) = addresses.and_then(address_line) {
                self.writer.line(&format!("{name}: {line}"));
            }
        }
        if let Some(date) = message.date() {
            self.writer.line(&format!("Date: {}", date.to_rfc3339()));
        }
        for part in message.text_bodies() {
            match &part.body {
                PartType::Text(text) => self.writer.lines(text),
                PartType::Html(page) => self.writer.append(&html::extract(page.as_bytes())),
                _ => {}
            }
        }
        // A web page that was saved as a message names what it shows by its address.
        for part in message.attachments().filter(|part| part.content_location().is_none()) {
            if !self.take_attachment() {
                return;
            }
            let name = part.attachment_name().unwrap_or("unnamed");
            match &part.body {
                PartType::Message(inner) if self.begin_message(depth) => self.write(inner, depth + 1),
                PartType::Message(_) | PartType::Multipart(_) => {}
                PartType::Text(text) | PartType::Html(text) => self.attach(name, text.as_bytes(), depth),
                PartType::Binary(content) | PartType::InlineBinary(content) => {
                    self.attach(name, content, depth);
                }
            }
        }
    }

    /// Counts an attachment. Returns false if it is not read, nor those after it.
    fn take_attachment(&mut self) -> bool {
        self.attachments += 1;
        let is_read = !self.writer.is_full() && self.nesting.take_attachment();
        if !is_read {
            self.writer.unread_file(self.attachments);
            self.writer.line(TOO_MANY);
        }
        is_read
    }

    /// Begins a message inside another. Returns false if it lies too deep.
    fn begin_message(&mut self, depth: u32) -> bool {
        if depth >= NESTING_MAX {
            self.writer.unread_file(self.attachments);
            self.writer.line(TOO_DEEP);
            return false;
        }
        self.writer.heading("Attached message");
        true
    }

    /// Writes the text of the attachment that was counted last, or why it has none.
    fn attach(&mut self, name: &str, content: &[u8], depth: u32) {
        let number = self.attachments;
        if let Some(wanted) = self.nesting.wanted {
            if wanted.number == number {
                wanted.content.replace(Some(content.to_vec()));
            }
            return;
        }
        self.writer.heading(&format!("Attachment: {name}"));
        let document =
            Nesting { depth, ..self.nesting }.extract(Path::new(name), content, &Bounds::default());
        self.writer.embedded(&document);
        match document {
            Ok(document) => {
                for image in images_of_inner(&number.to_string(), &document) {
                    self.writer.image(image.part);
                }
                self.writer.unread_images(document.unread_images);
                if !document.is_whole() {
                    self.writer.unread_file(number);
                }
            }
            Err(_) if is_signature(name) => {}
            Err(_) => self.writer.unread_file(number),
        }
    }
}

/// Returns true for the name of a signature, which has no text.
fn is_signature(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".p7s")
}

/// Returns the content of an attachment by the number by which its images are named.
pub(super) fn attachment(message: &[u8], number: u32) -> Option<Vec<u8>> {
    let (left, content) = (Cell::new(ATTACHMENTS_MAX), RefCell::new(None));
    let wanted = WantedAttachment { number, content };
    let nesting = Nesting { wanted: Some(&wanted), ..Nesting::outermost(&left) };
    match detect::content(Path::new(""), message) {
        Ok(Content::Msg) => msg(message, nesting).map(drop),
        Ok(Content::Mailbox) => Ok(drop(mailbox(message, nesting))),
        // Only the name tells some messages from other texts.
        _ => eml(message, nesting).map(drop),
    }
    .ok()?;
    wanted.content.into_inner()
}

fn address_line(addresses: &Address<'_>) -> Option<String> {
    let shown = addresses.iter().take(ADDRESSES_MAX).map(|one| match (one.name(), one.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (name, address) => name.or(address).unwrap_or_default().to_owned(),
    });
    let line = shown.collect::<Vec<_>>().join(", ");
    (!line.is_empty()).then_some(line)
}

/// Reads a message of Outlook, whose properties are streams named by their number and type.
pub(super) fn msg(bytes: &[u8], nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    let mut messages = Messages::new(nesting);
    let mut message = Outlook { file: open(bytes)?, folder: String::new(), encoding: None };
    message.write(&mut messages, nesting.depth);
    Ok(messages.writer.finish(Format::Message))
}

/// A message of Outlook, in a file of its own or in a folder of another message's file.
struct Outlook<'a> {
    file: Compound<'a>,
    folder: String,
    /// The encoding of texts that are not in Unicode, if the message names it.
    encoding: Option<&'static Encoding>,
}

impl Outlook<'_> {
    fn write(&mut self, messages: &mut Messages<'_>, depth: u32) {
        const HTML: &str = "/__substg1.0_10130102";
        self.encoding = self.encoding();
        let writer = &mut messages.writer;
        let subject = self.text("0037");
        if !subject.is_empty() {
            writer.heading(&format!("Subject: {subject}"));
        }
        let address = ["5D01", "0C1F"].map(|property| self.text(property));
        let address = address.into_iter().find(|text| text.contains('@')).unwrap_or_default();
        let sender = [self.text("0C1A"), address];
        for (name, line) in [("From", sender.join(" ")), ("To", self.text("0E04")), ("Cc", self.text("0E03"))]
        {
            if !line.trim().is_empty() {
                writer.line(&format!("{name}: {}", line.trim()));
            }
        }
        let body = self.text("1000");
        if body.trim().is_empty() {
            writer.append(&html::extract(&self.stream(HTML).unwrap_or_default()));
        } else {
            writer.lines(&body);
        }
        let folder = self.folder.clone();
        for number in 0_u32.. {
            self.folder = format!("{folder}/__attach_version1.0_#{number:08X}");
            if !self.file.is_storage(&self.folder) || !messages.take_attachment() {
                break;
            }
            self.write_attachment(messages, depth);
        }
        self.folder = folder;
    }

    /// Writes the attachment in the folder.
    fn write_attachment(&mut self, messages: &mut Messages<'_>, depth: u32) {
        const CONTENT: &str = "/__substg1.0_37010102";
        const MESSAGE: &str = "/__substg1.0_3701000D";
        if let Some(content) = self.stream(CONTENT) {
            let (long, short) = (self.text("3707"), self.text("3704"));
            let name = [long, short].into_iter().find(|name| !name.is_empty());
            messages.attach(name.as_deref().unwrap_or("unnamed"), &content, depth);
        } else if self.file.is_storage(format!("{}{MESSAGE}", self.folder)) && messages.begin_message(depth) {
            self.folder.push_str(MESSAGE);
            self.write(messages, depth + 1);
        }
    }

    fn stream(&mut self, name: &str) -> Option<Vec<u8>> {
        stream(&mut self.file, &format!("{}{name}", self.folder))
    }

    /// Reads a text property, in Unicode or in an old encoding.
    fn text(&mut self, property: &str) -> String {
        let text = if let Some(bytes) = self.stream(&format!("/__substg1.0_{property}001F")) {
            UTF_16LE.decode_without_bom_handling(&bytes).0.into_owned()
        } else {
            let bytes = self.stream(&format!("/__substg1.0_{property}001E")).unwrap_or_default();
            match self.encoding {
                Some(encoding) => encoding.decode_without_bom_handling(&bytes).0.into_owned(),
                None => super::text::decode(&bytes),
            }
        };
        text.trim_end_matches('\0').to_owned()
    }

    /// Returns the encoding by the code page of the message, else of its body.
    fn encoding(&mut self) -> Option<&'static Encoding> {
        const CODE_PAGES: [[u8; 4]; 2] = [[3, 0, 0xfd, 0x3f], [3, 0, 0xde, 0x3f]];
        let properties = self.stream("/__properties_version1.0")?;
        let page = |tag: &[u8; 4]| {
            let mut entries = properties.chunks_exact(8).skip_while(|entry| !entry.starts_with(tag));
            super::text::code_page(u32::from_le_bytes(*entries.nth(1)?.first_chunk()?))
        };
        CODE_PAGES.iter().find_map(page)
    }
}

/// A compound file in memory.
pub(super) type Compound<'a> = CompoundFile<Cursor<Cow<'a, [u8]>>>;

pub(super) fn open(bytes: &[u8]) -> Result<Compound<'_>, ExtractError> {
    let opened = CompoundFile::open(Cursor::new(Cow::Borrowed(bytes)));
    opened
        .or_else(|error| match padded(bytes) {
            Some(bytes) => CompoundFile::open(Cursor::new(Cow::Owned(bytes))),
            None => Err(error),
        })
        .map_err(|error| ExtractError::broken("Office", error))
}

/// Returns the content with all sectors that its table of sectors has entries for; some programs write fewer.
fn padded(bytes: &[u8]) -> Option<Vec<u8>> {
    const ENTRY_BYTES: usize = 4;
    let sector = 1_usize.checked_shl(u32::from(u16::from_le_bytes(*bytes.get(30..)?.first_chunk()?)))?;
    let tables = usize::try_from(u32::from_le_bytes(*bytes.get(44..)?.first_chunk()?)).ok()?;
    let sectors = tables.checked_mul(sector / ENTRY_BYTES)?.checked_add(1)?;
    let size = sectors.checked_mul(sector).filter(|size| *size <= INPUT_MAX_BYTES as usize)?;
    (size > bytes.len()).then(|| [bytes, &vec![0; size - bytes.len()]].concat())
}

/// Reads a stream; `None` if there is none.
pub(super) fn stream(file: &mut Compound<'_>, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.open_stream(name).ok()?.take(STREAM_MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
