//! Bounds the cells of tables. A table of a megabyte can have a million cells, each of them some hundred bytes while it is
//! rendered: beyond the bound a table is shown as written.

use std::borrow::Cow;
use std::ops::Range;

/// The maximum number of cells of all tables of a text.
const CELLS_MAX: usize = 30_000;

/// The cells that the tables of a text may still have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellBudget(usize);

impl Default for CellBudget {
    fn default() -> Self {
        Self(CELLS_MAX)
    }
}

impl CellBudget {
    fn spend_cells(&mut self, cells: usize) -> bool {
        let left = self.0.checked_sub(cells);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// A table with too many cells.
struct WideTable {
    /// From its header to its last row.
    whole: Range<usize>,
    /// The first hyphen of its delimiter row.
    hyphen: usize,
    /// True if it is in a quotation or a list.
    is_nested: bool,
}

/// Returns the Markdown with the tables beyond the budget as code; in quotations and lists, where a fence would need
/// their prefix, as text.
pub(crate) fn bound_tables<'m>(markdown: &'m str, budget: &mut CellBudget) -> Cow<'m, str> {
    let tables = wide_tables(markdown, budget);
    if tables.is_empty() {
        return Cow::Borrowed(markdown);
    }
    let mut out = String::with_capacity(markdown.len() + tables.len() * 16);
    let mut done = 0;
    for WideTable { whole, hyphen, is_nested } in tables {
        if is_nested {
            out.push_str(&markdown[done..hyphen]);
            out.push('\\');
            done = hyphen;
            continue;
        }
        out.push_str(&markdown[done..whole.start]);
        let table = &markdown[whole.clone()];
        let fence = fence_around(table);
        out.push_str(&format!("{fence}\n{table}"));
        if !table.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&format!("{fence}\n"));
        done = whole.end;
    }
    out.push_str(&markdown[done..]);
    Cow::Owned(out)
}

fn wide_tables(markdown: &str, budget: &mut CellBudget) -> Vec<WideTable> {
    let mut found = Vec::new();
    if !markdown.contains('|') {
        return found;
    }
    let mut lines = TextLines { text: markdown, at: 0 };
    let mut header: Option<Range<usize>> = None;
    let mut fence: Option<&str> = None;
    while let Some(line) = lines.next_line() {
        let text = strip_line_marks(&markdown[line.clone()]);
        if let Some(mark) = fence {
            fence = (!text.starts_with(mark)).then_some(mark);
            continue;
        }
        fence = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark));
        let before = header.replace(line.clone());
        let Some(before) = before.filter(|_| fence.is_none() && is_delimiter(text)) else { continue };
        let columns = count_cells(text);
        if columns != count_cells(strip_line_marks(&markdown[before.clone()])) {
            continue;
        }
        let mut rows = 1;
        let mut end = line.end;
        while let Some(row) = lines.peek_line().filter(|row| is_row(strip_line_marks(&markdown[row.clone()])))
        {
            rows += 1;
            end = row.end;
            lines.next_line();
        }
        header = None;
        if !budget.spend_cells(columns.saturating_mul(rows)) {
            let hyphen = line.start + markdown[line.clone()].find('-').unwrap_or(0);
            let is_nested = is_indented(&markdown[before.clone()]) || is_indented(&markdown[line]);
            found.push(WideTable { whole: before.start..end, hyphen, is_nested });
        }
    }
    found
}

/// The lines of a text, with their ends.
struct TextLines<'t> {
    text: &'t str,
    at: usize,
}

impl TextLines<'_> {
    fn peek_line(&self) -> Option<Range<usize>> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let length = rest.find('\n').map_or(rest.len(), |at| at + 1);
        Some(self.at..self.at + length)
    }

    fn next_line(&mut self) -> Option<Range<usize>> {
        let line = self.peek_line()?;
        self.at = line.end;
        Some(line)
    }
}

/// Returns a line without the signs of quotations, indentation and its end.
fn strip_line_marks(line: &str) -> &str {
    line.trim_start_matches([' ', '\t', '>']).trim_end()
}

/// Returns true if a line is in a quotation, a list or indented code.
fn is_indented(line: &str) -> bool {
    let spaces = line.len() - line.trim_start_matches(' ').len();
    let rest = &line[spaces..];
    let is_item = rest.starts_with(['-', '*', '+']) && rest[1..].starts_with(' ')
        || rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with(". ");
    spaces > 0 || rest.starts_with(['>', '\t']) || is_item
}

fn is_delimiter(line: &str) -> bool {
    line.contains('-')
        && line.contains(['|', ':'])
        && line.bytes().all(|byte| matches!(byte, b'|' | b':' | b'-' | b' ' | b'\t'))
}

fn is_row(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("```") && !line.starts_with("~~~")
}

/// Returns the number of cells of a row; a pipe after a backslash does not separate cells.
fn count_cells(row: &str) -> usize {
    // In a list the first row follows the sign of its item.
    let row = row.find('|').filter(|at| *at <= 4 && !row[..*at].contains('\\')).map_or(row, |at| {
        if row[..at].trim().is_empty() || row[..at].trim_end().ends_with(['-', '*', '+', '.']) {
            &row[at..]
        } else {
            row
        }
    });
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').filter(|rest| !rest.ends_with('\\')).unwrap_or(row);
    let pipes = row.match_indices('|').filter(|(at, _)| *at == 0 || row.as_bytes()[at - 1] != b'\\');
    pipes.count() + 1
}

/// Returns a fence that is longer than each run of backticks in the text.
fn fence_around(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markdown_table(columns: usize, rows: usize, prefix: &str) -> String {
        let row = |cell: &str| format!("{prefix}|{}\n", format!(" {cell} |").repeat(columns));
        row("head") + &row("---") + &row("cell").repeat(rows)
    }

    #[test]
    fn bound_tables_keeps_small_tables() {
        for text in
            ["", "a | b", "|a|\n|-|\n|b|", &markdown_table(100, 298, ""), &markdown_table(2, 10_000, "")]
        {
            assert!(matches!(bound_tables(text, &mut CellBudget::default()), Cow::Borrowed(_)));
        }
        let code = format!("```\n{}```\n", markdown_table(1000, 800, ""));
        assert!(matches!(bound_tables(&code, &mut CellBudget::default()), Cow::Borrowed(_)), "it is code");
    }

    #[test]
    fn bound_tables_turns_wide_into_code() {
        let (wide, text) =
            (markdown_table(1000, 40, ""), |table: &str| format!("Before `x`:\n\n{table}\nAfter.\n"));
        let shown = bound_tables(&text(&wide), &mut CellBudget::default()).into_owned();
        assert_eq!(shown, text(&format!("```\n{wide}```\n")));
        let fenced = wide.replacen("cell", "````", 1);
        assert!(bound_tables(&fenced, &mut CellBudget::default()).starts_with("`````\n|"));
        let growing = wide.trim_end();
        assert!(bound_tables(growing, &mut CellBudget::default()).ends_with("|\n```\n"));
    }

    #[test]
    fn bound_tables_shares_budget() {
        let text =
            [markdown_table(100, 200, ""), markdown_table(100, 200, ""), markdown_table(2, 2, "")].join("\n");
        let shown = bound_tables(&text, &mut CellBudget::default()).into_owned();
        assert_eq!(shown.matches("```").count(), 2, "the second one is too much, the third is not");
        let mut budget = CellBudget::default();
        let _ = bound_tables(&markdown_table(100, 200, ""), &mut budget);
        assert!(bound_tables(&markdown_table(100, 200, ""), &mut budget).starts_with("```"));
    }

    #[test]
    fn bound_tables_turns_nested_into_text() {
        for prefix in ["> ", "  "] {
            let wide = format!("- a\n\n{}", markdown_table(1000, 40, prefix));
            let shown = bound_tables(&wide, &mut CellBudget::default()).into_owned();
            assert_eq!(shown, wide.replacen("---", "\\---", 1), "{prefix:?}");
        }
    }
}
