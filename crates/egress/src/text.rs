//! Converts untrusted texts to bounded plain text without markup, control characters and invisible characters.

use html::{HtmlToken, HtmlTokens};

pub(crate) use ::mcp::text::{cut_bytes, is_hidden, single_line};

/// Converts a fragment of HTML to one line of text: removes tags and decodes entities.
pub(crate) fn html_to_line(fragment: &str) -> String {
    if !fragment.contains(['<', '&']) {
        return single_line(fragment);
    }
    let mut text = String::with_capacity(fragment.len());
    for token in HtmlTokens::new(fragment) {
        match token {
            HtmlToken::Text(letters) => text.push_str(&letters),
            HtmlToken::Start(tag) if matches!(tag.name.as_str(), "br" | "p" | "div" | "li") => text.push(' '),
            HtmlToken::Start(_) | HtmlToken::End(_) => {}
        }
    }
    single_line(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_what_nobody_sees_goes() {
        assert_eq!(html_to_line("The <strong>lease</strong>&#x27;s&nbsp;end"), "The lease's end");
        assert_eq!(html_to_line("a<br>b<script>alert('<p>')</script>c<style>p{}</style>"), "a bc");
        assert_eq!(html_to_line("2 < 3 &amp; 4 > 3"), "2 < 3 & 4 > 3");
        assert_eq!(html_to_line("<img src=x onerror=alert(1)>"), "");
        assert_eq!(single_line(" a\u{0}\u{1b}[31m \u{200b} b\u{202e}c\n\td\u{e0041} "), "a[31m bc d");
        assert_eq!(cut_bytes("škola", 1), "");
        assert_eq!(cut_bytes("škola", 3), "šk");
    }
}
