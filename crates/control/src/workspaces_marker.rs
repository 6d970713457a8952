//! Recognizes the folder of workspaces by a file in it, so that a service neither starts nor works on a folder whose file system
//! is not mounted, or that belongs to another database.
//!
//! | the database has | the folder has | then |
//! |---|---|---|
//! | an identity | the same | start |
//! | an identity, and accounts | none, or another | no start |
//! | no identity, and accounts | another's | no start |
//! | no identity, and accounts | no marker and no workspace | no start |
//! | otherwise | | the database gets an identity, and the folder a marker |
//!
//! A database has no identity before its first start with this version, and after it was restored from a backup.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::id::NodeId;
use store::{Store, StoreError, accounts, serving};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use workspace::Workspaces;

use crate::data_folder::{ADOPT, StartError, WorkspacesError};

/// The marker. Machines see only the folders of their accounts.
const MARKER: &str = workspace::DATABASE_MARKER;
/// The name of a marker that is being written; it begins with the name of the marker.
const NEW: &str = ".causerie-database.new";
/// The maximum number of bytes of a marker that are read.
const MARKER_MAX_BYTES: u64 = 256;
/// The interval between checks of the marker by a running service, and the time limit of a check.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The file system of the workspaces is missing, or does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the service cannot reach the file system of the workspaces; try again later")]
pub struct WorkspacesGone;

/// The marker of a folder that was accepted. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct WorkspacesMarker {
    folder: PathBuf,
    id: NodeId,
    is_there: Arc<AtomicBool>,
}

/// Accepts the folder of workspaces, or returns the reason why not. Gives the database the identity `new_id` if it needs one.
pub(crate) async fn accept_folder(
    store: &Store,
    workspaces: &Workspaces,
    folder: &Path,
    new_id: NodeId,
) -> Result<(), StartError> {
    let found = read_marker(folder)?;
    let (named, has_accounts) =
        store.read(|tx| Ok::<_, StoreError>((serving::database_id(tx)?, accounts::any_open(tx)?))).await?;
    match (named, found.as_deref()) {
        (Some(id), Some(found)) if is_of(found, id) => return Ok(()),
        // A start was interrupted after the database had got its identity.
        (Some(id), None) if read_file(&folder.join(NEW))?.is_some_and(|new| is_of(&new, id)) => {}
        (_, Some(ADOPT)) => tracing::warn!(folder = %folder.display(), "workspaces folder adopted"),
        (_, _) if !has_accounts => {}
        (_, Some(_)) => return Err(WorkspacesError::Foreign(folder.to_owned()).into()),
        (Some(_), None) => return Err(WorkspacesError::Missing(folder.to_owned()).into()),
        (None, None) if workspaces.count_accounts().await.map_err(io::Error::other)? == 0 => {
            return Err(WorkspacesError::Missing(folder.to_owned()).into());
        }
        (None, None) => {}
    }
    // Written before the database has the identity, and renamed after that.
    write_new(folder, named.unwrap_or(new_id))?;
    let id = store.write(move |tx| serving::name_database(tx, new_id)).await?;
    write_new(folder, id)?;
    fs::rename(folder.join(NEW), folder.join(MARKER))?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

fn is_of(marker: &str, id: NodeId) -> bool {
    marker.parse() == Ok(id)
}

fn read_marker(folder: &Path) -> io::Result<Option<String>> {
    read_file(&folder.join(MARKER))
}

/// Returns the trimmed text of the file; `None` if the file does not exist.
fn read_file(file: &Path) -> io::Result<Option<String>> {
    let file = match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = Vec::new();
    file.take(MARKER_MAX_BYTES).read_to_end(&mut text)?;
    Ok(Some(String::from_utf8_lossy(&text).trim().to_owned()))
}

fn write_new(folder: &Path, id: NodeId) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(folder.join(NEW))?;
    file.write_all(format!("{id}\n").as_bytes())?;
    file.sync_all()
}

impl WorkspacesMarker {
    /// Finds the marker of a folder that [`accept_folder`] has accepted.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn find_marker(store: &Store, folder: PathBuf) -> Result<Self, StoreError> {
        let id = store.read(|tx| serving::database_id(tx)).await?;
        let id = id.ok_or(StoreError::Rule("the database has no identity"))?;
        Ok(Self { folder, id, is_there: Arc::new(AtomicBool::new(true)) })
    }

    /// Fails if the folder did not have the marker at the last check.
    ///
    /// # Errors
    /// [`WorkspacesGone`].
    pub(crate) fn check_marker(&self) -> Result<(), WorkspacesGone> {
        if self.is_there.load(Ordering::Relaxed) { Ok(()) } else { Err(WorkspacesGone) }
    }

    /// Checks the marker until the shutdown.
    pub(crate) async fn watch_periodically(self, shutdown: CancellationToken) {
        let watch = async {
            // Only one check runs at a time, even if it does not end.
            let mut looking: Option<JoinHandle<bool>> = None;
            loop {
                sleep(CHECK_INTERVAL).await;
                self.look_for_marker(&mut looking).await;
            }
        };
        shutdown.run_until_cancelled(watch).await;
    }

    async fn look_for_marker(&self, looking: &mut Option<JoinHandle<bool>>) {
        let look = looking.get_or_insert_with(|| {
            let this = self.clone();
            spawn_blocking(move || {
                read_marker(&this.folder).is_ok_and(|found| found.is_some_and(|it| is_of(&it, this.id)))
            })
        });
        let found = timeout(CHECK_TIMEOUT, look).await;
        if found.is_ok() {
            *looking = None;
        }
        let is_there = matches!(found, Ok(Ok(true)));
        let folder = self.folder.display();
        match (self.is_there.swap(is_there, Ordering::Relaxed), is_there) {
            (true, false) => {
                tracing::error!(%folder, "workspaces folder without marker: refusing files and machines");
            }
            (false, true) => tracing::info!(%folder, "workspaces folder has its marker again"),
            (true, true) | (false, false) => {}
        }
    }
}
