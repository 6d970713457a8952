//! Reads notebooks of Jupyter as Markdown: their texts, their code and its output. Otherwise, encoded pictures would be most of
//! their text.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use super::embedded_images::{LISTED_MAX, retain_recognizable_of};
use super::{DocumentFormat, EmbeddedImage, ExtractError, Extracted, OUTPUT_MAX_BYTES, loose_images, text};

/// The name of the format in the names of its images, which are numbered.
pub(super) const IMAGES: &str = "ipynb";

/// The maximum number of bytes that are read of one output.
const OUTPUT_PART_MAX_BYTES: usize = 64 * 1024;

/// A notebook since version 4, or one of version 3, whose cells lie in sheets.
#[derive(Deserialize)]
struct Notebook {
    #[serde(default)]
    metadata: NotebookMetadata,
    #[serde(default)]
    cells: Vec<NotebookCell>,
    #[serde(default)]
    worksheets: Vec<NotebookSheet>,
}

#[derive(Deserialize, Default)]
struct NotebookMetadata {
    #[serde(default)]
    language_info: Option<LanguageInfo>,
}

#[derive(Deserialize)]
struct LanguageInfo {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct NotebookSheet {
    #[serde(default)]
    cells: Vec<NotebookCell>,
}

#[derive(Deserialize)]
struct NotebookCell {
    cell_type: String,
    #[serde(default, alias = "input")]
    source: NotebookText,
    #[serde(default)]
    outputs: Vec<NotebookOutput>,
    /// The level of headings in version 3.
    #[serde(default)]
    level: Option<u8>,
    #[serde(default)]
    attachments: Attachments,
}

/// The files of a cell by their names, each in several forms.
#[derive(Deserialize)]
#[serde(untagged)]
enum Attachments {
    Named(BTreeMap<String, NotebookOutputData>),
    Other(serde::de::IgnoredAny),
}

impl Default for Attachments {
    fn default() -> Self {
        Self::Named(BTreeMap::new())
    }
}

#[derive(Deserialize)]
struct NotebookOutput {
    /// The printed text, and in version 3 a result.
    #[serde(default)]
    text: NotebookText,
    #[serde(default)]
    data: NotebookOutputData,
    #[serde(default, rename = "ename")]
    error: String,
    #[serde(default, rename = "evalue")]
    error_message: String,
    /// The forms of a result in version 3.
    #[serde(default)]
    png: NotebookText,
    #[serde(default)]
    jpeg: NotebookText,
}

/// A result in several forms.
#[derive(Deserialize, Default)]
struct NotebookOutputData {
    #[serde(default, rename = "text/markdown")]
    markdown: NotebookText,
    #[serde(default, rename = "text/plain")]
    plain: NotebookText,
    #[serde(default, rename = "image/png")]
    png: NotebookText,
    #[serde(default, rename = "image/jpeg")]
    jpeg: NotebookText,
    #[serde(default, rename = "image/gif")]
    gif: NotebookText,
}

impl NotebookOutputData {
    /// Returns the encoded picture in one of its forms; empty if it is missing.
    fn first_picture(&self) -> String {
        first_of([&self.png, &self.jpeg, &self.gif])
    }
}

/// Returns the first text that is not empty.
fn first_of<const FORMS: usize>(forms: [&NotebookText; FORMS]) -> String {
    forms.into_iter().map(NotebookText::to_text).find(|text| !text.is_empty()).unwrap_or_default()
}

/// A text as a whole or by its lines.
#[derive(Deserialize)]
#[serde(untagged)]
enum NotebookText {
    Whole(String),
    Lines(Vec<String>),
    Other(serde::de::IgnoredAny),
}

impl Default for NotebookText {
    fn default() -> Self {
        Self::Lines(Vec::new())
    }
}

impl NotebookText {
    fn to_text(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Lines(lines) => lines.concat(),
            Self::Other(_) => String::new(),
        }
    }
}

/// Extracts the text of a notebook; another file with its extension is read as plain text.
pub(super) fn extract_notebook(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let Some(notebook) = parse_notebook(bytes) else {
        return text::extract_text(bytes, DocumentFormat::Text);
    };
    let NotebookMarkdown { text, pictures, .. } = render_markdown(&notebook);
    let mut extracted = text::extract_text(text.as_bytes(), DocumentFormat::Markdown)?;
    let lines = extracted.lines.unwrap_or_default();
    let place = |(number, picture): (usize, &NotebookPicture)| EmbeddedImage {
        part: picture_part_name(number),
        page: None,
        line: Some(picture.line.clamp(1, lines.max(1))),
        heading: None,
    };
    // A picture belongs to the text around it.
    if lines > 0 {
        extracted.images = pictures.iter().enumerate().map(place).collect();
    }
    let find = |part: &str| {
        let (_, name) = part.split_once(':')?;
        loose_images::decode_base64_image(&pictures.get(picture_number(name)?)?.letters)
    };
    retain_recognizable_of(&mut extracted, find);
    Ok(extracted)
}

/// Returns the picture of a notebook with this number.
pub(super) fn find_notebook_image(bytes: &[u8], name: &str) -> Option<Vec<u8>> {
    loose_images::decode_base64_image(
        &render_markdown(&parse_notebook(bytes)?).pictures.get(picture_number(name)?)?.letters,
    )
}

/// The end of an image's name; the name of a damaged one shows that it should be one.
const EXTENSION: &str = ".png";

fn picture_part_name(number: usize) -> String {
    loose_images::image_part_name(IMAGES, format_args!("{number}{EXTENSION}"))
}

fn picture_number(name: &str) -> Option<usize> {
    name.strip_suffix(EXTENSION)?.parse().ok()
}

/// Returns the notebook in a file that is one.
fn parse_notebook(bytes: &[u8]) -> Option<Notebook> {
    let notebook = serde_json::from_str::<Notebook>(&text::decode_text(bytes)).ok()?;
    (!notebook.cells.is_empty() || !notebook.worksheets.is_empty()).then_some(notebook)
}

/// The text of a notebook, and its pictures.
#[derive(Default)]
struct NotebookMarkdown {
    text: String,
    pictures: Vec<NotebookPicture>,
    /// The part of the text whose lines were counted, and their number.
    counted_bytes: usize,
    counted_lines: u32,
}

/// An encoded picture, and the last line before it.
struct NotebookPicture {
    letters: String,
    line: u32,
}

impl NotebookMarkdown {
    /// Adds a picture after the last line.
    fn add_picture(&mut self, letters: String) {
        if letters.is_empty() || self.pictures.len() >= LISTED_MAX {
            return;
        }
        let mut bytes = self.text.as_bytes()[self.counted_bytes..].iter().peekable();
        while let Some(byte) = bytes.next() {
            let ends_line = *byte == b'\n' || *byte == b'\r' && bytes.peek() != Some(&&b'\n');
            self.counted_lines = self.counted_lines.saturating_add(u32::from(ends_line));
        }
        self.counted_bytes = self.text.len();
        // The text before it ends with an empty line.
        self.pictures.push(NotebookPicture { letters, line: self.counted_lines.saturating_sub(1) });
    }

    fn add_output(&mut self, output: &NotebookOutput) {
        let markdown = output.data.markdown.to_text();
        if markdown.trim().is_empty() {
            let printed = [output.text.to_text(), output.data.plain.to_text(), error_text(output)].concat();
            self.add_fenced("", output_start(&without_escapes(&printed)));
        } else {
            let _ = write!(self.text, "{}\n\n", output_start(markdown.trim_end()));
        }
        let picture = output.data.first_picture();
        self.add_picture(if picture.is_empty() { first_of([&output.png, &output.jpeg]) } else { picture });
    }

    fn add_fenced(&mut self, language: &str, text: &str) {
        if !text.trim().is_empty() {
            let _ = write!(self.text, "```{language}\n{}\n```\n\n", text.trim_end());
        }
    }
}

fn render_markdown(notebook: &Notebook) -> NotebookMarkdown {
    let language = notebook.metadata.language_info.as_ref().map_or("", |language| language.name.as_str());
    let mut out = NotebookMarkdown::default();
    for cell in notebook.cells.iter().chain(notebook.worksheets.iter().flat_map(|sheet| &sheet.cells)) {
        // The text reader cuts the rest off and reports that.
        if out.text.len() > OUTPUT_MAX_BYTES {
            break;
        }
        let source = cell.source.to_text();
        match cell.cell_type.as_str() {
            "code" => out.add_fenced(language, &source),
            "heading" => {
                let marks = "#".repeat(usize::from(cell.level.unwrap_or(1).clamp(1, 6)));
                let _ = write!(out.text, "{marks} {source}\n\n");
            }
            _ => {
                let _ = write!(out.text, "{}\n\n", source.trim_end());
            }
        }
        if let Attachments::Named(files) = &cell.attachments {
            files.values().for_each(|file| out.add_picture(file.first_picture()));
        }
        cell.outputs.iter().for_each(|output| out.add_output(output));
    }
    out
}

fn error_text(output: &NotebookOutput) -> String {
    if output.error.is_empty() {
        String::new()
    } else {
        format!("{}: {}", output.error, output.error_message)
    }
}

fn output_start(text: &str) -> &str {
    &text[..text.floor_char_boundary(text.len().min(OUTPUT_PART_MAX_BYTES))]
}

/// Removes the escape sequences that color output.
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

    fn notebook_text(notebook: &str) -> String {
        let extracted = extract_notebook(notebook.as_bytes()).expect("it is read");
        extracted.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn extract_notebook_text_without_pictures() {
        let read = notebook_text(
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
        let read = notebook_text(
            r#"{"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Birds"},
            {"cell_type": "code", "input": ["1 + 1"], "outputs": [{"output_type": "pyout", "text": ["2"]}]}]}]}"#,
        );
        assert_eq!(read.trim_end(), "## Birds\n\n```\n1 + 1\n```\n\n```\n2\n```");
    }

    #[test]
    fn extract_notebook_other_file_as_text() {
        for other in ["{\"cells\": 7, \"bird\": \"a knot\"}", "{\"bird\": \"a knot\"}", "A knot."] {
            assert_eq!(notebook_text(other), other);
        }
    }
}
