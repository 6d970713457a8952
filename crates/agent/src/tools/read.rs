//! `read`: a document as numbered passages, a piece at a time.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use domain::image::{IMAGE_MAX_BYTES, ImageKind, ImageRef};
use protocol::tool::{FoundPassage, PASSAGE_MAX_BYTES, PASSAGES_MAX, ReadArguments, ToolOutput};

use protocol::turn::image_out;

use super::PIECE_MAX_BYTES;
use super::jail::Jail;
use super::output::done;
use super::path::{plain, shown};
use crate::documents::passages::{Piece, split};
use crate::documents::{Extracted, Segment, extract};

/// The most text that one call gives, in bytes.
const READ_MAX_BYTES: usize = 32 * 1024;
/// How much of a file tells whether it is an image, in bytes.
const IMAGE_MARK_BYTES: usize = 16;
/// The most text of a page or line that can't be read on from its middle, in bytes.
const WHOLE_MAX_BYTES: usize = 96 * 1024;

pub(crate) fn read(jail: &Jail, arguments: &ReadArguments) -> Result<ToolOutput, String> {
    let (path, file) = jail.file(&arguments.path).map_err(|error| error.to_string())?;
    let name = shown(&path);
    if let Some(found) = image(&name, &file) {
        return shown_image(&name, found);
    }
    let mut document =
        extract(&path, file).map_err(|error| format!("{name}: {}", plain(&error.to_string())))?;
    if document.segments.is_empty() {
        return Ok(done(format!("{name} ({}) holds no text.", document.format.name())));
    }
    let start = (arguments.first_page, arguments.first_line);
    let about = format!("{name}: {}{}", document.format.name(), extent(&document));
    begin(&mut document, start);
    if document.segments.is_empty() {
        return Err(format!("{about}; there is nothing from there on"));
    }
    let part = Part::of(&document);
    let mut text = format!("{about}. {}", part.told(&document, start));
    for note in &document.notes {
        text.push_str(&format!(" Note: {}.", plain(note)));
    }
    if document.truncated {
        text.push_str(" The document is longer than what can be read of it.");
    }
    let passages = part.pieces.into_iter().map(|piece| passage(&path, piece)).collect();
    Ok(ToolOutput { images: Vec::new(), failed: false, text, passages, written: Vec::new() })
}

/// An image with its width and height, or why it can't be shown.
type Found = Result<(ImageRef, (u32, u32)), String>;

/// The image that a file is; `None` when it is none.
pub(crate) fn image(name: &str, mut file: &File) -> Option<Found> {
    let mut bytes = vec![0; IMAGE_MARK_BYTES];
    let read = file.read(&mut bytes);
    let back = file.rewind();
    bytes.truncate(read.ok().filter(|_| back.is_ok())?);
    let kind = ImageKind::of(&bytes)?;
    bytes.clear();
    file.take(IMAGE_MAX_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    let image = ImageRef::of(name, &bytes).map_err(|why| why.to_string());
    Some(image.map(|image| (image, kind.sides(&bytes).unwrap_or_default())))
}

fn shown_image(name: &str, found: Found) -> Result<ToolOutput, String> {
    let (image, (width, height)) =
        found.map_err(|why| format!("{name} is an image that can't be shown: {why}"))?;
    let text = format!("{name}: {}, {width} x {height} pixels.", image.kind.mime());
    Ok(ToolOutput { text, images: vec![image_out(&image)], ..ToolOutput::default() })
}

/// The passages of a document for the index.
pub(crate) fn pieces(jail: &Jail, path: &str, max_bytes: usize) -> Result<Vec<Piece>, String> {
    let (path, file) = jail.file(path).map_err(|error| error.to_string())?;
    let document = extract(&path, file).map_err(|error| plain(&error.to_string()))?;
    Ok(split(&document, max_bytes))
}

pub(crate) fn passage(path: &Path, piece: Piece) -> FoundPassage {
    FoundPassage {
        path: shown(path),
        page: piece.page,
        lines: piece.lines,
        text: piece.text,
        ..FoundPassage::default()
    }
}

/// How long the document is: `, 12 pages`.
pub(crate) fn extent(document: &Extracted) -> String {
    let counted = |count: u32, word: &str| format!(", {count} {word}{}", if count == 1 { "" } else { "s" });
    match (document.pages, document.lines) {
        (Some(pages), _) => counted(pages, document.format.page_word()),
        (None, Some(lines)) => counted(lines, "line"),
        (None, None) => String::new(),
    }
}

/// Drops what stands before the page and line to begin at.
fn begin(document: &mut Extracted, (first_page, first_line): (Option<u32>, Option<u32>)) {
    let page = first_page.unwrap_or(1);
    document.segments.retain(|segment| segment.page.is_none_or(|own| own >= page));
    let Some(line) = first_line else { return };
    let on_first_page = |segment: &Segment| segment.page.is_none_or(|own| own == page);
    document
        .segments
        .retain(|segment| !on_first_page(segment) || segment.lines.is_none_or(|(_, last)| last >= line));
    for segment in document.segments.iter_mut().filter(|segment| on_first_page(segment)) {
        if let Some((first, last)) = segment.lines
            && first < line
        {
            let skip = (line - first) as usize;
            segment.text = segment.text.split('\n').skip(skip).collect::<Vec<_>>().join("\n");
            segment.lines = Some((line, last));
        }
    }
    document.segments.retain(|segment| !segment.text.trim().is_empty());
}

/// Where reading goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing is left.
    End,
    Page(u32),
    Line(u32),
    /// In a workbook: a line of a sheet.
    Both(u32, u32),
    /// What is left of this place can't be begun at.
    Lost,
}

struct Part {
    pieces: Vec<Piece>,
    next: Next,
    /// Whether the end of the last page or line shown is left out.
    cut: bool,
}

impl Part {
    fn of(document: &Extracted) -> Self {
        let all = split(document, PIECE_MAX_BYTES);
        let mut pieces = all;
        let rest = fitting(&mut pieces, READ_MAX_BYTES);
        let Some(rest) = rest else { return Self { pieces, next: Next::End, cut: false } };
        let begins = place(&pieces[0]);
        let ends = place(&rest);
        if ends != begins {
            // Begin anew where the first piece stands that does not fit, its page or line as a whole.
            pieces.retain(|piece| place(piece) != ends);
            return Self { pieces, next: next(&rest), cut: false };
        }
        // One page or line that does not fit at all: as much of it as possible, then what follows.
        let mut large = split(document, PASSAGE_MAX_BYTES);
        let following = large.iter().position(|piece| place(piece) != begins);
        let after = following.map(|at| large.split_off(at).remove(0));
        let cut = fitting(&mut large, WHOLE_MAX_BYTES).is_some();
        let next = match after {
            Some(after) => next(&after),
            None if cut => following_line(document, begins),
            None => Next::End,
        };
        Self { pieces: large, next, cut }
    }

    fn told(&self, document: &Extracted, start: (Option<u32>, Option<u32>)) -> String {
        let word = document.format.page_word();
        let mut text = match (self.next, start) {
            (Next::End, (None, None)) => "Shown whole.".to_owned(),
            (Next::End, _) => "Shown to its end.".to_owned(),
            (Next::Page(page), _) => {
                let last = document.pages.unwrap_or(page);
                format!("Not whole: {word}s {page}-{last} follow; read with first_page {page}.")
            }
            (Next::Line(line), _) => {
                let last = document.lines.unwrap_or(line);
                format!("Not whole: lines {line}-{last} follow; read with first_line {line}.")
            }
            (Next::Both(page, line), _) => {
                format!("Not whole: read on with first_page {page} and first_line {line}.")
            }
            (Next::Lost, _) => String::new(),
        };
        if self.cut {
            let space = if text.is_empty() { "" } else { " " };
            text.push_str(&format!(
                "{space}The first {word} or line is too long to be shown whole; use find or search."
            ));
        }
        text
    }
}

/// Where reading can begin that reaches the piece.
fn place(piece: &Piece) -> (Option<u32>, Option<u32>) {
    (piece.page, piece.lines.map(|(first, _)| first))
}

fn next(piece: &Piece) -> Next {
    match place(piece) {
        (Some(page), Some(line)) => Next::Both(page, line),
        (Some(page), None) => Next::Page(page),
        (None, Some(line)) => Next::Line(line),
        (None, None) => Next::Lost,
    }
}

/// The line after one that is too long, if there is any.
fn following_line(document: &Extracted, (page, line): (Option<u32>, Option<u32>)) -> Next {
    let last = document
        .segments
        .iter()
        .filter(|segment| segment.page == page)
        .filter_map(|segment| segment.lines)
        .next_back();
    match (page, line, last) {
        (None, Some(line), Some((_, last))) if last > line => Next::Line(line + 1),
        (Some(page), Some(line), Some((_, last))) if last > line => Next::Both(page, line + 1),
        _ => Next::Lost,
    }
}

/// Keeps the pieces that fit; gives the first that does not.
fn fitting(pieces: &mut Vec<Piece>, max_bytes: usize) -> Option<Piece> {
    let mut bytes = 0;
    let fit = pieces
        .iter()
        .position(|piece| {
            bytes += piece.text.len();
            bytes > max_bytes
        })
        .unwrap_or(pieces.len())
        .clamp(1, PASSAGES_MAX);
    (fit < pieces.len()).then(|| pieces.split_off(fit).remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::extract_bytes;

    fn document(text: &str) -> Extracted {
        extract_bytes(Path::new("a.txt"), text.as_bytes()).unwrap()
    }

    /// Reading on from where each part says reaches every line once.
    #[test]
    fn reading_on_reaches_the_end() {
        let text = (1..=3000).map(|line| format!("Řádek {line} je tady.\n\n")).collect::<String>();
        let mut line = None;
        let mut seen = String::new();
        for _ in 0..20 {
            let mut rest = document(&text);
            begin(&mut rest, (None, line));
            let part = Part::of(&rest);
            assert!(part.pieces.len() <= PASSAGES_MAX);
            for piece in &part.pieces {
                seen.push_str(&piece.text);
                seen.push('\n');
            }
            match part.next {
                Next::Line(next) => line = Some(next),
                Next::End => break,
                other => panic!("{other:?}"),
            }
        }
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&seen), squeezed(&text));
    }

    #[test]
    fn one_endless_line_is_cut_and_passed() {
        let text = format!("{}\nkonec", "slovo ".repeat(60_000));
        let part = Part::of(&document(&text));
        assert!(part.cut);
        assert_eq!(part.next, Next::Line(2));
        let alone = Part::of(&document(&"slovo ".repeat(60_000)));
        assert_eq!(alone.next, Next::Lost);
    }

    #[test]
    fn pages_are_begun_as_a_whole() {
        let page = |number, text: String| Segment { page: Some(number), lines: None, heading: None, text };
        let segments = (1..=10).map(|number| page(number, "Věta o ničem. ".repeat(400))).collect();
        let mut pdf = document("x");
        pdf.segments = segments;
        (pdf.format, pdf.pages, pdf.lines) = (crate::documents::Format::Pdf, Some(10), None);
        let part = Part::of(&pdf);
        let Next::Page(next) = part.next else { panic!("{:?}", part.next) };
        assert!(next > 2 && part.pieces.iter().all(|piece| piece.page.unwrap() < next));
        assert!(part.told(&pdf, (None, None)).contains(&format!("read with first_page {next}")));
    }
}
