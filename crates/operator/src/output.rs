//! Prints the output of commands.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde_json::Value;

/// The fields that end something.
const ENDS: [&str; 2] = ["licenceUntil", "expiresAt"];
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

/// Prints a JSON object as JSON, or as one line per field.
pub fn print_object(answer: &Value, as_json: bool) {
    if as_json {
        print_line(answer);
        return;
    }
    let Value::Object(fields) = answer else { return };
    for (name, value) in fields {
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

/// Prints objects as a table: a head of their fields' names, and a line for each. Columns of numbers are aligned right.
pub fn print_table(heads: &[&str], rows: &[Value]) {
    for row in table_lines(heads, rows) {
        print_line(row);
    }
}

fn table_lines(heads: &[&str], rows: &[Value]) -> Vec<String> {
    let cells =
        rows.iter().map(|row| heads.iter().map(|head| format_field(head, &row[head])).collect::<Vec<_>>());
    let lines: Vec<Vec<String>> =
        std::iter::once(heads.iter().map(|head| field_words(head).to_uppercase()).collect())
            .chain(cells)
            .collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let is_number = |head: &&str| {
        rows.iter().any(|row| row[*head].is_number())
            && rows.iter().all(|row| row[*head].is_number() || row[*head].is_null())
    };
    let columns: Vec<(usize, bool)> =
        heads.iter().enumerate().map(|(column, head)| (width(column), is_number(head))).collect();
    let padded = |cells: &Vec<String>| {
        let cells = cells.iter().zip(&columns).map(|(cell, &(width, right))| {
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

/// Returns the name of a field for people: `licence until` for `licenceUntil`.
pub fn field_words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// Returns the value of a field for people. An end after a whole day is shown as that day, as operators give it.
fn format_field(name: &str, value: &Value) -> String {
    let end = value.as_str().filter(|_| ENDS.contains(&name)).and_then(|end| end.strip_suffix(MIDNIGHT));
    let day = end.and_then(|day| day.parse::<jiff::civil::Date>().ok()?.yesterday().ok());
    day.map_or_else(|| format_value(value), |day| day.to_string())
}

/// Returns a value for people. A list is joined; a time is shown to the second: `2026-11-21 08:37:00Z`.
pub fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => shorten_time(text).unwrap_or_else(|| text.clone()),
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(parts) => parts.iter().map(format_value).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
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
        assert_eq!(field_words("licenceUntil"), "licence until");
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

    #[test]
    fn table_lines_align_numbers_right() {
        let rows =
            [json!({"id": "a", "steps": 5, "at": null}), json!({"id": "bcd", "steps": 12_345, "at": 1})];
        let lines = table_lines(&["id", "steps", "at"], &rows);
        assert_eq!(lines, ["ID   STEPS  AT", "a        5   -", "bcd  12345   1"]);
        assert_eq!(table_lines(&["accountId"], &[]), ["ACCOUNT ID"]);
    }
}
