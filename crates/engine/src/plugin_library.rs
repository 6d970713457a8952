//! The library of plugins, reread when their files change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use plugins::{Library, Notice, PublishError};
use tokio::task::JoinError;

/// How soon after a look at the folders the next one comes: at least this,
const LOOK_EVERY_MIN: Duration = Duration::from_secs(2);
/// and as many times as long as the look itself took, up to this.
const LOOK_PAUSE_FACTOR: u32 = 50;
const LOOK_EVERY_MAX: Duration = Duration::from_secs(60);

/// Where plugins come from besides the one that is built in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginsConfig {
    /// Folders of plugins, or plugins; of several plugins of one name the first holds.
    pub folders: Vec<PathBuf>,
}

/// Why there are no plugins.
#[derive(Debug, thiserror::Error)]
pub enum PluginsError {
    /// Their files cannot be laid out for the machines.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Reading them panicked.
    #[error("reading the plugins failed: {0}")]
    Panicked(#[from] JoinError),
}

/// Where the files of skills lie for the machines of a data folder.
#[must_use]
pub fn plugins_folder(data: &Path) -> PathBuf {
    data.join("plugins")
}

/// The skills and agents as they are now. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Plugins {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folders: Vec<PathBuf>,
    place: PathBuf,
    library: RwLock<Arc<Library>>,
}

impl Plugins {
    /// ModelInputs the plugins and lays their files out.
    ///
    /// # Errors
    /// [`PluginsError`]. What is broken in a plugin is none: it is logged and left out.
    pub async fn open(config: PluginsConfig, data: &Path) -> Result<Self, PluginsError> {
        let shared =
            Shared { folders: config.folders, place: plugins_folder(data), library: RwLock::default() };
        let plugins = Self { shared: Arc::new(shared) };
        let reading = plugins.clone();
        tokio::task::spawn_blocking(move || reading.reload()).await??;
        Ok(plugins)
    }

    /// What there is now.
    #[must_use]
    pub fn library(&self) -> Arc<Library> {
        self.shared.library.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the folders again and again, and reads them when something has changed. Never comes back.
    pub async fn keep_fresh(self) {
        if self.shared.folders.is_empty() {
            return std::future::pending().await;
        }
        // What changed while they were read for the first time is read again.
        let mut known = None;
        loop {
            let looking = self.clone();
            let begun = Instant::now();
            match tokio::task::spawn_blocking(move || looking.look(known)).await {
                Ok(seen) => known = Some(seen),
                Err(error) => tracing::error!(%error, "plugin check failed"),
            }
            let pause = begun.elapsed() * LOOK_PAUSE_FACTOR;
            tokio::time::sleep(pause.clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX)).await;
        }
    }

    /// ModelInputs the folders anew when they are not as they were, and gives how they are.
    fn look(&self, known: Option<[u8; 32]>) -> [u8; 32] {
        let seen = plugins::fingerprint(&self.shared.folders);
        if known == Some(seen) {
            return seen;
        }
        if let Err(error) = self.reload() {
            // With the next change it is tried again.
            tracing::error!(%error, "plugin reload failed");
        }
        seen
    }

    fn reload(&self) -> Result<(), PublishError> {
        let mut library = plugins::read(&self.shared.folders);
        library.publish(&self.shared.place)?;
        let before = self.library();
        for notice in library.notices.iter().filter(|notice| !before.notices.contains(notice)) {
            let Notice { skipped, .. } = notice;
            tracing::warn!(skipped, "plugins: {notice}");
        }
        if library.skills != before.skills || library.agents != before.agents {
            tracing::info!(skills = library.skills.len(), agents = library.agents.len(), "plugins loaded");
        }
        *self.shared.library.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(library);
        Ok(())
    }
}
