//! Checks that modules side by side, at the top of a crate and in each folder, do not import one another in a circle.
//!
//! The circles in folders that remain are listed in `cycles.txt` beside this crate's manifest, with the number of modules
//! in them. The list may only shrink.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{ModuleFile, ModulePath, read_modules};
use super::{Complaint, SourceTree};

/// The file of remaining circles: lines of `folder modules`; `#` begins a comment.
const REMAINING: &str = "crates/xtask/cycles.txt";

/// The imports between modules side by side: importer and imported module, with a file that contains the import.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

pub(super) fn check_cycles(tree: &SourceTree) -> Vec<Complaint> {
    let mut out = Vec::new();
    let mut remaining = read_remaining(tree, &mut out);
    for name in crate_names(tree) {
        let root = format!("crates/{name}/src/");
        let files: Vec<(&str, &str)> = tree
            .with_suffix(".rs")
            .filter_map(|file| Some((file.path.strip_prefix(&root)?, file.text.as_str())))
            .collect();
        let modules = read_modules(&files);
        let parents: BTreeSet<&[String]> =
            modules.iter().filter_map(|file| Some(file.module.split_last()?.1)).collect();
        for parent in parents {
            let cycles = find_cycles(&find_imports(&modules, parent));
            let path = format!("{root}{}", parent.join("/")).trim_end_matches('/').to_owned();
            out.extend(check_folder(path, &cycles, &mut remaining));
        }
    }
    out.extend(remaining.into_keys().map(|path| {
        let text =
            format!("no modules import one another in a circle any more: remove the line from {REMAINING}");
        cycle_complaint(path, text)
    }));
    out
}

fn cycle_complaint(path: String, text: String) -> Complaint {
    Complaint { path, line: 0, rule: "cycle", text }
}

/// Reads the list of remaining circles: the number of modules in them, by folder.
fn read_remaining(tree: &SourceTree, out: &mut Vec<Complaint>) -> BTreeMap<String, usize> {
    let mut remaining = BTreeMap::new();
    for (index, line) in tree.file_text(REMAINING).unwrap_or("").lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(' ').and_then(|(path, size)| Some((path, size.trim().parse().ok()?))) {
            Some((path, size)) => {
                remaining.insert(path.to_owned(), size);
            }
            None => out.push(Complaint {
                path: REMAINING.to_owned(),
                line: index + 1,
                rule: "cycle",
                text: "the line is malformed: write `folder modules`".to_owned(),
            }),
        }
    }
    remaining
}

/// Compares the circles of a folder with the list.
fn check_folder(path: String, cycles: &[Cycle], remaining: &mut BTreeMap<String, usize>) -> Vec<Complaint> {
    let size: usize = cycles.iter().map(|cycle| cycle.modules).sum();
    let allowed = if size == 0 { None } else { remaining.remove(&path) };
    match allowed {
        Some(allowed) if size == allowed => Vec::new(),
        Some(allowed) if size < allowed => {
            let text = format!("only {size} modules are in circles: write {size} in {REMAINING}");
            vec![cycle_complaint(path, text)]
        }
        _ => {
            let text = |cycle: &Cycle| {
                format!("{} modules import one another in a circle: {}", cycle.modules, cycle.imports)
            };
            cycles.iter().map(|cycle| cycle_complaint(path.clone(), text(cycle))).collect()
        }
    }
}

fn crate_names(tree: &SourceTree) -> BTreeSet<String> {
    let sources =
        tree.with_suffix(".rs").filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"));
    sources.filter(|(name, _)| !name.contains('/')).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the imports between the child modules of `parent`.
fn find_imports(files: &[ModuleFile], parent: &[String]) -> Imports {
    let child_of = |path: &ModulePath| path.strip_prefix(parent)?.first().cloned();
    let children: BTreeSet<String> = files.iter().filter_map(|file| child_of(&file.module)).collect();
    let exports: BTreeMap<&String, &String> =
        files.iter().filter(|file| file.module == parent).flat_map(|file| &file.exports).collect();
    let mut imports = Imports::new();
    for file in files {
        let Some(importer) = child_of(&file.module) else { continue };
        for first in file.imports.iter().filter_map(child_of) {
            let module = exports.get(&first).map_or(first.clone(), |module| (*module).clone());
            if children.contains(&module) && module != importer {
                let of = imports.entry(importer.clone()).or_default();
                of.entry(module).or_insert_with(|| file.file.clone());
            }
        }
    }
    imports
}

/// Modules that import one another.
struct Cycle {
    /// The number of modules.
    modules: usize,
    /// Their imports of one another.
    imports: String,
}

/// Returns every circle.
fn find_cycles(imports: &Imports) -> Vec<Cycle> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reachable_modules(imports, module))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|reached| reached.contains(to));
    let (mut seen, mut out) = (BTreeSet::new(), Vec::new());
    for module in imports.keys().map(String::as_str).filter(|module| reaches(module, module)) {
        if !seen.insert(module) {
            continue;
        }
        let circle: Vec<&str> =
            reached[module].iter().copied().filter(|other| reaches(other, module)).collect();
        seen.extend(&circle);
        let mut edges = Vec::new();
        for from in &circle {
            for (to, path) in imports.get(*from).into_iter().flatten() {
                if circle.contains(&to.as_str()) {
                    edges.push(format!("{from} -> {to} ({path})"));
                }
            }
        }
        out.push(Cycle { modules: circle.len(), imports: edges.join(", ") });
    }
    out
}

fn reachable_modules<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(module) = waiting.pop() {
        for next in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next.as_str()) {
                waiting.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_cycles(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        check_cycles(&SourceTree::from_texts(&files)).into_iter().map(|complaint| complaint.text).collect()
    }

    #[test]
    fn cycle_complaint_names_imports() {
        let text = found_cycles(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Thing;\n"),
            ("a.rs", "use crate::{b::{B, D}, d};\n"),
            ("b/mod.rs", "use super::Thing;\n"),
            ("c.rs", "fn f() { crate::a::g() }\n"),
            ("d.rs", "use crate::d::e;\n"),
        ]);
        let circle = "a -> b (a.rs), b -> c (b/mod.rs), c -> a (c.rs)";
        assert_eq!(text, [format!("3 modules import one another in a circle: {circle}")]);
    }

    #[test]
    fn imports_of_tests_and_comments_ignored() {
        let files = [
            ("a.rs", "use crate::b;\n#[cfg(test)]\nmod fixture;\nmod c;\n"),
            ("b.rs", "// crate::a\n$crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\nfn f() {}\n"),
            ("b/tests.rs", "use crate::a;\n"),
            ("b/inner.rs", "use super::a;\n#[cfg(test)]\nuse crate::a;\n"),
            ("c.rs", "use crate::a;\n"),
            ("a/fixture.rs", "use crate::c;\n"),
        ];
        assert!(found_cycles(&files).is_empty(), "{:?}", found_cycles(&files));
        let mut files = files.to_vec();
        files.push(("b/other.rs", "use crate::a;\n"));
        assert_eq!(found_cycles(&files).len(), 1, "files below a module are part of it");
    }
}
