//! Checks sources: lengths, `unsafe`, leftovers, silenced lints, sleeps in tests, module docs.

use super::{Complaint, SourceFile, SourceTree};

/// The longest source file, in lines.
const FILE_MAX_LINES: usize = 600;
/// The longest function, in lines: one screen, or two for an exhaustive match.
const FUNCTION_MAX_LINES: usize = 100;
/// The places of `unsafe`: the jail around a machine, the agent in it, and the release of memory to the
/// system.
const UNSAFE_CRATES: [&str; 3] = ["crates/machine/", "crates/guest/", "crates/causerie/src/memory.rs"];
/// The maximum distance of a SAFETY comment above its `unsafe`, in lines.
const SAFETY_LINES: usize = 8;

pub(super) fn check_sources(tree: &SourceTree) -> Vec<Complaint> {
    let mut out = Vec::new();
    for file in tree.with_suffix(".rs") {
        check_lengths(file, &mut out);
        check_unsafe_code(file, &mut out);
        check_leftovers(file, &mut out);
        check_sleeps(file, &mut out);
        let entry = ["/src/lib.rs", "/src/main.rs", "/build.rs"].iter().any(|end| file.path.ends_with(end));
        if entry && !file.text.starts_with("//!") {
            push_complaint(&mut out, file, 1, "docstring", "module docs are missing (`//!`)");
        }
    }
    out
}

fn push_complaint(
    out: &mut Vec<Complaint>,
    file: &SourceFile,
    line: usize,
    rule: &'static str,
    text: impl Into<String>,
) {
    out.push(Complaint { path: file.path.clone(), line, rule, text: text.into() });
}

/// Removes the comment and the strings of a line, approximately.
fn strip_comment_and_strings(line: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    let mut previous = ' ';
    for (at, letter) in line.char_indices() {
        if letter == '"' && previous != '\\' && previous != '\'' {
            quoted = !quoted;
        } else if !quoted && line[at..].starts_with("//") {
            break;
        } else if !quoted {
            out.push(letter);
        }
        previous = letter;
    }
    out
}

fn check_lengths(file: &SourceFile, out: &mut Vec<Complaint>) {
    let lines: Vec<&str> = file.text.lines().collect();
    if lines.len() > FILE_MAX_LINES {
        let text = format!("{} lines, more than {FILE_MAX_LINES}: split it by topic", lines.len());
        push_complaint(out, file, 0, "long-file", text);
    }
    for (index, line) in lines.iter().enumerate() {
        let indentation = line.len() - line.trim_start().len();
        let head = strip_comment_and_strings(line);
        if !head.split_whitespace().take(6).any(|word| word == "fn") || head.trim_end().ends_with(['}', ';'])
        {
            continue;
        }
        // In formatted code, the closing brace of a function has the indentation of its head, as has the last line of
        // a declaration without a body.
        let (indent, rest) = (" ".repeat(indentation), &lines[index + 1..]);
        let outdented =
            rest.iter().find(|line| line.starts_with(&indent) && line[indentation..].starts_with(')'));
        if head.trim_end().ends_with('(') && outdented.is_some_and(|line| line.ends_with(';')) {
            continue;
        }
        let closing = format!("{indent}}}");
        let length = lines[index..].iter().position(|line| *line == closing).unwrap_or(0) + 1;
        if length > FUNCTION_MAX_LINES {
            let text = format!("a function of {length} lines, more than {FUNCTION_MAX_LINES}");
            push_complaint(out, file, index + 1, "long-function", text);
        }
    }
}

fn check_unsafe_code(file: &SourceFile, out: &mut Vec<Complaint>) {
    let allowed = UNSAFE_CRATES.iter().any(|prefix| file.path.starts_with(prefix));
    let lines: Vec<&str> = file.text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let code = strip_comment_and_strings(line);
        if !code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|word| word == "unsafe")
        {
            continue;
        }
        let above = &lines[index.saturating_sub(SAFETY_LINES)..=index];
        if !allowed {
            push_complaint(
                out,
                file,
                index + 1,
                "unsafe",
                "unsafe code in a wrong place: move it to the crates machine or guest, or to memory.rs of causerie",
            );
        } else if !above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
            push_complaint(
                out,
                file,
                index + 1,
                "unsafe",
                "unsafe code without a `// SAFETY:` comment: say why it is sound",
            );
        }
    }
}

/// Forbidden leftovers, with their remedy. Written in two pieces, so that this file does not contain them.
fn banned_leftovers() -> [(String, &'static str); 8] {
    let joined = |left: &str, right: &str| format!("{left}{right}");
    [
        (joined("TO", "DO"), "do it, or write an issue"),
        (joined("FIX", "ME"), "fix it, or write an issue"),
        (joined("todo", "!("), "write it"),
        (joined("unimpl", "emented!("), "write it"),
        (joined("#[all", "ow("), "use #[expect(…, reason = …)], which reports when it is no longer needed"),
        (joined("#![all", "ow("), "use #![expect(…, reason = …)], which reports when it is no longer needed"),
        (joined("#[ign", "ore"), "a test that does not run proves nothing"),
        (joined("#[should_", "panic"), "assert the error, not that something somewhere fails"),
    ]
}

fn check_leftovers(file: &SourceFile, out: &mut Vec<Complaint>) {
    let banned = banned_leftovers();
    for (index, line) in file.text.lines().enumerate() {
        for (words, instead) in &banned {
            if line.contains(words.as_str()) {
                push_complaint(out, file, index + 1, "leftover", format!("{words}: {instead}"));
            }
        }
    }
}

/// Real sleeps in tests. Files that pause time are exempt.
fn check_sleeps(file: &SourceFile, out: &mut Vec<Complaint>) {
    let paused = ["start_paused", "time::pause"].iter().any(|words| file.text.contains(words));
    if paused || file.path.starts_with("crates/xtask/") {
        return;
    }
    let mut testing = file.path.contains("/tests/")
        || ["crates/conformance/", "crates/e2e/"].iter().any(|folder| file.path.starts_with(folder));
    for (index, line) in file.text.lines().enumerate() {
        testing |= line.starts_with("#[cfg(test)]");
        if testing && (line.contains("thread::sleep(") || line.contains("time::sleep(")) {
            push_complaint(out, file, index + 1, "sleep", "wait for a condition, not for time to pass");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_complaints(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let tree = SourceTree::from_texts(&[(path, text)]);
        check_sources(&tree).iter().map(|complaint| (complaint.rule, complaint.line)).collect()
    }

    #[test]
    fn lengths_are_bounded() {
        let body = |lines: usize| {
            format!("impl X {{\n    fn long() {{\n{}    }}\n}}\n", "        a();\n".repeat(lines))
        };
        assert_eq!(found_complaints("crates/a/src/b.rs", &body(FUNCTION_MAX_LINES - 2)), []);
        assert_eq!(
            found_complaints("crates/a/src/b.rs", &body(FUNCTION_MAX_LINES - 1)),
            [("long-function", 2)]
        );
        assert_eq!(
            found_complaints("crates/a/src/b.rs", &"a();\n".repeat(FILE_MAX_LINES + 1)),
            [("long-file", 0)]
        );
    }

    #[test]
    fn unsafe_code_needs_place_and_reason() {
        assert_eq!(
            found_complaints("crates/store/src/b.rs", "// SAFETY: it is.\nunsafe { a() }\n"),
            [("unsafe", 2)]
        );
        assert_eq!(found_complaints("crates/machine/src/b.rs", "// SAFETY: it is.\nunsafe { a() }\n"), []);
        assert_eq!(found_complaints("crates/machine/src/b.rs", "let x = unsafe { a() };\n"), [("unsafe", 1)]);
        let words = "#![expect(unsafe_code, reason = \"x\")]\n// unsafe\nlet a = \"unsafe\";\n";
        assert_eq!(found_complaints("crates/store/src/b.rs", words), []);
    }

    #[test]
    fn leftovers_are_reported() {
        for (words, _) in banned_leftovers() {
            assert_eq!(
                found_complaints("crates/a/src/b.rs", &format!("x {words} y\n")),
                [("leftover", 1)],
                "{words}"
            );
        }
    }

    #[test]
    fn sleep_in_test_is_refused() {
        let sleep = "std::thread::sleep(x);\n";
        assert_eq!(found_complaints("crates/a/tests/b.rs", sleep), [("sleep", 1)]);
        assert_eq!(found_complaints("crates/a/src/b.rs", sleep), []);
        assert_eq!(
            found_complaints("crates/a/src/b.rs", &format!("#[cfg(test)]\nmod tests {{\n{sleep}")),
            [("sleep", 3)]
        );
        assert_eq!(
            found_complaints("crates/a/tests/b.rs", &format!("#[tokio::test(start_paused = true)]\n{sleep}")),
            []
        );
    }

    #[test]
    fn a_crate_has_docs() {
        assert_eq!(found_complaints("crates/a/src/lib.rs", "mod b;\n"), [("docstring", 1)]);
        assert_eq!(found_complaints("crates/a/src/lib.rs", "//! A crate.\n"), []);
    }
}
