//! Sanitizes external texts: removes control and invisible characters, and limits the length.

/// Returns the text as one line: collapses white space and removes invisible characters.
#[must_use]
pub fn single_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let before = out.len();
        if !out.is_empty() {
            out.push(' ');
        }
        let start = out.len();
        out.extend(word.chars().filter(|letter| !is_hidden(*letter)));
        if out.len() == start {
            out.truncate(before);
        }
    }
    out
}

/// Returns true for characters that control a terminal or the text direction, or are invisible: with them a page could
/// show a model text that people do not see.
#[must_use]
pub fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(u32::from(letter),
            0xAD | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFE00..=0xFE0F | 0xFEFF
            | 0xFFF9..=0xFFFB | 0xE0000..=0xE0FFF)
}

/// Returns at most `max_bytes` bytes of whole characters.
#[must_use]
pub fn cut_bytes(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Returns the text with its lines, without invisible characters.
#[must_use]
pub fn clean_paragraphs(text: &str) -> String {
    let seen = |letter: &char| matches!(letter, '\n' | '\t') || !is_hidden(*letter);
    text.chars().filter(seen).collect::<String>().trim().to_owned()
}
