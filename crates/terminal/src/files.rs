//! Files of the workspace on a terminal.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use client::{Client, FolderEntry};

use crate::answer::{Printer, Style};
use crate::download::{WORKSPACE_MARK, download_file};
use crate::folders::{UploadPlan, download_folder, list_folder, make_folder};
use crate::interrupt::Interrupts;
use crate::labels::Label;
use crate::text::{format_size, one_line};
use crate::{ServiceConnection, TerminalError};

/// Lists a folder of the workspace: size, time of the last change, name.
///
/// # Errors
/// As [`TerminalError`] says.
pub async fn list_files(
    connection: &ServiceConnection,
    folder: &str,
    json: bool,
) -> Result<(), TerminalError> {
    let client = connection.open_client()?;
    let folder = folder.strip_prefix(WORKSPACE_MARK).unwrap_or(folder);
    let mut out = io::stdout();
    if json {
        return Ok(writeln!(out, "{}", client.list_json(folder).await?)?);
    }
    for entry in client.list_folder(folder).await?.entries {
        writeln!(out, "{}", format_entry(&entry))?;
    }
    Ok(())
}

fn format_entry(entry: &FolderEntry) -> String {
    let changed: String = entry.modified_time.chars().take(19).collect();
    let (length, slash) =
        if entry.kind == "DIRECTORY" { (String::new(), "/") } else { (format_size(entry.size), "") };
    format!("{length:>12}  {}  {}{slash}", one_line(&changed), one_line(&entry.name))
}

/// The local path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// The ends of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Copy<'a> {
    Upload { files: Vec<&'a Path>, folder: &'a str },
    Download { files: Vec<&'a str>, to: &'a Path },
    Print { file: &'a str },
}

impl<'a> Copy<'a> {
    fn parse(from: &'a [String], to: &'a str) -> Result<Self, TerminalError> {
        let refused = |text: &str| Err(TerminalError::Usage(text.to_owned()));
        let remote: Vec<&str> = from.iter().filter_map(|path| path.strip_prefix(WORKSPACE_MARK)).collect();
        match (to.strip_prefix(WORKSPACE_MARK), remote.len()) {
            (Some(folder), 0) => Ok(Self::Upload { files: from.iter().map(Path::new).collect(), folder }),
            (None, count) if count == from.len() && to == STANDARD_OUTPUT => match remote[..] {
                [file] => Ok(Self::Print { file }),
                _ => refused("only one file can be printed to standard output"),
            },
            (None, count) if count == from.len() => {
                let to = Path::new(to);
                if count > 1 && !to.is_dir() {
                    return refused(&format!(
                        "{} is not a folder: copy several files into a folder",
                        to.display()
                    ));
                }
                Ok(Self::Download { files: remote, to })
            }
            _ => refused(
                "copy between this host and the workspace, with a colon before its paths: `cp lease.pdf :/uploads`, \
                 `cp :/report.docx .`",
            ),
        }
    }
}

/// Fails if two files have one name: the second would replace the first.
fn check_names(files: &[&Path]) -> Result<(), TerminalError> {
    let mut names = HashSet::new();
    match files.iter().find(|file| !names.insert(file.file_name())) {
        None => Ok(()),
        Some(file) => Err(TerminalError::Usage(format!(
            "{} would replace another file of this name: copy it into another folder",
            file.display()
        ))),
    }
}

/// Copies local files into a folder of the workspace, or files of the workspace to a local file or folder, or
/// one to standard output. A path of the workspace has a colon before it. Existing local files are not
/// replaced. Folders are copied with their contents if `recursive`.
///
/// # Errors
/// [`TerminalError`]. The files before the failed one are copied.
pub async fn copy_files(
    connection: &ServiceConnection,
    from: &[String],
    to: &str,
    recursive: bool,
) -> Result<(), TerminalError> {
    let copy = Copy::parse(from, to)?;
    let client = connection.open_client()?;
    let mut interrupts = Interrupts::new()?;
    let mut printer = Printer::new(io::stdout(), io::stderr(), Style::for_process(true));
    let copied = async {
        match copy {
            Copy::Upload { files, folder } => {
                check_names(&files)?;
                let folder = if folder.is_empty() { "/" } else { folder };
                let plan = UploadPlan::for_files(&files, folder, recursive)?;
                for skipped in &plan.skipped {
                    printer.print_note(skipped)?;
                }
                for folder in &plan.folders {
                    make_folder(&client, folder).await?;
                }
                for (file, folder) in &plan.files {
                    upload_file(&client, file, folder, &mut printer).await?;
                }
            }
            Copy::Download { files, to } => {
                for file in files {
                    let target = download_target(file, to);
                    if recursive && let Some(entries) = list_folder(&client, file).await? {
                        download_folder(&client, entries, &target, &mut printer).await?;
                    } else {
                        download_file(&client, file, &target, &mut printer).await?;
                    }
                }
            }
            Copy::Print { file } => {
                let mut out = io::stdout();
                match client.download_file(file, &mut out).await {
                    Err(client::Error::File { source, .. }) => return Err(TerminalError::Output(source)),
                    printed => printed?,
                };
                out.flush()?;
            }
        }
        Ok(())
    };
    tokio::select! {
        copied = copied => copied,
        () = interrupts.next_interrupt() => Err(TerminalError::Interrupted),
    }
}

/// Uploads a file into a folder of the workspace.
async fn upload_file(
    client: &Client,
    file: &Path,
    folder: &str,
    printer: &mut Printer<io::Stdout, io::Stderr>,
) -> Result<(), TerminalError> {
    let progress = printer.upload_progress(file);
    let uploaded = client.upload_observed(file, Some(folder), move |sent| progress.show_sent(sent)).await;
    printer.end_progress()?;
    let uploaded = uploaded?;
    let label = printer.label(Label::Uploaded);
    Ok(printer.print_note(&format!("{label} {} ({})", uploaded.path, format_size(uploaded.size)))?)
}

/// Returns the local file that a download creates.
fn download_target(file: &str, to: &Path) -> PathBuf {
    let name = file.trim_end_matches('/').rsplit('/').next().unwrap_or(file);
    if to.is_dir() { to.join(name) } else { to.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colon_decides_about_the_direction() {
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let upload = Copy::Upload { files: vec![Path::new("a.pdf"), Path::new("b")], folder: "/uploads" };
        assert_eq!(Copy::parse(&paths(&["a.pdf", "b"]), ":/uploads").unwrap(), upload);
        let download = Copy::Download { files: vec!["/a.pdf", "/b"], to: Path::new(".") };
        assert_eq!(Copy::parse(&paths(&[":/a.pdf", ":/b"]), ".").unwrap(), download);
        assert_eq!(Copy::parse(&paths(&[":/a.pdf"]), "-").unwrap(), Copy::Print { file: "/a.pdf" });
        for (from, to) in [
            (&["a"][..], "b"),
            (&[":a"], ":b"),
            (&[":a", "b"], "."),
            (&["a", ":b"], ":c"),
            (&[":a", ":b"], "-"),
            (&[":a", ":b"], "/no/such/folder"),
        ] {
            assert!(matches!(Copy::parse(&paths(from), to), Err(TerminalError::Usage(_))), "{from:?} {to}");
        }
    }

    #[test]
    fn download_target_in_folder_keeps_name() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(download_target("/x/report.docx", folder.path()), folder.path().join("report.docx"));
    }
}
