//! The names of files as they are shown: on pages, in answers and in notes.

/// The sign of a blank.
const VISIBLE_BLANK: char = '\u{2423}';

/// Returns a file's name for display: on one line, with the same number of characters.
///
/// Blanks at its ends are made visible, and so are invisible characters of a name that has no others: otherwise it
/// would look like another name, or could not be clicked. The embeddings, overrides and isolates of Unicode's
/// bidirectional algorithm are replaced: with them, a name shows an extension that it does not have. The result is not
/// escaped.
#[must_use]
pub fn shown_name(name: &str) -> String {
    let is_end = if name.chars().all(is_blank) { is_blank } else { char::is_whitespace };
    let after_start = name.trim_start_matches(is_end);
    let inner = after_start.trim_end_matches(is_end);
    let blanks = |text: &str| text.chars().map(|_| VISIBLE_BLANK).collect::<String>();
    let mut shown = blanks(&name[..name.len() - after_start.len()]);
    shown.extend(inner.chars().map(shown_letter));
    shown.push_str(&blanks(&after_start[inner.len()..]));
    shown
}

fn shown_letter(letter: char) -> char {
    match letter {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        '\u{2028}' | '\u{2029}' => ' ',
        _ if letter.is_control() => ' ',
        _ => letter,
    }
}

/// Returns true for characters that are invisible on a page.
fn is_blank(letter: char) -> bool {
    let is_invisible = matches!(
        letter,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{2064}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
    );
    letter.is_whitespace() || letter.is_control() || is_invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_are() {
        let plain = ["", "smlouva o pronájmu.pdf", "שלום\u{200f}.txt", "a  b.txt"];
        plain.iter().for_each(|name| assert_eq!(&shown_name(name), name));
        for (name, shown) in [
            ("invoice\u{202e}fdp.txt", "invoice\u{fffd}fdp.txt"),
            ("a\n# b\u{2028}c\u{7}.txt", "a # b c .txt"),
            (" a.txt\u{a0} ", "\u{2423}a.txt\u{2423}\u{2423}"),
            (" \u{200b}", "\u{2423}\u{2423}"),
            ("\u{3164}", "\u{2423}"),
        ] {
            assert_eq!(shown_name(name), shown);
        }
    }
}
