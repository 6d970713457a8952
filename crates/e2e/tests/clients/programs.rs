//! The locations of the clients and of the programs that run them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Returns the folder of the clients.
pub(crate) fn clients_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

/// Returns a file beside this one.
pub(crate) fn test_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Returns a command for an installed Python program.
pub(crate) fn python_command(program: &str) -> Command {
    let path = installed_folder("CAUSERIE_PYTHON", "python").join("bin").join(program);
    assert!(path.is_file(), "{} not found: run `make tools`", path.display());
    let mut command = Command::new(path);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", clients_folder().join("python/src"));
    command
}

/// Returns a folder with the client in TypeScript, to be compiled there.
pub(crate) fn prepare_typescript_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for inside in ["", "src", "tests"] {
        let to = folder.path().join(inside);
        fs::create_dir_all(&to).expect("a folder");
        for entry in fs::read_dir(clients_folder().join("typescript").join(inside)).expect("the client") {
            let entry = entry.expect("an entry");
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                fs::copy(entry.path(), to.join(entry.file_name())).expect("it can be copied");
            }
        }
    }
    let modules = installed_folder("CAUSERIE_NODE", "node").join("node_modules");
    symlink(modules, folder.path().join("node_modules")).expect("a link");
    folder
}

/// Returns a command for the compiler.
pub(crate) fn typescript_compiler() -> Command {
    node_program("tsc")
}

/// Returns a command for an installed Node program.
pub(crate) fn node_program(name: &str) -> Command {
    let path = installed_folder("CAUSERIE_NODE", "node").join("node_modules/.bin").join(name);
    assert!(path.exists(), "{} not found: run `make tools`", path.display());
    Command::new(path)
}

/// Returns the folder with the programs of a language.
pub(crate) fn installed_folder(variable: &str, folder: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    let beside = || test.ancestors().nth(3).expect("target").join(folder);
    std::env::var_os(variable).map_or_else(beside, PathBuf::from)
}
