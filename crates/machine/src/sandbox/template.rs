//! A virtual machine that was booted once and saved before it received any account data. Others continue from it.
//!
//! ```text
//! boot ── agent, which waits ── saved here ─┬─ introduced as machine A ── system, workspace ── agent goes on
//!                                           └─ introduced as machine B ── …
//! ```
//! Its memory is a sealed file in memory: each machine maps it and gets copies of the pages that it writes, so that no machine
//! can change another's. The state of the devices is a file beside it. Both are kept on disk for the next service.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom as Seeking, fcntl_add_seals, memfd_create, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The files of a saved machine, in the folder of the boot files.
const MEMORY: &str = "saved-memory";
const STATE: &str = "saved-state";
const STAMP: &str = "saved-stamp";
/// The largest state of devices, in bytes.
const STATE_MAX_BYTES: u64 = 64 << 20;
const PIECE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Template {
    memory: File,
    state: File,
}

/// Paths by which the processes of the launch open the files of a saved machine, or of one to save.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TemplateFiles {
    pub(crate) memory: PathBuf,
    pub(crate) state: PathBuf,
}

impl TemplateFiles {
    /// Opens the memory and the state, which the caller reads from its start.
    pub(crate) fn open_files(&self) -> io::Result<[File; 2]> {
        let open = |path| File::options().read(true).write(true).open(path);
        Ok([open(&self.memory)?, open(&self.state)?])
    }
}

impl Template {
    /// Creates the files for saving a machine with this amount of memory.
    ///
    /// # Errors
    /// Fails if the host does not support files in memory.
    pub(crate) fn create_empty(memory_bytes: u64) -> io::Result<Self> {
        let file = |name: &str| memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        let (memory, state) = (File::from(file("machine-memory")?), File::from(file("machine-state")?));
        memory.set_len(memory_bytes)?;
        Ok(Self { memory, state })
    }

    /// Reads the machine that an earlier service saved with the same stamp; `None` if no such machine was saved.
    ///
    /// # Errors
    /// Fails if its files cannot be read.
    pub(crate) fn load_template(folder: &Path, stamp: &str, memory_bytes: u64) -> io::Result<Option<Self>> {
        if !fs::read_to_string(folder.join(STAMP)).is_ok_and(|text| text == stamp) {
            return Ok(None);
        }
        let template = Self::create_empty(memory_bytes)?;
        for (name, file, bytes_max) in
            [(MEMORY, &template.memory, memory_bytes), (STATE, &template.state, STATE_MAX_BYTES)]
        {
            let kept = File::open(folder.join(name))?;
            if kept.metadata()?.len() > bytes_max {
                return Err(io::Error::other(format!("{name} is too long")));
            }
            copy_data(&kept, file)?;
        }
        template.seal_files()?;
        Ok(Some(template))
    }

    /// Seals the machine that was saved, and keeps it for later services. If the disk is full, only this service has it.
    ///
    /// # Errors
    /// Fails if it is still being written.
    pub(crate) fn seal_and_save(self, folder: &Path, stamp: &str) -> io::Result<Self> {
        self.seal_files()?;
        if let Err(error) = self.save_files(folder, stamp) {
            tracing::warn!(%error, "storing the saved machine failed");
            // The partial files take space.
            let _ = remove_template(folder);
        }
        Ok(self)
    }

    fn save_files(&self, folder: &Path, stamp: &str) -> io::Result<()> {
        remove_if_exists(&folder.join(STAMP))?;
        for (name, file) in [(MEMORY, &self.memory), (STATE, &self.state)] {
            let kept = File::options()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(folder.join(name))?;
            copy_data(file, &kept)?;
            kept.set_len(file.metadata()?.len())?;
        }
        // The files are valid once it exists; the boot identifier in the stamp reveals a crash of the host in between.
        fs::write(folder.join(STAMP), stamp)
    }

    /// Forbids every change, also through memory mappings.
    fn seal_files(&self) -> io::Result<()> {
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        for file in [&self.memory, &self.state] {
            fcntl_add_seals(file, seals)?;
        }
        Ok(())
    }

    /// Returns the paths under which a child of this process opens the files.
    pub(crate) fn file_paths(&self) -> TemplateFiles {
        let path =
            |file: &File| PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        TemplateFiles { memory: path(&self.memory), state: path(&self.state) }
    }
}

/// Removes the saved machine of a folder, whole or not.
///
/// # Errors
/// Fails if it cannot be removed.
pub(crate) fn remove_template(folder: &Path) -> io::Result<()> {
    // Without the stamp the others are invalid.
    [STAMP, MEMORY, STATE].iter().try_for_each(|name| remove_if_exists(&folder.join(name)))
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Copies the parts of a file that hold data to the same places of another one, which is empty.
fn copy_data(from: &File, mut to: &File) -> io::Result<()> {
    let length = from.metadata()?.len();
    let mut piece = vec![0; usize::try_from(PIECE_BYTES).map_err(io::Error::other)?];
    let mut at = 0;
    while at < length {
        let begin = match seek(from, Seeking::Data(at)) {
            Err(Errno::NXIO) => break,
            begin => begin?,
        };
        let end = seek(from, Seeking::Hole(begin))?;
        at = begin;
        while at < end {
            let wanted = usize::try_from(PIECE_BYTES.min(end - at)).map_err(io::Error::other)?;
            let piece = piece.get_mut(..wanted).unwrap_or_default();
            from.read_exact_at(piece, at)?;
            to.seek(SeekFrom::Start(at))?;
            to.write_all(piece)?;
            at += PIECE_BYTES.min(end - at);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save_test_template(folder: &Path) -> Template {
        let template = Template::create_empty(8 << 20).unwrap();
        template.memory.write_all_at(b"kernel", 5 << 20).unwrap();
        template.state.write_all_at(b"devices", 0).unwrap();
        template.seal_and_save(folder, "stamp").unwrap()
    }

    fn read_bytes(file: &File, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    #[test]
    fn load_template_requires_same_stamp() {
        let folder = tempfile::tempdir().unwrap();
        save_test_template(folder.path());
        let loaded = Template::load_template(folder.path(), "stamp", 8 << 20).unwrap().expect("it is kept");
        assert_eq!(read_bytes(&loaded.memory, 5 << 20, 6), b"kernel");
        assert_eq!(read_bytes(&loaded.memory, 0, 6), [0; 6]);
        assert_eq!(read_bytes(&loaded.state, 0, 7), b"devices");
        assert_eq!(loaded.memory.metadata().unwrap().len(), 8 << 20);
        assert!(Template::load_template(folder.path(), "another", 8 << 20).unwrap().is_none());
        remove_template(folder.path()).unwrap();
        assert!(Template::load_template(folder.path(), "stamp", 8 << 20).unwrap().is_none());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing takes space");
    }

    #[test]
    fn seal_and_save_survives_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join(STATE)).unwrap();
        let template = save_test_template(folder.path());
        assert_eq!(read_bytes(&template.memory, 5 << 20, 6), b"kernel");
        assert!(template.memory.write_all_at(b"x", 0).is_err(), "it is sealed");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn nobody_changes_a_saved_machine() {
        let folder = tempfile::tempdir().unwrap();
        let template = save_test_template(folder.path());
        let [memory, state] = template.file_paths().open_files().unwrap();
        for file in [&memory, &state] {
            assert!(file.write_all_at(b"x", 0).is_err());
            assert!(file.set_len(0).is_err());
            assert!(fcntl_add_seals(file, SealFlags::FUTURE_WRITE).is_err(), "seals are final");
        }
    }

    #[test]
    fn load_template_rejects_wrong_lengths() {
        let folder = tempfile::tempdir().unwrap();
        save_test_template(folder.path());
        assert!(Template::load_template(folder.path(), "stamp", 4 << 20).is_err(), "it has more memory");
        fs::remove_file(folder.path().join(STATE)).unwrap();
        assert!(Template::load_template(folder.path(), "stamp", 8 << 20).is_err());
    }
}
