//! Walks all files of all accounts for backups. Follows no links, and tolerates changes by machines during the walk.

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, SeekFrom, Stat, fstat, openat, readlinkat, seek};
use rustix::io::Errno;

use crate::account::{DATABASE_MARKER, Workspaces};
use crate::jail::{FOLDER_FLAGS, file_type, size_on_disk, stat_size};
use crate::path::is_staging;
use crate::resumable::UNFINISHED_FOLDER;
use crate::tree::{TreeEntry, TreeWalk, open_file, open_path};

/// The maximum length of a path, relative to the folder of all accounts; longer ones are skipped. Clients of the
/// interface cannot create half of it, but tools can nest folders without limit.
const PATH_KEPT_MAX_BYTES: usize = 8 * 1024;

/// Limits the leased files that are retried at the end; further ones are omitted.
const LEASED_MAX: usize = 256;

/// The maximum time that a file stays leased after another process wants to open it: the kernel's default and a margin.
const LEASE_WAIT: Duration = Duration::from_secs(50);

/// The interval between attempts to open a leased file.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A smaller hole counts as content.
const HOLE_MIN_BYTES: u64 = 64 * 1024;

/// A file with more pieces between holes is omitted.
const PIECES_MAX: usize = 1_000_000;

/// An entry of a workspace.
#[derive(Debug)]
pub struct WorkspaceEntry {
    /// Its path, which starts with the account.
    pub path: PathBuf,
    pub mode: u32,
    /// The modification time, in seconds since 1970.
    pub modified: u64,
    pub content: BackupContent,
}

/// The content of an entry in a backup.
#[derive(Debug)]
pub enum BackupContent {
    File(WorkspaceFile),
    /// A folder. Its entries follow, except for leased files, which come last of all.
    Folder,
    /// A link to this target.
    Link(PathBuf),
    /// Omitted for this reason, with all contents of a folder.
    LeftOut(String),
}

/// A file, open for reading. It may grow and shrink in the meantime.
#[derive(Debug)]
pub struct WorkspaceFile {
    pub file: File,
    /// The size in bytes when the file was opened.
    pub size: u64,
    /// The ranges with content, in order; between them are holes.
    pub pieces: Vec<Range<u64>>,
    /// The device and inode of a file with several names.
    pub shared: Option<(u64, u64)>,
}

/// A file to be retried: its path and descriptor.
type LeasedWalk = (PathBuf, OwnedFd);

impl Workspaces {
    /// Visits everything, folders before their contents. Skips entries that disappear during the walk, and reports
    /// unreadable ones as omitted. The service owns the files, so permissions do not matter. Blocks; waits at most a
    /// minute for leased files.
    ///
    /// # Errors
    /// Errors of the file system for the folder of all accounts, and errors of `visit`, which stop the walk.
    pub fn walk_all(&self, visit: &mut dyn FnMut(WorkspaceEntry) -> io::Result<()>) -> io::Result<()> {
        self.everything_within(LEASE_WAIT, visit)
    }

    fn everything_within(
        &self,
        lease_wait: Duration,
        visit: &mut dyn FnMut(WorkspaceEntry) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut walk = TreeWalk::new(openat(self.root_fd(), c".", FOLDER_FLAGS, Mode::empty())?)?;
        // The current path, and its length at each level.
        let (mut path, mut lengths) = (Vec::new(), vec![0]);
        let mut leased = Vec::new();
        while let Some(next) = walk.next() {
            let entry = match next {
                Ok(entry) => entry,
                Err(errno) => {
                    path.truncate(lengths.last().copied().unwrap_or(0));
                    visit(left_out(PathBuf::from(OsString::from_vec(path.clone())), format_reason(errno)))?;
                    continue;
                }
            };
            // Content of unfinished uploads belongs to nobody yet, and the marker to the folder.
            let name = entry.name.to_bytes();
            let is_passed_over = match entry.depth {
                1 => name == UNFINISHED_FOLDER.as_bytes() || name.starts_with(DATABASE_MARKER.as_bytes()),
                2 => is_staging(name),
                _ => false,
            };
            if is_passed_over {
                continue;
            }
            lengths.truncate(entry.depth);
            path.truncate(lengths.last().copied().unwrap_or(0));
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(entry.name.to_bytes());
            let own = PathBuf::from(OsString::from_vec(path.clone()));
            let (visited, enters) = match visit_entry(&mut walk, &entry, own) {
                Ok(Some(VisitedEntry::Kept(visited))) => {
                    let enters = matches!(visited.content, BackupContent::Folder);
                    (visited, enters)
                }
                Ok(Some(VisitedEntry::Leased((path, _)))) if leased.len() >= LEASED_MAX => {
                    (left_out(path, format_reason(Errno::WOULDBLOCK)), false)
                }
                Ok(Some(VisitedEntry::Leased(file))) => {
                    leased.push(file);
                    continue;
                }
                Ok(None) => continue,
                Err(visited) => (visited, false),
            };
            visit(visited)?;
            if enters {
                lengths.push(path.len());
            }
        }
        // All leases were broken at the same time, so that one wait is enough.
        let deadline = Instant::now() + lease_wait;
        leased.into_iter().try_for_each(|file| visit(wait_for_lease(file, deadline)))
    }
}

/// The result of examining an entry.
enum VisitedEntry {
    Kept(WorkspaceEntry),
    Leased(LeasedWalk),
}

/// Examines an entry, and enters it if it is a folder. Returns `None` if it has disappeared, and an omitted entry as an
/// error.
fn visit_entry(
    walk: &mut TreeWalk,
    entry: &TreeEntry,
    path: PathBuf,
) -> Result<Option<VisitedEntry>, WorkspaceEntry> {
    if path.as_os_str().len() > PATH_KEPT_MAX_BYTES {
        let reason = format!("its path has more than {PATH_KEPT_MAX_BYTES} bytes");
        return Err(left_out(path, reason));
    }
    match entry_of(walk, &entry.name, &path) {
        Ok(looked) => Ok(Some(looked)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(left_out(path, format_reason(errno))),
    }
}

fn entry_of(walk: &mut TreeWalk, name: &CStr, path: &Path) -> Result<VisitedEntry, Errno> {
    let at = open_path(walk.current_folder()?, name)?;
    let stat = fstat(&at)?;
    let content = match file_type(&stat) {
        FileType::RegularFile => match read_file(&at, &stat) {
            Ok(content) => content,
            Err(Errno::WOULDBLOCK) => return Ok(VisitedEntry::Leased((path.to_owned(), at))),
            Err(other) => return Err(other),
        },
        FileType::Directory => {
            walk.enter_folder(name)?;
            BackupContent::Folder
        }
        FileType::Symlink => {
            let target = readlinkat(&at, c"", Vec::new())?;
            BackupContent::Link(PathBuf::from(OsString::from_vec(target.into_bytes())))
        }
        FileType::Fifo => BackupContent::LeftOut("it is a pipe".to_owned()),
        FileType::Socket => BackupContent::LeftOut("it is a socket".to_owned()),
        _ => BackupContent::LeftOut("it is a device".to_owned()),
    };
    Ok(VisitedEntry::Kept(new_entry(path.to_owned(), &stat, content)))
}

fn read_file(at: &OwnedFd, stat: &Stat) -> Result<BackupContent, Errno> {
    let opened = open_file(at, stat)?;
    let stat = fstat(&opened)?;
    let Some(pieces) = content_ranges(&opened, &stat)? else {
        return Ok(BackupContent::LeftOut(format!("it has more than {PIECES_MAX} holes")));
    };
    let shared = (stat.st_nlink > 1).then_some((stat.st_dev, stat.st_ino));
    Ok(BackupContent::File(WorkspaceFile {
        file: File::from(opened),
        size: stat_size(&stat),
        pieces,
        shared,
    }))
}

/// Returns the ranges with content; `None` if there are too many.
fn content_ranges(file: impl AsFd, stat: &Stat) -> Result<Option<Vec<Range<u64>>>, Errno> {
    let end = stat_size(stat);
    if size_on_disk(stat) >= end {
        return Ok(Some((end > 0).then_some(0..end).into_iter().collect()));
    }
    let mut pieces: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < end {
        let from = match seek(&file, SeekFrom::Data(at)) {
            Ok(from) if from < end => from,
            // The rest is a hole.
            Ok(_) | Err(Errno::NXIO) => break,
            // The file system does not report holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(iter::once(0..end).collect())),
            Err(other) => return Err(other),
        };
        at = match seek(&file, SeekFrom::Hole(from)) {
            Ok(to) => to.clamp(from + 1, end),
            Err(Errno::NXIO) => end,
            Err(other) => return Err(other),
        };
        let full = pieces.len() == PIECES_MAX;
        match pieces.last_mut() {
            Some(last) if from.saturating_sub(last.end) < HOLE_MIN_BYTES => last.end = at,
            _ if full => return Ok(None),
            _ => pieces.push(from..at),
        }
    }
    Ok(Some(pieces))
}

/// Waits for a leased file.
fn wait_for_lease((path, at): LeasedWalk, deadline: Instant) -> WorkspaceEntry {
    loop {
        let content = fstat(&at).and_then(|stat| Ok((read_file(&at, &stat)?, stat)));
        match content {
            Ok((content, stat)) => return new_entry(path, &stat, content),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(LEASE_POLL_INTERVAL),
            Err(errno) => return left_out(path, format_reason(errno)),
        }
    }
}

fn new_entry(path: PathBuf, stat: &Stat, content: BackupContent) -> WorkspaceEntry {
    let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
    WorkspaceEntry { path, mode: stat.st_mode & 0o777, modified, content }
}

fn left_out(path: PathBuf, reason: String) -> WorkspaceEntry {
    WorkspaceEntry { path, mode: 0, modified: 0, content: BackupContent::LeftOut(reason) }
}

fn format_reason(errno: Errno) -> String {
    match errno {
        Errno::WOULDBLOCK => "a program holds a lease on it".to_owned(),
        Errno::STALE => "it was moved while it was read".to_owned(),
        other => io::Error::from(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn leased_file_is_omitted_and_named() {
        const HOLD: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()
";
        let root = tempfile::tempdir().unwrap();
        let workspaces = Workspaces::new(root.path(), crate::Quota::default()).unwrap();
        std::fs::create_dir(root.path().join("account")).unwrap();
        for name in ["leased", "other"] {
            std::fs::write(root.path().join("account").join(name), "content").unwrap();
        }
        let mut holder = Command::new("python3");
        holder.args(["-c", HOLD]).arg(root.path().join("account/leased"));
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        holder.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
        let (mut files, mut left_out) = (0, Vec::new());
        let visited = workspaces.everything_within(Duration::ZERO, &mut |entry| {
            match entry.content {
                BackupContent::File(_) => files += 1,
                BackupContent::LeftOut(reason) => left_out.push((entry.path, reason)),
                BackupContent::Folder | BackupContent::Link(_) => {}
            }
            Ok(())
        });
        holder.kill().unwrap();
        holder.wait().unwrap();
        visited.unwrap();
        assert_eq!(files, 1);
        assert_eq!(left_out, [(PathBuf::from("account/leased"), format_reason(Errno::WOULDBLOCK))]);
    }

    #[test]
    fn small_holes_count_as_content() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        for at in [0, HOLE_MIN_BYTES / 2, 16 * HOLE_MIN_BYTES] {
            file.write_all_at(b"x", at).unwrap();
        }
        let size = 32 * HOLE_MIN_BYTES;
        file.set_len(size).unwrap();
        let pieces = content_ranges(&file, &fstat(&file).unwrap()).unwrap().unwrap();
        let [first, second] = &pieces[..] else { panic!("{pieces:?}") };
        assert!(first.start == 0 && first.end > HOLE_MIN_BYTES / 2 && first.end < 16 * HOLE_MIN_BYTES);
        assert!(second.contains(&(16 * HOLE_MIN_BYTES)) && second.end < size);
    }
}
