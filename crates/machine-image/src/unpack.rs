//! Unpacks the archive of a root file system into a folder, from a source that is not trusted.
//!
//! Every folder on the way to an entry is opened by its descriptor and never through a link, so nothing is written
//! outside. Links are made as they are, wherever they lead: only processes inside a machine follow them. Set-id bits,
//! owners, attributes, devices and pipes are dropped; the modes are 0755 and 0644.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::archive::{self, EntryHead, Kind};
use crate::cancel::Cancel;
use crate::error::{ErrorContext, ImageError};
use crate::layout::{self, Fate};
use crate::metadata::{FILE_MODE, FOLDER_MODE, PROGRAM_MODE, times};

/// The most entries of an image.
const ENTRIES_MAX: u64 = 1_000_000;
/// The most bytes of an image.
const BYTES_MAX: u64 = 64 << 30;
/// The deepest folder.
const DEPTH_MAX: usize = 128;
/// The disk space that remains free for the service.
const FREE_MIN_BYTES: u64 = 256 << 20;
/// The interval in bytes and entries at which the free space is looked at.
const CHECK_BYTES: u64 = 64 << 20;
const CHECK_ENTRIES: u64 = 4096;
/// The most left-out entries that are reported by name.
const LEFT_OUT_NAMED_MAX: usize = 50;
const BUFFER_BYTES: usize = 256 * 1024;

const FOLDER_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The result of unpacking.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    /// The SHA-256 of the archive without its compression.
    pub(crate) sha256: String,
    /// The entries that are not in the tree, with the reasons; only the first ones.
    pub(crate) left_out: Vec<String>,
    pub(crate) left_out_count: u64,
}

/// Unpacks `archive` into the empty folder `root`.
///
/// # Errors
/// [`ImageError::Archive`] for one that exceeds a bound or is damaged, [`ImageError::NoSpace`] before the disk is full.
pub(crate) fn unpack(archive: impl Read, root: &Path, cancel: &Cancel) -> Result<Unpacked, ImageError> {
    let at =
        rustix::fs::openat(CWD, root, FOLDER_FLAGS, Mode::empty()).doing(|| "opening the new tree".into())?;
    let mut unpacker = Unpacker {
        root: at,
        place: root.to_owned(),
        cancel,
        entries: 0,
        bytes: 0,
        next_check: (0, 0),
        folders: Vec::new(),
        report: Unpacked::default(),
        buffer: vec![0; BUFFER_BYTES],
    };
    let sha256 = archive::for_each(archive, |head, content| unpacker.take(&head, content))?;
    unpacker.finish()?;
    Ok(Unpacked { sha256, ..unpacker.report })
}

/// The reason why one entry is left out, or why the whole archive is refused.
enum Problem {
    LeftOut(&'static str),
    Fatal(ImageError),
}

impl From<ImageError> for Problem {
    fn from(error: ImageError) -> Self {
        Self::Fatal(error)
    }
}

impl From<Errno> for Problem {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP | Errno::NOTDIR => Self::LeftOut("below a link or a file"),
            Errno::EXIST | Errno::ISDIR | Errno::NOTEMPTY => {
                Self::LeftOut("in the place of another kind of entry")
            }
            Errno::NAMETOOLONG => Self::LeftOut("a name that is too long"),
            Errno::INVAL | Errno::ILSEQ => Self::LeftOut("a name that this file system does not allow"),
            other => {
                Self::Fatal(ImageError::Io { what: "writing the new tree".into(), source: other.into() })
            }
        }
    }
}

struct Unpacker<'a> {
    root: OwnedFd,
    place: PathBuf,
    cancel: &'a Cancel,
    entries: u64,
    bytes: u64,
    /// The bytes and entries at which the free space is looked at next.
    next_check: (u64, u64),
    /// Folders and their times, which are set last, because every new entry changes them.
    folders: Vec<(Vec<u8>, u64)>,
    report: Unpacked,
    buffer: Vec<u8>,
}

impl Unpacker<'_> {
    fn take(&mut self, head: &EntryHead, content: &mut dyn Read) -> Result<(), ImageError> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(ImageError::Archive(format!("it has more than {ENTRIES_MAX} entries")));
        }
        self.check()?;
        match self.put(head, content) {
            Ok(()) => Ok(()),
            Err(Problem::LeftOut(reason)) => {
                self.report.left_out_count += 1;
                if self.report.left_out.len() < LEFT_OUT_NAMED_MAX {
                    let name = head.path.to_string_lossy();
                    let name: String = name.chars().take(200).flat_map(char::escape_default).collect();
                    self.report.left_out.push(format!("{name}: {reason}"));
                }
                Ok(())
            }
            Err(Problem::Fatal(error)) => Err(error),
        }
    }

    fn put(&mut self, head: &EntryHead, content: &mut dyn Read) -> Result<(), Problem> {
        let parts = parts(&head.path).ok_or(Problem::LeftOut("its path leads out"))?;
        let Some((name, above)) = parts.split_last() else { return Ok(()) };
        match layout::fate(&parts) {
            Fate::Kept => {}
            // Every source has these; they are not worth a report.
            Fate::Replaced => return Ok(()),
            Fate::Refused(reason) => return Err(Problem::LeftOut(reason)),
        }
        if parts.len() > DEPTH_MAX {
            return Err(Problem::LeftOut("too deep"));
        }
        let folder = self.folder(above)?;
        match &head.kind {
            Kind::Folder => {
                match rustix::fs::mkdirat(&folder, *name, FOLDER_MODE) {
                    // It must be a folder, and the next entry in it finds out.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                let made = rustix::fs::openat(&folder, *name, FOLDER_FLAGS, Mode::empty())?;
                rustix::fs::chmodat(&made, c".", FOLDER_MODE, AtFlags::empty())?;
                self.folders.push((parts.join(&b'/'), head.modified));
                Ok(())
            }
            Kind::File => self.file(&folder, name, head, content),
            Kind::Symlink(target) if target.is_empty() => Err(Problem::LeftOut("a link to nothing")),
            Kind::Symlink(target) => {
                make_room(&folder, name)?;
                rustix::fs::symlinkat(target, &folder, *name)?;
                let times = times(head.modified);
                // A file system that keeps no times of links is good enough.
                let _ = rustix::fs::utimensat(&folder, *name, &times, AtFlags::SYMLINK_NOFOLLOW);
                Ok(())
            }
            Kind::HardLink(target) => self.hard_link(&folder, name, target),
            Kind::Other => Err(Problem::LeftOut("a device, a pipe or an unknown kind")),
        }
    }

    /// Opens a folder of the tree without following links; creates what is missing.
    fn folder(&self, path: &[&[u8]]) -> Result<OwnedFd, Problem> {
        let mut at = rustix::fs::openat(&self.root, c".", FOLDER_FLAGS, Mode::empty())?;
        for name in path {
            at = match rustix::fs::openat(&at, *name, FOLDER_FLAGS, Mode::empty()) {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(&at, *name, FOLDER_MODE)?;
                    let made = rustix::fs::openat(&at, *name, FOLDER_FLAGS, Mode::empty())?;
                    rustix::fs::chmodat(&made, c".", FOLDER_MODE, AtFlags::empty())?;
                    made
                }
                opened => opened?,
            };
        }
        Ok(at)
    }

    fn file(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        head: &EntryHead,
        content: &mut dyn Read,
    ) -> Result<(), Problem> {
        make_room(folder, name)?;
        let mut file = File::from(rustix::fs::openat(folder, name, FILE_FLAGS, FILE_MODE)?);
        loop {
            let read = content
                .read(&mut self.buffer)
                .map_err(|error| ImageError::Archive(format!("it cannot be read: {error}")))?;
            if read == 0 {
                break;
            }
            self.bytes += read as u64;
            self.check()?;
            file.write_all(&self.buffer[..read]).doing(|| "writing the new tree".into())?;
        }
        rustix::fs::fchmod(&file, if head.executable { PROGRAM_MODE } else { FILE_MODE })?;
        rustix::fs::futimens(&file, &times(head.modified))?;
        Ok(())
    }

    /// Creates another name of a file that was unpacked before.
    fn hard_link(&self, folder: &OwnedFd, name: &[u8], target: &OsStr) -> Result<(), Problem> {
        let parts = parts(target).ok_or(Problem::LeftOut("a hard link that leads out"))?;
        let Some((target_name, above)) = parts.split_last() else {
            return Err(Problem::LeftOut("a hard link to a folder"));
        };
        if !matches!(layout::fate(&parts), Fate::Kept) {
            return Err(Problem::LeftOut("a hard link to what is left out"));
        }
        let from = self.folder(above)?;
        // No flag to follow a link: another name of the link itself is harmless.
        match rustix::fs::linkat(&from, *target_name, folder, name, AtFlags::empty()) {
            Err(Errno::EXIST) => {
                make_room(folder, name)?;
                Ok(rustix::fs::linkat(&from, *target_name, folder, name, AtFlags::empty())?)
            }
            Err(Errno::NOENT) => Err(Problem::LeftOut("a hard link to a file that is not there")),
            Err(Errno::PERM) => Err(Problem::LeftOut("a hard link to a folder")),
            made => Ok(made?),
        }
    }

    /// Stops when the operator has, when the image is too large, or when the disk would be full.
    fn check(&mut self) -> Result<(), ImageError> {
        self.cancel.check()?;
        if self.bytes > BYTES_MAX {
            return Err(ImageError::Archive(format!("it holds more than {} GiB", BYTES_MAX >> 30)));
        }
        if self.bytes < self.next_check.0 && self.entries < self.next_check.1 {
            return Ok(());
        }
        self.next_check = (self.bytes + CHECK_BYTES, self.entries + CHECK_ENTRIES);
        require_space(&self.place, FREE_MIN_BYTES)
    }

    fn finish(&self) -> Result<(), ImageError> {
        for (path, modified) in self.folders.iter().rev() {
            let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
            let set = self.folder(&parts).map(|folder| {
                // A file system that keeps no such time is good enough.
                let _ = rustix::fs::utimensat(&folder, c".", &times(*modified), AtFlags::empty());
            });
            if let Err(Problem::Fatal(error)) = set {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Removes a file or link of an earlier entry. A folder stays, and what should replace it fails.
fn make_room(folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Returns the names of a path within the tree; `None` if it leads out.
fn parts(path: &OsStr) -> Option<Vec<&[u8]>> {
    let bytes = path.as_bytes();
    if bytes.contains(&0) {
        return None;
    }
    let names = bytes.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.map(|name| (name != b"..").then_some(name)).collect()
}

/// Fails if the disk of `folder` has less than `needed` bytes free.
pub(crate) fn require_space(folder: &Path, needed: u64) -> Result<(), ImageError> {
    let disk =
        rustix::fs::statvfs(folder).doing(|| format!("looking at the disk of {}", folder.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    Err(ImageError::NoSpace { folder: folder.to_owned(), free_mib: free >> 20, needed_mib: needed >> 20 })
}

#[cfg(test)]
mod tests;
