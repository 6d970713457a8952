//! The layout of an image's tree: the parts of a source that are kept, and the files that every machine needs.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{ImageErrorContext, MachineImageError};
use crate::metadata::{FILE_MODE, FOLDER_MODE, timestamps_at};

/// The time of everything that this module makes, in seconds since 1970: the same in every build.
const MODIFIED: u64 = 0;
/// The user of tools in machines.
const TOOLS_ID: u32 = 1000;
/// The largest file of the tree that the host reads.
const READ_MAX_BYTES: u64 = 32 << 20;

/// The folders that a machine mounts over.
const MOUNT_POINTS: [&str; 8] = ["dev", "index", "plugins", "proc", "run", "tmp", "var", "workspace"];
/// The file over which the agent's program is mounted.
const AGENT: &str = "agent";
/// The entries at the top whose place a machine needs.
const REPLACED: [&[u8]; 10] =
    [b"agent", b"dev", b"index", b"plugins", b"proc", b"run", b"sys", b"tmp", b"workspace", b".dockerenv"];
/// The folders that hold logs and caches, which differ from build to build.
const EMPTIED: [&[&[u8]]; 5] = [
    &[b"var", b"log"],
    &[b"var", b"tmp"],
    &[b"var", b"cache"],
    &[b"var", b"backups"],
    &[b"var", b"lib", b"apt", b"lists"],
];
/// A cache without which programs read all fonts again at each start.
const CACHE_KEPT: &[&[u8]] = &[b"var", b"cache", b"fontconfig"];
/// Folders that are removed if the source has nothing in them.
const REMOVED_IF_EMPTY: [&str; 8] = ["boot", "home", "media", "mnt", "opt", "root", "srv", "sys"];
/// Secrets of a system, and files that describe the host that made it.
const REMOVED_OF_ETC: [&str; 10] = [
    "gshadow",
    "gshadow-",
    "shadow",
    "shadow-",
    "passwd-",
    "group-",
    ".pwd.lock",
    "machine-id",
    "resolv.conf",
    "mtab",
];

/// The handling of an entry of a source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    /// Left out without a report: the machine has its own.
    Replaced,
    Refused(&'static str),
}

/// Decides how to handle an entry by its path.
pub(crate) fn entry_fate(path: &[&[u8]]) -> Fate {
    if path.first().is_some_and(|first| REPLACED.contains(first)) {
        return Fate::Replaced;
    }
    if path.starts_with(CACHE_KEPT) {
        return Fate::Kept;
    }
    if EMPTIED.iter().any(|folder| path.starts_with(folder) && path.len() > folder.len())
        || path == EMPTIED[1]
        || (path.starts_with(&[b"var", b"lib", b"dpkg"])
            && path.last().is_some_and(|name| name.ends_with(b"-old")))
    {
        return Fate::Replaced;
    }
    if path.iter().any(|name| name.starts_with(b".wh.")) {
        return Fate::Refused("a deletion from another layer; export the whole container instead");
    }
    Fate::Kept
}

/// Adds the entries that every machine needs: mount points, users, and host names.
///
/// # Errors
/// [`MachineImageError::Archive`] if the tree is not a root file system.
pub(crate) fn complete_tree(root: &Path) -> Result<(), MachineImageError> {
    let tree = ImageTree::open_root(root)?;
    tree.require_shell()?;
    for name in MOUNT_POINTS {
        tree.create_folder(name)?;
    }
    tree.write_file(&tree.root, AGENT, "")?;
    let var = tree.create_folder("var")?;
    rustix::fs::symlinkat(c"/tmp", &var, c"tmp").with_context(|| "linking /var/tmp".into())?;
    // A file system that does not store times of links is accepted.
    let _ = rustix::fs::utimensat(&var, c"tmp", &timestamps_at(MODIFIED), AtFlags::SYMLINK_NOFOLLOW);
    let etc = tree.create_folder("etc")?;
    for name in REMOVED_OF_ETC {
        match rustix::fs::unlinkat(&etc, name, AtFlags::empty()) {
            // A folder with that name does not hold a system's secrets.
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(errno) => return Err(errno).with_context(|| format!("removing /etc/{name}")),
        }
    }
    for (name, content) in etc_files() {
        tree.write_file(&etc, name, &content)?;
    }
    for name in REMOVED_IF_EMPTY {
        match rustix::fs::unlinkat(&tree.root, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno).with_context(|| format!("removing /{name}")),
        }
    }
    for folder in [&var, &etc, &tree.root] {
        rustix::fs::utimensat(folder, c".", &timestamps_at(MODIFIED), AtFlags::empty())
            .with_context(|| "setting the time of a folder".into())?;
    }
    Ok(())
}

fn etc_files() -> [(&'static str, String); 5] {
    let passwd = format!(
        "root:x:0:0:agent:/tmp:/usr/sbin/nologin\nuser:x:{TOOLS_ID}:{TOOLS_ID}:user:/workspace:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    [
        ("passwd", passwd),
        ("group", format!("root:x:0:\nuser:x:{TOOLS_ID}:\nnogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost machine\n::1 localhost machine\n".to_owned()),
        ("hostname", "machine\n".to_owned()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
    ]
}

/// Reads a file of the tree, following links only inside it; `None` if it is missing or not text.
pub(crate) fn read_file(root: &Path, path: &str) -> Option<String> {
    let tree = ImageTree::open_root(root).ok()?;
    let file = tree.open_path(path, OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
    let mut text = String::new();
    File::from(file).take(READ_MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

struct ImageTree {
    root: OwnedFd,
}

impl ImageTree {
    fn open_root(root: &Path) -> Result<Self, MachineImageError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty())
            .with_context(|| "opening the new tree".into())?;
        Ok(Self { root })
    }

    /// Opens a path as a process inside a machine would.
    fn open_path(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    fn require_shell(&self) -> Result<(), MachineImageError> {
        let is_program = |path| {
            let stat = self.open_path(path, OFlags::PATH).and_then(rustix::fs::fstat).ok()?;
            let file = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
            (file && stat.st_mode & 0o111 != 0).then_some(())
        };
        if is_program("bin/sh").is_some() {
            return Ok(());
        }
        let hint = if self.open_path("manifest.json", OFlags::PATH).is_ok() {
            "; it looks like the output of `docker save`, use `docker export CONTAINER`"
        } else {
            ""
        };
        Err(MachineImageError::Archive(format!("not a root file system: bin/sh is missing{hint}")))
    }

    /// Opens a folder at the top of the tree; creates it if it is missing.
    fn create_folder(&self, name: &str) -> Result<OwnedFd, MachineImageError> {
        let what = || format!("making /{name} of the new tree");
        match rustix::fs::mkdirat(&self.root, name, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).with_context(what),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match rustix::fs::openat(&self.root, name, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(MachineImageError::Archive(format!("/{name} is not a folder")));
            }
            opened => opened.with_context(what)?,
        };
        rustix::fs::chmodat(&folder, c".", FOLDER_MODE, AtFlags::empty()).with_context(what)?;
        rustix::fs::utimensat(&folder, c".", &timestamps_at(MODIFIED), AtFlags::empty())
            .with_context(what)?;
        Ok(folder)
    }

    /// Writes a file, replacing any entry with its name.
    fn write_file(&self, folder: &OwnedFd, name: &str, content: &str) -> Result<(), MachineImageError> {
        let what = || format!("writing {name} of the new tree");
        match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => {
                return Err(MachineImageError::Archive(format!("{name} is a folder, not a file")));
            }
            Err(errno) => return Err(errno).with_context(what),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, OsStr::new(name), flags, FILE_MODE).with_context(what)?;
        let mut file = File::from(file);
        file.write_all(content.as_bytes()).with_context(what)?;
        rustix::fs::fchmod(&file, FILE_MODE).with_context(what)?;
        rustix::fs::futimens(&file, &timestamps_at(MODIFIED)).with_context(what)
    }
}
