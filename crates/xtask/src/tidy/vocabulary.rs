//! Checks the vocabulary: replaced phrases must not return, and doc lines are
//! not fragments. `docs/glossary.md` has the terms.

use super::{Complaint, SourceFile, SourceTree};

/// Phrases that were replaced, in documents and comments, and their replacements.
const PHRASES: &[(&str, &str)] = &[
    ("the barest", "baseline"),
    ("less politely", "SIGKILL is also safe"),
    ("for hostile", "as untrusted"),
    ("is no matter of", "is not part of"),
    ("did not tell its models", "model discovery failed"),
    ("only grows", "a monotonic counter"),
    ("for trial", "a self-test"),
    ("as it was told", "as configured"),
];

/// The words that no doc line begins with: docs of functions begin with a verb, docs of types and fields with a noun.
const FRAGMENT_BEGINNINGS: [&str; 3] = ["What ", "Who ", "Whether "];
/// The document that publishes docs of `api` to clients. Lines that it contains are its text, so they stay as published.
const PUBLISHED: &str = "crates/api/openapi.yaml";

pub(super) fn check_vocabulary(tree: &SourceTree) -> Vec<Complaint> {
    let mut out = find_replaced_phrases(tree);
    out.extend(find_fragments(tree));
    out
}

/// Checks for replaced phrases.
fn find_replaced_phrases(tree: &SourceTree) -> Vec<Complaint> {
    let mut out = Vec::new();
    for file in tree.with_suffix(".rs").filter(|file| !file.path.ends_with("tidy/vocabulary.rs")) {
        for (index, line) in file.text.lines().enumerate() {
            check_phrases(file, index + 1, find_comment(line), &mut out);
        }
    }
    for file in tree.with_suffix(".md").filter(|file| file.path != "CHANGELOG.md") {
        for (index, line) in file.text.lines().enumerate() {
            check_phrases(file, index + 1, line, &mut out);
        }
    }
    out
}

fn push_complaint(out: &mut Vec<Complaint>, file: &SourceFile, line: usize, text: String) {
    out.push(Complaint { path: file.path.clone(), line, rule: "vocabulary", text });
}

fn check_phrases(file: &SourceFile, line: usize, text: &str, out: &mut Vec<Complaint>) {
    for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| text.contains(phrase)) {
        push_complaint(out, file, line, format!("\"{phrase}\": write \"{instead}\""));
    }
}

/// Checks that no doc line begins with one of [`FRAGMENT_BEGINNINGS`], unless it is [`PUBLISHED`].
fn find_fragments(tree: &SourceTree) -> Vec<Complaint> {
    let published = tree.file_text(PUBLISHED).unwrap_or_default();
    let mut out = Vec::new();
    for file in tree.with_suffix(".rs") {
        let is_api = file.path.starts_with("crates/api/src/");
        for (index, line) in file.text.lines().enumerate() {
            let Some(doc) = doc_fragment(line) else { continue };
            if !(is_api && published.contains(doc)) {
                let text = "doc line begins with What, Who or Whether: begin with a verb or a noun";
                push_complaint(&mut out, file, index + 1, text.to_owned());
            }
        }
    }
    out
}

/// Returns the doc of a line that begins with one of [`FRAGMENT_BEGINNINGS`].
fn doc_fragment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let doc = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "))?;
    FRAGMENT_BEGINNINGS.iter().any(|begin| doc.starts_with(begin)).then_some(doc)
}

/// Returns the comment of a line; empty if it has none.
fn find_comment(line: &str) -> &str {
    let (mut quoted, mut previous) = (false, ' ');
    for (at, letter) in line.char_indices() {
        if letter == '"' && previous != '\\' && previous != '\'' {
            quoted = !quoted;
        } else if !quoted && line[at..].starts_with("//") {
            return &line[at..];
        }
        previous = letter;
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_phrases_are_refused() {
        let tree = SourceTree::from_texts(&[
            ("crates/a/src/lib.rs", "let a = b; // the barest\nlet c = \"the barest // \";\n"),
            ("docs/a.md", "It only grows.\nIt grows.\n"),
            ("CHANGELOG.md", "It only grows.\n"),
        ]);
        let mut found = find_replaced_phrases(&tree);
        found.sort();
        let places: Vec<(&str, usize)> = found.iter().map(|found| (&*found.path, found.line)).collect();
        assert_eq!(places, [("crates/a/src/lib.rs", 1), ("docs/a.md", 1)]);
    }

    #[test]
    fn doc_fragments_refused_unless_published() {
        let tree = SourceTree::from_texts(&[
            (
                "crates/a/src/lib.rs",
                "//! Who it is.\n    /// Whether it is.\n// What it is.\n/// Whatever.\n/// What is in it.\n",
            ),
            ("crates/api/src/lib.rs", "/// What is in it.\n/// What it is.\n"),
            (PUBLISHED, "description: What is in it.\n"),
        ]);
        let found: Vec<(String, usize)> =
            find_fragments(&tree).into_iter().map(|found| (found.path, found.line)).collect();
        let a = |line| ("crates/a/src/lib.rs".to_owned(), line);
        assert_eq!(found, [a(1), a(2), a(5), ("crates/api/src/lib.rs".to_owned(), 2)]);
    }
}
