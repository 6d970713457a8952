//! Checks formulas, code, links, images and the HTML that answers may have.

use domain::answer::AnswerSource;
use render::{Renderer, render_answer};

use crate::{REL, answer_html, render_incrementally};

#[test]
fn formulas_stay_as_they_are_written() {
    assert_eq!(answer_html(r"It is \(a_1^2\) [7]."), "<p>It is \\(a_1^2\\) [7].</p>\n");
    assert_eq!(
        answer_html("\\[\n\\frac{a}{b}\n= c_1 * d_1 * e\n\\]"),
        "<p>\\[\n\\frac{a}{b}\n= c_1 * d_1 * e\n\\]</p>\n"
    );
    assert_eq!(
        answer_html(r"`\(a_1\)` and \(in prose\), \(x\)"),
        "<p><code>\\(a_1\\)</code> and (in prose), \\(x\\)</p>\n"
    );
    assert_eq!(answer_html("$a_1 * b_1$ costs $5 * 3$"), "<p>$a_1 * b_1$ costs $5 * 3$</p>\n");
    assert_eq!(answer_html("> \\[\n> a_1  \n> \\]"), "<blockquote><p>\\[\na_1\n\\]</p></blockquote>\n");
}

#[test]
fn code_keeps_its_language() {
    assert_eq!(answer_html("```rust\nx\n```"), "<pre><code class=\"language-rust\">x\n</code></pre>\n");
    assert_eq!(answer_html("~~~c++ {.x}\nx\n~~~"), "<pre><code class=\"language-c++\">x\n</code></pre>\n");
    for info in ["", "\"><b>", "x\"onclick=y", "é", &"a".repeat(33)] {
        assert_eq!(answer_html(&format!("~~~{info}\nx\n~~~")), "<pre><code>x\n</code></pre>\n", "{info}");
    }
}

#[test]
fn answers_allow_few_html_elements() {
    for (markdown, expected) in [
        (
            "x<sup>2</sup>, H<sub>2</sub>O, <kbd>Ctrl</kbd>",
            "<p>x<sup>2</sup>, H<sub>2</sub>O, <kbd>Ctrl</kbd></p>\n",
        ),
        ("<sup onclick=x>a", "<p><sup>a</sup></p>\n"),
        ("H~2~O ~~gone~~", "<p>H<sub>2</sub>O <del>gone</del></p>\n"),
        ("about 5~6 or 7~8 of them", "<p>about 5~6 or 7~8 of them</p>\n"),
        ("a <div>b</div> <u>c</u>", "<p>a &lt;div&gt;b&lt;/div&gt; &lt;u&gt;c&lt;/u&gt;</p>\n"),
        ("<?php x ?>", "<p>&lt;?php x ?&gt;</p>\n"),
        ("a <details>b", "<p>a &lt;details&gt;b</p>\n"),
        (
            "<details>\n<summary><b>Steps</b></summary>\n\n1. *a*\n\n</details>\n\nafter",
            "<details><summary><strong>Steps</strong></summary><ol><li><em>a</em></li></ol></details><p>after</p>\n",
        ),
        (
            "<details>\n<script>x</script>\n</details>",
            "<p>&lt;details&gt;\n&lt;script&gt;x&lt;/script&gt;\n&lt;/details&gt;</p>\n",
        ),
    ] {
        assert_eq!(answer_html(markdown).replace('\n', ""), expected.replace('\n', ""), "{markdown}");
    }
    let long = "Long paragraph of text. ".repeat(20);
    let document = format!(
        "{long}\n\n<details>\n<summary>A</summary>\n\n{long}\n\n{long}\n\n</details>\n\n{long}\n\n{long}\n"
    );
    for size in [1, 7, 100] {
        assert_eq!(render_incrementally(&document, &[size], true), answer_html(&document));
    }
    let out = answer_html(&document);
    let (before, within) = out.split_once("<details>").unwrap();
    assert_eq!(
        (before.matches("<p>").count(), within.split("</details>").next().unwrap().matches("<p>").count()),
        (1, 2)
    );
}

#[test]
fn workspace_links_lead_to_files() {
    let linked = |markdown: &str| {
        let out = answer_html(markdown);
        out.split_once("href=\"").map(|(_, rest)| rest.split_once('"').unwrap().0.to_owned())
    };
    for (address, file) in [
        ("/uploads/x.docx", "/api/v1/files/uploads/x.docx"),
        ("chart.png", "/api/v1/files/chart.png"),
        ("./out/chart.png", "/api/v1/files/out/chart.png"),
        ("/workspace/out/a.csv#rows", "/api/v1/files/out/a.csv"),
        ("uploads/sub/../a%20%C3%A1.pdf", "/api/v1/files/uploads/a%20%C3%A1.pdf"),
        ("<a b.pdf>", "/api/v1/files/a%20b.pdf"),
        ("/uploads/", "/api/v1/files/uploads"),
        ("%2e%2e/a.txt", ""),
        ("../a.txt", ""),
        ("a/../../b.txt", ""),
        ("/workspace/../a.txt", "/api/v1/files/a.txt"),
        ("/workspace/../../a.txt", ""),
        ("//evil.example/a.txt", ""),
        ("/%2fevil.example/a.txt", "/api/v1/files/evil.example/a.txt"),
        ("\\\\evil.example/a.txt", ""),
        ("a\\b.txt", ""),
        ("javascript:alert(1).txt", ""),
        ("x:y/a.txt", ""),
        ("file:///uploads/a.txt", ""),
        ("www.example.org", ""),
        ("example.com", ""),
        ("example.org/page.html", ""),
        ("README", ""),
        ("#part", ""),
        ("?a.txt", ""),
        ("%00a.txt", ""),
        ("a%ff.txt", ""),
    ] {
        let expected = Some(file.to_owned()).filter(|file| !file.is_empty());
        assert_eq!(linked(&format!("[x]({address})")), expected, "{address}");
    }
    assert_eq!(
        answer_html("![A *chart*](chart.png)"),
        format!("<p><a href=\"/api/v1/files/chart.png\" data-image=\"\" {REL}>A <em>chart</em></a></p>\n")
    );
    assert!(!render::render_document("[x](/uploads/x.docx)").contains("href"));
}

#[test]
fn multiline_formula_stays_whole() {
    let long = "Long paragraph of text. ".repeat(20);
    for formula in ["\\[\nx_1\n= b\n- c\n+ d\n\\]", "$$\nx_1\n=\nb\n- c\n$$", "so\n\\[\nx_1\n- c\n\\]"] {
        let text = format!("{long}\n\n{formula}\n\n{long}\n\n{long}\n");
        assert!(answer_html(&text).contains(&format!("<p>{formula}</p>")), "{}", answer_html(&text));
        assert_eq!(render_incrementally(&text, &[5], true), answer_html(&text));
    }
}

#[test]
fn images_become_links() {
    for (markdown, text) in [
        ("![a *cat*](https://example.org/c.png)", "a <em>cat</em>"),
        ("![](https://example.org/c.png)", "https://example.org/c.png"),
    ] {
        let expected = format!("<p><a href=\"https://example.org/c.png\" {REL}>{text}</a></p>\n");
        assert_eq!(answer_html(markdown), expected);
    }
    assert_eq!(answer_html("![x](data:image/png;base64,AA)"), "<p>x</p>\n");
    let nested = answer_html("[![x](https://a.example/p)](https://b.example/)");
    assert_eq!(nested.matches("<a ").count(), 1, "{nested}");
}

#[test]
fn comments_hide_nothing_but_themselves() {
    for (markdown, expected) in [
        ("<!-- note -->The rent is due.\n\nNext.", "<p>The rent is due.</p>\n<p>Next.</p>"),
        ("<!-- a --> one <!-- b --> two", "<p>one  two</p>"),
        ("<!-- only -->\n\nText.", "<p>Text.</p>"),
        ("<!-- never closed\nThe rent.", "<p>&lt;!-- never closed\nThe rent.</p>"),
    ] {
        assert_eq!(answer_html(markdown).trim(), expected, "{markdown}");
    }
}

/// A table of a megabyte has some hundred thousand cells, and each costs a reader hundreds of bytes.
#[test]
fn oversized_table_shown_as_written() {
    let row = |cell: &str| format!("|{}\n", format!(" {cell} |").repeat(1000));
    let table = format!("{}{}{}", row("head"), row("---"), row("x").repeat(800));
    let text = format!("A paragraph before it.\n\n{table}\nA paragraph after it.\n");
    let none: &[AnswerSource] = &[];
    let out = render_answer(&text, &none);
    assert_eq!(
        out,
        format!(
            "<p>A paragraph before it.</p>\n<pre><code>{table}</code></pre>\n<p>A paragraph after it.</p>\n"
        )
    );
    let mut renderer = Renderer::default();
    for piece in text.as_bytes().chunks(64 * 1024) {
        renderer.push_text(std::str::from_utf8(piece).expect("it is ASCII"), &none);
        assert!(renderer.tail_html(&none).matches("<td").count() <= 30_000, "nor is it while it grows");
    }
    renderer.end_text();
    let grown = renderer.finished_blocks().concat() + renderer.tail_html(&none);
    assert_eq!(grown, out);
}
