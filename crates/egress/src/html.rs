//! HTML as a stream of tags and texts, read in one pass whatever it is: time and memory grow with its length alone,
//! not with its depth, its attributes, or what is left open in it. Nothing here is shown as HTML again, so what
//! matters is what a reader sees, not every rule of what browsers make of broken pages.
//!
//! The tokenizer of `html5ever` was measured and not taken: it compares each attribute of a tag with all before it, so
//! that a page of one tag takes time by the square of its length (5 s for 208 KiB, 34 s for 868 KiB in a build for
//! tests; hours for the 10 MiB that a page may have), on the host. Its tables of named characters are used.

use std::borrow::Cow;

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};

/// How many attributes of a tag are looked at.
const ATTRIBUTES_MAX: usize = 32;
/// The longest attribute's value that is looked at, in bytes.
const VALUE_MAX_BYTES: usize = 4096;
/// The longest name of a character that is looked up, in bytes.
const ENTITY_MAX_BYTES: usize = 33;

/// A piece of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// Letters, with entities decoded.
    Text(Cow<'a, str>),
    /// An element begins.
    Start(Tag<'a>),
    /// An element ends; its name in lower case.
    End(String),
}

/// The beginning of an element.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    /// The name, in lower case.
    pub(crate) name: String,
    attributes: Vec<(&'a str, &'a str)>,
    /// What stands in an element whose content is no markup.
    raw: Option<&'a str>,
}

impl<'a> Tag<'a> {
    /// An attribute's value, with entities decoded.
    pub(crate) fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        let (_, value) = self.attributes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(decode(value))
    }

    /// The text of an element that holds text alone, such as a title.
    pub(crate) fn text(&self) -> Option<Cow<'a, str>> {
        self.raw.map(decode)
    }
}

/// The tokens of a page.
pub(crate) struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(page: &'a str) -> Self {
        Self { rest: page }
    }

    /// Takes what is before `end`, and `end`; or everything.
    fn take_past(&mut self, end: &str) -> &'a str {
        let (taken, rest) = self.rest.split_once(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        // Only ASCII ends a run, so it ends between characters.
        let end = self.rest.bytes().position(|byte| !wanted(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn start(&mut self) -> Tag<'a> {
        let name = self.take_while(in_name).to_ascii_lowercase();
        let mut attributes = Vec::new();
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace() || byte == b'/');
            if self.rest.is_empty() || self.rest.starts_with('>') {
                break;
            }
            let (known, value) = self.attribute();
            if attributes.len() < ATTRIBUTES_MAX {
                attributes.push((known, &value[..value.floor_char_boundary(VALUE_MAX_BYTES)]));
            }
        }
        self.take_past(">");
        let raw = is_raw(&name).then(|| self.raw(&name));
        Tag { name, attributes, raw }
    }

    fn attribute(&mut self) -> (&'a str, &'a str) {
        // A name may begin with `=`, as odd as that is; so at least one letter is taken.
        let ends = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'=');
        let first = self.rest.chars().next().map_or(0, char::len_utf8);
        let end = self.rest.bytes().skip(first).position(ends).map_or(self.rest.len(), |at| at + first);
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.take_while(|byte| byte.is_ascii_whitespace());
        let Some(rest) = self.rest.strip_prefix('=') else { return (name, "") };
        self.rest = rest;
        self.take_while(|byte| byte.is_ascii_whitespace());
        let value = match self.rest.as_bytes().first() {
            Some(quote @ (b'"' | b'\'')) => {
                self.rest = &self.rest[1..];
                self.take_past(if *quote == b'"' { "\"" } else { "'" })
            }
            _ => self.take_while(|byte| !byte.is_ascii_whitespace() && byte != b'>'),
        };
        (name, value)
    }

    /// What stands before the end of an element in which no other begins.
    fn raw(&mut self, name: &str) -> &'a str {
        let mut at = 0;
        while let Some(found) = self.rest[at..].find("</") {
            let start = at + found;
            let after = start + 2 + name.len();
            let closes = self.rest.get(start + 2..after).is_some_and(|one| one.eq_ignore_ascii_case(name))
                && !self.rest[after..].bytes().next().is_some_and(in_name);
            if closes {
                let taken = &self.rest[..start];
                self.rest = &self.rest[after..];
                self.take_past(">");
                return taken;
            }
            at = start + 2;
        }
        std::mem::take(&mut self.rest)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let Some(markup) = self.rest.strip_prefix('<') else {
                let text = self.take_while(|byte| byte != b'<');
                return Some(Token::Text(decode(text)));
            };
            let begins = |text: &str| text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
            if begins(markup) {
                self.rest = markup;
                return Some(Token::Start(self.start()));
            }
            if let Some(comment) = markup.strip_prefix("!--") {
                // `<!-->` and `<!--->` are whole comments.
                self.rest = comment;
                let short = ["->", ">"].iter().find_map(|end| comment.strip_prefix(end));
                match short {
                    Some(rest) => self.rest = rest,
                    None => _ = self.take_past("-->"),
                }
            } else if let Some(end) = markup.strip_prefix('/').filter(|end| begins(end)) {
                self.rest = end;
                let name = self.take_while(in_name).to_ascii_lowercase();
                self.take_past(">");
                return Some(Token::End(name));
            } else if markup.starts_with(['!', '?', '/']) {
                self.take_past(">");
            } else {
                self.rest = markup;
                return Some(Token::Text(Cow::Borrowed("<")));
            }
        }
    }
}

fn in_name(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && byte != b'/' && byte != b'>'
}

/// Elements in which nothing is markup until they end.
fn is_raw(name: &str) -> bool {
    matches!(name, "script" | "style" | "iframe" | "noembed" | "noframes" | "xmp" | "textarea" | "title")
}

/// The text with entities as the letters that they stand for.
pub(crate) fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let taken = match after.strip_prefix('#') {
            Some(digits) => numbered(digits, &mut out).map(|taken| taken + 1),
            None => named(after, &mut out),
        };
        if taken.is_none() {
            out.push('&');
        }
        rest = &after[taken.unwrap_or(0)..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Adds the letter of a number (after `&#`); how much of the text was it.
fn numbered(text: &str, out: &mut String) -> Option<usize> {
    let (radix, digits) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (16, digits),
        None => (10, text),
    };
    let end = digits.bytes().position(|byte| !char::from(byte).is_digit(radix)).unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    let code = u32::from_str_radix(&digits[..end.min(16)], radix).unwrap_or(u32::MAX);
    let replaced = match code {
        0x80..=0x9F => C1_REPLACEMENTS[(code - 0x80) as usize],
        _ => None,
    };
    out.push(
        replaced.or_else(|| char::from_u32(code).filter(|letter| *letter != '\0')).unwrap_or('\u{FFFD}'),
    );
    let closed = usize::from(digits[end..].starts_with(';'));
    Some(text.len() - digits.len() + end + closed)
}

/// Adds the letters of the longest name that the text begins with; how much of the text it was.
fn named(text: &str, out: &mut String) -> Option<usize> {
    let most = text.bytes().take(ENTITY_MAX_BYTES).take_while(u8::is_ascii_alphanumeric).count();
    let most = most + usize::from(text[most..].starts_with(';'));
    for end in (2..=most).rev() {
        if let Some((first, second)) = NAMED_ENTITIES.get(&text[..end]).filter(|(first, _)| *first != 0) {
            out.extend(char::from_u32(*first));
            out.extend(char::from_u32(*second).filter(|letter| *letter != '\0'));
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(page: &str) -> String {
        Tokens::new(page)
            .map(|token| match token {
                Token::Text(text) => text.into_owned(),
                Token::Start(tag) => {
                    format!("[{}{}]", tag.name, tag.text().map_or(String::new(), |text| format!("={text}")))
                }
                Token::End(name) => format!("[/{name}]"),
            })
            .collect()
    }

    #[test]
    fn pages_come_apart_as_browsers_take_them_apart() {
        for (page, wanted) in [
            ("<P Class=a>x</P >y", "[p]x[/p]y"),
            ("a < b <3 <> </> & c", "a < b <3 <>  & c"),
            ("<!-- <p> --><!--> a --><!DOCTYPE html><?php x ?>b", " a -->b"),
            ("<a title='>' href=\"x>y\">z", "[a]z"),
            ("<script>if (a < b) '<p></scripty>'</SCRIPT >c", "[script=if (a < b) '<p></scripty>']c"),
            ("<title>A &amp; <b></title>c", "[title=A & <b>]c"),
            ("<br/>a<img src=x/>", "[br]a[img]"),
            ("<style>never closed <p>", "[style=never closed <p>]"),
            ("<p", "[p]"),
            ("<p a='", "[p]"),
            ("x<!-- y", "x"),
        ] {
            assert_eq!(shown(page), wanted, "{page}");
        }
        let Some(Token::Start(tag)) = Tokens::new("<a =x HREF = '/a?b&amp;c' hidden data-x=1>").next() else {
            panic!("a tag");
        };
        assert_eq!(tag.attribute("href").as_deref(), Some("/a?b&c"));
        assert_eq!(tag.attribute("hidden").as_deref(), Some(""));
        assert_eq!(tag.attribute("data-x").as_deref(), Some("1"));
        assert_eq!(tag.attribute("class"), None);
    }

    #[test]
    fn entities_become_letters() {
        for (text, wanted) in [
            ("&lt;&#x27;&#39;&nbsp;&scaron;&copy", "<''\u{a0}š©"),
            ("&notit; &amp;amp; &;&#;&#x;& &unknown;", "¬it; &amp; &;&#;&#x;& &unknown;"),
            ("&#128;&#0;&#xD800;&#99999999999999999999;", "€\u{fffd}\u{fffd}\u{fffd}"),
            ("&NotEqualTilde;", "\u{2242}\u{338}"),
        ] {
            assert_eq!(decode(text), wanted, "{text}");
        }
    }

    #[test]
    fn whatever_stands_in_a_page_it_is_read_in_one_pass() {
        let many = |piece: &str| piece.repeat(500_000 / piece.len());
        let attributes: String = (0..50_000).map(|number| format!(" a{number}=b")).collect();
        for page in [
            format!("<p{attributes}>x"),
            many("<div>"),
            many("</"),
            many("<!--"),
            many("<p a='"),
            many("&amp"),
            many("&"),
            format!("<script>{}", many("</scrip")),
            many("<title>"),
            many("<"),
        ] {
            let begun = std::time::Instant::now();
            let tokens = Tokens::new(&page).count();
            assert!(tokens <= page.len(), "{tokens}");
            // In one pass it takes milliseconds, in one for each piece minutes.
            assert!(begun.elapsed().as_secs() < 30, "{}", &page[..20]);
        }
    }

    proptest! {
        #[test]
        fn nothing_breaks_it(page in "(<|>|/|!|--|'|\"|=|&|#|x|;|script|title|č| |\\PC){0,60}") {
            prop_assert!(Tokens::new(&page).count() <= page.len());
        }
    }
}
