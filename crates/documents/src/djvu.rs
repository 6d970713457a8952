//! Reads DjVu documents: the text that lies below the images of their pages. Pages without one are scans, whose foreground is drawn for
//! text recognition.

use std::time::Instant;

pub(super) use drawing::render_djvu_page;
pub(super) use structure::is_djvu;
use structure::{DjvuPage, Structure};

use super::output::clean_line;
use super::{
    DocumentFormat, DocumentSegment, ExtractBounds, ExtractError, Extracted, OUTPUT_MAX_BYTES, PAGES_MAX,
    PageRange,
};

mod drawing;
mod structure;

/// The maximum number of notes about unreadable pages.
const NOTES_MAX: usize = 20;

pub(super) fn extract_djvu(bytes: &[u8], bounds: &ExtractBounds) -> Result<Extracted, ExtractError> {
    let document = Structure::from_bytes(bytes)?;
    let pages = u32::try_from(document.pages.len()).unwrap_or(u32::MAX);
    if pages == 0 {
        return Err(ExtractError::broken_file("DjVu", "it has no pages"));
    }
    let of = pages.min(PAGES_MAX);
    let (first, last) = (bounds.first_page.max(1), bounds.last_page.min(of));
    let (mut segments, mut notes, mut scans) = (Vec::new(), Vec::new(), Vec::new());
    let (mut next, mut read_bytes) = (first, 0);
    let (mut cut_pages, mut damaged_pages) = (Vec::new(), Vec::new());
    while next <= last {
        let is_late = bounds.until.is_some_and(|until| Instant::now() >= until);
        if next > first && (is_late || read_bytes >= bounds.text_max_bytes) {
            break;
        }
        match text_of(document.pages[next as usize - 1]) {
            PageText::Text(mut text) => {
                let room = OUTPUT_MAX_BYTES - read_bytes;
                if text.len() > room && next > first {
                    break;
                }
                if text.len() > room {
                    cut_pages.push(next);
                }
                text.truncate(text.floor_char_boundary(room));
                read_bytes += text.len();
                segments.push(DocumentSegment {
                    page: Some(next),
                    lines: None,
                    heading: None,
                    text,
                    inner: None,
                    columns: None,
                });
            }
            PageText::Blank => {}
            PageText::Scan => scans.push(next),
            // It may be recognized; otherwise it is reported as a scan.
            PageText::Damaged => {
                if notes.len() < NOTES_MAX {
                    notes.push(format!("page {next} could not be read whole"));
                }
                scans.push(next);
                damaged_pages.push(next);
            }
        }
        next += 1;
    }
    let read = next - 1;
    if segments.is_empty() && scans.is_empty() && first == 1 && read >= of {
        return Err(ExtractError::NoText { pages });
    }
    Ok(Extracted {
        segments,
        pages: Some(pages),
        truncated: pages > of && read >= of,
        notes,
        span: Some(PageRange { first, last: read, of }),
        scans,
        cut_pages,
        damaged_pages,
        ..Extracted::empty(DocumentFormat::Djvu)
    })
}

/// The text of a page.
enum PageText {
    Text(String),
    /// The page shows nothing.
    Blank,
    /// The page shows something and has no text.
    Scan,
    Damaged,
}

fn text_of(page: Option<DjvuPage<'_>>) -> PageText {
    let Some(page) = page else { return PageText::Damaged };
    let text = match page.decode_text() {
        None => String::new(),
        Some(Ok(text)) => join_page_lines(&String::from_utf8_lossy(&text)),
        Some(Err(_)) => return PageText::Damaged,
    };
    match text.is_empty() {
        false => PageText::Text(text),
        true if page.has_image() => PageText::Scan,
        true => PageText::Blank,
    }
}

/// Returns the lines of a page, with a blank one between paragraphs. A word that is split at the end of a line is joined there.
fn join_page_lines(text: &str) -> String {
    /// The ends of columns, regions and paragraphs.
    const ENDS: [char; 3] = ['\u{b}', '\u{1d}', '\u{1f}'];
    let mut out = String::new();
    let mut is_begun = false;
    for line in text.split_inclusive(ENDS).flat_map(|paragraph| paragraph.split('\n')) {
        let is_end = line.ends_with(ENDS);
        let line = clean_line(line);
        let mut rest = line.as_str();
        if !rest.is_empty() {
            if is_begun && is_split(&out, rest) {
                let word = rest.split_inclusive(' ').next().unwrap_or_default();
                out.pop();
                out.push_str(word.trim_end());
                rest = &rest[word.len()..];
            }
            if !rest.is_empty() {
                out.push_str(if out.is_empty() || out.ends_with("\n\n") { "" } else { "\n" });
                out.push_str(rest);
            }
            is_begun = true;
        }
        if is_end && is_begun {
            out.push_str("\n\n");
            is_begun = false;
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns true if the last word of a text continues on the next line.
fn is_split(text: &str, next: &str) -> bool {
    let word = text.strip_suffix('-').unwrap_or_default();
    word.ends_with(char::is_alphabetic) && next.starts_with(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_page_lines_joins_split_words() {
        let text = "A siskin sings in the ever-\ngreen tree.\n\u{1f}\u{1d}\u{b}Its nest \n is small.\u{1f}\n\u{1f} 1 - \n5";
        assert_eq!(
            join_page_lines(text),
            "A siskin sings in the evergreen\ntree.\n\nIts nest\nis small.\n\n1 -\n5"
        );
        assert_eq!(join_page_lines(" \u{1f}\n"), "");
    }
}
