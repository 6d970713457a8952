//! Every file of every account, for backups: without following a link, whatever machines do meanwhile.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat, readlinkat};

use crate::account::Workspaces;
use crate::jail::{FOLDER_FLAGS, entry_stat, file_type, size};
use crate::path::is_staging;

/// Folders deeper than this are left out; each level holds one descriptor.
const DEPTH_MAX: usize = 256;

/// Something in a workspace.
#[derive(Debug)]
pub struct Kept {
    /// Its path, whose first part is the account.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed, in seconds since 1970.
    pub modified: u64,
    /// What it is.
    pub content: Content,
}

/// What is kept of something.
#[derive(Debug)]
pub enum Content {
    /// A file, open, of so many bytes when it was opened. It may grow and shrink while it is read.
    File(File, u64),
    /// A folder; what is in it comes next.
    Folder,
    /// A link to there.
    Link(PathBuf),
    /// Something else, or a folder that is too deep: it is left out.
    Other,
}

impl Workspaces {
    /// Shows everything, folders before what is in them. What goes while it is looked at is left out. Blocks.
    ///
    /// # Errors
    /// What the file system answers, or `visit`, which ends it.
    pub fn everything(&self, visit: &mut dyn FnMut(Kept) -> io::Result<()>) -> io::Result<()> {
        let mut open = vec![Dir::new(openat(self.root(), c".", FOLDER_FLAGS, Mode::empty())?)?];
        let mut path = PathBuf::new();
        while let Some(folder) = open.last_mut() {
            let Some(entry) = folder.read() else {
                open.pop();
                path.pop();
                continue;
            };
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            // What uploads under way have written is nobody's yet.
            if matches!(name, b"." | b"..") || (open.len() == 2 && is_staging(name)) {
                continue;
            }
            let Some(parent) = open.last() else { break };
            let own = path.join(OsStr::from_bytes(name));
            let Some((kept, below)) = look(parent.fd()?, name, own, open.len() < DEPTH_MAX)? else {
                continue;
            };
            visit(kept)?;
            if let Some(below) = below {
                path.push(OsStr::from_bytes(name));
                open.push(below);
            }
        }
        Ok(())
    }
}

/// The entry and, of a folder, what shows its own; `None` when it is gone.
fn look(
    parent: BorrowedFd<'_>,
    name: &[u8],
    path: PathBuf,
    deeper: bool,
) -> io::Result<Option<(Kept, Option<Dir>)>> {
    let Ok(mut stat) = entry_stat(parent, name) else { return Ok(None) };
    let mut below = None;
    let content = match file_type(&stat) {
        FileType::RegularFile => {
            // Were it something else by now, opening it must not wait.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(fd) = openat(parent, name, flags, Mode::empty()) else { return Ok(None) };
            stat = fstat(&fd)?;
            match file_type(&stat) {
                FileType::RegularFile => Content::File(File::from(fd), size(&stat)),
                _ => Content::Other,
            }
        }
        FileType::Directory if deeper => {
            let flags = FOLDER_FLAGS | OFlags::NOFOLLOW;
            let Ok(fd) = openat(parent.as_fd(), name, flags, Mode::empty()) else { return Ok(None) };
            below = Some(Dir::new(fd)?);
            Content::Folder
        }
        FileType::Symlink => match readlinkat(parent, name, Vec::new()) {
            Ok(target) => Content::Link(PathBuf::from(OsStr::from_bytes(target.as_bytes()))),
            Err(_) => return Ok(None),
        },
        _ => Content::Other,
    };
    let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
    Ok(Some((Kept { path, mode: stat.st_mode & 0o777, modified, content }, below)))
}
