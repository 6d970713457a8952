//! Finds programs of the host.

use std::path::{Path, PathBuf};

/// Finds a program: `named` as a path or as a name in `PATH`, or else `usual`.
pub(crate) fn find_program(named: Option<&Path>, usual: &str) -> Option<PathBuf> {
    let named = named.unwrap_or(Path::new(usual));
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    // `join` keeps an absolute path unchanged.
    let places = std::env::split_paths(&path).map(|folder| folder.join(named));
    places.filter_map(|place| place.canonicalize().ok()).find(|place| place.is_file())
}
