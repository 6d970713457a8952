//! schemathesis: hundreds of valid and invalid calls generated from the schema, and sequences of calls.

use std::env;

use e2e::{ServiceOptions, TestAccountOptions, TestService};

use crate::{expect_success, python_command, schema_file};

/// The number of generated cases per operation, in addition to cases from examples and boundary values.
const CASES: &str = "25";
/// The number of cases when the run is limited by time.
const CASES_IN_TIME: &str = "2000";
/// The seed of a run, unless `SCHEMA_SEED` is set.
const SEED: &str = "1";

#[test]
fn schemathesis_finds_only_documented_answers() {
    let service = TestService::start(ServiceOptions::default());
    let account = service
        .create_account_with(&TestAccountOptions { credits: 1_000_000_000, ..TestAccountOptions::default() });
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = python_command("schemathesis");
    run.current_dir(folder.path()).env("SCHEMATHESIS_HOOKS", schema_file("hooks.py"));
    run.arg("--config-file").arg(schema_file("schemathesis.toml"));
    run.arg("run").arg(format!("http://{}/openapi.yaml", service.address()));
    // A single worker, so that no call deletes data of a concurrent one.
    run.args(["--workers", "1", "--header", &format!("X-Api-Key: {}", account.key)]);
    run.args(["--seed", &env::var("SCHEMA_SEED").unwrap_or(SEED.to_owned())]);
    match env::var("SCHEMA_SECONDS") {
        Ok(seconds) => run.args(["--max-time", &seconds, "--max-examples", CASES_IN_TIME]),
        Err(_) => run.args(["--max-examples", CASES]),
    };
    let stdout = expect_success(&run.output().expect("it can be run"));
    println!("{stdout}");
    let figure = |name: &str| stdout.split(name).nth(1).and_then(|rest| rest.split_whitespace().next());
    let (selected, all) = figure("Selected:").and_then(|both| both.split_once('/')).expect("both figures");
    assert_eq!(selected, all, "operations were left out");
    assert_eq!(figure("Tested:"), Some(all), "operations were not tried");
}
