//! The second layer of protection: keeps only the elements and attributes that [`crate::emit`] writes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use crate::link::FILES;

const ELEMENTS: [&str; 30] = [
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
const LANGUAGE: &str = "language-";
/// Longer names of languages are left out.
const LANGUAGE_MAX_BYTES: usize = 32;

static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let attributes = [
        ("a", HashSet::from(["href", "data-citation", "data-image"])),
        ("code", HashSet::from(["class"])),
        ("ol", HashSet::from(["start"])),
        ("td", HashSet::from(["align"])),
        ("th", HashSet::from(["align"])),
    ];
    let mut builder = Builder::empty();
    builder
        .tags(ELEMENTS.into_iter().collect())
        .tag_attributes(HashMap::from(attributes))
        .generic_attributes(HashSet::new())
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::Custom(Box::new(own_files)))
        .attribute_filter(|_, attribute, value| {
            (attribute != "class" || is_language(value)).then_some(Cow::Borrowed(value))
        })
        .link_rel(Some(LINK_REL))
        .strip_comments(true);
    builder
});

/// Returns HTML unchanged if it has the canonical form that [`crate::emit`] writes, which is much cheaper to check, and
/// sanitizes it otherwise. For temporary output only.
pub(crate) fn ensure_sanitized(html: String) -> String {
    if is_known_form(&html) { html } else { sanitize_html(&html) }
}

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
fn is_language(class: &str) -> bool {
    class.strip_prefix(LANGUAGE).is_some_and(|name| {
        (1..=LANGUAGE_MAX_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte))
    })
}

/// Returns the class of code in a language, if its name is a plain one.
pub(crate) fn language_class(name: &str) -> Option<String> {
    Some(format!("{LANGUAGE}{name}")).filter(|class| is_language(class))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Allows addresses without a scheme only for files that an answer cites.
fn own_files(url: &str) -> Option<Cow<'_, str>> {
    url.starts_with(FILES).then_some(Cow::Borrowed(url))
}

/// Removes everything from the HTML that is not on the allowlist.
pub(crate) fn sanitize_html(html: &str) -> String {
    SANITIZER.clean(html).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ensure_sanitized_keeps_only_known_form() {
        let link = format!(
            "<p>a &lt; b <a href=\"https://x.org/\" data-citation=\"c1\" rel=\"{LINK_REL}\">[1]</a></p>\n"
        );
        for known in [
            "",
            "text",
            "<h1>a</h1>",
            "<ol start=\"3\"><li>a</li></ol>",
            "<td align=\"left\">",
            "<code class=\"language-c++\">",
            &link,
        ] {
            assert!(is_known_form(known), "{known}");
        }
        for other in [
            ">",
            "<",
            "<p",
            "<p >",
            "<p>a>b",
            "<P>",
            "<script>",
            "<p onclick=\"x\">",
            "<a href=\"javascript:x\">",
            "<a href='x'>",
            "<a href=\"/api/v1/vm\">",
            "<a rel=\"x\">",
            "<ol start=\"x\">",
            "<ol start=\"\">",
            "<td align=\"left\" >",
            "<!-- x -->",
            "<code class=\"button\">",
            "<code class=\"language-a b\">",
            "<a data-image=\"x\">",
            "<p/>",
            "<a href=\"https://x\"onclick=\"y\">",
            "<a href=\"HTTPS://x\">",
            "< p>",
            "</p >",
            "<a\thref=\"https://x\">",
        ] {
            assert!(!is_known_form(other), "{other}");
        }
        assert_eq!(ensure_sanitized("<p>a<script>b</script></p>".to_owned()), "<p>a</p>");
    }

    #[test]
    fn sanitize_html_removes_unlisted() {
        let out = sanitize_html(
            "<p onclick=x id=z class=c style=s>a<script>b</script><img src=x><svg><a href=y>c</a></svg>\
             <a href=\"javascript:x\">d</a><a href=\"/api/v1/vm\">e</a><a href=\"//x.org/\">f</a></p>",
        );
        for bad in ["onclick", "id=", "class", "style", "script", "img", "svg", "vm", "x.org"] {
            assert!(!out.contains(bad), "{out}");
        }
        let file = sanitize_html("<a href=\"/api/v1/files/x\" data-citation=\"c1\">f</a>");
        assert!(file.contains("href=\"/api/v1/files/x\"") && file.contains("data-citation=\"c1\""), "{file}");
        assert!(file.contains("rel=\"noopener noreferrer nofollow\""), "{file}");
    }
}
