//! Files of the workspace on a terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use client::Entry;

use crate::answer::{Printer, Style};
use crate::interrupt::Interrupts;
use crate::text::{one_line, size};
use crate::{Connection, Error, check_uploadable};

/// The character that marks a path of the workspace among local ones, as in `scp`.
const WORKSPACE_MARK: char = ':';

/// Lists a folder of the workspace: size, time of the last change, name.
///
/// # Errors
/// As [`Error`] says.
pub async fn list_files(connection: &Connection, folder: &str, json: bool) -> Result<(), Error> {
    let client = connection.client()?;
    let folder = folder.strip_prefix(WORKSPACE_MARK).unwrap_or(folder);
    let mut out = io::stdout();
    if json {
        return Ok(writeln!(out, "{}", client.list_json(folder).await?)?);
    }
    for entry in client.list(folder).await?.entries {
        writeln!(out, "{}", line(&entry))?;
    }
    Ok(())
}

fn line(entry: &Entry) -> String {
    let changed: String = entry.modified_time.chars().take(19).collect();
    let (length, slash) =
        if entry.kind == "DIRECTORY" { (String::new(), "/") } else { (size(entry.size), "") };
    format!("{length:>12}  {}  {}{slash}", one_line(&changed), one_line(&entry.name))
}

/// The two ends of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Copy<'a> {
    Upload { file: &'a Path, folder: &'a str },
    Download { file: &'a str, to: &'a Path },
}

impl<'a> Copy<'a> {
    fn parse(from: &'a str, to: &'a str) -> Result<Self, Error> {
        match (from.strip_prefix(WORKSPACE_MARK), to.strip_prefix(WORKSPACE_MARK)) {
            (None, Some(folder)) => Ok(Self::Upload { file: Path::new(from), folder }),
            (Some(file), None) => Ok(Self::Download { file, to: Path::new(to) }),
            _ => Err(Error::Usage(
                "one of the two is a path of the workspace, with a colon before it: `cp lease.pdf :/uploads`, \
                 `cp :/report.docx .`"
                    .to_owned(),
            )),
        }
    }
}

/// Copies a local file into a folder of the workspace, or a file of the workspace to a local file or folder. A path of the
/// workspace has a colon before it. Existing local files are not replaced.
///
/// # Errors
/// As [`Error`] says.
pub async fn copy(connection: &Connection, from: &str, to: &str) -> Result<(), Error> {
    let copy = Copy::parse(from, to)?;
    let client = connection.client()?;
    let mut interrupts = Interrupts::new()?;
    let mut printer = Printer::new(io::stdout(), io::stderr(), Style::of_process(true));
    let note = match copy {
        Copy::Upload { file, folder } => {
            check_uploadable(file)?;
            let progress = printer.progress(file);
            let folder = if folder.is_empty() { "/" } else { folder };
            let uploaded = tokio::select! {
                uploaded = client.upload_observed(file, Some(folder), move |sent| progress.show(sent)) => uploaded,
                () = interrupts.next() => return Err(Error::Interrupted),
            };
            printer.end_progress()?;
            let uploaded = uploaded?;
            format!("uploaded {} ({})", uploaded.path, size(uploaded.size))
        }
        Copy::Download { file, to } => {
            let target = target(file, to);
            let mut download = Download::create(&target)?;
            let bytes = tokio::select! {
                bytes = client.download(file, &mut download.file) => bytes?,
                () = interrupts.next() => return Err(Error::Interrupted),
            };
            download.complete = true;
            format!("downloaded {} ({})", target.display(), size(bytes))
        }
    };
    Ok(printer.note(&note)?)
}

/// Returns the local file that a download makes.
fn target(file: &str, to: &Path) -> PathBuf {
    let name = file.rsplit('/').next().unwrap_or(file);
    if to.is_dir() { to.join(name) } else { to.to_owned() }
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
    fn the_colon_decides_about_the_direction() {
        let upload = Copy::Upload { file: Path::new("a.pdf"), folder: "/uploads" };
        assert_eq!(Copy::parse("a.pdf", ":/uploads").unwrap(), upload);
        let download = Copy::Download { file: "/a.pdf", to: Path::new(".") };
        assert_eq!(Copy::parse(":/a.pdf", ".").unwrap(), download);
        for (from, to) in [("a", "b"), (":a", ":b")] {
            assert!(matches!(Copy::parse(from, to), Err(Error::Usage(_))), "{from} {to}");
        }
    }

    #[test]
    fn an_incomplete_download_leaves_nothing_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        drop(Download::create(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert!(Download::create(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(target("/x/report.docx", folder.path()), folder.path().join("report.docx"));
    }
}
