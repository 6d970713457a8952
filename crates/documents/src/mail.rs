//! Reads messages: the header, the text, and the attachments that are documents.

use std::borrow::Cow;
use std::io::{Cursor, Read};
use std::path::Path;

use cfb::CompoundFile;
use mail_parser::mailbox::mbox::MessageIterator;
use mail_parser::{Address, Message, MessageParser, MessagePart, MimeHeaders, PartType};

use super::embedded_images::images_of_inner;
use super::mail_text::MailBody;
use super::output::DocumentWriter;
use super::{
    DocumentFormat, EmbeddedImage, ExtractBounds, ExtractError, Extracted, INPUT_MAX_BYTES, NESTING_MAX,
    Nesting, TOO_DEEP, data_box, html, mail_head, mail_text, outlook,
};

/// The line in place of attachments that are not read.
const TOO_MANY: &str = "(further attachments are not read: there are too many)";
/// The maximum number of lines of a message that may begin parts of it, and the maximum number in its head.
const PARTS_MAX: usize = 500_000;
/// The maximum number of characters of the line with the length of a message in a file of Apple Mail, which is padded
/// with blanks.
const LENGTH_MAX_DIGITS: usize = 20;
/// The maximum number of parts of a message that are declared as messages.
const MESSAGES_MAX: usize = 1_000;
/// The maximum number of recipients that are shown.
const ADDRESSES_MAX: usize = 50;
/// The largest stream of a message of Outlook, in bytes.
const STREAM_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The kinds of files that hold messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MailFileKind {
    Eml,
    Mailbox,
    Outlook,
    DataBox,
}

impl MailFileKind {
    const ALL: [Self; 4] = [Self::Eml, Self::Mailbox, Self::Outlook, Self::DataBox];

    /// Returns the letter with which names of attachments begin.
    const fn attachment_prefix(self) -> char {
        match self {
            Self::Eml => 'e',
            Self::Mailbox => 'b',
            Self::Outlook => 'o',
            Self::DataBox => 'd',
        }
    }
}

/// Writes the messages of a file with their attachments.
pub(super) struct MailWriter<'a> {
    pub(super) writer: DocumentWriter,
    kind: MailFileKind,
    /// The number of the current attachment in its message, and the numbers of the messages around it.
    at: Vec<u32>,
    /// The number of attachments so far, and of messages that are not read.
    count: u32,
    nesting: Nesting<'a>,
}

/// Reads a message in the Internet's format.
pub(super) fn extract_eml(bytes: &[u8], nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    let message = parse_message(bytes)?;
    let mut messages = MailWriter::new(MailFileKind::Eml, nesting);
    messages.write_message(&message, nesting.depth);
    Ok(messages.writer.finish_document(DocumentFormat::Message))
}

/// Reads a mailbox: messages one after the other.
pub(super) fn extract_mailbox(bytes: &[u8], nesting: Nesting<'_>) -> Extracted {
    let mut messages = MailWriter::new(MailFileKind::Mailbox, nesting);
    for (number, message) in (1..).zip(MessageIterator::new(bytes).flatten()) {
        messages.writer.end_heading();
        messages.at.push(number);
        match parse_message(message.contents()) {
            Ok(message) => messages.write_message(&message, nesting.depth),
            Err(error) => {
                messages.count += 1;
                messages.write_refusal(&format!("(not read: {error})"));
            }
        }
        messages.at.pop();
        if messages.writer.is_full() {
            break;
        }
    }
    messages.writer.finish_document(DocumentFormat::Message)
}

/// Returns the message in a file of Apple Mail (`.emlx`): it follows a line with its length and precedes a property list.
fn of_apple_mail(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().take(LENGTH_MAX_DIGITS + 1).position(|byte| *byte == b'\n')?;
    let (length, message) = bytes.split_at(end);
    let length: usize = std::str::from_utf8(length).ok()?.trim().parse().ok()?;
    Some(message[1..].get(..length).unwrap_or(&message[1..]))
}

/// Parses a message, unless it declares so many parts that they would exhaust the memory or the stack. Encoded messages inside it
/// are not examined.
fn parse_message(bytes: &[u8]) -> Result<Message<'_>, ExtractError> {
    const KIND: &[u8] = b"content-type:";
    let bytes = mail_head::normalize_message_heads(of_apple_mail(bytes).unwrap_or(bytes));
    let (mut parts, mut messages, mut is_head, mut is_kind) = (0, 0, true, false);
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        is_head &= !line.trim_ascii().is_empty();
        parts += usize::from(line.starts_with(b"--"));
        is_kind = line.get(..KIND.len()).is_some_and(|start| start.eq_ignore_ascii_case(KIND))
            || is_kind && line.starts_with(b" ")
            || is_kind && line.starts_with(b"\t");
        let line = if is_kind { line.to_ascii_lowercase() } else { Vec::new() };
        let has = |kind: &[u8]| line.windows(kind.len()).any(|word| word == kind);
        messages += usize::from(has(b"rfc822") || has(b"global") || has(b"digest"));
        if parts > PARTS_MAX || is_head && number > PARTS_MAX {
            return Err(ExtractError::TooManyParts { bound: PARTS_MAX });
        }
        if messages > MESSAGES_MAX {
            return Err(ExtractError::TooManyParts { bound: MESSAGES_MAX });
        }
    }
    let message = match bytes {
        Cow::Borrowed(bytes) => MessageParser::default().parse(bytes),
        Cow::Owned(bytes) => MessageParser::default().parse(&bytes).map(Message::into_owned),
    };
    message.ok_or_else(|| ExtractError::broken_file("message", "its header is missing"))
}

/// Returns the attachments of a message. A web page that was saved as a message names its resources by their addresses.
fn list_attachments<'a>(message: &'a Message<'a>) -> impl Iterator<Item = &'a MessagePart<'a>> {
    message.attachments().filter(|part| part.content_location().is_none())
}

impl<'a> MailWriter<'a> {
    pub(super) fn new(kind: MailFileKind, nesting: Nesting<'a>) -> Self {
        Self { writer: DocumentWriter::new(), kind, at: Vec::new(), count: 0, nesting }
    }

    /// Creates a message of a data box.
    pub(super) fn of_data_box(nesting: Nesting<'a>) -> Self {
        Self::new(MailFileKind::DataBox, nesting)
    }

    fn write_message(&mut self, message: &Message<'_>, depth: u32) {
        if let Some(subject) = message.subject() {
            self.writer.add_heading(&format!("Subject: {subject}"));
        }
        for (name, addresses) in [("From", message.from()), ("To", message.to()), ("Cc", message.cc())] {
            if let Some(line) = addresses.and_then(address_line) {
                self.writer.add_line(&format!("{name}: {line}"));
            }
        }
        if let Some(date) = message.date() {
            self.writer.add_line(&format!("Date: {}", date.to_rfc3339()));
        }
        self.write_bodies(&mail_text::message_bodies(message));
        for (number, part) in (1..).zip(list_attachments(message)) {
            if !self.begin_attachment(number) {
                continue;
            }
            let name = part.attachment_name().unwrap_or("unnamed");
            match &part.body {
                PartType::Message(inner) if self.begin_message(depth) => self.write_message(inner, depth + 1),
                PartType::Message(_) | PartType::Multipart(_) => {}
                _ => {
                    if let Some(content) = mail_text::attachment_content(message, part) {
                        self.write_attachment(name, &content, depth);
                    }
                }
            }
            self.end_attachment();
        }
    }

    pub(super) fn write_bodies(&mut self, bodies: &[MailBody]) {
        for body in bodies {
            match body {
                MailBody::Plain(text) => self.writer.add_lines(text),
                MailBody::Page(page) => self.writer.append_document(&html::extract_html(page.as_bytes())),
            }
        }
    }

    /// Begins an attachment. Returns false if it is not read.
    pub(super) fn begin_attachment(&mut self, number: u32) -> bool {
        self.count += 1;
        let is_read = !self.writer.is_full() && self.nesting.take_attachment();
        if is_read {
            self.at.push(number);
        } else {
            self.write_refusal(TOO_MANY);
        }
        is_read
    }

    pub(super) fn end_attachment(&mut self) {
        self.at.pop();
    }

    /// Begins a message inside another. Returns false if it lies too deep.
    pub(super) fn begin_message(&mut self, depth: u32) -> bool {
        let is_read = depth < NESTING_MAX;
        if is_read {
            self.writer.add_heading("Attached message");
        } else {
            self.write_refusal(TOO_DEEP);
        }
        is_read
    }

    /// Reports once why consecutive attachments are not read.
    fn write_refusal(&mut self, why: &str) {
        self.writer.unread_file(self.count);
        self.writer.line_once(why);
    }

    /// Writes the text of an attachment, or the reason why it has none.
    pub(super) fn write_attachment(&mut self, name: &str, content: &[u8], depth: u32) {
        let heading = format!("Attachment: {name}");
        self.writer.add_heading(&heading);
        let (heading, title_line) = (self.writer.present_heading(), self.writer.last_line());
        let document = Nesting { depth, ..self.nesting }.extract_inner(
            Path::new(name),
            content,
            &ExtractBounds::default(),
        );
        self.writer.add_embedded_document(&document);
        let document = match document {
            Ok(document) => document,
            Err(_) if is_signature(name) => return,
            Err(_) => return self.writer.unread_file(self.count),
        };
        let has_lines = document.pages.is_none();
        for image in images_of_inner(&self.name_of_attachment(), &document) {
            let line = title_line.saturating_add(image.line.filter(|_| has_lines).unwrap_or(0));
            let line = line.min(self.writer.last_line());
            let heading = image.heading.or_else(|| heading.clone());
            self.writer.add_placed_image(EmbeddedImage { page: None, line: Some(line), heading, ..image });
        }
        self.writer.unread_images(document.unread_images);
        if !document.is_whole() {
            self.writer.unread_file(self.count);
        }
    }

    /// Names the attachment that is written as [`find_mail_attachment`] finds it: `e2.1`.
    fn name_of_attachment(&self) -> String {
        let numbers: Vec<String> = self.at.iter().map(u32::to_string).collect();
        format!("{}{}", self.kind.attachment_prefix(), numbers.join("."))
    }
}

/// Returns the content of an attachment by the name that the reader gave it.
pub(super) fn find_mail_attachment(file: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut letters = name.chars();
    let letter = letters.next()?;
    let number = |number: &str| number.parse::<usize>().ok()?.checked_sub(1);
    let at: Vec<usize> = letters.as_str().split('.').map(number).collect::<Option<_>>()?;
    match MailFileKind::ALL.into_iter().find(|kind| kind.attachment_prefix() == letter)? {
        MailFileKind::Eml => find_part_content(&parse_message(file).ok()?, &at),
        MailFileKind::Mailbox => {
            let (message, at) = at.split_first()?;
            let message = MessageIterator::new(file).flatten().nth(*message)?;
            find_part_content(&parse_message(message.contents()).ok()?, at)
        }
        MailFileKind::Outlook => outlook::find_outlook_attachment(file, &at),
        MailFileKind::DataBox => {
            data_box::find_data_box_attachment(file, *at.first().filter(|_| at.len() == 1)?)
        }
    }
}

fn find_part_content(message: &Message<'_>, at: &[usize]) -> Option<Vec<u8>> {
    let (number, deeper) = at.split_first()?;
    let part = list_attachments(message).nth(*number)?;
    match &part.body {
        PartType::Message(inner) => find_part_content(inner, deeper),
        _ if !deeper.is_empty() => None,
        _ => mail_text::attachment_content(message, part).map(Cow::into_owned),
    }
}

/// Returns true for the name of a signature, which has no text.
fn is_signature(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".p7s")
}

fn address_line(addresses: &Address<'_>) -> Option<String> {
    let shown = addresses.iter().take(ADDRESSES_MAX).map(|one| match (one.name(), one.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (name, address) => name.or(address).unwrap_or_default().to_owned(),
    });
    let line = shown.collect::<Vec<_>>().join(", ");
    (!line.is_empty()).then_some(line)
}

/// A compound file in memory.
pub(super) type Compound<'a> = CompoundFile<Cursor<Cow<'a, [u8]>>>;

pub(super) fn open_compound_file(bytes: &[u8]) -> Result<Compound<'_>, ExtractError> {
    let opened = CompoundFile::open(Cursor::new(Cow::Borrowed(bytes)));
    opened
        .or_else(|error| match pad_sectors(bytes) {
            Some(bytes) => CompoundFile::open(Cursor::new(Cow::Owned(bytes))),
            None => Err(error),
        })
        .map_err(|error| ExtractError::broken_file("Office", error))
}

/// Returns the content padded to all sectors in its table of sectors; some programs write fewer.
fn pad_sectors(bytes: &[u8]) -> Option<Vec<u8>> {
    const ENTRY_BYTES: usize = 4;
    let sector = 1_usize.checked_shl(u32::from(u16::from_le_bytes(*bytes.get(30..)?.first_chunk()?)))?;
    let tables = usize::try_from(u32::from_le_bytes(*bytes.get(44..)?.first_chunk()?)).ok()?;
    let sectors = tables.checked_mul(sector / ENTRY_BYTES)?.checked_add(1)?;
    let size = sectors.checked_mul(sector).filter(|size| *size <= INPUT_MAX_BYTES as usize)?;
    (size > bytes.len()).then(|| [bytes, &vec![0; size - bytes.len()]].concat())
}

/// Reads a stream; `None` if it is missing.
pub(super) fn read_compound_stream(file: &mut Compound<'_>, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.open_stream(name).ok()?.take(STREAM_MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
