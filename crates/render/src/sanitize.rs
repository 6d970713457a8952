//! The second layer of protection: keeps only the elements and attributes that [`crate::emit`] writes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use crate::known_form;
use crate::link::FILES;

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
    if known_form::is_known_form(&html) { html } else { sanitize_html(&html) }
}

/// Returns true for a class that names the language of code.
pub(crate) fn is_language(class: &str) -> bool {
    class.strip_prefix(LANGUAGE).is_some_and(|name| {
        (1..=LANGUAGE_MAX_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte))
    })
}

/// Returns the class of code in a language, if its name is a plain one.
pub(crate) fn language_class(name: &str) -> Option<String> {
    Some(format!("{LANGUAGE}{name}")).filter(|class| is_language(class))
}

/// Allows addresses without a scheme only for files that an answer cites.
fn own_files(url: &str) -> Option<Cow<'_, str>> {
    url.starts_with(FILES).then_some(Cow::Borrowed(url))
}

/// Removes everything from the HTML that is not on the allowlist.
pub(crate) fn sanitize_html(html: &str) -> String {
    known_form::normalize_known_form(html).unwrap_or_else(|| parse_and_sanitize(html))
}

/// Does the same by a parser of HTML.
pub(crate) fn parse_and_sanitize(html: &str) -> String {
    SANITIZER.clean(html).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sanitize_html_removes_unlisted() {
        let out = parse_and_sanitize(
            "<p onclick=x id=z class=c style=s>a<script>b</script><img src=x><svg><a href=y>c</a></svg>\
             <a href=\"javascript:x\">d</a><a href=\"/api/v1/vm\">e</a><a href=\"//x.org/\">f</a></p>",
        );
        for bad in ["onclick", "id=", "class", "style", "script", "img", "svg", "vm", "x.org"] {
            assert!(!out.contains(bad), "{out}");
        }
        let file = parse_and_sanitize("<a href=\"/api/v1/files/x\" data-citation=\"c1\">f</a>");
        assert!(file.contains("href=\"/api/v1/files/x\"") && file.contains("data-citation=\"c1\""), "{file}");
        assert!(file.contains("rel=\"noopener noreferrer nofollow\""), "{file}");
    }
}
