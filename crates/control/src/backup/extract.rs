//! Restores the files of an archive into a folder. Works with descriptors, one folder at a time, so that paths may
//! have any length and no restored link is followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::iter;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use tar::{Entry, EntryType};

use super::entry::{has_holes, read_map};

/// The size of the read buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// Flags for opening a folder for lookups.
const FOLDER_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Flags for creating a file.
const FILE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The outcome of restoring an entry.
#[derive(Debug)]
pub(super) enum ExtractReport {
    /// The entry was restored.
    Done,
    /// The entry could not be restored, for this reason; others can.
    Skipped(String),
}

/// Restores entries into a folder.
#[derive(Debug)]
pub(super) struct Extractor {
    /// The folder of the last entry.
    at: OwnedFd,
    /// The components of that folder's path, with modification times where known.
    path: Vec<(OsString, Option<u64>)>,
    buffer: Vec<u8>,
}

/// Returns the components of a path without the folder of all workspaces; `None` if the path could lead elsewhere.
pub(super) fn path_parts(path: &Path) -> Option<Vec<&OsStr>> {
    let parts = path.as_os_str().as_bytes().split(|byte| *byte == b'/').skip(1);
    parts.map(|part| (!matches!(part, b"" | b"." | b"..")).then(|| OsStr::from_bytes(part))).collect()
}

impl Extractor {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let at = fs::openat(CWD, folder, FOLDER_FLAGS, Mode::empty())?;
        Ok(Self { at, path: Vec::new(), buffer: vec![0; BUFFER_BYTES] })
    }

    /// Restores an entry under a path that was checked by [`path_parts`].
    ///
    /// # Errors
    /// When the archive cannot be read, or when no other entry could be restored either, such as on a full disk.
    pub(super) fn restore_entry<R: Read>(
        &mut self,
        path: &Path,
        entry: &mut Entry<'_, R>,
    ) -> io::Result<ExtractReport> {
        let Some(parts) = path_parts(path) else {
            return Ok(ExtractReport::Skipped("its path leads out of the workspace".to_owned()));
        };
        // The folder of all workspaces exists already.
        let Some((name, folder)) = parts.split_last() else { return Ok(ExtractReport::Done) };
        if let Err(errno) = self.go_to(folder) {
            return skip_or_abort(errno);
        }
        let header = entry.header();
        let (mode, modified) = (header.mode()? & 0o777, header.mtime()?);
        let done = match header.entry_type() {
            EntryType::Directory => self.put_folder(name, mode, modified),
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                fs::symlinkat(target, &self.at, *name)
            }
            EntryType::Link => {
                let target = entry.link_name()?.unwrap_or_default().into_owned();
                self.put_name(folder, name, &target)
            }
            _ => match self.put_file(name, entry)? {
                Ok(file) => finish_file(&file, mode, modified),
                Err(errno) => Err(errno),
            },
        };
        done.map_or_else(skip_or_abort, |()| Ok(ExtractReport::Done))
    }

    /// Finishes the restore: sets the remaining modification times.
    pub(super) fn finish_restore(mut self) -> io::Result<()> {
        Ok(self.go_to(&[])?)
    }

    fn put_folder(&mut self, name: &OsStr, mode: u32, modified: u64) -> Result<(), Errno> {
        fs::mkdirat(&self.at, name, Mode::RWXU)?;
        let folder = fs::openat(&self.at, name, FOLDER_FLAGS, Mode::empty())?;
        // The service must still be able to create files in the folder.
        fs::chmodat(&folder, c".", Mode::from_raw_mode(mode) | Mode::RWXU, AtFlags::empty())?;
        self.at = folder;
        self.path.push((name.to_owned(), Some(modified)));
        Ok(())
    }

    /// Creates a hard link to a file that was restored before.
    fn put_name(&mut self, folder: &[&OsStr], name: &OsStr, target: &Path) -> Result<(), Errno> {
        let Some(target) = path_parts(target) else { return Err(Errno::XDEV) };
        let Some((target_name, target_folder)) = target.split_last() else { return Err(Errno::XDEV) };
        self.go_to(target_folder)?;
        let from = fs::openat(&self.at, c".", FOLDER_FLAGS, Mode::empty())?;
        self.go_to(folder)?;
        fs::linkat(&from, *target_name, &self.at, name, AtFlags::empty())
    }

    /// Restores a file with its content. The inner error concerns this file, the outer one the archive.
    fn put_file<R: Read>(
        &mut self,
        name: &OsStr,
        entry: &mut Entry<'_, R>,
    ) -> io::Result<Result<File, Errno>> {
        let size = entry.size();
        let pieces = match has_holes(entry)? {
            true => read_map(entry)?,
            false => iter::once(0..size).collect(),
        };
        let file = match fs::openat(&self.at, name, FILE_FLAGS, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            Err(errno) => return Ok(Err(errno)),
        };
        let end = pieces.last().map_or(0, |last| last.end);
        let mut written = fs::ftruncate(&file, end);
        for piece in pieces {
            if written.is_err() {
                break;
            }
            written = self.fill_piece(&file, piece, entry)?;
        }
        if let Err(errno) = written {
            let _ = fs::unlinkat(&self.at, name, AtFlags::empty());
            return Ok(Err(errno));
        }
        Ok(Ok(file))
    }

    fn fill_piece(
        &mut self,
        file: &File,
        piece: Range<u64>,
        from: &mut impl Read,
    ) -> io::Result<Result<(), Errno>> {
        let mut at = piece.start;
        while at < piece.end {
            let wanted = usize::try_from(piece.end - at).unwrap_or(usize::MAX).min(self.buffer.len());
            from.read_exact(&mut self.buffer[..wanted])?;
            if let Err(error) = file.write_all_at(&self.buffer[..wanted], at) {
                return Ok(Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)));
            }
            at += wanted as u64;
        }
        Ok(Ok(()))
    }

    /// Changes to an existing folder: up as far as necessary, then down.
    fn go_to(&mut self, folder: &[&OsStr]) -> Result<(), Errno> {
        let same = self.path.iter().zip(folder).take_while(|((here, _), there)| here == *there).count();
        while self.path.len() > same {
            // No other process changes this tree, so `..` is the folder that was entered before.
            let above = fs::openat(&self.at, c"..", FOLDER_FLAGS, Mode::empty())?;
            if let Some((_, Some(modified))) = self.path.pop() {
                // A folder's modification time is set last, because it changes with every new entry. A failure is
                // ignored.
                let _ = fs::utimensat(&self.at, c".", &modified_times(modified), AtFlags::empty());
            }
            self.at = above;
        }
        for name in &folder[same..] {
            self.at = fs::openat(&self.at, *name, FOLDER_FLAGS, Mode::empty())?;
            self.path.push(((*name).to_owned(), None));
        }
        Ok(())
    }
}

fn finish_file(file: &File, mode: u32, modified: u64) -> Result<(), Errno> {
    fs::fchmod(file, Mode::from_raw_mode(mode))?;
    // An unsupported time must not lose the file.
    let _ = fs::futimens(file, &modified_times(modified));
    Ok(())
}

fn modified_times(modified: u64) -> Timestamps {
    let modified = i64::try_from(modified).unwrap_or(i64::MAX);
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified, tv_nsec: 0 },
    }
}

/// Classifies an error: one that affects this entry alone skips it, any other aborts the restore.
fn skip_or_abort(errno: Errno) -> io::Result<ExtractReport> {
    match errno {
        Errno::NOSPC
        | Errno::DQUOT
        | Errno::IO
        | Errno::ROFS
        | Errno::MFILE
        | Errno::NFILE
        | Errno::NOMEM => Err(errno.into()),
        other => Ok(ExtractReport::Skipped(io::Error::from(other).to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Archive, Builder, Header};

    fn append_entry(tar: &mut Builder<Vec<u8>>, kind: EntryType, path: &str, link: &str) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0);
        header.set_mtime(u64::MAX >> 4);
        header.set_size(if kind == EntryType::Regular { 4 } else { 0 });
        header.set_link_name_literal(link).expect("short");
        let content: &[u8] = if kind == EntryType::Regular { b"good" } else { b"" };
        tar.append_data(&mut header, path, content).expect("written");
    }

    #[test]
    fn restore_skips_entries_without_following_links() {
        let root = tempfile::tempdir().expect("a folder");
        let (top, outside) = (root.path().join("workspaces"), root.path().join("outside"));
        std::fs::create_dir(&top).expect("a folder");
        std::fs::create_dir(&outside).expect("a folder");
        let mut tar = Builder::new(Vec::new());
        let name = format!("w/a/{}", "n".repeat(256));
        for (kind, path, link) in [
            (EntryType::Directory, "w/a", ""),
            (EntryType::Regular, "w/a/file", ""),
            (EntryType::Symlink, "w/a/out", "../../outside"),
            // Each of the following entries fails.
            (EntryType::Regular, "w/a/file", ""),
            (EntryType::Regular, "w/a/out/file", ""),
            (EntryType::Directory, "w/a/out/folder", ""),
            (EntryType::Regular, "w/a/missing/file", ""),
            (EntryType::Regular, &name, ""),
            (EntryType::Link, "w/a/second", "w/a/missing"),
            (EntryType::Link, "w/a/second", "w/../outside/file"),
            (EntryType::Link, "w/a/second", "w/a/out/file"),
        ] {
            append_entry(&mut tar, kind, path, link);
        }
        append_entry(&mut tar, EntryType::Link, "w/a/name", "w/a/file");
        append_entry(&mut tar, EntryType::Regular, "w/a/last", "");
        let tar = tar.into_inner().expect("an archive");
        let mut extractor = Extractor::new(&top).expect("a folder");
        let mut skipped = 0;
        for entry in Archive::new(&tar[..]).entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").into_owned();
            if let ExtractReport::Skipped(reason) = extractor.restore_entry(&path, &mut entry).expect("read")
            {
                assert!(!reason.is_empty());
                skipped += 1;
            }
        }
        extractor.finish_restore().expect("ended");
        assert_eq!(skipped, 8);
        let mut names: Vec<_> = std::fs::read_dir(top.join("a"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["file", "last", "name", "out"]);
        assert_eq!(std::fs::read_dir(outside).expect("a folder").count(), 0);
    }
}
