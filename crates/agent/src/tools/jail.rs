//! The workspace as the kernel lets tools see it: everything is opened beneath its folder, so that no link and
//! no `..` leads out, whatever changes meanwhile.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;

use super::path::{self, PathError, shown};

/// How often an opening is tried again that a concurrent renaming disturbed.
const TRIES_MAX: u32 = 16;

/// Why something in the workspace can't be worked on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JailError {
    #[error(transparent)]
    Path(#[from] PathError),
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
    #[error("{0} cannot be opened: {1}")]
    Os(String, Errno),
}

/// The workspace's folder, opened.
pub(crate) struct Jail {
    root: OwnedFd,
}

impl Jail {
    pub(crate) fn open(workspace: &Path) -> Result<Self, JailError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(workspace, flags, Mode::empty()).map_err(|error| told("/", error))?;
        Ok(Self { root })
    }

    /// Opens what a path relative to the workspace names. Never blocks on a pipe.
    pub(crate) fn at(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, JailError> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match openat2(&self.root, path, flags, mode, resolve) {
                Err(Errno::AGAIN | Errno::INTR) if tries < TRIES_MAX => tries += 1,
                opened => return opened.map_err(|error| told(&shown(path), error)),
            }
        }
    }

    /// Opens a file for reading by a path as a model writes it. Gives its path relative to the workspace, too.
    pub(crate) fn file(&self, text: &str) -> Result<(PathBuf, File), JailError> {
        let (path, file) = self.named(text, OFlags::RDONLY)?;
        let kind = fstat(&file).map_err(|error| told(&shown(&path), error))?.st_mode;
        match FileType::from_raw_mode(kind) {
            FileType::RegularFile => Ok((path, File::from(file))),
            FileType::Directory => Err(JailError::IsFolder(shown(&path))),
            _ => Err(JailError::Special(shown(&path))),
        }
    }

    /// Opens a folder for listing by a path as a model writes it.
    pub(crate) fn folder(&self, text: &str) -> Result<(PathBuf, OwnedFd), JailError> {
        self.named(text, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The name as written, else as results show it.
    fn named(&self, text: &str, flags: OFlags) -> Result<(PathBuf, OwnedFd), JailError> {
        let path = path::parse(text)?;
        match self.at(&path, flags, Mode::empty()) {
            Err(JailError::Missing(name)) => {
                let Some(decoded) = path::decoded(&path) else { return Err(JailError::Missing(name)) };
                let opened = self.at(&decoded, flags, Mode::empty()).map_err(|_| JailError::Missing(name))?;
                Ok((decoded, opened))
            }
            opened => opened.map(|opened| (path, opened)),
        }
    }

    /// The folder of a file that is to be written, made with those above it where they are missing.
    pub(crate) fn parent(&self, path: &Path) -> Result<OwnedFd, JailError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match self.at(parent, flags, Mode::empty()) {
            Err(JailError::Missing(_)) => {}
            opened => return opened,
        }
        let mut made = PathBuf::new();
        let mut folder = self.at(Path::new("."), flags, Mode::empty())?;
        for name in parent.components() {
            match rustix::fs::mkdirat(&folder, name.as_os_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(told(&shown(&made.join(name)), error)),
            }
            made.push(name);
            folder = self.at(&made, flags, Mode::empty())?;
        }
        Ok(folder)
    }

    /// Bytes that are free on the workspace's disk.
    pub(crate) fn free_bytes(workspace: &Path) -> Option<u64> {
        let folder =
            open(workspace, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let disk = rustix::fs::fstatvfs(folder).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

/// Whether a path names something, without following it where it ends in a link.
pub(crate) fn kind_at(folder: &OwnedFd, name: &std::ffi::OsStr) -> Option<(FileType, u32)> {
    let stat = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some((FileType::from_raw_mode(stat.st_mode), stat.st_mode & 0o777))
}

pub(crate) fn told(path: &str, error: Errno) -> JailError {
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

    /// Without any confinement: the kernel's resolution alone keeps links inside.
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
        let jail = Jail::open(&root).unwrap();
        for path in
            ["absolute", "relative", "inside/out/secret", "inside/up/../secret", "magic/etc/passwd", "loop"]
        {
            let refused = jail.file(path);
            assert!(matches!(refused, Err(JailError::LeadsOut(_))), "{path}: {refused:?}");
            assert!(jail.parent(&Path::new(path).join("new")).is_err(), "{path}");
        }
        assert!(matches!(jail.file("../secret"), Err(JailError::Path(PathError::Outside(_)))));
        let mut text = String::new();
        jail.file("inside/up/inside/own").unwrap().1.read_to_string(&mut text).unwrap();
        assert_eq!(text, "own");
    }
}
