//! Leases: bounds how long machines may work without their service.
//!
//! The service writes a deadline to one file, the lease page, and extends it while it certainly serves. The first process of
//! each machine watches the page. A killed, frozen or disconnected service no longer extends it:
//!
//! ```text
//!            deadline passed                  SUSPENDED_MAX later
//!   working ─────────────────> suspended ────────────────────────> ended
//!      ^      (SIGSTOP)            │
//!      └─────────(SIGCONT)─────────┘ the deadline was moved on
//! ```
//! The deadline is a time since the boot of the host. Nobody outside the host can see the page; for another host, this means
//! that a machine works at most until the last deadline that its service was entitled to write.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::Sandbox;
use super::folders::MachineFolders;
use super::folders::private_folder;
use super::spec::LeaseTerms;

/// The name of the page in the folder of machines.
const PAGE: &str = ".lease";
/// The time for which the machines of a service stay suspended before they end.
pub const SUSPENDED_MAX: Duration = Duration::from_secs(5 * 60);
/// The interval in which a suspended machine checks the page.
const SUSPENDED_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest wait of a working machine.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// Returns the path of the page for the machines in a folder.
fn page_in(machines: &Path) -> PathBuf {
    machines.join(PAGE)
}

impl MachineFolders {
    /// Opens the page that permits the machines of these folders to work. Creates the folder around them if it is
    /// missing.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub(crate) fn lease_page(&self) -> io::Result<LeasePage> {
        private_folder(&self.machines).map_err(io::Error::other)?;
        LeasePage::open_page(&page_in(&self.machines))
    }
}

impl Sandbox {
    /// Opens the page that permits machines to work; `None` if they work without one.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub fn lease_page(&self) -> io::Result<Option<LeasePage>> {
        self.config.suspended_max.map(|_| LeasePage::open_page(&page_in(&self.config.machines))).transpose()
    }

    /// Returns the data that a new machine must watch.
    pub(crate) fn lease_terms(&self) -> Option<LeaseTerms> {
        self.config.suspended_max.map(|most| LeaseTerms {
            page: page_in(&self.config.machines),
            suspended_max_ms: u64::try_from(most.as_millis()).unwrap_or(u64::MAX),
        })
    }
}

/// Returns the time since the host was booted, including the time in which it slept.
fn time_since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// The page as the service writes it.
#[derive(Debug)]
pub struct LeasePage {
    page: File,
}

impl LeasePage {
    /// Opens the page, and creates it if it is missing. The machines of an earlier service watch the same one.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub fn open_page(path: &Path) -> io::Result<Self> {
        let page =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Self { page })
    }

    /// Permits machines to work for `time` from now on.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub fn extend_for(&self, time: Duration) -> io::Result<()> {
        self.extend_until(time_since_boot() + time)
    }

    /// Permits machines to work until this time since the host's boot.
    ///
    /// # Errors
    /// Returns errors of the file system.
    pub fn extend_until(&self, deadline: Duration) -> io::Result<()> {
        let nanos = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        self.page.write_all_at(&nanos.to_le_bytes(), 0)
    }
}

/// The next action of a machine's first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseAction {
    Suspend,
    Resume,
    End,
}

/// The page as a machine's first process watches it.
pub(crate) struct LeaseWatch {
    page: File,
    suspended_max: Duration,
    /// The time since when the machine is suspended.
    suspended_since: Option<Duration>,
}

impl LeaseWatch {
    pub(crate) fn new(page: File, suspended_max: Duration) -> Self {
        Self { page, suspended_max, suspended_since: None }
    }

    /// Returns the next action, if any, and the time until the next check.
    pub(crate) fn next_action(&mut self) -> (Option<LeaseAction>, Duration) {
        self.look_at(time_since_boot())
    }

    fn look_at(&mut self, now: Duration) -> (Option<LeaseAction>, Duration) {
        let left = self.read_deadline().saturating_sub(now);
        match self.suspended_since {
            None if left > Duration::ZERO => (None, left.max(CHECK_INTERVAL_MIN)),
            None => {
                self.suspended_since = Some(now);
                (Some(LeaseAction::Suspend), SUSPENDED_CHECK_INTERVAL)
            }
            Some(_) if left > Duration::ZERO => {
                self.suspended_since = None;
                (Some(LeaseAction::Resume), left.max(CHECK_INTERVAL_MIN))
            }
            Some(since) if now.saturating_sub(since) >= self.suspended_max => {
                (Some(LeaseAction::End), SUSPENDED_CHECK_INTERVAL)
            }
            Some(_) => (None, SUSPENDED_CHECK_INTERVAL),
        }
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended_since.is_some()
    }

    /// Returns the deadline; an unreadable one counts as passed.
    fn read_deadline(&self) -> Duration {
        let mut nanos = [0; 8];
        match self.page.read_exact_at(&mut nanos, 0) {
            Ok(()) => Duration::from_nanos(u64::from_le_bytes(nanos)),
            Err(_) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn open_lease_pair() -> (LeasePage, LeaseWatch, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = page_in(folder.path());
        let page = LeasePage::open_page(&path).unwrap();
        (page, LeaseWatch::new(File::open(path).unwrap(), 60 * SECOND), folder)
    }

    #[test]
    fn lease_watch_suspends_and_resumes() {
        let (page, mut watch, _folder) = open_lease_pair();
        page.extend_until(10 * SECOND).unwrap();
        assert_eq!(watch.look_at(7 * SECOND), (None, 3 * SECOND));
        assert_eq!(watch.look_at(10 * SECOND), (Some(LeaseAction::Suspend), SUSPENDED_CHECK_INTERVAL));
        assert_eq!(watch.look_at(11 * SECOND), (None, SUSPENDED_CHECK_INTERVAL));
        assert!(watch.is_suspended());
        page.extend_until(20 * SECOND).unwrap();
        assert_eq!(watch.look_at(12 * SECOND), (Some(LeaseAction::Resume), 8 * SECOND));
        assert_eq!(watch.look_at(13 * SECOND), (None, 7 * SECOND));
        assert_eq!(watch.look_at(30 * SECOND).0, Some(LeaseAction::Suspend), "again");
    }

    #[test]
    fn lease_watch_ends_long_suspension() {
        let (page, mut watch, _folder) = open_lease_pair();
        page.extend_until(10 * SECOND).unwrap();
        assert_eq!(watch.look_at(11 * SECOND).0, Some(LeaseAction::Suspend));
        assert_eq!(watch.look_at(70 * SECOND).0, None);
        assert_eq!(watch.look_at(71 * SECOND).0, Some(LeaseAction::End));
    }

    #[test]
    fn lease_watch_suspends_without_deadline() {
        let (_page, mut watch, _folder) = open_lease_pair();
        assert_eq!(watch.look_at(SECOND).0, Some(LeaseAction::Suspend));
    }
}
