//! Tests of marks, in complete and in growing texts.

use super::*;
use proptest::prelude::*;

fn strip_all(markdown: &str) -> String {
    strip_marks(markdown, |_| true)
}

/// Returns what is left of a text that comes letter by letter.
fn stripped_letter_by_letter(markdown: &str, known: impl Fn(u32) -> bool) -> String {
    let mut stripper = Stripper::default();
    for letter in markdown.chars() {
        stripper.push(letter.encode_utf8(&mut [0; 4]), &known);
    }
    stripper.finish(known)
}

#[test]
fn strip_removes_space_before_marks() {
    for (markdown, text) in [
        ("The term is two years [1].", "The term is two years."),
        ("two years[1][2] and [3] more", "two years and more"),
        ("[1] The lease", "The lease"),
        ("- [1] item [2]\n- other", "- item\n- other"),
        ("a [1]  \nb", "a  \nb"),
        ("as agreed [1]: two years", "as agreed: two years"),
        ("[1]", ""),
        ("příliš [12] žluťoučký", "příliš žluťoučký"),
        ("one [1, 2], two [1; 2], three [1-3], four [2\u{2013}4,7].", "one, two, three, four."),
        (
            "the “term”[1], (see annex)[2], 5 %[3] and **rent**[4].",
            "the “term”, (see annex), 5 % and **rent**.",
        ),
        ("租期两年[1]。另有[2]规定", "租期两年。另有规定"),
        (
            "see [the lease](https://a.example/x_y)[1] and `b`[2]",
            "see [the lease](https://a.example/x_y) and `b`",
        ),
        ("as https://a.example/x [1] says ([2]), [see [3]].", "as https://a.example/x says (), [see]."),
        ("costs $5 [1] and $6 [2]", "costs $5 and $6"),
        ("the area is $a^2$ [1], $x$[2].", "the area is $a^2$, $x$."),
        (
            "if a < b [1] use <code>c</code> [2] and the <code> tag [3]",
            "if a < b use <code>c</code> and the <code> tag",
        ),
    ] {
        assert_eq!(strip_all(markdown), text, "{markdown:?}");
        assert_eq!(stripped_letter_by_letter(markdown, |_| true), text, "{markdown:?}");
    }
}

#[test]
fn mark_ends_plain_word() {
    for (markdown, text) in [
        ("two months[1].", "two months."),
        ("two months[1][2], then", "two months, then"),
        ("nájemce[1] a pronajímatel[2–3]", "nájemce a pronajímatel"),
        ("the tenant's[1] part-time[2] PDFs[3]", "the tenant's part-time PDFs"),
        ("(the rent[1])", "(the rent)"),
        ("- rent[1]\n- notice[2]", "- rent\n- notice"),
    ] {
        assert_eq!(strip_all(markdown), text, "{markdown:?}");
        assert_eq!(stripped_letter_by_letter(markdown, |_| true), text, "{markdown:?}");
    }
}

#[test]
fn an_index_is_no_mark() {
    for markdown in [
        "A[2][3] and x[1]",
        "x_1[2], my_list[3] and userNames[1]",
        "arr[1], argv[2]",
        "users[1].name and items[2] = 5",
        "values[1](x) and print(items[2])",
        "f(x)[1] and {a}[2]",
        "in 2024[1] and H2O[2]",
        "\\item[1] and \\\\[2]",
        "[Options][1]",
    ] {
        assert_eq!(strip_all(markdown), markdown);
        assert_eq!(stripped_letter_by_letter(markdown, |_| true), markdown);
    }
}

#[test]
fn formulas_links_html_have_no_marks() {
    for markdown in [
        "$\\sqrt[3]{27}$ and $$A [2] = b_1$$",
        "\\(A [2]\\) and \\[ x [1] = \\frac{1}{2} \\]",
        "\\[\nx_1 = [1]\n\\]",
        "> \\[\n> x_1 = [1]\n> \\]",
        "the interval $[1, 2]$ and \\([3, 4]\\)",
        "https://x.test/a[1] and www.x.test/?a=b[2]&c",
        "<https://x.test/[1]>",
        "[see [1] there](https://x.test/)",
        "![chart [1]](chart.png)",
        "<code>c[1]</code>, <CODE class=\"x\">d [2]</CODE> and <pre>\ne [3]\n</pre>",
    ] {
        assert_eq!(strip_all(markdown), markdown);
        assert_eq!(stripped_letter_by_letter(markdown, |_| true), markdown);
    }
}

#[test]
fn numbers_without_a_source_stay_text() {
    let known = |number| (1..=2).contains(&number);
    for (markdown, text) in [
        ("Options: [1] yes [2] no [3] later", "Options: yes no [3] later"),
        ("a [1, 2], b [1, 3], c [1-3]", "a, b [1, 3], c [1-3]"),
        ("rent **[7]** [1]", "rent **[7]**"),
    ] {
        assert_eq!(strip_marks(markdown, known), text);
        assert_eq!(stripped_letter_by_letter(markdown, known), text);
    }
    assert_eq!(cited_numbers("a [2, 1] `[1]` b [1-2] c [3]", known).collect::<Vec<_>>(), [2, 1, 1, 2]);
}

#[test]
fn renumber_cites_only_numbers_with_sources() {
    let number = |of| match of {
        1 => Renumbered::To(7),
        2 => Renumbered::Dropped,
        3 => Renumbered::To(4),
        _ => Renumbered::Unknown,
    };
    for (markdown, text) in [
        ("a [1], b [2], c [9], rent[1].", "a [7], b, c \\[9], rent[7]."),
        ("a [1-3], b [2, 9] and `x[1]`", "a [7][4], b \\[2, 9] and `x[1]`"),
    ] {
        assert_eq!(renumber_marks(markdown, number), text);
    }
}

#[test]
fn strip_keeps_mark_lookalikes() {
    for markdown in [
        "see [1](https://example.org)",
        "[1]: https://example.org",
        "[[1]](https://example.org/)",
        "`a[1]` and ``b ` [2]``",
        "```\nx[1] = y [2]\n```\n",
        "~~~\n[1]\n```\n[2]\n~~~\n",
        "> ```\n> a [1]\n> ```\n",
        "- code:\n  ```py\n  a[1]\n  ```\n",
        "text\n\n    a[1] = 2\n\n    b[2]\n",
        "[2019] UKSC 5, [0], [01], [], [ 1 ], [1 ], [3-1], [1,], [1, x], [1 2], [1-40], [x]",
        "\\[1] and \\[2\\]",
        "[a](https://example.org/x[1]y(2)z)",
        "`a\nb [1] c`",
        "- a\n\n      a[1]\n",
        "> - ```\n>   a[1]\n>\n>   b[2]\n>   ```\n",
    ] {
        assert_eq!(strip_all(markdown), markdown, "{markdown:?}");
    }
}

#[test]
fn code_ends_with_paragraph_and_fence() {
    for (marked, stripped) in [
        ("The rent is 700 EUR **[1]**.", "The rent is 700 EUR."),
        ("Due *[1]*, _[2]_ and ***[3]*** ~~[4]~~", "Due, and"),
        ("**[1]** Rent", "Rent"),
        ("**Rent [1]** and *[2] more* and **[3]*", "**Rent** and * more* and ***"),
        ("****[1]****", "********"),
        ("700 EUR**[1]**", "700 EUR****"),
    ] {
        assert_eq!(strip_all(marked), stripped);
    }
    assert_eq!(strip_all("a ` b [1]\n\nc ` d [2]"), "a ` b\n\nc ` d");
    assert_eq!(strip_all("- a ` b [1]\n- c ` d"), "- a ` b\n- c ` d");
    assert_eq!(strip_all("```\n[1]\n```\nafter [2]."), "```\n[1]\n```\nafter.");
    assert_eq!(strip_all("- ```\n  x[1]\nafter [2]."), "- ```\n  x[1]\nafter.");
    assert_eq!(strip_all("> ```\n> x[1]\nafter [2]."), "> ```\n> x[1]\nafter.");
    assert_eq!(strip_all("a\n    ``` b [1]"), "a\n    ``` b");
    assert_eq!(strip_all("1. a\n\n   more [1]\n"), "1. a\n\n   more\n");
}

#[test]
fn a_half_mark_is_never_shown() {
    let mut stripper = Stripper::default();
    let mut shown = Vec::new();
    for piece in ["It is", " ", "[", "1", "]", ".", " Then `", "x[1]", "` ends ["] {
        stripper.push(piece, |_| true);
        shown.push(stripper.text().to_owned());
    }
    assert_eq!(
        shown,
        [
            "It is",
            "It is",
            "It is",
            "It is",
            "It is",
            "It is.",
            "It is. Then ",
            "It is. Then ",
            "It is. Then `x[1]` ends"
        ]
    );
    assert_eq!(stripper.finish(|_| true), "It is. Then `x[1]` ends [");
}

#[test]
fn waiting_is_bounded() {
    for opening in ["`", "](", "   ", "```", "$", "$$", "\\(", "\\[", "<code", "[", "<"] {
        let mut stripper = Stripper::default();
        stripper.push("a ", |_| true);
        stripper.push(opening, |_| true);
        for _ in 0..10_000 {
            stripper.push("ab [x] [1] ", |_| true);
        }
        assert!(stripper.text().len() > 50_000, "{opening:?}");
    }
}

/// Generates text with many characters that are significant to the scanner.
fn markdown_strategy() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        "[1]", "[12]", "[", "]", "1", "(", ")", ":", "`", "``", "```", "~~~", "\n", "\n\n", " ", "    ",
        "\t", "- ", "1. ", "> ", "# ", "|", "\\", "a", "word ", "ř", "](x)", "[a]", "*", "+ ", "$", "$$",
        "\\(", "\\)", "\\[", "\\]", "^", "<code>", "</code>", "<", "://", "www.", "word", "[1, 2]", "[1-3]",
        "[1", "2, 3]", "=", ".", "租",
    ]);
    prop::collection::vec(bits, 0..40).prop_map(|bits| bits.concat())
}

proptest! {
    #[test]
    fn a_growing_text_only_grows(text in markdown_strategy(), cuts in prop::collection::vec(1_usize..6, 1..20)) {
        let whole = strip_all(&text);
        let mut stripper = Stripper::default();
        let mut characters = text.chars().peekable();
        let mut cuts = cuts.into_iter().cycle();
        while characters.peek().is_some() {
            let piece: String = characters.by_ref().take(cuts.next().unwrap_or(1)).collect();
            let before = stripper.text().to_owned();
            stripper.push(&piece, |_| true);
            prop_assert!(stripper.text().starts_with(&before));
            prop_assert!(whole.starts_with(stripper.text()), "{:?} then {:?}", stripper.text(), whole);
        }
        prop_assert_eq!(stripper.finish(|_| true), whole);
    }

    #[test]
    fn pieces_cover_the_text(text in markdown_strategy()) {
        let mut at = 0;
        for piece in split_pieces(&text) {
            let range = match piece {
                MarkdownPiece::Text(range) | MarkdownPiece::Code(range) => range,
                MarkdownPiece::Mark(mark) => {
                    prop_assert!(!mark.numbers.is_empty() && mark.numbers.len() <= MARK_NUMBERS_MAX);
                    let brackets = &text[mark.brackets.clone()];
                    prop_assert!(brackets.starts_with('[') && brackets.ends_with(']'), "{}", brackets);
                    prop_assert_eq!(find_marks(&format!(" {brackets}")).next().map(|mark| mark.numbers), Some(mark.numbers));
                    mark.whole
                }
            };
            prop_assert!(range.start == at && range.end > at);
            at = range.end;
        }
        prop_assert_eq!(at, text.len());
    }
    #[test]
    fn text_without_marks_is_unchanged(text in markdown_strategy()) {
        let is_changed = strip_all(&text) != text;
        prop_assert_eq!(is_changed, find_marks(&text).next().is_some());
        prop_assert_eq!(strip_marks(&text, |_| false), text.as_str());
        prop_assert_eq!(stripped_letter_by_letter(&text, |_| false), text);
    }

    #[test]
    fn text_without_brackets_streams_at_once(text in "[a-z$<\\\\(). :/]{0,80}") {
        let mut stripper = Stripper::default();
        stripper.push(&text, |_| true);
        stripper.push("\n\nend ", |_| true);
        prop_assert!(stripper.text().starts_with(&text));
    }
}
