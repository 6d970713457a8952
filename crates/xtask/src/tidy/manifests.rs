//! Checks manifests: crates, the edges between them, versions and their reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Complaint, SourceTree};

const MAP: &str = "ARCHITECTURE.md";
const ROOT: &str = "Cargo.toml";

/// The dependencies between crates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Edges {
    /// Of the program and its build.
    normal: BTreeSet<String>,
    /// Of its tests only.
    tests: BTreeSet<String>,
}

pub(super) type Crates = BTreeMap<String, Edges>;

/// Returns the crates and edges from `cargo metadata`.
pub(super) fn read_metadata(root: &Path) -> Result<Crates, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let value: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(crate_edges(&value))
}

fn crate_edges(metadata: &Value) -> Crates {
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let mut crates = Crates::new();
    for package in list(metadata, "packages") {
        let mut found = Edges::default();
        for dependency in list(&package, "dependencies") {
            let (Some(name), true) = (dependency["name"].as_str(), dependency["path"].is_string()) else {
                continue;
            };
            if dependency["kind"] == "dev" {
                found.tests.insert(name.to_owned());
            } else {
                found.normal.insert(name.to_owned());
            }
        }
        found.tests = found.tests.difference(&found.normal).cloned().collect();
        crates.insert(package["name"].as_str().unwrap_or("").to_owned(), found);
    }
    crates
}

/// Parses the crates and edges of the map's table: rows of `| crate | what it is | uses |`. Uses are names,
/// or `–` if empty; uses of tests follow `; tests:`.
fn parse_map_rows(text: &str) -> Vec<(usize, String, Edges)> {
    let names = |list: &str| -> BTreeSet<String> {
        list.split(',')
            .map(|name| name.trim().trim_matches('`'))
            .filter(|name| !["", "–"].contains(name))
            .map(Into::into)
            .collect()
    };
    let rows = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("| crate |")).skip(2);
    rows.take_while(|(_, line)| line.starts_with('|'))
        .filter_map(|(index, line)| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, _, uses] = cells[..] else { return None };
            let (normal, tests) = uses.split_once("tests:").unwrap_or((uses, ""));
            let edges = Edges { normal: names(normal.trim().trim_end_matches(';')), tests: names(tests) };
            Some((index + 1, name.trim_matches('`').to_owned(), edges))
        })
        .collect()
}

pub(super) fn check_manifests(tree: &SourceTree, crates: &Crates) -> Vec<Complaint> {
    let mut out = check_map(tree, crates);
    // The fuzz targets are a separate workspace.
    for file in tree.with_suffix("/Cargo.toml").filter(|file| !file.path.starts_with("fuzz/")) {
        check_member(&file.path, &file.text, crates, &mut out);
    }
    check_root(tree, &mut out);
    out
}

fn new_complaint(path: &str, line: usize, rule: &'static str, text: String) -> Complaint {
    Complaint { path: path.to_owned(), line, rule, text }
}

fn check_map(tree: &SourceTree, crates: &Crates) -> Vec<Complaint> {
    let rows = parse_map_rows(tree.file_text(MAP).unwrap_or(""));
    let mut out = Vec::new();
    let show = |edges: &Edges| format!("{:?}, for tests {:?}", edges.normal, edges.tests);
    for (line, name, meant) in &rows {
        match crates.get(name) {
            None => out.push(new_complaint(MAP, *line, "map", format!("unknown crate {name}"))),
            Some(real) if real != meant => {
                let text = format!("{name} uses {}; the manifest says {}", show(meant), show(real));
                out.push(new_complaint(MAP, *line, "map", text));
            }
            Some(_) => {}
        }
    }
    for name in crates.keys().filter(|name| rows.iter().all(|(_, mapped, _)| mapped != *name)) {
        out.push(new_complaint(MAP, 0, "map", format!("the crate {name} is missing from the table")));
    }
    out
}

fn check_member(path: &str, text: &str, crates: &Crates, out: &mut Vec<Complaint>) {
    let folder = path.rsplit('/').nth(1).unwrap_or("");
    if !crates.contains_key(folder) {
        out.push(new_complaint(path, 0, "manifest", "the crate's name differs from its folder".into()));
    }
    if !text.contains("[lints]\nworkspace = true") {
        out.push(new_complaint(
            path,
            0,
            "manifest",
            "the lints of the workspace are missing: add `[lints] workspace = true`".into(),
        ));
    }
    let mut section = "";
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]")
            && line.contains('=')
            && !line.starts_with('#')
            && !line.contains("workspace = true")
        {
            let text = "version set here: move it to the root's [workspace.dependencies]".into();
            out.push(new_complaint(path, index + 1, "manifest", text));
        }
    }
}

/// Checks the root's dependencies: each has a reason (a comment on its line or above its group) and is used.
fn check_root(tree: &SourceTree, out: &mut Vec<Complaint>) {
    let text = tree.file_text(ROOT).unwrap_or("");
    let mut grouped = false;
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    for (index, line) in lines.take_while(|(_, line)| !line.starts_with('[')) {
        if line.starts_with('#') {
            grouped = true;
        } else if line.trim().is_empty() {
            grouped = false;
        } else if let Some((name, rest)) = line.split_once(" = ") {
            if !grouped && !rest.contains(" # ") {
                out.push(new_complaint(
                    ROOT,
                    index + 1,
                    "reason",
                    format!("{name} has no reason: add a comment"),
                ));
            }
            let used = tree.with_suffix("/Cargo.toml").any(|file| {
                file.text.lines().any(|line| {
                    line.starts_with(&format!("{name}.")) || line.starts_with(&format!("{name} = "))
                })
            });
            if !used && !rest.contains("path = ") {
                out.push(new_complaint(ROOT, index + 1, "reason", format!("no crate uses {name}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample_crates() -> Crates {
        crate_edges(&json!({"packages": [
            {"name": "domain", "dependencies": [{"name": "uuid", "kind": null}]},
            {"name": "store", "dependencies": [
                {"name": "domain", "kind": null, "path": "x"},
                {"name": "standin", "kind": "dev", "path": "x"},
            ]},
        ]}))
    }

    fn rules_and_lines(complaints: &[Complaint]) -> Vec<(&str, usize)> {
        complaints.iter().map(|complaint| (complaint.rule, complaint.line)).collect()
    }

    #[test]
    fn the_map_equals_the_manifests() {
        let map = |rows: &str| {
            SourceTree::from_texts(&[(MAP, &format!("# Map\n| crate | what | uses |\n|--|--|--|\n{rows}"))])
        };
        let right = "| `domain` | words | – |\n| `store` | rows | domain; tests: standin |\n";
        assert_eq!(check_manifests(&map(right), &sample_crates()), []);
        let wrong = "| `domain` | words | – |\n| `store` | rows | – |\n| `other` | – | – |\n";
        assert_eq!(
            rules_and_lines(&check_manifests(&map(wrong), &sample_crates())),
            [("map", 5), ("map", 6)]
        );
        assert_eq!(rules_and_lines(&check_manifests(&map(""), &sample_crates())), [("map", 0), ("map", 0)]);
    }

    #[test]
    fn member_manifest_inherits_versions_and_lints() {
        let lints = "[lints]\nworkspace = true\n";
        let mut out = Vec::new();
        check_member(
            "crates/domain/Cargo.toml",
            &format!("{lints}[dependencies]\nuuid.workspace = true\n"),
            &sample_crates(),
            &mut out,
        );
        assert_eq!(out, []);
        check_member(
            "crates/odd/Cargo.toml",
            "[dev-dependencies]\nuuid = \"1\"\n",
            &sample_crates(),
            &mut out,
        );
        assert_eq!(rules_and_lines(&out), [("manifest", 0), ("manifest", 0), ("manifest", 2)]);
    }

    #[test]
    fn root_dependency_has_reason_and_user() {
        let toml = "[workspace.dependencies]\n# For all.\na = \"1\"\n\nb = \"1\" # bytes\nc = \"1\"\nd = \"1\" # idle\n";
        let user = "[dependencies]\na.workspace = true\nb = { workspace = true }\nc.workspace = true\n";
        let mut out = Vec::new();
        check_root(&SourceTree::from_texts(&[(ROOT, toml), ("crates/x/Cargo.toml", user)]), &mut out);
        assert_eq!(rules_and_lines(&out), [("reason", 6), ("reason", 7)]);
    }
}
