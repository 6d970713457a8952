//! Tests that generators for TypeScript make clients of the schema: they compile strictly, and read a stream.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Expect, HttpRequest, start_with_api};

use crate::{expect_success, schema_file};

/// Each generator with its arguments, and the program that uses its output.
const GENERATORS: [(&str, &[&str]); 3] = [
    ("openapi-ts", &["-i", "openapi.json", "-o", "hey_api"]),
    ("openapi-typescript", &["openapi.json", "-o", "openapi_typescript/types.ts"]),
    (
        "orval",
        &["--input", "./openapi.json", "--output", "./orval/api.ts", "--client", "fetch", "--mode", "split"],
    ),
];
const PROGRAMS: [&str; 3] = ["hey_api", "openapi_typescript", "orval"];

#[test]
fn generated_typescript_clients_read_stream() {
    let (_service, api) = start_with_api();
    let url = format!("http://{}", api.address);
    let folder = tempfile::tempdir().expect("a folder");
    let run = |command: &mut Command| {
        expect_success(&command.current_dir(folder.path()).output().expect("it can be run"))
    };
    for entry in fs::read_dir(schema_file("typescript")).expect("the programs") {
        let entry = entry.expect("a program");
        fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("it can be copied");
    }
    symlink(node_modules(), folder.path().join("node_modules")).expect("a link");
    let schema = HttpRequest::new("GET", "/openapi.json").send(&api.address).expect_status(200);
    fs::write(folder.path().join("openapi.json"), schema.body).expect("it can be written");
    for (generator, arguments) in GENERATORS {
        run(node_command(generator).args(arguments));
    }
    run(&mut node_command("tsc"));
    for name in PROGRAMS {
        let compiled = Path::new("compiled").join(name).with_extension("js");
        run(Command::new("node").arg(compiled).args([&url, &api.key]));
    }
}

/// Returns the folder of the installed Node packages.
fn node_modules() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    let beside = || test.ancestors().nth(3).expect("target").join("node");
    std::env::var_os("CAUSERIE_NODE").map_or_else(beside, PathBuf::from).join("node_modules")
}

/// Returns a command for an installed Node program.
fn node_command(name: &str) -> Command {
    let path = node_modules().join(".bin").join(name);
    assert!(path.exists(), "{} not found: run `make tools`", path.display());
    Command::new(path)
}
