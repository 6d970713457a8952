//! The sources that vendors name themselves, in the words of the host.
//!
//! Each format tells in its own units how far into the text a claim reaches; here it is bytes of all that the step said.

use domain::citation::{Cited, Place};
use serde_json::Value;

/// The longest address that is taken over.
const URL_MAX_BYTES: usize = 8 * 1024;
/// The longest title or name of a file, in characters; what is beyond is cut.
const TITLE_MAX_CHARS: usize = 300;
/// The longest quote, in bytes; what is beyond is cut.
const QUOTE_MAX_BYTES: usize = 4 * 1024;

/// A page of the web; `None` without an address.
pub(crate) fn page(at: usize, url: &str, title: &str, quote: &str) -> Option<Cited> {
    if url.is_empty() || url.len() > URL_MAX_BYTES {
        return None;
    }
    let place = Place::Web { url: url.to_owned(), title: line(title) };
    Some(Cited { at, place, quote: bounded(quote) })
}

/// A file that the vendor was given, at a page of it; `None` without a name.
pub(crate) fn file(at: usize, name: &str, page: Option<u64>, quote: &str) -> Option<Cited> {
    let name = line(name);
    let page = page.and_then(|page| u32::try_from(page).ok()).filter(|page| *page > 0);
    (!name.is_empty()).then(|| Cited {
        at,
        place: Place::File { path: name, page, lines: None },
        quote: bounded(quote),
    })
}

/// A source of which only its text tells whether it is a page or a file.
pub(crate) fn page_or_file(at: usize, source: &str, title: &str, quote: &str) -> Option<Cited> {
    if source.contains("://") { page(at, source, title, quote) } else { file(at, source, None, quote) }
}

/// The text of a field, empty when there is none.
pub(crate) fn text<'v>(of: &'v Value, field: &str) -> &'v str {
    of.get(field).and_then(Value::as_str).unwrap_or("")
}

/// The number of a field.
pub(crate) fn number(of: &Value, field: &str) -> Option<u64> {
    of.get(field).and_then(Value::as_u64)
}

/// How many bytes so many characters of the text take; the whole of a text that has fewer.
pub(crate) fn bytes_of(text: &str, characters: u64) -> usize {
    let characters = usize::try_from(characters).unwrap_or(usize::MAX);
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

fn line(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().filter(|letter| !letter.is_control()).take(TITLE_MAX_CHARS).collect()
}

fn bounded(quote: &str) -> String {
    quote[..quote.floor_char_boundary(QUOTE_MAX_BYTES)].to_owned()
}
