//! Uploads the local files that a question attaches. None replaces a file of the workspace: a taken name gets a
//! number, unless the same file already exists.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use client::Client;

use crate::TerminalError;
use crate::answer::Printer;
use crate::labels::Label;
use crate::text::format_size;

/// The folder of uploads.
const UPLOADS: &str = "/uploads";
/// The maximum size in bytes of a file that is compared with an existing file of its name and size.
const COMPARED_MAX_BYTES: u64 = 64 << 20;
/// The type of a file in a listing.
const FILE: &str = "FILE";
const NOT_FOUND: u16 = 404;

/// The names in the folder of uploads, with the sizes of files.
struct UploadedNames(BTreeMap<String, Option<u64>>);

/// Uploads local files and returns their workspace paths.
pub(crate) async fn upload_attachments<O: Write, E: Write>(
    client: &Client,
    files: &[PathBuf],
    printer: &mut Printer<O, E>,
) -> Result<Vec<String>, TerminalError> {
    let mut paths: Vec<String> = Vec::new();
    if files.is_empty() {
        return Ok(paths);
    }
    let mut taken = UploadedNames::load_from(client).await?;
    for file in files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(path) = taken.find_same(client, file, &name).await {
            printer.print_note(&format!("{path} already exists"))?;
            if !paths.contains(&path) {
                paths.push(path);
            }
            continue;
        }
        let progress = printer.upload_progress(file);
        let free = taken.free_name(&name);
        let uploaded = client.upload_as(file, &free, None, move |sent| progress.show_sent(sent)).await;
        printer.end_progress()?;
        let uploaded = uploaded?;
        let label = printer.label(Label::Uploaded);
        printer.print_note(&format!("{label} {} ({})", uploaded.path, format_size(uploaded.size)))?;
        taken.0.insert(free, Some(uploaded.size));
        paths.push(uploaded.path);
    }
    Ok(paths)
}

impl UploadedNames {
    async fn load_from(client: &Client) -> Result<Self, TerminalError> {
        match client.list_folder(UPLOADS).await {
            Ok(listing) => {
                let entries = listing.entries.into_iter();
                Ok(Self(
                    entries.map(|entry| (entry.name, (entry.kind == FILE).then_some(entry.size))).collect(),
                ))
            }
            Err(client::Error::Refused { status: NOT_FOUND, .. }) => Ok(Self(BTreeMap::new())),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the path of the file with this name, if it has the content of the local file.
    async fn find_same(&self, client: &Client, file: &Path, name: &str) -> Option<String> {
        let bytes = file.metadata().ok()?.len();
        if bytes > COMPARED_MAX_BYTES || self.0.get(name) != Some(&Some(bytes)) {
            return None;
        }
        let path = format!("{UPLOADS}/{name}");
        let mut comparison = Comparison { local: BufReader::new(File::open(file).ok()?) };
        let compared = client.download_file(&path, &mut comparison).await.ok()?;
        (compared == bytes).then_some(path)
    }

    /// Returns the first of the name's numbered forms that is free: `offer.pdf`, `offer (2).pdf`.
    fn free_name(&self, name: &str) -> String {
        let (stem, extension) = match name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
            _ => (name, String::new()),
        };
        let numbered = (2..).map(|number: u64| format!("{stem} ({number}){extension}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        names.find(|name| !self.0.contains_key(name)).unwrap_or_default()
    }
}

/// Accepts content as long as it equals a local file's.
struct Comparison {
    local: BufReader<File>,
}

impl Write for Comparison {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let mut own = vec![0; content.len()];
        self.local.read_exact(&mut own)?;
        if own == content { Ok(content.len()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_name_gets_number() {
        let taken =
            UploadedNames(["a.pdf", "a (2).pdf", "notes", ".env"].map(|name| (name.to_owned(), None)).into());
        for (name, free) in
            [("b.pdf", "b.pdf"), ("a.pdf", "a (3).pdf"), ("notes", "notes (2)"), (".env", ".env (2)")]
        {
            assert_eq!(taken.free_name(name), free);
        }
    }

    #[test]
    fn same_content_keeps_uploaded_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "one two").unwrap();
        let mut comparison = Comparison { local: BufReader::new(File::open(&path).unwrap()) };
        comparison.write_all(b"one ").unwrap();
        assert!(comparison.write_all(b"too").is_err());
        let mut longer = Comparison { local: BufReader::new(File::open(&path).unwrap()) };
        assert!(longer.write_all(b"one two three").is_err());
    }
}
