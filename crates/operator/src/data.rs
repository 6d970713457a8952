//! The data folder and its lock, held by one service or temporarily by a command.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::socket;

/// The database in the data folder.
pub(crate) const DATABASE: &str = "causerie.db";
/// The identity of the data folder, which a service leaves there.
pub(crate) const NODE: &str = "node";
/// The name of the lock file.
const LOCK: &str = "lock";
/// The maximum wait for another process to release the lock, and the polling interval.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The holder of the data folder.
pub enum DataFolderHolder {
    /// This process, while the file is open.
    Us(File),
    /// A service, with a connection to its socket.
    Service(UnixStream),
    /// A process that neither responds nor releases the lock.
    Nobody,
}

/// Creates the data folder if it is missing, for its owner only, because machines can create files with any mode in
/// it. Removes other users' access to an empty folder and to one that a service has used; group permissions stay.
pub fn prepare_data_folder(data: &Path) -> io::Result<PathBuf> {
    const OTHERS: u32 = 0o007;
    const STICKY: u32 = 0o1000;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    let data = data.canonicalize()?;
    let metadata = data.metadata()?;
    let mode = metadata.mode() & 0o7777;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    // A world-writable sticky folder such as /tmp is not a data folder, even if it contains a lock.
    if own && mode & OTHERS != 0 && mode & STICKY == 0 && (data.join(LOCK).exists() || is_empty(&data)?) {
        std::fs::set_permissions(&data, PermissionsExt::from_mode(mode & !OTHERS))?;
    }
    Ok(data)
}

/// Returns the reason why a data folder cannot be used, and the remedy.
pub fn describe_unusable_folder(data: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{error}: run the command as the user of the service, or as root")
        }
        _ if data.exists() && !data.is_dir() => "it is a file, not a folder".to_owned(),
        _ => error.to_string(),
    }
}

/// Tries to enter the data folder. A missing folder is accepted.
///
/// # Errors
/// When it or a folder above it cannot be entered.
pub(crate) fn check_data_folder_access(data: &Path) -> io::Result<()> {
    match data.join(DATABASE).symlink_metadata() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(std::fs::read_dir(folder)?.next().is_none())
}

/// Connects to the service that runs on the folder. If no service runs, locks the folder for this process.
/// Waits for a service that is starting or ending, and for other commands.
pub async fn acquire_data_folder(data: &Path) -> io::Result<DataFolderHolder> {
    let max_wait = Instant::now() + LOCK_TIMEOUT;
    loop {
        if let Some(service) = socket::connect_service(data).await {
            return Ok(DataFolderHolder::Service(service));
        }
        let file = File::options().create(true).append(true).open(data.join(LOCK))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(DataFolderHolder::Us(file)),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < max_wait => sleep(CHECK_INTERVAL).await,
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(DataFolderHolder::Nobody),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepare_data_folder_denies_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        let prepared = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
            prepare_data_folder(path).expect("it is ours");
            path.metadata().expect("it is there").mode() & 0o7777
        };
        prepare_data_folder(&data).expect("it is made");
        assert_eq!(data.metadata().expect("it is there").mode() & 0o7777, 0o700);
        assert_eq!(prepared(&data, 0o755), 0o750, "an empty one");
        File::create(data.join(LOCK)).expect("it is ours");
        assert_eq!(prepared(&data, 0o771), 0o770, "one that was used");
        std::fs::create_dir(&other).expect("it is ours");
        File::create(other.join("something")).expect("it is ours");
        assert_eq!(prepared(&other, 0o755), 0o755, "what else is there is not ours to close");
    }

    #[tokio::test(start_paused = true)]
    async fn a_folder_has_one_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = acquire_data_folder(folder.path()).await.expect("a folder");
        assert!(matches!(first, DataFolderHolder::Us(_)));
        assert!(
            matches!(acquire_data_folder(folder.path()).await, Ok(DataFolderHolder::Nobody)),
            "it was waited for in vain"
        );
        let waiting = tokio::spawn({
            let data = folder.path().to_owned();
            async move { acquire_data_folder(&data).await }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(matches!(waiting.await, Ok(Ok(DataFolderHolder::Us(_)))), "who waits gets it");
    }

    #[tokio::test]
    async fn acquire_data_folder_finds_service() {
        let folder = tempfile::tempdir().expect("a folder");
        let held = acquire_data_folder(folder.path()).await.expect("a folder");
        let listening = socket::bind_admin_socket(folder.path()).expect("a socket");
        assert!(matches!(acquire_data_folder(folder.path()).await, Ok(DataFolderHolder::Service(_))));
        drop((listening, held));
        assert!(
            matches!(acquire_data_folder(folder.path()).await, Ok(DataFolderHolder::Us(_))),
            "a socket that was left leads nowhere"
        );
    }
}
