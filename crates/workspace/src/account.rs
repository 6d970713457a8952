//! The folder of all workspaces, and the workspace of one account.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::id::AccountId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Dir, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::error::WorkspaceError;
use crate::jail::{self, FOLDER_FLAGS, FOLDER_MODE, OpenHome, entry_stat, off_thread};
use crate::path::{WorkspacePath, is_staging};
use crate::usage::{DiskUsage, Quota, UsageTracker, count_usage};

/// The number of accounts whose usage is cached; beyond it idle accounts are recounted later.
const BOOKS_MAX: usize = 10_000;

/// The age at which leftovers of an interrupted upload are removed.
const STAGING_STALE_AFTER: Duration = Duration::from_secs(3600);

/// The file beside the workspaces that names the database to which they belong. Its owner reads and writes it; backups
/// omit it and files whose names begin with it.
pub const DATABASE_MARKER: &str = ".causerie-database";

/// The mode of the folder of all accounts. A machine may give its files and its home any permissions, but no other user
/// on the host can reach them. The homes stay accessible to the agent, which runs as another user than their owner in a
/// machine.
const PRIVATE_MODE: Mode = Mode::RWXU;

/// The folder that holds the workspaces of all accounts on this host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workspaces {
    shared: Arc<WorkspacesShared>,
}

#[derive(Debug)]
struct WorkspacesShared {
    root: OwnedFd,
    root_dir: PathBuf,
    quota: Quota,
    books: Mutex<HashMap<AccountId, Arc<UsageTracker>>>,
}

impl Workspaces {
    /// Opens the folder, creates it when it is missing, and closes it to other users. Blocks; meant for startup.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn new(root_dir: impl Into<PathBuf>, quota: Quota) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let root_dir = root_dir.into();
        std::fs::DirBuilder::new().recursive(true).mode(PRIVATE_MODE.as_raw_mode()).create(&root_dir)?;
        let root = fs::open(&root_dir, FOLDER_FLAGS, Mode::empty())?;
        fs::fchmod(&root, PRIVATE_MODE)?;
        let shared = WorkspacesShared { root, root_dir, quota, books: Mutex::new(HashMap::new()) };
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(crate) fn root_fd(&self) -> BorrowedFd<'_> {
        self.shared.root.as_fd()
    }

    /// Returns the limits of each account.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.shared.quota
    }

    /// Returns the workspace of this account without any check: without [`Self::provision`] its operations return
    /// [`WorkspaceError::NotFound`].
    #[must_use]
    pub fn workspace_for(&self, account: AccountId) -> Workspace {
        let mut trackers = self.shared.books.lock().unwrap_or_else(PoisonError::into_inner);
        if trackers.len() >= BOOKS_MAX && !trackers.contains_key(&account) {
            trackers.retain(|_, books| Arc::strong_count(books) > 1);
        }
        let books = trackers.entry(account).or_insert_with(|| Arc::new(UsageTracker::new(self.shared.quota)));
        Workspace { shared: self.shared.clone(), name: account.to_string().into(), books: books.clone() }
    }

    /// Returns the number of accounts that have a folder.
    ///
    /// # Errors
    /// Errors of the file system.
    pub async fn count_accounts(&self) -> Result<usize, WorkspaceError> {
        Ok(self.list_accounts().await?.len())
    }

    /// Removes the files that interrupted uploads left in home folders, and resumable uploads that expired. Returns their
    /// number. Skips files that were written within the last hour, and unreadable folders. Cancel safe.
    ///
    /// # Errors
    /// Errors of the file system for the folder of all accounts.
    pub async fn remove_stale_uploads(&self) -> Result<u64, WorkspaceError> {
        let mut removed = 0;
        for account in self.list_accounts().await? {
            let workspace = self.without_books(account);
            let swept = off_thread(move || workspace.remove_stale(&workspace.open_home()?)).await;
            removed += swept.unwrap_or(0);
        }
        Ok(removed)
    }

    /// Drops the cached usage of an account.
    pub(crate) fn forget_usage(&self, account: AccountId) {
        self.shared.books.lock().unwrap_or_else(PoisonError::into_inner).remove(&account);
    }

    /// Returns the workspace like [`Self::workspace_for`], but without caching its usage: a scan of all accounts must
    /// not displace accounts in use.
    fn without_books(&self, account: AccountId) -> Workspace {
        let trackers = self.shared.books.lock().unwrap_or_else(PoisonError::into_inner);
        let books = trackers.get(&account).cloned();
        let books = books.unwrap_or_else(|| Arc::new(UsageTracker::new(self.shared.quota)));
        Workspace { shared: self.shared.clone(), name: account.to_string().into(), books }
    }

    /// Returns the accounts that have a folder.
    async fn list_accounts(&self) -> Result<Vec<AccountId>, WorkspaceError> {
        let root_dir = self.shared.root_dir.clone();
        off_thread(move || {
            let mut accounts = Vec::new();
            for entry in std::fs::read_dir(root_dir)? {
                let name = entry?.file_name();
                accounts.extend(name.to_str().and_then(|name| name.parse::<AccountId>().ok()));
            }
            Ok(accounts)
        })
        .await
    }

    /// Creates the account's home folder with its upload folder, unless they exist. When the service runs as root and
    /// an owner (user and group) is given, that user owns both and everything that the service creates there later.
    ///
    /// # Errors
    /// Errors of the file system.
    pub async fn provision(
        &self,
        account: AccountId,
        owner: Option<(u32, u32)>,
    ) -> Result<Workspace, WorkspaceError> {
        let workspace = self.workspace_for(account);
        let made = workspace.clone();
        off_thread(move || made.create_home(owner)).await?;
        Ok(workspace)
    }
}

/// The files of one account: section 4.3 of the interface. Cheap to clone.
///
/// Every operation starts at the account's home folder and cannot leave it. Operations run off the request threads; one
/// whose future is dropped may still complete, and none leaves a partial file.
#[derive(Debug, Clone)]
pub struct Workspace {
    shared: Arc<WorkspacesShared>,
    name: Arc<str>,
    pub(crate) books: Arc<UsageTracker>,
}

impl Workspace {
    /// Returns the path of the home folder on this host, for the driver of the account's machine.
    #[must_use]
    pub fn host_dir(&self) -> PathBuf {
        self.shared.root_dir.join(&*self.name)
    }

    /// Returns true if the home folder exists. One system call.
    #[must_use]
    pub fn is_made(&self) -> bool {
        fs::statat(self.shared.root.as_fd(), &*self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the disk usage of the account, recounted if the last count is older than the quota allows.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`] without a home folder, and errors of the file system.
    pub async fn usage(&self) -> Result<DiskUsage, WorkspaceError> {
        self.recount_usage(self.shared.quota.recount_after).await
    }

    /// Restores the permissions of the home folder that a machine removed and that all operations need.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`] without a home folder, and errors of the file system.
    pub async fn repair_permissions(&self) -> Result<(), WorkspaceError> {
        let workspace = self.clone();
        off_thread(move || workspace.open_home().map(drop)).await
    }

    /// Returns the folder of all accounts.
    pub(crate) fn accounts_root(&self) -> BorrowedFd<'_> {
        self.shared.root.as_fd()
    }

    /// Returns the name of the home folder in [`Self::root`].
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn recount_usage(&self, age: Duration) -> Result<DiskUsage, WorkspaceError> {
        self.books
            .recount_if_older(age, async || {
                let workspace = self.clone();
                off_thread(move || count_usage(workspace.open_home()?.fd(), &workspace.books)).await
            })
            .await
    }

    /// Opens the home folder. Blocks.
    pub(crate) fn open_home(&self) -> Result<OpenHome, WorkspaceError> {
        OpenHome::open_under(self.shared.root.as_fd(), &self.name)
    }

    /// Opens the path if that does not wait for a disk and its path has no link.
    pub(crate) fn open_at_hand(&self, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        jail::open_at_hand(self.shared.root.as_fd(), &self.name, path, flags)
    }

    fn create_home(&self, owner: Option<(u32, u32)>) -> Result<(), WorkspaceError> {
        let root = self.shared.root.as_fd();
        match fs::mkdirat(root, &*self.name, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(other) => return Err(other.into()),
        }
        let fd = fs::openat(root, &*self.name, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        if let (Some((uid, gid)), true) = (owner, rustix::process::geteuid().is_root()) {
            fs::fchown(&fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        fs::fchmod(&fd, FOLDER_MODE)?;
        let home = self.open_home()?;
        if entry_stat(home.fd(), b"uploads").is_err() {
            fs::fsync(home.open_or_make(home.fd(), b"uploads")?)?;
        }
        fs::fsync(home.fd())?;
        Ok(fs::fsync(root)?)
    }

    /// Removes stale files of interrupted uploads from the home folder.
    fn remove_stale(&self, home: &OpenHome) -> Result<u64, WorkspaceError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut removed = self.remove_expired()?;
        for entry in Dir::new(fs::openat(home.fd(), c".", FOLDER_FLAGS, Mode::empty())?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !is_staging(name) || self.books.is_staging(name) || self.is_unfinished(name)? {
                continue;
            }
            let written = entry_stat(home.fd(), name).map_or(0, |stat| stat.st_mtime);
            let written = Duration::from_secs(u64::try_from(written).unwrap_or(0));
            if now.saturating_sub(written) > STAGING_STALE_AFTER {
                removed += u64::from(fs::unlinkat(home.fd(), name, AtFlags::empty()).is_ok());
            }
        }
        Ok(removed)
    }
}
