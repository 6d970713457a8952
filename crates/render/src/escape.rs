//! Escapes text for HTML.

/// Opens and closes the number of a mark within its brackets. These two characters are removed from the text itself.
pub(crate) const MARK_OPEN: char = '\u{e000}';
/// See [`MARK_OPEN`].
pub(crate) const MARK_CLOSE: char = '\u{e001}';

/// Marks a place in Markdown that is rendered. Texts that contain it are not rendered with it.
pub(crate) const CURSOR: char = '\u{e002}';

/// Appends text, escaped for HTML.
pub(crate) fn escape_html(text: &str, out: &mut String) {
    let mut from = 0;
    for (at, found) in text.match_indices(['&', '<', '>', '"', '\u{a0}', MARK_OPEN, MARK_CLOSE]) {
        out.push_str(&text[from..at]);
        from = at + found.len();
        out.push_str(match found {
            "&" => "&amp;",
            "<" => "&lt;",
            ">" => "&gt;",
            "\u{a0}" => "&nbsp;",
            "\"" => "&quot;",
            _ => "",
        });
    }
    out.push_str(&text[from..]);
}
