//! The programs of User Mode Linux kernels: their locations, and their description for an operator.

use std::env;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::jail_layout::{LIBRARIES, PROGRAM};
use super::programs::find_program;

/// The folder of the kernel that comes with the service: beside its program, or below the prefix of an installation.
const SHIPPED_FOLDERS: [&str; 2] = ["causerie-kernel", "../lib/causerie/kernel"];
/// The program in such a folder.
const SHIPPED_PROGRAM: &str = "linux";
/// The folder beside a kernel's program with libraries that it needs instead of the host's. Its loader is named in the
/// program by its path in the jail.
const LIBRARIES_FOLDER: &str = "libraries";
/// The name of a distribution's kernel in `PATH`.
const INSTALLED_PROGRAM: &str = "linux.uml";
/// The text before the release in a kernel's program.
const RELEASE_MARK: &[u8] = b"Linux version ";
/// The longest release that is shown.
const RELEASE_MAX_BYTES: usize = 64;
/// The longest program that is searched for a release.
const PROGRAM_MAX_BYTES: u64 = 256 << 20;

/// The program of a User Mode Linux kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UmlKernel {
    program: PathBuf,
    libraries: Option<PathBuf>,
    origin: KernelOrigin,
}

/// The reason why a kernel is a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum KernelOrigin {
    /// The setting `machine.kernel` names it.
    Set,
    /// Shipped with the service.
    Shipped,
    /// The distribution has installed it.
    Installed,
}

impl UmlKernel {
    /// Finds the kernels in the order in which to try them: only `named` (a path or a name in `PATH`) if it is given,
    /// otherwise the service's kernel, then the distribution's.
    #[must_use]
    pub fn find_all(named: Option<&Path>) -> Vec<Self> {
        if let Some(named) = named {
            return find_program(Some(named), "")
                .map(|program| Self::new(program, KernelOrigin::Set))
                .into_iter()
                .collect();
        }
        let shipped = env::current_exe().ok().and_then(|service| find_shipped(&service));
        let installed = find_program(None, INSTALLED_PROGRAM);
        let shipped = shipped.map(|program| Self::new(program, KernelOrigin::Shipped));
        shipped
            .into_iter()
            .chain(installed.map(|program| Self::new(program, KernelOrigin::Installed)))
            .collect()
    }

    fn new(program: PathBuf, origin: KernelOrigin) -> Self {
        let libraries = program.parent().map(|folder| folder.join(LIBRARIES_FOLDER));
        Self { libraries: libraries.filter(|folder| folder.is_dir()), program, origin }
    }

    /// Returns the path of the program on the host.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns a word for the kernel's origin.
    #[must_use]
    pub const fn origin_name(&self) -> &'static str {
        match self.origin {
            KernelOrigin::Set => "set",
            KernelOrigin::Shipped => "shipped",
            KernelOrigin::Installed => "installed",
        }
    }

    /// Returns true if the kernel needs shared libraries.
    pub(crate) const fn has_libraries(&self) -> bool {
        self.libraries.is_some()
    }

    /// Returns the files and folders that the jail shows read-only for this kernel, with their paths there.
    pub(crate) fn jail_files(&self) -> Vec<(&Path, &'static str)> {
        let libraries = self.libraries.as_deref().map(|folder| (folder, LIBRARIES));
        libraries.into_iter().chain([(&*self.program, PROGRAM)]).collect()
    }

    /// Reads the release from the program, such as `7.2.13`; `None` if the program contains none.
    ///
    /// # Errors
    /// Fails if the program cannot be read.
    fn read_release(&self) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        File::open(&self.program)?.take(PROGRAM_MAX_BYTES).read_to_end(&mut bytes)?;
        // The text also occurs as a format string, without a digit after it.
        let releases = memchr::memmem::find_iter(&bytes, RELEASE_MARK)
            .filter_map(|at| bytes.get(at + RELEASE_MARK.len()..))
            .filter(|text| text.first().is_some_and(u8::is_ascii_digit));
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b".-+_~".contains(byte);
        let mut releases = releases.map(|text| text.iter().take_while(is_part).take(RELEASE_MAX_BYTES));
        Ok(releases.next().map(|release| release.map(|byte| char::from(*byte)).collect()))
    }
}

/// Describes the kernel for an operator: its release, path and origin.
impl fmt::Display for UmlKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read_release() {
            Ok(Some(release)) => write!(f, "Linux {release}")?,
            Ok(None) | Err(_) => f.write_str("a kernel of unknown release")?,
        }
        let origin = match self.origin {
            KernelOrigin::Set => "set by `machine.kernel`",
            KernelOrigin::Shipped => "comes with causerie",
            KernelOrigin::Installed => "the distribution's",
        };
        write!(f, " ({}, {origin})", self.program.display())
    }
}

/// Finds the kernel that comes with this program of the service.
fn find_shipped(service: &Path) -> Option<PathBuf> {
    let folder = service.parent()?;
    let programs = SHIPPED_FOLDERS.iter().map(|shipped| folder.join(shipped).join(SHIPPED_PROGRAM));
    programs.filter_map(|program| program.canonicalize().ok()).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn kernel_at(folder: &Path, content: &[u8]) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let program = folder.join(SHIPPED_PROGRAM);
        fs::write(&program, content).unwrap();
        program.canonicalize().unwrap()
    }

    #[test]
    fn find_shipped_prefers_own_folder() {
        let prefix = tempfile::tempdir().unwrap();
        let service = prefix.path().join("bin/causerie");
        fs::create_dir(prefix.path().join("bin")).unwrap();
        assert_eq!(find_shipped(&service), None);
        let installed = kernel_at(&prefix.path().join("lib/causerie/kernel"), b"");
        assert_eq!(find_shipped(&service), Some(installed));
        let beside = kernel_at(&prefix.path().join("bin/causerie-kernel"), b"");
        assert_eq!(find_shipped(&service), Some(beside));
    }

    #[test]
    fn find_all_takes_only_named_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let program = kernel_at(folder.path(), b"\0Linux version 7.2.13-causerie (builder)\0");
        let found = UmlKernel::find_all(Some(&program));
        assert_eq!(found.iter().map(UmlKernel::program).collect::<Vec<_>>(), [&*program]);
        let described = found.first().map(ToString::to_string).unwrap_or_default();
        assert_eq!(
            described,
            format!("Linux 7.2.13-causerie ({}, set by `machine.kernel`)", program.display())
        );
        assert_eq!(UmlKernel::find_all(Some(Path::new("/no/such/kernel"))), []);
    }

    #[test]
    fn read_release_skips_formats() {
        let folder = tempfile::tempdir().unwrap();
        let read = |content: &[u8]| {
            UmlKernel::new(kernel_at(folder.path(), content), KernelOrigin::Installed).read_release().unwrap()
        };
        assert_eq!(read(b"Linux version %s\0Linux version 6.1.0-9+b1\0"), Some("6.1.0-9+b1".to_owned()));
        assert_eq!(read(b"Linux version %s"), None);
        let endless = [b"Linux version ".as_slice(), &[b'7'; 4096]].concat();
        assert_eq!(read(&endless).map(|release| release.len()), Some(RELEASE_MAX_BYTES));
    }

    #[test]
    fn files_show_libraries_that_lie_beside() {
        let folder = tempfile::tempdir().unwrap();
        let program = kernel_at(folder.path(), b"");
        let inside =
            |kernel: &UmlKernel| kernel.jail_files().iter().map(|(_, inside)| *inside).collect::<Vec<_>>();
        assert_eq!(inside(&UmlKernel::new(program.clone(), KernelOrigin::Set)), [PROGRAM]);
        fs::create_dir(folder.path().join(LIBRARIES_FOLDER)).unwrap();
        assert_eq!(inside(&UmlKernel::new(program, KernelOrigin::Set)), [LIBRARIES, PROGRAM]);
    }
}
