//! Finds the imports of modules in the text of a crate.
//!
//! An import is a path that begins with `crate::`, `super::` or `self::`; a name that a module re-exports counts as the
//! module that it comes from. Code for tests and names that macros put together are left out.

use std::collections::{BTreeMap, BTreeSet};

/// A module, by the names on the way from the crate's root.
pub(super) type ModulePath = Vec<String>;

/// A file of a crate as a module.
pub(super) struct ModuleFile {
    /// The path of the file below `src`.
    pub(super) file: String,
    pub(super) module: ModulePath,
    /// The items that it imports, by their full paths.
    pub(super) imports: Vec<ModulePath>,
    /// The names that it re-exports, with the child modules that they come from.
    pub(super) exports: BTreeMap<String, String>,
}

/// Reads the modules of a crate from its files, by path below `src`, without those for tests.
pub(super) fn read_modules(files: &[(&str, &str)]) -> Vec<ModuleFile> {
    let mut test_only: BTreeSet<ModulePath> = BTreeSet::new();
    let mut read = Vec::new();
    for (file, text) in files {
        let module = module_path(file);
        let (code, tests) = without_tests(text);
        test_only.extend(tests.into_iter().map(|test| join_path(&module, &[test])));
        let is_test = file.split('/').any(|part| part == "tests" || part == "tests.rs");
        if !is_test && !file.starts_with("bin/") {
            read.push((*file, module, code));
        }
    }
    read.retain(|(_, module, _)| !(1..=module.len()).any(|length| test_only.contains(&module[..length])));
    let modules: BTreeSet<ModulePath> = read.iter().map(|(_, module, _)| module.clone()).collect();
    let of_file = |(file, module, code): (&str, ModulePath, String)| ModuleFile {
        imports: find_imports(&code, &module),
        exports: re_exports(&code, &module, &modules),
        file: file.to_owned(),
        module,
    };
    read.into_iter().map(of_file).collect()
}

/// Returns the module of a file, by its path below `src`.
fn module_path(file: &str) -> ModulePath {
    let mut names: ModulePath = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|last| last == "mod") || file == "lib.rs" || file == "main.rs" {
        names.pop();
    }
    names
}

fn join_path(module: &[String], names: &[String]) -> ModulePath {
    module.iter().chain(names).cloned().collect()
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

/// Returns the full paths of all items that the code of a module imports.
fn find_imports(code: &str, module: &[String]) -> Vec<ModulePath> {
    let mut found = Vec::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_none_or(|letter| !letter.is_alphanumeric() && !"_$:".contains(letter)) {
                found.extend(use_paths(&code[at..]).iter().filter_map(|path| resolve_path(path, module)));
            }
        }
    }
    found
}

/// Resolves a path of a module to the path from the crate's root; `None` if it leads outside.
fn resolve_path(path: &[String], module: &[String]) -> Option<ModulePath> {
    let (first, mut rest) = path.split_first()?;
    let mut base = module;
    match first.as_str() {
        "crate" => base = &[],
        "super" => {
            base = base.split_last()?.1;
            while let Some((next, further)) = rest.split_first().filter(|(next, _)| *next == "super") {
                let _: &String = next;
                (base, rest) = (base.split_last()?.1, further);
            }
        }
        _ => {}
    }
    Some(join_path(base, rest))
}

/// Returns the paths at the beginning of a text: several for `a::{b, c::d}`.
fn use_paths(text: &str) -> Vec<ModulePath> {
    let text = text.trim_start();
    if text.starts_with('{') {
        return split_use_group(text).into_iter().flat_map(use_paths).collect();
    }
    let name = first_name(text);
    if name.is_empty() {
        return Vec::new();
    }
    match text[name.len()..].strip_prefix("::").map(use_paths) {
        Some(rest) if !rest.is_empty() => {
            rest.iter().map(|rest| join_path(std::slice::from_ref(&name), rest)).collect()
        }
        _ => vec![vec![name]],
    }
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

/// Returns the names that a module re-exports, with the child modules that they come from.
fn re_exports(code: &str, module: &[String], modules: &BTreeSet<ModulePath>) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for part in code.split(';') {
        let Some((_, path)) = part.rsplit_once("use ") else { continue };
        let path = path.trim_start_matches("self::");
        let path = if module.is_empty() { path.trim_start_matches("crate::") } else { path };
        let Some((child, names)) = path.split_once("::") else { continue };
        if !modules.contains(&join_path(module, &[child.to_owned()])) {
            continue;
        }
        let items = if names.starts_with('{') { split_use_group(names) } else { vec![names] };
        for item in items {
            let name = item.trim().rsplit([' ', ':', '{']).next().unwrap_or("");
            exports.insert(name.to_owned(), child.to_owned());
        }
    }
    exports
}
