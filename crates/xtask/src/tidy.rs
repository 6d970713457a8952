//! The rules of the tree. Each rule is a function from the [`Tree`] to violations; a module groups one subject.
//!
//! Exceptions are in `exceptions.txt` beside this crate's manifest, with reasons. An unused exception is a
//! violation.

mod cycles;
mod documents;
mod manifests;
mod sources;
mod tools;
mod tree;
mod vocabulary;

use std::fmt;
use std::path::Path;

pub use tree::{File, Tree};

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// The path, from the root of the tree.
    pub path: String,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The rule's name, as `exceptions.txt` names it.
    pub rule: &'static str,
    /// The violation and its remedy.
    pub text: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.text)
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The number of files that were read.
    pub files: usize,
    /// The violations, sorted by path and line.
    pub complaints: Vec<Complaint>,
}

/// The file of exceptions: lines of `rule path: reason`; `#` begins a comment.
const EXCEPTIONS: &str = "crates/xtask/exceptions.txt";

/// Checks the tree under `root`.
///
/// # Errors
/// If the tree or its manifests cannot be read.
pub fn run(root: &Path) -> Result<Report, String> {
    let tree = Tree::read(root)?;
    let mut complaints = manifests::check(&tree, &manifests::metadata(root)?);
    complaints.extend(cycles::check(&tree));
    complaints.extend(sources::check(&tree));
    complaints.extend(documents::check(&tree));
    complaints.extend(tools::check(&tree));
    complaints.extend(vocabulary::check(&tree));
    let mut complaints = except(&tree, complaints);
    complaints.sort();
    Ok(Report { files: tree.files.len(), complaints })
}

/// Removes the complaints that the exceptions allow; adds a complaint for each exception that is malformed or
/// unused.
fn except(tree: &Tree, complaints: Vec<Complaint>) -> Vec<Complaint> {
    let mut left = complaints;
    for (index, line) in tree.text(EXCEPTIONS).unwrap_or("").lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |text: &str| Complaint {
            path: EXCEPTIONS.to_owned(),
            line: index + 1,
            rule: "exception",
            text: text.to_owned(),
        };
        let Some(((rule, path), reason)) =
            line.split_once(": ").and_then(|(head, reason)| Some((head.split_once(' ')?, reason)))
        else {
            left.push(wrong("it should read `rule path: reason`"));
            continue;
        };
        let before = left.len();
        left.retain(|complaint| complaint.rule != rule || complaint.path != path);
        if left.len() == before {
            left.push(wrong("unused exception: remove the line"));
        } else if reason.trim().is_empty() {
            left.push(wrong("it lacks a reason"));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(rule: &'static str, path: &str) -> Complaint {
        Complaint { path: path.into(), line: 1, rule, text: "so".into() }
    }

    #[test]
    fn an_exception_takes_its_complaints_out_and_must_be_needed() {
        let tree =
            Tree::of(&[(EXCEPTIONS, "# why\nlong-file a.rs: one table\nlong-file b.rs: gone\nnonsense\n")]);
        let left = except(&tree, vec![complaint("long-file", "a.rs"), complaint("unsafe", "a.rs")]);
        assert_eq!(left[0], complaint("unsafe", "a.rs"));
        assert_eq!(left.iter().map(|left| left.line).collect::<Vec<_>>(), [1, 3, 4]);
    }
}
