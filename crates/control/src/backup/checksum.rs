//! The checksum of an archive: a SHA-256 over all entries in order, which detects truncation and changes.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Summary;

/// The content of the last entry.
#[derive(Serialize, Deserialize)]
pub(super) struct Checksum {
    pub(super) sha256: String,
    #[serde(flatten)]
    pub(super) summary: Summary,
}

/// The checksum so far.
#[derive(Default)]
pub(super) struct Sum(Sha256);

impl Sum {
    /// Adds the start of an entry: its path, its link target if it is a link, and its length.
    pub(super) fn add_entry(&mut self, path: &Path, link: Option<&Path>, length: u64) {
        self.add_text(path.as_os_str().as_bytes());
        self.add_text(link.map(|link| link.as_os_str().as_bytes()).unwrap_or_default());
        self.0.update(length.to_le_bytes());
    }

    pub(super) fn add_content(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn add_text(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(super) fn into_hex(self) -> String {
        domain::hex::encode_hex(&self.0.finalize())
    }
}
