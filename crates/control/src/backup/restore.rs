//! Restores an archive. Reads it twice: first to verify it completely, then to extract it.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use engine::ServiceEnvironment;
use serde::Deserialize;
use store::{DatabaseUrl, Importer, StoreError};
use tar::{Archive, Entry, EntryType};
use zstd::Decoder;

use super::checksum::{Checksum, Sum};
use super::exclusions::{ExclusionList, Exclusions};
use super::extract::{ExtractReport, Extractor, path_parts};
use super::{BackupError, DATABASE, FORM, HEAD, SEAL, Summary, WORKSPACES};
use crate::data_folder::{self, StartError};
use crate::privileges::as_caller;

/// The largest chunk of a database: a row with two texts of maximum size.
const CHUNK_MAX_BYTES: u64 = 1 << 30;
/// The largest size of the head and of the seal.
const TEXT_MAX_BYTES: u64 = 64 * 1024;
/// The size of the read buffer.
const BUFFER_BYTES: usize = 64 * 1024;
/// The mode of the folder of all workspaces: only the service's user has access.
const WORKSPACES_MODE: u32 = 0o700;
/// Entries that an empty folder may contain: file systems create the first, and `useradd --create-home` the others.
const IGNORED: [&str; 4] = ["lost+found", ".bash_logout", ".bashrc", ".profile"];
/// The name of the staging folder: inside an existing data folder, or appended to the name of a new one.
const STAGING: &str = ".restoring";

type Reader<'a> = Decoder<'static, BufReader<BufReader<&'a File>>>;

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreReport {
    /// The contents of the backup.
    #[serde(flatten)]
    pub summary: Summary,
    /// The number of answers in progress that were ended.
    pub interrupted_answers: u64,
    /// The number of files, folders and links that could not be restored.
    pub skipped: u64,
    /// The skipped files; if there are many, some of each account.
    pub skipped_files: Vec<Exclusions>,
}

/// The fate of the answers that were in progress at the time of the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenAnswers {
    /// They end with an error, and their reserved credits are released: what they did after the backup is not repeated.
    End,
    /// The service continues them from their last stored step.
    Continue,
}

/// The data of an archive in its staging folder.
struct StagedRestore {
    folder: PathBuf,
    /// The data folder exists.
    exists: bool,
    summary: Summary,
    skipped: ExclusionList,
}

/// Restores `from` into the data folder `data`, which must be missing or empty, and into `database`, which must have
/// no tables; by default the data folder's own. Restores everything or nothing, except for files that cannot be
/// created here, such as names that the file system rejects. The database has the newest schema then, unless open answers
/// continue.
///
/// # Errors
/// [`BackupError`].
pub async fn restore_backup(
    from: &Path,
    data: &Path,
    database: Option<&DatabaseUrl>,
    answers: OpenAnswers,
    environment: &ServiceEnvironment,
) -> Result<RestoreReport, BackupError> {
    let (from, to, url) = (from.to_owned(), data.to_owned(), database.cloned());
    let staged = off_thread(move || stage_archive(&from, &to, url.as_ref())).await?;
    let ended = match answers {
        OpenAnswers::End => end_open_answers(&staged.folder, database, environment).await,
        OpenAnswers::Continue => Ok(0),
    };
    let StagedRestore { folder, exists, summary, skipped } = staged;
    let to = data.to_owned();
    off_thread(move || {
        let interrupted_answers = match ended {
            Ok(ended) => ended,
            Err(error) => {
                // The incomplete data is useless; the error is returned.
                let _ = workspace::remove_folder(&folder);
                return Err(error);
            }
        };
        // The data is complete from here on: an error names the folder that contains it.
        move_into_place(&folder, &to, exists).map_err(|error| BackupError::Place { path: folder, error })?;
        Ok(RestoreReport {
            summary,
            interrupted_answers,
            skipped: skipped.count,
            skipped_files: skipped.named,
        })
    })
    .await
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(BackupError::Store(StoreError::Panicked)))
}

/// Ends the answers in progress of the restored database.
async fn end_open_answers(
    folder: &Path,
    database: Option<&DatabaseUrl>,
    environment: &ServiceEnvironment,
) -> Result<u64, BackupError> {
    let store = match data_folder::open_store(folder, database, Duration::ZERO).await {
        Ok(store) => store,
        Err(StartError::Store(error)) => return Err(error.into()),
        Err(error) => return Err(BackupError::Io(io::Error::other(error))),
    };
    let ended = engine::end_open_answers(&store, environment).await;
    store.close().await;
    Ok(ended?)
}

/// Verifies the archive and extracts it to the staging folder, and its database to `database`. Blocks.
fn stage_archive(
    from: &Path,
    data: &Path,
    database: Option<&DatabaseUrl>,
) -> Result<StagedRestore, BackupError> {
    let place = |path: &Path, error| BackupError::Place { path: path.to_owned(), error };
    let file = as_caller(|| File::open(from))?.map_err(|error| place(from, error))?;
    let exists = match is_empty(data) {
        Ok(true) => true,
        Ok(false) => {
            let used = || BackupError::NotEmpty(data.to_owned());
            return Err(interrupted_restore(data).map_or_else(used, BackupError::Interrupted));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(place(data, error)),
    };
    let summary = verify_archive(&file)?;
    let folder = staging_folder(data, exists)?;
    match DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        // It belongs to another restore or an interrupted one, and is not touched.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BackupError::Interrupted(folder));
        }
        Err(error) => return Err(place(&folder, error)),
    }
    let filled = unpack_archive(&file, &folder, database).and_then(|(importer, skipped)| {
        importer.finish_import()?;
        Ok(skipped)
    });
    match filled {
        Ok(skipped) => Ok(StagedRestore { folder, exists, summary, skipped }),
        Err(error) => {
            // The incomplete data is useless; the error is returned.
            let _ = workspace::remove_folder(&folder);
            Err(error)
        }
    }
}

/// Returns the folder that an interrupted restore into the data folder left. One beside it counts until there is a database.
#[must_use]
pub fn interrupted_restore(data: &Path) -> Option<PathBuf> {
    let inside = data.join(STAGING);
    if inside.exists() {
        return Some(inside);
    }
    let beside = staging_beside(&std::path::absolute(data).ok()?)?;
    (!data.join(data_folder::DATABASE).exists() && beside.exists()).then_some(beside)
}

/// Returns the staging folder beside a data folder.
fn staging_beside(absolute: &Path) -> Option<PathBuf> {
    let (folder, name) = absolute.parent().zip(absolute.file_name())?;
    let mut staging = name.to_owned();
    staging.push(STAGING);
    Some(folder.join(staging))
}

fn is_empty(data: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(data)? {
        let name = entry?.file_name();
        if IGNORED.iter().all(|ignored| name != *ignored) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the staging folder: in the data folder if that exists, because it may be a separate file system in a
/// parent of another user; otherwise beside it, so that one rename creates it.
fn staging_folder(data: &Path, exists: bool) -> Result<PathBuf, BackupError> {
    if exists {
        return Ok(data.join(STAGING));
    }
    let place = |path: &Path, error| BackupError::Place { path: path.to_owned(), error };
    let absolute = std::path::absolute(data).map_err(|error| place(data, error))?;
    let missing = || place(data, io::ErrorKind::InvalidInput.into());
    let folder = absolute.parent().ok_or_else(missing)?;
    fs::create_dir_all(folder).map_err(|error| place(folder, error))?;
    staging_beside(&absolute).ok_or_else(missing)
}

/// Moves the restored data to its destination. In an existing data folder the database comes last.
fn move_into_place(staging: &Path, data: &Path, exists: bool) -> io::Result<()> {
    rustix::fs::syncfs(File::open(staging)?)?;
    if !exists {
        fs::rename(staging, data)?;
        return match std::path::absolute(data)?.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        };
    }
    let mut names =
        fs::read_dir(staging)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_by_key(|name| name == OsStr::new(data_folder::DATABASE));
    for name in names {
        fs::rename(staging.join(&name), data.join(&name))?;
    }
    fs::remove_dir(staging)?;
    File::open(data)?.sync_all()
}

fn open_archive(mut file: &File) -> Result<Archive<Reader<'_>>, BackupError> {
    file.seek(SeekFrom::Start(0))?;
    Ok(Archive::new(Decoder::new(BufReader::new(file))?))
}

/// Reads the complete archive, checks that [`unpack_archive`] accepts each entry, and compares the checksum.
pub(super) fn verify_archive(file: &File) -> Result<Summary, BackupError> {
    let damaged = |error: io::Error| BackupError::Damaged(error.to_string());
    let mut archive = open_archive(file)?;
    let (mut sum, mut buffer, mut first) = (Sum::default(), vec![0; BUFFER_BYTES], true);
    let mut found = None;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        if path == Path::new(SEAL) {
            let seal = serde_json::from_slice::<Checksum>(&read_whole_entry(&mut entry, TEXT_MAX_BYTES)?);
            found = Some(seal.map_err(|error| BackupError::Damaged(error.to_string()))?);
            break;
        }
        check_entry_kind(&path, &entry)?;
        let link = entry.link_name().map_err(damaged)?.map(|link| link.into_owned());
        sum.add_entry(&path, link.as_deref(), entry.size());
        if std::mem::take(&mut first) {
            let text = read_whole_entry(&mut entry, TEXT_MAX_BYTES)?;
            sum.add_content(&text);
            check_head(&path, &text)?;
        }
        loop {
            let read = entry.read(&mut buffer).map_err(damaged)?;
            if read == 0 {
                break;
            }
            sum.add_content(&buffer[..read]);
        }
    }
    // The end of the frame contains its own checksum.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(damaged)?;
    let seal = found.ok_or_else(|| BackupError::Damaged("it is truncated".to_owned()))?;
    if seal.sha256 != sum.into_hex() {
        return Err(BackupError::Damaged("checksum mismatch".to_owned()));
    }
    Ok(seal.summary)
}

/// Checks that an entry beneath the workspaces is a file, folder or link in one of them.
fn check_entry_kind(path: &Path, entry: &Entry<'_, Reader<'_>>) -> Result<(), BackupError> {
    if !path.starts_with(WORKSPACES) {
        return Ok(());
    }
    use EntryType::{Directory, Link, Regular, Symlink};
    match entry.header().entry_type() {
        Regular | Directory | Symlink | Link if path_parts(path).is_some() => Ok(()),
        _ => Err(BackupError::Damaged(format!("{} is not a file of a workspace", path.display()))),
    }
}

fn check_head(path: &Path, text: &[u8]) -> Result<(), BackupError> {
    #[derive(Deserialize)]
    struct ArchiveHead {
        form: u32,
    }
    let head: Option<ArchiveHead> =
        (path == Path::new(HEAD)).then(|| serde_json::from_slice(text).ok()).flatten();
    match head {
        Some(ArchiveHead { form: 1..=FORM }) => Ok(()),
        Some(ArchiveHead { form }) if form > FORM => Err(BackupError::TooNew(form)),
        _ => Err(BackupError::Damaged("it is not a Causerie backup".to_owned())),
    }
}

fn read_whole_entry(entry: &mut Entry<'_, Reader<'_>>, most: u64) -> Result<Vec<u8>, BackupError> {
    if entry.size() > most {
        return Err(BackupError::Damaged("an entry is too large".to_owned()));
    }
    let mut text = Vec::new();
    entry.read_to_end(&mut text).map_err(|error| BackupError::Damaged(error.to_string()))?;
    Ok(text)
}

fn unpack_archive(
    file: &File,
    staging: &Path,
    database: Option<&DatabaseUrl>,
) -> Result<(Importer, ExclusionList), BackupError> {
    let workspaces = staging.join(WORKSPACES);
    DirBuilder::new().mode(WORKSPACES_MODE).create(&workspaces)?;
    let mut importer = match database {
        Some(url) => Importer::for_database(url)?,
        None => Importer::for_file(&staging.join(data_folder::DATABASE))?,
    };
    let (mut extractor, mut skipped) = (Extractor::new(&workspaces)?, ExclusionList::default());
    let mut archive = open_archive(file)?;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        match path.components().next() {
            Some(Component::Normal(first)) if first == DATABASE => {
                importer.import_chunk(&read_whole_entry(&mut entry, CHUNK_MAX_BYTES)?)?;
            }
            Some(Component::Normal(first)) if first == WORKSPACES => {
                check_entry_kind(&path, &entry)?;
                if let ExtractReport::Skipped(reason) = extractor.restore_entry(&path, &mut entry)? {
                    skipped.add_path(path.strip_prefix(WORKSPACES).unwrap_or(&path), reason);
                }
            }
            _ => {}
        }
    }
    extractor.finish_restore()?;
    Ok((importer, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::AccountId;
    use domain::time::Timestamp;
    use tar::Header;
    use zstd::Encoder;

    const LEVEL: i32 = 3;

    /// Rewrites an archive in version 1 of the format.
    fn as_first_form(archive: &Path, to: &Path) {
        let file = File::open(archive).expect("a backup");
        let mut archive = open_archive(&file).expect("an archive");
        let mut tar =
            tar::Builder::new(Encoder::new(File::create(to).expect("a file"), LEVEL).expect("zstd"));
        let mut sum = Sum::default();
        let mut add = |header: &mut Header, path: &Path, text: &[u8]| {
            header.set_size(text.len() as u64);
            tar.append_data(header, path, text).expect("written");
        };
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").into_owned();
            let (mut header, mut text) = (entry.header().clone(), Vec::new());
            entry.read_to_end(&mut text).expect("read");
            if path == Path::new(SEAL) {
                break;
            }
            if path == Path::new(HEAD) {
                text = br#"{"form":1}"#.to_vec();
            }
            sum.add_entry(&path, None, text.len() as u64);
            sum.add_content(&text);
            add(&mut header, &path, &text);
        }
        let seal = Checksum { sha256: sum.into_hex(), summary: Summary::default() };
        add(&mut Header::new_gnu(), Path::new(SEAL), &serde_json::to_vec(&seal).expect("JSON"));
        tar.into_inner().expect("ended").finish().expect("ended");
    }

    #[tokio::test]
    async fn first_archive_form_is_restored() {
        let root = tempfile::tempdir().expect("a folder");
        let data = root.path().join("data");
        fs::create_dir(&data).expect("a folder");
        let store = data_folder::open_store(&data, None, Duration::ZERO).await.expect("a database");
        let workspaces = data_folder::open_workspaces(&data, workspace::Quota::default()).expect("a folder");
        let home =
            workspaces.provision(AccountId::from_random(1), None).await.expect("a workspace").host_dir();
        fs::write(home.join("file"), "content").expect("written");
        let (second, first) = (root.path().join("second"), root.path().join("first"));
        super::super::write_backup(&store.exporter(), &workspaces, &second, Timestamp::from_micros(0))
            .expect("written");
        as_first_form(&second, &first);
        let target = root.path().join("restored");
        let restored =
            restore_backup(&first, &target, None, OpenAnswers::End, &ServiceEnvironment::system()).await;
        let restored = restored.expect("restored");
        assert_eq!(restored.skipped, 0);
        let home = target.join(WORKSPACES).join(home.file_name().expect("a name"));
        assert_eq!(fs::read(home.join("file")).expect("a file"), b"content");
    }
}
