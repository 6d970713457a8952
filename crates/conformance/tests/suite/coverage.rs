//! The suite covers the interface: held against the tests' own sources and against the published schema.

use std::fs;
use std::path::Path;

use conformance::operations::{ADDITIONS, OPERATIONS, REFUSALS};
use conformance::{Expect, Request, caller};

/// The sources of the suite.
fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite");
    let files = fs::read_dir(folder).expect("the suite's folder");
    files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("a source")).collect()
}

/// The source of a test: from its attribute to the brace that closes it.
fn body_of<'a>(sources: &'a [String], test: &str) -> Option<&'a str> {
    let head = format!("#[test]\nfn {test}() {{");
    let found = sources.iter().find_map(|source| source.split_once(&head).map(|(_, rest)| rest))?;
    Some(found.split("\n}").next().unwrap_or(found))
}

#[test]
fn every_operation_is_called_by_its_tests() {
    let sources = sources();
    for operation in OPERATIONS.iter().chain(ADDITIONS) {
        let name = format!("{} {}", operation.method, operation.path);
        assert!(!operation.tests.is_empty(), "{name} has no test");
        for test in operation.tests {
            let body = body_of(&sources, test).unwrap_or_default();
            assert!(body.contains(operation.call), "{name}: {test} is no test with {}", operation.call);
        }
    }
}

#[test]
fn every_refusal_is_met_by_its_test() {
    let sources = sources();
    for (status, condition, test) in REFUSALS {
        let body = body_of(&sources, test).unwrap_or_default();
        let met = match status {
            401 => body.contains("expect_rejection") || body.contains("assert_rejected"),
            _ => body.contains(&status.to_string()),
        };
        assert!(met, "{status} {condition}: {test} is no test of it");
    }
}

#[test]
fn the_schema_and_the_suite_have_the_same_operations() {
    let (_service, api) = caller();
    let schema = Request::new("GET", "/openapi.yaml").send(&api.address).expect_status(200).text();
    let mut published = operations_in(&schema);
    let mut known: Vec<String> = OPERATIONS
        .iter()
        .chain(ADDITIONS)
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .collect();
    published.sort();
    known.sort();
    assert_eq!(published, known);
}

/// The operations under `paths:` of a schema in block style, without the schema's own address.
fn operations_in(schema: &str) -> Vec<String> {
    let methods = ["get", "post", "delete", "patch", "put", "head"];
    let mut operations = Vec::new();
    let mut path = "";
    let within = schema
        .lines()
        .skip_while(|line| *line != "paths:")
        .skip(1)
        .take_while(|line| line.starts_with([' ', '#']));
    for line in within {
        let name = line.trim().trim_end_matches(':').trim_matches(['\'', '"']);
        if line.starts_with("  /") || line.starts_with("  '/") || line.starts_with("  \"/") {
            path = name;
        } else if line.starts_with("    ") && !line.starts_with("     ") && methods.contains(&name) {
            operations.push(format!("{} {path}", name.to_uppercase()));
        }
    }
    operations
}
