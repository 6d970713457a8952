//! Cuts the rows of a table into passages below the headings of its columns.

use super::cell_value::split_cells;
use super::columns::Columns;
use super::row_groups::carry_group_names;

/// From this length on, in bytes, a passage ends at the next row.
const ROWS_MIN_BYTES: usize = 600;
/// The longest names at the beginning of a row that are repeated in each part of a long row, in bytes, and their maximum
/// number.
const NAMES_MAX_BYTES: usize = 120;
const NAMES_MAX: usize = 2;
/// The longest heading of a column in a part of a row, in bytes.
const HEADING_MAX_BYTES: usize = 200;

/// Consecutive rows of a table, or a part of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// The first and the last row, from 0.
    pub(super) rows: (usize, usize),
    /// The headings that apply.
    pub(super) columns: String,
    pub(super) text: String,
}

/// Cuts the lines of a table from `first` on. A table that fits with its headings stays whole. A row that is too long is split;
/// each part has the names at the row's beginning and the headings of its columns.
pub(super) fn cut_table_rows(text: &str, columns: &Columns, first: usize, max_bytes: usize) -> Vec<Rows> {
    let heads = &*columns.rows;
    let lines: Vec<&str> = text.split('\n').skip(first).collect();
    let lines = carry_group_names(&lines);
    let lines = || lines.iter().enumerate().map(|(at, line)| (first + at, line.trim_end()));
    let bytes: usize = lines().map(|(_, line)| line.len() + 1).sum();
    let is_whole = heads.len() + bytes <= max_bytes;
    let rows_max = max_bytes.saturating_sub(heads.len() + 1).max(max_bytes / 2);
    let enough = if is_whole { max_bytes } else { ROWS_MIN_BYTES.min(rows_max) };
    let mut found: Vec<Rows> = Vec::new();
    let mut open: Option<Rows> = None;
    for (at, line) in lines().filter(|(_, line)| !line.is_empty()) {
        if line.len() > rows_max || heads.len() > max_bytes {
            found.extend(open.take());
            let part = |(columns, text)| Rows { rows: (at, at), columns, text };
            found.extend(split_row(heads, line, max_bytes).into_iter().map(part));
            continue;
        }
        match &mut open {
            Some(rows) if rows.text.len() < enough && rows.text.len() + 1 + line.len() <= rows_max => {
                rows.rows.1 = at;
                rows.text.push('\n');
                rows.text.push_str(line);
            }
            _ => {
                let begun = Rows { rows: (at, at), columns: heads.to_owned(), text: line.to_owned() };
                found.extend(open.replace(begun));
            }
        }
    }
    found.extend(open);
    found
}

/// Returns the parts of a row with the headings of each.
fn split_row(heads: &str, row: &str, max_bytes: usize) -> Vec<(String, String)> {
    let row = split_cells(row);
    let heads: Vec<Vec<&str>> = heads.lines().map(split_cells).collect();
    let (titles, heads): (Vec<_>, Vec<_>) = heads.into_iter().partition(|head| head.len() == 1);
    let mut titles: String = titles.concat().join("\n");
    titles.truncate(titles.floor_char_boundary(titles.len().min(max_bytes / 4)));
    let names = name_columns(&row);
    let length = |column: usize| {
        let heading =
            |head: &Vec<&str>| head.get(column).map_or(0, |cell| cell.len().min(HEADING_MAX_BYTES)) + 1;
        row[column].len() + 1 + heads.iter().map(heading).sum::<usize>()
    };
    let begin = titles.len() + names.iter().map(|column| length(*column)).sum::<usize>();
    let part = |columns: &[usize]| {
        let line = |cells: &[&str]| {
            let cell = |column: &usize| cells.get(*column).map_or("", |cell| truncate_cell(cell));
            columns.iter().map(cell).collect::<Vec<_>>().join("\t")
        };
        let above = std::iter::once(titles.clone()).filter(|titles| !titles.is_empty());
        let above = above.chain(heads.iter().map(|head| line(head))).collect::<Vec<_>>().join("\n");
        (above, columns.iter().map(|column| row[*column]).collect::<Vec<_>>().join("\t"))
    };
    let mut found = Vec::new();
    let (mut open, mut bytes) = (names.clone(), begin);
    let values = (0..row.len()).filter(|column| !row[*column].is_empty() && !names.contains(column));
    for column in values {
        if bytes + length(column) > max_bytes && open.len() > names.len() {
            found.push(part(&open));
            (open, bytes) = (names.clone(), begin);
        }
        open.push(column);
        bytes += length(column);
    }
    if open.len() > names.len() || found.is_empty() {
        found.push(part(&open));
    }
    found.into_iter().flat_map(|(above, text)| split_long_cell(above, text, max_bytes)).collect()
}

/// Cuts a part with a cell that is too long by itself.
fn split_long_cell(above: String, text: String, max_bytes: usize) -> Vec<(String, String)> {
    if text.len() <= max_bytes {
        return vec![(above, text)];
    }
    let cuts = super::passages::hard_cuts(&text, 0..text.len(), max_bytes);
    cuts.into_iter()
        .map(|cut| (above.clone(), text[cut].trim().to_owned()))
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// Returns the columns with the names at the beginning of a row.
fn name_columns(row: &[&str]) -> Vec<usize> {
    let mut bytes = 0;
    let filled = row.iter().enumerate().filter(|(_, cell)| !cell.is_empty());
    let names = filled.take(NAMES_MAX).take_while(|(_, cell)| {
        bytes += cell.len();
        bytes <= NAMES_MAX_BYTES
    });
    names.map(|(column, _)| column).collect()
}

fn truncate_cell(cell: &str) -> &str {
    &cell[..cell.floor_char_boundary(cell.len().min(HEADING_MAX_BYTES))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns_with_rows(rows: &str) -> Columns {
        Columns { rows: rows.into(), own: 0..0 }
    }

    #[test]
    fn cut_table_rows_small_table_whole() {
        let rows = cut_table_rows("Name\tAge\nAnna\t21\nPeter\t24", &columns_with_rows("Name\tAge"), 1, 1200);
        let expected =
            Rows { rows: (1, 2), columns: "Name\tAge".to_owned(), text: "Anna\t21\nPeter\t24".to_owned() };
        assert_eq!(rows, [expected]);
    }

    #[test]
    fn cut_table_rows_repeats_headings() {
        let text: Vec<String> = (0..300).map(|number| format!("Town {number}\t{}", number * 7)).collect();
        let found = cut_table_rows(&text.join("\n"), &columns_with_rows("Town\tPeople"), 0, 1200);
        assert!(found.len() > 5);
        assert!(found.iter().all(|rows| rows.columns == "Town\tPeople" && rows.text.len() <= 1200));
        let all: Vec<&str> = found.iter().flat_map(|rows| rows.text.lines()).collect();
        assert_eq!(all, text);
        assert_eq!((found[0].rows.0, found[found.len() - 1].rows.1), (0, 299));
    }

    #[test]
    fn cut_table_rows_long_row_headings() {
        let years: Vec<String> = (1900..2000).map(|year| year.to_string()).collect();
        let values: Vec<String> = (1900..2000).map(|year| format!("{year}.000000000001")).collect();
        let (head, row) =
            (format!("Country\tCode\t{}", years.join("\t")), format!("Norway\tNOR\t{}", values.join("\t")));
        let found = cut_table_rows(&row, &columns_with_rows(&head), 0, 1200);
        assert!(found.len() > 1);
        for part in &found {
            assert!(part.columns.len() + part.text.len() <= 1300);
            let (heads, values) = (split_cells(&part.columns), split_cells(&part.text));
            assert_eq!((heads[0], values[0], heads.len()), ("Country", "Norway", values.len()));
            for (year, value) in heads.iter().zip(&values).skip(2) {
                assert!(value.starts_with(year), "{part:?}");
            }
        }
        let all: usize = found.iter().map(|part| split_cells(&part.text).len() - 2).sum();
        assert_eq!(all, 100);
    }
}
