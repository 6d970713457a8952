//! The first examples of each client's README are typed, and run as they are written.

use std::fs;
use std::path::Path;
use std::process::Command;

use conformance::caller;

use crate::programs::{clients, python, tsc, typescript};
use crate::{calling, succeeded};

/// Returns the blocks of code in this language of a client's README.
fn examples(client: &str, language: &str) -> Vec<String> {
    let readme = fs::read_to_string(clients().join(client).join("README.md")).expect("a README");
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
fn the_first_examples_in_python_run_and_are_typed() {
    let (_service, api) = caller();
    let folder = tempfile::tempdir().expect("a folder");
    put_lease(folder.path());
    // The synchronous client, and the asynchronous one.
    for (example, answers) in examples("python", "python").iter().zip([2, 1]) {
        fs::write(folder.path().join("example.py"), example).expect("it can be written");
        let mut mypy = python("mypy");
        succeeded(mypy.args(["--strict", "--cache-dir", "cache", "example.py"]).current_dir(folder.path()));
        let printed = succeeded(calling(python("python").arg("example.py").current_dir(folder.path()), &api));
        assert_eq!(printed.matches("built-in reader").count(), answers, "{printed}");
    }
}

#[test]
fn the_first_example_in_typescript_runs_and_is_typed() {
    let (_service, api) = caller();
    let folder = typescript();
    // A package knows itself by its name.
    succeeded(tsc().current_dir(folder.path()));
    let example = folder.path().join("example");
    fs::create_dir(&example).expect("a folder");
    put_lease(&example);
    fs::write(example.join("example.ts"), &examples("typescript", "ts")[0]).expect("it can be written");
    let options = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "example.ts"];
    succeeded(tsc().args(options).current_dir(&example));
    let printed = succeeded(calling(Command::new("node").arg("example.js").current_dir(&example), &api));
    assert!(printed.contains("built-in reader"), "an answer: {printed}");
}
