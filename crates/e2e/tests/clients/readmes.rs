//! The first examples of each client's README are typed, and run unchanged.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::start_with_api;

use crate::programs::{clients_folder, prepare_typescript_folder, python_command, typescript_compiler};
use crate::{add_service_variables, expect_success};

/// Returns the blocks of code in this language of a client's README.
fn readme_examples(client: &str, language: &str) -> Vec<String> {
    let readme = fs::read_to_string(clients_folder().join(client).join("README.md")).expect("a README");
    let begin = format!("```{language}\n");
    let blocks = readme.split(&begin).skip(1);
    blocks.map(|rest| rest.split_once("```").expect("its end").0.to_owned()).collect()
}

/// Puts the document that the examples upload into a folder.
fn put_lease(folder: &Path) {
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/documents/najemni-smlouva-byt.pdf");
    fs::copy(example, folder.join("lease.pdf")).expect("it can be copied");
}

#[test]
fn python_readme_examples_run_and_typecheck() {
    let (_service, api) = start_with_api();
    let folder = tempfile::tempdir().expect("a folder");
    put_lease(folder.path());
    // The synchronous client, and the asynchronous one.
    for (example, answers) in readme_examples("python", "python").iter().zip([2, 1]) {
        fs::write(folder.path().join("example.py"), example).expect("it can be written");
        let mut mypy = python_command("mypy");
        expect_success(
            mypy.args(["--strict", "--cache-dir", "cache", "example.py"]).current_dir(folder.path()),
        );
        let printed = expect_success(add_service_variables(
            python_command("python").arg("example.py").current_dir(folder.path()),
            &api,
        ));
        assert_eq!(printed.matches("built-in reader").count(), answers, "{printed}");
    }
}

#[test]
fn typescript_readme_example_runs_and_typechecks() {
    let (_service, api) = start_with_api();
    let folder = prepare_typescript_folder();
    // A package can import itself by its name.
    expect_success(typescript_compiler().current_dir(folder.path()));
    let example = folder.path().join("example");
    fs::create_dir(&example).expect("a folder");
    put_lease(&example);
    fs::write(example.join("example.ts"), &readme_examples("typescript", "ts")[0])
        .expect("it can be written");
    let options = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "example.ts"];
    expect_success(typescript_compiler().args(options).current_dir(&example));
    let printed = expect_success(add_service_variables(
        Command::new("node").arg("example.js").current_dir(&example),
        &api,
    ));
    assert!(printed.contains("built-in reader"), "an answer: {printed}");
}
