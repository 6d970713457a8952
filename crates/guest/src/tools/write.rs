//! `write`: replaces a whole file atomically.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use protocol::tool::{ToolOutput, WriteArguments};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::jail::{Jail, JailError, kind_at, path_error};
use super::path::{self, display_path};

/// The largest file that `write` and `edit` create, in bytes.
pub(crate) const WRITE_MAX_BYTES: usize = 8 * 1024 * 1024;
/// The number of temporary names that are tried.
const NAMES_MAX: u32 = 16;

pub(crate) fn write(jail: &Jail, arguments: &WriteArguments) -> Result<ToolOutput, String> {
    if arguments.content.len() > WRITE_MAX_BYTES {
        return Err(format!("the content has more than {WRITE_MAX_BYTES} bytes"));
    }
    let path = path::parse(&arguments.path).map_err(|error| error.to_string())?;
    let existed = put(jail, &path, arguments.content.as_bytes()).map_err(|error| error.to_string())?;
    let name = display_path(&path);
    let verb = if existed { "Replaced" } else { "Wrote" };
    let text = format!("{verb} {name}, {} bytes.", arguments.content.len());
    Ok(ToolOutput {
        images: Vec::new(),
        failed: false,
        text,
        passages: Vec::new(),
        written: vec![name],
        unread: Vec::new(),
    })
}

/// Writes a file atomically. Returns true if it replaced one.
pub(crate) fn put(jail: &Jail, path: &Path, content: &[u8]) -> Result<bool, JailError> {
    let name = path.file_name().ok_or_else(|| JailError::IsFolder(display_path(path)))?;
    let folder = jail.parent(path)?;
    let (mode, existed) = match kind_at(&folder, name) {
        None => (0o644, false),
        Some((FileType::RegularFile, mode)) => (mode, true),
        Some((FileType::Directory, _)) => return Err(JailError::IsFolder(display_path(path))),
        // Following the link would require the same checks for its target; the model can write there directly.
        Some((FileType::Symlink, _)) => return Err(JailError::LeadsOut(display_path(path))),
        Some(_) => return Err(JailError::Special(display_path(path))),
    };
    let failed = |error: Errno| path_error(&display_path(path), error);
    let (file, temporary) = temporary(&folder, mode).map_err(failed)?;
    let mut placed = fill(file, content);
    if placed.is_ok() {
        placed = renameat_with(&folder, &*temporary, &folder, name, RenameFlags::empty());
    }
    if let Err(error) = placed {
        let _ = unlinkat(&folder, &*temporary, AtFlags::empty());
        return Err(failed(error));
    }
    Ok(existed)
}

/// Creates a temporary file next to the one that it will replace.
fn temporary(folder: &OwnedFd, mode: u32) -> Result<(OwnedFd, String), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = std::process::id();
    for number in 0..NAMES_MAX {
        let name = format!(".causerie-{own}-{number}.tmp");
        match openat(folder, &*name, flags, Mode::from_raw_mode(mode)) {
            Err(Errno::EXIST) => {}
            opened => return opened.map(|file| (file, name)),
        }
    }
    Err(Errno::EXIST)
}

fn fill(file: OwnedFd, content: &[u8]) -> Result<(), Errno> {
    let mut file = File::from(file);
    let written = file.write_all(content).and_then(|()| file.sync_data());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
