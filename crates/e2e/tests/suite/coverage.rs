//! Checks that the tests cover the errors of the interface, by the tests' own sources. `tests/interface` checks which of them
//! a running service returns.

use e2e::coverage::{NOT_MET, expected_codes, test_sources};
use e2e::operations::REFUSALS;
use e2e::schema::Schema;

/// The folders of the tests that call the interface.
const FOLDERS: [&str; 3] = ["tests/suite", "tests/interface", "../conformance/src/cases"];

/// The published schema.
const SCHEMA: &str = include_str!("../../../api/openapi.yaml");

/// The table of errors for people, and the types of the TypeScript client.
const INTERFACE: &str = include_str!("../../../../docs/interface.md");
const TYPESCRIPT: &str = include_str!("../../../../clients/typescript/src/types.ts");

/// Returns the source of a test or case, from its head to its closing brace.
fn body_of<'a>(sources: &'a [String], test: &str) -> Option<&'a str> {
    let head = format!("\nfn {test}(");
    let found = sources.iter().find_map(|source| source.split_once(&head).map(|(_, rest)| rest))?;
    Some(found.split("\n}").next().unwrap_or(found))
}

#[test]
fn every_refusal_has_a_test() {
    let sources = test_sources(&FOLDERS);
    for (status, condition, test) in REFUSALS {
        let body = body_of(&sources, test).unwrap_or_default();
        let met = match status {
            401 => body.contains("expect_rejection") || body.contains("assert_rejected"),
            _ => body.contains(&status.to_string()),
        };
        assert!(met, "{status} {condition}: {test} does not test it");
    }
}

#[test]
fn every_error_code_is_expected_by_name() {
    let expected = expected_codes(&test_sources(&FOLDERS));
    let schema = Schema::from_yaml(SCHEMA);
    let statuses = schema.operations.iter().flat_map(|operation| &operation.answers);
    let documented =
        statuses.flat_map(|(status, codes)| codes.iter().map(move |code| (*status, code.clone())));
    let lacking: Vec<_> = documented
        .filter(|pair| !expected.contains(pair))
        .filter(|(status, code)| !NOT_MET.iter().any(|(_, of, word, _)| of == status && word == code))
        .collect();
    assert!(lacking.is_empty(), "no test calls `expect_code` with these: {lacking:?}");
    // Also the codes that belong to no operation.
    for code in &schema.codes {
        let met = expected.iter().any(|(_, word)| word == code);
        let excused = NOT_MET.iter().any(|(_, _, word, _)| word == code);
        assert!(met || excused, "no test calls `expect_code` with {code}");
    }
}

#[test]
fn page_and_typescript_list_every_code() {
    for code in &Schema::from_yaml(SCHEMA).codes {
        assert!(INTERFACE.contains(&format!("`{code}`")), "docs/interface.md does not describe {code}");
        assert!(TYPESCRIPT.contains(&format!("| \"{code}\"")), "the type `ErrorCode` lacks {code}");
    }
}
