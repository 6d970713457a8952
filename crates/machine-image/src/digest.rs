//! The digest of a tree: equal for trees that look the same to every tool.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use sha2::{Digest, Sha256};

use crate::archive::encode_hex;
use crate::cancel::Cancel;
use crate::error::{ImageErrorContext, MachineImageError};

const BUFFER_BYTES: usize = 256 * 1024;

/// The digest and size of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) digest: String,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// The newest time of an entry, in seconds since 1970.
    pub(crate) newest: u64,
}

/// Computes the digest of a tree: of each entry the path, the kind, the mode, the time in seconds, and the content or
/// the target, in the order of names. Owners and the numbers of links do not count.
pub(crate) fn measure_tree(root: &Path, cancel: &Cancel) -> Result<Measured, MachineImageError> {
    let mut walk = DigestWalk {
        digest: Sha256::new(),
        bytes: 0,
        entries: 0,
        newest: 0,
        buffer: vec![0; BUFFER_BYTES],
        cancel,
    };
    let folder = open_entry(CWD, root.as_os_str().as_encoded_bytes(), OFlags::DIRECTORY)
        .with_context(|| "reading the new tree".into())?;
    walk.add_folder(&folder, &mut Vec::new())?;
    let DigestWalk { digest, bytes, entries, newest, .. } = walk;
    Ok(Measured { digest: encode_hex(&digest.finalize()), bytes, entries, newest })
}

/// Computes the SHA-256 of a file, in hexadecimal digits.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut digest, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(encode_hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

fn open_entry(at: impl AsFd, name: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

struct DigestWalk<'a> {
    digest: Sha256,
    bytes: u64,
    entries: u64,
    newest: u64,
    buffer: Vec<u8>,
    cancel: &'a Cancel,
}

impl DigestWalk<'_> {
    /// Recursion is bounded: unpacking bounds the depth of trees.
    fn add_folder(&mut self, folder: &OwnedFd, path: &mut Vec<u8>) -> Result<(), MachineImageError> {
        let mut names = Vec::new();
        let entries = Dir::read_from(folder).with_context(|| "reading the new tree".into())?;
        for entry in entries {
            let entry = entry.with_context(|| "reading the new tree".into())?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        for name in names {
            self.cancel.check_cancelled()?;
            let length = path.len();
            path.push(b'/');
            path.extend_from_slice(name.to_bytes());
            self.add_entry(folder, name.to_bytes(), path)
                .with_context(|| format!("reading {}", String::from_utf8_lossy(path)))
                .and_then(|below| below.map_or(Ok(()), |below| self.add_folder(&below, path)))?;
            path.truncate(length);
        }
        Ok(())
    }

    /// Adds an entry; returns the folder if it is one.
    fn add_entry(&mut self, folder: &OwnedFd, name: &[u8], path: &[u8]) -> io::Result<Option<OwnedFd>> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        self.entries += 1;
        self.hash_field(path);
        self.hash_number(u64::from(stat.st_mode));
        let modified = u64::try_from(stat.st_mtime).unwrap_or(0);
        self.newest = self.newest.max(modified);
        self.hash_number(modified);
        match kind {
            FileType::Directory => return Ok(Some(open_entry(folder, name, OFlags::DIRECTORY)?)),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
                self.hash_field(target.to_bytes());
            }
            _ => {
                let mut file = File::from(open_entry(folder, name, OFlags::empty())?);
                let size = file.metadata()?.size();
                self.hash_number(size);
                self.bytes += size;
                loop {
                    let read = file.read(&mut self.buffer)?;
                    if read == 0 {
                        break;
                    }
                    self.digest.update(&self.buffer[..read]);
                }
            }
        }
        Ok(None)
    }

    fn hash_field(&mut self, bytes: &[u8]) {
        self.hash_number(bytes.len() as u64);
        self.digest.update(bytes);
    }

    fn hash_number(&mut self, number: u64) {
        self.digest.update(number.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn measured_tree(change: impl FnOnce(&Path)) -> Measured {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("bin")).expect("a folder");
        fs::write(root.join("bin/sh"), "program").expect("a file");
        symlink("bin", root.join("link")).expect("a link");
        change(&root);
        let times = crate::metadata::timestamps_at(7);
        for path in ["bin/sh", "bin", "link"] {
            rustix::fs::utimensat(CWD, root.join(path), &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
        }
        measure_tree(&root, &Cancel::default()).expect("a tree")
    }

    #[test]
    fn measure_tree_covers_what_tools_see() {
        let same = measured_tree(|_| {});
        assert_eq!(same, measured_tree(|_| {}));
        assert_eq!((same.bytes, same.entries), (7, 3));
        let content = measured_tree(|root| fs::write(root.join("bin/sh"), "Program").expect("a file"));
        let mode = measured_tree(|root| {
            fs::set_permissions(root.join("bin/sh"), PermissionsExt::from_mode(0o755)).expect("a mode");
        });
        let target = measured_tree(|root| {
            fs::remove_file(root.join("link")).expect("a link");
            symlink("usr", root.join("link")).expect("a link");
        });
        let more = measured_tree(|root| fs::write(root.join("bin/x"), "").expect("a file"));
        let mut digests = [same, content, mode, target, more].map(|one| one.digest).to_vec();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 5, "each change counts");
    }
}
