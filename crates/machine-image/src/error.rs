//! The errors of all operations on images.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why an operation on images failed.
#[derive(Debug, thiserror::Error)]
pub enum MachineImageError {
    /// A name, a package or another argument has the wrong form.
    #[error("{0}")]
    Invalid(String),
    /// The image does not exist.
    #[error("image {0} not found: `causerie image list` lists the images")]
    NotFound(String),
    /// The service or a machine uses the image.
    #[error("image {0} is in use: a machine or the service runs with it")]
    InUse(String),
    /// A program is missing on this host.
    #[error("program {program} not found: install it (Debian: `apt-get install {package}`)")]
    MissingProgram { program: &'static str, package: &'static str },
    /// A program that builds the image failed.
    #[error("{program} failed: {reason}")]
    Program { program: &'static str, reason: String },
    /// The disk has too little space.
    #[error("too little space in {}: {free_mib} MiB free, about {needed_mib} MiB needed", folder.display())]
    NoSpace { folder: PathBuf, free_mib: u64, needed_mib: u64 },
    /// The archive cannot be a root file system.
    #[error("archive refused: {0}")]
    Archive(String),
    /// The operator stopped the build.
    #[error("interrupted: the unfinished image was removed")]
    Cancelled,
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

/// Adds the failed action to an error of the operating system.
pub(crate) trait ImageErrorContext<T> {
    /// `what` names the action and the file.
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T, MachineImageError>;
}

impl<T, E: Into<io::Error>> ImageErrorContext<T> for Result<T, E> {
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T, MachineImageError> {
        self.map_err(|source| MachineImageError::Io { what: what(), source: source.into() })
    }
}

/// Describes an action on a path.
pub(crate) fn describe_action(action: &str, path: &Path) -> String {
    format!("{action} {}", path.display())
}
