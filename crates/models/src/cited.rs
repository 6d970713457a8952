//! Converts the sources that vendors cite.
//!
//! Formats count positions in different units; here a position is a byte offset in the whole text of the step.

use domain::citation::{PassagePlace, VendorCitation};
use serde_json::Value;

/// Longer URLs are dropped.
const URL_MAX_BYTES: usize = 8 * 1024;
/// Longer titles and file names are truncated, in characters.
const TITLE_MAX_CHARS: usize = 300;
/// Longer quotes are truncated.
const QUOTE_MAX_BYTES: usize = 4 * 1024;

/// Cites a web page. Returns `None` without a URL.
pub(crate) fn cite_page(at: usize, url: &str, title: &str, quote: &str) -> Option<VendorCitation> {
    if url.is_empty() || url.len() > URL_MAX_BYTES {
        return None;
    }
    let place = PassagePlace::Web { url: url.to_owned(), title: title_line(title) };
    Some(VendorCitation { at, place, quote: bound_quote(quote) })
}

/// Cites a page of a file that the vendor received. Returns `None` without a name.
pub(crate) fn cite_file(at: usize, name: &str, page: Option<u64>, quote: &str) -> Option<VendorCitation> {
    let name = title_line(name);
    let page = page.and_then(|page| u32::try_from(page).ok()).filter(|page| *page > 0);
    (!name.is_empty()).then(|| VendorCitation {
        at,
        place: PassagePlace::File { path: name, page, lines: None, page_name: None },
        quote: bound_quote(quote),
    })
}

/// Cites a web page or a file, depending on whether `source` is a URL.
pub(crate) fn page_or_file(at: usize, source: &str, title: &str, quote: &str) -> Option<VendorCitation> {
    if source.contains("://") {
        cite_page(at, source, title, quote)
    } else {
        cite_file(at, source, None, quote)
    }
}

/// Returns a string field, or an empty string.
pub(crate) fn text_field<'v>(of: &'v Value, field: &str) -> &'v str {
    of.get(field).and_then(Value::as_str).unwrap_or("")
}

pub(crate) fn number_field(of: &Value, field: &str) -> Option<u64> {
    of.get(field).and_then(Value::as_u64)
}

/// Converts a number of characters to bytes, at most the text's length.
pub(crate) fn bytes_of(text: &str, characters: u64) -> usize {
    let characters = usize::try_from(characters).unwrap_or(usize::MAX);
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

fn title_line(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().filter(|letter| !letter.is_control()).take(TITLE_MAX_CHARS).collect()
}

fn bound_quote(quote: &str) -> String {
    quote[..quote.floor_char_boundary(QUOTE_MAX_BYTES)].to_owned()
}
