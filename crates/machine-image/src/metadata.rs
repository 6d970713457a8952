//! The modes and times of entries of a tree.

use rustix::fs::{Mode, Timespec, Timestamps, UTIME_OMIT};

pub(crate) const FOLDER_MODE: Mode = Mode::from_bits_truncate(0o755);
pub(crate) const PROGRAM_MODE: Mode = Mode::from_bits_truncate(0o755);
pub(crate) const FILE_MODE: Mode = Mode::from_bits_truncate(0o644);

/// Returns timestamps with this modification time, in seconds since 1970, and an unchanged access time.
pub(crate) fn timestamps_at(seconds: u64) -> Timestamps {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 },
    }
}
