//! Checks that the suite calls every public operation.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_public_operation_is_called() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let suite: String =
        read_sources(&root.join("tests/suite")).iter().map(|(_, text)| text.as_str()).collect();
    let mut operations = 0;
    for (path, text) in read_sources(&root.join("src")) {
        let module = path
            .strip_prefix(root.join("src"))
            .ok()
            .and_then(|path| path.iter().next())
            .and_then(|first| Path::new(first).file_stem())
            .and_then(|stem| stem.to_str())
            .expect("a file in src belongs to a module")
            .to_owned();
        for operation in operations_of(&text) {
            operations += 1;
            // Uses the file's own name for a public module.
            let own = path.file_stem().and_then(|stem| stem.to_str()).expect("a file has a name");
            let called = |module: &str| suite.contains(&format!("{module}::{operation}(tx"));
            let is_called = if own == "delegations" { called(own) } else { called(&module) };
            assert!(is_called, "the suite does not call {module}::{operation} of {own}.rs");
        }
    }
    assert!(operations > 30, "operations are found by how they are written: {operations}");
}

/// Returns the names of the functions that begin `pub fn name(tx: &mut dyn Sql`, on one line or two.
fn operations_of(text: &str) -> impl Iterator<Item = &str> {
    text.split("\npub fn ").skip(1).filter_map(|rest| {
        let (name, parameters) = rest.split_once('(')?;
        parameters.trim_start().starts_with("tx: &mut dyn Sql").then_some(name)
    })
}

fn read_sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of it").path();
        if path.is_dir() {
            found.extend(read_sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source is text");
            found.push((path, text));
        }
    }
    found
}
