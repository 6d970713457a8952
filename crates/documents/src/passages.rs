//! Splits a document into pieces that can be ranked, quoted and cited.
//!
//! A piece is an exact excerpt of one segment, with its page and lines. Pieces begin at sections, items or
//! paragraphs; a sentence is split only if it alone exceeds the bound.

use std::ops::Range;
use std::rc::Rc;

use domain::citation::PageKind;
use serde::{Deserialize, Serialize};

use super::cell_value::split_cells;
use super::clause::{self, Start};
use super::columns::{self, Columns};
use super::rows::{self, Rows};
use super::{DocumentFormat, DocumentSegment, Extracted, InnerFile};

/// From this length on, in bytes, a piece ends at the next paragraph.
const PARAGRAPHS_MIN_BYTES: usize = 300;
/// From this length on, in bytes, a piece ends at the next item or row.
const ITEMS_MIN_BYTES: usize = 600;
/// The smallest accepted bound, in bytes.
const BOUND_MIN_BYTES: usize = 100;
/// The longest heading, in bytes.
const HEADING_MAX_BYTES: usize = 200;
/// Separates the name of a file in an archive from a heading in it.
const BELOW: &str = " › ";

/// A piece of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentPassage {
    /// The page (or sheet), from 1, where the format has pages.
    pub page: Option<u32>,
    /// The first and last line, from 1 and inclusive, where the format has lines.
    pub lines: Option<(u32, u32)>,
    /// The heading that applies where the piece begins; the piece's heading if it begins with one.
    pub heading: Option<String>,
    /// The titles and the rows of headings above the rows of a table that the text is of.
    pub columns: Option<String>,
    /// The exact text as extracted. Never empty.
    pub text: String,
}

impl DocumentPassage {
    /// Returns the length of the text with the headings of its columns, in bytes.
    #[must_use]
    pub fn shown_bytes(&self) -> usize {
        self.columns.as_ref().map_or(0, |columns| columns.len() + 1) + self.text.len()
    }
}

/// Splits a document into pieces in reading order, each of at most `max_bytes` bytes (at least 100).
#[must_use]
pub fn split_passages(document: &Extracted, max_bytes: usize) -> Vec<DocumentPassage> {
    let mut cutter = PassageCutter {
        format: document.format,
        inner: None,
        max_bytes: max_bytes.max(BOUND_MIN_BYTES),
        heading: None,
        pieces: Vec::new(),
    };
    for segment in &document.segments {
        cutter.enter_file(document.format, segment);
        match &segment.columns {
            Some(columns) => cutter.cut_table(segment, columns),
            None => cutter.cut_paragraphs(segment),
        }
    }
    cutter.pieces
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitKind {
    Section,
    Item,
    Paragraph,
    Row,
    /// The rest of a unit that exceeded the bound.
    Rest,
}

/// A range that is not split: a paragraph, an item, a row, a heading.
#[derive(Debug)]
struct TextUnit {
    range: Range<usize>,
    kind: UnitKind,
    heading: Option<String>,
    /// True if it is a heading and nothing more.
    bare: bool,
}

/// Counts line breaks once, as the pieces advance.
#[derive(Debug, Default)]
struct Counted {
    at: usize,
    breaks: u32,
}

impl Counted {
    fn up_to(&mut self, text: &str, at: usize) -> u32 {
        let breaks = text.as_bytes()[self.at..at].iter().filter(|byte| **byte == b'\n').count();
        self.breaks = self.breaks.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
        self.at = at;
        self.breaks
    }
}

struct PassageCutter {
    format: DocumentFormat,
    /// The file in an archive that the pieces are of.
    inner: Option<Rc<InnerFile>>,
    max_bytes: usize,
    heading: Option<String>,
    pieces: Vec<DocumentPassage>,
}

impl PassageCutter {
    /// Begins a file inside the document, if the segment belongs to another one than the segments before.
    fn enter_file(&mut self, format: DocumentFormat, segment: &DocumentSegment) {
        let name = |inner: &Option<Rc<InnerFile>>| inner.as_ref().map(|inner| inner.name.clone());
        if name(&segment.inner) != name(&self.inner) {
            self.heading = None;
        }
        self.inner.clone_from(&segment.inner);
        self.format = segment.inner.as_ref().map_or(format, |inner| inner.format);
    }

    /// Cuts paragraphs, and the tables between them below the headings of their columns.
    fn cut_paragraphs(&mut self, segment: &DocumentSegment) {
        let mut parts = if self.format.has_tables() { columns::split_tables(segment) } else { Vec::new() };
        if parts.is_empty() {
            return self.cut_segment(segment);
        }
        // Further parts are below the preceding headings.
        parts.iter_mut().skip(1).for_each(|part| part.heading = None);
        for part in &parts {
            match &part.columns {
                Some(columns) => self.cut_table(part, columns),
                None => self.cut_segment(part),
            }
        }
    }

    /// Cuts rows below the headings of their columns. The headings are not passages themselves.
    fn cut_table(&mut self, segment: &DocumentSegment, columns: &Columns) {
        // Headings that are too long to be carried whole are passages, too.
        let end = if columns.has_shortened(&segment.text) { columns.own.end } else { columns.own.start };
        if end > 0 {
            let above: Vec<&str> = segment.text.split('\n').take(end).collect();
            let lines =
                segment.lines.map(|(first, _)| (first, first.saturating_add(line_number(above.len() - 1))));
            self.cut_segment(&DocumentSegment {
                lines,
                text: above.join("\n"),
                columns: None,
                ..segment.clone()
            });
        }
        if segment.heading.is_some() {
            self.heading.clone_from(&segment.heading);
        }
        let count = segment.text.split('\n').count();
        for Rows { rows: (first, last), columns, text } in
            rows::cut_table_rows(&segment.text, columns, columns.own.end, self.max_bytes)
        {
            let lines = segment.lines.map(|(from, to)| match to.saturating_sub(from) {
                // The values of one row have several lines.
                more if count == 1 && more > 0 => (from, to),
                _ => (from.saturating_add(line_number(first)), from.saturating_add(line_number(last))),
            });
            let heading = self.heading_of(self.heading.clone());
            self.pieces.push(DocumentPassage {
                page: segment.page,
                lines,
                heading,
                columns: Some(columns),
                text,
            });
        }
    }

    /// Returns a heading with the file in an archive that it is of.
    fn heading_of(&self, heading: Option<String>) -> Option<String> {
        match &self.inner {
            Some(file) => Some(heading_in(file, heading.as_deref())),
            None => heading,
        }
    }

    fn cut_segment(&mut self, segment: &DocumentSegment) {
        if segment.heading.is_some() {
            self.heading.clone_from(&segment.heading);
        }
        let units = self.split_units(segment);
        let mut counted = Counted::default();
        let mut open: Option<Range<usize>> = None;
        let mut open_heading = self.heading.clone();
        let mut bare = false;
        let mut titled = false;
        for unit in units {
            if let Some(range) = &mut open {
                let together = unit.range.end - range.start;
                let enough = match unit.kind {
                    UnitKind::Section => !bare,
                    UnitKind::Paragraph | UnitKind::Rest => !bare && range.len() >= PARAGRAPHS_MIN_BYTES,
                    UnitKind::Item | UnitKind::Row => !bare && range.len() >= ITEMS_MIN_BYTES,
                };
                let announces = announces_more(&segment.text[range.clone()], unit.kind);
                if together > self.max_bytes || enough && !announces {
                    self.push_passage(segment, &mut counted, range.clone(), open_heading.take());
                    open = None;
                }
            }
            // A title on the line after a bare `§ 12` belongs to the heading; after others it is a paragraph.
            let is_title = unit.kind == UnitKind::Paragraph && unit.bare;
            let continues = is_title && titled && self.heading.as_deref().is_some_and(is_bare_mark);
            let unit_bare = unit.bare && (!is_title || continues);
            titled = unit.kind == UnitKind::Section && unit.bare;
            if let Some(heading) = unit.heading.filter(|_| !is_title || continues) {
                self.heading = Some(match (&self.heading, continues) {
                    (Some(above), true) => truncate_heading(&format!("{above} {heading}")),
                    _ => truncate_heading(&heading),
                });
            }
            match &mut open {
                Some(range) => {
                    range.end = unit.range.end;
                    bare &= unit_bare;
                    if bare {
                        open_heading.clone_from(&self.heading);
                    }
                }
                None => {
                    bare = unit_bare;
                    open = Some(unit.range);
                    open_heading.clone_from(&self.heading);
                }
            }
        }
        if let Some(range) = open {
            self.push_passage(segment, &mut counted, range, open_heading);
        }
    }

    fn push_passage(
        &mut self,
        segment: &DocumentSegment,
        counted: &mut Counted,
        range: Range<usize>,
        heading: Option<String>,
    ) {
        let lines = segment.lines.map(|(first, _)| {
            let begins = counted.up_to(&segment.text, range.start);
            (first.saturating_add(begins), first.saturating_add(counted.up_to(&segment.text, range.end)))
        });
        let text = segment.text[range].to_owned();
        let heading = self.heading_of(heading);
        self.pieces.push(DocumentPassage { page: segment.page, lines, heading, columns: None, text });
    }

    /// Splits a segment into units. Blank lines belong to no unit.
    fn split_units(&self, segment: &DocumentSegment) -> Vec<TextUnit> {
        let mut units: Vec<TextUnit> = Vec::new();
        let mut previous = "";
        let mut after_blank = true;
        let mut at = 0;
        for line in segment.text.split('\n') {
            let range = at..at + line.len();
            at = range.end + 1;
            let text = line.trim();
            if text.is_empty() {
                after_blank = true;
            } else {
                let after_heading = units.last().and_then(|unit| unit.bare.then_some(unit.kind));
                match self.classify_line(text, previous, after_blank, after_heading, segment) {
                    Some((kind, heading, bare)) => {
                        units.push(TextUnit { range: trim_line_range(&range, line), kind, heading, bare })
                    }
                    None => {
                        if let Some(unit) = units.last_mut() {
                            unit.range.end = range.start + line.trim_end().len();
                        }
                    }
                }
                previous = text;
                after_blank = false;
            }
        }
        let mut bounded = Vec::with_capacity(units.len());
        for unit in units {
            self.split_long_unit(&segment.text, unit, &mut bounded);
        }
        bounded
    }

    /// Classifies a line: its kind, the heading that it sets, and whether it is only a heading. Returns `None` if
    /// it continues the previous unit. `previous` is the last non-blank line, `after_heading` the kind of the
    /// previous unit if that is a heading.
    fn classify_line(
        &self,
        text: &str,
        previous: &str,
        after_blank: bool,
        after_heading: Option<UnitKind>,
        segment: &DocumentSegment,
    ) -> Option<(UnitKind, Option<String>, bool)> {
        if matches!(self.format, DocumentFormat::Workbook | DocumentFormat::Table) {
            return Some((UnitKind::Row, None, false));
        }
        if self.format == DocumentFormat::Markdown && text.starts_with('#') {
            let title = text.trim_start_matches('#').trim();
            return Some((UnitKind::Section, Some(title.to_owned()), true));
        }
        let row = text.contains('\t') || text.starts_with('|');
        let wrapped = self.format.is_wrapped();
        let after_end = after_blank
            || previous.ends_with(['.', ':', ';', '!', '?', ',', ')', '"', '“'])
            || clause::is_title(previous) && previous.len() < TITLE_BEFORE_MAX_BYTES;
        if !wrapped || after_end {
            match clause::detect_clause_start(text) {
                Some(Start::Section(heading)) if !row => {
                    return Some((UnitKind::Section, Some(heading.to_owned()), heading == text));
                }
                Some(_) if !row => return Some((UnitKind::Item, None, false)),
                _ => {}
            }
        }
        if row {
            return Some((UnitKind::Row, None, false));
        }
        if segment.heading.as_deref() == Some(text) {
            return Some((UnitKind::Section, Some(text.to_owned()), true));
        }
        let begins = !wrapped || after_blank || after_heading.is_some();
        let title = after_heading == Some(UnitKind::Section)
            && clause::is_title(text)
            && text.len() < TITLE_BEFORE_MAX_BYTES;
        begins.then(|| (UnitKind::Paragraph, title.then(|| text.to_owned()), title))
    }

    /// Splits a unit that exceeds the bound at ends of sentences or lines, a row between its cells, otherwise at spaces.
    fn split_long_unit(&self, text: &str, unit: TextUnit, into: &mut Vec<TextUnit>) {
        if unit.range.len() <= self.max_bytes {
            into.push(unit);
            return;
        }
        let mut kind = unit.kind;
        let mut heading = unit.heading;
        let mut push = |range: Range<usize>| {
            into.push(TextUnit { range, kind, heading: heading.take(), bare: false });
            kind = UnitKind::Rest;
        };
        let mut open: Option<Range<usize>> = None;
        let shown = &text[unit.range.clone()];
        let parts = match unit.kind {
            UnitKind::Row if shown.contains('\t') => cell_ranges(shown),
            _ => text_analysis::sentence::split_sentences(shown),
        };
        for part in parts {
            let part = unit.range.start + part.start..unit.range.start + part.end;
            for part in hard_cuts(text, part, self.max_bytes) {
                match &mut open {
                    Some(range) if part.end - range.start <= self.max_bytes => range.end = part.end,
                    _ => {
                        if let Some(range) = open.replace(part) {
                            push(range);
                        }
                    }
                }
            }
        }
        if let Some(range) = open {
            push(range);
        }
    }
}

/// Returns true if a text ends with an announcement: `as follows:`, `What is it for?`
fn announces_more(text: &str, next: UnitKind) -> bool {
    let text = text.trim_end();
    text.ends_with([':', '?']) || next == UnitKind::Paragraph && text.ends_with(',')
}

/// Precedes the name of a file that is attached to a document.
pub(super) const ATTACHMENT: &str = "Attachment: ";

/// The maximum length of a title above the first line of a section, in bytes.
const TITLE_BEFORE_MAX_BYTES: usize = 80;

/// Returns the name of the page that a passage is on, by the passage's heading: of a sheet, or of a file in an archive or attached to a
/// PDF, with the page in it.
pub fn page_name(path: &str, page: Option<u32>, heading: &str) -> Option<String> {
    page?;
    let (name, _) = match PageKind::from_path(path) {
        // Names of sheets contain no colon.
        PageKind::Sheet => heading.split_once(": ").unwrap_or((heading, "")),
        PageKind::File => heading.split_once(BELOW).unwrap_or((heading, "")),
        PageKind::Page => {
            let attached = heading.strip_prefix(ATTACHMENT)?;
            attached.split_once(BELOW).unwrap_or((attached, ""))
        }
        PageKind::Slide | PageKind::Section => return None,
    };
    let name = truncate_heading(name.trim());
    (!name.is_empty() && !name.contains(char::is_control)).then_some(name)
}

/// Returns rows below the headings of their columns, without columns that are empty in all of them.
pub fn shown_rows(columns: &str, text: &str) -> String {
    if columns.is_empty() {
        return text.to_owned();
    }
    let is_row = |line: &&str| line.contains('\t');
    let rows: Vec<Vec<&str>> = columns.lines().filter(is_row).chain(text.lines()).map(split_cells).collect();
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let is_used =
        |column: &usize| rows.iter().any(|row| row.get(*column).is_some_and(|cell| !cell.is_empty()));
    let used: Vec<usize> = (0..width).filter(is_used).collect();
    let shown = |row: &Vec<&str>| {
        let cell = |column: &usize| row.get(*column).copied().unwrap_or_default();
        used.iter().map(cell).collect::<Vec<_>>().join("\t").trim_end().to_owned()
    };
    let titles = columns.lines().filter(|line| !is_row(line)).map(str::to_owned);
    titles.chain(rows.iter().map(shown)).collect::<Vec<_>>().join("\n")
}

/// Names a file in an archive, with the page and the heading in it.
pub(super) fn heading_in(file: &InnerFile, heading: Option<&str>) -> String {
    let page = file.page.as_ref().map(|page| format!(", {page}")).unwrap_or_default();
    let is_name = |heading: &str| {
        file.name.strip_suffix(heading).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    let heading = heading.filter(|heading| !is_name(heading));
    let heading = heading.map(|heading| format!("{BELOW}{heading}")).unwrap_or_default();
    truncate_heading(&format!("{}{page}{heading}", file.name))
}

/// Returns true if a heading is only a mark: `§ 12`, `ČÁST PRVNÍ`.
fn is_bare_mark(heading: &str) -> bool {
    heading.split_whitespace().count() <= 2
}

fn line_number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

fn truncate_heading(heading: &str) -> String {
    heading[..heading.floor_char_boundary(heading.len().min(HEADING_MAX_BYTES))].to_owned()
}

/// Returns the ranges of the cells of a row that are not empty.
fn cell_ranges(row: &str) -> Vec<Range<usize>> {
    let mut at = 0;
    let range = |cell: &str| {
        let range = at..at + cell.len();
        at = range.end + 1;
        range
    };
    row.split('\t').map(range).filter(|range| !row[range.clone()].trim().is_empty()).collect()
}

/// Returns the range of a line without trailing spaces; leading ones are retained because they matter in code.
fn trim_line_range(range: &Range<usize>, line: &str) -> Range<usize> {
    range.start..range.start + line.trim_end().len()
}

/// Splits a range into parts within the bound, at line breaks, otherwise at spaces, otherwise between characters.
pub(super) fn hard_cuts(text: &str, mut range: Range<usize>, max_bytes: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    while range.len() > max_bytes {
        let limit = text.floor_char_boundary(range.start + max_bytes);
        let window = &text[range.start..limit];
        let half = window.len() / 2;
        let cut =
            window.rfind('\n').filter(|at| *at > half).or_else(|| window.rfind(' ').filter(|at| *at > half));
        let end = cut.map_or(limit, |at| range.start + at);
        parts.push(range.start..end);
        let blanks = text[end..range.end].len() - text[end..range.end].trim_start().len();
        range.start = end + blanks;
    }
    if !range.is_empty() {
        parts.push(range);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::extract_bytes;
    use super::*;
    use std::path::Path;

    fn split_text(name: &str, text: &str, max_bytes: usize) -> Vec<DocumentPassage> {
        split_passages(&extract_bytes(Path::new(name), text.as_bytes()).unwrap(), max_bytes)
    }

    const LEASE: &str = "NÁJEMNÍ SMLOUVA\n\nuzavřená dne 1. 3. 2024 mezi stranami.\n\nČl. 1\nPředmět nájmu\n\
        Pronajímatel přenechává nájemci byt č. 5 podle\n§ 2235 občanského zákoníku. Byt má dva pokoje.\n\n\
        Čl. 2\nNájemné\n2.1 Nájemné činí 15 000 Kč.\n2.2 Nájemné je splatné předem.\n";

    #[test]
    fn split_passages_names_sheets_and_files() {
        let name = |path: &str, heading: &str| page_name(path, Some(1), heading);
        assert_eq!(name("/a.xlsx", "Leden: Datum | Částka").as_deref(), Some("Leden"));
        assert_eq!(name("/a.ods", "Leden").as_deref(), Some("Leden"));
        assert_eq!(name("/a.zip", "b/c.pdf, page 3 › Čl. 2").as_deref(), Some("b/c.pdf, page 3"));
        assert_eq!((name("/a.pdf", "Čl. 2"), name("/a.zip", "")), (None, None));
        assert_eq!(page_name("/a.xls", None, "a table of HTML"), None);
        assert_eq!(
            name("/a.pdf", "Attachment: bill.pdf, page 2 › Rooms").as_deref(),
            Some("bill.pdf, page 2")
        );
        assert_eq!(name("/a.pdf", "Rooms"), None);
    }

    #[test]
    fn sections_part_and_give_their_headings() {
        let found = split_text("a.txt", LEASE, 1200);
        let shown: Vec<_> =
            found.iter().map(|piece| (piece.heading.as_deref(), piece.lines.unwrap())).collect();
        assert_eq!(
            shown,
            [
                (Some("NÁJEMNÍ SMLOUVA"), (1, 3)),
                (Some("Čl. 1 Předmět nájmu"), (5, 8)),
                (Some("Čl. 2 Nájemné"), (10, 13))
            ]
        );
        assert!(found[1].text.starts_with("Čl. 1\nPředmět") && found[1].text.ends_with("dva pokoje."));
    }

    #[test]
    fn long_paragraphs_are_cut_between_sentences() {
        let sentence = "Nájemce podle čl. 5 odst. 2 písm. a) platí předem.";
        let text = vec![sentence; 40].join(" ");
        let found = split_text("a.txt", &text, 300);
        assert!(found.len() > 6);
        for piece in &found {
            assert!(
                piece.text.len() <= 300
                    && piece.text.starts_with("Nájemce")
                    && piece.text.ends_with("předem.")
            );
        }
    }

    #[test]
    fn short_paragraphs_come_together() {
        let text = vec!["Krátký odstavec o ničem."; 40].join("\n\n");
        let found = split_text("a.md", &text, 1200);
        assert!(found.iter().rev().skip(1).all(|piece| (300..400).contains(&piece.text.len())), "{found:?}");
        assert_eq!(found[0].lines.unwrap().0, 1);
        assert_eq!(found.last().unwrap().lines.unwrap().1, 79);
    }

    #[test]
    fn split_passages_keeps_announcements_together() {
        let long = "A paragraph that is long enough to end a piece. ".repeat(8);
        for announced in ["It is done by this command:", "Where does it come from?"] {
            let text = format!("{long}\n\n{announced}\n\nThe answer.\n\n{long}");
            let found = split_text("a.md", &text, 1200);
            let piece = found.iter().find(|piece| piece.text.contains(announced)).unwrap();
            assert!(piece.text.contains("The answer."), "{found:?}");
        }
    }

    #[test]
    fn markdown_headings_count() {
        let found = split_text("a.md", "# One\ntext\n## Two\nmore\n", 1200);
        assert_eq!(found[0].heading.as_deref(), Some("One"));
        assert_eq!((found[1].heading.as_deref(), found[1].text.as_str()), (Some("Two"), "## Two\nmore"));
    }

    proptest::proptest! {
        #[test]
        fn split_passages_lossless_with_exact_places(lines in proptest::collection::vec("[ a-zá.§1-9()\t]{0,60}", 1..60), max in 100_usize..700) {
            let text = lines.join("\n");
            let document = extract_bytes(Path::new("a.txt"), text.as_bytes()).unwrap();
            let found = split_passages(&document, max);
            let joined: String = found.iter().flat_map(|piece| piece.text.chars()).filter(|c| !c.is_whitespace()).collect();
            let whole: String = text.chars().filter(|c| !c.is_whitespace()).collect();
            proptest::prop_assert_eq!(joined, whole);
            let all: Vec<&str> = text.split('\n').collect();
            for piece in &found {
                proptest::prop_assert!(piece.text.len() <= max && !piece.text.is_empty());
                let (first, last) = piece.lines.unwrap();
                proptest::prop_assert_eq!(piece.text.split('\n').count() as u32, last - first + 1);
                let source = all[first as usize - 1..last as usize].join("\n");
                proptest::prop_assert!(source.contains(&piece.text));
            }
        }
    }
}
