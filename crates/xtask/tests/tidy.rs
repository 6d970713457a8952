//! Checks the rules of the tree.

use std::path::Path;

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let report = xtask::tidy::check_tree(&root).expect("the tree can be read");
    let complaints: Vec<String> = report.complaints.iter().map(ToString::to_string).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
