//! Reads messages: the head, the text, and the attachments that are documents.

use std::io::{Cursor, Read};
use std::path::Path;

use cfb::CompoundFile;
use mail_parser::{Address, Message, MessageParser, MimeHeaders, PartType};

use super::output::Writer;
use super::{ExtractError, Extracted, Format, Nesting, extract_nested, html};

/// How deep messages in messages are read.
pub(super) const NESTING_MAX: u32 = 3;
/// The lines in place of attachments that are not read.
const TOO_DEEP: &str = "(not read: too many messages inside each other)";
const TOO_MANY: &str = "(further attachments are not read: there are too many)";
/// The most recipients that are shown.
const ADDRESSES_MAX: usize = 50;
/// The largest stream of a message of Outlook, in bytes.
const STREAM_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reads a message in the Internet's format.
pub(super) fn eml(bytes: &[u8], nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    let message = MessageParser::default().parse(bytes);
    let message = message.ok_or_else(|| ExtractError::broken("message", "it has no head"))?;
    let mut writer = Writer::new();
    write(&mut writer, &message, nesting);
    Ok(writer.finish(Format::Message))
}

fn write(writer: &mut Writer, message: &Message<'_>, nesting: Nesting<'_>) {
    if let Some(subject) = message.subject() {
        writer.heading(&format!("Subject: {subject}"));
    }
    for (name, addresses) in [("From", message.from()), ("To", message.to()), ("Cc", message.cc())] {
        if let Some(line) = addresses.and_then(address_line) {
            writer.line(&format!("{name}: {line}"));
        }
    }
    if let Some(date) = message.date() {
        writer.line(&format!("Date: {}", date.to_rfc3339()));
    }
    for part in message.text_bodies() {
        match &part.body {
            PartType::Text(text) => writer.lines(text),
            PartType::Html(page) => writer.append(&html::extract(page.as_bytes())),
            _ => {}
        }
    }
    for part in message.attachments() {
        if writer.is_full() || !nesting.take_attachment() {
            return writer.line(TOO_MANY);
        }
        let name = part.attachment_name().unwrap_or("unnamed");
        match &part.body {
            PartType::Message(inner) if nesting.depth < NESTING_MAX => {
                writer.heading("Attached message");
                write(writer, inner, nesting.deeper());
            }
            PartType::Message(_) => writer.line(TOO_DEEP),
            PartType::Multipart(_) => {}
            PartType::Text(text) | PartType::Html(text) => attach(writer, name, text.as_bytes(), nesting),
            PartType::Binary(content) | PartType::InlineBinary(content) => {
                attach(writer, name, content, nesting)
            }
        }
    }
}

/// Writes the text of an attachment, or why it has none.
fn attach(writer: &mut Writer, name: &str, content: &[u8], nesting: Nesting<'_>) {
    writer.heading(&format!("Attachment: {name}"));
    if nesting.depth >= NESTING_MAX {
        return writer.line(TOO_DEEP);
    }
    match extract_nested(Path::new(name), content, nesting.deeper()) {
        Ok(document) => writer.append(&document),
        Err(error) => writer.line(&format!("(not read: {error})")),
    }
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
    const HTML: &str = "1013";
    let mut file = open(bytes)?;
    let mut writer = Writer::new();
    let subject = text(&mut file, "", "0037");
    if !subject.is_empty() {
        writer.heading(&format!("Subject: {subject}"));
    }
    let sender = [text(&mut file, "", "0C1A"), text(&mut file, "", "5D01")];
    for (name, line) in
        [("From", sender.join(" ")), ("To", text(&mut file, "", "0E04")), ("Cc", text(&mut file, "", "0E03"))]
    {
        if !line.trim().is_empty() {
            writer.line(&format!("{name}: {}", line.trim()));
        }
    }
    let body = text(&mut file, "", "1000");
    if body.trim().is_empty() {
        let page = stream(&mut file, &format!("/__substg1.0_{HTML}0102"));
        writer.append(&html::extract(&page.unwrap_or_default()));
    } else {
        writer.lines(&body);
    }
    for number in 0_u32.. {
        let folder = format!("/__attach_version1.0_#{number:08X}");
        if !file.is_storage(&folder) {
            break;
        }
        if writer.is_full() || !nesting.take_attachment() {
            writer.line(TOO_MANY);
            break;
        }
        let (long, short) = (text(&mut file, &folder, "3707"), text(&mut file, &folder, "3704"));
        let name = if long.is_empty() { short } else { long };
        if let Some(content) = stream(&mut file, &format!("{folder}/__substg1.0_37010102")) {
            attach(&mut writer, if name.is_empty() { "unnamed" } else { &name }, &content, nesting);
        }
    }
    Ok(writer.finish(Format::Message))
}

/// A compound file in memory.
pub(super) type Compound<'a> = CompoundFile<Cursor<&'a [u8]>>;

pub(super) fn open(bytes: &[u8]) -> Result<Compound<'_>, ExtractError> {
    CompoundFile::open(Cursor::new(bytes)).map_err(|error| ExtractError::broken("Office", error))
}

/// Reads a stream; `None` if there is none.
pub(super) fn stream(file: &mut Compound<'_>, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.open_stream(name).ok()?.take(STREAM_MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Reads a text property, in Unicode or in an old encoding.
fn text(file: &mut Compound<'_>, folder: &str, property: &str) -> String {
    if let Some(bytes) = stream(file, &format!("{folder}/__substg1.0_{property}001F")) {
        return encoding_rs::UTF_16LE.decode_without_bom_handling(&bytes).0.trim_end_matches('\0').to_owned();
    }
    let bytes = stream(file, &format!("{folder}/__substg1.0_{property}001E"));
    bytes.map(|bytes| super::text::decode(&bytes).trim_end_matches('\0').to_owned()).unwrap_or_default()
}
