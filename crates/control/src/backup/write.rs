//! Writing an archive.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use domain::time::Timestamp;
use serde_json::json;
use store::Exporter;
use tar::{Builder, EntryType, Header};
use workspace::{Content, Kept, Workspaces};
use zstd::Encoder;

use super::seal::{Seal, Sum};
use super::{BackupError, DATABASE, FORM, HEAD, SEAL, Summary, WORKSPACES};

/// How hard to press: the disks of today are no faster.
const LEVEL: i32 = 3;

/// Writes database and files to `to`, where nothing may be: whole, or not at all. Blocks.
///
/// # Errors
/// [`BackupError`].
pub fn write(
    database: &Exporter,
    workspaces: &Workspaces,
    to: &Path,
    now: Timestamp,
) -> Result<Summary, BackupError> {
    if to.symlink_metadata().is_ok() {
        return Err(BackupError::Taken(to.to_owned()));
    }
    let partial = beside(to, ".partial");
    let place = |error| BackupError::Place { path: partial.clone(), error };
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(place(error)),
        Ok(()) | Err(_) => {}
    }
    let file = File::options().create_new(true).write(true).mode(0o600).open(&partial).map_err(place)?;
    let written = archive(file, database, workspaces, now).and_then(|summary| {
        fs::rename(&partial, to)?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
        Ok(summary)
    });
    if written.is_err() {
        // What is left of it would only take room; why it failed is told.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn archive(
    file: File,
    database: &Exporter,
    workspaces: &Workspaces,
    now: Timestamp,
) -> Result<Summary, BackupError> {
    let mut encoder = Encoder::new(BufWriter::new(file), LEVEL)?;
    encoder.include_checksum(true)?;
    let mut archive =
        Archive { tar: Builder::new(encoder), sum: Sum::default(), summary: Summary::default() };
    let head = json!({ "form": FORM, "program": env!("CARGO_PKG_VERSION"), "createdAt": now.to_string() });
    archive.text(Path::new(HEAD), head.to_string().as_bytes(), now)?;
    database.run::<BackupError>(&mut |name, chunk| {
        let path = PathBuf::from(format!("{DATABASE}/{:06}-{name}", archive.summary.chunks));
        archive.summary.chunks += 1;
        Ok(archive.text(&path, chunk, now)?)
    })?;
    workspaces.everything(&mut |kept| archive.keep(kept))?;
    let seal = Seal { sha256: archive.sum.hex(), summary: archive.summary };
    let text = serde_json::to_vec(&seal).map_err(io::Error::other)?;
    append(&mut archive.tar, Path::new(SEAL), &text, now)?;
    let file = archive.tar.into_inner()?.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(archive.summary)
}

type Tar = Builder<Encoder<'static, BufWriter<File>>>;

struct Archive {
    tar: Tar,
    sum: Sum,
    summary: Summary,
}

impl Archive {
    fn text(&mut self, path: &Path, text: &[u8], now: Timestamp) -> io::Result<()> {
        self.sum.entry(path, None, text.len() as u64);
        self.sum.content(text);
        append(&mut self.tar, path, text, now)
    }

    fn keep(&mut self, kept: Kept) -> io::Result<()> {
        let path = Path::new(WORKSPACES).join(&kept.path);
        let mut header = Header::new_gnu();
        header.set_mtime(kept.modified);
        header.set_mode(kept.mode);
        self.summary.files += 1;
        match kept.content {
            Content::File(file, length) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(length);
                self.sum.entry(&path, None, length);
                let mut exact = Exact { from: file, left: length, sum: &mut self.sum, shrank: false };
                self.tar.append_data(&mut header, &path, &mut exact)?;
                self.summary.changed += u64::from(exact.shrank);
                self.summary.bytes += length;
            }
            Content::Folder => {
                header.set_entry_type(EntryType::Directory);
                header.set_size(0);
                // Whoever restores it has to put files in.
                header.set_mode(kept.mode | 0o700);
                self.sum.entry(&path, None, 0);
                self.tar.append_data(&mut header, &path, io::empty())?;
            }
            Content::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                self.sum.entry(&path, Some(&target), 0);
                self.tar.append_link(&mut header, &path, &target)?;
            }
            Content::Other => {
                self.summary.files -= 1;
                self.summary.left_out += 1;
            }
        }
        Ok(())
    }
}

fn append(tar: &mut Tar, path: &Path, text: &[u8], now: Timestamp) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(text.len() as u64);
    header.set_mode(0o600);
    header.set_mtime(u64::try_from(now.micros() / 1_000_000).unwrap_or(0));
    tar.append_data(&mut header, path, text)
}

/// As many bytes as were announced, whatever becomes of the file meanwhile.
struct Exact<'a> {
    from: File,
    left: u64,
    sum: &'a mut Sum,
    shrank: bool,
}

impl Read for Exact<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = &mut buffer[..wanted];
        let mut read = self.from.read(buffer)?;
        if read == 0 && wanted > 0 {
            self.shrank = true;
            buffer.fill(0);
            read = wanted;
        }
        self.sum.content(&buffer[..read]);
        self.left -= read as u64;
        Ok(read)
    }
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
