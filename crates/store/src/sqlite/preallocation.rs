//! Disk space that is allocated beyond the ends of the database's files, so that writes succeed on a full
//! disk. A placeholder file would not do: other programs could use the space once it is deleted.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::mem::ManuallyDrop;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

/// Keeps space allocated beyond the ends of the database and its write-ahead log.
pub(crate) struct PreallocatedSpace {
    database: PreallocatedFile,
    log: PreallocatedFile,
    bytes: u64,
}

/// A file and the offset up to which space is allocated.
struct PreallocatedFile {
    /// Never closed: closing it would release SQLite's locks on the same file in this process.
    file: ManuallyDrop<File>,
    until: u64,
}

impl PreallocatedSpace {
    /// Prepares `bytes` of space behind the database at `path`, and the same in total for its log, which is
    /// overwritten from its beginning. Returns `None` if the files cannot be opened.
    pub(crate) fn new(path: &Path, bytes: u64) -> Option<Self> {
        let mut log = OsString::from(path);
        log.push("-wal");
        let mut slack = Self {
            database: PreallocatedFile::open_for_write(path)?,
            log: PreallocatedFile::open_for_write(Path::new(&log))?,
            bytes,
        };
        slack.allocate_missing();
        Some(slack)
    }

    /// Allocates missing space, each time at most half of the free disk space: a start on a nearly full disk also
    /// needs other files. Cheap when nothing is missing.
    pub(crate) fn allocate_missing(&mut self) {
        // Half of it is still enough, so most commits need no system call for allocation.
        let end = self.database.file.metadata().map_or(0, |known| known.len());
        if end + self.bytes / 2 > self.database.until {
            self.database.allocate_until(end + self.bytes);
        }
        if self.log.until < self.bytes {
            self.log.allocate_until(self.bytes);
        }
    }
}

impl PreallocatedFile {
    fn open_for_write(path: &Path) -> Option<Self> {
        let file = OpenOptions::new().write(true).open(path).ok()?;
        Some(Self { file: ManuallyDrop::new(file), until: 0 })
    }

    fn allocate_until(&mut self, until: u64) {
        // Otherwise the file grows on demand while the disk has space.
        if self.fits_on_disk(until) && fallocate(&*self.file, FallocateFlags::KEEP_SIZE, 0, until).is_ok() {
            self.until = until;
        }
    }

    /// Returns true if the missing space is at most half of the free space, or if the free space is unknown.
    fn fits_on_disk(&self, until: u64) -> bool {
        let Ok(disk) = fstatvfs(&*self.file) else { return true };
        let missing = self.file.metadata().map_or(until, |known| until.saturating_sub(known.blocks() * 512));
        missing <= disk.f_bavail.saturating_mul(disk.f_frsize) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::open_writer;

    #[test]
    fn preallocation_extends_beyond_file_ends() {
        const ROOM: u64 = 4 << 20;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let connection = open_writer(&path, None).expect("a database");
        connection.execute_batch("CREATE TABLE things (thing BLOB)").expect("a table");
        let mut slack = PreallocatedSpace::new(&path, ROOM).expect("the files are there");
        let allocated = |name: &str| {
            let known = folder.path().join(name).metadata().expect("it is there");
            (known.len(), known.blocks() * 512)
        };
        let (size, room) = allocated("store.db");
        assert!(size < ROOM && room >= size + ROOM, "{size} {room}");
        assert!(allocated("store.db-wal").1 >= ROOM);
        let grow = "INSERT INTO things VALUES (zeroblob(3000000)); PRAGMA wal_checkpoint(PASSIVE)";
        connection.execute_batch(grow).expect("a row");
        slack.allocate_missing();
        let (size, room) = allocated("store.db");
        assert!(size > 3_000_000 && room >= size + ROOM, "{size} {room}");
    }
}
