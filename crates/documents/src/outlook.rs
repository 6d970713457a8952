//! Reads messages of Outlook (MSG).

use encoding_rs::{Encoding, UTF_16LE};
use mail_parser::{DateTime, MessageParser};

use super::mail::{Compound, MailFileKind, MailWriter, open_compound_file, read_compound_stream};
use super::mail_text::{self, MailBody};
use super::pst::decompress_rtf;
use super::{DocumentFormat, ExtractError, Extracted, Nesting, rtf, text};

/// The properties of fixed length, and the body as a page and as rich text.
const PROPERTIES: &str = "/__properties_version1.0";
const HTML: &str = "/__substg1.0_10130102";
const RICH: &str = "/__substg1.0_10090102";
/// The properties with times.
const SENT_OR_RECEIVED: [[u8; 4]; 2] = [[0x40, 0, 0x39, 0], [0x40, 0, 0x06, 0x0e]];
const MADE_OR_CHANGED: [[u8; 4]; 2] = [[0x40, 0, 0x07, 0x30], [0x40, 0, 0x08, 0x30]];

/// Reads a message of Outlook, whose properties are streams named by their number and type.
pub(super) fn extract_outlook(bytes: &[u8], nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    let mut messages = MailWriter::new(MailFileKind::Outlook, nesting);
    Outlook::from_bytes(bytes)?.write_message(&mut messages, nesting.depth);
    Ok(messages.writer.finish_document(DocumentFormat::Message))
}

/// Returns the content of an attachment, by its number and the numbers of the messages that contain it, from 0.
pub(super) fn find_outlook_attachment(file: &[u8], at: &[usize]) -> Option<Vec<u8>> {
    Outlook::from_bytes(file).ok()?.find_attachment(at)
}

/// The content of an attachment of Outlook, and the folder of one that is a message.
const CONTENT: &str = "/__substg1.0_37010102";
const MESSAGE: &str = "/__substg1.0_3701000D";

fn attachment_folder(folder: &str, number: usize) -> String {
    format!("{folder}/__attach_version1.0_#{number:08X}")
}

/// A message of Outlook, in a separate file or in a folder of another message's file.
struct Outlook<'a> {
    file: Compound<'a>,
    folder: String,
    /// The encoding of texts that are not in Unicode, if the message names it.
    encoding: Option<&'static Encoding>,
}

impl<'a> Outlook<'a> {
    fn from_bytes(bytes: &'a [u8]) -> Result<Self, ExtractError> {
        Ok(Self { file: open_compound_file(bytes)?, folder: String::new(), encoding: None })
    }

    fn write_message(&mut self, messages: &mut MailWriter<'_>, depth: u32) {
        self.encoding = self.read_encoding();
        let subject = self.read_text_property("0037");
        if !subject.is_empty() {
            messages.writer.add_heading(&format!("Subject: {subject}"));
        }
        let address = ["5D01", "0C1F"].map(|property| self.read_text_property(property));
        let address = address.into_iter().find(|text| text.contains('@')).unwrap_or_default();
        let sender = sender_line(&self.read_text_property("0C1A"), &address);
        for (name, line) in [
            ("From", sender),
            ("To", self.read_text_property("0E04")),
            ("Cc", self.read_text_property("0E03")),
        ] {
            if !line.trim().is_empty() {
                messages.writer.add_line(&format!("{name}: {}", line.trim()));
            }
        }
        if let Some(date) = self.message_date() {
            messages.writer.add_line(&format!("Date: {date}"));
        }
        messages.write_bodies(&self.read_bodies());
        let folder = self.folder.clone();
        for number in 0_u32.. {
            self.folder = attachment_folder(&folder, number as usize);
            if !self.file.is_storage(&self.folder) {
                break;
            }
            if messages.begin_attachment(number + 1) {
                self.write_attachment(messages, depth);
                messages.end_attachment();
            }
        }
        self.folder = folder;
    }

    /// Returns the content of an attachment, by its number and the numbers of the messages that contain it, from 0.
    fn find_attachment(&mut self, at: &[usize]) -> Option<Vec<u8>> {
        let (number, deeper) = at.split_first()?;
        self.folder = attachment_folder(&self.folder, *number);
        if deeper.is_empty() {
            return self.read_stream(CONTENT);
        }
        self.folder.push_str(MESSAGE);
        self.find_attachment(deeper)
    }

    /// Writes the attachment in the folder.
    fn write_attachment(&mut self, messages: &mut MailWriter<'_>, depth: u32) {
        if let Some(content) = self.read_stream(CONTENT) {
            let (long, short) = (self.read_text_property("3707"), self.read_text_property("3704"));
            let name = [long, short].into_iter().find(|name| !name.is_empty());
            messages.write_attachment(name.as_deref().unwrap_or("unnamed"), &content, depth);
        } else if self.file.is_storage(format!("{}{MESSAGE}", self.folder)) && messages.begin_message(depth) {
            self.folder.push_str(MESSAGE);
            self.write_message(messages, depth + 1);
        }
    }

    fn read_stream(&mut self, name: &str) -> Option<Vec<u8>> {
        read_compound_stream(&mut self.file, &format!("{}{name}", self.folder))
    }

    /// Reads a text property, in Unicode or in an old encoding.
    fn read_text_property(&mut self, property: &str) -> String {
        let text = if let Some(bytes) = self.read_stream(&format!("/__substg1.0_{property}001F")) {
            UTF_16LE.decode_without_bom_handling(&bytes).0.into_owned()
        } else {
            let bytes = self.read_stream(&format!("/__substg1.0_{property}001E")).unwrap_or_default();
            match self.encoding {
                Some(encoding) => encoding.decode_without_bom_handling(&bytes).0.into_owned(),
                None => text::decode_text(&bytes),
            }
        };
        text.trim_end_matches('\0').to_owned()
    }

    /// Returns the text of the message: plain, as a page or as both, else as rich text.
    fn read_bodies(&mut self) -> Vec<MailBody> {
        let page = match self.read_stream(HTML) {
            Some(page) => text::decode_declared(&page, "charset="),
            None => self.read_text_property("1013"),
        };
        let bodies =
            mail_text::of_forms(MailBody::Plain(self.read_text_property("1000")), MailBody::Page(page));
        if bodies.iter().any(MailBody::has_words) {
            return bodies;
        }
        let rich =
            self.read_stream(RICH).and_then(|rich| decompress_rtf(&rich)).map(|rich| rtf::extract_rtf(&rich));
        let texts =
            rich.into_iter().flat_map(|rich| rich.segments).map(|segment| MailBody::Plain(segment.text));
        texts.collect()
    }

    /// Returns the time at which the message was sent, else received, else created.
    fn message_date(&mut self) -> Option<String> {
        const PER_SECOND: u64 = 10_000_000;
        /// From 1601 to 1970, in seconds.
        const SECONDS_BEFORE: i64 = 11_644_473_600;
        let properties = self.read_stream(PROPERTIES).unwrap_or_default();
        let time = |tag: &[u8; 4]| {
            let time = u64::from_le_bytes(*fixed_property(&properties, tag)?.first_chunk()?) / PER_SECOND;
            let seconds = i64::try_from(time).ok().filter(|seconds| *seconds > 0)?;
            Some(DateTime::from_timestamp(seconds - SECONDS_BEFORE).to_rfc3339())
        };
        let head = || {
            let head = self.read_text_property("007D");
            let message = MessageParser::default().parse_headers(head.as_bytes())?;
            message.date().map(DateTime::to_rfc3339)
        };
        SENT_OR_RECEIVED.iter().find_map(time).or_else(head).or_else(|| MADE_OR_CHANGED.iter().find_map(time))
    }

    /// Returns the encoding by the code page of the message, else of its body.
    fn read_encoding(&mut self) -> Option<&'static Encoding> {
        const CODE_PAGES: [[u8; 4]; 2] = [[3, 0, 0xfd, 0x3f], [3, 0, 0xde, 0x3f]];
        let properties = self.read_stream(PROPERTIES)?;
        let page = |tag: &[u8; 4]| {
            text::code_page(u32::from_le_bytes(*fixed_property(&properties, tag)?.first_chunk()?))
        };
        CODE_PAGES.iter().find_map(page)
    }
}

/// Returns the value of a property of fixed length.
fn fixed_property<'a>(properties: &'a [u8], tag: &[u8; 4]) -> Option<&'a [u8]> {
    properties.chunks_exact(8).skip_while(|entry| !entry.starts_with(tag)).nth(1)
}

/// Returns a name with an address. Many names are the address, or contain it.
fn sender_line(name: &str, address: &str) -> String {
    let bare = name.trim().trim_matches(['\'', '"']);
    let has_address = bare.to_lowercase().contains(&address.to_lowercase());
    match (bare.is_empty() || bare.eq_ignore_ascii_case(address), address.is_empty() || has_address) {
        (true, _) => address.to_owned(),
        (false, true) => name.trim().to_owned(),
        (false, false) => format!("{} <{address}>", name.trim()),
    }
}
