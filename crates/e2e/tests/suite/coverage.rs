//! Checks that the suite covers the error table, by the tests' own sources. `tests/interface` checks the
//! coverage of the published schema.

use std::fs;
use std::path::Path;

use e2e::operations::REFUSALS;

/// Returns the sources of the suite and of the cases.
fn suite_sources() -> Vec<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["tests/suite", "tests/interface", "../conformance/src/cases"]
        .iter()
        .flat_map(|folder| fs::read_dir(package.join(folder)).expect("a folder of the suite"));
    files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("a source")).collect()
}

/// Returns the source of a test or case, from its head to its closing brace.
fn body_of<'a>(sources: &'a [String], test: &str) -> Option<&'a str> {
    let head = format!("\nfn {test}(");
    let found = sources.iter().find_map(|source| source.split_once(&head).map(|(_, rest)| rest))?;
    Some(found.split("\n}").next().unwrap_or(found))
}

#[test]
fn every_refusal_has_a_test() {
    let sources = suite_sources();
    for (status, condition, test) in REFUSALS {
        let body = body_of(&sources, test).unwrap_or_default();
        let met = match status {
            401 => body.contains("expect_rejection") || body.contains("assert_rejected"),
            _ => body.contains(&status.to_string()),
        };
        assert!(met, "{status} {condition}: {test} does not test it");
    }
}
