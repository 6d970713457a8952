//! The canonical form of HTML that [`crate::emit`] writes: listed elements and attributes only, properly nested, in one
//! spelling. The parser of HTML, which [`crate::sanitize`] asks otherwise, would not change it.

use crate::link::FILES;

/// The elements of answers and documents.
pub(crate) const ELEMENTS: [&str; 30] = [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "details",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "kbd",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "sub",
    "summary",
    "sup",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];

/// The `rel` attribute of every link.
pub(crate) const LINK_REL: &str = "noopener noreferrer nofollow";

/// The prefix of the class of code that names its language.
pub(crate) const LANGUAGE: &str = "language-";
/// Longer names of languages are left out.
const LANGUAGE_MAX_BYTES: usize = 32;

/// Elements around a text at most; deeper HTML is sanitized.
const DEPTH_MAX: usize = 64;

/// Returns true if the HTML consists of text and allowed tags only, in canonical form.
pub(crate) fn is_known_form(html: &str) -> bool {
    let mut pieces = html.split('<');
    if pieces.next().is_some_and(|text| text.contains('>')) {
        return false;
    }
    pieces.all(|piece| {
        piece.split_once('>').is_some_and(|(tag, text)| !text.contains('>') && is_known_tag(tag))
    })
}

/// Returns HTML as the sanitizer would write it, if it has the known form and is well nested.
pub(crate) fn normalize_known_form(html: &str) -> Option<String> {
    let mut out = String::with_capacity(html.len());
    let mut open: Vec<&str> = Vec::new();
    let mut pieces = html.split('<');
    push_text(pieces.next().unwrap_or(""), &open, &mut out)?;
    for piece in pieces {
        let (tag, text) = piece.split_once('>')?;
        if !is_known_tag(tag) {
            return None;
        }
        match tag.strip_prefix('/') {
            Some(name) if open.pop() == Some(name) => {}
            Some(_) => return None,
            None => {
                let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
                // The parser and the sanitizer may write these attributes otherwise.
                let is_plain =
                    !attributes.contains(['&', '\u{a0}']) && (name != "a" || is_plain_link(attributes));
                if !is_plain || !may_contain(&open, name) || open.len() >= DEPTH_MAX {
                    return None;
                }
                if !matches!(name, "br" | "hr") {
                    open.push(name);
                }
            }
        }
        out.push('<');
        out.push_str(tag);
        out.push('>');
        if tag == "pre" && text.starts_with('\n') {
            return None;
        }
        push_text(text, &open, &mut out)?;
    }
    open.is_empty().then_some(out)
}

/// Returns true for the attributes of a link to a file or to a host with a plain name, which is a valid address.
fn is_plain_link(attributes: &str) -> bool {
    let Some(address) = attributes.strip_prefix("href=\"").filter(|_| attributes.contains("rel=")) else {
        return false;
    };
    if address.starts_with(FILES) {
        return true;
    }
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")).unwrap_or("");
    let host = &rest[..rest.find(['/', '"']).unwrap_or(0)];
    let is_label = |label: &str| {
        let is_plain =
            label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        is_plain && !label.is_empty() && label.len() < 64 && !label.starts_with("xn--")
    };
    // A name that ends with a number is an address of another kind.
    host.len() < 254
        && host.split('.').all(is_label)
        && host.rsplit('.').all(|label| label.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// Appends a text with quotation marks as they are; `None` if the parser would move or change it.
fn push_text(text: &str, open: &[&str], out: &mut String) -> Option<()> {
    let is_between = matches!(open.last(), Some(&("table" | "thead" | "tbody" | "tr")));
    if text.contains(['>', '\0', '\r'])
        || is_between && !text.bytes().all(|byte| byte == b'\n' || byte == b' ')
    {
        return None;
    }
    let mut pieces = text.split('&');
    out.push_str(pieces.next().unwrap_or(""));
    for piece in pieces {
        let (name, rest) = piece.split_once(';')?;
        match name {
            "quot" => out.push('"'),
            "amp" | "lt" | "gt" | "nbsp" => {
                out.push('&');
                out.push_str(name);
                out.push(';');
            }
            _ => return None,
        }
        out.push_str(rest);
    }
    // The sanitizer writes it as a reference.
    (!text.contains('\u{a0}')).then_some(())
}

/// Returns true if the parser leaves an element in its place within the open ones.
fn may_contain(open: &[&str], name: &str) -> bool {
    let parent = open.last().copied().unwrap_or("");
    match name {
        "thead" | "tbody" => parent == "table",
        "tr" => matches!(parent, "thead" | "tbody"),
        "td" | "th" => parent == "tr",
        _ if matches!(parent, "table" | "thead" | "tbody" | "tr") => false,
        "li" => matches!(parent, "ul" | "ol"),
        "a" => is_phrase(open) && !open.contains(&"a"),
        "br" | "code" | "del" | "em" | "kbd" | "strong" | "sub" | "sup" => is_phrase(open),
        "summary" => parent == "details",
        "blockquote" | "details" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "hr" | "ol" | "p" | "pre"
        | "table" | "ul" => matches!(parent, "" | "blockquote" | "details" | "li"),
        _ => false,
    }
}

/// Returns true where an element of a line of text may be: not deeper than the parser keeps equal ones apart.
fn is_phrase(open: &[&str]) -> bool {
    const INLINE_MAX: usize = 3;
    let inline = open
        .iter()
        .rev()
        .take_while(|name| matches!(**name, "a" | "code" | "del" | "em" | "kbd" | "strong" | "sub" | "sup"));
    inline.count() <= INLINE_MAX
}

fn is_known_tag(tag: &str) -> bool {
    if let Some(name) = tag.strip_prefix('/') {
        return ELEMENTS.contains(&name);
    }
    if tag.ends_with(' ') {
        return false;
    }
    let (name, mut attributes) = tag.split_once(' ').unwrap_or((tag, ""));
    while !attributes.is_empty() {
        let Some((key, rest)) = attributes.split_once("=\"") else { return false };
        let Some((value, rest)) = rest.split_once('"') else { return false };
        let known = match (name, key) {
            ("a", "href") => ["https://", "http://", "mailto:", FILES]
                .iter()
                .any(|start| value.get(..start.len()) == Some(start)),
            ("a", "rel") => value == LINK_REL,
            ("a", "data-citation") => value.strip_prefix('c').is_some_and(is_number),
            ("a", "data-image") => value.is_empty(),
            ("code", "class") => is_language(value),
            ("ol", "start") => is_number(value),
            ("td" | "th", "align") => matches!(value, "left" | "center" | "right"),
            _ => false,
        };
        if !known {
            return false;
        }
        attributes = match rest.strip_prefix(' ') {
            Some(next) if !next.is_empty() => next,
            None if rest.is_empty() => "",
            _ => return false,
        };
    }
    ELEMENTS.contains(&name)
}

/// Returns true for a class that names the language of code.
pub(crate) fn is_language(class: &str) -> bool {
    class.strip_prefix(LANGUAGE).is_some_and(|name| {
        (1..=LANGUAGE_MAX_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte))
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
