//! The files that a QEMU machine boots, made from files of the host's distribution: the kernel without its compression, and
//! an initramfs of the guest program and the modules that the kernel needs for it.
//!
//! They are kept in a folder and made again when one of their sources has changed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cpio::CpioArchive;
use super::folders::private_folder;
use super::own_kernel::{Accelerator, Qemu};
use super::{driver_failure, files_stamp, sys};
use crate::contract::DriverError;

/// The modules that a machine needs, unless the kernel has them built in: its devices, its files, its link.
const MODULES: [&str; 5] = ["virtio_mmio", "virtio_console", "9pnet_virtio", "9p", "tun"];
/// The deepest folder of a kernel's modules.
const DEPTH_MAX: usize = 16;
/// The file with the sources of the others.
const STAMP: &str = "stamp";

/// The files of the host from which a machine's are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootSources {
    /// The program of QEMU.
    pub qemu: PathBuf,
    /// The kernel, named `vmlinuz-` and its version.
    kernel: PathBuf,
    /// The folder of its modules.
    modules: PathBuf,
    /// The program that becomes process 1 in the initramfs. It must be linked statically.
    pub init: PathBuf,
    /// True if process 1 becomes the agent's program once the system is mounted; needed only if the programs differ.
    pub boots_agent: bool,
}

impl BootSources {
    /// Finds the kernel: `named`, or else the newest in `/boot` with its modules.
    ///
    /// # Errors
    /// Returns the reason for the operator if the files cannot be made.
    pub fn find_sources(qemu: PathBuf, named: Option<&Path>, init: PathBuf) -> Result<Self, String> {
        let candidates = match named {
            Some(named) => vec![named.to_owned()],
            None => list_kernels(Path::new("/boot")),
        };
        let mut reason =
            "no kernel /boot/vmlinuz-* found: install one (Debian: `apt-get install linux-image-amd64`)"
                .to_owned();
        for kernel in candidates {
            match modules_of(&kernel) {
                Ok(modules) => return Ok(Self { qemu, kernel, modules, init, boots_agent: false }),
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    /// Returns the files of the host that determine the machine.
    #[must_use]
    pub fn source_files(&self) -> [&Path; 4] {
        [&self.qemu, &self.kernel, &self.modules, &self.init]
    }

    /// Makes the machine's files in this folder, unless they exist. Blocks for some seconds the first time.
    ///
    /// # Errors
    /// [`DriverError::Refused`] when the kernel cannot be used, [`DriverError::Failed`] when files cannot be written.
    pub fn prepare_files(&self, folder: &Path, emulated: bool) -> Result<Qemu, DriverError> {
        private_folder(folder)?;
        let lock = File::create(folder.join("lock")).and_then(|lock| lock.lock().map(|()| lock));
        let _lock = lock.map_err(|error| driver_failure("locking the files of machines", error))?;
        let (kernel, initramfs, stamped) =
            (folder.join("kernel"), folder.join("initramfs"), folder.join(STAMP));
        let writing = |error: io::Error| driver_failure("making the files of a machine", error);
        let stamp = files_stamp(&[&self.kernel, &self.modules, &self.init]).map_err(writing)?;
        if !fs::read_to_string(&stamped).is_ok_and(|text| text == stamp) {
            write_whole(&kernel, |file| unpack_kernel(&self.kernel, file)).map_err(writing)?;
            let modules = Modules::from_folder(&self.modules).map_err(writing)?.resolve_modules(&MODULES)?;
            write_whole(&initramfs, |file| write_initramfs(file, &self.init, &modules)).map_err(writing)?;
            write_whole(&stamped, |mut file| file.write_all(stamp.as_bytes())).map_err(writing)?;
        }
        let accelerator = match emulated {
            false => Accelerator::Kvm,
            true => Accelerator::Emulation { time_stamp_khz: time_stamp_khz(folder).map_err(writing)? },
        };
        let Self { qemu: program, boots_agent, .. } = self.clone();
        Ok(Qemu { program, kernel, initramfs, accelerator, boots_agent })
    }
}

/// Returns the kernels of a folder, the newest first.
fn list_kernels(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut kernels: Vec<_> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    kernels.sort();
    kernels.into_iter().rev().map(|(_, path)| path).collect()
}

/// Returns the folder of a kernel's modules, which is beside the kernel's folder.
fn modules_of(kernel: &Path) -> Result<PathBuf, String> {
    let version = kernel.file_name().and_then(|name| name.to_str()?.strip_prefix("vmlinuz-"));
    let version = version.ok_or_else(|| format!("{}: its name must be vmlinuz-VERSION", kernel.display()))?;
    if !kernel.is_file() {
        return Err(format!("kernel {} not found", kernel.display()));
    }
    let root = kernel.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let folders = ["lib/modules", "usr/lib/modules"].map(|folder| root.join(folder).join(version));
    // Cloud kernels do not have it.
    let has_9p = |folder: &PathBuf| folder.join("kernel/fs/9p").is_dir();
    folders.into_iter().find(has_9p).ok_or_else(|| {
        format!(
            "{} has no modules for 9P in {}/lib/modules/{version} (Debian: `apt-get install linux-image-amd64`)",
            kernel.display(),
            root.display()
        )
    })
}

/// Writes a file atomically. Machines' users may read it.
fn write_whole(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let fresh = path.with_extension("new");
    let file = File::create(&fresh)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    write(file)?;
    fs::rename(fresh, path)
}

/// Writes the kernel without its compression, because decompression takes seconds on an emulated processor. A kernel
/// with an unknown compression is copied, and decompresses itself.
fn unpack_kernel(path: &Path, mut file: File) -> io::Result<()> {
    let image = fs::read(path)?;
    let Some(payload) = xz_payload(&image) else { return file.write_all(&image) };
    unpack_xz(payload, file)
}

/// Returns the compressed kernel in an image of the x86 boot protocol, if it is compressed by xz.
fn xz_payload(image: &[u8]) -> Option<&[u8]> {
    const SETUP_SECTORS: usize = 0x1f1;
    const PAYLOAD_OFFSET: usize = 0x248;
    const PAYLOAD_LENGTH: usize = 0x24c;
    /// The length of the kernel follows the compressed data.
    const TRAILER_BYTES: usize = 4;
    let word = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?));
    let setup = (usize::from(*image.get(SETUP_SECTORS)?) + 1) * 512;
    let start = setup.checked_add(usize::try_from(word(PAYLOAD_OFFSET)?).ok()?)?;
    let length = usize::try_from(word(PAYLOAD_LENGTH)?).ok()?.checked_sub(TRAILER_BYTES)?;
    let payload = image.get(start..start.checked_add(length)?)?;
    payload.starts_with(b"\xfd7zXZ\0").then_some(payload)
}

/// Decompresses with the program `xz`, which every Debian has.
fn unpack_xz(packed: &[u8], output: File) -> io::Result<()> {
    let mut xz = Command::new("xz").arg("-dc").stdin(Stdio::piped()).stdout(output).spawn()?;
    let fed = xz.stdin.take().map_or(Ok(()), |mut input| input.write_all(packed));
    let status = xz.wait()?;
    if !status.success() {
        return Err(io::Error::other(format!("xz: {status}")));
    }
    fed
}

fn write_initramfs(file: File, init: &Path, modules: &[(String, Vec<u8>)]) -> io::Result<()> {
    let mut archive = CpioArchive::new(io::BufWriter::new(file));
    archive.add_program("init", &fs::read(init)?)?;
    archive.add_folder("modules")?;
    for (at, (name, content)) in modules.iter().enumerate() {
        archive.add_file(&format!("modules/{at:02}-{name}.ko"), content)?;
    }
    archive.finish()?.flush()
}

/// The modules of a kernel.
struct Modules {
    files: HashMap<String, PathBuf>,
    /// The list of built-in modules, by their paths.
    built_in: String,
}

impl Modules {
    fn from_folder(folder: &Path) -> io::Result<Self> {
        let mut files = HashMap::new();
        collect_modules(&folder.join("kernel"), &mut files, DEPTH_MAX)?;
        Ok(Self { files, built_in: fs::read_to_string(folder.join("modules.builtin"))? })
    }

    /// Returns these modules and their dependencies, each after its dependencies.
    fn resolve_modules(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, DriverError> {
        let mut ordered = Vec::new();
        for name in names {
            self.add_module(name, &mut ordered, DEPTH_MAX)?;
        }
        Ok(ordered)
    }

    fn add_module(
        &self,
        name: &str,
        ordered: &mut Vec<(String, Vec<u8>)>,
        depth_left: usize,
    ) -> Result<(), DriverError> {
        let is_built_in =
            self.built_in.lines().any(|line| module_name(Path::new(line)).as_deref() == Some(name));
        if is_built_in || ordered.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        let path = self.files.get(name).filter(|_| depth_left > 0);
        let path = path.ok_or_else(|| DriverError::Refused(format!("the kernel has no module {name}")))?;
        let content = read_module(path)
            .map_err(|error| driver_failure(&format!("reading {}", path.display()), error))?;
        for dependency in module_dependencies(&content) {
            self.add_module(&dependency, ordered, depth_left - 1)?;
        }
        ordered.push((name.to_owned(), content));
        Ok(())
    }
}

fn collect_modules(folder: &Path, files: &mut HashMap<String, PathBuf>, depth_left: usize) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && depth_left > 0 {
            collect_modules(&entry.path(), files, depth_left - 1)?;
        } else if kind.is_file()
            && let Some(name) = module_name(&entry.path())
        {
            files.insert(name, entry.path());
        }
    }
    Ok(())
}

/// Returns the name of the module in this file, in which the kernel writes hyphens as underscores.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    Some(file.split_once(".ko")?.0.replace('-', "_"))
}

fn read_module(path: &Path) -> io::Result<Vec<u8>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("ko") => fs::read(path),
        Some("xz") => {
            let output = Command::new("xz").arg("-dc").arg(path).output()?;
            if output.status.success() { Ok(output.stdout) } else { Err(io::Error::other("xz failed")) }
        }
        _ => Err(io::Error::other("its compression is unknown")),
    }
}

/// Returns the modules that this one names in its information.
fn module_dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|bytes| bytes == KEY) else { return Vec::new() };
    let names = module.get(at + KEY.len()..).unwrap_or_default();
    let names = names.split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(names);
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// Returns the frequency of the host's time stamp counter, which is measured once for each boot of the host.
fn time_stamp_khz(folder: &Path) -> io::Result<u32> {
    let kept = folder.join("time-stamp-khz");
    let boot = super::identity::boot_id()?;
    if let Ok(text) = fs::read_to_string(&kept)
        && let Some(khz) = text.strip_prefix(&boot).and_then(|khz| khz.trim().parse().ok())
    {
        return Ok(khz);
    }
    let khz = sys::measure_time_stamps()?;
    fs::write(kept, format!("{boot} {khz}"))?;
    Ok(khz)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module_bytes(depends: &str) -> Vec<u8> {
        format!("\u{7f}ELF\0license=GPL\0depends={depends}\0name=x\0").into_bytes()
    }

    fn kernel_with(modules: &[(&str, &str)], built_in: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, depends) in modules {
            let path = folder.path().join("kernel").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, module_bytes(depends)).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), built_in).unwrap();
        folder
    }

    #[test]
    fn resolve_modules_orders_dependencies_first() {
        let modules = [
            ("fs/9p/9p.ko", "9pnet,netfs"),
            ("net/9p/9pnet.ko", ""),
            ("net/9p/9pnet-virtio.ko", "virtio,9pnet,virtio-ring"),
            ("drivers/virtio/virtio_ring.ko", ""),
        ];
        let folder = kernel_with(&modules, "kernel/drivers/virtio/virtio.ko\nkernel/fs/netfs/netfs.ko\n");
        let needed =
            Modules::from_folder(folder.path()).unwrap().resolve_modules(&["9p", "9pnet_virtio"]).unwrap();
        let names: Vec<&str> = needed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["9pnet", "9p", "virtio_ring", "9pnet_virtio"]);
    }

    #[test]
    fn resolve_modules_rejects_missing_and_cycles() {
        let folder = kernel_with(&[("a.ko", "b"), ("b.ko", "a"), ("c.ko", "gone")], "");
        let modules = Modules::from_folder(folder.path()).unwrap();
        for name in ["a", "c", "none"] {
            assert!(matches!(modules.resolve_modules(&[name]), Err(DriverError::Refused(_))), "{name}");
        }
    }

    #[test]
    fn xz_payload_finds_kernel_or_none() {
        let packed = b"\xfd7zXZ\0and so on";
        let mut image = vec![0; 1024];
        image[0x1f1] = 1;
        image[0x248..0x24c].copy_from_slice(&8_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(u32::try_from(packed.len()).unwrap() + 4).to_le_bytes());
        image.extend_from_slice(&[0; 8]);
        image.extend_from_slice(packed);
        image.extend_from_slice(&[1, 2, 3, 4]);
        assert_eq!(xz_payload(&image), Some(packed.as_slice()));
        assert_eq!(xz_payload(&image[..image.len() - 5]), None, "it is cut");
        for length in 0..0x260 {
            assert_eq!(xz_payload(&vec![0xff; length]), None);
        }
    }
}
