//! Restoring an archive: it is read twice, first to see that it is whole.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path};

use serde::Deserialize;
use store::{DatabaseUrl, Importer};
use tar::{Archive, Entry, EntryType};
use zstd::Decoder;

use super::seal::{Seal, Sum};
use super::write::beside;
use super::{BackupError, DATABASE, FORM, HEAD, SEAL, Summary, WORKSPACES};

/// The largest chunk of a database: one row of two of the largest texts.
const CHUNK_MAX_BYTES: u64 = 1 << 30;
/// The largest head and seal.
const TEXT_MAX_BYTES: u64 = 64 * 1024;
/// What is read at once.
const BUFFER_BYTES: usize = 64 * 1024;
/// The folder of all workspaces can be walked through and not read.
const WORKSPACES_MODE: u32 = 0o711;

type Reader = Decoder<'static, BufReader<BufReader<File>>>;

/// Restores `from` into the data folder `data`, which must be missing or empty, and into `database`, which must be
/// without tables; without one, into the data folder's own. All is there in the end, or nothing. Blocks.
///
/// # Errors
/// [`BackupError`].
pub fn restore(from: &Path, data: &Path, database: Option<&DatabaseUrl>) -> Result<Summary, BackupError> {
    let place = |path: &Path, error| BackupError::Place { path: path.to_owned(), error };
    match fs::read_dir(data).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => return Err(BackupError::NotEmpty(data.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(place(data, error)),
    }
    let summary = verify(from)?;
    let name = data.file_name().ok_or_else(|| BackupError::NotEmpty(data.to_owned()))?;
    let staging = beside(&data.with_file_name(name), ".restoring");
    let folder = data.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| place(folder, error))?;
    // One that is there is another restore's, or what a cut one left: it is told of and not touched.
    let made = DirBuilder::new().mode(0o700).create(&staging);
    made.map_err(|error| place(&staging, error))?;
    let filled = unpack(from, &staging, database).and_then(|importer| Ok(importer.finish()?));
    if let Err(error) = filled {
        // What is left of it is of no use; why it failed is told.
        let _ = fs::remove_dir_all(&staging);
        return Err(error);
    }
    // From here on all is there: what fails names the folder in which it is.
    let settle = || {
        rustix::fs::syncfs(File::open(&staging)?)?;
        fs::rename(&staging, data)?;
        File::open(folder)?.sync_all()
    };
    settle().map_err(|error| place(&staging, error))?;
    Ok(summary)
}

fn open(from: &Path) -> Result<Archive<Reader>, BackupError> {
    let file = File::open(from).map_err(|error| BackupError::Place { path: from.to_owned(), error })?;
    Ok(Archive::new(Decoder::new(BufReader::new(file))?))
}

/// Reads it all and compares it with its seal.
fn verify(from: &Path) -> Result<Summary, BackupError> {
    let damaged = |error: io::Error| BackupError::Damaged(error.to_string());
    let mut archive = open(from)?;
    let (mut sum, mut buffer, mut first) = (Sum::default(), vec![0; BUFFER_BYTES], true);
    let mut found = None;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.into_owned();
        if path == Path::new(SEAL) {
            let seal = serde_json::from_slice::<Seal>(&whole(&mut entry, TEXT_MAX_BYTES)?);
            found = Some(seal.map_err(|error| BackupError::Damaged(error.to_string()))?);
            break;
        }
        let link = entry.link_name().map_err(damaged)?.map(|link| link.into_owned());
        sum.entry(&path, link.as_deref(), entry.size());
        if std::mem::take(&mut first) {
            let text = whole(&mut entry, TEXT_MAX_BYTES)?;
            sum.content(&text);
            check_head(&path, &text)?;
        }
        loop {
            let read = entry.read(&mut buffer).map_err(damaged)?;
            if read == 0 {
                break;
            }
            sum.content(&buffer[..read]);
        }
    }
    // The end of the frame holds a sum of its own.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(damaged)?;
    let seal = found.ok_or_else(|| BackupError::Damaged("it ends too early".to_owned()))?;
    if seal.sha256 != sum.hex() {
        return Err(BackupError::Damaged("its sum is another one".to_owned()));
    }
    Ok(seal.summary)
}

fn check_head(path: &Path, text: &[u8]) -> Result<(), BackupError> {
    #[derive(Deserialize)]
    struct Head {
        form: u32,
    }
    let head: Option<Head> = (path == Path::new(HEAD)).then(|| serde_json::from_slice(text).ok()).flatten();
    match head {
        Some(Head { form: FORM }) => Ok(()),
        Some(Head { form }) if form > FORM => Err(BackupError::TooNew(form)),
        _ => Err(BackupError::Damaged("it is no backup of this program".to_owned())),
    }
}

fn whole(entry: &mut Entry<'_, Reader>, most: u64) -> Result<Vec<u8>, BackupError> {
    if entry.size() > most {
        return Err(BackupError::Damaged("an entry is too large".to_owned()));
    }
    let mut text = Vec::new();
    entry.read_to_end(&mut text).map_err(|error| BackupError::Damaged(error.to_string()))?;
    Ok(text)
}

fn unpack(from: &Path, staging: &Path, database: Option<&DatabaseUrl>) -> Result<Importer, BackupError> {
    DirBuilder::new().mode(WORKSPACES_MODE).create(staging.join(WORKSPACES))?;
    let mut importer = match database {
        Some(url) => Importer::database(url)?,
        None => Importer::file(&staging.join(crate::service::DATABASE))?,
    };
    let mut archive = open(from)?;
    archive.set_overwrite(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let mut parts = path.components();
        match parts.next() {
            Some(Component::Normal(first)) if first == DATABASE => {
                importer.take(&whole(&mut entry, CHUNK_MAX_BYTES)?)?;
            }
            Some(Component::Normal(first)) if first == WORKSPACES => {
                let plain = parts.all(|part| matches!(part, Component::Normal(_)));
                let kind = entry.header().entry_type();
                if !plain || !matches!(kind, EntryType::Regular | EntryType::Directory | EntryType::Symlink) {
                    return Err(BackupError::Damaged(format!(
                        "{} is no file of a workspace",
                        path.display()
                    )));
                }
                // It leads nowhere but into the folder, and follows no link that came before.
                if !entry.unpack_in(staging)? {
                    return Err(BackupError::Damaged(format!("{} leads out", path.display())));
                }
            }
            _ => {}
        }
    }
    Ok(importer)
}
