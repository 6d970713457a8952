//! The system that machines show in place of the host's.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A read-only system for machines. Its tree has all mount points that this version of the service needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineImage {
    /// The folder with the tree. It belongs to the service's user and has no secrets.
    pub tree: PathBuf,
    /// A file of the image, on which the service and each machine hold a shared lock (`flock`) while they use it.
    pub lock: PathBuf,
}

impl MachineImage {
    /// Takes the shared lock. Blocks while the image is being removed.
    pub(crate) fn lock_image(&self) -> io::Result<File> {
        let lock = File::open(&self.lock)?;
        lock.lock_shared()?;
        Ok(lock)
    }
}
