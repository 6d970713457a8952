//! Sets up the root file system of a machine: programs and the skills' files read-only, the workspace, and nothing else.
//! The programs come from the host or an image.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, fstat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
    unmount,
};

use super::jail_layout;
use super::own_kernel::OwnKernel;
use super::spec::{Spec, TOOLS_ID};
use super::sys::{LaunchErrorContext, LaunchFailure, mount_setattr};
use super::{Kernel, uml};

const MOUNT_FLAGS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const READ_ONLY: u64 = MOUNT_FLAGS | libc::MOUNT_ATTR_RDONLY;

/// The folder in which the new root is assembled: every host has it, and the new root covers it meanwhile.
const SITE: &str = "/tmp";
/// Folders of programs and libraries; on most hosts links into `/usr`.
const SYSTEM: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// The files of `/etc` that programs need and that reveal nothing about the host.
const ETC: [&str; 5] = ["alternatives", "fonts", "ld.so.cache", "localtime", "mime.types"];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// The maximum number of inotify instances and watches of all processes of a machine together.
const INOTIFY: [(&str, &str); 2] = [("max_inotify_instances", "64"), ("max_inotify_watches", "16384")];
/// The parts of `/proc` that could change the behaviour of the host's kernel.
const PROC_READ_ONLY: [&str; 5] = ["sys", "irq", "bus", "fs", "sysrq-trigger"];
/// The parts of `/proc` that reveal the host's memory and kernel.
const PROC_HIDDEN: [&str; 12] = [
    "kcore",
    "keys",
    "key-users",
    "timer_list",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
    "kallsyms",
    "kmsg",
    "vmallocinfo",
    "slabinfo",
    "latency_stats",
];

/// The mounts of the account's folders, not attached yet.
pub(crate) struct MountSources {
    pub(crate) workspace: OwnedFd,
    pub(crate) index: OwnedFd,
    pub(crate) agent: OwnedFd,
    /// The files of the machine's kernel, with their paths in the jail.
    pub(crate) kernel: Vec<(OwnedFd, &'static str)>,
    /// The device of the processor's virtualisation.
    pub(crate) kvm: Option<OwnedFd>,
    pub(crate) image: Option<OwnedFd>,
    pub(crate) plugins: Option<OwnedFd>,
}

/// Creates a mount of `path`, not attached yet.
pub(crate) fn clone_mount(path: impl AsRef<Path>, recursive: bool) -> Result<OwnedFd, LaunchFailure> {
    let path = path.as_ref();
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(CWD, path, flags).with_context(&format!("taking {}", path.display()))
}

/// Takes the files of the machine's kernel.
pub(crate) fn kernel_files(spec: &Spec) -> Result<Vec<(OwnedFd, &'static str)>, LaunchFailure> {
    let files = spec.kernel.as_ref().map(OwnKernel::jail_files).unwrap_or_default();
    files.into_iter().map(|(path, inside)| Ok((clone_mount(path, false)?, inside))).collect()
}

/// Assembles the new root and makes it the root of the calling process, which must be the first of its process
/// namespace and have all capabilities in its user namespace. Memory that belongs to no process is available only if
/// control groups count it.
pub(crate) fn enter_root(sources: &MountSources, spec: &Spec) -> Result<(), LaunchFailure> {
    let (limits, counted) = (&spec.limits, spec.has_cgroups());
    let own_kernel = spec.kernel.as_ref().map(OwnKernel::kernel_kind);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .with_context("making mounts private")?;
    if let Some(image) = &sources.image {
        restrict_mount(image, false, READ_ONLY, "the image")?;
    }
    let made;
    let (root, shows_host) = match &sources.image {
        Some(image) if own_kernel.is_none() => (image, false),
        // The process of a kernel needs the host's libraries; the machine has its root elsewhere in the jail.
        _ => {
            made = create_tmpfs(1 << 20, "0755", MountAttrFlags::empty())?;
            (&made, true)
        }
    };
    attach_mount(root, SITE)?;
    rustix::process::chdir(SITE).with_context("entering the new root")?;

    if shows_host {
        bind_system_folders()?;
        write_etc()?;
        create_folder("run")?;
        create_folder("var")?;
        symlink("/tmp", "var/tmp").with_context("linking /var/tmp")?;
    }
    let system = match own_kernel {
        Some(Kernel::Qemu) if sources.image.is_none() => Some(clone_mount(".", true)?),
        _ => None,
    };
    mount_proc()?;
    mount_dev(limits.temporary_bytes, counted, sources.kvm.as_ref())?;
    place_mount(&create_tmpfs(limits.temporary_bytes, "1777", MountAttrFlags::empty())?, "tmp")?;

    restrict_mount(&sources.workspace, false, MOUNT_FLAGS, "/workspace")?;
    place_mount(&sources.workspace, "workspace")?;
    restrict_mount(&sources.index, false, MOUNT_FLAGS | libc::MOUNT_ATTR_NOEXEC, "/index")?;
    place_mount(&sources.index, "index")?;
    restrict_mount(&sources.agent, false, READ_ONLY, "/agent")?;
    create_file("agent")?;
    attach_mount(&sources.agent, "agent")?;
    for (kernel, inside) in &sources.kernel {
        restrict_mount(kernel, false, READ_ONLY, inside)?;
        let metadata = fstat(kernel).with_context("looking at the kernel's files")?;
        match FileType::from_raw_mode(metadata.st_mode) {
            FileType::Directory => create_folder(inside)?,
            _ => create_file(inside)?,
        }
        attach_mount(kernel, inside)?;
    }
    if own_kernel == Some(Kernel::UserModeLinux) {
        // The kernel maps its memory from a file, and executes code there.
        let memory_bytes = spec.host_limits().memory_bytes;
        place_mount(&create_tmpfs(memory_bytes, "1777", MountAttrFlags::empty())?, uml::MEMORY)?;
    }
    if let Some(plugins) = &sources.plugins {
        restrict_mount(plugins, false, READ_ONLY, "/plugins")?;
        place_mount(plugins, "plugins")?;
    }

    if own_kernel.is_some()
        && let Some(system) = sources.image.as_ref().or(system.as_ref())
    {
        place_system(system, sources.plugins.is_some())?;
    }

    restrict_mount(root, false, READ_ONLY, "/")?;
    rustix::process::pivot_root(".", ".").with_context("changing the root")?;
    unmount(".", UnmountFlags::DETACH).with_context("letting the host's root go")?;
    rustix::process::chdir("/").with_context("entering the root")?;
    if own_kernel.is_some() { Ok(()) } else { own_index() }
}

/// Shows the process of a kernel the root of its machine, apart from the process's root: without its processes and
/// devices. The machine mounts the workspace and the index itself.
fn place_system(system: &OwnedFd, with_plugins: bool) -> Result<(), LaunchFailure> {
    restrict_mount(system, false, READ_ONLY, "the system")?;
    place_mount(system, jail_layout::SYSTEM)?;
    let inside = Path::new(jail_layout::SYSTEM);
    attach_mount(&clone_mount("agent", false)?, inside.join("agent"))?;
    if with_plugins {
        attach_mount(&clone_mount("plugins", false)?, inside.join("plugins"))?;
    }
    Ok(())
}

/// Takes ownership of the index folder, once: for an ordinary user's service it belongs to that user at first.
fn own_index() -> Result<(), LaunchFailure> {
    let owner = fs::metadata("/index").with_context("looking at /index")?.uid();
    if owner != 0 {
        std::os::unix::fs::chown("/index", Some(0), Some(0)).with_context("giving /index to the agent")?;
        fs::set_permissions("/index", fs::Permissions::from_mode(0o700)).with_context("closing /index")?;
    }
    Ok(())
}

fn bind_system_folders() -> Result<(), LaunchFailure> {
    bind_system("usr")?;
    for name in SYSTEM {
        let host = Path::new("/").join(name);
        let Ok(metadata) = fs::symlink_metadata(&host) else { continue };
        if metadata.is_symlink() {
            let target = fs::read_link(&host).with_context("reading a system link")?;
            symlink(target, name).with_context("making a system link")?;
        } else if metadata.is_dir() {
            bind_system(name)?;
        }
    }
    Ok(())
}

fn bind_system(name: &str) -> Result<(), LaunchFailure> {
    let mount = clone_mount(Path::new("/").join(name), true)?;
    restrict_mount(&mount, true, READ_ONLY, name)?;
    place_mount(&mount, name)
}

fn write_etc() -> Result<(), LaunchFailure> {
    create_folder("etc")?;
    let passwd = format!(
        "root:x:0:0:agent:/tmp:/usr/sbin/nologin\nuser:x:{TOOLS_ID}:{TOOLS_ID}:user:/workspace:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    let files = [
        ("passwd", passwd),
        ("group", format!("root:x:0:\nuser:x:{TOOLS_ID}:\nnogroup:x:65534:\n")),
        ("hosts", "127.0.0.1 localhost machine\n::1 localhost machine\n".to_owned()),
        ("hostname", "machine\n".to_owned()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
    ];
    for (name, content) in files {
        fs::write(Path::new("etc").join(name), content).with_context("writing /etc")?;
    }
    for name in ETC {
        let host = Path::new("/etc").join(name);
        let inside = Path::new("etc").join(name);
        let Ok(metadata) = fs::symlink_metadata(&host) else { continue };
        if metadata.is_symlink() {
            let target = fs::read_link(&host).with_context("reading a link in /etc")?;
            symlink(target, inside).with_context("making a link in /etc")?;
            continue;
        }
        let mount = clone_mount(&host, false)?;
        restrict_mount(&mount, false, READ_ONLY | libc::MOUNT_ATTR_NOEXEC, "/etc")?;
        if metadata.is_dir() {
            fs::create_dir(&inside).with_context("making a folder in /etc")?;
        } else {
            fs::write(&inside, "").with_context("making a file in /etc")?;
        }
        attach_mount(&mount, inside)?;
    }
    Ok(())
}

fn mount_proc() -> Result<(), LaunchFailure> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let open = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).with_context("opening a new /proc")?;
    fsconfig_create(open.as_fd()).with_context("making a new /proc")?;
    let mount =
        fsmount(open.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags).with_context("mounting a new /proc")?;
    place_mount(&mount, "proc")?;
    // An additional layer besides the filter and the empty bounding set: no user namespace can be created inside. If
    // the kernel does not permit this write, the other layers remain.
    let _ = fs::write("proc/sys/user/max_user_namespaces", "0");
    // The kernel counts these for a user of the host, who may have other processes.
    for (name, most) in INOTIFY {
        let _ = fs::write(Path::new("proc/sys/user").join(name), most);
    }
    for name in PROC_READ_ONLY {
        let path = Path::new("proc").join(name);
        if path.exists() {
            let mount = clone_mount(&path, false)?;
            restrict_mount(&mount, false, READ_ONLY | libc::MOUNT_ATTR_NOEXEC, "/proc")?;
            attach_mount(&mount, path)?;
        }
    }
    for name in PROC_HIDDEN {
        let path = Path::new("proc").join(name);
        if path.exists() {
            attach_mount(&clone_mount("/dev/null", false)?, path)?;
        }
    }
    for name in ["acpi", "scsi"] {
        let path = Path::new("proc").join(name);
        if path.is_dir() {
            let empty = create_tmpfs(4096, "0555", MountAttrFlags::MOUNT_ATTR_RDONLY)?;
            attach_mount(&empty, path)?;
        }
    }
    Ok(())
}

fn mount_dev(temporary_bytes: u64, counted: bool, kvm: Option<&OwnedFd>) -> Result<(), LaunchFailure> {
    let dev = create_tmpfs(64 << 10, "0755", MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
    place_mount(&dev, "dev")?;
    for name in DEVICES {
        // A shared mapping of `zero` is memory; `full` reads the same and cannot be mapped.
        let device = if name == "zero" && !counted { "full" } else { name };
        let mount = clone_mount(Path::new("/dev").join(device), false)?;
        restrict_mount(&mount, false, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC, "/dev")?;
        let inside = Path::new("dev").join(name);
        fs::write(&inside, "").with_context("making a device file")?;
        attach_mount(&mount, inside)?;
    }
    let links = [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")];
    for (name, target) in links {
        symlink(Path::new("/proc/self").join(target), Path::new("dev").join(name))
            .with_context("linking /dev")?;
    }
    if let Some(kvm) = kvm {
        restrict_mount(kvm, false, libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC, "/dev/kvm")?;
        create_file("dev/kvm")?;
        attach_mount(kvm, "dev/kvm")?;
    }
    place_mount(&create_tmpfs(temporary_bytes, "1777", MountAttrFlags::MOUNT_ATTR_NOEXEC)?, "dev/shm")?;
    restrict_mount(&dev, false, READ_ONLY, "/dev")
}

fn create_tmpfs(size_bytes: u64, mode: &str, more: MountAttrFlags) -> Result<OwnedFd, LaunchFailure> {
    /// One file or folder per 4 KiB, so that empty files cannot exhaust the kernel's memory.
    const BYTES_PER_INODE: u64 = 4096;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | more;
    let open = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).with_context("opening a tmpfs")?;
    let options = [
        ("size", size_bytes.to_string()),
        ("nr_inodes", (size_bytes / BYTES_PER_INODE).max(64).to_string()),
        ("mode", mode.to_owned()),
    ];
    for (key, value) in options {
        fsconfig_set_string(open.as_fd(), key, value).with_context("sizing a tmpfs")?;
    }
    fsconfig_create(open.as_fd()).with_context("making a tmpfs")?;
    fsmount(open.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags).with_context("mounting a tmpfs")
}

fn restrict_mount(mount: &OwnedFd, recursive: bool, set: u64, what: &str) -> Result<(), LaunchFailure> {
    mount_setattr(mount.as_fd(), recursive, set, None).with_context(&format!("restricting {what}"))
}

/// Creates a folder, unless the image has it.
fn create_folder(name: &str) -> Result<(), LaunchFailure> {
    match fs::create_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.with_context(&format!("making /{name}")),
    }
}

/// Creates an empty file, unless the image has it.
fn create_file(name: &str) -> Result<(), LaunchFailure> {
    if fs::symlink_metadata(name).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    fs::write(name, "").with_context(&format!("making /{name}"))
}

/// Creates the folder and attaches the mount there.
fn place_mount(mount: &OwnedFd, name: &str) -> Result<(), LaunchFailure> {
    create_folder(name)?;
    attach_mount(mount, name)
}

fn attach_mount(mount: &OwnedFd, at: impl AsRef<Path>) -> Result<(), LaunchFailure> {
    let at = at.as_ref();
    move_mount(mount.as_fd(), "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .with_context(&format!("attaching at {}", at.display()))
}
