//! Tracks the disk usage of an account.
//!
//! The machine also writes into the workspace without notice. A bounded walk counts the usage; the service adjusts the
//! count by its own changes and recounts when it is old or would cause a refusal. Uploads reserve space before they
//! write, so that concurrent uploads never exceed the quota.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Mode, openat};
use rustix::io::Errno;

use crate::error::{SpaceShortage, WorkspaceError};
use crate::jail::{FOLDER_FLAGS, entry_stat, file_type, folder_size_charged, size_charged};
use crate::tree::TreeWalk;

/// Limits the walks that repeat because folders were moved during the count.
const WALKS_MAX: usize = 3;

/// A slow count is repeated only after this multiple of its duration.
const WALK_SHARE: u32 = 20;

/// The limits of an account, and the space that must stay free on the disk.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    /// Limits the bytes of an account's files.
    pub bytes_max: u64,
    /// Limits the files, folders and links of an account.
    pub files_max: u64,
    /// The bytes that uploads leave free on the disk.
    pub disk_free_min_bytes: u64,
    /// The maximum age of a count that uploads rely on; zero counts every time.
    pub recount_after: Duration,
}

impl Default for Quota {
    /// Limits accounts to 100 GiB and a million files, leaves 1 GiB of the disk free, and recounts after 5 s.
    fn default() -> Self {
        Self {
            bytes_max: 100 << 30,
            files_max: 1_000_000,
            disk_free_min_bytes: 1 << 30,
            recount_after: Duration::from_secs(5),
        }
    }
}

/// The disk usage of an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// The size of all files.
    pub bytes: u64,
    /// The number of files, folders and links.
    pub files: u64,
}

impl DiskUsage {
    fn saturating_add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }

    fn saturating_sub(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(other.bytes), files: self.files.saturating_sub(other.files) }
    }
}

#[derive(Debug)]
struct UsageCount {
    used: DiskUsage,
    taken: DiskUsage,
    /// The usage added during a walk, which the walk may have missed.
    added: DiskUsage,
    counted: Option<(Instant, Duration)>,
    /// True if the usage changed unseen since the last walk began.
    is_forgotten: bool,
    /// Names of uploads in progress that the walk could see.
    staging: HashSet<Vec<u8>>,
}

/// Tracks the usage of one account for all operations on its files.
#[derive(Debug)]
pub(crate) struct UsageTracker {
    quota: Quota,
    count: Mutex<UsageCount>,
    walking: tokio::sync::Mutex<()>,
}

impl UsageTracker {
    pub(crate) fn new(quota: Quota) -> Self {
        let count = UsageCount {
            used: DiskUsage::default(),
            taken: DiskUsage::default(),
            added: DiskUsage::default(),
            counted: None,
            is_forgotten: false,
            staging: HashSet::new(),
        };
        Self { quota, count: Mutex::new(count), walking: tokio::sync::Mutex::new(()) }
    }

    pub(crate) fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Recounts if the last count is older than `age`. Concurrent callers share one walk.
    pub(crate) async fn recount_if_older<W>(
        &self,
        age: Duration,
        walk: W,
    ) -> Result<DiskUsage, WorkspaceError>
    where
        W: AsyncFnOnce() -> Result<DiskUsage, WorkspaceError>,
    {
        let asked = Instant::now();
        let _walking = self.walking.lock().await;
        let fresh = self.with_count(|count| match count.counted {
            Some((at, _)) if at >= asked => true,
            Some((at, took)) => !age.is_zero() && at.elapsed() < age.max(took.saturating_mul(WALK_SHARE)),
            None => false,
        });
        if !fresh {
            self.with_count(|count| {
                count.added = DiskUsage::default();
                count.is_forgotten = false;
            });
            let started = Instant::now();
            let walked = walk().await?;
            self.with_count(|count| {
                count.used = walked.saturating_add(count.added);
                count.counted = (!count.is_forgotten).then(|| (started, started.elapsed()));
            });
        }
        Ok(self.with_count(|count| count.used))
    }

    /// Reserves space for `more`. Returns false when the current count leaves too little.
    pub(crate) fn try_reserve(&self, more: DiskUsage) -> bool {
        self.with_count(|count| {
            let then = count.used.saturating_add(count.taken).saturating_add(more);
            let fits = then.bytes <= self.quota.bytes_max && then.files <= self.quota.files_max;
            if fits {
                count.taken = count.taken.saturating_add(more);
            }
            fits
        })
    }

    /// Returns the limit that leaves no space for `more`, of a file with `more` and `taken` in all.
    fn find_shortage(&self, taken: DiskUsage, more: DiskUsage) -> SpaceShortage {
        let Quota { bytes_max, files_max, .. } = self.quota;
        let then = self.with_count(|count| count.used.saturating_add(count.taken).saturating_add(more));
        if taken.saturating_add(more).bytes > bytes_max {
            SpaceShortage::FileTooLarge(bytes_max)
        } else if then.files > files_max {
            SpaceShortage::Files(files_max)
        } else {
            SpaceShortage::Bytes(bytes_max)
        }
    }

    pub(crate) fn give_back(&self, taken: DiskUsage) {
        self.with_count(|count| count.taken = count.taken.saturating_sub(taken));
    }

    pub(crate) fn add_usage(&self, more: DiskUsage) {
        self.with_count(|count| {
            count.used = count.used.saturating_add(more);
            count.added = count.added.saturating_add(more);
        });
    }

    pub(crate) fn subtract_usage(&self, less: DiskUsage) {
        self.with_count(|count| count.used = count.used.saturating_sub(less));
    }

    /// Makes the next caller recount.
    pub(crate) fn invalidate_count(&self) {
        self.with_count(|count| {
            count.counted = None;
            count.is_forgotten = true;
        });
    }

    pub(crate) fn staging_begins(&self, name: &[u8]) {
        self.with_count(|count| count.staging.insert(name.to_vec()));
    }

    pub(crate) fn staging_ends(&self, name: &[u8]) {
        self.with_count(|count| count.staging.remove(name));
    }

    pub(crate) fn is_staging(&self, name: &[u8]) -> bool {
        self.with_count(|count| count.staging.contains(name))
    }

    fn with_count<T>(&self, work: impl FnOnce(&mut UsageCount) -> T) -> T {
        work(&mut self.count.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Space that an upload has reserved; released on drop.
#[derive(Debug)]
pub(crate) struct ReservedSpace {
    books: Arc<UsageTracker>,
    taken: DiskUsage,
}

impl ReservedSpace {
    pub(crate) fn new(books: Arc<UsageTracker>) -> Self {
        Self { books, taken: DiskUsage::default() }
    }

    pub(crate) fn try_reserve(&mut self, more: DiskUsage) -> bool {
        let fits = self.books.try_reserve(more);
        if fits {
            self.taken = self.taken.saturating_add(more);
        }
        fits
    }

    /// Returns the limit that leaves no space for `more`.
    pub(crate) fn find_shortage(&self, more: DiskUsage) -> SpaceShortage {
        self.books.find_shortage(self.taken, more)
    }

    /// Turns the reservation into usage, in place of the replaced entry's.
    pub(crate) fn commit_usage(self, replaced: DiskUsage) {
        self.books.add_usage(self.taken);
        self.books.subtract_usage(replaced);
    }
}

impl Drop for ReservedSpace {
    fn drop(&mut self) {
        self.books.give_back(self.taken);
    }
}

/// Counts the contents of an open folder at any depth, without following links. Stops above `files_max`, because the
/// rest cannot matter. A folder that cannot be read makes the account count as full, because it may contain anything.
pub(crate) fn count_usage(home: BorrowedFd<'_>, books: &UsageTracker) -> Result<DiskUsage, WorkspaceError> {
    let mut usage = DiskUsage::default();
    for _ in 0..WALKS_MAX {
        match walk_once(home, books)? {
            (counted, true) => return Ok(counted),
            (counted, false) => usage = counted,
        }
    }
    let full = DiskUsage { bytes: books.quota().bytes_max, files: books.quota().files_max };
    Ok(DiskUsage { bytes: usage.bytes.max(full.bytes), files: usage.files.max(full.files) })
}

/// Counts once. Returns false when the walk missed something.
fn walk_once(home: BorrowedFd<'_>, books: &UsageTracker) -> Result<(DiskUsage, bool), WorkspaceError> {
    let (mut usage, mut whole) = (DiskUsage::default(), true);
    let mut walk = TreeWalk::new(openat(home, c".", FOLDER_FLAGS, Mode::empty())?)?;
    while let Some(next) = walk.next() {
        let Ok(entry) = next else {
            whole = false;
            continue;
        };
        if entry.depth == 1 && books.is_staging(entry.name.to_bytes()) {
            continue;
        }
        usage.files += 1;
        if usage.files > books.quota().files_max {
            return Ok((usage, true));
        }
        let is_folder = match entry.kind {
            FileType::Directory => true,
            FileType::RegularFile | FileType::Unknown => {
                match entry_stat(walk.current_folder()?, entry.name.to_bytes()) {
                    Ok(stat) if file_type(&stat) == FileType::RegularFile => {
                        usage.bytes = usage.bytes.saturating_add(size_charged(&stat));
                        false
                    }
                    Ok(stat) => file_type(&stat) == FileType::Directory,
                    Err(errno) => {
                        whole &= errno == Errno::NOENT;
                        false
                    }
                }
            }
            _ => false,
        };
        match is_folder.then(|| walk.enter_folder(&entry.name)) {
            Some(Ok(stat)) => usage.bytes = usage.bytes.saturating_add(folder_size_charged(&stat)),
            // Removed or replaced during the walk; the next count handles it.
            Some(Err(errno)) => whole &= matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP),
            None => {}
        }
    }
    Ok((usage, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn change_during_walk_counts_next_time() {
        let tracker = UsageTracker::new(Quota::default());
        let age = Duration::from_secs(3600);
        let one = DiskUsage { bytes: 1, files: 1 };
        let changed = tracker.recount_if_older(age, async || {
            tracker.invalidate_count();
            Ok(one)
        });
        assert_eq!(changed.await.expect("a count"), one);
        let two = DiskUsage { bytes: 2, files: 2 };
        assert_eq!(tracker.recount_if_older(age, async || Ok(two)).await.expect("a count"), two);
        let kept = tracker.recount_if_older(age, async || panic!("the last count is fresh"));
        assert_eq!(kept.await.expect("a count"), two);
    }
}
