//! Writes archives.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use domain::time::Timestamp;
use serde_json::json;
use store::DatabaseExporter;
use tar::{EntryType, Header};
use workspace::{BackupContent, WorkspaceEntry, WorkspaceFile, Workspaces};
use zstd::Encoder;

use super::checksum::{Checksum, Sum};
use super::exclusions::{ExclusionList, Exclusions};
use super::output::BackupOutput;
use super::restore::verify_archive;
use super::{BackupError, DATABASE, FORM, HEAD, SEAL, Summary, WORKSPACES, entry};

/// The compression level. Disks are not faster than this one.
const LEVEL: i32 = 3;

/// The size of the read buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// The maximum number of bytes of paths that are remembered for the hard-linked files of an account. Further
/// hard-linked files are omitted, because each would be stored as a copy.
const SHARED_PATHS_MAX_BYTES: usize = 64 << 20;

/// The result of a backup.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupReport {
    /// The contents of the backup.
    #[serde(flatten)]
    pub summary: Summary,
    /// The omitted files; if there are many, some of each account.
    pub left_out_files: Vec<Exclusions>,
}

/// Writes the database and files to `to`, which must not exist. Verifies the archive by reading it back; leaves no
/// file on failure. Blocks.
///
/// # Errors
/// [`BackupError`].
pub fn write_backup(
    database: &DatabaseExporter,
    workspaces: &Workspaces,
    to: &Path,
    now: Timestamp,
) -> Result<BackupReport, BackupError> {
    let output = BackupOutput::create_at(to)?;
    let written = write_archive(output.file().try_clone()?, database, workspaces, now)?;
    let read = verify_archive(output.file())?;
    if read != written.summary {
        return Err(BackupError::Damaged("its contents differ from what was written".to_owned()));
    }
    output.place_file()?;
    Ok(written)
}

fn write_archive(
    file: File,
    database: &DatabaseExporter,
    workspaces: &Workspaces,
    now: Timestamp,
) -> Result<BackupReport, BackupError> {
    let mut encoder = Encoder::new(BufWriter::new(file), LEVEL)?;
    encoder.include_checksum(true)?;
    let mut archive = ArchiveWriter {
        out: encoder,
        sum: Sum::default(),
        summary: Summary::default(),
        left_out: ExclusionList::default(),
        shared: HardLinks::default(),
        buffer: vec![0; BUFFER_BYTES],
    };
    let head = json!({ "form": FORM, "program": env!("CARGO_PKG_VERSION"), "createdAt": now.to_string() });
    archive.append_text(Path::new(HEAD), head.to_string().as_bytes(), now)?;
    database.export_snapshot::<BackupError>(&mut |name, chunk| {
        let path = PathBuf::from(format!("{DATABASE}/{:06}-{name}", archive.summary.chunks));
        archive.summary.chunks += 1;
        Ok(archive.append_text(&path, chunk, now)?)
    })?;
    workspaces.walk_all(&mut |entry| archive.keep_entry(entry))?;
    let ArchiveWriter { mut out, sum, summary, left_out, .. } = archive;
    let text = serde_json::to_vec(&Checksum { sha256: sum.into_hex(), summary }).map_err(io::Error::other)?;
    append_file(&mut out, Path::new(SEAL), &text, now)?;
    entry::end_archive(&mut out)?;
    let file = out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(BackupReport { summary, left_out_files: left_out.named })
}

type Out = Encoder<'static, BufWriter<File>>;

struct ArchiveWriter {
    out: Out,
    sum: Sum,
    summary: Summary,
    left_out: ExclusionList,
    shared: HardLinks,
    buffer: Vec<u8>,
}

impl ArchiveWriter {
    fn append_text(&mut self, path: &Path, text: &[u8], now: Timestamp) -> io::Result<()> {
        self.sum.add_entry(path, None, text.len() as u64);
        self.sum.add_content(text);
        append_file(&mut self.out, path, text, now)
    }

    fn keep_entry(&mut self, entry: WorkspaceEntry) -> io::Result<()> {
        let path = Path::new(WORKSPACES).join(&entry.path);
        let mut header = Header::new_gnu();
        header.set_mtime(entry.modified);
        header.set_mode(entry.mode);
        header.set_size(0);
        match entry.content {
            BackupContent::File(file) => return self.keep_file(&mut header, entry.path, file),
            BackupContent::Folder => {
                header.set_entry_type(EntryType::Directory);
                // The restore must be able to create files in the folder.
                header.set_mode(entry.mode | 0o700);
                self.begin_entry(&mut header, &path, None)?;
            }
            BackupContent::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                self.begin_entry(&mut header, &path, Some(&target))?;
            }
            BackupContent::LeftOut(reason) => {
                self.leave_out(&entry.path, reason);
                return Ok(());
            }
        }
        self.summary.files += 1;
        Ok(())
    }

    fn keep_file(&mut self, header: &mut Header, path: PathBuf, file: WorkspaceFile) -> io::Result<()> {
        let own = Path::new(WORKSPACES).join(&path);
        let shared = file.shared.map_or(Sharing::First, |id| self.shared.first_path(&path, id));
        match shared {
            Sharing::With(first) => {
                header.set_entry_type(EntryType::Link);
                self.begin_entry(header, &own, Some(&Path::new(WORKSPACES).join(first)))?;
            }
            Sharing::Unknown => {
                self.leave_out(&path, "too many files of the account have several names");
                return Ok(());
            }
            Sharing::First => self.append_content(header, &path, &own, &file)?,
        }
        self.summary.files += 1;
        Ok(())
    }

    fn append_content(
        &mut self,
        header: &mut Header,
        path: &Path,
        own: &Path,
        source: &WorkspaceFile,
    ) -> io::Result<()> {
        let bytes: u64 = source.pieces.iter().map(|piece| piece.end - piece.start).sum();
        let map =
            if bytes == source.size { Vec::new() } else { entry::sparse_map(&source.pieces, source.size) };
        if !map.is_empty() {
            entry::announce_holes(&mut self.out, own, source.size)?;
            // Other programs accept this form only with POSIX headers.
            let mut posix = Header::new_ustar();
            posix.set_mode(header.mode()?);
            posix.set_mtime(header.mtime()?);
            *header = posix;
        }
        header.set_entry_type(EntryType::Regular);
        header.set_size(map.len() as u64 + bytes);
        self.begin_entry(header, own, None)?;
        self.sum.add_content(&map);
        self.out.write_all(&map)?;
        let mut unread = None;
        let mut shrank = false;
        for piece in &source.pieces {
            let mut at = piece.start;
            while at < piece.end {
                let wanted = usize::try_from(piece.end - at).unwrap_or(usize::MAX).min(self.buffer.len());
                let buffer = &mut self.buffer[..wanted];
                // Writes exactly the announced number of bytes, even if the file changes in the meantime.
                let read = match source.file.read_at(buffer, at) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Ok(0) => {
                        shrank = true;
                        0
                    }
                    Err(error) => {
                        unread.get_or_insert(error);
                        0
                    }
                    Ok(read) => read,
                };
                let taken = if read == 0 { wanted } else { read };
                buffer[read..taken].fill(0);
                self.sum.add_content(&buffer[..taken]);
                self.out.write_all(&buffer[..taken])?;
                at += taken as u64;
            }
        }
        entry::end_entry(&mut self.out, map.len() as u64 + bytes)?;
        self.summary.changed += u64::from(shrank);
        self.summary.bytes += bytes;
        if let Some(error) = unread {
            self.leave_out(path, format!("a part of it cannot be read: {error}"));
        }
        Ok(())
    }

    fn begin_entry(&mut self, header: &mut Header, path: &Path, link: Option<&Path>) -> io::Result<()> {
        self.sum.add_entry(path, link, header.size()?);
        entry::begin_entry(&mut self.out, header, path, link)
    }

    fn leave_out(&mut self, path: &Path, reason: impl Into<String>) {
        self.left_out.add_path(path, reason);
        self.summary.left_out = self.left_out.count;
    }
}

/// The hard-linked files of the current account, by device and inode; the first path counts.
#[derive(Default)]
struct HardLinks {
    account: OsString,
    paths: HashMap<(u64, u64), PathBuf>,
    bytes: usize,
}

enum Sharing {
    First,
    With(PathBuf),
    Unknown,
}

impl HardLinks {
    fn first_path(&mut self, path: &Path, id: (u64, u64)) -> Sharing {
        let account = path.components().next().map(Component::as_os_str).unwrap_or_default();
        if account != self.account {
            *self = Self { account: account.to_owned(), ..Self::default() };
        }
        if let Some(first) = self.paths.get(&id) {
            return Sharing::With(first.clone());
        }
        self.bytes += path.as_os_str().len();
        if self.bytes > SHARED_PATHS_MAX_BYTES {
            return Sharing::Unknown;
        }
        self.paths.insert(id, path.to_owned());
        Sharing::First
    }
}

fn append_file(out: &mut Out, path: &Path, text: &[u8], now: Timestamp) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(text.len() as u64);
    header.set_mode(0o600);
    header.set_mtime(u64::try_from(now.micros() / 1_000_000).unwrap_or(0));
    entry::begin_entry(out, &mut header, path, None)?;
    out.write_all(text)?;
    entry::end_entry(out, text.len() as u64)
}
