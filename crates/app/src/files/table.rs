//! Tables of values separated by commas, semicolons or tabs (RFC 4180, and its common variants).

/// The maximum number of rows and columns shown.
pub(super) const ROWS_MAX: usize = 500;
pub(super) const COLUMNS_MAX: usize = 50;

/// A table. Its first row names the columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PreviewTable {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// True if rows or columns are left out.
    pub(super) is_cut: bool,
}

/// Reads a table; `None` if the text has only one column.
pub(super) fn parse_table(text: &str) -> Option<PreviewTable> {
    let separator = find_separator(text)?;
    let mut table = PreviewTable { columns: Vec::new(), rows: Vec::new(), is_cut: false };
    let mut rest = text.chars().peekable();
    while rest.peek().is_some() {
        let mut row = parse_row(&mut rest, separator);
        if row.iter().all(String::is_empty) {
            continue;
        }
        if table.rows.len() == ROWS_MAX {
            table.is_cut = true;
            break;
        }
        table.is_cut |= row.len() > COLUMNS_MAX;
        row.truncate(COLUMNS_MAX);
        if table.columns.is_empty() {
            table.columns = row;
        } else {
            table.rows.push(row);
        }
    }
    (table.columns.len() > 1).then_some(table)
}

/// Returns the separator that occurs most often in the first line.
fn find_separator(text: &str) -> Option<char> {
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let count = |separator: char| line.matches(separator).count();
    [',', ';', '\t']
        .into_iter()
        .filter(|separator| count(*separator) > 0)
        .max_by_key(|separator| count(*separator))
}

/// Reads a row up to its line end. Within quotes, separators and line ends are text, and two quotes are one.
fn parse_row(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, separator: char) -> Vec<String> {
    let (mut row, mut value, mut is_quoted) = (Vec::new(), String::new(), false);
    while let Some(next) = rest.next() {
        match next {
            '"' if is_quoted && rest.peek() == Some(&'"') => {
                rest.next();
                value.push('"');
            }
            '"' if is_quoted => is_quoted = false,
            '"' if value.is_empty() => is_quoted = true,
            '\n' if !is_quoted => break,
            next if next == separator && !is_quoted => row.push(std::mem::take(&mut value)),
            next => value.push(next),
        }
    }
    row.push(value.trim_end_matches('\r').to_owned());
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_rows(text: &str) -> Vec<Vec<String>> {
        let table = parse_table(text).expect("a table");
        [vec![table.columns], table.rows].concat()
    }

    #[test]
    fn quotes_keep_separators_and_line_ends() {
        let text = "Name;Note\r\n\"Ada; B.\";\"two\nlines\"\r\n\r\nBo;\"a \"\"b\"\"\"";
        assert_eq!(table_rows(text), [["Name", "Note"], ["Ada; B.", "two\nlines"], ["Bo", "a \"b\""]]);
        assert_eq!(table_rows("a\tb,c\td\n1\t2\t3"), [["a", "b,c", "d"], ["1", "2", "3"]]);
    }

    #[test]
    fn parse_table_rejects_list_cuts_large() {
        assert_eq!(parse_table("one\ntwo\n"), None);
        assert_eq!(parse_table(""), None);
        let long = parse_table(&"a,b\n".repeat(ROWS_MAX + 2)).expect("a table");
        assert!(long.is_cut && long.rows.len() == ROWS_MAX);
        let whole = parse_table(&"a,b\n".repeat(ROWS_MAX + 1)).expect("a table");
        assert!(!whole.is_cut);
        let wide = parse_table(&"a,".repeat(COLUMNS_MAX)).expect("a table");
        assert!(wide.is_cut && wide.columns.len() == COLUMNS_MAX);
    }
}
