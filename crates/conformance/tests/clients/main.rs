//! Tests of the clients in `clients/`: their own tests, and types, against the service; and that they read an answer
//! through kills of the service. They run on programs that `make test` installs.

mod kills;
mod programs;
mod readmes;
mod samples;

use std::process::{Command, Output};

use conformance::caller;

use self::programs::{clients, file, node_program, python, tsc, typescript};

/// Returns the output of a program that must have succeeded.
fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it can be run");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Adds the variables by which a client finds a service.
fn calling<'a>(command: &'a mut Command, api: &conformance::Api) -> &'a mut Command {
    command.env("CAUSERIE_URL", format!("http://{}", api.address)).env("CAUSERIE_API_KEY", &api.key)
}

#[test]
fn the_client_in_python_passes_its_tests() {
    let (_service, api) = caller();
    let folder = clients().join("python");
    succeeded(calling(python("pytest").arg("-q").current_dir(folder), &api));
}

#[test]
fn the_client_in_python_is_fully_typed() {
    let cache = tempfile::tempdir().expect("a folder");
    let mut mypy = python("mypy");
    mypy.arg("--cache-dir").arg(cache.path()).args(["src", "tests"]);
    succeeded(mypy.current_dir(clients().join("python")));
}

#[test]
fn the_client_in_typescript_passes_its_tests() {
    let (_service, api) = caller();
    let folder = typescript();
    let schema = format!("http://{}/openapi.json", api.address);
    succeeded(
        node_program("openapi-typescript")
            .args([&schema, "-o", "tests/schema.ts"])
            .current_dir(folder.path()),
    );
    std::fs::copy(file("types.ts"), folder.path().join("tests/types.ts")).expect("it can be copied");
    succeeded(tsc().arg("--project").arg("tests").current_dir(folder.path()));
    let tests = ["build/tests/faults.test.js", "build/tests/service.test.js"];
    succeeded(calling(Command::new("node").arg("--test").args(tests).current_dir(folder.path()), &api));
}
