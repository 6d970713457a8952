//! Checks that a crate's top-level modules do not import one another in a circle.
//!
//! An import is a path that begins with `crate::`, or with `super::` in a top-level module; a name that the crate's root
//! re-exports counts as its module. Code for tests and names that macros put together are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::{Complaint, SourceFile, SourceTree};

/// The imports between the top-level modules of a crate: importer and imported module, with a file that contains the
/// import.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The crates whose modules still import one another in a circle; none may be added.
const KNOWN_CYCLES: [&str; 1] = ["documents"];

pub(super) fn check_cycles(tree: &SourceTree) -> Vec<Complaint> {
    let mut out = Vec::new();
    for name in crate_names(tree).into_iter().filter(|name| !KNOWN_CYCLES.contains(&name.as_str())) {
        let complaint = |circle| Complaint {
            path: format!("crates/{name}/src"),
            line: 0,
            rule: "cycle",
            text: format!("top-level modules import one another in a circle: {circle}"),
        };
        out.extend(find_cycles(&find_imports(tree, &name)).into_iter().map(complaint));
    }
    out
}

fn crate_names(tree: &SourceTree) -> BTreeSet<String> {
    let sources =
        tree.with_suffix(".rs").filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"));
    sources.filter(|(name, _)| !name.contains('/')).map(|(name, _)| name.to_owned()).collect()
}

fn find_imports(tree: &SourceTree, name: &str) -> Imports {
    let root = format!("crates/{name}/src/");
    let files: Vec<(&str, &SourceFile)> =
        tree.with_suffix(".rs").filter_map(|file| Some((file.path.strip_prefix(&root)?, file))).collect();
    let entries = ["lib.rs", "main.rs"];
    let mut modules: BTreeSet<&str> = files.iter().map(|(path, _)| top_module(path)).collect();
    for other in ["lib", "main", "bin", "tests"] {
        modules.remove(other);
    }
    let mut test_only = BTreeSet::new();
    let mut exports = BTreeMap::new();
    for (path, file) in &files {
        let folder =
            if entries.contains(path) { "" } else { path.trim_end_matches("mod.rs").trim_end_matches(".rs") };
        let folder = if folder.is_empty() { "" } else { folder.trim_end_matches('/') };
        let (code, tests) = without_tests(&file.text);
        test_only.extend(tests.into_iter().map(|test| join_path(folder, &test)));
        if entries.contains(path) {
            exports.extend(re_exports(&code, &modules));
        }
    }
    let mut imports = Imports::new();
    for (path, file) in &files {
        let place = path.trim_end_matches(".rs").trim_end_matches("/mod");
        let test = path.split('/').any(|part| part == "tests" || part == "tests.rs")
            || test_only.iter().any(|test| place == test || place.starts_with(&format!("{test}/")));
        let importer = top_module(path);
        if test || !modules.contains(importer) {
            continue;
        }
        let (code, _) = without_tests(&file.text);
        let mut found = paths_after(&code, "crate::");
        if place == importer {
            found.extend(paths_after(&code, "super::"));
        }
        for first in found {
            let module = exports.get(&first).cloned().unwrap_or(first);
            if modules.contains(module.as_str()) && module != importer {
                let of = imports.entry(importer.to_owned()).or_default();
                of.entry(module).or_insert_with(|| (*path).to_owned());
            }
        }
    }
    imports
}

fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Returns the top-level module of a file, by its path below `src`.
fn top_module(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Removes comments and items under `#[cfg(test)]`. Also returns the names of such modules in separate files.
fn without_tests(text: &str) -> (String, Vec<String>) {
    let (mut code, mut modules) = (String::new(), Vec::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            let indentation = &line[..line.len() - line.trim_start().len()];
            let closing = format!("{indentation}}}");
            for line in lines.by_ref() {
                let item = line.trim();
                if let Some(module) = item.strip_suffix(';').and_then(|item| item.split_once("mod ")) {
                    modules.push(module.1.to_owned());
                }
                if item.ends_with(';')
                    && line.starts_with(indentation)
                    && !line.starts_with(&format!("{indentation} "))
                    || line == closing
                {
                    break;
                }
            }
            continue;
        }
        code.push_str(line.split("//").next().unwrap_or(""));
        code.push('\n');
    }
    (code, modules)
}

/// Returns the first names of all paths that begin with `prefix`; several for `prefix{a, b::c}`.
fn paths_after(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|letter| letter.is_alphanumeric() || "_$:".contains(letter)) {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let items = if rest.starts_with('{') { split_use_group(rest) } else { vec![rest] };
        found.extend(items.into_iter().map(first_name).filter(|name| !name.is_empty()));
    }
    found
}

/// Splits `{a, b::{c, d}}…` into `a` and `b::{c, d}`.
fn split_use_group(text: &str) -> Vec<&str> {
    let (mut items, mut depth, mut begin) = (Vec::new(), 0, 1);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if (letter == ',' && depth == 1) || depth == 0 {
            items.push(&text[begin..at]);
            begin = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    items
}

fn first_name(path: &str) -> String {
    path.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// Returns the names that the crate's root re-exports, with their modules.
fn re_exports(root: &str, modules: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for part in root.split(';') {
        let Some((_, path)) = part.rsplit_once("use ") else { continue };
        let path = path.trim_start_matches("crate::").trim_start_matches("self::");
        let Some((module, names)) = path.split_once("::").filter(|(module, _)| modules.contains(module))
        else {
            continue;
        };
        let items = if names.starts_with('{') { split_use_group(names) } else { vec![names] };
        for item in items {
            let name = item.trim().rsplit([' ', ':', '{']).next().unwrap_or("");
            exports.insert(name.to_owned(), module.to_owned());
        }
    }
    exports
}

/// Returns every circle as text: its modules' imports of one another.
fn find_cycles(imports: &Imports) -> Vec<String> {
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
        out.push(edges.join(", "));
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
        assert_eq!(text, [format!("top-level modules import one another in a circle: {circle}")]);
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
