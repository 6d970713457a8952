//! Texts of others, made plain: no markup, no control characters, no letters that nobody sees, bounded.

use crate::html::{Token, Tokens};

/// A fragment of HTML as one line of text: tags go, entities become their letters.
pub(crate) fn plain(fragment: &str) -> String {
    if !fragment.contains(['<', '&']) {
        return line(fragment);
    }
    let mut text = String::with_capacity(fragment.len());
    for token in Tokens::new(fragment) {
        match token {
            Token::Text(letters) => text.push_str(&letters),
            Token::Start(tag) if matches!(tag.name.as_str(), "br" | "p" | "div" | "li") => text.push(' '),
            Token::Start(_) | Token::End(_) => {}
        }
    }
    line(&text)
}

/// One line: each run of white space is a blank, and what is never seen goes.
pub(crate) fn line(text: &str) -> String {
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

/// Characters that steer a terminal or the direction of writing, or that stand for nothing a reader sees: in them
/// a page can tell a model what no person reads.
pub(crate) fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(u32::from(letter),
            0xAD | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFE00..=0xFE0F | 0xFEFF
            | 0xFFF9..=0xFFFB | 0xE0000..=0xE0FFF)
}

/// The beginning of a text, at most so many bytes, whole characters.
pub(crate) fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_what_nobody_sees_goes() {
        assert_eq!(plain("The <strong>lease</strong>&#x27;s&nbsp;end"), "The lease's end");
        assert_eq!(plain("a<br>b<script>alert('<p>')</script>c<style>p{}</style>"), "a bc");
        assert_eq!(plain("2 < 3 &amp; 4 > 3"), "2 < 3 & 4 > 3");
        assert_eq!(plain("<img src=x onerror=alert(1)>"), "");
        assert_eq!(line(" a\u{0}\u{1b}[31m \u{200b} b\u{202e}c\n\td\u{e0041} "), "a[31m bc d");
        assert_eq!(cut("škola", 1), "");
        assert_eq!(cut("škola", 3), "šk");
    }
}
