//! The data folder and its lock, held by one service or, for a moment, by one command.

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
/// The name of the lock file.
const LOCK: &str = "lock";
/// The maximum wait for another process to release the lock, and the polling interval.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The process that holds the data folder.
pub(crate) enum Holder {
    /// This process, as long as the file is open.
    Us(File),
    /// A service, to which this leads.
    Service(UnixStream),
    /// Somebody who neither answers nor lets go.
    Nobody,
}

/// Makes the data folder when it is missing, for its owner alone: what machines write in it could bear any mode.
/// An empty one, and one that a service has used, is closed to others; the rights of its group are kept.
pub(crate) fn prepare(data: &Path) -> io::Result<PathBuf> {
    const OTHERS: u32 = 0o007;
    const STICKY: u32 = 0o1000;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    let data = data.canonicalize()?;
    let metadata = data.metadata()?;
    let mode = metadata.mode() & 0o7777;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    // A folder that everybody writes to is no data folder, whatever an operator has put there.
    if own && mode & OTHERS != 0 && mode & STICKY == 0 && (data.join(LOCK).exists() || is_empty(&data)?) {
        std::fs::set_permissions(&data, PermissionsExt::from_mode(mode & !OTHERS))?;
    }
    Ok(data)
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(std::fs::read_dir(folder)?.next().is_none())
}

/// Finds the service that runs on the folder or, when there is none, takes the folder for this process. One that
/// is just starting or ending, and another's command, are waited for.
pub(crate) async fn hold(data: &Path) -> io::Result<Holder> {
    let max_wait = Instant::now() + LOCK_TIMEOUT;
    loop {
        if let Some(service) = socket::connect(data).await {
            return Ok(Holder::Service(service));
        }
        let file = File::options().create(true).append(true).open(data.join(LOCK))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Holder::Us(file)),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < max_wait => sleep(CHECK_INTERVAL).await,
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Holder::Nobody),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_may_not_enter_a_data_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        let prepared = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
            prepare(path).expect("it is ours");
            path.metadata().expect("it is there").mode() & 0o7777
        };
        prepare(&data).expect("it is made");
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
        let first = hold(folder.path()).await.expect("a folder");
        assert!(matches!(first, Holder::Us(_)));
        assert!(matches!(hold(folder.path()).await, Ok(Holder::Nobody)), "it was waited for in vain");
        let waiting = tokio::spawn({
            let data = folder.path().to_owned();
            async move { hold(&data).await }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(matches!(waiting.await, Ok(Ok(Holder::Us(_)))), "who waits gets it");
    }

    #[tokio::test]
    async fn a_service_is_found_by_its_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let held = hold(folder.path()).await.expect("a folder");
        let listening = socket::listen(folder.path()).expect("a socket");
        assert!(matches!(hold(folder.path()).await, Ok(Holder::Service(_))));
        drop((listening, held));
        assert!(
            matches!(hold(folder.path()).await, Ok(Holder::Us(_))),
            "a socket that was left leads nowhere"
        );
    }
}
