//! Reads messages of the Czech data boxes (ISDS), which are signed as `.zfo`: the envelope, the events of the delivery, and the
//! attachments.

use mail_parser::decoders::base64::base64_decode;
use quick_xml::events::Event;

use super::mail::MailWriter;
use super::xml::{attribute_value, event_text, read_events};
use super::{DocumentFormat, ExtractError, Extracted, Nesting};

/// The maximum number of bytes of a field of the envelope, and the maximum number of events.
const FIELD_MAX_BYTES: usize = 4096;
const EVENTS_MAX: usize = 100;
/// The maximum number of attachments of a message.
const FILES_MAX: usize = 10_000;

/// The fields of an envelope that are lines of the text, with their labels in the language of the messages.
const FIELDS: [(&str, &str); 8] = [
    ("dmToHands", "K rukám"),
    ("dmSenderRefNumber", "Číslo jednací odesílatele"),
    ("dmSenderIdent", "Spisová značka odesílatele"),
    ("dmRecipientRefNumber", "Číslo jednací příjemce"),
    ("dmRecipientIdent", "Spisová značka příjemce"),
    ("dmID", "ID zprávy"),
    ("dmDeliveryTime", "Dodáno"),
    ("dmAcceptanceTime", "Doručeno"),
];

pub(super) fn extract_data_message(xml: &[u8], nesting: Nesting<'_>) -> Result<Extracted, ExtractError> {
    let read = DataMessage::from_xml(xml)?;
    let mut messages = MailWriter::of_data_box(nesting);
    messages.writer.add_heading(&format!("Věc: {}", read.field_value("dmAnnotation")));
    for (label, name, address, identifier) in [
        ("Odesílatel", "dmSender", "dmSenderAddress", "dbIDSender"),
        ("Adresát", "dmRecipient", "dmRecipientAddress", "dbIDRecipient"),
    ] {
        let of = [name, address].map(|field| read.field_value(field));
        let of: Vec<&str> = of.into_iter().filter(|part| !part.is_empty()).collect();
        let identifier = read.field_value(identifier);
        messages.writer.add_line(&format!("{label}: {} (datová schránka {identifier})", of.join(", ")));
    }
    for (field, label) in FIELDS {
        let value = read.field_value(field);
        if !value.is_empty() {
            messages.writer.add_line(&format!("{label}: {value}"));
        }
    }
    for (time, what) in &read.events {
        messages.writer.add_line(&format!("{time}: {what}"));
    }
    for (number, file) in (1..).zip(&read.files) {
        if messages.begin_attachment(number) {
            messages.write_attachment(&file.name, &file.content, nesting.depth);
            messages.end_attachment();
        }
    }
    Ok(messages.writer.finish_document(DocumentFormat::Message))
}

/// Returns the content of an attachment, counted from 0.
pub(super) fn find_data_box_attachment(xml: &[u8], number: usize) -> Option<Vec<u8>> {
    DataMessage::from_xml(xml).ok()?.files.into_iter().nth(number).map(|file| file.content)
}

#[derive(Default)]
struct DataMessage {
    fields: Vec<(String, String)>,
    /// The times and descriptions of the events.
    events: Vec<(String, String)>,
    files: Vec<DataBoxAttachment>,
}

#[derive(Default)]
struct DataBoxAttachment {
    name: String,
    content: Vec<u8>,
}

impl DataMessage {
    fn from_xml(xml: &[u8]) -> Result<Self, ExtractError> {
        let mut message = Self::default();
        let mut text = String::new();
        let mut event = (String::new(), String::new());
        // The elements inside an attachment that is XML itself.
        let mut inner: Option<String> = None;
        read_events(xml, |part| {
            if let Some(inner_xml) = &mut inner {
                match part {
                    Event::End(end) if end.local_name().as_ref() == "dmXMLContent" => {
                        message.give_content(inner.take().map(String::into_bytes));
                    }
                    part => push_event(inner_xml, part),
                }
                return true;
            }
            match part {
                Event::Start(start) | Event::Empty(start) => {
                    text.clear();
                    match start.local_name().as_ref() {
                        "dmFile" => {
                            let name = attribute_value(start, "dmFileDescr").unwrap_or_default();
                            message.files.push(DataBoxAttachment { name, content: Vec::new() });
                        }
                        "dmXMLContent" if matches!(part, Event::Start(_)) => inner = Some(String::new()),
                        _ => {}
                    }
                }
                Event::End(end) => {
                    let name = end.local_name();
                    let value = std::mem::take(&mut text);
                    match name.as_ref() {
                        "dmEncodedContent" => message.give_content(base64_decode(value.as_bytes())),
                        "dmEventTime" => event.0 = truncate_field(value),
                        "dmEventDescr" => event.1 = truncate_field(value),
                        "dmEvent" if message.events.len() < EVENTS_MAX => {
                            message.events.push(std::mem::take(&mut event));
                        }
                        name => message.set_field(name, value),
                    }
                }
                part => text.push_str(&event_text(part).unwrap_or_default()),
            }
            message.files.len() <= FILES_MAX
        })?;
        Ok(message)
    }

    fn set_field(&mut self, name: &str, value: String) {
        let is_wanted = FIELDS.iter().any(|(field, _)| *field == name)
            || ["dmAnnotation", "dmSender", "dmSenderAddress", "dbIDSender"].contains(&name)
            || ["dmRecipient", "dmRecipientAddress", "dbIDRecipient"].contains(&name);
        if is_wanted && !self.fields.iter().any(|(field, _)| field == name) {
            self.fields.push((name.to_owned(), truncate_field(value)));
        }
    }

    fn field_value(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.trim())
    }

    /// Gives the last file its content.
    fn give_content(&mut self, content: Option<Vec<u8>>) {
        if let Some(file) = self.files.last_mut() {
            file.content = content.unwrap_or_default();
        }
    }
}

fn truncate_field(mut value: String) -> String {
    value.truncate(value.floor_char_boundary(FIELD_MAX_BYTES));
    value
}

/// Writes an event as the XML that it was read from.
fn push_event(xml: &mut String, event: &Event<'_>) {
    let (before, content, after): (_, &str, _) = match event {
        Event::Start(start) => ("<", start, ">"),
        Event::Empty(start) => ("<", start, "/>"),
        Event::End(end) => ("</", end, ">"),
        Event::Text(text) => ("", text, ""),
        Event::CData(text) => ("<![CDATA[", text, "]]>"),
        Event::GeneralRef(reference) => ("&", reference, ";"),
        _ => return,
    };
    xml.extend([before, content, after]);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{embedded_image, extract_bytes, without_signatures};
    use domain::text_format::TextFormat;

    use super::*;

    const ZFO: &[u8] = include_bytes!("../tests/fixtures/data_message.zfo");
    const IMAGE: &[u8] = include_bytes!("../tests/fixtures/code_word.png");

    #[test]
    fn extract_data_message_envelope_and_attachments() {
        let read = extract_bytes(Path::new("a.zfo"), ZFO).expect("a message");
        assert_eq!((read.format, read.is_whole()), (DocumentFormat::Message, true), "{read:?}");
        let text: Vec<&str> = read.segments.iter().flat_map(|segment| segment.text.lines()).collect();
        let expected = [
            "Věc: Výzva & poučení",
            "Odesílatel: Obec Dolní Lhota, Náves 1, 12345 Dolní Lhota, CZ (datová schránka abc1def)",
            "Adresát: Jan Novák (datová schránka xyz9uvw)",
            "Číslo jednací odesílatele: DL-42/2026",
            "ID zprávy: 1234567890",
            "Dodáno: 2026-03-02T08:15:00.000+01:00",
            "Doručeno: 2026-03-04T17:40:00.000+01:00",
            "Attachment: výzva.txt",
        ];
        assert_eq!(text[..8], expected);
        assert!(text.iter().any(|line| line.contains("do 15 dnů")), "{text:?}");
        assert!(text.contains(&"<form year=\"2026\"><roof>slate &lt; tile</roof></form>"), "{text:?}");
        let [image] = &read.images[..] else { panic!("one image: {:?}", read.images) };
        assert_eq!(image.heading.as_deref(), Some("Attachment: foto.png"));
        let content = without_signatures(ZFO.to_vec());
        assert_eq!(embedded_image(&content, image).expect("it is found again").0, IMAGE);
    }

    #[test]
    fn damaged_messages_do_no_harm() {
        let content = without_signatures(ZFO.to_vec());
        let other = content.windows(7).position(|part| part == b"dmFiles").expect("a list of files");
        let is_message = |content: &[u8]| {
            TextFormat::from_name_and_start("a", &String::from_utf8_lossy(content)) == TextFormat::DataBox
        };
        let schema = b"<xs:schema targetNamespace=\"http://isds.czechpoint.cz/v20\"/>";
        assert!(
            is_message(&content[..1024]) && !is_message(schema) && !is_message(b"MessageDownloadResponse")
        );
        let page = b"<html><pre>&lt;q:MessageDownloadResponse xmlns:q=http://isds.czechpoint.cz/v20</pre>";
        assert!(!is_message(page), "it only mentions a message");
        for end in (other..content.len()).step_by(31) {
            let _ = extract_bytes(Path::new("a.xml"), &content[..end]);
        }
        assert_eq!(find_data_box_attachment(&content, 3), None);
        assert_eq!(find_data_box_attachment(b"no message", 0), None);
    }
}
