//! The second layer of protection: keeps only the elements and attributes that [`crate::emit`] writes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use crate::known_form::{self, ELEMENTS, LANGUAGE, LINK_REL, is_language};
use crate::link::FILES;

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
            assert!(known_form::is_known_form(known), "{known}");
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
            assert!(!known_form::is_known_form(other), "{other}");
        }
        assert_eq!(ensure_sanitized("<p>a<script>b</script></p>".to_owned()), "<p>a</p>");
    }

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
