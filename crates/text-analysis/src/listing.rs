//! Distinguishes lists of places from text: tables of contents, indexes, lists of links or of questions without their
//! answers, and commands of typesetting. They name many subjects and say nothing about any.

/// A text with fewer lines is not a list of places.
const LINES_MIN: usize = 3;
/// The share of lines, in per cent, from which a text is a list.
const SHARE_MIN: usize = 60;
/// The longest line of a numbered table of contents, in bytes.
const ENTRY_MAX_BYTES: usize = 90;
/// The share of dots that lead to page numbers, in per cent of the bytes, from which a text is a table of contents, however its
/// lines are broken.
const LEADERS_MIN: usize = 25;

/// Returns true if most lines of a text only name places: `3.1 Purpose ..... 12`, `[Purpose](#purpose)`.
#[must_use]
pub fn is_listing(text: &str) -> bool {
    if let Some(settings) = text.strip_prefix("---\n") {
        // The settings before the text of a Markdown file, unless the text begins with them.
        return settings
            .split_once("\n---\n")
            .is_none_or(|(_, text)| text.trim().is_empty() || is_listing(text));
    }
    let (mut lines, mut entries, mut questions) = (0, 0, 0);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lines += 1;
        entries +=
            usize::from(has_leader(line) || is_link(line) || is_numbered_title(line) || is_typesetting(line));
        questions += usize::from(line.ends_with('?'));
    }
    let entries = entries.max(questions);
    lines >= LINES_MIN && entries * 100 >= lines * SHARE_MIN
        || leaders_length(text) * 100 >= text.len() * LEADERS_MIN
}

/// Returns the length of the dots that lead to page numbers, with the spaces between them.
fn leaders_length(text: &str) -> usize {
    text.matches(" . .").count() * " . .".len() + text.matches("....").count() * "....".len()
}

/// Returns true for dots that lead to a page number.
fn has_leader(line: &str) -> bool {
    (line.contains(". . .") || line.contains("...."))
        && line.ends_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// Returns true for an item that is only a link in Markdown.
fn is_link(line: &str) -> bool {
    let item = line.trim_start_matches(['-', '*', '+', ' ']);
    item.starts_with('[') && item.ends_with(')') && item.matches("](").count() == 1
}

/// Returns true for a title under a number with a point in it: `3.4.1. Purpose`.
fn is_numbered_title(line: &str) -> bool {
    let number = line.split_whitespace().next().unwrap_or_default();
    let body = number.trim_end_matches('.');
    line.len() <= ENTRY_MAX_BYTES
        && body.contains('.')
        && body.chars().all(|c| c.is_ascii_digit() || c == '.')
        && line.len() > number.len()
        && !line.ends_with(['.', ';', ':', ','])
}

/// Returns true for a command of TeX without a sentence.
fn is_typesetting(line: &str) -> bool {
    line.starts_with(['\\', '{']) && line.split_whitespace().count() < 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_from_text() {
        for listing in [
            "1.1 Purpose . . . . . . 3\n1.2 Scope . . . . . 4\n2 Terms ............ 9",
            "- [Terms](#terms)\n- [Scope](#scope)\n- [Fees](#fees)",
            "3.1. Purpose\n3.2. Requirements\n3.3. Specific Options",
            "---\ntitle: Bylaws\nauthor: The club",
            "- How do I add a column?\n- Is this a bug?\n- What is the\nlargest size of a text?\n- Are keys supported?",
            ". . . . 12 1.16 Can I stop a job? . . . . . . . . . . . . 12 1.17 Terms . . . . . . . . .\n. . . 13",
            "\\begin{titlepage}\n\\centering\n{\\Huge Bylaws}",
        ] {
            assert!(is_listing(listing), "{listing}");
        }
        for text in [
            "1.1 The rent is 10,000 crowns.\n1.2 The deposit is one rent.\n1.3 Both are due on the fifth.",
            "---\ntitle: Bylaws\n---\nThe rent is 10,000 crowns.",
            "See [the terms](#terms) for more.\nThe rent is due.\nThe deposit is one rent.",
            "3.1. Purpose\nThis is a purpose.",
            "Is this a bug?\nNo.\nCan I stop it?\nYes, by a command.\nIt ends . . . at once.",
        ] {
            assert!(!is_listing(text), "{text}");
        }
    }
}
