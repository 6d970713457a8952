//! Reads notebooks of Jupyter as Markdown: their texts, their code, and what it has printed. Without that, the pictures in them, in
//! letters, would be most of their text.

use std::fmt::Write;

use serde::Deserialize;

use super::{ExtractError, Extracted, Format, OUTPUT_MAX_BYTES, text};

/// The most that is read of one output, in bytes.
const OUTPUT_PART_MAX_BYTES: usize = 64 * 1024;

/// A notebook since version 4, or one of version 3, whose cells lie in sheets.
#[derive(Deserialize)]
struct Notebook {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    cells: Vec<Cell>,
    #[serde(default)]
    worksheets: Vec<Sheet>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default)]
    language_info: Option<LanguageInfo>,
}

#[derive(Deserialize)]
struct LanguageInfo {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Sheet {
    #[serde(default)]
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: String,
    #[serde(default, alias = "input")]
    source: Text,
    #[serde(default)]
    outputs: Vec<Output>,
    /// Of headings in version 3.
    #[serde(default)]
    level: Option<u8>,
}

#[derive(Deserialize)]
struct Output {
    /// The printed text, and in version 3 a result.
    #[serde(default)]
    text: Text,
    #[serde(default)]
    data: Data,
    #[serde(default, rename = "ename")]
    error: String,
    #[serde(default, rename = "evalue")]
    error_message: String,
}

/// A result in several forms.
#[derive(Deserialize, Default)]
struct Data {
    #[serde(default, rename = "text/markdown")]
    markdown: Text,
    #[serde(default, rename = "text/plain")]
    plain: Text,
}

/// A text as a whole or by its lines.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(String),
    Lines(Vec<String>),
    Other(serde::de::IgnoredAny),
}

impl Default for Text {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

impl Text {
    fn of(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Lines(lines) => lines.concat(),
            Self::Other(_) => String::new(),
        }
    }
}

/// Extracts the text of a notebook; that of another file with its name as it is.
pub(super) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    match serde_json::from_str::<Notebook>(&text::decode(bytes)) {
        Ok(notebook) if !notebook.cells.is_empty() || !notebook.worksheets.is_empty() => {
            text::extract(markdown(&notebook).as_bytes(), Format::Markdown)
        }
        _ => text::extract(bytes, Format::Text),
    }
}

fn markdown(notebook: &Notebook) -> String {
    let language = notebook.metadata.language_info.as_ref().map_or("", |language| language.name.as_str());
    let mut out = String::new();
    for cell in notebook.cells.iter().chain(notebook.worksheets.iter().flat_map(|sheet| &sheet.cells)) {
        // The reader of text cuts the rest off and says so.
        if out.len() > OUTPUT_MAX_BYTES {
            break;
        }
        let source = cell.source.of();
        match cell.cell_type.as_str() {
            "code" => fenced(&mut out, language, &source),
            "heading" => {
                let marks = "#".repeat(usize::from(cell.level.unwrap_or(1).clamp(1, 6)));
                let _ = write!(out, "{marks} {source}\n\n");
            }
            _ => {
                let _ = write!(out, "{}\n\n", source.trim_end());
            }
        }
        for output in &cell.outputs {
            push_output(&mut out, output);
        }
    }
    out
}

fn push_output(out: &mut String, output: &Output) {
    let markdown = output.data.markdown.of();
    if !markdown.trim().is_empty() {
        let _ = write!(out, "{}\n\n", beginning(markdown.trim_end()));
        return;
    }
    let printed = [output.text.of(), output.data.plain.of(), error(output)].concat();
    fenced(out, "", beginning(&without_escapes(&printed)));
}

fn error(output: &Output) -> String {
    if output.error.is_empty() {
        String::new()
    } else {
        format!("{}: {}", output.error, output.error_message)
    }
}

fn fenced(out: &mut String, language: &str, text: &str) {
    if !text.trim().is_empty() {
        let _ = write!(out, "```{language}\n{}\n```\n\n", text.trim_end());
    }
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(text.len().min(OUTPUT_PART_MAX_BYTES))]
}

/// Removes the escapes by which programs color what they print.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(0, |at| at + 1);
        out.push_str(&part[end..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(notebook: &str) -> String {
        let extracted = extract(notebook.as_bytes()).expect("it is read");
        extracted.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn texts_code_and_prints_are_read_and_pictures_are_not() {
        let read = text(
            r##"{"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": [
            {"cell_type": "markdown", "source": ["# Birds\n", "\n", "A wren."]},
            {"cell_type": "code", "source": "for a in b:\n    print(a)", "outputs": [
                {"output_type": "stream", "text": ["\u001b[31mone\u001b[0m\n", "two\n"]},
                {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo", "text/plain": "<Figure>"}},
                {"output_type": "error", "ename": "KeyError", "evalue": "'lark'", "traceback": ["a"]}]}]}"##,
        );
        let expected = "# Birds\n\nA wren.\n\n```python\nfor a in b:\n    print(a)\n```\n\n```\none\ntwo\n```\n\n```\n<Figure>\n```\n\n\
                        ```\nKeyError: 'lark'\n```";
        assert_eq!(read.trim_end(), expected);
    }

    #[test]
    fn notebooks_of_version_3_are_read() {
        let read = text(
            r#"{"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Birds"},
            {"cell_type": "code", "input": ["1 + 1"], "outputs": [{"output_type": "pyout", "text": ["2"]}]}]}]}"#,
        );
        assert_eq!(read.trim_end(), "## Birds\n\n```\n1 + 1\n```\n\n```\n2\n```");
    }

    #[test]
    fn another_file_of_the_name_is_text() {
        for other in ["{\"cells\": 7, \"bird\": \"a knot\"}", "{\"bird\": \"a knot\"}", "A knot."] {
            assert_eq!(text(other), other);
        }
    }
}
