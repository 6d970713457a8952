//! Opens the contents of a data folder: the database and the workspaces.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use egress::ConfigError;
use engine::PluginsError;
use engine::templates::TemplateError;
use machine::{MachineFolders, SupervisorError};
use models::VendorConfigError;
pub use store::SchemaVersion;
use store::{DatabaseUrl, Store, StoreError, StoreOptions};
use workspace::{Quota, Workspaces};

/// The file of the database in a data folder.
pub const DATABASE: &str = "causerie.db";
/// The interval between two attempts to connect to a database.
const CONNECT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The space that the database's files are given on the disk beyond their ends, in bytes.
const SLACK_BYTES: u64 = 8 << 20;

/// The text by which an operator has the service accept a folder of workspaces, in the marker.
pub(crate) const ADOPT: &str = "adopt";

/// The reason why a folder of workspaces is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkspacesError {
    /// The folder has no marker, or no workspace although there are accounts.
    #[error(
        "{} does not hold the workspaces of this database: is their file system not mounted? Mount it and start again. If \
         this is the right folder, for example because its files were restored by hand, write `{ADOPT}` to {} and start again",
        .0.display(), .0.join(workspace::DATABASE_MARKER).display()
    )]
    Missing(PathBuf),
    /// The folder has the marker of another database.
    #[error(
        "{} holds the workspaces of another database; mount the right file system and start again. If this is the right \
         folder, write `{ADOPT}` to {} and start again",
        .0.display(), .0.join(workspace::DATABASE_MARKER).display()
    )]
    Foreign(PathBuf),
}

/// The reason why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be used.
    #[error("data folder not usable: {0}")]
    Data(#[from] io::Error),
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database file is damaged.
    #[error(
        "{} is damaged: {reason}; restore a backup into an empty data folder with `causerie restore`", .path.display()
    )]
    Damaged {
        path: PathBuf,
        /// The reason, in SQLite's words.
        reason: String,
    },
    /// The database does not belong to the workspaces.
    #[error(
        "the database is missing or empty, but the data folder has {0} workspaces; restore a backup into an empty data \
         folder, or set database.accept_empty to begin without accounts"
    )]
    EmptyDatabase(usize),
    /// The folder of workspaces does not belong to the database.
    #[error(transparent)]
    Workspaces(#[from] WorkspacesError),
    /// A restore into the data folder was interrupted, or is under way.
    #[error(
        "a restore into the data folder was interrupted, or is under way: {}; remove what it left and restore again",
        .0.display()
    )]
    RestoreInterrupted(PathBuf),
    /// A vendor's configuration cannot be used.
    #[error("invalid vendor configuration: {0}")]
    Vendor(#[from] VendorConfigError),
    /// The configuration of the identity provider cannot be used.
    #[error("invalid identity provider configuration: {0}")]
    SingleSignOn(ConfigError),
    /// The configuration of web access cannot be used.
    #[error("invalid web configuration: {0}")]
    Web(#[from] ConfigError),
    /// The plugins cannot be used.
    #[error("plugins not usable: {0}")]
    Plugins(#[from] PluginsError),
    /// The prompt templates cannot be read.
    #[error("prompt templates not usable: {0}")]
    PromptTemplates(#[from] TemplateError),
    /// The machines cannot be taken over.
    #[error("machines not usable: {0}")]
    Machines(#[from] SupervisorError),
    /// The model of embeddings cannot be used.
    #[error("embeddings not usable: {0}")]
    Embeddings(#[from] models::EmbeddingsError),
}

/// Opens the database of a data folder, or the one at `database`. Waits up to `max_wait` for one that is unreachable.
///
/// # Errors
/// [`StartError::Store`].
pub async fn open_store(
    data: &Path,
    database: Option<&DatabaseUrl>,
    max_wait: Duration,
) -> Result<Store, StartError> {
    let own = data.join(DATABASE);
    let Some(database) = database.cloned() else {
        let options = StoreOptions { slack_bytes: SLACK_BYTES, ..StoreOptions::default() };
        let path = own.clone();
        return match off_thread(move || Store::open_with(&own, options)).await {
            Err(StoreError::NotADatabase(reason)) => Err(StartError::Damaged { path, reason }),
            opened => Ok(opened?),
        };
    };
    database.check_syntax()?;
    let begun = Instant::now();
    loop {
        let url = database.clone();
        match off_thread(move || Store::connect(url.reveal())).await {
            Err(StoreError::Unreachable(reason)) if begun.elapsed() < max_wait => {
                tracing::warn!(%database, reason, waited = ?begun.elapsed(), "database unreachable; retrying");
                tokio::time::sleep(CONNECT_RETRY_INTERVAL).await;
            }
            opened => return Ok(opened?),
        }
    }
}

/// Returns the version of the schema of the data folder's database, or of the one at the URL. Changes nothing.
///
/// # Errors
/// [`StartError::Store`].
pub async fn schema_version(
    data: &Path,
    database: Option<&DatabaseUrl>,
) -> Result<SchemaVersion, StartError> {
    let (own, database) = (data.join(DATABASE), database.cloned());
    database.as_ref().map(DatabaseUrl::check_syntax).transpose()?;
    let url = move || Store::read_schema_version(&own, database.as_ref().map(DatabaseUrl::reveal));
    Ok(off_thread(url).await?)
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Panicked))
}

/// Returns the folder of the workspaces of all accounts.
#[must_use]
pub fn workspaces_folder(data: &Path) -> PathBuf {
    data.join("workspaces")
}

/// Opens the workspaces of a data folder.
///
/// # Errors
/// [`StartError::Data`].
pub fn open_workspaces(data: &Path, quota: Quota) -> Result<Workspaces, StartError> {
    Ok(Workspaces::new(workspaces_folder(data), quota)?)
}

/// Returns the folders of the machines of a data folder, which need not exist.
#[must_use]
pub fn machine_folders(data: &Path) -> MachineFolders {
    MachineFolders::new(data.join("machines"))
}
