//! The data folder.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The data folder, made when it is missing. Nobody else may enter one that is made: what machines write in it
/// could bear any mode. One that is there keeps its own.
pub(crate) fn prepare(data: &Path) -> io::Result<PathBuf> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    data.canonicalize()
}
