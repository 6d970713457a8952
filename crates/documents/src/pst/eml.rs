//! Writes messages of Outlook in the Internet's format, for the reader of messages. Everything that the message brings is encoded, so that
//! nothing in it can end a part.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::Encoding;
use mail_parser::DateTime;
use outlook_pst::ltp::prop_context::PropertyValue;
use outlook_pst::messaging::attachment::{AttachmentData, AttachmentProperties};
use outlook_pst::messaging::message::Message;
use outlook_pst::ndb::node_id::NodeId;

use super::compressed_rtf::decompress_rtf;
use super::{OpenMessage, SUBJECT, read_table_property};
use crate::archive::PART_MAX_BYTES;
use crate::output::clean_line;
use crate::{ATTACHMENTS_MAX, ExtractError, rtf, text};

/// The maximum number of recipients that are written.
const RECIPIENTS_MAX: usize = 100;
const SENT: u16 = 0x0039;
const RECEIVED: u16 = 0x0e06;
const SENDER: u16 = 0x0c1a;
const SENDER_ADDRESS: [u16; 2] = [0x5d01, 0x0c1f];
const PLAIN: u16 = 0x1000;
const RICH: u16 = 0x1009;
const HTML: u16 = 0x1013;
const CODE_PAGES: [u16; 2] = [0x3ffd, 0x3fde];
/// The properties of messages that are read.
pub(super) const PROPERTIES: &[u16] = &[
    SUBJECT,
    SENT,
    RECEIVED,
    SENDER,
    SENDER_ADDRESS[0],
    SENDER_ADDRESS[1],
    PLAIN,
    RICH,
    HTML,
    CODE_PAGES[0],
    CODE_PAGES[1],
];
const RECIPIENT_KIND: u16 = 0x0c15;
const RECIPIENT_NAME: u16 = 0x3001;
const RECIPIENT_ADDRESS: [u16; 2] = [0x39fe, 0x3003];
/// Names of attachments: the long one, the short one, and the displayed one.
const ATTACHMENT_NAMES: [u16; 3] = [0x3707, 0x3704, 0x3001];

/// Returns a message with its attachments.
///
/// # Errors
/// Fails if it is larger than [`PART_MAX_BYTES`].
pub(super) fn write_eml(message: &OpenMessage) -> Result<Vec<u8>, ExtractError> {
    const BOUNDARY: &str = "outlook";
    let properties = message.as_message();
    let mut out = message_head(properties);
    let _ = write!(out, "Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\r\n\r\n--{BOUNDARY}\r\n");
    push_body(&mut out, properties);
    let attachments = properties.attachment_table().into_iter().flat_map(|table| table.rows_matrix());
    // One more shows that the limit is exceeded.
    for row in attachments.take(ATTACHMENTS_MAX as usize + 1) {
        let _ = write!(out, "--{BOUNDARY}\r\n");
        match message.open_attachment(NodeId::from(u32::from(row.id()))) {
            Ok(attachment) => push_attachment(&mut out, attachment.properties(), attachment.data()),
            Err(error) => push_unreadable(&mut out, &error.to_string()),
        }
        if out.len() as u64 > PART_MAX_BYTES {
            return Err(ExtractError::Bomb { bound: PART_MAX_BYTES });
        }
    }
    let _ = write!(out, "--{BOUNDARY}--\r\n");
    Ok(out.into_bytes())
}

/// Returns a value as text; empty for other values.
pub(super) fn value_to_text(value: &PropertyValue) -> String {
    text_in(value, None)
}

/// Returns a subject without the mark of its prefix, on one line.
pub(super) fn value_to_subject(value: &PropertyValue) -> String {
    without_mark(&value_to_text(value))
}

fn without_mark(subject: &str) -> String {
    // The length of the prefix follows the mark.
    let mut letters = subject.chars();
    let rest = if letters.next() == Some('\u{1}') {
        letters.as_str().chars().skip(1).collect()
    } else {
        subject.to_owned()
    };
    clean_line(&rest)
}

fn text_in(value: &PropertyValue, encoding: Option<&'static Encoding>) -> String {
    let text = match value {
        PropertyValue::Unicode(value) => value.to_string(),
        PropertyValue::String8(value) => decode_text(value.buffer(), encoding),
        PropertyValue::Binary(value) => decode_text(value.buffer(), encoding),
        _ => String::new(),
    };
    text.trim_end_matches('\0').to_owned()
}

fn decode_text(bytes: &[u8], encoding: Option<&'static Encoding>) -> String {
    match encoding {
        Some(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
        None => text::decode_text(bytes),
    }
}

/// Returns the encoding of texts that are not in Unicode, if the message names it.
fn message_encoding(message: &dyn Message) -> Option<&'static Encoding> {
    CODE_PAGES.iter().find_map(|property| match message.properties().get(*property)? {
        PropertyValue::Integer32(number) => text::code_page(u32::try_from(*number).ok()?),
        _ => None,
    })
}

/// Returns the header without the content type.
fn message_head(message: &dyn Message) -> String {
    let encoding = message_encoding(message);
    let of = |property: u16| message.properties().get(property).map(|value| text_in(value, encoding));
    let mut out = format!("Subject: {}\r\n", without_mark(&of(SUBJECT).unwrap_or_default()));
    let address = SENDER_ADDRESS.iter().filter_map(|property| of(*property)).find(|text| text.contains('@'));
    let sender = format_address(&of(SENDER).unwrap_or_default(), &address.unwrap_or_default());
    let [to, cc] = list_recipients(message, encoding);
    for (field, value) in [("From", sender), ("To", to), ("Cc", cc)] {
        if !value.is_empty() {
            let _ = write!(out, "{field}: {value}\r\n");
        }
    }
    let time = [SENT, RECEIVED].iter().find_map(|property| match message.properties().get(*property)? {
        PropertyValue::Time(time) => Some(*time),
        _ => None,
    });
    if let Some(date) = time.and_then(format_date) {
        let _ = write!(out, "Date: {date}\r\n");
    }
    out.push_str("MIME-Version: 1.0\r\n");
    out
}

/// Returns the recipients of a message, and the recipients of a copy.
fn list_recipients(message: &dyn Message, encoding: Option<&'static Encoding>) -> [String; 2] {
    let mut found = [Vec::new(), Vec::new()];
    let table = message.recipient_table();
    for row in table.into_iter().flat_map(|table| table.rows_matrix()).take(RECIPIENTS_MAX) {
        let of = |property| table.and_then(|table| read_table_property(&**table, row, property));
        let list = match of(RECIPIENT_KIND) {
            Some(PropertyValue::Integer32(1)) => &mut found[0],
            Some(PropertyValue::Integer32(2)) => &mut found[1],
            _ => continue,
        };
        let words = |property| of(property).map(|value| text_in(&value, encoding)).unwrap_or_default();
        let address = RECIPIENT_ADDRESS.into_iter().map(words).find(|address| address.contains('@'));
        list.push(format_address(&words(RECIPIENT_NAME), &address.unwrap_or_default()));
    }
    found.map(|list| list.join(", "))
}

/// Returns a name with an address, as heads have it.
fn format_address(name: &str, address: &str) -> String {
    let quoted = |text: &str| clean_line(text).replace(['"', '\\', '<', '>'], "'");
    let (name, address) = (quoted(name), quoted(address));
    match (name.is_empty(), address.is_empty()) {
        (true, _) => address,
        (false, true) => format!("\"{name}\""),
        (false, false) => format!("\"{name}\" <{address}>"),
    }
}

/// Returns the date of a number of tenths of microseconds since 1601.
fn format_date(time: i64) -> Option<String> {
    const PER_SECOND: i64 = 10_000_000;
    /// From 1601 to 1970, in seconds.
    const SECONDS_BEFORE: i64 = 11_644_473_600;
    let seconds = (time > 0).then_some(time / PER_SECOND)?;
    Some(DateTime::from_timestamp(seconds - SECONDS_BEFORE).to_rfc822())
}

/// Adds the text of a message: plain, else as a page, else as rich text.
fn push_body(out: &mut String, message: &dyn Message) {
    let encoding = message_encoding(message);
    let of = |property: u16| message.properties().get(property).map(|value| text_in(value, encoding));
    let has_words = |text: &String| !text.trim().is_empty();
    let rich = || match message.properties().get(RICH)? {
        PropertyValue::Binary(value) => {
            let document = rtf::extract_rtf(&decompress_rtf(value.buffer())?);
            let lines: Vec<String> = document.segments.into_iter().map(|segment| segment.text).collect();
            Some(lines.join("\n"))
        }
        _ => None,
    };
    let (kind, body) = if let Some(plain) = of(PLAIN).filter(has_words) {
        ("plain", plain)
    } else if let Some(page) = of(HTML).filter(has_words) {
        ("html", page)
    } else {
        ("plain", rich().unwrap_or_default())
    };
    let _ = write!(out, "Content-Type: text/{kind}; charset=utf-8\r\n");
    push_encoded(out, body.as_bytes());
}

fn push_attachment(out: &mut String, properties: &AttachmentProperties, data: Option<&AttachmentData>) {
    let named = ATTACHMENT_NAMES.iter().filter_map(|property| properties.get(*property)).map(value_to_text);
    let name = named.map(|name| clean_line(&name)).find(|name| !name.is_empty());
    let name = name.as_deref().unwrap_or("unnamed").replace(['"', '\\'], "'");
    match data {
        Some(AttachmentData::Binary(content)) => push_file(out, &name, content.buffer()),
        Some(AttachmentData::Message(message)) => push_message(out, &**message),
        // It is a file elsewhere.
        None => push_unreadable(out, &format!("{name} is not in the message")),
    }
}

fn push_file(out: &mut String, name: &str, content: &[u8]) {
    let _ = write!(
        out,
        "Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n"
    );
    push_encoded(out, content);
}

/// Adds a message that is attached. The library does not open its attachments.
fn push_message(out: &mut String, message: &dyn Message) {
    const BOUNDARY: &str = "attached";
    out.push_str("Content-Type: message/rfc822\r\n\r\n");
    out.push_str(&message_head(message));
    let _ = write!(out, "Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\r\n\r\n--{BOUNDARY}\r\n");
    push_body(out, message);
    if message.attachment_table().is_some_and(|table| table.rows_matrix().next().is_some()) {
        let _ = write!(out, "--{BOUNDARY}\r\n");
        push_unreadable(out, "attachments of an attached message are not opened");
    }
    let _ = write!(out, "--{BOUNDARY}--\r\n");
}

/// Adds an attachment in place of one that is not read. The reader of messages reports it like an encrypted or damaged
/// one.
fn push_unreadable(out: &mut String, why: &str) {
    /// A file that is not a document.
    const CONTENT: &[u8] = b"\0";
    push_file(out, &format!("unread ({})", clean_line(why).replace(['"', '\\'], "'")), CONTENT);
}

/// Adds content in base64, in lines as mail has them.
fn push_encoded(out: &mut String, content: &[u8]) {
    const LINE_BYTES: usize = 57;
    out.push_str("Content-Transfer-Encoding: base64\r\n\r\n");
    out.reserve(content.len() / 3 * 4 + content.len() / LINE_BYTES * 2);
    for line in content.chunks(LINE_BYTES) {
        STANDARD.encode_string(line, out);
        out.push_str("\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // 2024-02-29 12:34:56, and the first second that counts.
        assert_eq!(format_date(133_536_836_960_000_000).as_deref(), Some("Thu, 29 Feb 2024 12:34:56 +0000"));
        assert_eq!(format_date(10_000_000).as_deref(), Some("Mon, 1 Jan 1601 00:00:01 +0000"));
        assert_eq!(format_date(133_801_452_000_000_000).as_deref(), Some("Tue, 31 Dec 2024 19:00:00 +0000"));
        assert!(format_date(i64::MAX).is_some() && format_date(0).is_none() && format_date(-1).is_none());
    }

    #[test]
    fn content_is_encoded_in_lines() {
        let encoded = |content: &[u8]| {
            let mut out = String::new();
            push_encoded(&mut out, content);
            out.split_once("\r\n\r\n").expect("it has a head").1.to_owned()
        };
        assert_eq!(encoded(b"A"), "QQ==\r\n");
        assert_eq!(encoded(b"A wren"), "QSB3cmVu\r\n");
        assert_eq!(encoded(b"A wren."), "QSB3cmVuLg==\r\n");
        assert_eq!(encoded(&[0xff; 58]), format!("{}\r\n/w==\r\n", "/".repeat(76)));
    }

    #[test]
    fn names_cannot_end_a_head() {
        assert_eq!(format_address("A \"B\"\r\nBcc: x", "a@b>\n, c@d"), "\"A 'B' Bcc: x\" <a@b' , c@d>");
        assert_eq!(format_address("", "a@b"), "a@b");
        assert_eq!(format_address("Ada, B", ""), "\"Ada, B\"");
        assert_eq!(without_mark("\u{1}\u{5}Re: A\r\nB"), "Re: A B");
    }
}
