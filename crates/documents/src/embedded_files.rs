//! Reads files inside Office documents: workbooks and documents that Word and PowerPoint show as pictures.

use std::io::Read;
use std::path::Path;

use super::archive::{ZipReader, unpack_error};
use super::mail::{open_compound_file, read_compound_stream};
use super::{ExtractBounds, ExtractError, Nesting};

/// The line in place of a file beyond the limit.
pub(super) const TOO_MANY: &str = "(not read: there are too many)";
/// The maximum number of lines of a file that are included in the document.
const LINES_MAX: usize = 10_000;

/// A file inside a document: its name with its text, or the reason why it is not read.
#[derive(Debug, Default)]
pub(super) struct EmbeddedFile {
    pub(super) lines: Vec<String>,
    /// True if it was read in part.
    pub(super) is_cut: bool,
}

/// Returns the line above the text of a file.
pub(super) fn embedded_file_title(name: &str) -> String {
    format!("Embedded file: {name}")
}

/// Reads a file inside a document; it has no lines if the part does not exist.
pub(super) fn read_embedded_file(
    archive: &mut ZipReader<'_>,
    target: &str,
    nesting: Nesting<'_>,
) -> Result<EmbeddedFile, ExtractError> {
    let Some(mut part) = archive.open_part(target)? else { return Ok(EmbeddedFile::default()) };
    let mut bytes = Vec::new();
    part.read_to_end(&mut bytes).map_err(|error| unpack_error("Office", &error))?;
    let name = target.rsplit('/').next().unwrap_or(target);
    let mut lines = vec![embedded_file_title(name)];
    if !nesting.take_attachment() {
        lines.push(TOO_MANY.to_owned());
        return Ok(EmbeddedFile { lines, is_cut: false });
    }
    let bytes = find_enclosed_file(&bytes).unwrap_or(bytes);
    let mut is_cut = false;
    match nesting.extract_inner(Path::new(name), &bytes, &ExtractBounds::default()) {
        Ok(document) => {
            let mut texts = document.segments.iter().flat_map(|segment| segment.text.lines());
            lines.extend(texts.by_ref().take(LINES_MAX).map(str::to_owned));
            is_cut = !document.is_whole() || texts.next().is_some();
        }
        Err(why) => lines.push(why),
    }
    Ok(EmbeddedFile { lines, is_cut })
}

/// Returns the file that an object of another program encloses.
fn find_enclosed_file(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = open_compound_file(bytes).ok()?;
    ["/Package", "/CONTENTS"].iter().find_map(|name| read_compound_stream(&mut file, name))
}
