//! The second guard: lets through only the elements and attributes that [`crate::emit`] writes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use crate::link::FILES;

const ELEMENTS: [&str; 25] = [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];

static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let attributes = [
        ("a", HashSet::from(["href", "data-citation"])),
        ("ol", HashSet::from(["start"])),
        ("td", HashSet::from(["align"])),
        ("th", HashSet::from(["align"])),
    ];
    let mut builder = Builder::empty();
    builder
        .tags(HashSet::from(ELEMENTS))
        .tag_attributes(HashMap::from(attributes))
        .generic_attributes(HashSet::new())
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::Custom(Box::new(own_files)))
        .link_rel(Some("noopener noreferrer nofollow"))
        .strip_comments(true);
    builder
});

/// Of addresses without a scheme, those of files that an answer cites.
fn own_files(url: &str) -> Option<Cow<'_, str>> {
    url.starts_with(FILES).then_some(Cow::Borrowed(url))
}

/// The HTML without anything that is not on the list.
pub(crate) fn sanitize(html: &str) -> String {
    SANITIZER.clean(html).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_on_the_list_does_not_pass() {
        let out = sanitize(
            "<p onclick=x id=z class=c style=s>a<script>b</script><img src=x><svg><a href=y>c</a></svg>\
             <a href=\"javascript:x\">d</a><a href=\"/api/v1/vm\">e</a><a href=\"//x.org/\">f</a></p>",
        );
        for bad in ["onclick", "id=", "class", "style", "script", "img", "svg", "vm", "x.org"] {
            assert!(!out.contains(bad), "{out}");
        }
        let file = sanitize("<a href=\"/api/v1/files/x\" data-citation=\"c1\">f</a>");
        assert!(file.contains("href=\"/api/v1/files/x\"") && file.contains("data-citation=\"c1\""), "{file}");
        assert!(file.contains("rel=\"noopener noreferrer nofollow\""), "{file}");
    }
}
