//! Reads documents and presentations of Microsoft Office before 2007: the text, without its layout.

use encoding_rs::{UTF_16LE, WINDOWS_1252};

use super::mail::{open_compound_file, read_compound_stream};
use super::output::DocumentWriter;
use super::{DocumentFormat, ExtractError, Extracted, PAGES_MAX};

/// The maximum number of pieces of a document's text.
const PIECES_MAX: usize = 1_000_000;
/// The depth of records in a presentation.
const DEPTH_MAX: u32 = 24;

/// Reads a document of Word 97 to 2003: its text is in pieces, which a table names in their order.
pub(super) fn extract_doc(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    const ENCRYPTED: u16 = 0x0100;
    const SECOND_TABLE: u16 = 0x0200;
    let mut file = open_compound_file(bytes)?;
    let broken = || ExtractError::broken_file("DOC", "its header is damaged");
    let main = read_compound_stream(&mut file, "/WordDocument").ok_or_else(broken)?;
    let flags = u16_at(&main, 0x0a).ok_or_else(broken)?;
    if flags & ENCRYPTED != 0 {
        return Err(ExtractError::Encrypted("DOC"));
    }
    // Word 6 and 95 have another header.
    if u16_at(&main, 2).ok_or_else(broken)? < 0x00c1 {
        return Err(ExtractError::Unsupported {
            kind: "a document of Word before 97",
            remedy: "convert it to DOCX or PDF first",
        });
    }
    let name = if flags & SECOND_TABLE == 0 { "/0Table" } else { "/1Table" };
    let table = read_compound_stream(&mut file, name).ok_or_else(broken)?;
    let (at, length) = (u32_at(&main, 0x01a2), u32_at(&main, 0x01a6));
    let (at, length) = (at.ok_or_else(broken)?, length.ok_or_else(broken)?);
    let pieces = table.get(at..at.saturating_add(length)).and_then(parse_piece_table).ok_or_else(broken)?;
    let mut reader = DocText {
        writer: DocumentWriter::new(),
        line: String::new(),
        row: String::new(),
        fields: Vec::new(),
    };
    // Pieces of a sound document do not overlap.
    let mut left = main.len().saturating_mul(2);
    for DocPiece { at, characters, is_wide } in pieces {
        let length = if is_wide { characters.saturating_mul(2) } else { characters };
        let Some(bytes) = main.get(at..at.saturating_add(length).min(main.len())) else { continue };
        left = left
            .checked_sub(bytes.len())
            .ok_or_else(|| ExtractError::broken_file("DOC", "its pieces overlap"))?;
        let encoding = if is_wide { UTF_16LE } else { WINDOWS_1252 };
        encoding.decode_without_bom_handling(bytes).0.chars().for_each(|letter| reader.push_letter(letter));
        if reader.writer.is_full() {
            break;
        }
    }
    reader.end_line();
    reader.end_cell();
    reader.end_cell();
    Ok(reader.writer.finish_document(DocumentFormat::Doc))
}

struct DocPiece {
    /// The offset in the main stream.
    at: usize,
    characters: usize,
    /// True for two bytes per character.
    is_wide: bool,
}

/// Reads the table of pieces, which follows any number of lists of properties.
fn parse_piece_table(mut table: &[u8]) -> Option<Vec<DocPiece>> {
    const PROPERTIES: u8 = 1;
    const PIECES: u8 = 2;
    const NARROW: usize = 0x4000_0000;
    while *table.first()? == PROPERTIES {
        table = table.get(3 + usize::from(u16_at(table, 1)?)..)?;
    }
    if *table.first()? != PIECES {
        return None;
    }
    let length = u32_at(table, 1)?;
    let table = table.get(5..5_usize.checked_add(length)?)?;
    let count = (length.checked_sub(4)? / 12).min(PIECES_MAX);
    let piece = |number: usize| {
        let (from, to) = (u32_at(table, 4 * number)?, u32_at(table, 4 * number + 4)?);
        let place = u32_at(table, 4 * (length.checked_sub(4)? / 12 + 1) + 8 * number + 2)?;
        let is_wide = place & NARROW == 0;
        let at = if is_wide { place } else { (place & (NARROW - 1)) / 2 };
        Some(DocPiece { at, characters: to.checked_sub(from)?, is_wide })
    };
    (0..count).map(piece).collect()
}

struct DocText {
    writer: DocumentWriter,
    line: String,
    row: String,
    /// The fields that are open: true while their instruction is read, which is not text.
    fields: Vec<bool>,
}

impl DocText {
    fn push_letter(&mut self, letter: char) {
        match letter {
            '\u{13}' => self.fields.push(true),
            '\u{14}' => {
                if let Some(field) = self.fields.last_mut() {
                    *field = false;
                }
            }
            '\u{15}' => drop(self.fields.pop()),
            _ if self.fields.last() == Some(&true) => {}
            '\r' | '\u{c}' | '\u{e}' => self.end_line(),
            '\u{7}' => self.end_cell(),
            '\u{b}' => self.line.push(' '),
            '\u{1e}' => self.line.push('-'),
            '\t' => self.line.push('\t'),
            _ if letter.is_control() => {}
            _ => self.line.push(letter),
        }
    }

    /// Ends a cell. The mark of a row's end looks like an empty cell's.
    fn end_cell(&mut self) {
        if self.line.trim().is_empty() {
            self.line.clear();
            let row = std::mem::take(&mut self.row);
            self.writer.add_line(row.trim_end_matches('\t'));
        } else {
            self.row.push_str(self.line.trim());
            self.row.push('\t');
            self.line.clear();
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        // A paragraph inside a cell.
        if self.row.is_empty() {
            self.writer.add_line(&line);
        } else {
            self.line = line;
            self.line.push(' ');
        }
    }
}

/// Reads a presentation of PowerPoint 97 to 2003: a tree of records.
pub(super) fn extract_ppt(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let mut file = open_compound_file(bytes)?;
    if file.exists("/EncryptedSummary") {
        return Err(ExtractError::Encrypted("PPT"));
    }
    let content = read_compound_stream(&mut file, "/PowerPoint Document");
    let content = content.ok_or_else(|| ExtractError::broken_file("PPT", "it has no slides"))?;
    let mut found = PptText::default();
    collect_ppt_text(&content, 0, PptTextPlace::Elsewhere, &mut found);
    let mut writer = DocumentWriter::new();
    let slides = found.outlines.len().max(found.slides.len());
    // A file that was saved incrementally also contains old versions of slides; then only the outline tells which are
    // current.
    let own = if found.slides.len() == found.outlines.len() || found.outlines.is_empty() {
        found.slides
    } else {
        Vec::new()
    };
    for (index, page) in (0..slides).zip(1..=PAGES_MAX) {
        writer.begin_slide(page);
        let texts = [found.outlines.get(index), own.get(index)].into_iter().flatten().flatten();
        for (number, text) in texts.enumerate() {
            if number == 0 {
                writer.add_heading(&text.replace(['\r', '\u{b}'], " "));
            } else {
                writer.add_lines(&text.replace(['\r', '\u{b}'], "\n"));
            }
        }
    }
    Ok(writer.finish_document(DocumentFormat::Presentation))
}

/// The texts of slides: from the outline, and from boxes on the slides themselves.
#[derive(Default)]
struct PptText {
    outlines: Vec<Vec<String>>,
    slides: Vec<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PptTextPlace {
    Elsewhere,
    Outline,
    Slide,
}

fn collect_ppt_text(mut records: &[u8], depth: u32, place: PptTextPlace, found: &mut PptText) {
    const SLIDE: u16 = 1006;
    const LISTED_SLIDE: u16 = 1011;
    const WIDE_TEXT: u16 = 4000;
    const NARROW_TEXT: u16 = 4008;
    const LIST: u16 = 4080;
    const CONTAINER: u16 = 0xf;
    while let (Some(version), Some(kind), Some(length)) =
        (u16_at(records, 0), u16_at(records, 2), u32_at(records, 4))
    {
        let body = records.get(8..).unwrap_or_default();
        let body = &body[..length.min(body.len())];
        let has_room = found.outlines.len() <= PAGES_MAX as usize;
        let mut texts = match place {
            PptTextPlace::Outline => found.outlines.last_mut(),
            PptTextPlace::Slide => found.slides.last_mut(),
            PptTextPlace::Elsewhere => None,
        };
        match kind {
            LISTED_SLIDE if place == PptTextPlace::Outline && has_room => {
                found.outlines.push(Vec::new());
            }
            WIDE_TEXT => {
                let text = UTF_16LE.decode_without_bom_handling(body).0.into_owned();
                texts.iter_mut().for_each(|texts| texts.push(text.clone()));
            }
            NARROW_TEXT => {
                let text: String = body.iter().map(|byte| char::from(*byte)).collect();
                texts.iter_mut().for_each(|texts| texts.push(text.clone()));
            }
            _ if version & CONTAINER == CONTAINER && depth < DEPTH_MAX => {
                let inner = match kind {
                    SLIDE if found.slides.len() <= PAGES_MAX as usize => {
                        found.slides.push(Vec::new());
                        PptTextPlace::Slide
                    }
                    // Others list masters and notes.
                    LIST if version >> 4 == 0 => PptTextPlace::Outline,
                    LIST => PptTextPlace::Elsewhere,
                    _ => place,
                };
                collect_ppt_text(body, depth + 1, inner, found);
            }
            _ => {}
        }
        records = records.get(8 + body.len()..).unwrap_or_default();
    }
}

/// Returns two bytes at an offset as a number.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Returns four bytes at an offset as a number.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?)).ok()
}
