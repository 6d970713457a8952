//! Parts consecutive rows of a sheet at the tables that begin inside them, and at titles inside a table.

use super::DocumentSegment;
use super::cell_value::{CellValueKind, count_filled_cells, split_cells};
use super::headings::{RowBlock, SAMPLE_ROWS, TITLE_MAX_BYTES, TITLES_MAX, count_titles_before};

/// How a segment of a sheet begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentStart {
    /// With the rows of the sheet, or below an empty one.
    Segment,
    /// With the headings of a table, directly below another one.
    Table,
    /// With the title of further rows of the same table.
    Group,
}

/// Parts the segments of sheets where the headings of a table are repeated below it, and at titles above its columns of figures.
/// Returns how each segment begins.
pub(super) fn split_sheet_tables(
    segments: &mut Vec<DocumentSegment>,
    is_delimited: bool,
) -> Vec<SegmentStart> {
    let mut starts = Vec::with_capacity(segments.len());
    let mut parted = Vec::with_capacity(segments.len());
    for segment in segments.drain(..) {
        let found = match segment.lines {
            // The values of one row may have several lines.
            Some((first, last))
                if count_lines(&segment.text) == u64::from(last.saturating_sub(first)) + 1 =>
            {
                find_starts(&segment.text, is_delimited)
            }
            _ => Vec::new(),
        };
        starts.push(SegmentStart::Segment);
        if found.is_empty() {
            parted.push(segment);
            continue;
        }
        let lines: Vec<&str> = segment.text.split('\n').collect();
        let begins = std::iter::once(0).chain(found.iter().map(|(at, _)| *at));
        let ends = found.iter().map(|(at, _)| *at).chain([lines.len()]);
        parted.extend(begins.zip(ends).map(|(begin, end)| part_of(&segment, &lines, begin, end)));
        starts.extend(found.iter().map(|(_, start)| *start));
    }
    *segments = parted;
    starts
}

fn count_lines(text: &str) -> u64 {
    text.split('\n').count() as u64
}

fn part_of(segment: &DocumentSegment, lines: &[&str], begin: usize, end: usize) -> DocumentSegment {
    let line = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    DocumentSegment {
        page: segment.page,
        lines: segment
            .lines
            .map(|(first, _)| (first.saturating_add(line(begin)), first.saturating_add(line(end - 1)))),
        heading: segment.heading.clone(),
        text: lines[begin..end].join("\n"),
        inner: segment.inner.clone(),
        columns: None,
    }
}

/// Returns the rows at which further tables and groups begin.
fn find_starts(text: &str, is_delimited: bool) -> Vec<(usize, SegmentStart)> {
    let lines: Vec<&str> = text.split('\n').collect();
    let sample: Vec<Vec<&str>> = lines.iter().take(SAMPLE_ROWS).map(|line| split_cells(line)).collect();
    let RowBlock::Table { own, headed_figures: Some(_), .. } = RowBlock::from_rows(&sample, is_delimited)
    else {
        return Vec::new();
    };
    let head = &sample[own.end - 1];
    let is_figure =
        |cell: &str| matches!(CellValueKind::from_cell(cell), CellValueKind::Figure | CellValueKind::Date);
    let width = sample.iter().map(Vec::len).max().unwrap_or(0);
    // The first column in which most values are figures.
    let of_figures = (1..width).find(|column| {
        let values =
            sample[own.end..].iter().filter_map(|row| row.get(*column)).filter(|cell| !cell.is_empty());
        let figures = values.clone().filter(|cell| is_figure(cell)).count();
        figures > 0 && figures * 2 > values.count()
    });
    let mut found: Vec<(usize, SegmentStart)> = Vec::new();
    // The rows directly above, as many as may be titles.
    let mut above: Vec<Vec<&str>> = Vec::new();
    for (at, line) in lines.iter().enumerate().skip(own.end) {
        let row = split_cells(line);
        let is_above_others = at + 1 < lines.len();
        if is_above_others && repeats_headings(head, &row) {
            let titles = count_titles_before(&above, above.len());
            let begin = at - titles;
            // Titles above the headings are those of their table.
            while found.last().is_some_and(|(group, _)| *group >= begin) {
                found.pop();
            }
            found.push((begin, SegmentStart::Table));
            above.clear();
        } else {
            let is_group = is_above_others && !above.is_empty() && is_group_title(&row, of_figures);
            // Titles on consecutive rows belong together.
            if is_group && !above.last().is_some_and(|above| is_group_title(above, of_figures)) {
                found.push((at, SegmentStart::Group));
            }
            if above.len() > TITLES_MAX {
                above.remove(0);
            }
            above.push(row);
        }
    }
    found
}

/// Returns true if a row has the headings of a table again, but for that of the first column.
fn repeats_headings(head: &[&str], row: &[&str]) -> bool {
    let names = head.iter().skip(1).filter(|cell| !cell.is_empty()).count();
    let width = head.len().max(row.len());
    (1..width).all(|at| cell_at(head, at) == cell_at(row, at))
        && (names >= 2 || names == 1 && cell_at(head, 0) == cell_at(row, 0))
}

fn cell_at<'a>(row: &[&'a str], at: usize) -> &'a str {
    row.get(at).copied().unwrap_or_default()
}

/// Returns true for a row of one short text above a column of figures.
fn is_group_title(row: &[&str], of_figures: Option<usize>) -> bool {
    let filled = row.iter().position(|cell| !cell.is_empty());
    count_filled_cells(row) == 1
        && filled.zip(of_figures).is_some_and(|(at, figures)| {
            at >= figures
                && row[at].len() <= TITLE_MAX_BYTES
                && CellValueKind::from_cell(row[at]) == CellValueKind::Text
        })
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::super::columns::mark_headings;
    use super::*;

    /// Returns the lines of each part, the headings that it carries, and how many of its lines they are.
    fn mark_texts(texts: &[&str], is_delimited: bool) -> Vec<((u32, u32), String, Range<usize>)> {
        let mut next = 1;
        let segment = |text: &&str| {
            let count = u32::try_from(text.lines().count()).unwrap();
            let lines = Some((next, next + count - 1));
            next += count + 1;
            let text = (*text).to_owned();
            DocumentSegment { page: Some(1), lines, heading: None, text, inner: None, columns: None }
        };
        let mut segments: Vec<DocumentSegment> = texts.iter().map(segment).collect();
        mark_headings(&mut segments, is_delimited);
        let shown = |segment: DocumentSegment| {
            let (rows, own) = segment
                .columns
                .map_or((String::new(), 0..0), |columns| (columns.rows.to_string(), columns.own));
            (segment.lines.unwrap(), rows, own)
        };
        segments.into_iter().map(shown).collect()
    }

    #[test]
    fn repeated_headings_begin_tables() {
        let year = |title: &str, first: &str| {
            format!("{title}\n{first}\t2007\t2008\nClosets\t1505\t1580\nRooms\t1512\t1586")
        };
        let text =
            [year("Plan A", "Servers in:"), year("Plan B", "Servers in:"), year("All", "Class")].join("\n");
        for is_delimited in [true, false] {
            assert_eq!(
                mark_texts(&[&text], is_delimited),
                [
                    ((1, 4), "Plan A\nServers in:\t2007\t2008".to_owned(), 0..2),
                    ((5, 8), "Plan B\nServers in:\t2007\t2008".to_owned(), 0..2),
                    ((9, 12), "All\nClass\t2007\t2008".to_owned(), 0..2),
                ]
            );
        }
        let centred = "\t\tClassics\n\t\tTerm 1\tTerm 2\n\tAnna\t4\t0\n\tEve\t4\t6\n\t\tHistory\n\t\tTerm 1\tTerm 2\n\tAnna\t0\t4";
        assert_eq!(
            mark_texts(&[centred], false),
            [
                ((1, 4), "Classics\n\t\tTerm 1\tTerm 2".to_owned(), 0..2),
                ((5, 7), "History\n\t\tTerm 1\tTerm 2".to_owned(), 0..2),
            ]
        );
    }

    #[test]
    fn rows_carry_last_title_above() {
        let text = "Name\tTerm 1\tTerm 2\nAnna\t4\t0\n\tClassics\nAnna\t4\t6\nEve\t1\t2\n\tArts\n\tMusic\nAnna\t7\t7";
        let head = "Name\tTerm 1\tTerm 2";
        assert_eq!(
            mark_texts(&[text], false),
            [
                ((1, 2), head.to_owned(), 0..1),
                ((3, 5), format!("Classics\n{head}"), 0..1),
                ((6, 8), format!("Arts\nMusic\n{head}"), 0..2),
            ]
        );
    }

    #[test]
    fn rows_without_figures_begin_no_group() {
        // A name without values is a row like the others.
        let text = "Area\t2009\t2010\nAbkhazia\nAlbania\t1\t2\nAndorra\nNorway\t3\t4";
        assert_eq!(mark_texts(&[text], false), [((1, 5), "Area\t2009\t2010".to_owned(), 0..1)]);
    }

    #[test]
    fn values_have_no_merged_headings() {
        let text = "\t\t\tCombined\n\tPercentage\t\tschool\nCountry\tcoverage\texclusion\trate\nNorway\t100\t4\t96\nSweden\t99\t5\t97";
        let rows = "\t\t\tCombined\n\tPercentage\t\tschool\nCountry\tcoverage\texclusion\trate";
        assert_eq!(mark_texts(&[text], true), [((1, 5), rows.to_owned(), 0..3)]);
    }

    #[test]
    fn table_after_empty_line_has_own_headings() {
        let first = "Town\tBirths\nLeeds\t12\nYork\t7";
        let second = "Bird\tSeen\tRinged\nWren\t4\t1\nRook\t2\t2";
        let rows = "Ely\t9\nBath\t8";
        assert_eq!(
            mark_texts(&[first, rows, second], true)
                .into_iter()
                .map(|(_, rows, own)| (rows, own))
                .collect::<Vec<_>>(),
            [
                ("Town\tBirths".to_owned(), 0..1),
                ("Town\tBirths".to_owned(), 0..0),
                ("Bird\tSeen\tRinged".to_owned(), 0..1)
            ]
        );
    }
}
