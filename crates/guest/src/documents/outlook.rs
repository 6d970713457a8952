//! Reads messages of Outlook (MSG).

use encoding_rs::{Encoding, UTF_16LE};
use mail_parser::{DateTime, MessageParser};

use super::mail::{Compound, Kind, Messages, open, stream};
use super::mail_text::{self, Body};
use super::pst::decompress;
use super::{ExtractError, Extracted, Format, Nesting, rtf, text};

/// The properties of fixed length, and the body as a page and as rich text.
const PROPERTIES: &str = "/__properties_version1.0";
const HTML: &str = "/__substg1.0_10130102";
const RICH: &str = "/__substg1.0_10090102";
/// The properties with times.
const SENT_OR_RECEIVED: [[u8; 4]; 2] = [[0x40, 0, 0x39, 0], [0x40, 0, 0x06, 0x0e]];
const MADE_OR_CHANGED: [[u8; 4]; 2] = [[0x40, 0, 0x07, 0x30], [0x40, 0, 0x08, 0x30]];

/// Reads a message of Outlook, whose properties are streams named by their number and type.
pub(super) fn extract(bytes: &[u8], nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    let mut messages = Messages::new(Kind::Outlook, nesting);
    Outlook::open(bytes)?.write(&mut messages, nesting.depth);
    Ok(messages.writer.finish(Format::Message))
}

/// Returns the content of an attachment, by its number and those of the messages that it lies in, from 0.
pub(super) fn attachment(file: &[u8], at: &[usize]) -> Option<Vec<u8>> {
    Outlook::open(file).ok()?.attached(at)
}

/// The content of an attachment of Outlook, and the folder of one that is a message.
const CONTENT: &str = "/__substg1.0_37010102";
const MESSAGE: &str = "/__substg1.0_3701000D";

fn attachment_folder(folder: &str, number: usize) -> String {
    format!("{folder}/__attach_version1.0_#{number:08X}")
}

/// A message of Outlook, in a file of its own or in a folder of another message's file.
struct Outlook<'a> {
    file: Compound<'a>,
    folder: String,
    /// The encoding of texts that are not in Unicode, if the message names it.
    encoding: Option<&'static Encoding>,
}

impl<'a> Outlook<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, ExtractError> {
        Ok(Self { file: open(bytes)?, folder: String::new(), encoding: None })
    }

    fn write(&mut self, messages: &mut Messages<'_>, depth: u32) {
        self.encoding = self.encoding();
        let subject = self.text("0037");
        if !subject.is_empty() {
            messages.writer.heading(&format!("Subject: {subject}"));
        }
        let address = ["5D01", "0C1F"].map(|property| self.text(property));
        let address = address.into_iter().find(|text| text.contains('@')).unwrap_or_default();
        let sender = sender_line(&self.text("0C1A"), &address);
        for (name, line) in [("From", sender), ("To", self.text("0E04")), ("Cc", self.text("0E03"))] {
            if !line.trim().is_empty() {
                messages.writer.line(&format!("{name}: {}", line.trim()));
            }
        }
        if let Some(date) = self.date() {
            messages.writer.line(&format!("Date: {date}"));
        }
        messages.write_bodies(&self.bodies());
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

    /// Returns the content of an attachment, by its number and those of the messages that it lies in, from 0.
    fn attached(&mut self, at: &[usize]) -> Option<Vec<u8>> {
        let (number, deeper) = at.split_first()?;
        self.folder = attachment_folder(&self.folder, *number);
        if deeper.is_empty() {
            return self.stream(CONTENT);
        }
        self.folder.push_str(MESSAGE);
        self.attached(deeper)
    }

    /// Writes the attachment in the folder.
    fn write_attachment(&mut self, messages: &mut Messages<'_>, depth: u32) {
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
                None => text::decode(&bytes),
            }
        };
        text.trim_end_matches('\0').to_owned()
    }

    /// Returns the text of the message: as it is plain, as a page or as both, else as rich text.
    fn bodies(&mut self) -> Vec<Body> {
        let page = match self.stream(HTML) {
            Some(page) => text::decode_declared(&page, "charset="),
            None => self.text("1013"),
        };
        let bodies = mail_text::of_forms(Body::Plain(self.text("1000")), Body::Page(page));
        if bodies.iter().any(Body::has_words) {
            return bodies;
        }
        let rich = self.stream(RICH).and_then(|rich| decompress(&rich)).map(|rich| rtf::extract(&rich));
        let texts = rich.into_iter().flat_map(|rich| rich.segments).map(|segment| Body::Plain(segment.text));
        texts.collect()
    }

    /// Returns the time at which the message was sent, else received, else made.
    fn date(&mut self) -> Option<String> {
        const PER_SECOND: u64 = 10_000_000;
        /// From 1601 to 1970, in seconds.
        const SECONDS_BEFORE: i64 = 11_644_473_600;
        let properties = self.stream(PROPERTIES).unwrap_or_default();
        let time = |tag: &[u8; 4]| {
            let time = u64::from_le_bytes(*property(&properties, tag)?.first_chunk()?) / PER_SECOND;
            let seconds = i64::try_from(time).ok().filter(|seconds| *seconds > 0)?;
            Some(DateTime::from_timestamp(seconds - SECONDS_BEFORE).to_rfc3339())
        };
        let head = || {
            let head = self.text("007D");
            let message = MessageParser::default().parse_headers(head.as_bytes())?;
            message.date().map(DateTime::to_rfc3339)
        };
        SENT_OR_RECEIVED.iter().find_map(time).or_else(head).or_else(|| MADE_OR_CHANGED.iter().find_map(time))
    }

    /// Returns the encoding by the code page of the message, else of its body.
    fn encoding(&mut self) -> Option<&'static Encoding> {
        const CODE_PAGES: [[u8; 4]; 2] = [[3, 0, 0xfd, 0x3f], [3, 0, 0xde, 0x3f]];
        let properties = self.stream(PROPERTIES)?;
        let page =
            |tag: &[u8; 4]| text::code_page(u32::from_le_bytes(*property(&properties, tag)?.first_chunk()?));
        CODE_PAGES.iter().find_map(page)
    }
}

/// Returns the value of a property of fixed length.
fn property<'a>(properties: &'a [u8], tag: &[u8; 4]) -> Option<&'a [u8]> {
    properties.chunks_exact(8).skip_while(|entry| !entry.starts_with(tag)).nth(1)
}

/// Returns a name with an address. Many names are the address, or have it.
fn sender_line(name: &str, address: &str) -> String {
    let bare = name.trim().trim_matches(['\'', '"']);
    let has_address = bare.to_lowercase().contains(&address.to_lowercase());
    match (bare.is_empty() || bare.eq_ignore_ascii_case(address), address.is_empty() || has_address) {
        (true, _) => address.to_owned(),
        (false, true) => name.trim().to_owned(),
        (false, false) => format!("{} <{address}>", name.trim()),
    }
}
