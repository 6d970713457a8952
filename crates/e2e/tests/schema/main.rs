//! Tests of the published schema with third-party tools: generated and schema-based clients call the service
//! and validate its responses. They are programs for Python and Node that
//! `make test` installs.

mod client;
mod schemathesis;
mod typescript;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the path of a file beside this one.
fn schema_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema").join(name)
}

/// Returns a command for an installed Python program.
fn python_command(program: &str) -> Command {
    let test = std::env::current_exe().expect("the test knows its own path");
    let beside = || test.ancestors().nth(3).expect("target").join("python");
    let bin = std::env::var_os("CAUSERIE_PYTHON").map_or_else(beside, PathBuf::from).join("bin");
    assert!(bin.join(program).is_file(), "{program} is not in {}: `make tools` installs it", bin.display());
    let mut path = vec![bin.clone()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(bin.join(program));
    command.env("PATH", std::env::join_paths(path).expect("folders without colons"));
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Returns the output of a program that must have succeeded.
fn expect_success(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    stdout
}
