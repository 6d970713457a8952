//! Tests of marks, in complete and in growing texts.

use super::*;
use proptest::prelude::*;

#[test]
fn marks_go_with_the_space_before_them() {
    for (markdown, text) in [
        ("The term is two years [1].", "The term is two years."),
        ("two years[1][2] and [3] more", "two years and more"),
        ("[1] The lease", "The lease"),
        ("- [1] item [2]\n- other", "- item\n- other"),
        ("a [1]  \nb", "a  \nb"),
        ("as agreed [1]: two years", "as agreed: two years"),
        ("[1]", ""),
        ("příliš [12] žluťoučký", "příliš žluťoučký"),
    ] {
        assert_eq!(strip(markdown), text, "{markdown:?}");
    }
}

#[test]
fn text_that_only_resembles_a_mark_stays() {
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
        "[2019] UKSC 5, [0], [01], [], [ 1 ], [1, 2], [1-3], [x]",
        "\\[1] and \\[2\\]",
        "[a](https://example.org/x[1]y(2)z)",
        "`a\nb [1] c`",
        "- a\n\n      a[1]\n",
        "> - ```\n>   a[1]\n>\n>   b[2]\n>   ```\n",
    ] {
        assert_eq!(strip(markdown), markdown, "{markdown:?}");
    }
}

#[test]
fn code_ends_with_its_paragraph_and_fence() {
    for (last, stripped) in [(0, "a[0] + a[3], at [45]"), (4, "a[0] + a, at [45]"), (99, "a[0] + a, at")] {
        assert_eq!(strip_up_to("a[0] + a[3], at [45]", last), stripped);
        let mut stripper = Stripper::default();
        for letter in ["a[0] + a[", "3], at [4", "5]"] {
            stripper.push(letter, last);
        }
        assert_eq!(stripper.finish(), stripped);
    }
    for (marked, stripped) in [
        ("The rent is 700 EUR **[1]**.", "The rent is 700 EUR."),
        ("Due *[1]*, _[2]_ and ***[3]*** ~~[4]~~", "Due, and"),
        ("**[1]** Rent", "Rent"),
        ("**Rent [1]** and *[2] more* and **[3]*", "**Rent** and * more* and ***"),
        ("****[1]****", "********"),
        ("700 EUR**[1]**", "700 EUR****"),
    ] {
        assert_eq!(strip(marked), stripped);
    }
    assert_eq!(strip("a ` b [1]\n\nc ` d [2]"), "a ` b\n\nc ` d");
    assert_eq!(strip("- a ` b [1]\n- c ` d"), "- a ` b\n- c ` d");
    assert_eq!(strip("```\n[1]\n```\nafter [2]."), "```\n[1]\n```\nafter.");
    assert_eq!(strip("- ```\n  x[1]\nafter [2]."), "- ```\n  x[1]\nafter.");
    assert_eq!(strip("> ```\n> x[1]\nafter [2]."), "> ```\n> x[1]\nafter.");
    assert_eq!(strip("a\n    ``` b [1]"), "a\n    ``` b");
    assert_eq!(strip("1. a\n\n   more [1]\n"), "1. a\n\n   more\n");
}

#[test]
fn a_half_mark_is_never_shown() {
    let mut stripper = Stripper::default();
    let mut shown = Vec::new();
    for piece in ["It is", " ", "[", "1", "]", ".", " Then `", "x[1]", "` ends ["] {
        stripper.push(piece, MARK_MAX);
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
    assert_eq!(stripper.finish(), "It is. Then `x[1]` ends [");
}

#[test]
fn waiting_is_bounded() {
    for opening in ["`", "](", "   ", "```"] {
        let mut stripper = Stripper::default();
        stripper.push("a ", MARK_MAX);
        stripper.push(opening, MARK_MAX);
        for _ in 0..10_000 {
            stripper.push("ab [x] ", MARK_MAX);
        }
        assert!(stripper.text().len() > 60_000, "{opening:?}");
    }
}

/// Generates text with many characters that are significant to the scanner.
fn markdown() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        "[1]", "[12]", "[", "]", "1", "(", ")", ":", "`", "``", "```", "~~~", "\n", "\n\n", " ", "    ",
        "\t", "- ", "1. ", "> ", "# ", "|", "\\", "a", "word ", "ř", "](x)", "[a]", "*", "+ ",
    ]);
    prop::collection::vec(bits, 0..40).prop_map(|bits| bits.concat())
}

proptest! {
    #[test]
    fn a_growing_text_only_grows(text in markdown(), cuts in prop::collection::vec(1_usize..6, 1..20)) {
        let whole = strip(&text);
        let mut stripper = Stripper::default();
        let mut characters = text.chars().peekable();
        let mut cuts = cuts.into_iter().cycle();
        while characters.peek().is_some() {
            let piece: String = characters.by_ref().take(cuts.next().unwrap_or(1)).collect();
            let before = stripper.text().to_owned();
            stripper.push(&piece, MARK_MAX);
            prop_assert!(stripper.text().starts_with(&before));
            prop_assert!(whole.starts_with(stripper.text()), "{:?} then {:?}", stripper.text(), whole);
        }
        prop_assert_eq!(stripper.finish(), whole);
    }

    #[test]
    fn pieces_cover_the_text(text in markdown()) {
        let mut at = 0;
        for piece in pieces(&text) {
            let range = match piece {
                Piece::Text(range) | Piece::Code(range) => range,
                Piece::Mark(mark) => {
                    prop_assert_eq!(&text[mark.brackets.clone()], format!("[{}]", mark.number));
                    mark.whole
                }
            };
            prop_assert!(range.start == at && range.end > at);
            at = range.end;
        }
        prop_assert_eq!(at, text.len());
    }
}
