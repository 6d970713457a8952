//! Checks the HTML of answers: correct, safe, bounded, and the same for whole and incremental rendering.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod elements;

use std::time::Duration;

use domain::answer::AnswerSource;
use domain::citation::PassagePlace;
use proptest::prelude::*;
use render::{CitationSources, Renderer, cited_sources, render_answer};

fn test_sources() -> Vec<AnswerSource> {
    let file =
        |path: &str, page| PassagePlace::File { path: path.into(), page, lines: None, page_name: None };
    let web = |url: &str| PassagePlace::Web { url: url.into(), title: "t".into() };
    vec![
        AnswerSource { number: 1, place: file("/uploads/lease.pdf", Some(3)) },
        AnswerSource { number: 2, place: web("https://example.org/a?b&c") },
        AnswerSource { number: 3, place: web("javascript:alert(1)") },
        AnswerSource { number: 12, place: file("/uploads/a\"b <c>.txt", None) },
    ]
}

fn answer_html(markdown: &str) -> String {
    render_answer(markdown, &test_sources().as_slice())
}

const REL: &str = "rel=\"noopener noreferrer nofollow\"";

#[test]
fn marks_become_links_to_their_sources() {
    assert_eq!(
        answer_html("Two years [1]."),
        format!(
            "<p>Two years <a href=\"/api/v1/files/uploads/lease.pdf#page=3\" data-citation=\"c1\" {REL}>[1]</a>.</p>\n"
        )
    );
    assert!(answer_html("x [2]").contains("href=\"https://example.org/a?b&amp;c\" data-citation=\"c2\""));
    assert!(answer_html("x [12]").contains("href=\"/api/v1/files/uploads/a%22b%20%3Cc%3E.txt\""));
    assert_eq!(answer_html("Known not [7], unsafe [3]."), "<p>Known not [7], unsafe [3].</p>\n");
    assert_eq!(answer_html("**bold.**[1]").matches("<strong>bold.</strong><a").count(), 1);
    let cells = answer_html("| a [1] | b |\n|---|---|\n| c | due[2] |\n");
    assert_eq!(cells.matches("data-citation").count(), 2, "{cells}");
    let address = answer_html("https://example.org/x [1] and https://example.org/a[1]");
    assert_eq!(address.matches("data-citation=\"c1\"").count(), 1, "{address}");
    assert!(address.contains("href=\"https://example.org/x\""), "{address}");
    let several = answer_html("as agreed [1-2, 12], not [2, 7]");
    for number in [1, 2, 12] {
        let link = format!("data-citation=\"c{number}\" {REL}>[{number}]</a>");
        assert_eq!(several.matches(&link).count(), 1, "{several}");
    }
    assert!(several.ends_with("not [2, 7]</p>\n"), "{several}");
    assert_eq!(cited_sources("a [2, 1] b [1-2] c [1-3] d [2, 7]", &test_sources().as_slice()), [2, 1, 3]);
    assert_eq!(cited_sources("a [2][1] `[12]` [2] [7]", &test_sources().as_slice()), [2, 1]);
}

#[test]
fn what_is_no_mark_stays() {
    assert_eq!(answer_html("`a[1]`"), "<p><code>a[1]</code></p>\n");
    assert_eq!(answer_html("```\na[1]\n```"), "<pre><code>a[1]\n</code></pre>\n");
    assert_eq!(
        answer_html("[1](https://example.org)"),
        format!("<p><a href=\"https://example.org\" {REL}>1</a></p>\n")
    );
    for text in ["A[2][1]", "f(x)[1]", "$\\sqrt[1]{27}$", "\\(A [2] = b_1\\)", "the interval $[1, 2]$"] {
        assert_eq!(answer_html(text), format!("<p>{text}</p>\n"));
    }
    assert!(!answer_html("<code>c[1] and [2]</code>").contains("data-citation"));
    let linked = answer_html("[see [1] there](https://example.org/)");
    assert!(!linked.contains("data-citation") && linked.contains("see [1] there"), "{linked}");
}

#[test]
fn reference_definition_stays_text() {
    let out =
        answer_html("x [1]\n\n[1]: https://evil.example/\n\n[a]: https://evil.example/ \"t\"\n\n[a][a]");
    assert!(out.contains("lease.pdf"), "{out}");
    assert!(out.contains("[1]: "), "{out}");
    assert!(out.contains("[a][a]"), "{out}");
}

#[test]
fn markdown_is_rendered() {
    for (markdown, expected) in [
        (
            "# A\n\nb *c* **d** ~~e~~  \nf",
            "<h1>A</h1>\n<p>b <em>c</em> <strong>d</strong> <del>e</del><br>f</p>\n",
        ),
        ("3. a\n4. b", "<ol start=\"3\"><li>a</li>\n<li>b</li>\n</ol>\n"),
        ("- [x] a\n- [ ] b", "<ul><li>☑ a</li>\n<li>☐ b</li>\n</ul>\n"),
        ("> a\n\n---", "<blockquote><p>a</p></blockquote>\n<hr>\n"),
        ("a<br>b", "<p>a<br>b</p>\n"),
        (
            "|a|b|\n|:-|-:|\n|1|2|",
            "<table><thead><tr><th align=\"left\">a</th><th align=\"right\">b</th></tr></thead>\n<tbody><tr><td align=\"left\">1</td><td align=\"right\">2</td></tr></tbody>\n</table>\n",
        ),
        ("příliš & <žluťoučký>", "<p>příliš &amp; &lt;žluťoučký&gt;</p>\n"),
        ("", ""),
    ] {
        assert_eq!(answer_html(markdown), expected, "{markdown:?}");
    }
}

/// Checks that HTML contains only allowed elements, with an independent parser.
fn is_safe(html: &str) -> Result<(), String> {
    let elements = [
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
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').ok_or_else(|| format!("an open tag: {tag}"))?;
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if !elements.contains(&name.trim_start_matches('/')) {
            return Err(format!("an element: {tag}"));
        }
        for attribute in attributes.split("\" ").filter(|attribute| !attribute.is_empty()) {
            let (key, value) = attribute.split_once("=\"").ok_or_else(|| format!("an attribute: {tag}"))?;
            let value = value.trim_end_matches('"');
            let allowed = match key {
                "href" => ["http://", "https://", "mailto:", "/api/v1/files/"]
                    .iter()
                    .any(|start| value.to_lowercase().starts_with(start)),
                "data-citation" => value[1..].parse::<u32>().is_ok(),
                "rel" => value == "noopener noreferrer nofollow",
                "start" => value.parse::<u64>().is_ok(),
                "align" => ["left", "center", "right"].contains(&value),
                "class" => value.strip_prefix("language-").is_some_and(|language| {
                    language.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte))
                }),
                "data-image" => value.is_empty(),
                _ => false,
            };
            if !allowed {
                return Err(format!("an attribute: {tag}"));
            }
        }
    }
    Ok(())
}

const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "<ScRiPt src=//evil>x</ScRiPt >",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><animate attributeName=href></svg>",
    "<style>@import 'https://evil';</style>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>x</script>'></iframe>",
    "<a href=javascript:alert(1)>x</a>",
    "<form action=https://evil><button>x</button></form>",
    "<meta http-equiv=refresh content='0;url=https://evil'>",
    "<base href=https://evil/><link rel=stylesheet href=//evil>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](%6aavascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x) [y](file:///etc/passwd) [z](//evil.example/)",
    "[x](/api/v1/vm/stop) [y](../../logout)",
    "[x](https://example.org/\"onmouseover=\"alert(1))",
    "[x](<https://example.org/\"><script>alert(1)</script>>)",
    "[x](https://example.org \"\\\" onmouseover=alert(1)\")",
    "![x](javascript:alert(1)) ![\"><script>](https://example.org/\"><script>)",
    "<javascript:alert(1)> <https://example.org/\"onclick=x>",
    "```\"><script>alert(1)</script>\nx\n```",
    "```x onclick=alert(1)\n</code></pre><script>alert(1)</script>\n```",
    "`</code><script>alert(1)</script>`",
    "| <script> | `<img src=x onerror=y>` |\n|---|---|\n| </table><script> | x |",
    "# <h1 id=x onclick=y>z</h1>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;script&#62; &#x3c;img&#x3e;",
    "<!-- --><script>alert(1)</script><!-- -->",
    "<?php echo 1 ?><![CDATA[<script>]]><!DOCTYPE x>",
    "[1\u{e001}\u{e000}\"><script>] \u{e000}1\u{e001} [\u{e000}1\u{e001}] [\u{e000}\"><img>\u{e001}]",
    "<p title=\"[1]\" onclick=x>[1]</p>",
    "\u{0}<scr\u{0}ipt>alert(1)</scr\u{0}ipt>",
    "<br onclick=alert(1)> <br/ > <br x>",
    "<details open ontoggle=alert(1)>x</details>",
    "<template><script>x</script></template><noscript><p title='</noscript><img src=x onerror=x>'>",
    "<xmp><script>x</script></xmp><plaintext>",
    "- <script>\n  alert(1)\n  </script>\n\n> <script>\n> x\n",
];

#[test]
fn nothing_hostile_gets_through() {
    for markdown in HOSTILE {
        for text in
            [(*markdown).to_owned(), format!("a {markdown} b"), format!("> - {markdown}\n\n{markdown}")]
        {
            let out = answer_html(&text);
            is_safe(&out).unwrap_or_else(|what| panic!("{what} of {text:?} in {out}"));
        }
    }
}

/// Returns texts of about `size` bytes that are expensive for a naive renderer.
fn expensive_texts(size: usize) -> Vec<(&'static str, String)> {
    let repeat = |text: &str| text.repeat(size / text.len());
    vec![
        ("brackets", repeat("[")),
        ("bracket pairs", repeat("[]")),
        ("closing brackets", repeat("]")),
        ("link starts", repeat("[a](")),
        ("image starts", repeat("![")),
        ("nested links", format!("{}a{}", "[".repeat(size / 5), "](x)".repeat(size / 5))),
        ("quotes", repeat(">")),
        ("quotes with text", format!("{} a\n", ">".repeat(size))),
        ("list items", repeat("- ")),
        ("indented list", (0..300).map(|depth| format!("{}- a\n", "  ".repeat(depth))).collect()),
        ("stars", repeat("*")),
        ("emphasis", repeat("*a **b ")),
        ("emphasis closed", format!("{}{}", "*a ".repeat(size / 6), "a* ".repeat(size / 6))),
        ("strong", format!("{}x{}", "**a".repeat(size / 6), "b**".repeat(size / 6))),
        ("underscores", repeat("_a")),
        ("tildes", repeat("~~a ~b ")),
        (
            "backticks",
            (1..)
                .map(|length| "`".repeat(length) + " ")
                .scan(0, |total, run| {
                    *total += run.len();
                    (*total < size).then_some(run)
                })
                .collect(),
        ),
        ("marks", repeat("[1] ")),
        ("unknown marks", repeat("[7]")),
        ("marks in begun links", repeat("[a [1] ")),
        ("marks in begun formulas", repeat("\\(a [1] $b [2] $$ ")),
        ("marks in begun code", repeat("<code>a [1] ")),
        ("dollars", repeat("$")),
        ("ranges", repeat("[1, 2] ")),
        ("tags", repeat("<a ")),
        ("comments", repeat("<!-- ")),
        ("entities", repeat("&amp;&#x")),
        ("pipes", format!("{}\n{}\n{}", repeat("|a"), repeat("|-"), "|\n".repeat(100))),
        ("rows", format!("|a|b|\n|-|-|\n{}", repeat("|1|2|\n"))),
        ("headings", repeat("# a\n")),
        ("fences", repeat("```\n")),
        ("addresses", repeat("https://a.example/b ")),
        ("mail addresses", repeat("a@b.c ")),
        ("dots", repeat("www.a.")),
        ("definitions", repeat("[a]: b\n\n")),
        ("escapes", repeat("\\[\\]")),
        ("one word", repeat("a")),
        ("lines", repeat("a\n")),
        ("blank lines", repeat("\n")),
        ("text", repeat("The term of the lease is two years [1]. ")),
        ("colons", repeat("a:b@c:")),
    ]
}

/// Returns the CPU time of this thread, independent of the load.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn expensive_texts_render_in_bounded_time() {
    let small_stack = std::thread::Builder::new().stack_size(1024 * 1024);
    let thread = small_stack.spawn(|| {
        for (name, text) in expensive_texts(100_000) {
            let begun = processor_time();
            let out = answer_html(&text);
            let took = processor_time() - begun;
            // Generous for a build without optimization; quadratic time would be far longer.
            assert!(took < Duration::from_secs(5), "{name}: {took:?}");
            is_safe(&out).unwrap_or_else(|what| panic!("{what} of {name}"));
            assert!(out.len() < 40 * text.len() + 1000, "{name}: {} of {}", out.len(), text.len());
        }
    });
    thread.unwrap().join().unwrap();
}

fn render_incrementally(markdown: &str, sizes: &[usize], look: bool) -> String {
    let sources = test_sources();
    let sources: &dyn CitationSources = &sources.as_slice();
    let mut renderer = Renderer::default();
    let mut characters = markdown.chars().peekable();
    let mut sizes = sizes.iter().cycle();
    while characters.peek().is_some() {
        let piece: String = characters.by_ref().take(*sizes.next().unwrap_or(&1)).collect();
        renderer.push_text(&piece, sources);
        if look {
            is_safe(renderer.tail_html(sources)).unwrap();
        }
    }
    renderer.end_text();
    let mut out: String = renderer.finished_blocks().iter().map(AsRef::as_ref).collect();
    out.push_str(renderer.tail_html(sources));
    out
}

#[test]
fn renderer_tail_shows_no_half_mark() {
    let sources = test_sources();
    let sources: &dyn CitationSources = &sources.as_slice();
    let mut renderer = Renderer::default();
    let paragraph = "The term of the lease is two years and the rent is due monthly [1]. ".repeat(5);
    renderer.push_text(&paragraph, sources);
    assert!(renderer.finished_blocks().is_empty());
    renderer.push_text("\n\nNext [", sources);
    assert_eq!(renderer.finished_blocks().len(), 1);
    let first = renderer.finished_blocks()[0].clone();
    assert_eq!(renderer.tail_html(sources), "<p>Next</p>\n");
    renderer.push_text("1", sources);
    assert_eq!(renderer.tail_html(sources), "<p>Next</p>\n");
    renderer.push_text("] word", sources);
    assert!(renderer.tail_html(sources).contains("data-citation=\"c1\""));
    assert!(std::sync::Arc::ptr_eq(&first, &renderer.finished_blocks()[0]));
}

#[test]
fn renderer_tail_independent_of_pieces() {
    let sources = test_sources();
    let sources: &dyn CitationSources = &sources.as_slice();
    for text in [
        "See www.example.org for more",
        "a b\u{a0}c, d; e? (f) 5%",
        "Rent\u{e000} is due\n\nnext ww",
        "wwww and *more* of it",
        "1 begins with a number",
        "word\r\n\r\nwww.example.org",
    ] {
        let mut growing = Renderer::default();
        for (at, character) in text.char_indices() {
            growing.push_text(&text[at..at + character.len_utf8()], sources);
            let mut at_once = Renderer::default();
            at_once.push_text(&text[..at + character.len_utf8()], sources);
            assert_eq!(growing.tail_html(sources), at_once.tail_html(sources), "{text:?} up to {at}");
        }
    }
}

#[test]
fn endless_block_costs_its_length() {
    let sources = test_sources();
    let sources: &dyn CitationSources = &sources.as_slice();
    let mut renderer = Renderer::default();
    let mut rendered = 0;
    let mut before = 0;
    for number in 0..20_000 {
        renderer.push_text(&format!("- item {number}\n"), sources);
        let tail = renderer.tail_html(sources);
        if tail.len() != before {
            rendered += tail.len();
        }
        before = tail.len();
    }
    renderer.end_text();
    let last = renderer.tail_html(sources);
    assert!(last.contains("item 19999"));
    assert!(rendered < 40 * last.len(), "{rendered} bytes rendered for {}", last.len());
}

#[test]
fn renderer_matches_render_answer_regressions() {
    let long = "long ".repeat(60);
    for text in [
        // A line that would continue a paragraph ends a table, and is code.
        format!("| a |\n|---|\n| {long} |\n     c\n\n       d\n\ne\n"),
    ] {
        for size in 1..60 {
            assert_eq!(render_incrementally(&text, &[size], false), answer_html(&text), "{text:?} by {size}");
        }
    }
}

/// Generates Markdown blocks as models write them, without interaction between blocks.
fn document_strategy() -> impl Strategy<Value = String> {
    let blocks = prop::sample::select(vec![
        "# A heading",
        "Some *text* that is long enough to be cut off from what follows it, with a mark [1] and [7] in it.",
        "a [2](x)\nb",
        "- one\n- two\n  more\n",
        "1. one\n\n   more\n2. two",
        "- a\n\n      code\n\n  b",
        "> quote\nlazy",
        "> - a\n>\n> b",
        "```\ncode [1]\n\nmore\n```",
        "~~~ x\n```\n\n~~~",
        "  ```\n  a\n  ```",
        "    indented\n\n    more",
        "|a|b|\n|-|-|\n|1|2|",
        "---",
        "* * *",
        "a\n===",
        "b\n---",
        "text\n- item\n\n  ```\n  x\n  ```\nafter",
        "10. ten\n   ```\n\n   ```",
        "- ```\n  x\n\n  y\n  ```",
        "<div>\n*a*\n</div>",
        "para\n```\nx\n\n```",
        "- a\n```\nb\n\nc\n```",
        "<!-- x\n\ny -->",
        "-",
        "- ",
        "2. two",
        "a | b\n- | -",
        "x\n2. y\n   ```\n\n   ```",
        "*",
        "- a\nlazy\n  ```\n\n  ```",
        "> a\n```\nb\n\n```",
        "\ttab\n\n\ttab",
        "- \tx\n\n\ty",
        "+ a\n+ b\n\n\n+ c",
        "&amp; <b>x</b>",
        "1) a\n\n1) b",
        "===",
        "[a]: b",
        "[1]: https://example.org",
        "- [ ] task\n- [x] task",
        "   three\n\n   spaces",
        "***bold***",
        "-   a\n\n    b\n\n  c",
        "- a\n\n b",
        "> # h\n    x\n\n    y",
        "| x |\n2. y\n   ```\n\n   ```",
        "- # h\ntext\n  ```\n\n  ```",
        "<b>\n```\n\nx",
        "<pre>\n\nx\n</pre>",
        "1. a\n- b\n* c",
        "`a\n\nb`",
        "**a\n\nb**",
        "~~~~\n~~~\n\n~~~~",
        "- a\n  - b\n    - c\n\n      d\n\ne",
        "  - a\n\n  b",
        "<details>\n<summary>a</summary>\n\nb\n\n</details>",
        "<details>\n\nb\n\n- c",
        "text\n<details><summary>a</summary>b</details>",
        "<b>x</b> <details>\n\ny",
        "- <details>\n\n  b\n\n  </details>",
        "> <details>\n>\n> b\n\nc",
        "\\[\nx_1 = 1\n\\]",
        "\\[\na\n= b\n- c_1\n\\]",
        "$$\na_1\n$$",
        "$$\na_1\n=\n- b\n$$",
        "$$\na\n- b\n$$",
        "\\[\na_1\n- b",
        "\\[\na_1 `\n- b\n\\] `",
        "\\[\n# a_1\n\\] more\n- c",
        "x\n\\[\na_1\n2. b\n\\]\n- c",
        "x \\(a_1 and\n\nb\\)",
        "H~2~O ~a b~",
    ]);
    let gap = prop::sample::select(vec!["\n", "\n\n", "\n\n\n", "\n \n", "\r\n\r\n", "\n\n "]);
    prop::collection::vec((blocks, gap), 0..12)
        .prop_map(|blocks| blocks.into_iter().map(|(block, gap)| format!("{block}{gap}")).collect())
}

/// Generates the same with paragraphs in between, so that every possible split is used.
fn long_document() -> impl Strategy<Value = String> {
    document_strategy()
        .prop_map(|text| format!("{}{text}{0}{text}", "Long paragraph of text. ".repeat(12) + "\n\n"))
}

/// Generates text with frequent Markdown characters.
fn noise_strategy() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        "[1]",
        "[",
        "]",
        "(",
        ")",
        ":",
        "`",
        "```",
        "~~~",
        "\n",
        "\n\n",
        " ",
        "  ",
        "    ",
        "\t",
        "- ",
        "1. ",
        "2. ",
        "> ",
        "# ",
        "|",
        "|-|",
        "\\",
        "a",
        "word ",
        "ř",
        "](https://x.y)",
        "*",
        "**",
        "_",
        "<b>",
        "<",
        "!",
        "---",
        "===",
        "https://a.b/c",
        "\r",
        "&lt;",
        "-",
        "+ ",
        "<details>",
        "</details>",
        "<summary>",
        "<sub>",
        "</sub>",
        "~",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "$",
        "$$",
        "x_1^2",
        "=",
        "(/a/b.c)",
    ]);
    prop::collection::vec(bits, 0..60).prop_map(|bits| bits.concat())
}

fn property_config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    ProptestConfig { cases, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn renderer_matches_render_answer(text in long_document(), sizes in prop::collection::vec(1_usize..80, 1..20)) {
        prop_assert_eq!(render_incrementally(&text, &sizes, false), answer_html(&text), "{}", text);
    }

    #[test]
    fn noise_and_tail_are_safe(text in noise_strategy(), sizes in prop::collection::vec(1_usize..20, 1..5)) {
        let out = answer_html(&text);
        prop_assert!(is_safe(&out).is_ok(), "{:?} of {:?} in {}", is_safe(&out), text, out);
        render_incrementally(&text, &sizes, true);
    }

    #[test]
    fn renderer_matches_render_answer_noise(text in noise_strategy(), sizes in prop::collection::vec(1_usize..80, 1..20)) {
        let text = format!("{}\n\n{text}\n\n{0}\n\n{text}", "Long paragraph of text. ".repeat(12));
        prop_assert_eq!(render_incrementally(&text, &sizes, false), answer_html(&text), "{}", text);
    }
}
