//! Converts untrusted texts to bounded plain text without markup, control characters and invisible characters.

use html::{Token, Tokens};

pub(crate) use ::mcp::text::{cut, is_hidden, line};

/// Converts a fragment of HTML to one line of text: removes tags and decodes entities.
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
