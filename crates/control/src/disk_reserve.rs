//! The disk of the data folder: how much of it is free, from where on nothing new is begun, and a reserve that is given
//! up when nothing is free at all.
//!
//! ```text
//! free:   … ──── free_min_bytes ────────────── 1 MiB ──────────────── 0
//!         all goes on │ no questions, no files,  │ half of the reserve is given up; the other half when
//!                     │ not ready                │ a service starts, or a command without a service
//! ```
//! The database's own files have room besides ([`store::Options::slack_bytes`]), which nobody else can take.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use tokio_util::sync::CancellationToken;

/// The folder of the reserve in the data folder.
const FOLDER: &str = "reserve";
/// How many files are kept for their inodes; half of them for a start.
const INODES_KEPT: u64 = 64;
/// Below so many free inodes nothing new is begun.
const INODES_FREE_MIN: u64 = 1000;
/// With less than that free, the reserve is given up: nothing can be relied on any more.
const BYTES_LEFT_MIN: u64 = 1 << 20;
const INODES_LEFT_MIN: u64 = 8;
/// A start, or a command without a service, wants so much: the database's log, the socket, folders of machines.
const BYTES_TO_START: u64 = 4 << 20;
const INODES_TO_START: u64 = 32;
/// How often the disk is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What is kept free.
#[derive(Debug, Clone, Copy)]
pub struct DiskReserveConfig {
    /// Below so many free bytes no question is accepted.
    pub free_min_bytes: u64,
    /// Bytes that are reserved.
    pub reserve_bytes: u64,
}

impl Default for DiskReserveConfig {
    /// Nothing new below 256 MiB; 64 MiB in reserve.
    fn default() -> Self {
        Self { free_min_bytes: 256 << 20, reserve_bytes: 64 << 20 }
    }
}

/// What is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes.
    pub bytes: u64,
    /// Inodes, of file systems that count them.
    pub inodes: Option<u64>,
}

/// Who a part of the reserve is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReservePart {
    /// A service that runs.
    Running,
    /// One that starts, or a command without one.
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
    /// That of this data folder. Nothing is done yet.
    #[must_use]
    pub fn new(data: &Path, config: DiskReserveConfig) -> Self {
        Self { data: data.to_owned(), config }
    }

    /// What is kept free.
    #[must_use]
    pub fn config(&self) -> DiskReserveConfig {
        self.config
    }

    /// Free inodes below which nothing new is begun.
    #[must_use]
    pub fn inodes_free_min(&self) -> u64 {
        INODES_FREE_MIN
    }

    /// What is free for this process. One call of the kernel.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn free(&self) -> io::Result<FreeSpace> {
        let known = statvfs(&self.data)?;
        let inodes = (known.f_files > 0).then_some(known.f_favail);
        Ok(FreeSpace { bytes: known.f_bavail.saturating_mul(known.f_frsize), inodes })
    }

    /// Whether so little is free that nothing new is to be begun. A disk that does not tell is not low.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.free().is_ok_and(|free| {
            free.bytes < self.config.free_min_bytes || free.inodes.is_some_and(|left| left < INODES_FREE_MIN)
        })
    }

    /// Whether all of the reserve is there.
    #[must_use]
    pub fn is_reserve_whole(&self) -> bool {
        PARTS.iter().all(|part| self.files_of(*part).all(|(file, size)| is_kept(&file, size)))
    }

    /// Gives up as much of the reserve as a start needs, if it needs any. The caller holds the data folder.
    pub fn make_room_to_start(&self) {
        for part in [ReservePart::Start, ReservePart::Running] {
            let Ok(free) = self.free() else { return };
            if free.bytes >= BYTES_TO_START && free.inodes.is_none_or(|left| left >= INODES_TO_START) {
                return;
            }
            self.release(part);
        }
    }

    /// Allocates what of the reserve is missing, if so much is free besides what is to be left free.
    ///
    /// # Errors
    /// What the file system answers; what was begun is removed.
    pub fn refill(&self, left_free_bytes: u64) -> io::Result<()> {
        if self.is_reserve_whole() {
            return Ok(());
        }
        let free = self.free()?;
        let wanted = self.config.reserve_bytes.saturating_add(left_free_bytes);
        if free.bytes < wanted || free.inodes.is_some_and(|left| left < INODES_KEPT + INODES_FREE_MIN) {
            return Ok(());
        }
        fs::create_dir_all(self.data.join(FOLDER))?;
        for (file, size) in PARTS.iter().flat_map(|part| self.files_of(*part)) {
            if !is_kept(&file, size) {
                allocate(&file, size).inspect_err(|_| drop(fs::remove_file(&file)))?;
            }
        }
        Ok(())
    }

    fn release(&self, part: ReservePart) {
        let mut given = 0;
        for (file, _) in self.files_of(part) {
            given += u32::from(fs::remove_file(file).is_ok());
        }
        if given > 0 {
            tracing::error!(?part, "disk full: part of the reserve released");
        }
    }

    /// The files of a part, with their sizes: the bytes in one, then empty ones.
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

    /// Sees to the reserve until `shutdown`, and says when the disk becomes low and when it is not any more.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let every = async {
            let mut was_low = false;
            loop {
                let disk = self.clone();
                let looked = tokio::task::spawn_blocking(move || disk.check()).await;
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

    /// Releases or refills the reserve as the disk stands. Returns whether it is low.
    fn check(&self) -> bool {
        let Ok(free) = self.free() else { return false };
        if free.bytes < BYTES_LEFT_MIN || free.inodes.is_some_and(|left| left < INODES_LEFT_MIN) {
            self.release(ReservePart::Running);
            return true;
        }
        if let Err(error) = self.refill(self.config.free_min_bytes) {
            tracing::warn!(%error, "disk reserve could not be allocated");
        }
        self.is_low()
    }
}

/// Whether the file is there with all its bytes.
fn is_kept(file: &Path, size: u64) -> bool {
    file.metadata().is_ok_and(|known| known.len() >= size)
}

/// Makes the file and has the disk give it all its bytes.
fn allocate(path: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    if size == 0 {
        return Ok(());
    }
    match fallocate(&file, FallocateFlags::empty(), 0, size) {
        Err(rustix::io::Errno::OPNOTSUPP) => write_all(&file, size),
        done => Ok(done?),
    }
}

/// Where the file system can't allocate, it is written.
fn write_all(mut file: &File, size: u64) -> io::Result<()> {
    use std::io::Write;
    // Not zeros, which some file systems leave out.
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

    fn allocated(folder: &Path) -> u64 {
        let files = fs::read_dir(folder).expect("the folder").flatten();
        files.map(|file| file.metadata().map_or(0, |known| known.blocks() * 512)).sum()
    }

    #[test]
    fn the_reserve_is_allocated_given_up_and_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = DiskReserveConfig { free_min_bytes: 0, reserve_bytes: 4 << 20 };
        let disk = DiskReserve::new(folder.path(), config);
        assert!(!disk.is_reserve_whole());
        disk.refill(0).expect("there is room");
        assert!(disk.is_reserve_whole());
        let reserve = folder.path().join(FOLDER);
        assert!(allocated(&reserve) >= 4 << 20);
        assert_eq!(fs::read_dir(&reserve).expect("the folder").count() as u64, INODES_KEPT + 2);
        disk.make_room_to_start();
        assert!(disk.is_reserve_whole(), "there is room enough");
        disk.release(ReservePart::Running);
        assert!(!disk.is_reserve_whole());
        assert!((2 << 20..4 << 20).contains(&allocated(&reserve)), "the other half is kept");
        disk.refill(u64::MAX).expect("nothing is done");
        assert!(!disk.is_reserve_whole(), "what is to be left free is");
        assert!(!disk.check());
        assert!(disk.is_reserve_whole());
    }

    #[test]
    fn a_disk_is_low_below_its_floor() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = |free_min_bytes| {
            DiskReserve::new(folder.path(), DiskReserveConfig { free_min_bytes, reserve_bytes: 0 })
        };
        assert!(!disk(0).is_low());
        assert!(disk(u64::MAX).is_low());
        assert!(disk(0).is_reserve_whole(), "there is none to be kept");
    }
}
