//! Reads the XML parts of Office documents, as streams of events.

use std::io::{BufReader, Read};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::ExtractError;
use super::archive::unpack_error;

/// The maximum text length of a header, footer or diagram, in bytes.
const PARAGRAPHS_MAX_BYTES: usize = 1024 * 1024;

/// Reads the events of a part until `each` returns `false`.
pub(super) fn read_events(
    part: impl Read,
    mut each: impl FnMut(&Event<'_>) -> bool,
) -> Result<(), ExtractError> {
    let mut reader = Reader::from_reader(BufReader::new(part));
    reader.config_mut().check_end_names = false;
    reader.config_mut().allow_unmatched_ends = true;
    let mut buffer = Vec::new();
    loop {
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Eof) => return Ok(()),
            Ok(event) => {
                if !each(&event) {
                    return Ok(());
                }
            }
            Err(quick_xml::Error::Io(error)) => return Err(unpack_error("XML", &error)),
            Err(error) => return Err(ExtractError::broken_file("XML", error)),
        }
        buffer.clear();
    }
}

/// Returns nothing in place of a damaged part that the document can do without.
pub(super) fn unless_broken<T: Default>(read: Result<T, ExtractError>) -> Result<T, ExtractError> {
    match read {
        Err(ExtractError::Broken { .. }) => Ok(T::default()),
        read => read,
    }
}

/// Returns the value of an attribute by its local name.
pub(super) fn attribute_value(element: &BytesStart<'_>, name: &str) -> Option<String> {
    element
        .attributes()
        .with_checks(false)
        .flatten()
        .find(|attribute| attribute.key.local_name().as_ref() == name)
        .and_then(|attribute| {
            attribute.normalized_value(XmlVersion::Implicit1_0).ok().map(std::borrow::Cow::into_owned)
        })
}

/// Returns the text of an event, with entities resolved.
pub(super) fn event_text(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Text(text) => Some(text.xml10_content().into_owned()),
        Event::CData(text) => Some(text.xml10_content().into_owned()),
        Event::GeneralRef(reference) => {
            if let Ok(Some(c)) = reference.resolve_char_ref() {
                return Some(c.to_string());
            }
            let named = match &*reference.xml10_content() {
                "amp" => "&",
                "lt" => "<",
                "gt" => ">",
                "quot" => "\"",
                "apos" => "'",
                _ => return None,
            };
            Some(named.to_owned())
        }
        _ => None,
    }
}

/// Appends the part of a text that fits. Returns false if the rest was cut off.
pub(super) fn push_within(target: &mut String, text: &str, max_bytes: usize) -> bool {
    let room = max_bytes.saturating_sub(target.len());
    target.push_str(&text[..text.floor_char_boundary(text.len().min(room))]);
    text.len() <= room
}

/// Returns the line with the alternative text of a picture; `None` if it is the name of a file.
pub(super) fn alternative_line(element: &BytesStart<'_>) -> Option<String> {
    let text = attribute_value(element, "descr")?;
    alternative_text(&text).map(|text| format!("Picture: {text}"))
}

/// Returns the alternative text of a picture, trimmed; `None` if it is a word alone, such as the name of a file.
pub(super) fn alternative_text(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_text = text.contains(char::is_whitespace) && text.contains(char::is_alphabetic);
    let is_address = text.contains("://") || text.contains('\\') || text.starts_with("cid:");
    (is_text && !is_address).then_some(text)
}

/// Returns the line that shows a comment.
pub(super) fn comment_line(author: &str, text: &str) -> String {
    match author.trim() {
        "" => format!("Comment: {text}"),
        author => format!("Comment by {author}: {text}"),
    }
}

/// Returns the paragraphs of a part with text that are not empty, without their layout.
pub(super) fn read_paragraphs(part: impl Read) -> Result<Vec<String>, ExtractError> {
    let (mut lines, mut line, mut in_text, mut bytes) = (Vec::new(), String::new(), false, 0);
    read_events(part, |event| {
        match event {
            Event::Start(element) | Event::Empty(element) => match element.local_name().as_ref() {
                "t" => in_text = matches!(event, Event::Start(_)),
                "tab" | "br" => line.push(' '),
                _ => {}
            },
            Event::End(element) => match element.local_name().as_ref() {
                "t" => in_text = false,
                "p" if line.trim().is_empty() => line.clear(),
                "p" => lines.push(std::mem::take(&mut line)),
                _ => {}
            },
            _ => {
                if in_text && let Some(text) = event_text(event) {
                    bytes += text.len();
                    line.push_str(&text);
                }
            }
        }
        bytes <= PARAGRAPHS_MAX_BYTES
    })?;
    Ok(lines)
}
