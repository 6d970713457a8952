//! Writes the names of groups of rows, which only the first row of each has, in all of them.

use std::borrow::Cow;

use super::cell_value::{CellValueKind, split_cells};
use super::headings::{SAMPLE_ROWS, share_of};

/// The most columns at the beginning of a table with names of groups, the largest share of their cells that are filled, and the fewest
/// rows by which that is known.
const COLUMNS_MAX: usize = 3;
const FILLED_MAX: f64 = 0.5;
const ROWS_MIN: usize = 3;
/// The most rows below a name to which it applies, and the longest such name, in bytes.
const GROUP_MAX_ROWS: usize = 200;
const NAME_MAX_BYTES: usize = 120;
/// The most bytes that are added to the rows of a table.
const ADDED_MAX_BYTES: usize = 1024 * 1024;

/// Returns the rows of a table with the names of their groups.
pub(super) fn carry_group_names<'a>(lines: &[&'a str]) -> Vec<Cow<'a, str>> {
    let rows: Vec<Vec<&str>> = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .take(SAMPLE_ROWS)
        .map(|line| line.split('\t').take(COLUMNS_MAX + 1).map(str::trim).collect())
        .collect();
    let columns: Vec<usize> = (0..COLUMNS_MAX).filter(|column| has_group_names(&rows, *column)).collect();
    let mut above: Vec<(&str, usize)> = vec![("", 0); columns.len()];
    let mut left = ADDED_MAX_BYTES;
    let mut carry = |line: &'a str| {
        if columns.is_empty() || line.trim().is_empty() {
            return Cow::Borrowed(line);
        }
        let mut cells = split_cells(line);
        let mut is_new = false;
        for ((name, rows), column) in above.iter_mut().zip(&columns) {
            let cell = cells.get(*column).copied().unwrap_or_default();
            *rows += 1;
            if !cell.is_empty() {
                (*name, *rows) = (cell, 0);
                is_new = true;
            } else if is_new || *rows > GROUP_MAX_ROWS {
                // A name further left begins a group that has none here yet.
                *name = "";
            }
        }
        // A row without a name of its own is a sum, and of no group.
        let named = columns.last().and_then(|last| cells.get(last + 1)).is_some_and(|cell| is_name(cell));
        let added: usize = above.iter().map(|(name, _)| name.len()).sum();
        if !named || added > left {
            return Cow::Borrowed(line);
        }
        let mut is_changed = false;
        for ((name, _), column) in above.iter().zip(&columns) {
            if cells[*column].is_empty() && !name.is_empty() {
                cells[*column] = *name;
                is_changed = true;
            }
        }
        if !is_changed {
            return Cow::Borrowed(line);
        }
        left -= added;
        Cow::Owned(cells.join("\t"))
    };
    lines.iter().map(|line| carry(line)).collect()
}

/// Returns true for a column with the names of groups: few of its cells are filled, each with another name than the one before, the
/// first one is, and the next column has names in more of its cells.
fn has_group_names(rows: &[Vec<&str>], column: usize) -> bool {
    let of =
        |column: usize| rows.iter().filter_map(move |row| row.get(column)).filter(|cell| !cell.is_empty());
    let names: Vec<&&str> = of(column).collect();
    rows.len() >= ROWS_MIN
        && rows[0].get(column).is_some_and(|first| !first.is_empty())
        && share_of(names.len(), rows.len()) <= FILLED_MAX
        && names.iter().all(|name| is_name(name) && name.len() <= NAME_MAX_BYTES)
        && names.windows(2).all(|pair| pair[0] != pair[1])
        && of(column + 1).count() > names.len()
        && of(column + 1).all(|name| is_name(name))
}

/// Returns true for a text, a date or an age, which may name rows: `65+`.
fn is_name(cell: &str) -> bool {
    cell.ends_with('+') || matches!(CellValueKind::from_cell(cell), CellValueKind::Text | CellValueKind::Date)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carry_rows(text: &str) -> String {
        carry_group_names(&text.split('\n').collect::<Vec<_>>()).join("\n")
    }

    #[test]
    fn group_names_reach_rows_below() {
        let rows = "Classics\tAnna\t1\n\tPaul\t2\n\tEve\t3\nHistory\tAnna\t4\n\tPaul\t5\n\t\t9";
        assert_eq!(
            carry_rows(rows),
            "Classics\tAnna\t1\nClassics\tPaul\t2\nClassics\tEve\t3\nHistory\tAnna\t4\nHistory\tPaul\t5\n\t\t9",
            "a sum is of no group"
        );
        let nested = "Male\tYoung\tNone\t1\n\t\tSome\t2\n\tOld\tNone\t3\n\t\tSome\t4\nFemale\tYoung\tNone\t5\n\t\tSome\t6";
        assert_eq!(
            carry_rows(nested)
                .lines()
                .map(|row| row.split('\t').take(2).collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>(),
            ["Male Young", "Male Young", "Male Old", "Male Old", "Female Young", "Female Young"]
        );
    }

    #[test]
    fn uncertain_groups_stay_as_written() {
        for rows in [
            // The name is beside the middle of its group.
            "\tClassics\t1\nArts\tHistory\t2\n\tMusic\t3\n\tDrama\t4",
            // A mark on some rows.
            "new\tAnna\t1\n\tPaul\t2\nnew\tEve\t3\n\tMax\t4",
            // Columns of figures with empty cells.
            "7\tAnna\t1\n\tPaul\t2\n\tEve\t3",
            "Anna\t1\t2\n\t3\t4\n\t5\t6",
            "Anna\tA\t1\nPaul\tB\t2\nEve\tC\t3\n\tD\t4",
        ] {
            assert_eq!(carry_rows(rows), rows);
        }
    }

    #[test]
    fn group_names_end_at_bounds() {
        let rows = format!("Classics\tAnna\t1{}", "\n\tPaul\t2".repeat(300));
        let filled = carry_rows(&rows).lines().filter(|row| row.starts_with("Classics")).count();
        assert_eq!(filled, 1 + GROUP_MAX_ROWS);
        let group = format!("\n{}\tx\t1{}", "n".repeat(NAME_MAX_BYTES), "\n\tPaul\t2".repeat(GROUP_MAX_ROWS));
        let rows = (0..100).map(|at| group.replacen('n', &at.to_string(), 1)).collect::<String>();
        assert!(carry_rows(rows.trim_start()).len() <= rows.len() + ADDED_MAX_BYTES);
    }
}
