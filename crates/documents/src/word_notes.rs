//! Reads the footnotes, endnotes and comments of Word documents.

use std::collections::HashMap;
use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::ExtractError;
use super::archive::ZipReader;
use super::form_field::element_sign;
use super::xml::{attribute_value, comment_line, event_text, push_within, read_events};

/// The maximum text of one note, and the maximum name of its author, in bytes.
const NOTE_MAX_BYTES: usize = 64 * 1024;
const AUTHOR_MAX_BYTES: usize = 200;
/// The parts with notes: the type of their relation, and the element of a reference to one of their notes.
const PARTS: [(&str, &str); 3] =
    [("footnotes", "footnoteReference"), ("endnotes", "endnoteReference"), ("comments", "commentReference")];

/// The notes of a document.
#[derive(Default)]
pub(super) struct WordNotes {
    /// The lines of the notes by the element and the id of their references.
    lines: HashMap<(&'static str, String), String>,
    /// True if a note was too long.
    pub(super) is_cut: bool,
}

impl WordNotes {
    /// Reads the notes; `part_of` returns the name of the part of a type of relation.
    pub(super) fn from_archive(
        archive: &mut ZipReader<'_>,
        part_of: impl Fn(&str) -> String,
    ) -> Result<Self, ExtractError> {
        let mut notes = Self::default();
        for (kind, reference) in PARTS {
            if let Some(part) = archive.open_part(&part_of(kind))? {
                notes.read_part(reference, part)?;
            }
        }
        Ok(notes)
    }

    fn read_part(&mut self, reference: &'static str, part: impl Read) -> Result<(), ExtractError> {
        let (mut note, mut in_text) = (None::<WordNote>, false);
        read_events(part, |event| {
            match event {
                Event::Start(element) | Event::Empty(element) => match element.local_name().as_ref() {
                    "footnote" | "endnote" | "comment" => note = WordNote::from_element(element),
                    "t" => in_text = matches!(event, Event::Start(_)),
                    _ => {
                        let sign = element_sign(element);
                        note.iter_mut().for_each(|note| note.text.extend(sign));
                    }
                },
                Event::End(element) => match element.local_name().as_ref() {
                    "t" => in_text = false,
                    "p" => note.iter_mut().for_each(|note| note.text.push(' ')),
                    "footnote" | "endnote" | "comment" => {
                        let written = note.take().filter(|note| !note.text.trim().is_empty());
                        if let Some(WordNote { id, author, text }) = written {
                            let is_comment = reference == "commentReference";
                            let line = if is_comment { comment_line(&author, &text) } else { text };
                            self.lines.insert((reference, id), line);
                        }
                    }
                    _ => {}
                },
                _ if in_text => {
                    if let (Some(note), Some(text)) = (&mut note, event_text(event)) {
                        self.is_cut |= !push_within(&mut note.text, &text, NOTE_MAX_BYTES);
                    }
                }
                _ => {}
            }
            true
        })
    }

    /// Takes the line of the note that an element refers to. The note is shown only at its first reference.
    pub(super) fn take_note(&mut self, reference: &BytesStart<'_>) -> Option<String> {
        let name = reference.local_name();
        let (_, element) = PARTS.iter().find(|(_, element)| *element == name.as_ref())?;
        self.lines.remove(&(*element, attribute_value(reference, "id")?))
    }
}

/// A note that is being read.
struct WordNote {
    id: String,
    author: String,
    text: String,
}

impl WordNote {
    /// Begins a note; `None` for the separators above notes, which have a type.
    fn from_element(element: &BytesStart<'_>) -> Option<Self> {
        let id =
            attribute_value(element, "type").is_none().then(|| attribute_value(element, "id")).flatten()?;
        let mut author = attribute_value(element, "author").unwrap_or_default();
        author.truncate(author.floor_char_boundary(AUTHOR_MAX_BYTES));
        Some(Self { id, author, text: String::new() })
    }
}
