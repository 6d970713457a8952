use super::*;

fn parse_head(text: &str) -> Frontmatter {
    parse_frontmatter(&format!("---\n{text}\n---\nThe body.\n")).unwrap()
}

#[test]
fn parse_frontmatter_reads_each_text_style() {
    for (written, meant) in [
        ("d: plain", "plain"),
        ("d: plain # not this", "plain"),
        ("d: bills #1 and #2 # not this", "bills #1 and #2"),
        ("d: a colon: in the text", "a colon: in the text"),
        ("d: \"quoted: \\\"so\\\"\\n\\u00e9\"", "quoted: \"so\"\né"),
        ("d: 'it''s' # no", "it's"),
        ("d: \"a\" and more", "\"a\" and more"),
        ("d: \"never closed", "\"never closed"),
        ("d: |\n  one\n    two\n\n  three", "one\n  two\n\nthree"),
        ("d: >-\n  one\n  two\n\n  three", "one two\nthree"),
        ("d: one\n  two\n  three", "one two three"),
        ("d:\n  one\n  two", "one two"),
        ("d: \"one\n  two\"", "one two"),
        ("d: *alias", "*alias"),
        ("d: &anchor text", "text"),
        ("d: &anchor a: colon", "&anchor a: colon"),
        ("d: 1.10", "1.10"),
        ("d: yes", "yes"),
    ] {
        assert_eq!(parse_head(written).get_text("d").as_deref(), Some(meant), "{written}");
    }
    for below in ["Reads bills. Pairs with the other: first.", "Use: always", "Use: a\n  and: b"] {
        let meant = below.replace("\n ", "");
        let parsed = parse_head(&format!("description:\n  {below}\nlicense: MIT"));
        assert_eq!(parsed.get_text("description"), Some(meant), "{below}");
        assert_eq!(parsed.get_text("license").as_deref(), Some("MIT"));
    }
    for nothing in ["d:", "d: ~", "d: ''", "d:\n  a: 1\n  b: 2", "d: {a: 1}"] {
        assert_eq!(parse_head(nothing).get_text("d"), None, "{nothing}");
    }
}

#[test]
fn lists_are_read_in_each_form() {
    for written in [
        "t: Read, Bash(git add:*)",
        "t: Read Bash(git add:*)",
        "t: [Read, \"Bash(git add:*)\"]",
        "t:\n  - Read\n  - Bash(git add:*)",
        "t:\n- 'Read'\n- Bash(git add:*)",
        "t:\n  [\"Read\", \"Bash(git add:*)\"]",
        "t:\n  [\n    Read,\n    \"Bash(git add:*)\",\n  ]",
    ] {
        assert_eq!(parse_head(written).get_names("t").unwrap(), ["Read", "Bash(git add:*)"], "{written}");
    }
    assert_eq!(parse_head("t:\n  - a\nd: after").get_text("d").unwrap(), "after");
}

#[test]
fn unindented_text_continues_to_next_key() {
    let text = "description: Use it. Examples:\n\n<example>\nuser: \"Go\"\n</example>\ntools: Read\nother: x";
    let parsed = parse_head(text);
    assert_eq!(
        parsed.get_text("description").unwrap(),
        "Use it. Examples: <example> user: \"Go\" </example>"
    );
    assert_eq!(
        (parsed.get_names("tools").unwrap(), parsed.get_text("other").unwrap()),
        (vec!["Read".into()], "x".into())
    );
    assert_eq!(parsed.problems.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4], "reported once");
}

#[test]
fn missing_frontmatter_names_its_line() {
    let parsed = parse_head("what is this\nname: a\nname: b\nd: x");
    assert_eq!(parsed.problems.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4]);
    assert_eq!((parsed.get_text("name").unwrap(), parsed.line_of_key("d")), ("a".to_owned(), Some(5)));
    assert_eq!(parsed.body, "The body.\n");
    assert_eq!(parse_frontmatter("---\nname: a\n"), Err(HeadError::Open));
    assert_eq!(parse_frontmatter(&format!("---\n{}", "a: b\n".repeat(20_000))), Err(HeadError::TooLong));
    let open = parse_frontmatter("\n\n---\nname: a\n\n# Title\n").unwrap();
    assert_eq!((open.get_text("name").unwrap().as_str(), open.body.as_str()), ("a", "# Title\n"));
    assert_eq!((open.line_of_key("name"), open.problems[0].0), (Some(4), 5));
    assert_eq!(parse_frontmatter("# Title\n").unwrap().body, "# Title\n");
    assert_eq!(
        parse_frontmatter("\u{feff}---\r\nname: a\r\n---\r\nx").unwrap().get_text("name").unwrap(),
        "a"
    );
}

#[test]
fn nothing_multiplies() {
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for key in b'b'..=b'z' {
        let (key, before) = (char::from(key), char::from(key - 1));
        bomb.push_str(&format!("{key}: &{key} [*{before}, *{before}, *{before}, *{before}]\n"));
    }
    assert!(parse_head(&bomb).get_names("z").unwrap().len() <= 5, "an alias is plain text");
    let deep = format!("d: {}", "[".repeat(30_000));
    assert!(parse_head(&deep).get_names("d").is_some_and(|items| items.len() <= 1));
}

proptest::proptest! {
    #[test]
    fn parse_frontmatter_never_panics(text in "(---\n)?([a-c]: ?|[|>\"'\\[\\]{},:# \n\\\\u0-]|  |- |é){0,60}(\n---\n)?x?") {
        let _ = parse_frontmatter(&text);
    }
}
