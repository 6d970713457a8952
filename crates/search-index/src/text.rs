//! Stems, titles and languages of documents, as the index stores them.

use documents::passages::DocumentPassage;
use text_analysis::{TextLanguage, detect_language, extract_terms};

/// The length of the document's beginning that counts as its title, in bytes.
const TITLE_MAX_BYTES: usize = 240;
/// The longest settings before the text of a Markdown file, in lines.
const SETTINGS_MAX_LINES: usize = 60;
/// The length of the sample that determines the language of a document, in bytes.
const LANGUAGE_SAMPLE_MAX_BYTES: usize = 16 * 1024;

/// Returns the stems of a text separated by spaces, without stop words.
pub(super) fn stem_text(text: &str, language: TextLanguage) -> String {
    let mut out = String::with_capacity(text.len());
    for term in extract_terms(text, language).into_iter().filter(|term| !term.stop) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&term.stem);
    }
    out
}

/// Returns the first lines of a document; of the settings before the text of a Markdown file only the title.
pub(super) fn document_title(pieces: &[DocumentPassage]) -> String {
    let mut out = String::new();
    let mut lines = pieces.iter().flat_map(|piece| piece.text.lines()).map(str::trim).peekable();
    if lines.next_if_eq(&"---").is_some() {
        let settings = lines.by_ref().take(SETTINGS_MAX_LINES).take_while(|line| *line != "---");
        let titles = settings.filter_map(|line| line.strip_prefix("title:"));
        out.extend(titles.map(|title| format!("{} ", title.trim().trim_matches(['"', '\'']))));
    }
    for line in lines.filter(|line| !line.is_empty()).take(3) {
        out.push_str(line);
        out.push(' ');
        if out.len() >= TITLE_MAX_BYTES {
            break;
        }
    }
    out.truncate(out.floor_char_boundary(TITLE_MAX_BYTES));
    out.trim_end().to_owned()
}

/// Detects the language of a document. Defaults to English, which has the least inflection.
pub(super) fn language_of(pieces: &[DocumentPassage]) -> TextLanguage {
    let mut sample = String::new();
    for piece in pieces {
        sample.push_str(&piece.text);
        sample.push('\n');
        if sample.len() >= LANGUAGE_SAMPLE_MAX_BYTES {
            break;
        }
    }
    detect_language(&sample).unwrap_or(TextLanguage::English)
}

/// Builds an FTS query for passages with any of the stems.
pub(super) fn any_of<'a>(stems: impl Iterator<Item = &'a String>) -> String {
    stems.map(|stem| format!("\"{}\"", stem.replace('"', ""))).collect::<Vec<_>>().join(" OR ")
}
