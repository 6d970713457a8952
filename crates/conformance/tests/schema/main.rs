//! The published schema in the hands of others: tools that know nothing of the service but the schema call it as
//! the schema says, and find it kept. They are Python programs, which `make test` installs.

mod client;
mod schemathesis;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A file beside this one.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema").join(name)
}

/// A program among the installed Python ones, which finds the others.
fn python(program: &str) -> Command {
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

/// What the program said, which must have ended well.
fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    said
}
