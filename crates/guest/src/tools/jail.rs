//! Access to the workspace for tools: everything is opened beneath its folder, so that no link and no `..` leads
//! outside, even if files change concurrently.
//!
//! A path is resolved name by name. Each is opened relative to the folder before it, without following a link;
//! links are read and resolved in the same way, and `..` returns to a folder that the walk came through. So nothing
//! outside is ever opened. `openat2` would do this in one call, but its arguments are in memory, where no seccomp
//! filter can check for set-id modes; therefore it is forbidden in machines.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use documents::{ExtractBounds, ExtractError, Extracted, UnpackedArchive, extract_part, extract_unpacked};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, open, openat, readlinkat};
use rustix::io::Errno;
use search_index::{FoundFile, file_stamp};
use unicode_normalization::UnicodeNormalization;

use super::folder::ENTRIES_MAX;
use super::path::{self, WorkspacePathError, display_path};

/// The maximum number of links that one path may traverse, as in the kernel.
const LINKS_MAX: u32 = 40;
/// The maximum number of names in one path, including the names in its links.
const NAMES_MAX: u32 = 4096;
/// The maximum depth of a walk; each level uses a descriptor.
const DEPTH_MAX: usize = 512;

/// The reason why a file of the workspace is not accessible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JailError {
    #[error(transparent)]
    Path(#[from] WorkspacePathError),
    #[error("{0} does not exist")]
    Missing(String),
    #[error("{0} leads out of the workspace or through a link that does; it is not followed")]
    LeadsOut(String),
    #[error("{0} is a folder; use list")]
    IsFolder(String),
    #[error("{0} is not a folder")]
    NotFolder(String),
    #[error("{0} is a device, pipe or socket, not a file")]
    Special(String),
    #[error("{0} was changed by something else at the same time; read it again first")]
    Changed(String),
    #[error("{0} cannot be opened: {1}")]
    Os(String, Errno),
}

/// The opened folder of the workspace.
pub(crate) struct Jail {
    root: OwnedFd,
    /// The outcome of unpacking the archive that the task reads by a program, until it is taken.
    unpacked: Cell<Option<Result<UnpackedArchive, ExtractError>>>,
}

impl Jail {
    pub(crate) fn open_workspace(workspace: &Path) -> Result<Self, JailError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(workspace, flags, Mode::empty()).map_err(|error| path_error("/", error))?;
        Ok(Self { root, unpacked: Cell::new(None) })
    }

    /// Opens a path relative to the workspace. Never blocks on a pipe.
    pub(crate) fn open_at(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, JailError> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK };
        self.resolve_path(path, flags, mode, LINKS_MAX)
            .map_err(|error| path_error(&display_path(path), error))
    }

    fn resolve_path(&self, path: &Path, flags: OFlags, mode: Mode, links_max: u32) -> Result<OwnedFd, Errno> {
        // The opened folders below the root, and the remaining names, the next one last.
        let mut folders: Vec<OwnedFd> = Vec::new();
        let mut left = Vec::new();
        push_names(path, &mut left)?;
        let (mut links, mut names) = (0, 0);
        while let Some(name) = left.pop() {
            names += 1;
            if names > NAMES_MAX || folders.len() > DEPTH_MAX {
                return Err(Errno::NAMETOOLONG);
            }
            if name == ".." {
                // `..` above the root is outside.
                folders.pop().ok_or(Errno::XDEV)?;
                continue;
            }
            let folder = folders.last().unwrap_or(&self.root);
            let opened = if left.is_empty() {
                openat(folder, &name, flags | OFlags::NOFOLLOW, mode)
            } else {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(folder, &name, flags, Mode::empty())
            };
            match opened {
                Ok(opened) if left.is_empty() && !is_followed_link(&opened, flags)? => return Ok(opened),
                Ok(opened) if !left.is_empty() => folders.push(opened),
                Err(error @ (Errno::LOOP | Errno::NOTDIR))
                    if left.is_empty() && flags.contains(OFlags::NOFOLLOW) =>
                {
                    return Err(error);
                }
                // A link, or a file that was one a moment ago.
                Ok(_) | Err(Errno::LOOP | Errno::NOTDIR) => {
                    links += 1;
                    if links > links_max {
                        return Err(Errno::LOOP);
                    }
                    let target = match readlinkat(folder, &name, Vec::new()) {
                        Ok(target) => OsString::from_vec(target.into_bytes()),
                        Err(Errno::INVAL) => return Err(Errno::NOTDIR),
                        Err(error) => return Err(error),
                    };
                    push_names(Path::new(&target), &mut left)?;
                }
                Err(Errno::INTR) => left.push(name),
                Err(error) => return Err(error),
            }
        }
        // Only folders were traversed.
        openat(folders.last().unwrap_or(&self.root), ".", flags, mode)
    }

    /// Opens a file for reading, by a path that a model wrote. Also returns its path relative to the workspace.
    pub(crate) fn open_file(&self, text: &str) -> Result<(PathBuf, File), JailError> {
        let (path, file) = self.open_named(text, OFlags::RDONLY)?;
        let kind = fstat(&file).map_err(|error| path_error(&display_path(&path), error))?.st_mode;
        match FileType::from_raw_mode(kind) {
            FileType::RegularFile => Ok((path, File::from(file))),
            FileType::Directory => Err(JailError::IsFolder(display_path(&path))),
            _ => Err(JailError::Special(display_path(&path))),
        }
    }

    /// Sets the output of the program that has unpacked the archive that the task reads.
    pub(crate) fn set_unpacked(&self, unpacked: Result<UnpackedArchive, ExtractError>) {
        self.unpacked.set(Some(unpacked));
    }

    /// Extracts the text of the file that the task reads, within the bounds.
    pub(crate) fn extract_text(
        &self,
        path: &Path,
        file: File,
        bounds: &ExtractBounds,
    ) -> Result<Extracted, ExtractError> {
        match self.unpacked.take() {
            Some(unpacked) => extract_unpacked(&unpacked?, bounds),
            None => extract_part(path, file, bounds),
        }
    }

    /// Returns the index path and stamp of a file, or `None` if the path passes a link, contains `..`, or is not a
    /// regular file.
    pub(crate) fn find_file(&self, text: &str) -> Option<FoundFile> {
        let path = path::parse_path(text).ok()?;
        if path.components().any(|name| name == Component::ParentDir) {
            return None;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (path, file) = match self.resolve_path(&path, flags, Mode::empty(), 0) {
            Ok(file) => (path, file),
            Err(_) => {
                let path = self.resolve_spelling(&path)?;
                let file = self.resolve_path(&path, flags, Mode::empty(), 0).ok()?;
                (path, file)
            }
        };
        let metadata = File::from(file).metadata().ok().filter(std::fs::Metadata::is_file)?;
        let path = format!("/{}", path.to_str()?);
        let hidden = path.split('/').any(|name| name.starts_with('.'));
        Some(FoundFile { path, stamp: file_stamp(&metadata), hidden })
    }

    /// Opens a folder for listing, by a path that a model wrote.
    pub(crate) fn open_folder(&self, text: &str) -> Result<(PathBuf, OwnedFd), JailError> {
        self.open_named(text, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens the name as written, or else as results display it, or in another Unicode normal form.
    fn open_named(&self, text: &str, flags: OFlags) -> Result<(PathBuf, OwnedFd), JailError> {
        let path = path::parse_path(text)?;
        match self.open_at(&path, flags, Mode::empty()) {
            Err(JailError::Missing(name)) => {
                let meant = [path::decode_path(&path), self.resolve_spelling(&path)];
                let mut opened = meant.into_iter().flatten().filter_map(|path| {
                    let opened = self.open_at(&path, flags, Mode::empty()).ok()?;
                    Some((path, opened))
                });
                opened.next().ok_or(JailError::Missing(name))
            }
            opened => opened.map(|opened| (path, opened)),
        }
    }

    /// Returns the intended path for one that names no file: in each folder the exact name, else the only name that is equal in
    /// composed form, else the unchanged name. Returns `None` if that is the path itself. macOS uploads names decomposed, and
    /// models write them composed.
    pub(crate) fn resolve_spelling(&self, path: &Path) -> Option<PathBuf> {
        if path.as_os_str().is_ascii() {
            return None;
        }
        let mut found = PathBuf::new();
        for name in path.components() {
            let folder = if found.as_os_str().is_empty() { Path::new(".") } else { &found };
            let name =
                self.equal_name(folder, name.as_os_str()).unwrap_or_else(|| name.as_os_str().to_owned());
            found.push(name);
        }
        (found != path).then_some(found)
    }

    /// Returns the only name in a folder that equals a missing one in composed form.
    fn equal_name(&self, folder: &Path, name: &OsStr) -> Option<OsString> {
        let composed = name.to_str().filter(|name| !name.is_ascii())?.nfc().collect::<String>();
        let opened = self.open_at(folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).ok()?;
        if metadata_at(&opened, name).is_some() {
            return None;
        }
        let mut found = None;
        for (number, entry) in Dir::read_from(&opened).ok()?.enumerate() {
            let entry = entry.ok().filter(|_| number <= ENTRIES_MAX)?;
            let other = entry.file_name().to_str().ok().filter(|other| !other.is_ascii());
            if other.is_some_and(|other| other.nfc().eq(composed.chars())) {
                if found.is_some() {
                    return None;
                }
                found = Some(OsString::from_vec(entry.file_name().to_bytes().to_vec()));
            }
        }
        found
    }

    /// Opens the parent folder of a file to be written; creates missing folders.
    pub(crate) fn open_parent(&self, path: &Path) -> Result<OwnedFd, JailError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match self.open_at(parent, flags, Mode::empty()) {
            Err(JailError::Missing(_)) => {}
            opened => return opened,
        }
        let mut made = PathBuf::new();
        let mut folder = self.open_at(Path::new("."), flags, Mode::empty())?;
        for name in parent.components() {
            match rustix::fs::mkdirat(&folder, name.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(path_error(&display_path(&made.join(name)), error)),
            }
            made.push(name);
            folder = self.open_at(&made, flags, Mode::empty())?;
        }
        Ok(folder)
    }

    /// Returns the free space on the workspace's disk.
    pub(crate) fn free_space(workspace: &Path) -> Option<Free> {
        let folder =
            open(workspace, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let disk = rustix::fs::fstatvfs(folder).ok()?;
        // Some file systems have no limit on files and report 0.
        let files = (disk.f_files > 0).then_some(FileCapacity { total: disk.f_files, free: disk.f_favail });
        Some(Free { bytes: disk.f_bavail.saturating_mul(disk.f_frsize), files })
    }
}

/// The free space on a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Free {
    pub(crate) bytes: u64,
    pub(crate) files: Option<FileCapacity>,
}

/// The number of files that a disk can hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileCapacity {
    pub(crate) total: u64,
    pub(crate) free: u64,
}

/// Pushes the names of a path onto the names that remain to be resolved.
fn push_names(path: &Path, left: &mut Vec<OsString>) -> Result<(), Errno> {
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT);
    }
    let at = left.len();
    for component in path.components() {
        match component {
            Component::Normal(name) => left.push(name.to_owned()),
            Component::ParentDir => left.push(OsString::from("..")),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
    }
    left[at..].reverse();
    Ok(())
}

/// Returns true if the walk opened a link that must be followed: with `O_PATH` the kernel opens links themselves.
fn is_followed_link(opened: &OwnedFd, flags: OFlags) -> Result<bool, Errno> {
    if !flags.contains(OFlags::PATH) || flags.contains(OFlags::NOFOLLOW) {
        return Ok(false);
    }
    Ok(FileType::from_raw_mode(fstat(opened)?.st_mode) == FileType::Symlink)
}

/// Returns the metadata of an entry without following links.
pub(crate) fn metadata_at(folder: &OwnedFd, name: &OsStr) -> Option<std::fs::Metadata> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(openat(folder, name, flags, Mode::empty()).ok()?).metadata().ok()
}

pub(crate) fn path_error(path: &str, error: Errno) -> JailError {
    let path = path.to_owned();
    match error {
        Errno::NOENT => JailError::Missing(path),
        Errno::XDEV | Errno::LOOP => JailError::LeadsOut(path),
        Errno::ISDIR => JailError::IsFolder(path),
        Errno::NOTDIR => JailError::NotFolder(path),
        error => JailError::Os(path, error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn open_file_in_other_normal_form() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sloz\u{30c}ka")).unwrap();
        std::fs::write(folder.path().join("sloz\u{30c}ka/c\u{30c}a\u{301}p.txt"), "kingfisher").unwrap();
        std::fs::write(folder.path().join("\u{e9}.txt"), "exact").unwrap();
        std::fs::write(folder.path().join("e\u{301}.txt"), "other").unwrap();
        let jail = Jail::open_workspace(folder.path()).unwrap();
        let (path, _) = jail.open_file("/slo\u{17e}ka/\u{10d}\u{e1}p.txt").unwrap();
        assert_eq!(path, Path::new("sloz\u{30c}ka/c\u{30c}a\u{301}p.txt"));
        let found = jail.find_file("/slo\u{17e}ka/\u{10d}\u{e1}p.txt").unwrap();
        assert_eq!(found.path, "/sloz\u{30c}ka/c\u{30c}a\u{301}p.txt");
        assert!(jail.open_folder("/slo\u{17e}ka").is_ok());
        assert_eq!(jail.open_file("/\u{e9}.txt").unwrap().0, Path::new("\u{e9}.txt"), "the exact one counts");
        assert!(matches!(jail.open_file("/slo\u{17e}ka/x\u{e9}.txt"), Err(JailError::Missing(_))));
        let new = jail.resolve_spelling(Path::new("slo\u{17e}ka/nov\u{fd}.txt"));
        assert_eq!(new.as_deref(), Some(Path::new("sloz\u{30c}ka/nov\u{fd}.txt")));
    }

    /// Runs without any confinement: path resolution alone must keep links inside.
    #[test]
    fn links_and_climbing_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("workspace");
        std::fs::create_dir_all(root.join("inside")).unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("inside/own"), "own").unwrap();
        symlink(folder.path().join("secret"), root.join("absolute")).unwrap();
        symlink("../secret", root.join("relative")).unwrap();
        symlink("..", root.join("inside/up")).unwrap();
        symlink("../..", root.join("inside/out")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let jail = Jail::open_workspace(&root).unwrap();
        for path in
            ["absolute", "relative", "inside/out/secret", "inside/up/../secret", "magic/etc/passwd", "loop"]
        {
            let refused = jail.open_file(path);
            assert!(matches!(refused, Err(JailError::LeadsOut(_))), "{path}: {refused:?}");
            assert!(jail.open_parent(&Path::new(path).join("new")).is_err(), "{path}");
        }
        assert!(matches!(jail.open_file("../secret"), Err(JailError::Path(WorkspacePathError::Outside(_)))));
        let mut text = String::new();
        jail.open_file("inside/up/inside/own").unwrap().1.read_to_string(&mut text).unwrap();
        assert_eq!(text, "own");
    }
}
