//! Fuzzes documents of all formats: the extracted text stays within its bounds and has no control characters.

use std::path::Path;
use std::sync::Once;

use documents::{Extracted, OUTPUT_MAX_BYTES, PAGES_MAX, extract_bytes};

/// Names whose extensions determine the format if the content does not.
const NAMES: [&str; 8] = ["a.pdf", "a.docx", "a.doc", "a.ppt", "a.eml", "a.xls", "a.html", "a"];

/// Runs one input. Its first byte selects the name.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    let Some((&how, content)) = data.split_first() else { return };
    let name = NAMES[usize::from(how) % NAMES.len()];
    assert_promises(name, content);
}

/// Extracts a document.
///
/// # Panics
/// Panics when a promise is broken.
pub(crate) fn assert_promises(name: &str, content: &[u8]) {
    static TOLERANT: Once = Once::new();
    TOLERANT.call_once(tolerate_libraries);
    match extract_bytes(Path::new(name), content) {
        Ok(document) => assert_bounds(&document),
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains(char::is_control) && message.len() < 1000, "{message:?}");
        }
    }
}

/// Reports only panics of the project's code, which end a run: the reader catches panics of parsing libraries.
fn tolerate_libraries() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains("/registry/")) {
            report(panic);
        }
    }));
}

fn assert_bounds(document: &Extracted) {
    let bytes: usize = document.segments.iter().map(|segment| segment.text.len()).sum();
    assert!(bytes <= OUTPUT_MAX_BYTES, "{bytes} bytes");
    for segment in &document.segments {
        assert!(!segment.text.is_empty());
        let odd = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
        assert!(!segment.text.contains(odd), "{:?}", segment.text);
        assert!(segment.page.is_none_or(|page| (1..=PAGES_MAX).contains(&page)));
        assert!(segment.lines.is_none_or(|(first, last)| first >= 1 && first <= last));
        assert!(segment.inner.is_none() || segment.page.is_some());
    }
    let pages = document.pages.filter(|_| document.span.is_some());
    let places =
        document.images.iter().map(|image| image.page).chain([document.unread_files.last().copied()]);
    for place in places.flatten().filter(|_| pages.is_some()) {
        assert!(pages.is_some_and(|pages| (1..=pages).contains(&place)), "page {place} of {pages:?}");
    }
}
