//! Tests of the clients in `clients/`: their own tests, and types, against the service; and that they read an answer
//! through kills of the service. They run on programs that `make test` installs.

mod editor;
mod kills;
mod mcp;
mod openai;
mod programs;
mod readmes;
mod samples;

use std::process::{Command, Output};

use e2e::start_with_api;

use self::programs::{
    clients_folder, node_program, prepare_typescript_folder, python_command, test_file, typescript_compiler,
};

/// Returns the output of a program that must have succeeded.
fn expect_success(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Adds the variables by which a client finds a service.
fn add_service_variables<'a>(command: &'a mut Command, api: &e2e::Api) -> &'a mut Command {
    command.env("CAUSERIE_URL", format!("http://{}", api.address)).env("CAUSERIE_API_KEY", &api.key)
}

#[test]
fn python_client_passes_its_tests() {
    let (_service, api) = start_with_api();
    let folder = clients_folder().join("python");
    expect_success(add_service_variables(python_command("pytest").arg("-q").current_dir(folder), &api));
}

#[test]
fn python_client_is_fully_typed() {
    let cache = tempfile::tempdir().expect("a folder");
    let mut mypy = python_command("mypy");
    mypy.arg("--cache-dir").arg(cache.path()).args(["src", "tests"]);
    expect_success(mypy.current_dir(clients_folder().join("python")));
}

#[test]
fn typescript_client_passes_its_tests() {
    let (_service, api) = start_with_api();
    let folder = prepare_typescript_folder();
    let schema = format!("http://{}/openapi.json", api.address);
    expect_success(
        node_program("openapi-typescript")
            .args([&schema, "-o", "tests/schema.ts"])
            .current_dir(folder.path()),
    );
    std::fs::copy(test_file("types.ts"), folder.path().join("tests/types.ts")).expect("it can be copied");
    expect_success(typescript_compiler().arg("--project").arg("tests").current_dir(folder.path()));
    let tests = ["build/tests/faults.test.js", "build/tests/service.test.js"];
    expect_success(add_service_variables(
        Command::new("node").arg("--test").args(tests).current_dir(folder.path()),
        &api,
    ));
}
