//! Checks the registry of tools: tool names are string literals only in the table.
//!
//! Short names such as `list` are ordinary words, so only the crates are checked that offer, route, run or read calls.

use super::{Complaint, SourceTree};

/// The table of tools.
const TABLE: &str = "crates/domain/src/tool.rs";
/// The crates in which the name of a tool means the tool.
const CRATES: [&str; 7] = ["domain", "engine", "guest", "models", "plugins", "protocol", "store"];

pub(super) fn check_tool_names(tree: &SourceTree) -> Vec<Complaint> {
    let Some(table) = tree.file_text(TABLE) else { return Vec::new() };
    let names = table_tool_names(table);
    let mut out = Vec::new();
    for file in tree.with_suffix(".rs").filter(|file| is_product(&file.path)) {
        // Tests are at the end of a file.
        let code = file.text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        for (index, line) in code.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for name in names.iter().filter(|name| line.contains(&format!("\"{name}\""))) {
                let text = format!("the tool's name {name:?}: take it from the table in {TABLE}");
                out.push(Complaint { path: file.path.clone(), line: index + 1, rule: "tool-name", text });
            }
        }
    }
    out
}

/// Returns the names in the table.
fn table_tool_names(table: &str) -> Vec<String> {
    let names = table.lines().filter_map(|line| line.trim().strip_prefix("name: \"")?.strip_suffix("\","));
    names.map(str::to_owned).collect()
}

fn is_product(path: &str) -> bool {
    let of_crate = CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
    of_crate && !is_test && path != TABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_name_outside_table_refused() {
        let tree = SourceTree::from_texts(&[
            (TABLE, "        Read: ToolFacts {\n            name: \"read\",\n"),
            ("crates/engine/src/web.rs", "// \"read\"\nrun(\"read\");\n#[cfg(test)]\nrun(\"read\");\n"),
            ("crates/engine/src/web/tests.rs", "run(\"read\");\n"),
            ("crates/server/src/metrics.rs", "label(\"read\");\n"),
            ("crates/guest/src/calls.rs", "run(\"ready\");\n"),
        ]);
        let found: Vec<_> =
            check_tool_names(&tree).iter().map(|found| (found.path.clone(), found.line)).collect();
        assert_eq!(found, [("crates/engine/src/web.rs".to_owned(), 2)]);
    }
}
