//! Texts of others, made plain: no markup, no control characters, no letters that nobody sees, bounded.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::{Rawtext, ScriptData};
use html5ever::tokenizer::{
    BufferQueue, CharacterTokens, StartTag, TagToken, Token, TokenSink, TokenSinkResult, Tokenizer,
};

/// A fragment of HTML as one line of text: tags go, entities become their letters.
pub(crate) fn plain(fragment: &str) -> String {
    if !fragment.contains(['<', '&']) {
        return line(fragment);
    }
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(fragment));
    let tokenizer = Tokenizer::new(Letters::default(), Default::default());
    // The tokenizer stops at each `</script>` to let a browser run it.
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    line(&tokenizer.sink.text.into_inner())
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
            0xAD | 0x180E | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB
            | 0xE0000..=0xE0FFF)
}

/// The beginning of a text, at most so many bytes, whole characters.
pub(crate) fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[derive(Default)]
struct Letters {
    text: RefCell<String>,
    skipping: RefCell<bool>,
}

impl TokenSink for Letters {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            CharacterTokens(letters) if !*self.skipping.borrow() => {
                self.text.borrow_mut().push_str(&letters);
            }
            TagToken(tag) => {
                let starts = tag.kind == StartTag;
                let raw = matches!(&*tag.name, "script" | "style");
                *self.skipping.borrow_mut() = raw && starts;
                if matches!(&*tag.name, "br" | "p" | "div" | "li") {
                    self.text.borrow_mut().push(' ');
                }
                if raw && starts {
                    let state = if &*tag.name == "script" { ScriptData } else { Rawtext };
                    return TokenSinkResult::RawData(state);
                }
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }
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
