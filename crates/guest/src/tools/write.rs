//! `write`: replaces a whole file atomically.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use protocol::tool::ToolOutput;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat_with, unlinkat};
use rustix::io::Errno;
use search_index::{FileStamp, file_stamp};
use serde::Deserialize;

use super::jail::{Jail, JailError, metadata_at, path_error};
use super::path::{self, display_path};

/// The largest file that `write` and `edit` create, in bytes.
pub(crate) const WRITE_MAX_BYTES: usize = 8 * 1024 * 1024;
/// The number of temporary names that are tried.
const NAMES_MAX: u32 = 16;

/// Arguments of [`domain::tool::MachineTool::Write`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteArguments {
    pub(crate) path: String,
    /// The complete new content.
    pub(crate) content: String,
}

pub(crate) fn write_file(jail: &Jail, arguments: &WriteArguments) -> Result<ToolOutput, String> {
    if arguments.content.len() > WRITE_MAX_BYTES {
        return Err(format!("the content has more than {WRITE_MAX_BYTES} bytes"));
    }
    let path = path::parse_path(&arguments.path).map_err(|error| error.to_string())?;
    let path = jail.resolve_spelling(&path).unwrap_or(path);
    let target = WriteTarget::for_path(jail, &path).map_err(|error| error.to_string())?;
    let existed = target.known.is_some();
    target.replace_content(arguments.content.as_bytes()).map_err(|error| error.to_string())?;
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

/// A file to be written, in the state in which it was found.
#[derive(Debug)]
pub(crate) struct WriteTarget<'a> {
    path: &'a Path,
    name: &'a OsStr,
    folder: OwnedFd,
    mode: u32,
    /// The state of the file that will be replaced; `None` for a new file.
    known: Option<FileStamp>,
}

impl<'a> WriteTarget<'a> {
    /// Finds the file of a path; creates missing folders.
    pub(crate) fn for_path(jail: &Jail, path: &'a Path) -> Result<Self, JailError> {
        let name = path.file_name().ok_or_else(|| JailError::IsFolder(display_path(path)))?;
        let folder = jail.open_parent(path)?;
        let (mode, known) = match metadata_at(&folder, name) {
            None => (0o644, None),
            Some(found) if found.is_file() => (found.mode() & 0o777, Some(file_stamp(&found))),
            Some(found) if found.is_dir() => return Err(JailError::IsFolder(display_path(path))),
            // Following the link would require the same checks for its target; the model can write there directly.
            Some(found) if found.is_symlink() => return Err(JailError::LeadsOut(display_path(path))),
            Some(_) => return Err(JailError::Special(display_path(path))),
        };
        Ok(Self { path, name, folder, mode, known })
    }

    /// Returns the target for content that was derived from the file in this state.
    pub(crate) fn read_as(self, state: FileStamp) -> Self {
        Self { known: Some(state), ..self }
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// Fails if the file has changed since it was found or read: an upload or a command has changed it meanwhile.
    pub(crate) fn replace_content(&self, content: &[u8]) -> Result<(), JailError> {
        let failed = |error: Errno| path_error(&display_path(self.path), error);
        let (file, temporary) = create_temporary(&self.folder, self.mode).map_err(failed)?;
        let placed = fill_file(file, content).map_err(failed).and_then(|()| {
            if metadata_at(&self.folder, self.name).map(|found| file_stamp(&found)) != self.known {
                return Err(JailError::Changed(display_path(self.path)));
            }
            let (from, to) = (&*temporary, self.name);
            renameat_with(&self.folder, from, &self.folder, to, RenameFlags::empty()).map_err(failed)
        });
        if placed.is_err() {
            let _ = unlinkat(&self.folder, &*temporary, AtFlags::empty());
        }
        placed
    }
}

/// Creates a temporary file next to its target.
fn create_temporary(folder: &OwnedFd, mode: u32) -> Result<(OwnedFd, String), Errno> {
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

fn fill_file(file: OwnedFd, content: &[u8]) -> Result<(), Errno> {
    let mut file = File::from(file);
    let written = file.write_all(content).and_then(|()| file.sync_data());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn write_file_changed_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let jail = Jail::open_workspace(folder.path()).unwrap();
        let (path, file) = (Path::new("a.txt"), folder.path().join("a.txt"));
        let upload = |content: &str| {
            let other = folder.path().join("other");
            fs::write(&other, content).unwrap();
            fs::rename(other, &file).unwrap();
        };
        let append = |content: &str| {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text + content).unwrap();
        };
        let refused = |target: &WriteTarget<'_>, left: &str| {
            let error = target.replace_content(b"own").expect_err("it was changed");
            assert!(matches!(error, JailError::Changed(_)), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), left);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        };
        let missing = WriteTarget::for_path(&jail, path).unwrap();
        upload("uploaded");
        refused(&missing, "uploaded");
        let found = WriteTarget::for_path(&jail, path).unwrap();
        upload("replaced");
        refused(&found, "replaced");
        let found = WriteTarget::for_path(&jail, path).unwrap();
        append(" and longer");
        refused(&found, "replaced and longer");
        let read = file_stamp(&fs::metadata(&file).unwrap());
        upload("again");
        refused(&WriteTarget::for_path(&jail, path).unwrap().read_as(read), "again");
        WriteTarget::for_path(&jail, path).unwrap().replace_content(b"own").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "own");
    }
}
