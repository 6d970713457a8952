//! Builds an image: from Debian packages by `mmdebstrap`, or from the archive of a root file system.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cancel::{Cancel, Progress};
use crate::digest::{self, Measured};
use crate::error::{ImageErrorContext, MachineImageError, describe_action};
use crate::images::{EROFS, Images, Installed, NewImageVersion};
use crate::manifest::{
    ErofsFile, FORMAT, ImageOrigin, InstalledPackage, Manifest, packages_of_apk, packages_of_dpkg,
    system_name,
};
use crate::name::{ImageName, PackageName, Suite};
use crate::profile::{PACKAGES_MAX, PackageProfile};
use crate::programs::{MKFS_EROFS, MMDEBSTRAP, RunningProgram};
use crate::unpack::{UnpackedTree, require_space, unpack_archive};
use crate::{archive, layout};

/// The latest time that files of a built system have, in seconds since 1970: files that the build creates get this
/// time, so that two builds are identical.
const SOURCE_DATE_EPOCH: u64 = 1_735_689_600;
/// Files of packages that no tool reads. Licences stay.
const DPKG_OPTIONS: [&str; 6] = [
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/lintian/*",
    "path-exclude=/usr/share/locale/*",
];
/// The folder for temporary files of mmdebstrap unless `TMPDIR` names another: on many hosts `/tmp` is memory.
const TEMPORARY: &str = "/var/tmp";
/// The maximum number of mirrors.
const MIRRORS_MAX: usize = 20;

/// An image to build.
pub struct BuildRequest {
    /// The name of the image.
    pub name: ImageName,
    /// Where it comes from.
    pub source: ImageSource,
    /// Also makes the tree as one file with the file system EROFS.
    pub erofs: bool,
}

/// The source of an image.
pub enum ImageSource {
    Debian {
        profile: PackageProfile,
        /// Packages in addition to the profile's.
        packages: Vec<PackageName>,
        suite: Suite,
        /// Mirrors or lines of `sources.list`; the suite's usual ones if empty.
        mirrors: Vec<String>,
    },
    /// The archive of a root file system, such as `docker export` writes; plain or compressed with gzip or Zstandard.
    Archive {
        archive: Box<dyn Read + Send>,
        /// The name for the manifest.
        file: String,
        /// The size of the archive, if it is known.
        bytes: Option<u64>,
    },
}

/// The result of a build.
#[derive(Debug)]
pub struct BuildOutcome {
    pub image: Installed,
    /// True if this version already existed.
    pub unchanged: bool,
}

/// Builds an image and makes it the current version of its name. `spawn` starts mmdebstrap, as root if the operator
/// is root. Blocks.
///
/// # Errors
/// Leaves nothing behind.
pub fn build_image(
    images: &Images,
    request: BuildRequest,
    spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
    progress: Progress,
    cancel: &Cancel,
) -> Result<BuildOutcome, MachineImageError> {
    let BuildRequest { name, source, erofs } = request;
    if erofs {
        MKFS_EROFS.find_program()?;
    }
    if let ImageSource::Debian { packages, mirrors, .. } = &source {
        MMDEBSTRAP.find_program()?;
        check_counts(packages, mirrors)?;
    }
    let new = images.begin_version()?;
    announce_space(images, &source, progress)?;
    let mut tools = BTreeMap::from([("causerie".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let (origin, unpacked) = match source {
        ImageSource::Debian { profile, packages, suite, mirrors } => {
            tools.extend(MMDEBSTRAP.read_version().map(|version| (MMDEBSTRAP.name.to_owned(), version)));
            build_debian(&new, profile, &packages, &suite, mirrors, spawn, progress, cancel)?
        }
        ImageSource::Archive { archive, file, .. } => {
            progress(&format!("unpacking {file}..."));
            let archive = archive::decompress_archive(archive).with_context(|| format!("reading {file}"));
            let unpacked = archive.and_then(|archive| unpack_archive(archive, &new.tree_path(), cancel));
            // The reader fails when the build is stopped.
            cancel.check_cancelled()?;
            let unpacked = unpacked?;
            (ImageOrigin::Archive { file, sha256: unpacked.sha256.clone() }, unpacked)
        }
    };
    layout::complete_tree(&new.tree_path())?;
    progress("computing the digest...");
    let measured = digest::measure_tree(&new.tree_path(), cancel)?;
    let erofs = if erofs {
        progress("making root.erofs...");
        tools.extend(MKFS_EROFS.read_version().map(|version| (MKFS_EROFS.name.to_owned(), version)));
        Some(erofs_file(&new, &measured, progress, cancel)?)
    } else {
        None
    };
    let manifest = create_manifest(&new.tree_path(), name, origin, measured, erofs, tools, unpacked);
    cancel.check_cancelled()?;
    let (image, unchanged) = images.commit_version(new, &manifest)?;
    Ok(BuildOutcome { image, unchanged })
}

fn check_counts(packages: &[PackageName], mirrors: &[String]) -> Result<(), MachineImageError> {
    if packages.len() > PACKAGES_MAX {
        return Err(MachineImageError::Invalid(format!("too many packages: name at most {PACKAGES_MAX}")));
    }
    let known = ["http://", "https://", "file:", "copy:", "deb "];
    let fits = |mirror: &String| {
        known.iter().any(|start| mirror.starts_with(start)) && !mirror.chars().any(char::is_control)
    };
    match mirrors.iter().find(|mirror| !fits(mirror)) {
        Some(wrong) => Err(MachineImageError::Invalid(format!(
            "{wrong:?} is not a mirror: expected a URL such as http://deb.debian.org/debian, or a line of sources.list"
        ))),
        None if mirrors.len() > MIRRORS_MAX => {
            Err(MachineImageError::Invalid(format!("too many mirrors: name at most {MIRRORS_MAX}")))
        }
        None => Ok(()),
    }
}

/// Reports the space that the build needs, and refuses to start without it.
fn announce_space(
    images: &Images,
    source: &ImageSource,
    progress: Progress,
) -> Result<(), MachineImageError> {
    /// The tree, and the compressed file beside it, in tenths of the tree.
    const TREE_AND_FILE: u64 = 16;
    /// The maximum factor by which a compressed archive may grow.
    const EXPANSION: u64 = 3;
    let (needed, temporary) = match source {
        ImageSource::Debian { profile, packages, .. } => {
            // A guess: most packages are small, and a build that needs more stops in time.
            let tree = profile.approximate_bytes() + (packages.len() as u64) * (10 << 20);
            (tree * TREE_AND_FILE / 10, Some(tree * 3 / 2))
        }
        ImageSource::Archive { bytes, file, .. } => {
            let compressed = [".gz", ".tgz", ".zst"].iter().any(|end| file.ends_with(end));
            let bytes = bytes.unwrap_or_default() * if compressed { EXPANSION } else { 1 };
            (bytes * TREE_AND_FILE / 10, None)
        }
    };
    if needed > 0 {
        progress(&format!("needs about {} MiB in {}", needed >> 20, images.folder().display()));
    }
    require_space(images.folder(), needed)?;
    if let Some(temporary) = temporary {
        let folder = temporary_folder();
        progress(&format!("needs about {} MiB in {} meanwhile", temporary >> 20, folder.display()));
        require_space(&folder, temporary)?;
    }
    Ok(())
}

fn temporary_folder() -> PathBuf {
    std::env::var_os("TMPDIR")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| TEMPORARY.into(), PathBuf::from)
}

#[expect(clippy::too_many_arguments, reason = "the parts of one request")]
fn build_debian(
    new: &NewImageVersion,
    profile: PackageProfile,
    packages: &[PackageName],
    suite: &Suite,
    mirrors: Vec<String>,
    spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
    progress: Progress,
    cancel: &Cancel,
) -> Result<(ImageOrigin, UnpackedTree), MachineImageError> {
    // Only root may create devices and change owners; an ordinary user does both in a user namespace.
    let mode = if rustix::process::getuid().is_root() { "root" } else { "unshare" };
    let mut requested: Vec<String> = profile.package_names().map(ToOwned::to_owned).collect();
    requested.extend(packages.iter().map(|package| package.as_str().to_owned()));
    requested.sort();
    requested.dedup();
    let mut command = MMDEBSTRAP.clean_command()?;
    command.env("SOURCE_DATE_EPOCH", SOURCE_DATE_EPOCH.to_string()).env("TMPDIR", temporary_folder());
    command.arg(format!("--mode={mode}")).args(["--variant=essential", "--format=tar"]);
    command.args(DPKG_OPTIONS.map(|option| format!("--dpkgopt={option}")));
    if !requested.is_empty() {
        command.arg(format!("--include={}", requested.join(",")));
    }
    command.args([suite.as_str(), "-"]).args(&mirrors);
    let (program, output) = RunningProgram::start_program(MMDEBSTRAP, command, spawn, progress, cancel)?;
    let unpacked = match output.map(|output| unpack_archive(output, &new.tree_path(), cancel)) {
        // It was truncated, and the program knows why.
        None | Some(Err(MachineImageError::Archive(_))) => {
            program.wait_for_exit()?;
            return Err(MachineImageError::Archive("mmdebstrap wrote no readable archive".into()));
        }
        Some(Err(error)) => {
            program.stop_program();
            return Err(error);
        }
        Some(Ok(unpacked)) => {
            program.wait_for_exit()?;
            unpacked
        }
    };
    let origin = ImageOrigin::Debian {
        profile: profile.name().to_owned(),
        suite: suite.as_str().to_owned(),
        mirrors,
        requested,
        mode: mode.to_owned(),
    };
    Ok((origin, unpacked))
}

/// Makes the tree as one file. The same tree gives the same file.
fn erofs_file(
    new: &NewImageVersion,
    measured: &Measured,
    progress: Progress,
    cancel: &Cancel,
) -> Result<ErofsFile, MachineImageError> {
    let file = new.version_path().join(EROFS);
    let mut command = MKFS_EROFS.clean_command()?;
    // Its identifier is taken from the digest, its time from the newest file: later ones would be set back.
    let digits = &measured.digest;
    let uuid = format!(
        "{}-{}-{}-{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..32]
    );
    command.env("SOURCE_DATE_EPOCH", measured.newest.to_string());
    command.args(["--quiet", "-zlz4", "-x-1", "--all-root", "-U", &uuid]).arg(&file).arg(new.tree_path());
    let (program, output) =
        RunningProgram::start_program(MKFS_EROFS, command, Command::spawn, progress, cancel)?;
    drop(output);
    program.wait_for_exit()?;
    let bytes = file.metadata().with_context(|| describe_action("reading", &file))?.len();
    Ok(ErofsFile {
        bytes,
        sha256: digest::of_file(&file).with_context(|| describe_action("reading", &file))?,
    })
}

fn create_manifest(
    tree: &Path,
    name: ImageName,
    origin: ImageOrigin,
    measured: Measured,
    erofs: Option<ErofsFile>,
    tools: BTreeMap<String, String>,
    unpacked: UnpackedTree,
) -> Manifest {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Manifest {
        format: FORMAT,
        name: name.as_str().to_owned(),
        digest: format!("sha256:{}", measured.digest),
        created,
        system: layout::read_file(tree, "etc/os-release").as_deref().and_then(system_name),
        origin,
        bytes: measured.bytes,
        entries: measured.entries,
        erofs,
        tools,
        left_out: unpacked.left_out,
        left_out_count: unpacked.left_out_count,
        packages: list_packages(tree),
    }
}

fn list_packages(tree: &Path) -> Vec<InstalledPackage> {
    let dpkg = layout::read_file(tree, "var/lib/dpkg/status").map(|status| packages_of_dpkg(&status));
    let apk = || layout::read_file(tree, "lib/apk/db/installed").map(|installed| packages_of_apk(&installed));
    dpkg.or_else(apk).unwrap_or_default()
}
