//! Reads the texts of iWork: paragraphs with the objects anchored in them.

use std::collections::BTreeMap;

use super::message::ProtoMessage;
use super::package::IworkPackage;
use super::{is_heading_name, kinds};
use crate::OUTPUT_MAX_BYTES;
use crate::xml::comment_line;

/// The depth of footnotes in footnotes.
const FOOTNOTES_DEPTH_MAX: u32 = 2;
/// The maximum length of the chain of styles that is followed for a name.
const PARENTS_MAX: usize = 8;
/// The characters in place of an object, and of a footnote's mark.
const OBJECT: char = '\u{fffc}';
const FOOTNOTE: char = '\u{e}';
/// The characters that end a paragraph: also breaks of sections, pages, columns and layouts.
const ENDS: [char; 7] = ['\n', '\r', '\u{4}', '\u{5}', '\u{c}', '\u{f}', '\u{2029}'];

#[derive(Default)]
pub(super) struct IworkParagraph {
    pub(super) text: String,
    pub(super) is_heading: bool,
    /// The objects in it.
    pub(super) objects: Vec<u64>,
    /// The lines of its comments.
    pub(super) comments: Vec<String>,
}

/// Returns the paragraphs of a text, the empty ones among them.
pub(super) fn read_paragraphs(package: &IworkPackage, id: u64) -> Vec<IworkParagraph> {
    read_text_storage(package, id, FOOTNOTES_DEPTH_MAX, &mut { OUTPUT_MAX_BYTES })
}

/// Reads a text with a limit on the bytes of footnotes and comments: several marks of a damaged text may share one.
fn read_text_storage(
    package: &IworkPackage,
    id: u64,
    footnotes_depth: u32,
    bytes_left: &mut usize,
) -> Vec<IworkParagraph> {
    let storage = package.object_message(Some(id));
    let styles = attribute_runs(storage, 5);
    let anchored = [attribute_runs(storage, 9), attribute_runs(storage, 16)];
    let deletions = attribute_runs(storage, 22);
    let highlights = attribute_runs(storage, 23);
    let at = |runs: &BTreeMap<u64, u64>, place: u64| runs.range(..=place).next_back().map(|(_, id)| *id);
    let (mut paragraphs, mut paragraph) = (Vec::new(), IworkParagraph::default());
    // Places count units of UTF-16.
    let (mut place, mut start) = (0, 0);
    for c in storage.bytes_fields(3).filter_map(|text| std::str::from_utf8(text).ok()).flat_map(str::chars) {
        if let Some(highlight) = highlights.get(&place).filter(|_| *bytes_left > 0) {
            let comments = comment_lines(package, *highlight);
            spend_bytes(bytes_left, comments.iter().map(String::len).sum());
            paragraph.comments.extend(comments);
        }
        let is_deleted = !deletions.is_empty() && at(&deletions, place).is_some_and(|change| change > 0);
        match c {
            _ if is_deleted => {}
            c if ENDS.contains(&c) => {
                paragraph.is_heading = at(&styles, start).is_some_and(|style| is_heading(package, style));
                paragraphs.push(std::mem::take(&mut paragraph));
                start = place + 1;
            }
            OBJECT | FOOTNOTE => {
                for object in anchored.iter().filter_map(|anchored| anchored.get(&place)) {
                    add_anchored_object(package, *object, (footnotes_depth, bytes_left), &mut paragraph);
                }
            }
            '\u{2028}' | '\u{b}' => paragraph.text.push(' '),
            c => paragraph.text.push(c),
        }
        place += c.len_utf16() as u64;
    }
    paragraph.is_heading = at(&styles, start).is_some_and(|style| is_heading(package, style));
    paragraphs.push(paragraph);
    paragraphs
}

/// Returns the attributes of the text by their beginnings: an object, or 0 for none.
fn attribute_runs(storage: ProtoMessage<'_>, field: u32) -> BTreeMap<u64, u64> {
    let entries = storage.message_field(field).message_fields(1);
    entries.map(|entry| (entry.number_field(1).unwrap_or(0), entry.reference_field(2).unwrap_or(0))).collect()
}

/// Adds the objects at a place of the text.
fn add_anchored_object(
    package: &IworkPackage,
    id: u64,
    (footnotes_depth, bytes_left): (u32, &mut usize),
    paragraph: &mut IworkParagraph,
) {
    let Some((kind, object)) = package.get(id) else { return };
    match kind {
        kinds::DRAWABLE_ATTACHMENT => paragraph.objects.extend(object.reference_field(1)),
        kinds::FOOTNOTE if footnotes_depth > 0 && *bytes_left > 0 => {
            let Some(footnote) = object.reference_field(2) else { return };
            let lines = read_text_storage(package, footnote, footnotes_depth - 1, bytes_left);
            let text = lines.into_iter().map(|line| line.text).collect::<Vec<_>>().join(" ");
            spend_bytes(bytes_left, text.len());
            if !text.trim().is_empty() {
                paragraph.text.push_str(&format!(" ({})", text.trim()));
            }
        }
        _ => {}
    }
}

/// Subtracts the read bytes from the remaining ones. An empty read subtracts one, so that reading ends.
fn spend_bytes(bytes_left: &mut usize, read: usize) {
    *bytes_left = bytes_left.saturating_sub(read.max(1));
}

/// Returns the lines of a comment and of the replies to it.
fn comment_lines(package: &IworkPackage, highlight: u64) -> Vec<String> {
    let first = package.object_message(package.object_message(Some(highlight)).reference_field(1));
    let replies = first.reference_fields(4).map(|reply| package.object_message(Some(reply)));
    let line = |comment: ProtoMessage<'_>| {
        let author = package.object_message(comment.reference_field(3)).text_field(1).unwrap_or_default();
        let text = comment.text_field(1).filter(|text| !text.trim().is_empty())?;
        Some(comment_line(author, text))
    };
    std::iter::once(first).chain(replies).filter_map(line).collect()
}

/// Returns true for the style of a title or heading, by its name or its parent style's.
fn is_heading(package: &IworkPackage, style: u64) -> bool {
    let mut style = package.object_message(Some(style)).message_field(1);
    for _ in 0..PARENTS_MAX {
        if let Some(name) =
            style.text_field(2).or_else(|| style.text_field(1)).filter(|name| !name.is_empty())
        {
            return is_heading_name(name);
        }
        style = package.object_message(style.reference_field(3)).message_field(1);
    }
    false
}
