//! Process 1 of a virtual machine: sets the kernel up, starts the agent, reaps orphans and powers the machine off.
//!
//! ```text
//! kernel ── boot (mounts, link, listeners, a network of its own for what follows) ── agent (`serve`) ── tools
//! ```
//! The root file system is the host's read-only view of the system; what must be writable or private is mounted over
//! it. Only this process holds the listener that powers the machine off.
#![expect(
    unsafe_code,
    reason = "a network namespace is entered, and the agent started with fewer privileges"
)]

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode};

use protocol::link;
use protocol::mcp::PLUGINS;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat, sync};
use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, setrlimit, wait};
use rustix::system::{RebootCommand, reboot};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::init::report;
use crate::link_interface;
use crate::port::Port;

/// The capabilities of the agent: it runs tools as another user, ends them, reads the index, whose files the kernel shows
/// as the tools' user's, and opens a workspace that a tool has closed.
const AGENT_CAPABILITIES: CapabilitySet = CapabilitySet::KILL
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER);
/// Device files: name, major and minor number.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
/// Settings of the kernel that close what no process of the machine needs, and bound what it counts for each user;
/// older kernels lack some.
const SETTINGS: [(&str, &str); 7] = [
    ("kernel/modules_disabled", "1"),
    ("kernel/kptr_restrict", "2"),
    ("kernel/dmesg_restrict", "1"),
    ("kernel/unprivileged_bpf_disabled", "1"),
    ("user/max_user_namespaces", "0"),
    ("user/max_inotify_instances", "64"),
    ("user/max_inotify_watches", "16384"),
];
/// Environment of the size of each temporary file system, of the largest file, both in bytes, and of the most processes.
const TEMPORARY_BYTES: &str = "CAUSERIE_TEMPORARY_BYTES";
const FILE_BYTES: &str = "CAUSERIE_FILE_BYTES";
const PROCESSES: &str = "CAUSERIE_PROCESSES";

/// The kind of virtual machine.
#[derive(Debug)]
pub enum Platform {
    /// A User Mode Linux kernel: folders of the host by hostfs, the link as an Ethernet interface.
    UserModeLinux,
    /// QEMU: folders of the host by 9P, the link over a serial port.
    Qemu(Port),
}

/// Runs the machine until the agent ends or the host asks for the end, then powers it off.
#[must_use]
pub fn run(platform: Platform) -> ExitCode {
    // QEMU ends when its machine restarts, whatever the machine's firmware can do.
    let off = match platform {
        Platform::UserModeLinux => RebootCommand::PowerOff,
        Platform::Qemu(_) => RebootCommand::Restart,
    };
    let ended = set_up(&platform).and_then(|listeners| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().doing("starting")?;
        runtime.block_on(watch(listeners, platform))
    });
    end(ended, off)
}

/// Reports why the machine ends, writes files back and ends it.
pub(crate) fn end(reason: Result<(), BootError>, off: RebootCommand) -> ExitCode {
    if let Err(error) = reason {
        report(&error.to_string());
    }
    sync();
    let refused = reboot(off);
    report(&format!("powering off failed: {refused:?}"));
    ExitCode::FAILURE
}

/// A step of the start that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} failed: {source}")]
pub(crate) struct BootError {
    doing: String,
    source: io::Error,
}

pub(crate) trait ErrorContext<T> {
    fn doing(self, doing: &str) -> Result<T, BootError>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for Result<T, E> {
    fn doing(self, doing: &str) -> Result<T, BootError> {
        self.map_err(|source| BootError { doing: doing.to_owned(), source: source.into() })
    }
}

struct Listeners {
    agent: TcpListener,
    power_off: TcpListener,
}

fn set_up(platform: &Platform) -> Result<Listeners, BootError> {
    file_systems(platform)?;
    for (name, value) in SETTINGS {
        let _ = fs::write(Path::new("/proc/sys").join(name), value);
    }
    mount_bind("/proc/sys", "/proc/sys").doing("closing /proc/sys")?;
    let read_only =
        MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_remount("/proc/sys", read_only, "").doing("closing /proc/sys")?;
    rustix::system::sethostname(b"machine").doing("setting the host name")?;
    link_interface::configure().doing("configuring the link to the host")?;
    let listen = |address: SocketAddrV4| TcpListener::bind(address).doing("opening a listener");
    let listeners = Listeners { agent: listen(link::AGENT)?, power_off: listen(link::POWER_OFF)? };
    announce().doing("announcing the machine to the host")?;
    // SAFETY: the flag names no descriptors, and this process has a single thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .doing("separating the network of processes from the link")?;
    Ok(listeners)
}

/// Sends a packet, by which the host learns that the listeners are open.
fn announce() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((link::MACHINE, 0))?;
    socket.send_to(b"ready", (link::HOST, link::AGENT.port()))?;
    Ok(())
}

fn file_systems(platform: &Platform) -> Result<(), BootError> {
    let bytes = limit(TEMPORARY_BYTES).unwrap_or(64 << 20);
    let base = MountFlags::NOSUID | MountFlags::NODEV;
    let data = MountFlags::NOEXEC | base;
    file_system("proc", "/proc", MountFlags::NODEV | data, "")?;
    tmpfs("/tmp", bytes, "1777", base)?;
    tmpfs("/run", 1 << 20, "0755", data)?;
    devices(bytes)?;
    shared_folder(platform, Share::Workspace, protocol::tool::WORKSPACE, base)?;
    // The kernel shows the index as a folder of the tools' user, so it is mounted below one that only root enters.
    tmpfs("/index", 64 << 10, "0700", data)?;
    fs::create_dir(link::INDEX).doing("making the index's folder")?;
    shared_folder(platform, Share::Index, link::INDEX, data)?;
    if matches!(platform, Platform::Qemu(_)) && Path::new(PLUGINS).exists() {
        // The system keeps what it has read of other files.
        shared_folder(platform, Share::Plugins, PLUGINS, base | MountFlags::RDONLY)?;
    }
    Ok(())
}

/// A limit that the host put into the environment.
fn limit(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn devices(temporary_bytes: u64) -> Result<(), BootError> {
    tmpfs("/dev", 64 << 10, "0755", MountFlags::NOSUID | MountFlags::NOEXEC)?;
    for (name, major, minor) in DEVICES {
        let path = Path::new("/dev").join(name);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(major, minor))
            .doing("making a device file")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).doing("opening a device file")?;
    }
    for (name, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(Path::new("/proc/self").join(target), Path::new("/dev").join(name)).doing("linking /dev")?;
    }
    fs::create_dir("/dev/shm").doing("making /dev/shm")?;
    tmpfs("/dev/shm", temporary_bytes, "1777", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC)?;
    let read_only = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount_remount("/dev", read_only, "").doing("closing /dev")
}

fn tmpfs(at: &str, bytes: u64, mode: &str, flags: MountFlags) -> Result<(), BootError> {
    /// A file or folder for each 4 KiB.
    const BYTES_PER_INODE: u64 = 4096;
    let inodes = (bytes / BYTES_PER_INODE).max(64);
    file_system("tmpfs", at, flags, &format!("size={bytes},nr_inodes={inodes},mode={mode}"))
}

/// A folder of the host that is shared with this machine.
#[derive(Debug, Clone, Copy)]
enum Share {
    Workspace,
    Index,
    Plugins,
}

/// Mounts a folder that the host shares, so that both sides see each other's changes.
fn shared_folder(platform: &Platform, share: Share, at: &str, flags: MountFlags) -> Result<(), BootError> {
    // The path is one that the kernel's own process sees.
    let (host, tag) = match share {
        Share::Workspace => (protocol::tool::WORKSPACE, link::WORKSPACE_TAG),
        Share::Index => ("/index", link::INDEX_TAG),
        Share::Plugins => (PLUGINS, link::PLUGINS_TAG),
    };
    match platform {
        Platform::UserModeLinux => file_system("hostfs", at, flags, host),
        Platform::Qemu(_) => mount_9p(tag, at, flags, "mmap"),
    }
}

/// Mounts a folder that QEMU shares under a tag. With the cache `loose`, changes by the host may not be seen.
pub(crate) fn mount_9p(tag: &str, at: &str, flags: MountFlags, cache: &str) -> Result<(), BootError> {
    let context = format!("mounting the folder {tag} at {at}");
    let options = format!("trans=virtio,version=9p2000.L,msize=512000,access=any,cache={cache}");
    let options = std::ffi::CString::new(options).map_err(io::Error::other).doing(&context)?;
    mount(tag, at, "9p", flags, Some(options.as_c_str())).doing(&context)
}

pub(crate) fn file_system(kind: &str, at: &str, flags: MountFlags, options: &str) -> Result<(), BootError> {
    let context = format!("mounting {kind} at {at}");
    let options = std::ffi::CString::new(options).map_err(io::Error::other).doing(&context)?;
    let options: Option<&CStr> = Some(&options);
    mount("none", at, kind, flags, options).doing(&context)
}

/// Waits for the agent's end or the host's request.
async fn watch(listeners: Listeners, platform: Platform) -> Result<(), BootError> {
    let Listeners { agent: listener, power_off } = listeners;
    power_off.set_nonblocking(true).doing("preparing a listener")?;
    let power_off = tokio::net::TcpListener::from_std(power_off).doing("preparing a listener")?;
    let mut child_ended = signal(SignalKind::child()).doing("watching processes")?;
    let agent = start_agent(listener).doing("starting the agent")?;
    let agent = Pid::from_child(&agent);
    let mut port_ended = match platform {
        Platform::UserModeLinux => None,
        // Its threads start after the agent, before which this process may have but one.
        Platform::Qemu(port) => Some(port.carry().doing("carrying packets")?),
    };
    loop {
        tokio::select! {
            asked = power_off.accept() => {
                asked.doing("waiting for the host")?;
                let _ = kill_process(agent, Signal::TERM);
                return Ok(());
            }
            error = async { port_ended.as_mut().expect("there is a port").recv().await }, if port_ended.is_some() => {
                return Err(error.unwrap_or_else(|| io::Error::other("its threads are gone"))).doing("the port");
            }
            _ = child_ended.recv() => {
                while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                    if pid == agent {
                        return Err(io::Error::other(format!("{status:?}"))).doing("the agent");
                    }
                }
            }
        }
    }
}

/// Starts the agent with the listener and no more privileges than it needs.
fn start_agent(listener: TcpListener) -> io::Result<Child> {
    let listener = OwnedFd::from(listener);
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty())?;
    let mut command = Command::new("/proc/self/exe");
    command.arg("serve").env(crate::listener::LISTEN_FD, listener.as_raw_fd().to_string());
    command.env("CAUSERIE_INDEX", link::INDEX);
    let bounds = [
        (Resource::Core, Some(0)),
        (Resource::Fsize, limit(FILE_BYTES)),
        (Resource::Nproc, limit(PROCESSES)),
    ];
    let confine = move || {
        for (resource, bound) in bounds {
            if bound.is_some() {
                setrlimit(resource, Rlimit { current: bound, maximum: bound })?;
            }
        }
        reduce_privileges()
    };
    // SAFETY: the closure makes system calls only, in a process with a single thread.
    unsafe { command.pre_exec(confine) };
    command.spawn()
}

fn reduce_privileges() -> io::Result<()> {
    for capability in CapabilitySet::all().difference(AGENT_CAPABILITIES).iter() {
        match remove_capability_from_bounding_set(capability) {
            // A kernel that does not know it does not give it either.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let sets = CapabilitySets {
        effective: AGENT_CAPABILITIES,
        permitted: AGENT_CAPABILITIES,
        inheritable: CapabilitySet::empty(),
    };
    set_no_new_privs(true)?;
    set_capabilities(None, sets)?;
    seccomp::apply(seccomp::Profile::Agent { counted: true })
}
