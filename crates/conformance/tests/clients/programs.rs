//! Where the clients and the programs that run them are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of the clients.
pub(crate) fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

/// Returns a file beside this one.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Returns a command for an installed Python program.
pub(crate) fn python(program: &str) -> Command {
    let path = installed("CAUSERIE_PYTHON", "python").join("bin").join(program);
    assert!(path.is_file(), "{} is not there: `make tools` installs it", path.display());
    let mut command = Command::new(path);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", clients().join("python/src"));
    command
}

fn installed(variable: &str, folder: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    let beside = || test.ancestors().nth(3).expect("target").join(folder);
    std::env::var_os(variable).map_or_else(beside, PathBuf::from)
}
