//! Unpacks the archive of a root file system into a folder, from a source that is not trusted.
//!
//! Every folder on the way to an entry is opened by its descriptor and never through a link, so nothing is written
//! outside. Links are created unchanged, regardless of their targets: only processes inside a machine follow them.
//! Set-id bits, owners, attributes, devices and pipes are dropped; the modes are 0755 and 0644.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::archive::{self, ArchiveEntryKind, EntryHead};
use crate::cancel::Cancel;
use crate::error::{ImageErrorContext, MachineImageError};
use crate::layout::{self, Fate};
use crate::metadata::{FILE_MODE, FOLDER_MODE, PROGRAM_MODE, timestamps_at};

/// The maximum number of entries of an image.
const ENTRIES_MAX: u64 = 1_000_000;
/// The maximum number of bytes of an image.
const BYTES_MAX: u64 = 64 << 30;
const DEPTH_MAX: usize = 128;
/// The disk space that remains free for the service.
const FREE_MIN_BYTES: u64 = 256 << 20;
/// The interval in bytes and entries at which the free space is checked.
const CHECK_BYTES: u64 = 64 << 20;
const CHECK_ENTRIES: u64 = 4096;
/// The maximum number of left-out entries that are reported by name.
const LEFT_OUT_NAMED_MAX: usize = 50;
const BUFFER_BYTES: usize = 256 * 1024;

const FOLDER_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The result of unpacking.
#[derive(Debug, Default)]
pub(crate) struct UnpackedTree {
    /// The SHA-256 of the archive without its compression.
    pub(crate) sha256: String,
    /// The entries that are not in the tree, with the reasons; only the first ones.
    pub(crate) left_out: Vec<String>,
    pub(crate) left_out_count: u64,
}

/// Unpacks `archive` into the empty folder `root`.
///
/// # Errors
/// [`MachineImageError::Archive`] for one that exceeds a bound or is damaged, [`MachineImageError::NoSpace`] before the disk is full.
pub(crate) fn unpack_archive(
    archive: impl Read,
    root: &Path,
    cancel: &Cancel,
) -> Result<UnpackedTree, MachineImageError> {
    let at = rustix::fs::openat(CWD, root, FOLDER_FLAGS, Mode::empty())
        .with_context(|| "opening the new tree".into())?;
    let mut unpacker = Unpacker {
        root: at,
        place: root.to_owned(),
        cancel,
        entries: 0,
        bytes: 0,
        next_check: (0, 0),
        folders: Vec::new(),
        report: UnpackedTree::default(),
        buffer: vec![0; BUFFER_BYTES],
    };
    let sha256 = archive::for_each(archive, |head, content| unpacker.unpack_entry(&head, content))?;
    unpacker.set_folder_times()?;
    Ok(UnpackedTree { sha256, ..unpacker.report })
}

/// The reason why one entry is left out, or why the whole archive is refused.
enum UnpackProblem {
    LeftOut(&'static str),
    Fatal(MachineImageError),
}

impl From<MachineImageError> for UnpackProblem {
    fn from(error: MachineImageError) -> Self {
        Self::Fatal(error)
    }
}

impl From<Errno> for UnpackProblem {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP | Errno::NOTDIR => Self::LeftOut("below a link or a file"),
            Errno::EXIST | Errno::ISDIR | Errno::NOTEMPTY => {
                Self::LeftOut("in the place of another kind of entry")
            }
            Errno::NAMETOOLONG => Self::LeftOut("a name that is too long"),
            Errno::INVAL | Errno::ILSEQ => Self::LeftOut("a name that this file system does not allow"),
            other => Self::Fatal(MachineImageError::Io {
                what: "writing the new tree".into(),
                source: other.into(),
            }),
        }
    }
}

struct Unpacker<'a> {
    root: OwnedFd,
    place: PathBuf,
    cancel: &'a Cancel,
    entries: u64,
    bytes: u64,
    /// The bytes and entries at which the free space is checked next.
    next_check: (u64, u64),
    /// Folders and their times, which are set last, because every new entry changes them.
    folders: Vec<(Vec<u8>, u64)>,
    report: UnpackedTree,
    buffer: Vec<u8>,
}

impl Unpacker<'_> {
    fn unpack_entry(&mut self, head: &EntryHead, content: &mut dyn Read) -> Result<(), MachineImageError> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(MachineImageError::Archive(format!("it has more than {ENTRIES_MAX} entries")));
        }
        self.check_bounds()?;
        match self.place_entry(head, content) {
            Ok(()) => Ok(()),
            Err(UnpackProblem::LeftOut(reason)) => {
                self.report.left_out_count += 1;
                if self.report.left_out.len() < LEFT_OUT_NAMED_MAX {
                    let name = head.path.to_string_lossy();
                    let name: String = name.chars().take(200).flat_map(char::escape_default).collect();
                    self.report.left_out.push(format!("{name}: {reason}"));
                }
                Ok(())
            }
            Err(UnpackProblem::Fatal(error)) => Err(error),
        }
    }

    fn place_entry(&mut self, head: &EntryHead, content: &mut dyn Read) -> Result<(), UnpackProblem> {
        let parts = path_parts(&head.path).ok_or(UnpackProblem::LeftOut("its path leads out"))?;
        let Some((name, above)) = parts.split_last() else { return Ok(()) };
        match layout::entry_fate(&parts) {
            Fate::Kept => {}
            // Every source has these; they are not worth a report.
            Fate::Replaced => return Ok(()),
            Fate::Refused(reason) => return Err(UnpackProblem::LeftOut(reason)),
        }
        if parts.len() > DEPTH_MAX {
            return Err(UnpackProblem::LeftOut("too deep"));
        }
        let folder = self.open_folder(above)?;
        match &head.kind {
            ArchiveEntryKind::Folder => {
                match rustix::fs::mkdirat(&folder, *name, FOLDER_MODE) {
                    // It must be a folder; otherwise the next entry in it fails.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                let made = rustix::fs::openat(&folder, *name, FOLDER_FLAGS, Mode::empty())?;
                rustix::fs::chmodat(&made, c".", FOLDER_MODE, AtFlags::empty())?;
                self.folders.push((parts.join(&b'/'), head.modified));
                Ok(())
            }
            ArchiveEntryKind::File => self.write_file(&folder, name, head, content),
            ArchiveEntryKind::Symlink(target) if target.is_empty() => {
                Err(UnpackProblem::LeftOut("an empty link"))
            }
            ArchiveEntryKind::Symlink(target) => {
                make_room(&folder, name)?;
                rustix::fs::symlinkat(target, &folder, *name)?;
                let times = timestamps_at(head.modified);
                // A file system that does not store times of links is accepted.
                let _ = rustix::fs::utimensat(&folder, *name, &times, AtFlags::SYMLINK_NOFOLLOW);
                Ok(())
            }
            ArchiveEntryKind::HardLink(target) => self.hard_link(&folder, name, target),
            ArchiveEntryKind::Other => Err(UnpackProblem::LeftOut("a device, a pipe or an unknown kind")),
        }
    }

    /// Opens a folder of the tree without following links; creates missing ones.
    fn open_folder(&self, path: &[&[u8]]) -> Result<OwnedFd, UnpackProblem> {
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

    fn write_file(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        head: &EntryHead,
        content: &mut dyn Read,
    ) -> Result<(), UnpackProblem> {
        make_room(folder, name)?;
        let mut file = File::from(rustix::fs::openat(folder, name, FILE_FLAGS, FILE_MODE)?);
        loop {
            let read = content
                .read(&mut self.buffer)
                .map_err(|error| MachineImageError::Archive(format!("it cannot be read: {error}")))?;
            if read == 0 {
                break;
            }
            self.bytes += read as u64;
            self.check_bounds()?;
            file.write_all(&self.buffer[..read]).with_context(|| "writing the new tree".into())?;
        }
        rustix::fs::fchmod(&file, if head.executable { PROGRAM_MODE } else { FILE_MODE })?;
        rustix::fs::futimens(&file, &timestamps_at(head.modified))?;
        Ok(())
    }

    /// Creates another name of a file that was unpacked before.
    fn hard_link(&self, folder: &OwnedFd, name: &[u8], target: &OsStr) -> Result<(), UnpackProblem> {
        let parts = path_parts(target).ok_or(UnpackProblem::LeftOut("a hard link that leads out"))?;
        let Some((target_name, above)) = parts.split_last() else {
            return Err(UnpackProblem::LeftOut("a hard link to a folder"));
        };
        if !matches!(layout::entry_fate(&parts), Fate::Kept) {
            return Err(UnpackProblem::LeftOut("a hard link to a skipped entry"));
        }
        let from = self.open_folder(above)?;
        // Without a flag to follow links: another name of the link itself is harmless.
        match rustix::fs::linkat(&from, *target_name, folder, name, AtFlags::empty()) {
            Err(Errno::EXIST) => {
                make_room(folder, name)?;
                Ok(rustix::fs::linkat(&from, *target_name, folder, name, AtFlags::empty())?)
            }
            Err(Errno::NOENT) => Err(UnpackProblem::LeftOut("a hard link to a missing file")),
            Err(Errno::PERM) => Err(UnpackProblem::LeftOut("a hard link to a folder")),
            made => Ok(made?),
        }
    }

    /// Stops when the operator cancels, the image is too large, or the disk would be full.
    fn check_bounds(&mut self) -> Result<(), MachineImageError> {
        self.cancel.check_cancelled()?;
        if self.bytes > BYTES_MAX {
            return Err(MachineImageError::Archive(format!("it holds more than {} GiB", BYTES_MAX >> 30)));
        }
        if self.bytes < self.next_check.0 && self.entries < self.next_check.1 {
            return Ok(());
        }
        self.next_check = (self.bytes + CHECK_BYTES, self.entries + CHECK_ENTRIES);
        require_space(&self.place, FREE_MIN_BYTES)
    }

    fn set_folder_times(&self) -> Result<(), MachineImageError> {
        for (path, modified) in self.folders.iter().rev() {
            let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
            let set = self.open_folder(&parts).map(|folder| {
                // A file system that does not store such times is accepted.
                let _ = rustix::fs::utimensat(&folder, c".", &timestamps_at(*modified), AtFlags::empty());
            });
            if let Err(UnpackProblem::Fatal(error)) = set {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Removes a file or link of an earlier entry. A folder stays, and the entry that should replace it fails.
fn make_room(folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Returns the names of a path within the tree; `None` if it leads out.
fn path_parts(path: &OsStr) -> Option<Vec<&[u8]>> {
    let bytes = path.as_bytes();
    if bytes.contains(&0) {
        return None;
    }
    let names = bytes.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.map(|name| (name != b"..").then_some(name)).collect()
}

/// Fails if the disk of `folder` has less than `needed` bytes free.
pub(crate) fn require_space(folder: &Path, needed: u64) -> Result<(), MachineImageError> {
    let disk = rustix::fs::statvfs(folder)
        .with_context(|| format!("looking at the disk of {}", folder.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    Err(MachineImageError::NoSpace {
        folder: folder.to_owned(),
        free_mib: free >> 20,
        needed_mib: needed >> 20,
    })
}

#[cfg(test)]
mod tests;
