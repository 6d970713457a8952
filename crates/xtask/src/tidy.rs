//! The rules of the tree. Each rule is a function from the [`SourceTree`] to violations; a module groups one subject.
//!
//! Exceptions are in `exceptions.txt` beside this crate's manifest, with reasons. An unused exception is a
//! violation.

mod cycles;
mod documents;
mod imports;
mod manifests;
mod names;
mod sources;
mod tools;
mod tree;
mod vocabulary;

use std::fmt;
use std::path::Path;

pub use tree::{SourceFile, SourceTree};

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
pub struct TidyReport {
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
/// Fails if the tree or its manifests cannot be read.
pub fn check_tree(root: &Path) -> Result<TidyReport, String> {
    let tree = SourceTree::read_from(root)?;
    let mut complaints = manifests::check_manifests(&tree, &manifests::read_metadata(root)?);
    complaints.extend(cycles::check_cycles(&tree));
    complaints.extend(sources::check_sources(&tree));
    complaints.extend(documents::check_documents(&tree));
    complaints.extend(names::check_names(&tree));
    complaints.extend(tools::check_tool_names(&tree));
    complaints.extend(vocabulary::check_vocabulary(&tree));
    let mut complaints = apply_exceptions(&tree, complaints);
    complaints.sort();
    Ok(TidyReport { files: tree.files.len(), complaints })
}

/// Removes the complaints that the exceptions allow; adds a complaint for each exception that is malformed or
/// unused.
fn apply_exceptions(tree: &SourceTree, complaints: Vec<Complaint>) -> Vec<Complaint> {
    let mut left = complaints;
    for (index, line) in tree.file_text(EXCEPTIONS).unwrap_or("").lines().enumerate() {
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
            left.push(wrong("its reason is missing"));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_complaint(rule: &'static str, path: &str) -> Complaint {
        Complaint { path: path.into(), line: 1, rule, text: "so".into() }
    }

    #[test]
    fn exceptions_remove_complaints_once_needed() {
        let tree = SourceTree::from_texts(&[(
            EXCEPTIONS,
            "# why\nlong-file a.rs: one table\nlong-file b.rs: gone\nnonsense\n",
        )]);
        let left = apply_exceptions(
            &tree,
            vec![sample_complaint("long-file", "a.rs"), sample_complaint("unsafe", "a.rs")],
        );
        assert_eq!(left[0], sample_complaint("unsafe", "a.rs"));
        assert_eq!(left.iter().map(|left| left.line).collect::<Vec<_>>(), [1, 3, 4]);
    }
}
