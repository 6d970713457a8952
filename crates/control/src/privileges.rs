//! Lets root's commands work as the owner of a data folder, so that they leave no file that the service cannot use.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::{geteuid, getuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Makes this thread and its later children act as the owner of an existing folder, if root runs it. Call it while
/// the process has a single thread. [`as_caller`] still runs work as the original user.
///
/// # Errors
/// Errors of the kernel.
pub fn become_owner(folder: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = match std::fs::metadata(folder) {
        Ok(owner) if owner.uid() == Uid::ROOT.as_raw() => return Ok(()),
        Ok(owner) => owner,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let become_it = || {
        set_thread_groups(&[])?;
        set_thread_res_gid(None, Gid::from_raw(owner.gid()), None)?;
        set_thread_res_uid(None, Uid::from_raw(owner.uid()), None)
    };
    match become_it() {
        // A root user that may not change its user, as in some containers, continues as itself.
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Runs work on this thread as the user who started the program, such as opening the user's own files after
/// [`become_owner`].
///
/// # Errors
/// Errors of the kernel when it does not let the thread change its user.
pub fn as_caller<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    if !acts_as_owner() {
        return Ok(work());
    }
    let owner = geteuid();
    set_thread_res_uid(None, Uid::ROOT, None)?;
    let done = work();
    set_thread_res_uid(None, owner, None)?;
    Ok(done)
}

/// Returns true if [`become_owner`] changed the user of this thread.
#[must_use]
pub fn acts_as_owner() -> bool {
    getuid().is_root() && !geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, metadata};
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn become_owner_creates_files_as_owner() {
        const SERVICE: u32 = 4711;
        let outer = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(outer.path(), PermissionsExt::from_mode(0o711)).expect("permissions");
        let (folder, own) = (outer.path().join("data"), outer.path().join("own"));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::create_dir(&own).expect("a folder");
        std::fs::set_permissions(&own, PermissionsExt::from_mode(0o700)).expect("permissions");
        if geteuid().is_root() {
            chown(&folder, Some(SERVICE), Some(SERVICE)).expect("given away");
        }
        let begun_as = geteuid().as_raw();
        let acting = std::thread::spawn(move || {
            become_owner(&folder).expect("its owner");
            File::create(folder.join("file")).expect("a file");
            let mine = as_caller(|| File::create(own.join("file"))).expect("the caller").expect("a file");
            File::create(folder.join("again")).expect("a file");
            let owner = metadata(&folder).expect("a folder");
            for name in ["file", "again"] {
                let made = metadata(folder.join(name)).expect("a file");
                assert_eq!((made.uid(), made.gid()), (owner.uid(), owner.gid()));
            }
            assert_eq!(mine.metadata().expect("a file").uid(), begun_as);
        });
        acting.join().expect("it holds");
        become_owner(Path::new("/nowhere")).expect("what is missing is nobody's");
    }
}
