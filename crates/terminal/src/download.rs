//! Downloads of single files of the workspace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use client::Client;

use crate::Error;
use crate::answer::Printer;
use crate::labels::Label;
use crate::text::size;

/// The character that marks a path of the workspace among local ones, as in `scp`.
pub(crate) const WORKSPACE_MARK: char = ':';

/// Downloads a file of the workspace to a local one, which must not exist.
pub(crate) async fn download_file(
    client: &Client,
    file: &str,
    target: &Path,
    printer: &mut Printer<io::Stdout, io::Stderr>,
) -> Result<(), Error> {
    let mut download = Download::create(target)?;
    let bytes = client.download(file, &mut download.file).await?;
    download.complete = true;
    let label = printer.label(Label::Downloaded);
    Ok(printer.note(&format!("{label} {} ({})", target.display(), size(bytes)))?)
}

/// A local file that is removed again unless the download completes.
struct Download {
    path: PathBuf,
    file: File,
    complete: bool,
}

impl Download {
    fn create(path: &Path) -> Result<Self, Error> {
        let unusable = |source| Error::LocalFile { path: path.to_owned(), source };
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
    fn an_incomplete_download_leaves_nothing_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        drop(Download::create(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert!(Download::create(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }
}
