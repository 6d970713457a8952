//! The output file of a backup. It gets its name when it is complete, so that it never replaces a file and concurrent
//! backups do not interfere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::BackupError;
use crate::privileges::as_caller;

/// Only the owner may read the backup.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A backup in progress. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct BackupOutput {
    file: File,
    folder: OwnedFd,
    to: PathBuf,
    /// The temporary name, on file systems without unnamed files.
    partial: Option<OsString>,
}

impl BackupOutput {
    /// Creates a file to be placed at `to`, which must not exist.
    pub(super) fn create_at(to: &Path) -> Result<Self, BackupError> {
        if as_caller(|| to.symlink_metadata())?.is_ok() {
            return Err(BackupError::Taken(to.to_owned()));
        }
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = as_caller(|| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = fs::openat(CWD, parent, flags, Mode::empty())?;
            let (file, partial) = create_temporary(&folder, target_name(to)?)?;
            Ok::<_, Errno>(Self { file: File::from(file), folder, to: to.to_owned(), partial })
        })?;
        made.map_err(|error| BackupError::Place { path: to.to_owned(), error: error.into() })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, unless another file has it now.
    pub(super) fn place_file(mut self) -> Result<(), BackupError> {
        let placed = as_caller(|| {
            match &self.partial {
                None => link_file(&self.file, &self.folder, target_name(&self.to)?)?,
                Some(partial) => rename_partial(&self.folder, partial, target_name(&self.to)?)?,
            }
            self.partial = None;
            fs::fsync(&self.folder)
        })?;
        placed.map_err(|error| match error {
            Errno::EXIST => BackupError::Taken(self.to.clone()),
            other => BackupError::Place { path: self.to.clone(), error: other.into() },
        })
    }
}

impl Drop for BackupOutput {
    fn drop(&mut self) {
        if let Some(partial) = self.partial.take() {
            let _ = as_caller(|| fs::unlinkat(&self.folder, partial, AtFlags::empty()));
        }
    }
}

fn target_name(to: &Path) -> Result<&OsStr, Errno> {
    to.file_name().ok_or(Errno::ISDIR)
}

fn create_temporary(folder: &OwnedFd, name: &OsStr) -> Result<(OwnedFd, Option<OsString>), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match fs::openat(folder, c".", flags | OFlags::TMPFILE, MODE) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => create_named(folder, name),
        done => Ok((done?, None)),
    }
}

/// Creates a temporary file on file systems without unnamed files.
fn create_named(folder: &OwnedFd, name: &OsStr) -> Result<(OwnedFd, Option<OsString>), Errno> {
    let mut bits = [0; 8];
    getrandom::fill(&mut bits).map_err(|_| Errno::IO)?;
    let mut partial = OsString::from(format!(".{:016x}.", u64::from_be_bytes(bits)));
    partial.push(name);
    partial.push(".partial");
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    Ok((fs::openat(folder, &partial, flags, MODE)?, Some(partial)))
}

fn link_file(file: &File, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::linkat(CWD, opened, folder, name, AtFlags::SYMLINK_FOLLOW)
}

fn rename_partial(folder: &OwnedFd, partial: &OsStr, name: &OsStr) -> Result<(), Errno> {
    match fs::renameat_with(folder, partial, folder, name, RenameFlags::NOREPLACE) {
        // The file system does not support this rename; a hard link does not replace a file either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            fs::linkat(folder, partial, folder, name, AtFlags::empty())?;
            fs::unlinkat(folder, partial, AtFlags::empty())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn backup_works_without_unnamed_files() {
        let root = tempfile::tempdir().expect("a folder");
        let begun = |name: &str| {
            let to = root.path().join(name);
            let folder = File::open(root.path()).expect("a folder").into();
            let (file, partial) = create_named(&folder, OsStr::new(name)).expect("a file");
            let mut file = File::from(file);
            file.write_all(b"content").expect("written");
            BackupOutput { file, folder, to, partial }
        };
        let names = || {
            let entries = std::fs::read_dir(root.path()).expect("a folder");
            entries.map(|entry| entry.expect("an entry").file_name()).collect::<Vec<_>>()
        };
        let (first, second, dropped) = (begun("backup"), begun("backup"), begun("backup"));
        assert_eq!(names().len(), 3);
        first.place_file().expect("placed");
        assert!(matches!(second.place_file(), Err(BackupError::Taken(_))), "it replaces nothing");
        drop(dropped);
        assert_eq!(names(), ["backup"]);
    }
}
