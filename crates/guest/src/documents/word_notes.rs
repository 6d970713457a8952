//! Reads the footnotes, endnotes and comments of Word documents.

use std::collections::HashMap;
use std::io::Read;

use quick_xml::events::{BytesStart, Event};

use super::ExtractError;
use super::archive::Archive;
use super::form_field::sign;
use super::xml::{attribute, comment_line, event_text, events, push_within};

/// The maximum text of one note, and the maximum name of its author, in bytes.
const NOTE_MAX_BYTES: usize = 64 * 1024;
const AUTHOR_MAX_BYTES: usize = 200;
/// The parts with notes: the type of their relation, and the element of a reference to one of their notes.
const PARTS: [(&str, &str); 3] =
    [("footnotes", "footnoteReference"), ("endnotes", "endnoteReference"), ("comments", "commentReference")];

/// The notes of a document.
#[derive(Default)]
pub(super) struct Notes {
    /// The lines of the notes by the element and the id of their references.
    lines: HashMap<(&'static str, String), String>,
    /// True if a note was too long.
    pub(super) is_cut: bool,
}

impl Notes {
    /// Reads the notes; `part_of` returns the name of the part of a type of relation.
    pub(super) fn read(
        archive: &mut Archive<'_>,
        part_of: impl Fn(&str) -> String,
    ) -> Result<Self, ExtractError> {
        let mut notes = Self::default();
        for (kind, reference) in PARTS {
            if let Some(part) = archive.part(&part_of(kind))? {
                notes.read_part(reference, part)?;
            }
        }
        Ok(notes)
    }

    fn read_part(&mut self, reference: &'static str, part: impl Read) -> Result<(), ExtractError> {
        let (mut note, mut in_text) = (None::<Note>, false);
        events(part, |event| {
            match event {
                Event::Start(element) | Event::Empty(element) => match element.local_name().as_ref() {
                    "footnote" | "endnote" | "comment" => note = Note::begin(element),
                    "t" => in_text = matches!(event, Event::Start(_)),
                    _ => {
                        let sign = sign(element);
                        note.iter_mut().for_each(|note| note.text.extend(sign));
                    }
                },
                Event::End(element) => match element.local_name().as_ref() {
                    "t" => in_text = false,
                    "p" => note.iter_mut().for_each(|note| note.text.push(' ')),
                    "footnote" | "endnote" | "comment" => {
                        let written = note.take().filter(|note| !note.text.trim().is_empty());
                        if let Some(Note { id, author, text }) = written {
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

    /// Takes the line of the note that an element refers to. It stands at its first reference alone.
    pub(super) fn take(&mut self, reference: &BytesStart<'_>) -> Option<String> {
        let name = reference.local_name();
        let (_, element) = PARTS.iter().find(|(_, element)| *element == name.as_ref())?;
        self.lines.remove(&(*element, attribute(reference, "id")?))
    }
}

/// A note that is being read.
struct Note {
    id: String,
    author: String,
    text: String,
}

impl Note {
    /// Begins a note; `None` for the separators above notes, which have a type.
    fn begin(element: &BytesStart<'_>) -> Option<Self> {
        let id = attribute(element, "type").is_none().then(|| attribute(element, "id")).flatten()?;
        let mut author = attribute(element, "author").unwrap_or_default();
        author.truncate(author.floor_char_boundary(AUTHOR_MAX_BYTES));
        Some(Self { id, author, text: String::new() })
    }
}
