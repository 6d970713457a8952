//! Splits HTML into tags and texts in one pass: time and memory are linear in its length, independent of nesting,
//! attributes or unclosed elements. The output is never rendered as HTML, so only the text that a reader sees
//! matters, not every rule of browsers for malformed pages.
//!
//! The tokenizer of `html5ever` was evaluated and rejected: it compares each attribute of a tag with all previous
//! ones, so that a page consisting of one tag takes quadratic time on the host (5 s for 208 KiB, 34 s for 868 KiB
//! in a debug build; hours for the maximum of 10 MiB). Its tables of named entities are used.

use std::borrow::Cow;

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};

/// The maximum number of attributes per tag; further ones are ignored.
const ATTRIBUTES_MAX: usize = 32;
/// The longest attribute value, in bytes; longer ones are ignored.
const VALUE_MAX_BYTES: usize = 4096;
/// The longest name of an entity, in bytes.
const ENTITY_MAX_BYTES: usize = 33;

/// A token of a page.
#[derive(Debug, PartialEq, Eq)]
pub enum HtmlToken<'a> {
    /// Text with decoded entities.
    Text(Cow<'a, str>),
    Start(Tag<'a>),
    /// An end tag; its name in lower case.
    End(String),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// The name, in lower case.
    pub name: String,
    /// True if the tag ends with `/>`.
    pub self_closing: bool,
    attributes: Vec<(&'a str, &'a str)>,
    /// The raw content of an element without markup.
    raw: Option<&'a str>,
}

impl<'a> Tag<'a> {
    /// Returns the value of an attribute, with entities decoded.
    pub fn find_attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        let (_, value) = self.attributes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(decode_entities(value))
    }

    /// Returns the content of an element that contains no markup, such as a title. Its end tag is not a separate token.
    pub fn raw_text(&self) -> Option<Cow<'a, str>> {
        self.raw.map(decode_entities)
    }
}

/// The tokens of a page.
pub struct HtmlTokens<'a> {
    rest: &'a str,
}

impl<'a> HtmlTokens<'a> {
    /// Creates the tokens of a page.
    #[must_use]
    pub fn new(page: &'a str) -> Self {
        Self { rest: page }
    }

    /// Consumes the input up to and including `end`, or all of it. Returns the part before `end`.
    fn take_past(&mut self, end: &str) -> &'a str {
        let (taken, rest) = self.rest.split_once(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        // Only ASCII bytes end a run, so it ends at a character boundary.
        let end = self.rest.bytes().position(|byte| !wanted(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn read_start_tag(&mut self) -> Tag<'a> {
        let name = self.take_while(in_name).to_ascii_lowercase();
        let mut attributes = Vec::new();
        let mut self_closing;
        loop {
            let before = self.take_while(|byte| byte.is_ascii_whitespace() || byte == b'/');
            self_closing = before.ends_with('/');
            if self.rest.is_empty() || self.rest.starts_with('>') {
                break;
            }
            let (known, value) = self.read_attribute();
            if attributes.len() < ATTRIBUTES_MAX {
                attributes.push((known, &value[..value.floor_char_boundary(VALUE_MAX_BYTES)]));
            }
        }
        self.take_past(">");
        let raw = is_raw(&name).then(|| self.read_raw_text(&name));
        Tag { name, self_closing, attributes, raw }
    }

    fn read_attribute(&mut self) -> (&'a str, &'a str) {
        // A name may begin with `=`; consuming at least one character guarantees progress.
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

    /// Returns the content of an element without markup, up to its end tag.
    fn read_raw_text(&mut self, name: &str) -> &'a str {
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

impl<'a> Iterator for HtmlTokens<'a> {
    type Item = HtmlToken<'a>;

    fn next(&mut self) -> Option<HtmlToken<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let Some(markup) = self.rest.strip_prefix('<') else {
                let text = self.take_while(|byte| byte != b'<');
                return Some(HtmlToken::Text(decode_entities(text)));
            };
            let begins = |text: &str| text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
            if begins(markup) {
                self.rest = markup;
                return Some(HtmlToken::Start(self.read_start_tag()));
            }
            if let Some(comment) = markup.strip_prefix("!--") {
                // `<!-->` and `<!--->` are complete comments.
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
                return Some(HtmlToken::End(name));
            } else if markup.starts_with(['!', '?', '/']) {
                self.take_past(">");
            } else {
                self.rest = markup;
                return Some(HtmlToken::Text(Cow::Borrowed("<")));
            }
        }
    }
}

fn in_name(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && byte != b'/' && byte != b'>'
}

/// Returns true for elements whose content is not markup.
fn is_raw(name: &str) -> bool {
    matches!(name, "script" | "style" | "iframe" | "noembed" | "noframes" | "xmp" | "textarea" | "title")
}

/// Replaces entities by their characters.
fn decode_entities(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let taken = match after.strip_prefix('#') {
            Some(digits) => decode_numeric(digits, &mut out).map(|taken| taken + 1),
            None => decode_named(after, &mut out),
        };
        if taken.is_none() {
            out.push('&');
        }
        rest = &after[taken.unwrap_or(0)..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Decodes a numeric entity (after `&#`). Returns the number of bytes consumed.
fn decode_numeric(text: &str, out: &mut String) -> Option<usize> {
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

/// Decodes the longest entity name at the start of the text. Returns the number of bytes consumed.
fn decode_named(text: &str, out: &mut String) -> Option<usize> {
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

    fn describe_tokens(page: &str) -> String {
        HtmlTokens::new(page)
            .map(|token| match token {
                HtmlToken::Text(text) => text.into_owned(),
                HtmlToken::Start(tag) => {
                    format!(
                        "[{}{}]",
                        tag.name,
                        tag.raw_text().map_or(String::new(), |text| format!("={text}"))
                    )
                }
                HtmlToken::End(name) => format!("[/{name}]"),
            })
            .collect()
    }

    #[test]
    fn html_tokens_match_browsers() {
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
            assert_eq!(describe_tokens(page), wanted, "{page}");
        }
        let Some(HtmlToken::Start(tag)) =
            HtmlTokens::new("<a =x HREF = '/a?b&amp;c' hidden data-x=1>").next()
        else {
            panic!("a tag");
        };
        assert_eq!(tag.find_attribute("href").as_deref(), Some("/a?b&c"));
        assert_eq!(tag.find_attribute("hidden").as_deref(), Some(""));
        assert_eq!(tag.find_attribute("data-x").as_deref(), Some("1"));
        assert_eq!(tag.find_attribute("class"), None);
    }

    #[test]
    fn entities_become_letters() {
        for (text, wanted) in [
            ("&lt;&#x27;&#39;&nbsp;&scaron;&copy", "<''\u{a0}š©"),
            ("&notit; &amp;amp; &;&#;&#x;& &unknown;", "¬it; &amp; &;&#;&#x;& &unknown;"),
            ("&#128;&#0;&#xD800;&#99999999999999999999;", "€\u{fffd}\u{fffd}\u{fffd}"),
            ("&NotEqualTilde;", "\u{2242}\u{338}"),
        ] {
            assert_eq!(decode_entities(text), wanted, "{text}");
        }
    }

    #[test]
    fn html_tokens_read_page_once() {
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
            let started = std::time::Instant::now();
            let tokens = HtmlTokens::new(&page).count();
            assert!(tokens <= page.len(), "{tokens}");
            // One pass takes milliseconds; a pass per token would take minutes.
            assert!(started.elapsed().as_secs() < 30, "{}", &page[..20]);
        }
    }

    proptest! {
        #[test]
        fn nothing_breaks_it(page in "(<|>|/|!|--|'|\"|=|&|#|x|;|script|title|č| |\\PC){0,60}") {
            prop_assert!(HtmlTokens::new(&page).count() <= page.len());
        }
    }
}
