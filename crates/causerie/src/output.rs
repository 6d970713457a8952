//! Prints the output of commands.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde_json::Value;

/// Prints a line. If the reader has closed the output, as `head` does, the process exits successfully.
pub(crate) fn line(line: impl Display) {
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
pub(crate) fn error_line(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints a JSON object: as it is, or a line for each field.
pub(crate) fn print(answer: &Value, as_json: bool) {
    if as_json {
        line(answer);
        return;
    }
    let Value::Object(fields) = answer else { return };
    for (name, value) in fields {
        match value {
            Value::Array(rows) => {
                for row in rows {
                    line(columns(row));
                }
            }
            Value::Object(_) => line(format_args!("{name}: {}", columns(value))),
            value => line(format_args!("{name}: {}", plain(value))),
        }
    }
}

/// Prints objects as a table: a head of their fields' names, and a line for each.
pub(crate) fn table(heads: &[&str], rows: &[Value]) {
    let cells = rows.iter().map(|row| heads.iter().map(|head| plain(&row[head])).collect::<Vec<_>>());
    let lines: Vec<Vec<String>> =
        std::iter::once(heads.iter().map(|head| head.to_uppercase()).collect()).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for cells in &lines {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        line(padded.collect::<Vec<_>>().join("  ").trim_end());
    }
}

fn columns(row: &Value) -> String {
    let columns = row.as_object().into_iter().flatten();
    columns.map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>().join("  ")
}

pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}
