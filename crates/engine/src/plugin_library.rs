//! The library of plugins, reread when their files change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use plugins::{Notice, PluginLibrary, PublishError};
use tokio::task::JoinError;

/// The minimum interval between two checks of the folders.
const LOOK_EVERY_MIN: Duration = Duration::from_secs(2);
/// The factor by which the interval exceeds the duration of a check, and the maximum interval.
const LOOK_PAUSE_FACTOR: u32 = 50;
const LOOK_EVERY_MAX: Duration = Duration::from_secs(60);

/// The sources of plugins besides the built-in one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginsConfig {
    /// Folders of plugins, or plugins. The first plugin of a name takes precedence.
    pub folders: Vec<PathBuf>,
}

/// The reason why plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PluginsError {
    /// The files cannot be published for the machines.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Reading the plugins panicked.
    #[error("plugins not readable: {0}")]
    Panicked(#[from] JoinError),
}

/// Returns the folder of the skills' files for the machines of a data folder.
#[must_use]
pub fn plugins_folder(data: &Path) -> PathBuf {
    data.join("plugins")
}

/// The current skills and agents. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Plugins {
    shared: Arc<PluginsShared>,
}

#[derive(Debug)]
struct PluginsShared {
    folders: Vec<PathBuf>,
    place: PathBuf,
    library: RwLock<Arc<PluginLibrary>>,
}

/// The fingerprints of the loaded folders, and of the ones that failed to load.
#[derive(Debug, Clone, Copy, Default)]
struct Looked {
    loaded: Option<[u8; 32]>,
    failed: Option<[u8; 32]>,
}

impl Plugins {
    /// Reads the plugins and publishes their files.
    ///
    /// # Errors
    /// [`PluginsError`]. A broken part of a plugin is not an error: it is logged and left out.
    pub async fn open_plugins(config: PluginsConfig, data: &Path) -> Result<Self, PluginsError> {
        let shared = PluginsShared {
            folders: config.folders,
            place: plugins_folder(data),
            library: RwLock::default(),
        };
        let plugins = Self { shared: Arc::new(shared) };
        let reading = plugins.clone();
        tokio::task::spawn_blocking(move || reading.reload_plugins()).await??;
        Ok(plugins)
    }

    /// Returns the current library.
    #[must_use]
    pub fn library(&self) -> Arc<PluginLibrary> {
        self.shared.library.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Polls the folders and reloads them after changes. Never returns.
    pub async fn keep_fresh(self) {
        if self.shared.folders.is_empty() {
            return std::future::pending().await;
        }
        // The first check also detects changes during the initial load.
        let mut known = Looked::default();
        loop {
            let looking = self.clone();
            let begun = Instant::now();
            match tokio::task::spawn_blocking(move || looking.reload_if_changed(known)).await {
                Ok(seen) => known = seen,
                Err(error) => tracing::error!(%error, "plugin check failed"),
            }
            let pause = begun.elapsed() * LOOK_PAUSE_FACTOR;
            tokio::time::sleep(pause.clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX)).await;
        }
    }

    /// Reloads the folders if their fingerprint is not the loaded one. A reload that failed is tried again.
    fn reload_if_changed(&self, known: Looked) -> Looked {
        let seen = Some(plugins::fingerprint_folders(&self.shared.folders));
        if known.loaded == seen {
            return known;
        }
        match self.reload_plugins() {
            Ok(()) => Looked { loaded: seen, failed: None },
            Err(error) => {
                if known.failed != seen {
                    tracing::error!(%error, "plugin reload failed; trying again");
                }
                Looked { failed: seen, ..known }
            }
        }
    }

    fn reload_plugins(&self) -> Result<(), PublishError> {
        let mut library = plugins::read_plugins(&self.shared.folders);
        library.publish_skills(&self.shared.place)?;
        let before = self.library();
        log_notices(library.notices.iter().filter(|notice| !before.notices.contains(notice)));
        if library.skills != before.skills || library.agents != before.agents {
            tracing::info!(skills = library.skills.len(), agents = library.agents.len(), "plugins loaded");
        }
        *self.shared.library.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(library);
        Ok(())
    }
}

/// Logs a line for each plugin with notices; their texts are in `causerie plugins check`, and in the log at `debug`.
fn log_notices<'a>(notices: impl Iterator<Item = &'a Notice>) {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for notice in notices {
        tracing::debug!("plugins: {notice}");
        let (skipped, remarks) = counts.entry(&notice.folder).or_default();
        *if notice.skipped { skipped } else { remarks } += 1;
    }
    for (folder, (skipped, remarks)) in counts {
        if skipped > 0 {
            tracing::warn!(
                "plugin {folder}: {skipped} {} skipped; `causerie plugins check {folder}` says why",
                if skipped == 1 { "item" } else { "items" }
            );
        } else {
            tracing::info!(
                "plugin {folder}: {remarks} {}; `causerie plugins check {folder}` lists them",
                if remarks == 1 { "remark" } else { "remarks" }
            );
        }
    }
}
