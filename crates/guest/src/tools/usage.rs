//! Measures the disk usage of the workspace: of all its folders, also folders that their owner has locked, and of
//! deleted files that are still open.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, chmodat, fstat, statat};
use rustix::io::Errno;

use super::jail::Jail;

/// The maximum number of entries that are measured.
const ENTRIES_MAX: usize = 2_000_000;
/// The maximum number of open files that are examined.
const OPEN_FILES_MAX: usize = 100_000;
/// The permissions that the owner of a folder needs to read it, and the folders in it.
const READABLE: Mode = Mode::RUSR.union(Mode::XUSR);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);

/// Returns the disk usage of the workspace in bytes; `None` if it could not be measured whole.
pub(crate) fn measure_usage(jail: &Jail, until: Instant) -> Option<u64> {
    let mut unlocked = Unlocked { jail, folders: Vec::new() };
    let named = named_bytes(&mut unlocked, until)?;
    Some(named.saturating_add(unnamed_bytes(jail, until)))
}

/// The folders whose permissions were changed to look into them; changed back when it is dropped.
struct Unlocked<'j> {
    jail: &'j Jail,
    folders: Vec<(PathBuf, Mode)>,
}

impl Unlocked<'_> {
    /// Makes a folder readable for its owner if it is not.
    fn unlock_folder(&mut self, folder: &Path, mode: Mode) -> bool {
        if mode.contains(READABLE) {
            return true;
        }
        let is_unlocked = set_mode(self.jail, folder, mode | READABLE);
        if is_unlocked {
            self.folders.push((folder.to_owned(), mode));
        }
        is_unlocked
    }
}

impl Drop for Unlocked<'_> {
    fn drop(&mut self) {
        // Inner folders first, while they can be reached.
        for (folder, mode) in self.folders.drain(..).rev() {
            set_mode(self.jail, &folder, mode);
        }
    }
}

fn set_mode(jail: &Jail, folder: &Path, mode: Mode) -> bool {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return false };
    let parent = if parent == Path::new("") { Path::new(".") } else { parent };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let Ok(parent) = jail.open_at(parent, flags, Mode::empty()) else { return false };
    chmodat(&parent, name, mode, AtFlags::empty()).is_ok()
}

/// Returns the usage of all files with a name.
fn named_bytes(unlocked: &mut Unlocked<'_>, until: Instant) -> Option<u64> {
    let (mut bytes, mut seen) = (0_u64, 0);
    let mut waiting = vec![PathBuf::from(".")];
    while let Some(folder) = waiting.pop() {
        let Ok(opened) = unlocked.jail.open_at(&folder, FOLDER, Mode::empty()) else {
            // It was deleted, or cannot be unlocked.
            if unlocked.jail.open_at(&folder, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).is_ok() {
                return None;
            }
            continue;
        };
        let reader = Dir::read_from(&opened).ok()?;
        for found in reader {
            let name = OsString::from(OsStr::from_bytes(found.ok()?.file_name().to_bytes()));
            if name == "." || name == ".." {
                continue;
            }
            seen += 1;
            if seen > ENTRIES_MAX || Instant::now() > until {
                return None;
            }
            let stat = match statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(_) => return None,
            };
            bytes = bytes.saturating_add(disk_bytes(&stat));
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                let path = if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) };
                if !unlocked.unlock_folder(&path, Mode::from_raw_mode(stat.st_mode)) {
                    return None;
                }
                waiting.push(path);
            }
        }
    }
    Some(bytes)
}

fn disk_bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

/// Returns the usage of deleted files of the workspace's disk that processes of this user hold open.
fn unnamed_bytes(jail: &Jail, until: Instant) -> u64 {
    let root = jail.open_at(Path::new("."), OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
    let Some(disk) = root.ok().and_then(|root| fstat(&root).ok()).map(|stat| stat.st_dev) else { return 0 };
    let (mut bytes, mut seen, mut known) = (0_u64, 0, HashSet::new());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter(|entry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit)) {
        for file in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            seen += 1;
            if seen > OPEN_FILES_MAX || Instant::now() > until {
                return bytes;
            }
            let Ok(metadata) = fs::metadata(file.path()) else { continue };
            let is_unnamed = metadata.is_file() && metadata.nlink() == 0 && metadata.dev() == disk;
            if is_unnamed && known.insert(metadata.ino()) {
                bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    fn folder_usage(folder: &Path) -> u64 {
        let jail = Jail::open_workspace(folder).unwrap();
        measure_usage(&jail, Instant::now() + Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn measure_usage_keeps_folders_locked() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("locked/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("a"), vec![1; 1 << 20]).unwrap();
        let before = folder_usage(folder.path());
        assert!(before >= 1 << 20);
        let places = [inner.clone(), folder.path().join("locked")];
        for (mode, place) in
            [0o000, 0o400].into_iter().flat_map(|mode| places.iter().map(move |place| (mode, place)))
        {
            fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(folder_usage(folder.path()), before, "{mode:o}");
            assert_eq!(fs::metadata(place).unwrap().permissions().mode() & 0o777, mode);
            fs::set_permissions(place, fs::Permissions::from_mode(0o700)).unwrap();
        }
    }

    #[test]
    fn measure_usage_counts_deleted_files() {
        let folder = tempfile::tempdir().unwrap();
        let before = folder_usage(folder.path());
        let place = folder.path().join("gone");
        fs::write(&place, vec![1; 1 << 20]).unwrap();
        let open = fs::File::open(&place).unwrap();
        fs::remove_file(&place).unwrap();
        assert!(folder_usage(folder.path()) >= before + (1 << 20));
        drop(open);
    }
}
