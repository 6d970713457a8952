//! Detects changes of the folders of plugins.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::tree::{PluginTree, mark_of};

/// The maximum number of files and folders per configured folder that are checked for changes.
const MARKS_MAX: usize = 20_000;

/// Returns a hash that changes when anything in the folders changes. Blocks.
#[must_use]
pub fn fingerprint_folders(folders: &[PathBuf]) -> [u8; 32] {
    let mut marks = Vec::new();
    for folder in folders {
        if let Ok(tree) = PluginTree::open_folder(folder) {
            tree.visit_metadata(MARKS_MAX, &mut |path, metadata| {
                marks.push((path.to_owned(), mark_of(metadata)))
            });
        }
    }
    // The order of directory entries is unspecified.
    marks.sort();
    let mut hash = Sha256::new();
    for (path, mark) in marks {
        hash.update(path.as_os_str().as_encoded_bytes());
        mark.iter().for_each(|number| hash.update(number.to_be_bytes()));
    }
    hash.finalize().into()
}
