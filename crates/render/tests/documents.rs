//! Checks the HTML of Markdown documents: the HTML of READMEs is shown, and none of it is active.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use proptest::prelude::*;
use render::render_document;

const REL: &str = "rel=\"noopener noreferrer nofollow\"";
const ELEMENTS: &[&str] = &[
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

/// Returns the rendered HTML in one line, so that tests are not about line ends.
fn render_safe_line(markdown: &str) -> String {
    let html = render_document(markdown);
    is_safe(&html).unwrap();
    html.replace('\n', "")
}

/// Checks that HTML contains only allowed elements and attributes, each closed in its order.
fn is_safe(html: &str) -> Result<(), String> {
    let mut open = Vec::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').ok_or_else(|| format!("an open tag: {tag}"))?;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("the end of another element: {tag}"));
            }
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if !ELEMENTS.contains(&name) {
            return Err(format!("an element: {tag}"));
        }
        if !matches!(name, "br" | "hr") {
            open.push(name);
        }
        let is_link = attributes.strip_prefix("href=\"").is_some_and(|rest| {
            ["http://", "https://", "mailto:"].iter().any(|start| rest.to_lowercase().starts_with(start))
                && rest.ends_with(&format!("\" {REL}"))
        });
        let is_start = attributes
            .strip_prefix("start=\"")
            .is_some_and(|rest| rest.trim_end_matches('"').parse::<u64>().is_ok());
        let is_align =
            ["left", "center", "right"].iter().any(|side| attributes == format!("align=\"{side}\""));
        let is_known = match name {
            "a" => attributes.is_empty() || is_link,
            "ol" => attributes.is_empty() || is_start,
            "td" | "th" => attributes.is_empty() || is_align,
            _ => attributes.is_empty(),
        };
        if !is_known {
            return Err(format!("an attribute: {tag}"));
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("open at the end: {open:?}")) }
}

#[test]
fn render_document_keeps_details_blocks() {
    assert_eq!(
        render_safe_line(
            "<details open>\n<summary>More <b>here</b></summary>\n\nA *text*.\n\n- one\n\n</details>\n\nAfter."
        ),
        "<details><summary>More <strong>here</strong></summary><p>A <em>text</em>.</p><ul><li>one</li></ul></details><p>After.</p>"
    );
    assert_eq!(
        render_safe_line("<details><summary>One</summary>Two <kbd>x</kbd></details>"),
        "<details><summary>One</summary><p>Two <kbd>x</kbd></p></details>"
    );
    assert_eq!(
        render_safe_line(
            "<details>\n<summary>A</summary>\n\n<details>\n<summary>B</summary>\n\nb\n\n</details>\n\na\n\n</details>"
        ),
        "<details><summary>A</summary><details><summary>B</summary><p>b</p></details><p>a</p></details>"
    );
    assert_eq!(
        render_safe_line("- a\n\n  <details>\n\n  b\n\nc"),
        "<ul><li><p>a</p><details><p>b</p></details></li></ul><p>c</p>"
    );
    assert_eq!(render_safe_line("<summary>a</summary>\n\nb"), "<p>a</p><p>b</p>");
    assert_eq!(render_safe_line("</details>\n\na"), "<p>a</p>");
}

#[test]
fn render_document_reads_inline_html() {
    for (markdown, html) in [
        ("<kbd>Ctrl</kbd>+<kbd>C</kbd>", "<p><kbd>Ctrl</kbd>+<kbd>C</kbd></p>"),
        ("H<sub>2</sub>O, mc<sup>2</sup>", "<p>H<sub>2</sub>O, mc<sup>2</sup></p>"),
        ("a<br>b<BR/>c<br class=x>d", "<p>a<br>b<br>c<br>d</p>"),
        (
            "<b>a</b> <i>b</i> <s>c</s> <tt>d</tt>",
            "<p><strong>a</strong> <em>b</em> <del>c</del> <code>d</code></p>",
        ),
        ("a <u>b</u> <span style=\"color: red\">c</span> <x-y>d</x-y>", "<p>a b c d</p>"),
        ("a <!-- b --> c", "<p>a  c</p>"),
        ("a <sub>b *c</sub>* d", "<p>a <sub>b <em>c</em> d</sub></p>"),
        ("a <sub>b", "<p>a <sub>b</sub></p>"),
        ("*a <sub>b* c</sub>", "<p><em>a <sub>b</sub></em> c</p>"),
        ("<sub>a <kbd>b</sub> c</kbd>", "<p><sub>a <kbd>b</kbd></sub> c</p>"),
        ("a <p>b</p> <details>c</details>", "<p>a b c</p>"),
        ("`<kbd>` \\<kbd> &lt;kbd&gt;", "<p><code>&lt;kbd&gt;</code> &lt;kbd&gt; &lt;kbd&gt;</p>"),
        ("1 < 2 > 0 <- x", "<p>1 &lt; 2 &gt; 0 &lt;- x</p>"),
    ] {
        assert_eq!(render_safe_line(markdown), html, "{markdown}");
    }
}

#[test]
fn blocks_of_html_keep_their_text() {
    for (markdown, html) in [
        ("<p align=\"center\">\na\n</p>\n\nb", "<p>a</p><p>b</p>"),
        ("<p align=center>\n\n**a**\n\n</p>", "<p><strong>a</strong></p>"),
        ("<div align=\"center\">\n\n# A\n\n</div>", "<h1>A</h1>"),
        ("<h1 align=\"center\">A <sup>1</sup></h1>\n\nb", "<h1>A <sup>1</sup></h1><p>b</p>"),
        ("<center>a</center><div>b<hr>c</div>", "<p>a</p><p>b</p><hr><p>c</p>"),
        (
            "<ul><li>a<li>b<ol><li>c</ol></ul>\n\nd",
            "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul><p>d</p>",
        ),
        (
            "<table>\n<tr><th>a</th></tr>\n<tr><td>b<td>c</tr>\n</table>\n\nd",
            "<table><tbody><tr><th>a</th></tr><tr><td>b</td><td>c</td></tr></tbody></table><p>d</p>",
        ),
        (
            "<table><tr><td>\n\n*a*\n\n</td></tr></table>",
            "<table><tbody><tr><td><p><em>a</em></p></td></tr></tbody></table>",
        ),
        ("<table>a<tr>b<td>c", "<table></table><p>a</p><p>b</p><p>c</p>"),
        ("<td>a</td>", "<p>a</p>"),
        ("<pre>a\n  b <b>c</b></pre>", "<pre>a  b <strong>c</strong></pre>"),
        ("<blockquote>a</blockquote>", "<blockquote><p>a</p></blockquote>"),
        ("<!-- a\n\nb -->\n\nc", "<p>c</p>"),
        ("<script>\nalert(1)\n\nalert(2)\n</script>\n\na", "<p>a</p>"),
        ("<style>\nbody { display: none }\n</style>\n\na", "<p>a</p>"),
    ] {
        assert_eq!(render_safe_line(markdown), html, "{markdown}");
    }
}

#[test]
fn render_document_loads_nothing_remote() {
    let link = |href: &str, text: &str| format!("<a href=\"{href}\" {REL}>{text}</a>");
    for (markdown, html) in [
        (
            "<img src=\"https://a.example/b.png\" alt=\"A &amp; <b>\">",
            link("https://a.example/b.png", "A &amp; &lt;b&gt;"),
        ),
        ("<img src=\"logo.svg\" alt=\"Logo\" onerror=\"alert(1)\">", "Logo".to_owned()),
        ("<img src=\"logo.svg\">", "logo.svg".to_owned()),
        ("<img src=\"data:image/png;base64,AA\" alt=\"x\">", "x".to_owned()),
        (
            "<a href=\"https://a.example\"><img src=\"https://b.example/c.svg\" alt=\"Build\"></a>",
            link("https://a.example", "Build"),
        ),
        ("<a href=\"javascript:alert(1)\">a</a>", "a".to_owned()),
        ("<a href=\"&#106;avascript:alert(1)\">a</a>", "a".to_owned()),
        (
            "<a href=\"https://a.example/\" onclick=\"x\">a <a href=\"https://b.example/\">b</a>",
            link("https://a.example/", "a b"),
        ),
        (
            "[![Build][badge]][ci]\n\n[badge]: https://a.example/b.svg\n[ci]: https://a.example/",
            link("https://a.example/", "Build"),
        ),
        (
            "<picture><source srcset=\"https://a.example/x\"><img alt=\"P\" src=\"p.png\"></picture>",
            "P".to_owned(),
        ),
        (
            "<video src=\"https://a.example/v\" autoplay></video><iframe src=\"https://a.example\"></iframe>b",
            "b".to_owned(),
        ),
    ] {
        assert_eq!(render_safe_line(markdown), format!("<p>{html}</p>"), "{markdown}");
    }
}

const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><animate attributeName=href><a xlink:href=javascript:alert(1)>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<details open ontoggle=alert(1)><summary onclick=x style=y>z",
    "<kbd onmouseover=alert(1) id=cited class=viewer>",
    "<form action=https://evil.example><button formaction=x>",
    "<a href=\"java\nscript:alert(1)\">x</a><a href=//evil.example>y</a><a href='data:text/html,x'>z</a>",
    "<a href='https://evil.example/\"><script>alert(1)</script>'>x</a>",
    "<img alt='\"><script>alert(1)</script>' src='https://evil.example/\"onerror=x'>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'><base href=https://evil.example/>",
    "<link rel=stylesheet href=//evil.example><style>@import 'https://evil.example'</style>",
    "<template><script>x</script></template><noscript><p title='</noscript><img src=x onerror=x>'>",
    "<xmp><script>x</script></xmp><plaintext>",
    "<table><details><tr><summary><td></table></details><script>",
    "</article></main></body></html><script>alert(1)</script>",
    "<textarea></textarea><title></title><select><option><style></select>",
    "&#xE000;1&#xE001; [\u{e000}1\u{e001}] <img alt='[&#xE000;1&#xE001;]'>",
];

#[test]
fn nothing_hostile_gets_through() {
    for markdown in HOSTILE {
        for text in [
            (*markdown).to_owned(),
            format!("a {markdown} b"),
            format!("> - {markdown}\n\n{markdown}"),
            format!("<details>\n{markdown}\n\n{markdown}"),
        ] {
            let out = render_document(&text);
            is_safe(&out).unwrap_or_else(|what| panic!("{what} of {text:?} in {out}"));
        }
    }
}

#[test]
fn large_documents_render_in_bounded_time() {
    let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn(|| {
        for piece in [
            "<details>",
            "<details>\n\n",
            "<sub>",
            "a <sub>",
            "</sub>",
            "<p>",
            "<p>\n\n",
            "<table>",
            "<tr>",
            "<td>",
            "<table><tr><td>",
            "<table>a",
            "<ul><li>",
            "<li>",
            "<b><p>",
            "<a href=https://a.example>",
            "<img alt=a src=b>",
            "<pre> ",
            "<!--",
            "<br>",
            "<div>a",
            "<summary>",
            "</p>",
            "a <b>*b",
            "> <details>\n",
            "- <ul>\n",
            "[a]: b\n",
            "[a][a] ",
        ] {
            let text = piece.repeat(100_000 / piece.len());
            let begun = processor_time();
            let out = render_document(&text);
            let took = processor_time() - begun;
            // Generous for a build without optimization; quadratic time would be far longer.
            assert!(took < Duration::from_secs(5), "{piece}: {took:?}");
            is_safe(&out).unwrap_or_else(|what| panic!("{what} of {piece}"));
            assert!(out.len() < 40 * text.len() + 1000, "{piece}: {} of {}", out.len(), text.len());
        }
    });
    thread.unwrap().join().unwrap();
}

/// Returns the CPU time of this thread, independent of the load.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

proptest! {
    #[test]
    fn render_document_always_safe_and_nested(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "<details>", "</details>", "<summary>", "</summary>", "<p>", "</p>", "<table>", "</table>", "<tr>", "<td>",
            "</td>", "<ul>", "<li>", "</ul>", "<b>", "</b>", "<sub>", "</sub>", "<a href=\"https://a.example\">", "</a>",
            "<img src=x alt=y>", "<pre>", "</pre>", "<div>", "</div>", "<h2>", "</h2>", "<br>", "<hr>", "\n", "\n\n", "\n\n",
            "a", "*", "**", "> ", "- ", "# ", "|a|\n|-|\n|", "[x](https://b.example)", "`", "<!--", "-->", "<script>",
            "</script>", "  ", "    ", "&lt;", "\"", "'",
        ]), 0..60)
    ) {
        let out = render_document(&pieces.concat());
        prop_assert!(is_safe(&out).is_ok(), "{:?}", is_safe(&out));
    }
}
