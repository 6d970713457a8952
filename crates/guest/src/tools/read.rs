//! `read`: returns a document as numbered passages, one part per call.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use documents::passages::{DocumentPassage, page_name, shown_rows, split_passages};
use documents::{DocumentFormat, DocumentSegment, ExtractBounds, Extracted};
use domain::unread::{UnreadFile, UnreadReason};
use protocol::tool::{FoundPassage, FoundUnread, PASSAGES_MAX, ToolOutput};
use search_index::PassageBatch;
use serde::{Deserialize, Serialize};

use super::PIECE_MAX_BYTES;
use super::child::SerializedProblem;
use super::jail::Jail;
use super::output::text_output;
use super::path::{display_path, plain_line};
use super::shown_image::{self, shown_image};

/// The maximum text of one call, in bytes.
pub(crate) const READ_MAX_BYTES: usize = 32 * 1024;
/// The text after which no further page of a paged document is read, in bytes: twice the output of a call, so that
/// the next page is known.
const PAGES_MAX_BYTES: usize = 2 * READ_MAX_BYTES;
/// The timeout of reading further pages when the pages read so far do not fill a call.
const PAGES_TIME_MAX: Duration = Duration::from_secs(20);

/// Arguments of [`domain::tool::MachineTool::Read`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArguments {
    pub(crate) path: String,
    /// The first page to return, in files with pages.
    #[serde(default)]
    pub(crate) first_page: Option<u32>,
    /// The first line to return, in files with lines.
    #[serde(default)]
    pub(crate) first_line: Option<u32>,
    /// The number of passages of the first page or line to skip, to continue where it is too long for one
    /// call.
    #[serde(default)]
    pub(crate) skip_passages: Option<u32>,
}

/// A document, or the part of it at which reading begins.
#[derive(Debug)]
pub(crate) struct ShownDocument {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) format: DocumentFormat,
    pub(crate) pages: Option<u32>,
    pub(crate) lines: Option<u32>,
    /// The passages from the starting place on.
    pub(crate) pieces: Vec<DocumentPassage>,
    /// The page after the last one that was read, if there are more.
    pub(crate) next_page: Option<u32>,
    pub(crate) notes: Vec<String>,
    pub(crate) truncated: bool,
}

/// Reads a file for a model. For a document that was read by pages, also returns the passages for the index.
pub(crate) fn read_file(
    jail: &Jail,
    arguments: &ReadArguments,
) -> Result<(ToolOutput, Option<PassageBatch>), String> {
    let (path, file) = jail.open_file(&arguments.path).map_err(|error| error.to_string())?;
    let name = display_path(&path);
    if let Some(found) = shown_image(&name, &file) {
        return Ok((shown_image::image_output(&name, found)?, None));
    }
    let is_empty = file.metadata().is_ok_and(|metadata| metadata.len() == 0);
    let bounds = ExtractBounds {
        first_page: arguments.first_page.unwrap_or(1).max(1),
        text_max_bytes: PAGES_MAX_BYTES,
        until: Some(Instant::now() + PAGES_TIME_MAX),
        may_cut: true,
        ..ExtractBounds::default()
    };
    let mut document = match jail.extract_text(&path, file, &bounds) {
        Ok(document) => document,
        Err(error) => {
            let text = format!("{name}: {}", plain_line(&error.to_string()));
            let unread = vec![FoundUnread::from(&UnreadFile { path: name, reason: error.unread_reason() })];
            return Ok((ToolOutput { failed: true, text, unread, ..ToolOutput::default() }, None));
        }
    };
    if document.segments.is_empty() && !document.scans.is_empty() {
        let text = format!("{name}: scanned pages whose text is not recognized");
        let unread = vec![FoundUnread::from(&UnreadFile { path: name, reason: UnreadReason::NoText })];
        return Ok((ToolOutput { failed: true, text, unread, ..ToolOutput::default() }, None));
    }
    if document.segments.is_empty() && document.span.is_none() {
        let text = format!("{name} ({}) holds no text.", document.format.name());
        let unread = UnreadFile { path: name, reason: UnreadReason::NoText };
        let unread = if is_empty { Vec::new() } else { vec![FoundUnread::from(&unread)] };
        return Ok((ToolOutput { unread, ..text_output(text) }, None));
    }
    // Scans are left to the index, which has their text recognized, and files of an archive, which it reads whole.
    let is_kept = document.scans.is_empty() && document.format != DocumentFormat::Archive;
    let batch = document.span.filter(|_| is_kept);
    let batch = batch.map(|_| batch_of(&document, PIECE_MAX_BYTES));
    if !document.scans.is_empty() {
        let pages: Vec<String> = document.scans.iter().take(SCANS_NAMED_MAX).map(u32::to_string).collect();
        let more = if document.scans.len() > SCANS_NAMED_MAX { " and more" } else { "" };
        document.notes.push(format!("scans without text on pages {}{more}", pages.join(", ")));
    }
    if !document.images.is_empty() {
        document.notes.push(format!("the text in its images ({}) is found by search", document.images.len()));
    }
    let output = format_output(ShownDocument::from_extracted(name, path, document, arguments), arguments);
    Ok((output?, batch))
}

impl ShownDocument {
    fn from_extracted(
        name: String,
        path: PathBuf,
        mut document: Extracted,
        arguments: &ReadArguments,
    ) -> Self {
        skip_to_start(&mut document, (arguments.first_page, arguments.first_line));
        let next_page = document.span.filter(|span| span.last < span.of).map(|span| span.last + 1);
        Self {
            name,
            path,
            format: document.format,
            pages: document.pages,
            lines: document.lines,
            pieces: split_passages(&document, PIECE_MAX_BYTES),
            next_page,
            notes: document.notes,
            truncated: document.truncated || !document.cut_pages.is_empty(),
        }
    }
}

/// Formats one call's part of a document.
pub(crate) fn format_output(shown: ShownDocument, arguments: &ReadArguments) -> Result<ToolOutput, String> {
    let ShownDocument { name, path, format, pages, lines, pieces, next_page, notes, truncated } = shown;
    let about = format!("{name}: {}{}", format.name(), describe_extent(format, pages, lines));
    let begins_at_start = arguments.first_page.is_none() && arguments.first_line.is_none();
    let part = ReadPart::from_pieces(pieces, arguments.skip_passages.unwrap_or(0) as usize, next_page);
    let Some(part) = part else { return Err(format!("{about}; there is nothing from there on")) };
    let whole = begins_at_start && arguments.skip_passages.is_none();
    let mut text = format!("{about}. {}", part.describe_continuation(format, (pages, lines), whole));
    for note in &notes {
        text.push_str(&format!(" Note: {}.", plain_line(note)));
    }
    if truncated {
        text.push_str(" The document is longer than the part that can be read.");
    }
    let passages = part.pieces.into_iter().map(|piece| found_passage(&path, piece)).collect();
    Ok(ToolOutput { text, passages, ..ToolOutput::default() })
}

/// The maximum number of scanned pages that are named.
const SCANS_NAMED_MAX: usize = 20;

/// Returns the passages of a document or of some of its pages, for the index.
pub(crate) fn read_batch(
    jail: &Jail,
    path: &str,
    max_bytes: usize,
    pages: Option<(u32, u32)>,
    time: Duration,
) -> Result<PassageBatch, SerializedProblem> {
    let (path, file) = jail.open_file(path).map_err(|error| SerializedProblem {
        reason: UnreadReason::Missing.code().to_owned(),
        text: error.to_string(),
        passing: false,
    })?;
    let (first_page, last_page) = pages.unwrap_or((1, u32::MAX));
    let bounds = ExtractBounds {
        first_page,
        last_page,
        until: Instant::now().checked_add(time),
        ..ExtractBounds::default()
    };
    let document = jail.extract_text(&path, file, &bounds).map_err(|error| SerializedProblem {
        reason: error.unread_reason().code().to_owned(),
        text: plain_line(&error.to_string()),
        passing: error.is_passing(),
    })?;
    Ok(batch_of(&document, max_bytes))
}

fn batch_of(document: &Extracted, max_bytes: usize) -> PassageBatch {
    PassageBatch {
        pieces: split_passages(document, max_bytes),
        span: document.span,
        cut: document.truncated,
        holds_files: document.format.holds_files() || !document.unread_files.is_empty(),
        unread_files: document.unread_files.clone(),
        scans: document.scans.clone(),
        cut_pages: document.cut_pages.clone(),
        damaged_pages: document.damaged_pages.clone(),
        images: document.images.clone(),
        unread_images: document.unread_images.to_counts(),
    }
}

pub(crate) fn found_passage(path: &Path, piece: DocumentPassage) -> FoundPassage {
    let path = display_path(path);
    FoundPassage {
        page_name: page_name(&path, piece.page, piece.heading.as_deref().unwrap_or_default()),
        path,
        page: piece.page,
        lines: piece.lines,
        text: shown_rows(piece.columns.as_deref().unwrap_or_default(), &piece.text),
        ..FoundPassage::default()
    }
}

/// Describes the length of a document: `, 12 pages`.
pub(crate) fn describe_extent(format: DocumentFormat, pages: Option<u32>, lines: Option<u32>) -> String {
    let counted = |count: u32, word: &str| format!(", {count} {word}{}", if count == 1 { "" } else { "s" });
    match (pages, lines) {
        (Some(pages), _) => counted(pages, format.page_word()),
        (None, Some(lines)) => counted(lines, "line"),
        (None, None) => String::new(),
    }
}

/// Drops the text before the starting page and line.
fn skip_to_start(document: &mut Extracted, (first_page, first_line): (Option<u32>, Option<u32>)) {
    let page = first_page.unwrap_or(1);
    document.segments.retain(|segment| segment.page.is_none_or(|own| own >= page));
    let Some(line) = first_line else { return };
    let on_first_page = |segment: &DocumentSegment| segment.page.is_none_or(|own| own == page);
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
            if let Some(columns) = &mut segment.columns {
                let own = &mut columns.own;
                *own = own.start.saturating_sub(skip)..own.end.saturating_sub(skip);
            }
        }
    }
    document.segments.retain(|segment| !segment.text.trim().is_empty());
}

/// Drops the rows before a row of a sheet from the passage that has it.
pub(crate) fn from_line(mut pieces: Vec<DocumentPassage>, (page, line): (u32, u32)) -> Vec<DocumentPassage> {
    for piece in pieces.iter_mut().filter(|piece| piece.page == Some(page)) {
        let Some((first, last)) = piece.lines.filter(|(first, _)| *first < line) else { continue };
        let rows: Vec<&str> = piece.text.split('\n').collect();
        if rows.len() as u64 == u64::from(last - first) + 1 {
            piece.text = rows[(line - first) as usize..].join("\n");
            piece.lines = Some((line, last));
        }
    }
    pieces
}

/// The place where the next call continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextPlace {
    /// The end of the document was reached.
    End,
    /// The start of a page.
    Page(u32),
    /// The start of a line.
    Line(u32),
    /// The line of a sheet in a workbook.
    Both(u32, u32),
    /// The page or line at which this part began, after this number of its passages.
    Within(Place, usize),
}

/// A page and line at which reading can begin.
type Place = (Option<u32>, Option<u32>);

struct ReadPart {
    pieces: Vec<DocumentPassage>,
    next: NextPlace,
}

impl ReadPart {
    /// Returns the passages that fit into one call, after `skip` of the first page or line. Returns `None` if
    /// no passages are left.
    fn from_pieces(mut pieces: Vec<DocumentPassage>, skip: usize, next_page: Option<u32>) -> Option<Self> {
        let Some(begins) = pieces.first().map(piece_place) else {
            // These pages have no text, but later ones may.
            return next_page.map(|page| Self { pieces, next: NextPlace::Page(page) });
        };
        let here = pieces.iter().take_while(|piece| piece_place(piece) == begins).count();
        pieces.drain(..skip.min(here));
        let Some(rest) = take_fitting(&mut pieces, READ_MAX_BYTES) else {
            let next = next_page.map_or(NextPlace::End, NextPlace::Page);
            return (!pieces.is_empty()).then_some(Self { pieces, next });
        };
        let first = piece_place(&pieces[0]);
        let ends = piece_place(&rest);
        if ends == first {
            // A single page or line does not fit: the next call continues in its middle.
            let before = if first == begins { skip.min(here) } else { 0 };
            let next = NextPlace::Within(first, before + pieces.len());
            return Some(Self { pieces, next });
        }
        // The next call begins at the page or line of the first piece that does not fit.
        pieces.retain(|piece| piece_place(piece) != ends);
        Some(Self { pieces, next: next_place(&rest) })
    }

    fn describe_continuation(
        &self,
        format: DocumentFormat,
        (pages, lines): (Option<u32>, Option<u32>),
        whole: bool,
    ) -> String {
        let word = format.page_word();
        match self.next {
            NextPlace::End if whole => "Shown whole.".to_owned(),
            NextPlace::End => "Shown to its end.".to_owned(),
            NextPlace::Page(page) => {
                let last = pages.unwrap_or(page);
                format!("Not whole: {word}s {page}-{last} follow; read with first_page {page}.")
            }
            NextPlace::Line(line) => {
                let last = lines.unwrap_or(line);
                format!("Not whole: lines {line}-{last} follow; read with first_line {line}.")
            }
            NextPlace::Both(page, line) => {
                format!("Not whole: read on with first_page {page} and first_line {line}.")
            }
            NextPlace::Within(place, skip) => {
                let place = match place {
                    (Some(page), Some(line)) => format!("first_page {page}, first_line {line} and "),
                    (Some(page), None) => format!("first_page {page} and "),
                    (None, Some(line)) => format!("first_line {line} and "),
                    (None, None) => String::new(),
                };
                format!(
                    "Not whole: this {word} or line is too long for one call; read on with {place}skip_passages {skip}."
                )
            }
        }
    }
}

/// Returns the place at which reading must begin to reach the piece.
fn piece_place(piece: &DocumentPassage) -> Place {
    (piece.page, piece.lines.map(|(first, _)| first))
}

fn next_place(piece: &DocumentPassage) -> NextPlace {
    match piece_place(piece) {
        (Some(page), Some(line)) => NextPlace::Both(page, line),
        (Some(page), None) => NextPlace::Page(page),
        (None, Some(line)) => NextPlace::Line(line),
        (None, None) => NextPlace::Within((None, None), 0),
    }
}

/// Retains the pieces that fit and returns the first that does not.
fn take_fitting(pieces: &mut Vec<DocumentPassage>, max_bytes: usize) -> Option<DocumentPassage> {
    let mut bytes = 0;
    let fit = pieces
        .iter()
        .position(|piece| {
            bytes += piece.shown_bytes();
            bytes > max_bytes
        })
        .unwrap_or(pieces.len())
        .clamp(1, PASSAGES_MAX);
    (fit < pieces.len()).then(|| pieces.split_off(fit).remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::extract_bytes;

    fn arguments_at(place: Place, skip: Option<usize>) -> ReadArguments {
        let skip_passages = skip.map(|skip| u32::try_from(skip).unwrap());
        ReadArguments { path: "a.txt".into(), first_page: place.0, first_line: place.1, skip_passages }
    }

    fn read_part(document: Extracted, place: Place, skip: usize) -> ReadPart {
        let shown = ShownDocument::from_extracted(
            "/a.txt".into(),
            "a.txt".into(),
            document,
            &arguments_at(place, Some(skip)),
        );
        ReadPart::from_pieces(shown.pieces, skip, shown.next_page).unwrap()
    }

    fn text_document(text: &str) -> Extracted {
        extract_bytes(Path::new("a.txt"), text.as_bytes()).unwrap()
    }

    /// Continues reading at the place that each part names, and returns everything that was read.
    fn read_on(document: &Extracted) -> Vec<DocumentPassage> {
        let (mut at, mut skip) = ((None, None), 0);
        let mut seen = Vec::new();
        for _ in 0..200 {
            let part = read_part(document.clone(), at, skip);
            let bytes: usize = part.pieces.iter().map(|piece| piece.text.len()).sum();
            assert!(bytes <= READ_MAX_BYTES && part.pieces.len() <= PASSAGES_MAX, "{bytes}");
            seen.extend(part.pieces);
            (at, skip) = match part.next {
                NextPlace::End => return seen,
                NextPlace::Page(page) => ((Some(page), None), 0),
                NextPlace::Line(line) => ((None, Some(line)), 0),
                NextPlace::Both(page, line) => ((Some(page), Some(line)), 0),
                NextPlace::Within(place, skip) => (place, skip),
            };
        }
        unreachable!("it does not come to an end");
    }

    fn squeeze_spaces(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn pieces_text(pieces: &[DocumentPassage]) -> String {
        pieces.iter().map(|piece| piece.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn reading_on_reaches_the_end() {
        let text_of = |separator: &str| -> String {
            (1..=3000).map(|line| format!("Řádek {line} je tady.{separator}")).collect()
        };
        for separator in ["\n\n", "\n", " "] {
            let whole = text_of(separator);
            assert_eq!(
                squeeze_spaces(&pieces_text(&read_on(&text_document(&whole)))),
                squeeze_spaces(&whole),
                "{separator:?}"
            );
        }
    }

    #[test]
    fn read_endless_line_comes_in_parts() {
        let line = "slovo ".repeat(60_000);
        for whole in [line.clone(), format!("začátek\n\n{line}\n\nkonec"), "x".repeat(100_000)] {
            let seen = pieces_text(&read_on(&text_document(&whole)));
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert!(letters(&seen) == letters(&whole), "{:.40}", whole);
        }
    }

    #[test]
    fn read_long_page_comes_in_parts() {
        let page = |number, text: String| DocumentSegment {
            page: Some(number),
            lines: None,
            heading: None,
            text,
            inner: None,
            columns: None,
        };
        let segments = (1..=10).map(|number| {
            let words = if number == 5 { 4000 } else { 400 };
            page(number, "Věta o ničem. ".repeat(words).trim_end().to_owned())
        });
        let mut pdf = text_document("x");
        pdf.segments = segments.collect();
        (pdf.format, pdf.pages, pdf.lines) = (DocumentFormat::Pdf, Some(10), None);
        let first = read_part(pdf.clone(), (None, None), 0);
        let NextPlace::Page(next) = first.next else { panic!("{:?}", first.next) };
        assert!(next > 2 && first.pieces.iter().all(|piece| piece.page.unwrap() < next));
        assert!(
            first
                .describe_continuation(DocumentFormat::Pdf, (Some(10), None), true)
                .contains(&format!("read with first_page {next}"))
        );
        let whole: String = pdf.segments.iter().map(|segment| format!("{} ", segment.text)).collect();
        assert_eq!(squeeze_spaces(&pieces_text(&read_on(&pdf))), squeeze_spaces(&whole));
    }
}
