//! Finds the rows of headings above the rows of a table, so that each passage of rows carries them.
//!
//! Headings are recognized by the content below them: names, years or other labels above columns of figures, or names above
//! columns of text. In a table without such a row, the first row is data.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;

use super::DocumentSegment;
use super::cell_value::split_cells;
use super::headings::{
    HEAD_MAX_BYTES, RowBlock, SAMPLE_ROWS, TEXT_ROWS_MIN, TITLES_MAX, count_heading_rows, share_of,
};
use super::tables_of_sheet::{SegmentStart, split_sheet_tables};

/// The minimum share of a table's rows that have all cells, in documents that do not say which are empty.
const WHOLE_ROWS_MIN: f64 = 0.8;
/// The most bytes of headings that are repeated below titles inside a table, of all of a document.
const GROUPS_MAX_BYTES: usize = 4 * 1024 * 1024;
/// Stands in place of the rest of a heading that is too long.
const CUT: char = '…';

/// The headings above the rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The titles of the table, one a line, and below them the rows of headings, with tabs between the cells.
    pub rows: Rc<str>,
    /// The lines of the segment that are such rows themselves, from 0.
    pub own: Range<usize>,
}

impl Columns {
    /// Returns true if headings of the segment itself are longer than they are carried.
    pub(super) fn has_shortened(&self, text: &str) -> bool {
        let own = text.lines().skip(self.own.start).take(self.own.len());
        own.filter(|row| row.contains('\t'))
            .any(|row| row.split('\t').any(|cell| cell.trim().len() > HEAD_MAX_BYTES))
    }
}

/// Finds the headings of the tables of a workbook, whose sheets are pages, or of a file of values. In a file of values
/// (`is_delimited`) the first row is expected to have headings.
pub(super) fn mark_headings(segments: &mut Vec<DocumentSegment>, is_delimited: bool) {
    let starts = split_sheet_tables(segments, is_delimited);
    let mut groups_left = GROUPS_MAX_BYTES;
    let (mut rest, mut starts) = (&mut segments[..], &starts[..]);
    while let Some(page) = rest.first().map(|segment| segment.page) {
        let of_page = rest.iter().take_while(|segment| segment.page == page).count();
        let (sheet, others) = rest.split_at_mut(of_page);
        mark_sheet(sheet, &starts[..of_page], is_delimited, &mut groups_left);
        (rest, starts) = (others, &starts[of_page..]);
    }
}

/// Splits a text of paragraphs at its tables, which have tabs between their cells. A table has headings here only if most rows
/// have all cells: in others, the column of a cell is unknown.
pub(super) fn split_tables(segment: &DocumentSegment) -> Vec<DocumentSegment> {
    let lines: Vec<&str> = segment.text.split('\n').collect();
    let part = |of: Range<usize>, columns: Option<Columns>| DocumentSegment {
        lines: segment
            .lines
            .map(|(first, _)| (first + to_line_count(of.start), first + to_line_count(of.end - 1))),
        text: lines[of].join("\n"),
        columns,
        ..segment.clone()
    };
    let mut found = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < lines.len() {
        let rows = lines[at..].iter().take_while(|line| line.contains('\t')).count();
        if let Some(columns) = of_run(&lines[at..at + rows]) {
            if from < at {
                found.push(part(from..at, None));
            }
            found.push(part(at..at + rows, Some(columns)));
            from = at + rows;
        }
        at += rows.max(1);
    }
    if found.is_empty() {
        return Vec::new();
    }
    if from < lines.len() {
        found.push(part(from..lines.len(), None));
    }
    found.retain(|part| !part.text.trim().is_empty());
    found
}

/// Returns the headings of consecutive rows.
fn of_run(lines: &[&str]) -> Option<Columns> {
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| split_cells(line)).collect();
    let count = count_heading_rows(&rows, false)?;
    let (heads, data) = rows.split_at(count);
    let width = data.iter().map(Vec::len).max().filter(|_| data.len() >= TEXT_ROWS_MIN)?;
    let whole = data.iter().filter(|row| row.len() == width).count();
    // An empty cell at the beginning of a row leaves no trace.
    let is_shifted = heads.iter().all(|head| head.len() + 1 == width);
    if !(is_shifted || heads.iter().all(|head| head.len() == width))
        || share_of(whole, data.len()) < WHOLE_ROWS_MIN
    {
        return None;
    }
    let begin = if is_shifted { "\t" } else { "" };
    let rows: Vec<String> = heads.iter().map(|head| format!("{begin}{}", head.join("\t"))).collect();
    Some(Columns { rows: rows.join("\n").into(), own: 0..count })
}

fn to_line_count(lines: usize) -> u32 {
    u32::try_from(lines).unwrap_or(u32::MAX)
}

/// The headings that apply below them, with the number of columns.
type Current = (Rc<str>, usize);

fn mark_sheet(
    segments: &mut [DocumentSegment],
    starts: &[SegmentStart],
    is_delimited: bool,
    groups_left: &mut usize,
) {
    let mut current: Option<Current> = None;
    // Titles, and headings above an empty row.
    let mut waiting: Vec<(usize, bool)> = Vec::new();
    for at in 0..segments.len() {
        if segments[at].lines.is_none() {
            continue;
        }
        if let (SegmentStart::Group, Some((rows, _))) = (starts[at], &current) {
            segments[at].columns = Some(below_group_titles(rows, &segments[at].text, groups_left));
            continue;
        }
        let is_below = is_delimited && current.is_some() && starts[at] == SegmentStart::Segment;
        let block = match RowBlock::from_text(&segments[at].text, is_delimited && !is_below) {
            RowBlock::Text => RowBlock::Text,
            block if is_below && !begins_table_below(segments, at, &block) => {
                let width = segment_width(&segments[at]);
                inherit_headings(&mut segments[at], width, current.as_ref());
                continue;
            }
            block => block,
        };
        match block {
            RowBlock::Heads { is_full } => {
                // Below a table, a title before the last one is a note to that table.
                let lines: usize = waiting.iter().map(|(at, _)| segments[*at].text.lines().count()).sum();
                if current.is_some() || lines > TITLES_MAX {
                    release_waiting_rows(segments, &mut waiting, current.as_ref());
                }
                waiting.push((at, is_full));
            }
            RowBlock::Table { own, width, .. } => {
                let rows = join_heading_rows(segments, &waiting, at, own.clone(), is_delimited);
                carry_headings(segments, &mut waiting, &rows);
                segments[at].columns = Some(Columns { rows: Rc::clone(&rows), own });
                current = Some((rows, width));
            }
            RowBlock::Rows { width } => {
                let has_heads = waiting.iter().any(|(_, is_full)| *is_full);
                // Between the rows of a table, a single row of text is one of them.
                let is_table = current.is_none() || segments[at].text.contains('\n');
                if has_heads && is_table && has_waiting_headings(segments, &waiting, at, is_delimited) {
                    let rows = join_heading_rows(segments, &waiting, at, 0..0, is_delimited);
                    carry_headings(segments, &mut waiting, &rows);
                    current = Some((rows, width));
                }
                release_waiting_rows(segments, &mut waiting, current.as_ref());
                inherit_headings(&mut segments[at], width, current.as_ref());
            }
            RowBlock::Text => release_waiting_rows(segments, &mut waiting, current.as_ref()),
        }
    }
    release_waiting_rows(segments, &mut waiting, current.as_ref());
}

/// Returns true if a segment of a file of values begins another table than the one before: after an empty line, names above all
/// columns of figures, or a title.
fn begins_table_below(segments: &[DocumentSegment], at: usize, block: &RowBlock) -> bool {
    let lines = |at: usize| segments.get(at).and_then(|segment| segment.lines);
    let before = at.checked_sub(1).and_then(lines);
    let is_apart =
        before.zip(lines(at)).is_some_and(|((_, last), (first, _))| last.saturating_add(1) < first);
    let is_table = matches!(block, RowBlock::Table { headed_figures: Some(headed), .. } if *headed >= 1.0);
    is_apart && (is_table || matches!(block, RowBlock::Heads { is_full: false }))
}

/// Adds the titles at the beginning of a group of rows below the titles of their table.
fn below_group_titles(rows: &Rc<str>, group: &str, left: &mut usize) -> Columns {
    let is_title = |line: &&str| !line.trim().contains('\t');
    let count = group.lines().take_while(is_title).take(TITLES_MAX).count();
    let has_rows = group.lines().count() > count;
    *left = left.saturating_sub(rows.len());
    if *left == 0 || !has_rows {
        return Columns { rows: Rc::clone(rows), own: 0..0 };
    }
    let is_above = |line: &&str| !line.contains('\t');
    let titles = rows.lines().take_while(is_above).chain(group.lines().take(count).map(str::trim));
    let with_titles: Vec<&str> = titles.chain(rows.lines().skip_while(is_above)).collect();
    Columns { rows: with_titles.join("\n").into(), own: 0..count }
}

/// Gives rows the headings of those before them, unless they have more columns.
fn inherit_headings(segment: &mut DocumentSegment, width: usize, current: Option<&Current>) {
    if let Some((rows, _)) = current.filter(|(_, of)| width <= *of) {
        segment.columns = Some(Columns { rows: Rc::clone(rows), own: 0..0 });
    }
}

/// Resolves rows that waited as headings: they become rows of the table before them, or titles of nothing.
fn release_waiting_rows(
    segments: &mut [DocumentSegment],
    waiting: &mut Vec<(usize, bool)>,
    current: Option<&Current>,
) {
    for (at, _) in waiting.drain(..).filter(|(_, is_full)| *is_full) {
        let width = segment_width(&segments[at]);
        inherit_headings(&mut segments[at], width, current);
    }
}

fn segment_width(segment: &DocumentSegment) -> usize {
    segment.text.lines().take(SAMPLE_ROWS).map(|row| split_cells(row).len()).max().unwrap_or(0)
}

/// Returns true if rows that wait are the headings of a segment.
fn has_waiting_headings(
    segments: &[DocumentSegment],
    waiting: &[(usize, bool)],
    at: usize,
    is_delimited: bool,
) -> bool {
    let above: Vec<&str> = waiting.iter().flat_map(|(at, _)| segments[*at].text.lines()).collect();
    let together = format!("{}\n{}", above.join("\n"), segments[at].text);
    matches!(RowBlock::from_text(&together, is_delimited), RowBlock::Table { own, .. } if own.end == above.len())
}

/// Returns the rows of waiting segments and of a segment's lines.
fn join_heading_rows(
    segments: &[DocumentSegment],
    waiting: &[(usize, bool)],
    at: usize,
    own: Range<usize>,
    is_delimited: bool,
) -> Rc<str> {
    let above = waiting.iter().flat_map(|(waiting, _)| segments[*waiting].text.lines());
    let own = segments[at].text.lines().skip(own.start).take(own.len());
    let is_title = |row: &&str| !(row.trim().contains('\t') || is_delimited && row.starts_with('\t'));
    let (titles, heads): (Vec<&str>, Vec<&str>) = above.chain(own).partition(is_title);
    let titles = titles.iter().map(|title| title.trim().to_owned());
    let mut heads: Vec<Vec<&str>> = heads.into_iter().map(split_cells).collect();
    if !is_delimited {
        spread_headings(&mut heads);
    }
    let heads = heads.iter().map(|head| head.iter().map(|cell| shorten_heading(cell)).collect::<Vec<_>>());
    titles.chain(heads.map(|head| head.join("\t"))).collect::<Vec<_>>().join("\n").into()
}

/// Returns a heading without the rest of a long one.
fn shorten_heading(heading: &str) -> Cow<'_, str> {
    if heading.len() <= HEAD_MAX_BYTES {
        return Cow::Borrowed(heading);
    }
    Cow::Owned(format!("{}{CUT}", heading[..heading.floor_char_boundary(HEAD_MAX_BYTES)].trim_end()))
}

/// Writes a heading that spans several columns above each of them, as far as rows below it have headings there. A format without
/// merged cells has none.
fn spread_headings(heads: &mut [Vec<&str>]) {
    let last = heads.len().saturating_sub(1);
    let below = heads.last().cloned().unwrap_or_default();
    for head in &mut heads[..last] {
        head.resize(below.len().max(head.len()), "");
        for column in 1..head.len() {
            if head[column].is_empty() && below.get(column).is_some_and(|cell| !cell.is_empty()) {
                head[column] = head[column - 1];
            }
        }
    }
}

/// Marks all rows of waiting segments as headings of the rows that follow.
fn carry_headings(segments: &mut [DocumentSegment], waiting: &mut Vec<(usize, bool)>, rows: &Rc<str>) {
    for (at, _) in waiting.drain(..) {
        let own = 0..segments[at].text.lines().count();
        segments[at].columns = Some(Columns { rows: Rc::clone(rows), own });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_headings_waits_for_rows() {
        let segment = |text: &str, first: u32| DocumentSegment {
            page: Some(1),
            lines: Some((first, first + text.lines().count() as u32 - 1)),
            heading: None,
            text: text.to_owned(),
            inner: None,
            columns: None,
        };
        let segments = [
            segment("Births", 1),
            segment("Region\tBoys", 3),
            segment("North\t15\nSouth\t20", 5),
            segment("Isles\t3", 9),
            segment("Source: the office", 11),
        ];
        let mut segments = Vec::from(segments);
        mark_headings(&mut segments, false);
        let marked: Vec<_> = segments
            .iter()
            .map(|segment| segment.columns.as_ref().map(|columns| (&*columns.rows, columns.own.clone())))
            .collect();
        let rows = "Births\nRegion\tBoys";
        assert_eq!(
            marked,
            [Some((rows, 0..1)), Some((rows, 0..1)), Some((rows, 0..0)), Some((rows, 0..0)), None]
        );
    }

    #[test]
    fn split_tables_separates_paragraphs() {
        let text = "Births in the north.\nRegion\tBoys\tGirls\nNorth\t1\t2\nSouth\t3\t4\nAfter it.";
        let segment = DocumentSegment {
            page: None,
            lines: Some((11, 15)),
            heading: None,
            text: text.to_owned(),
            inner: None,
            columns: None,
        };
        let parts = split_tables(&segment);
        let shown: Vec<_> = parts
            .iter()
            .map(|part| {
                (part.lines, part.columns.as_ref().map(|columns| (&*columns.rows, columns.own.clone())))
            })
            .collect();
        assert_eq!(
            shown,
            [
                (Some((11, 11)), None),
                (Some((12, 14)), Some(("Region\tBoys\tGirls", 0..1))),
                (Some((15, 15)), None)
            ]
        );
        let stub = text.replace("Region\t", "");
        let parts = split_tables(&DocumentSegment { text: stub, ..segment.clone() });
        assert_eq!(&*parts[1].columns.as_ref().unwrap().rows, "\tBoys\tGirls");
        for none in [text.replace("North\t1\t2", "North\t1"), text.replace('\t', " ")] {
            assert!(split_tables(&DocumentSegment { text: none, ..segment.clone() }).is_empty());
        }
    }
}
