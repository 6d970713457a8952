//! Monitors the free space on the disk of the data folder. Below a limit the service refuses new work; when the disk
//! is full, it releases a reserve.
//!
//! ```text
//! free:   … ──── free_min_bytes ────────────── 1 MiB ──────────────── 0
//!         all works   │ no questions, no files,  │ half of the reserve is released; the other half at the
//!                     │ not ready                │ start of a service, or of a command without a service
//! ```
//! The database's own files also have preallocated space ([`store::StoreOptions::slack_bytes`]).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use tokio_util::sync::CancellationToken;

/// The folder of the reserve in the data folder.
const FOLDER: &str = "reserve";
/// The number of reserved inodes; half of them are for a start.
const INODES_KEPT: u64 = 64;
/// The number of free inodes below which the service refuses new work.
const INODES_FREE_MIN: u64 = 1000;
/// The free space below which the reserve is released, because nothing works reliably any more.
const BYTES_LEFT_MIN: u64 = 1 << 20;
const INODES_LEFT_MIN: u64 = 8;
/// The space that a start or a command without a service needs: the database's log, the socket, folders of machines.
const BYTES_TO_START: u64 = 4 << 20;
const INODES_TO_START: u64 = 32;
/// The interval between checks of the disk.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The configuration of the reserve.
#[derive(Debug, Clone, Copy)]
pub struct DiskReserveConfig {
    /// The free bytes below which no question is accepted.
    pub free_min_bytes: u64,
    /// The size of the reserve, in bytes.
    pub reserve_bytes: u64,
}

impl Default for DiskReserveConfig {
    /// Refuses new work below 256 MiB, and reserves 64 MiB.
    fn default() -> Self {
        Self { free_min_bytes: 256 << 20, reserve_bytes: 64 << 20 }
    }
}

/// The free space of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    pub bytes: u64,
    /// The free inodes, if the file system counts them.
    pub inodes: Option<u64>,
}

/// The purpose of a part of the reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReservePart {
    /// Keeps a running service working.
    Running,
    /// Lets a service start, or a command run without one.
    Start,
}

const PARTS: [ReservePart; 2] = [ReservePart::Running, ReservePart::Start];

/// The disk of a data folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DiskReserve {
    data: PathBuf,
    config: DiskReserveConfig,
}

impl DiskReserve {
    /// Creates the reserve of a data folder. Does not access the disk yet.
    #[must_use]
    pub fn new(data: &Path, config: DiskReserveConfig) -> Self {
        Self { data: data.to_owned(), config }
    }

    #[must_use]
    pub fn config(&self) -> DiskReserveConfig {
        self.config
    }

    /// Returns the number of free inodes below which the service refuses new work.
    #[must_use]
    pub fn inodes_free_min(&self) -> u64 {
        INODES_FREE_MIN
    }

    /// Returns the free space for this process. One system call.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn free_space(&self) -> io::Result<FreeSpace> {
        let known = statvfs(&self.data)?;
        let inodes = (known.f_files > 0).then_some(known.f_favail);
        Ok(FreeSpace { bytes: known.f_bavail.saturating_mul(known.f_frsize), inodes })
    }

    /// Returns true if new work must be refused. A disk whose free space is unknown does not count as low.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.free_space().is_ok_and(|free| {
            free.bytes < self.config.free_min_bytes || free.inodes.is_some_and(|left| left < INODES_FREE_MIN)
        })
    }

    /// Returns true if the reserve is complete.
    #[must_use]
    pub fn is_reserve_whole(&self) -> bool {
        PARTS.iter().all(|part| self.files_of(*part).all(|(file, size)| is_kept(&file, size)))
    }

    /// Releases the part of the reserve that a start needs, if any. The caller holds the lock on the data folder.
    pub fn make_room_to_start(&self) {
        for part in [ReservePart::Start, ReservePart::Running] {
            let Ok(free) = self.free_space() else { return };
            if free.bytes >= BYTES_TO_START && free.inodes.is_none_or(|left| left >= INODES_TO_START) {
                return;
            }
            self.release_part(part);
        }
    }

    /// Allocates the missing parts of the reserve if that leaves `left_free_bytes` free.
    ///
    /// # Errors
    /// Errors of the file system; incomplete files are removed.
    pub fn refill_reserve(&self, left_free_bytes: u64) -> io::Result<()> {
        if self.is_reserve_whole() {
            return Ok(());
        }
        let free = self.free_space()?;
        let wanted = self.config.reserve_bytes.saturating_add(left_free_bytes);
        if free.bytes < wanted || free.inodes.is_some_and(|left| left < INODES_KEPT + INODES_FREE_MIN) {
            return Ok(());
        }
        fs::create_dir_all(self.data.join(FOLDER))?;
        for (file, size) in PARTS.iter().flat_map(|part| self.files_of(*part)) {
            if !is_kept(&file, size) {
                allocate_file(&file, size).inspect_err(|_| drop(fs::remove_file(&file)))?;
            }
        }
        Ok(())
    }

    fn release_part(&self, part: ReservePart) {
        let mut given = 0;
        for (file, _) in self.files_of(part) {
            given += u32::from(fs::remove_file(file).is_ok());
        }
        if given > 0 {
            tracing::error!(?part, "disk full: part of the reserve released");
        }
    }

    /// Returns the files of a part with their sizes: one for the bytes, then empty ones for inodes.
    fn files_of(&self, part: ReservePart) -> impl Iterator<Item = (PathBuf, u64)> + use<> {
        let (folder, half) = (self.data.join(FOLDER), self.config.reserve_bytes / 2);
        let name = match part {
            ReservePart::Running => "running",
            ReservePart::Start => "start",
        };
        let bytes = (half > 0).then(|| (folder.join(format!("{name}-bytes")), half));
        let count = if half > 0 { INODES_KEPT / 2 } else { 0 };
        let inodes = (0..count).map(move |number| (folder.join(format!("{name}-inode-{number}")), 0));
        bytes.into_iter().chain(inodes)
    }

    /// Maintains the reserve until `shutdown`, and logs when the disk becomes low or recovers.
    pub(crate) async fn run_maintenance(self, shutdown: CancellationToken) {
        let every = async {
            let mut was_low = false;
            loop {
                let disk = self.clone();
                let looked = tokio::task::spawn_blocking(move || disk.check_space()).await;
                let is_low = looked.unwrap_or(was_low);
                match (was_low, is_low) {
                    (false, true) => tracing::error!("disk space below the floor: new questions refused"),
                    (true, false) => tracing::info!("disk space above the floor again"),
                    (false, false) | (true, true) => {}
                }
                was_low = is_low;
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        shutdown.run_until_cancelled(every).await;
    }

    /// Releases or refills the reserve depending on the free space. Returns true if the disk is low.
    fn check_space(&self) -> bool {
        let Ok(free) = self.free_space() else { return false };
        if free.bytes < BYTES_LEFT_MIN || free.inodes.is_some_and(|left| left < INODES_LEFT_MIN) {
            self.release_part(ReservePart::Running);
            return true;
        }
        if let Err(error) = self.refill_reserve(self.config.free_min_bytes) {
            tracing::warn!(%error, "disk reserve allocation failed");
        }
        self.is_low()
    }
}

/// Returns true if the file exists in its full size.
fn is_kept(file: &Path, size: u64) -> bool {
    file.metadata().is_ok_and(|known| known.len() >= size)
}

/// Creates the file and allocates all its bytes on the disk.
fn allocate_file(path: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    if size == 0 {
        return Ok(());
    }
    match fallocate(&file, FallocateFlags::empty(), 0, size) {
        Err(rustix::io::Errno::OPNOTSUPP) => write_all(&file, size),
        done => Ok(done?),
    }
}

/// Writes the file where the file system does not support allocation.
fn write_all(mut file: &File, size: u64) -> io::Result<()> {
    use std::io::Write;
    // Not zeros, because some file systems store them as holes.
    let block = vec![b'r'; 64 << 10];
    let mut left = size;
    while left > 0 {
        let now = left.min(block.len() as u64);
        file.write_all(&block[..usize::try_from(now).unwrap_or(block.len())])?;
        left -= now;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn allocated_bytes(folder: &Path) -> u64 {
        let files = fs::read_dir(folder).expect("the folder").flatten();
        files.map(|file| file.metadata().map_or(0, |known| known.blocks() * 512)).sum()
    }

    #[test]
    fn reserve_allocated_released_refilled() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = DiskReserveConfig { free_min_bytes: 0, reserve_bytes: 4 << 20 };
        let disk = DiskReserve::new(folder.path(), config);
        assert!(!disk.is_reserve_whole());
        disk.refill_reserve(0).expect("there is room");
        assert!(disk.is_reserve_whole());
        let reserve = folder.path().join(FOLDER);
        assert!(allocated_bytes(&reserve) >= 4 << 20);
        assert_eq!(fs::read_dir(&reserve).expect("the folder").count() as u64, INODES_KEPT + 2);
        disk.make_room_to_start();
        assert!(disk.is_reserve_whole(), "there is room enough");
        disk.release_part(ReservePart::Running);
        assert!(!disk.is_reserve_whole());
        assert!((2 << 20..4 << 20).contains(&allocated_bytes(&reserve)), "the other half is kept");
        disk.refill_reserve(u64::MAX).expect("nothing is done");
        assert!(!disk.is_reserve_whole(), "what is to be left free is");
        assert!(!disk.check_space());
        assert!(disk.is_reserve_whole());
    }

    #[test]
    fn disk_low_below_floor() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = |free_min_bytes| {
            DiskReserve::new(folder.path(), DiskReserveConfig { free_min_bytes, reserve_bytes: 0 })
        };
        assert!(!disk(0).is_low());
        assert!(disk(u64::MAX).is_low());
        assert!(disk(0).is_reserve_whole(), "there is none to be kept");
    }
}
