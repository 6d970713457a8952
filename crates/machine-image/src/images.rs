//! The folder of images: `<name>/<digest>/` with the tree `root`, the file `root.erofs` and `manifest.json`, and the
//! link `<name>/current` to the version that new machines use.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::{ImageErrorContext, MachineImageError, describe_action};
use crate::manifest::{FORMAT, Manifest};
use crate::name::{ImageName, Reference};

pub(crate) const TREE: &str = "root";
pub(crate) const EROFS: &str = "root.erofs";
pub(crate) const MANIFEST: &str = "manifest.json";
const CURRENT: &str = "current";
/// The beginnings of the names of folders that are being made or removed.
const NEW: &str = ".new-";
const REMOVED: &str = ".removed-";
/// The file that is locked while a new version is made.
const LOCK: &str = "lock";
/// The largest manifest that is read, in bytes.
const MANIFEST_MAX_BYTES: u64 = 8 << 20;

/// The folder of images.
#[derive(Debug, Clone)]
pub struct Images {
    folder: PathBuf,
}

/// One version of an image.
#[derive(Debug, Clone)]
pub struct Installed {
    pub manifest: Manifest,
    pub folder: PathBuf,
    /// True if new machines use this version of the image.
    pub current: bool,
}

impl Installed {
    #[must_use]
    pub fn tree_path(&self) -> PathBuf {
        self.folder.join(TREE)
    }

    /// Returns the file with the file system EROFS, if it was made.
    #[must_use]
    pub fn erofs_path(&self) -> Option<PathBuf> {
        self.manifest.erofs.as_ref().map(|_| self.folder.join(EROFS))
    }

    /// Returns the file on which every user of the version holds a shared lock (`flock`).
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.folder.join(MANIFEST)
    }

    /// Returns true if a machine or a service uses it.
    #[must_use]
    pub fn in_use(&self) -> bool {
        matches!(self.try_lock(), Ok(None))
    }

    /// Locks it against use; `None` if it is in use.
    fn try_lock(&self) -> Result<Option<File>, MachineImageError> {
        let file =
            File::open(self.lock_path()).with_context(|| describe_action("opening", &self.lock_path()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| describe_action("locking", &self.lock_path()))
            }
        }
    }
}

impl Images {
    /// Uses this folder, which may not exist yet.
    #[must_use]
    pub const fn from_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lists all versions of all images, by name, the newest first. Leaves out unreadable ones.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub fn list_versions(&self) -> Result<Vec<Installed>, MachineImageError> {
        let mut all = Vec::new();
        for entry in list_entries(&self.folder)? {
            if let Some(Ok(name)) =
                entry.file_name().and_then(|name| name.to_str()).map(str::parse::<ImageName>)
            {
                all.extend(self.image_versions(&name)?);
            }
        }
        all.sort_by(|a, b| a.manifest.name.cmp(&b.manifest.name));
        Ok(all)
    }

    /// Finds the version that a reference names.
    ///
    /// # Errors
    /// [`MachineImageError::NotFound`], or [`MachineImageError::Invalid`] if several versions begin with the digest, or if the
    /// image was built for another version of the service.
    pub fn find_version(&self, reference: &Reference) -> Result<Installed, MachineImageError> {
        let mut found = self.image_versions(&reference.name)?;
        found.retain(|version| matches_digest(version, reference.digest.as_deref()));
        if found.len() > 1 {
            return Err(MachineImageError::Invalid(format!(
                "several versions begin with {reference}; give more digits"
            )));
        }
        let version = found.pop().ok_or_else(|| MachineImageError::NotFound(reference.to_string()))?;
        if version.manifest.format != FORMAT {
            let format = version.manifest.format;
            return Err(MachineImageError::Invalid(format!(
                "image {reference} has format {format}, and this service needs {FORMAT}: build it again"
            )));
        }
        Ok(version)
    }

    /// Removes either all or none of the versions that a reference names: without a digest, every version of the
    /// image; with `only_old`, only versions that are neither current nor in use.
    ///
    /// # Errors
    /// [`MachineImageError::NotFound`], or [`MachineImageError::InUse`] if a machine or a service uses one of them.
    pub fn remove_versions(
        &self,
        reference: &Reference,
        only_old: bool,
    ) -> Result<Vec<Installed>, MachineImageError> {
        let name = &reference.name;
        let mut chosen = self.image_versions(name)?;
        if let Some(digest) = &reference.digest {
            chosen.retain(|version| matches_digest(version, Some(digest)));
        }
        if chosen.is_empty() {
            return Err(MachineImageError::NotFound(reference.to_string()));
        }
        if only_old {
            chosen.retain(|version| !version.current);
        }
        let mut locked = Vec::new();
        for version in chosen {
            match version.try_lock()? {
                Some(lock) => locked.push((version, lock)),
                None if only_old => {}
                None => return Err(MachineImageError::InUse(format!("{name}@{}", digest_digits(&version)))),
            }
        }
        let mut removed = Vec::new();
        for (version, _lock) in locked {
            // It disappears in one atomic step for starts of machines.
            let away =
                self.folder.join(format!("{REMOVED}{}-{}", std::process::id(), digest_digits(&version)));
            fs::rename(&version.folder, &away)
                .with_context(|| describe_action("removing", &version.folder))?;
            fs::remove_dir_all(&away).with_context(|| describe_action("removing", &away))?;
            removed.push(version);
        }
        let folder = self.folder.join(name.as_str());
        match self.image_versions(name)?.first() {
            Some(newest) if removed.iter().any(|version| version.current) => {
                set_current(&folder, digest_digits(newest))?
            }
            Some(_) => {}
            None => remove_without_versions(&folder).with_context(|| describe_action("removing", &folder))?,
        }
        Ok(removed)
    }

    /// Creates the folder for a new version, and removes leftovers of interrupted builds and removals.
    pub(crate) fn begin_version(&self) -> Result<NewImageVersion, MachineImageError> {
        private_folder(&self.folder).with_context(|| describe_action("making", &self.folder))?;
        for entry in list_entries(&self.folder)? {
            let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let abandoned = || File::open(entry.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
            if name.starts_with(REMOVED) || (name.starts_with(NEW) && abandoned()) {
                fs::remove_dir_all(&entry).with_context(|| describe_action("removing", &entry))?;
            }
        }
        let folder = self.folder.join(format!("{NEW}{}", std::process::id()));
        private_folder(&folder).with_context(|| describe_action("making", &folder))?;
        let lock = File::create(folder.join(LOCK)).with_context(|| describe_action("making", &folder))?;
        lock.try_lock().map_err(io::Error::from).with_context(|| describe_action("locking", &folder))?;
        let new = NewImageVersion { folder, _lock: lock };
        let tree = new.tree_path();
        // The root of machines, which all their users enter.
        let made = fs::create_dir_all(&tree)
            .and_then(|()| fs::set_permissions(&tree, Permissions::from_mode(0o755)));
        made.with_context(|| describe_action("making", &tree))?;
        Ok(new)
    }

    /// Gives a complete version its name and makes it the current one. Returns true if it already existed.
    pub(crate) fn commit_version(
        &self,
        new: NewImageVersion,
        manifest: &Manifest,
    ) -> Result<(Installed, bool), MachineImageError> {
        let version = new.version_path();
        let text = serde_json::to_vec_pretty(manifest).map_err(io::Error::from);
        let place = version.join(MANIFEST);
        text.and_then(|text| fs::write(&place, text)).with_context(|| describe_action("writing", &place))?;
        let synced = File::open(&version).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
        synced.with_context(|| describe_action("writing", &version))?;
        let name = self.folder.join(&manifest.name);
        private_folder(&name).with_context(|| describe_action("making", &name))?;
        let digest = manifest.digest.trim_start_matches("sha256:");
        let folder = name.join(digest);
        let exists = folder.join(MANIFEST).is_file();
        if !exists {
            fs::rename(&version, &folder).with_context(|| describe_action("naming", &folder))?;
        }
        set_current(&name, digest)?;
        drop(new);
        let manifest = read_manifest(&folder)?;
        Ok((Installed { manifest, folder, current: true }, exists))
    }

    /// Returns the versions of an image, the newest first.
    fn image_versions(&self, name: &ImageName) -> Result<Vec<Installed>, MachineImageError> {
        let folder = self.folder.join(name.as_str());
        let current = fs::read_link(folder.join(CURRENT)).ok();
        let mut versions = Vec::new();
        for entry in list_entries(&folder)? {
            let is_link = entry.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
            if is_link {
                continue;
            }
            let Ok(manifest) = read_manifest(&entry) else { continue };
            let current = current.as_deref() == entry.file_name().map(Path::new);
            versions.push(Installed { manifest, folder: entry, current });
        }
        versions.sort_by_key(|version| std::cmp::Reverse(version.manifest.created));
        Ok(versions)
    }
}

/// A version that is being made. Dropping it removes its files.
#[derive(Debug)]
pub(crate) struct NewImageVersion {
    folder: PathBuf,
    _lock: File,
}

impl NewImageVersion {
    pub(crate) fn version_path(&self) -> PathBuf {
        self.folder.join("version")
    }

    pub(crate) fn tree_path(&self) -> PathBuf {
        self.version_path().join(TREE)
    }
}

impl Drop for NewImageVersion {
    fn drop(&mut self) {
        // The next build removes the leftovers.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn matches_digest(version: &Installed, digest: Option<&str>) -> bool {
    digest.map_or(version.current, |wanted| digest_digits(version).starts_with(wanted))
}

fn digest_digits(version: &Installed) -> &str {
    version.manifest.digest.trim_start_matches("sha256:")
}

/// Removes the folder of an image without versions, unless a build has just put one there.
fn remove_without_versions(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(CURRENT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn set_current(folder: &Path, digest: &str) -> Result<(), MachineImageError> {
    let fresh = folder.join(format!(".{CURRENT}-{}", std::process::id()));
    let linked = match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => symlink(digest, &fresh),
    };
    linked
        .and_then(|()| fs::rename(&fresh, folder.join(CURRENT)))
        .with_context(|| describe_action("choosing the version in", folder))
}

fn read_manifest(folder: &Path) -> Result<Manifest, MachineImageError> {
    let path = folder.join(MANIFEST);
    let mut text = Vec::new();
    let file = File::open(&path).with_context(|| describe_action("opening", &path))?;
    file.take(MANIFEST_MAX_BYTES)
        .read_to_end(&mut text)
        .with_context(|| describe_action("reading", &path))?;
    serde_json::from_slice(&text).map_err(io::Error::from).with_context(|| describe_action("reading", &path))
}

fn list_entries(folder: &Path) -> Result<Vec<PathBuf>, MachineImageError> {
    let read = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect()),
    };
    read.with_context(|| describe_action("reading", folder))
}

fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::manifest::ImageOrigin;

    fn install_version(images: &Images, digest: &str, created: u64) -> Installed {
        let new = images.begin_version().expect("a folder");
        fs::write(new.tree_path().join("file"), digest).expect("a file");
        let origin = ImageOrigin::Archive { file: "x.tar".into(), sha256: String::new() };
        let manifest = Manifest {
            format: FORMAT,
            name: "small".into(),
            digest: format!("sha256:{digest}"),
            created,
            system: None,
            origin,
            bytes: 0,
            entries: 0,
            erofs: None,
            tools: BTreeMap::new(),
            left_out: Vec::new(),
            left_out_count: 0,
            packages: Vec::new(),
        };
        images.commit_version(new, &manifest).expect("an image").0
    }

    fn parse_reference(text: &str) -> Reference {
        text.parse().expect("a reference")
    }

    #[test]
    fn remove_versions_in_use_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let images = Images::from_folder(folder.path().join("images"));
        assert!(images.list_versions().expect("no folder is no image").is_empty());
        let old = install_version(&images, "0123456789", 1);
        let held = File::open(old.lock_path()).expect("a manifest");
        held.lock_shared().expect("a lock");
        let new = install_version(&images, "abcdef0123", 2);
        assert!(new.current && old.in_use() && !new.in_use());
        assert_eq!(images.find_version(&parse_reference("small")).expect("the newest").folder, new.folder);
        assert_eq!(
            images.find_version(&parse_reference("small@012345")).expect("the old one").folder,
            old.folder
        );

        assert!(matches!(
            images.remove_versions(&parse_reference("small"), false),
            Err(MachineImageError::InUse(_))
        ));
        assert!(matches!(
            images.remove_versions(&parse_reference("small@012345"), false),
            Err(MachineImageError::InUse(_))
        ));
        assert!(
            images.remove_versions(&parse_reference("small"), true).expect("nothing to remove").is_empty()
        );
        assert_eq!(images.list_versions().expect("images").len(), 2, "all or none");
        drop(held);
        assert_eq!(images.remove_versions(&parse_reference("small"), true).expect("the old one").len(), 1);
        assert!(!old.folder.exists() && new.tree_path().join("file").exists());
        images.remove_versions(&parse_reference("small"), false).expect("unused");
        assert!(matches!(
            images.remove_versions(&parse_reference("small"), false),
            Err(MachineImageError::NotFound(_))
        ));
        assert_eq!(fs::read_dir(images.folder()).expect("a folder").count(), 0, "nothing is left");
    }

    #[test]
    fn remove_versions_promotes_newest() {
        let folder = tempfile::tempdir().expect("a folder");
        let images = Images::from_folder(folder.path().to_owned());
        let old = install_version(&images, "0123456789", 1);
        install_version(&images, "abcdef0123", 2);
        images.remove_versions(&parse_reference("small@abcdef"), false).expect("unused");
        assert_eq!(images.find_version(&parse_reference("small")).expect("the other").folder, old.folder);
    }

    #[test]
    fn begin_version_clears_abandoned_build() {
        let folder = tempfile::tempdir().expect("a folder");
        let images = Images::from_folder(folder.path().to_owned());
        let left = folder.path().join(".new-1");
        fs::create_dir_all(left.join("version")).expect("a folder");
        let lock = File::create(left.join(LOCK)).expect("a file");
        lock.lock().expect("a lock");
        let under_way = images.begin_version().expect("a folder");
        assert!(left.exists(), "another build is under way");
        drop((lock, under_way));
        drop(images.begin_version().expect("a folder"));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
