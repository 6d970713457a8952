//! Downloads of single files of the workspace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use client::Client;

use crate::TerminalError;
use crate::answer::Printer;
use crate::labels::Label;
use crate::text::format_size;

/// The character that marks a path of the workspace among local ones, as in `scp`.
pub(crate) const WORKSPACE_MARK: char = ':';

/// Downloads a file of the workspace to a local one, which must not exist.
pub(crate) async fn download_file(
    client: &Client,
    file: &str,
    target: &Path,
    printer: &mut Printer<io::Stdout, io::Stderr>,
) -> Result<(), TerminalError> {
    let mut download = Download::create_file(target)?;
    let bytes = client.download_file(file, &mut download.file).await?;
    download.complete = true;
    let label = printer.label(Label::Downloaded);
    Ok(printer.print_note(&format!("{label} {} ({})", target.display(), format_size(bytes)))?)
}

/// A local file that is removed again unless the download completes.
struct Download {
    path: PathBuf,
    file: File,
    complete: bool,
}

impl Download {
    fn create_file(path: &Path) -> Result<Self, TerminalError> {
        let unusable = |source| TerminalError::LocalFile { path: path.to_owned(), source };
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(unusable)?;
        Ok(Self { path: path.to_owned(), file, complete: false })
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if !self.complete {
            // Nothing more can be done about a file that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_download_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        drop(Download::create_file(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert!(Download::create_file(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
