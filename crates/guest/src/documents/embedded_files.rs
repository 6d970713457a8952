//! Reads files inside Office documents: workbooks and documents that Word and PowerPoint show as pictures.

use std::io::Read;
use std::path::Path;

use super::archive::{Archive, unpacking};
use super::mail::{open, stream};
use super::{Bounds, ExtractError, Nesting};

/// The line in place of a file that is one too many.
const TOO_MANY: &str = "(not read: there are too many)";
/// The most lines of a file that stand in the document.
const LINES_MAX: usize = 10_000;

/// Returns the name of a file inside a document with its text, or why it is not read.
pub(super) fn lines(
    archive: &mut Archive<'_>,
    target: &str,
    nesting: Nesting<'_>,
) -> Result<Vec<String>, ExtractError> {
    let Some(mut part) = archive.part(target)? else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    part.read_to_end(&mut bytes).map_err(|error| unpacking("Office", &error))?;
    let name = target.rsplit('/').next().unwrap_or(target);
    let mut lines = vec![format!("Embedded file: {name}")];
    if !nesting.take_attachment() {
        lines.push(TOO_MANY.to_owned());
        return Ok(lines);
    }
    let bytes = inner(&bytes).unwrap_or(bytes);
    match nesting.extract(Path::new(name), &bytes, &Bounds::default()) {
        Ok(document) => {
            let texts = document.segments.iter().flat_map(|segment| segment.text.lines());
            lines.extend(texts.take(LINES_MAX).map(str::to_owned));
        }
        Err(why) => lines.push(why),
    }
    Ok(lines)
}

/// Returns the file that an object of another program encloses.
fn inner(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = open(bytes).ok()?;
    ["/Package", "/CONTENTS"].iter().find_map(|name| stream(&mut file, name))
}
