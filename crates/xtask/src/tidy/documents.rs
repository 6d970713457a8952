//! Checks documents: links resolve, commands and variables exist, no absolute paths.

use std::collections::BTreeSet;

use super::{Complaint, File, Tree};

/// Where variables are described: those of the service for its operators, those of a machine and of tests in
/// documents of their own.
const DOCUMENTS: &str = "docs/";
const SETTINGS: &str = "docs/configuration.md";
const CHANGELOG: &str = "CHANGELOG.md";

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut out = Vec::new();
    for file in tree.ending(".md") {
        links(tree, file, &mut out);
        commands(tree, file, &mut out);
    }
    for file in &tree.files {
        machine_paths(tree, file, &mut out);
    }
    variables(tree, &mut out);
    changelog(tree, &mut out);
    out
}

fn push(out: &mut Vec<Complaint>, path: &str, line: usize, rule: &'static str, text: String) {
    out.push(Complaint { path: path.to_owned(), line, rule, text });
}

/// Relative links resolve, their headings included.
fn links(tree: &Tree, file: &File, out: &mut Vec<Complaint>) {
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        fenced ^= line.starts_with("```");
        for target in line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
            if fenced || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let full = if path.is_empty() { Some(file.path.clone()) } else { resolve(&file.path, path) };
            let Some(full) = full.filter(|full| tree.paths.contains(full)) else {
                push(out, &file.path, index + 1, "link", format!("{target} leads nowhere"));
                continue;
            };
            if !heading.is_empty() && !headings(tree.text(&full).unwrap_or("")).contains(heading) {
                push(out, &file.path, index + 1, "link", format!("{full} has no heading #{heading}"));
            }
        }
    }
}

/// The path that `relative` means in the file at `from`; none when it leaves the tree.
fn resolve(from: &str, relative: &str) -> Option<String> {
    let mut pieces: Vec<&str> = from.split('/').collect();
    pieces.pop();
    for piece in relative.trim_end_matches('/').split('/') {
        match piece {
            "" | "." => {}
            ".." => {
                pieces.pop()?;
            }
            name => pieces.push(name),
        }
    }
    Some(pieces.join("/"))
}

/// The anchors of a document's headings, as forges make them.
fn headings(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            words.chars().filter(|letter| letter.is_alphanumeric() || ['-', '_'].contains(letter)).collect()
        })
        .collect()
}

/// Every `make x` in a document is a target of the Makefile.
fn commands(tree: &Tree, file: &File, out: &mut Vec<Complaint>) {
    let makefile = tree.text("Makefile").unwrap_or("");
    for (index, line) in file.text.lines().enumerate() {
        let marked = line.split("`make ").skip(1).chain(line.strip_prefix("make "));
        for rest in marked {
            let word = rest.split(|letter: char| !letter.is_ascii_lowercase() && letter != '-').next();
            let target = word.unwrap_or("");
            if !target.is_empty() && !makefile.lines().any(|line| line.starts_with(&format!("{target}:"))) {
                push(out, &file.path, index + 1, "command", format!("the Makefile has no {target}"));
            }
        }
    }
}

/// Nothing names a place of the machine that it was written on.
fn machine_paths(tree: &Tree, file: &File, out: &mut Vec<Complaint>) {
    let homes = [["/ho", "me/"].concat(), ["/Us", "ers/"].concat()];
    for (index, line) in file.text.lines().enumerate() {
        let home = !file.path.ends_with(".rs") && homes.iter().any(|home| line.contains(home.as_str()));
        if home || line.contains(&tree.root) {
            push(out, &file.path, index + 1, "machine-path", "a path of one machine".into());
        }
    }
}

/// The variables that programs, builds and tests read are those that are described.
fn variables(tree: &Tree, out: &mut Vec<Complaint>) {
    let sources = tree.ending(".rs").filter(|file| !file.path.starts_with("crates/xtask/"));
    let read: BTreeSet<String> = sources.flat_map(|file| names(&file.text)).collect();
    let documents = tree.files.iter().filter(|file| file.path.starts_with(DOCUMENTS));
    let mut described: BTreeSet<String> = documents.flat_map(|file| names(&file.text)).collect();
    // The service reads one for each key of the settings, which its own tests hold against that page.
    let settings: BTreeSet<String> = keys(tree.text(SETTINGS).unwrap_or("")).collect();
    described.extend(settings.iter().cloned());
    for name in read.difference(&described) {
        push(out, DOCUMENTS, 0, "variable", format!("the code reads {name}, which no document describes"));
    }
    for name in described.difference(&read).filter(|name| !settings.contains(*name)) {
        push(out, DOCUMENTS, 0, "variable", format!("no code reads {name}"));
    }
}

/// The variables of the keys that a table's rows begin with.
fn keys(text: &str) -> impl Iterator<Item = String> {
    let keys = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    keys.map(|key| ["CAUSERIE_", &key.to_uppercase().replace('.', "_")].concat())
}

/// The words that begin with `CAUSERIE_`.
fn names(text: &str) -> BTreeSet<String> {
    text.match_indices("CAUSERIE_")
        .map(|(at, _)| {
            let end = text[at..].find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            text[at..end.map_or(text.len(), |end| at + end)].to_owned()
        })
        .filter(|name| !name.ends_with('_'))
        .collect()
}

/// The changelog has what is not released yet, and newest first.
fn changelog(tree: &Tree, out: &mut Vec<Complaint>) {
    let first = tree.text(CHANGELOG).and_then(|text| text.lines().find(|line| line.starts_with("## ")));
    if first != Some("## Unreleased") {
        push(out, CHANGELOG, 0, "changelog", "its first section is not `## Unreleased`".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let mut files = files.to_vec();
        files.push((CHANGELOG, "## Unreleased\n"));
        check(&Tree::of(&files)).into_iter().map(|complaint| (complaint.rule, complaint.text)).collect()
    }

    #[test]
    fn links_and_their_headings_resolve() {
        let ok = "# The way\n[a](../README.md) [b](#the-way) [c](https://x.y/z) [d](x.md#at-home)\n";
        let files = [("docs/a.md", ok), ("README.md", ""), ("docs/x.md", "## At home!\n")];
        assert_eq!(found(&files), []);
        let wrong = "[a](gone.md) [b](../../up.md) [c](#nowhere)\n";
        assert_eq!(found(&[("docs/a.md", wrong)]).len(), 3);
    }

    #[test]
    fn commands_exist() {
        let files = [("Makefile", "demo: build\n"), ("README.md", "`make demo` or\nmake test\n")];
        assert_eq!(found(&files), [("command", "the Makefile has no test".to_owned())]);
    }

    #[test]
    fn variables_are_described() {
        let read = "env(\"CAUSERIE_DATA\"); env(\"CAUSERIE_NEW\")";
        let files = [("crates/a/tests/b.rs", read), ("docs/a.md", "`CAUSERIE_DATA`, CAUSERIE_OLD.")];
        let told: Vec<String> = found(&files).into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            told,
            ["the code reads CAUSERIE_NEW, which no document describes", "no code reads CAUSERIE_OLD"]
        );
    }

    #[test]
    fn a_key_of_the_settings_describes_its_variable() {
        let files = [
            ("crates/a/tests/b.rs", "env(\"CAUSERIE_LOG_LEVEL\"); env(\"CAUSERIE_LOG_LEVELS\")"),
            (SETTINGS, "| key |\n| `log.level` | `CAUSERIE_LOG_LEVEL` |\n| `data` | x |\n"),
        ];
        let told: Vec<String> = found(&files).into_iter().map(|(_, text)| text).collect();
        assert_eq!(told, ["the code reads CAUSERIE_LOG_LEVELS, which no document describes"]);
    }

    #[test]
    fn no_path_of_one_machine() {
        assert_eq!(found(&[("a.sh", "cd /nowhere/at/all/x\n")]).len(), 1);
        assert_eq!(found(&[("a.sh", &["cd /ho", "me/me\n"].concat())]).len(), 1);
    }

    #[test]
    fn the_changelog_begins_with_what_is_not_released() {
        assert_eq!(check(&Tree::of(&[(CHANGELOG, "## 0.1.0\n")])).len(), 1);
    }
}
