//! Prints the output of commands.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;
use serde_json::Value;

/// The fields that end something, in words.
const ENDS: [&str; 2] = ["licence until", "expires at"];
/// The time of an end after a whole day, as this program writes it.
const MIDNIGHT: &str = "T00:00:00.000Z";

/// Prints a line. If the reader has closed the output, as `head` does, the process exits successfully.
pub fn print_line(line: impl Display) {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            error_line(format_args!("causerie: standard output: {error}"));
            std::process::exit(1);
        }
    }
}

/// Prints a line to standard error. Ignores errors, because they cannot be reported.
pub fn error_line(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a reply as one JSON object, its fields sorted by name.
pub(crate) fn print_json(reply: &impl Serialize) {
    print_line(to_cell(reply));
}

/// Prints a reply as one line per field, sorted by name.
pub(crate) fn print_fields(reply: &impl Serialize) {
    let Value::Object(fields) = to_cell(reply) else { return };
    for (name, value) in &fields {
        match value {
            Value::Array(rows) if rows.iter().any(Value::is_object) => {
                for row in rows {
                    print_line(format_columns(row));
                }
            }
            Value::Object(_) => print_line(format_args!("{}: {}", field_words(name), format_columns(value))),
            value => print_line(format_args!("{}: {}", field_words(name), format_field(name, value))),
        }
    }
}

/// Prints a reply as JSON, or as one line per field.
pub(crate) fn print_reply(reply: &impl Serialize, as_json: bool) {
    if as_json { print_json(reply) } else { print_fields(reply) }
}

/// A column of a table: its name as that of a field, and the cell of a row.
pub(crate) struct Column<R> {
    pub(crate) name: &'static str,
    pub(crate) cell: fn(&R) -> Value,
}

/// Lists columns with the names of a row's fields: `columns!(Row: field, part.field)`.
macro_rules! columns {
    (@last $field:ident) => { stringify!($field) };
    (@last $field:ident $inner:ident) => { stringify!($inner) };
    ($row:ty: $($field:ident $(. $inner:ident)?),+ $(,)?) => {
        &[$($crate::output::Column {
            name: $crate::output::columns!(@last $field $($inner)?),
            cell: |row: &$row| $crate::output::to_cell(&row.$field$(.$inner)?),
        }),+]
    };
}
pub(crate) use columns;

/// Converts a value to a cell; nothing that this program prints fails to convert.
pub(crate) fn to_cell(value: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Prints rows as a table: a head with the columns' names, and a line for each. Columns of numbers are aligned right.
pub(crate) fn print_table<R>(columns: &[Column<R>], rows: &[R]) {
    for line in table_lines(columns, rows) {
        print_line(line);
    }
}

/// Prints a table; if it is empty, a line that says so with `what`.
pub(crate) fn print_list<R>(what: &str, columns: &[Column<R>], rows: &[R]) {
    match rows {
        [] => print_line(format_args!("no {what}")),
        rows => print_table(columns, rows),
    }
}

fn table_lines<R>(columns: &[Column<R>], rows: &[R]) -> Vec<String> {
    let head: Vec<String> = columns.iter().map(|column| field_words(column.name).to_uppercase()).collect();
    let cells: Vec<Vec<Value>> =
        rows.iter().map(|row| columns.iter().map(|column| (column.cell)(row)).collect()).collect();
    let texts = cells.iter().map(|row| {
        row.iter().zip(columns).map(|(cell, column)| format_field(column.name, cell)).collect::<Vec<_>>()
    });
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(texts).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let is_number = |column: usize| {
        cells.iter().any(|row| row[column].is_number())
            && cells.iter().all(|row| row[column].is_number() || row[column].is_null())
    };
    let layout: Vec<(usize, bool)> =
        (0..columns.len()).map(|column| (width(column), is_number(column))).collect();
    let padded = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&layout).map(|(cell, &(width, right))| {
            if right { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(padded).collect()
}

fn format_columns(row: &Value) -> String {
    let columns = row.as_object().into_iter().flatten();
    columns
        .map(|(name, value)| format!("{} {}", field_words(name), format_field(name, value)))
        .collect::<Vec<_>>()
        .join("  ")
}

/// Returns the name of a field for people: `licence until` for `licenceUntil` and `licence_until`.
fn field_words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(if letter == '_' { ' ' } else { letter.to_ascii_lowercase() });
    }
    words
}

/// Returns the value of a field for people. An end after a whole day is shown as that day, as operators give it.
fn format_field(name: &str, value: &Value) -> String {
    let end = value
        .as_str()
        .filter(|_| ENDS.contains(&field_words(name).as_str()))
        .and_then(|end| end.strip_suffix(MIDNIGHT));
    let day = end.and_then(|day| day.parse::<jiff::civil::Date>().ok()?.yesterday().ok());
    day.map_or_else(|| format_value(value), |day| day.to_string())
}

/// Returns a value for people. A list is joined; a time is shown to the second: `2026-11-21 08:37:00Z`.
fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => format_text(text),
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(parts) => parts.iter().map(format_value).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// Returns a text for people: a time is shown to the second.
pub(crate) fn format_text(text: &str) -> String {
    shorten_time(text).unwrap_or_else(|| text.to_owned())
}

/// Prints the lines of a text from a machine.
pub(crate) fn print_machine_text(text: &str) {
    for line in text.lines() {
        print_line(replace_control_chars(line));
    }
}

/// Replaces control characters: a tool may have written terminal commands.
fn replace_control_chars(line: &str) -> String {
    line.chars()
        .map(|letter| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter })
        .collect()
}

/// Shortens a time as this program writes it: `2026-11-21T08:37:00.000Z`.
fn shorten_time(text: &str) -> Option<String> {
    let (day, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (second, millis) = time.split_once('.')?;
    let is_time = text.len() == 24
        && day.parse::<jiff::civil::Date>().is_ok()
        && second.parse::<jiff::civil::Time>().is_ok()
        && millis.bytes().all(|digit| digit.is_ascii_digit());
    is_time.then(|| format!("{day} {second}Z"))
}

/// Returns a count with its noun, in the singular or the plural: `1 machine`, `2 machines`.
pub fn count_with_noun(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_read_words_and_short_times() {
        for name in ["licenceUntil", "licence_until"] {
            assert_eq!(field_words(name), "licence until");
        }
        assert_eq!(format_value(&json!("2026-11-21T08:37:00.123Z")), "2026-11-21 08:37:00Z");
        for other in
            ["2026-11-21T08:37:00Z", "THE.REST IS Z", "2026-11-21T99:37:00.123Z", "it", "Z", "T.Z", ""]
        {
            assert_eq!(format_value(&json!(other)), other);
        }
        assert_eq!(format_value(&json!(["a", 1, null, true])), "a 1 - yes");
        for (name, time, shown) in [
            ("licenceUntil", "2031-01-01T00:00:00.000Z", "2030-12-31"),
            ("expiresAt", "2031-01-01T00:00:00.000Z", "2030-12-31"),
            ("licenceUntil", "2031-01-01T08:00:00.000Z", "2031-01-01 08:00:00Z"),
            ("lastUsedAt", "2031-01-01T00:00:00.000Z", "2031-01-01 00:00:00Z"),
        ] {
            assert_eq!(format_field(name, &json!(time)), shown);
        }
        assert_eq!(
            (count_with_noun(1, "machine"), count_with_noun(0, "machine")),
            ("1 machine".into(), "0 machines".into())
        );
    }

    #[derive(Clone, Serialize)]
    struct SampleRow {
        id: &'static str,
        steps_max: u64,
        at: Option<u64>,
    }

    #[test]
    fn table_lines_align_numbers_right() {
        let columns: &[Column<SampleRow>] = columns!(SampleRow: id, steps_max, at);
        let rows = [
            SampleRow { id: "a", steps_max: 5, at: None },
            SampleRow { id: "bcd", steps_max: 12_345, at: Some(1) },
        ];
        let lines = table_lines(columns, &rows);
        assert_eq!(lines, ["ID   STEPS MAX  AT", "a            5   -", "bcd      12345   1"]);
        assert_eq!(table_lines(columns, &[]), ["ID  STEPS MAX  AT"]);
    }

    #[test]
    fn log_lines_cannot_steer_the_terminal() {
        assert_eq!(replace_control_chars("a\tb\u{1b}[2Jc\u{9b}d\r"), "a\tb\u{fffd}[2Jc\u{fffd}d\u{fffd}");
    }
}
