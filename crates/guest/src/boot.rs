//! Process 1 of a virtual machine: sets the kernel up, starts the agent, reaps orphans and powers the machine off.
//!
//! ```text
//! kernel ── boot (mounts, link, listeners, a separate network for later processes) ── agent (`serve`) ── tools
//! ```
//! The root file system is the host's read-only view of the system; what must be writable or private is mounted over it.
//! Only this process holds the listener that powers the machine off. A machine of QEMU does every step that is the same
//! for all accounts before the host introduces it ([`crate::initramfs`]), because it may be saved at that point.
#![expect(unsafe_code, reason = "a network namespace is entered")]

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{SocketAddrV4, TcpListener, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::ExitCode;

use protocol::link;
use protocol::mcp::PLUGINS;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat, sync};
use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};
use rustix::process::{Signal, WaitOptions, kill_process, wait};
use rustix::system::{RebootCommand, reboot};
use rustix::thread::UnshareFlags;
use tokio::signal::unix::{SignalKind, signal};

use crate::agent::{AgentProcess, limit_from_environment};
use crate::init::log_end_reason;
use crate::link_interface;
use crate::memory_group::create_tool_group;
use crate::port::Port;

/// Device files: name, major and minor number.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
/// Kernel settings that disable unneeded features and bound per-user resources; older kernels lack some.
const SETTINGS: [(&str, &str); 7] = [
    ("kernel/modules_disabled", "1"),
    ("kernel/kptr_restrict", "2"),
    ("kernel/dmesg_restrict", "1"),
    ("kernel/unprivileged_bpf_disabled", "1"),
    ("user/max_user_namespaces", "0"),
    ("user/max_inotify_instances", "64"),
    ("user/max_inotify_watches", "16384"),
];
/// Mount flags of folders with data only, and of folders whose programs may be executed.
const DATA: MountFlags = MountFlags::NOEXEC.union(SHARED);
const SHARED: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
/// Environment of the size of each temporary file system, in bytes.
const TEMPORARY_BYTES: &str = "CAUSERIE_TEMPORARY_BYTES";

/// The kind of virtual machine.
#[derive(Debug)]
pub enum Platform {
    /// A User Mode Linux kernel: folders of the host by hostfs, the link as an Ethernet interface.
    UserModeLinux,
    /// QEMU: folders of the host by 9P, the link over a serial port. The host has introduced the machine.
    Qemu(Prepared),
}

/// Descriptors and processes that a machine of QEMU has made before the host introduced it.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) port: Port,
    pub(crate) link: HostLink,
    /// The agent, unless it is yet to be started.
    pub(crate) agent: Option<AgentProcess>,
}

/// Runs the machine until the agent ends or the host asks for the end, then powers it off.
#[must_use]
pub fn run_machine(platform: Platform) -> ExitCode {
    match platform {
        Platform::UserModeLinux => shut_down_machine(user_mode_linux(), RebootCommand::PowerOff),
        // QEMU ends when its machine restarts, regardless of the machine's firmware.
        Platform::Qemu(prepared) => shut_down_machine(run_qemu(prepared), RebootCommand::Restart),
    }
}

fn user_mode_linux() -> Result<(), BootError> {
    private_file_systems()?;
    // The path is seen by the kernel's process.
    shared_folders(|share, at, flags| file_system("hostfs", at, flags, share.host_path()))?;
    let link = HostLink::open_listeners()?;
    link.announce_listeners()?;
    supervise_agent(link, None, None)
}

fn run_qemu(Prepared { port, link, agent }: Prepared) -> Result<(), BootError> {
    shared_folders(|share, at, flags| mount_9p(share.mount_tag(), at, flags, "mmap"))?;
    if Path::new(PLUGINS).exists() {
        // The system caches other files that it has read.
        mount_9p(link::PLUGINS_TAG, PLUGINS, SHARED | MountFlags::RDONLY, "mmap")?;
    }
    link.announce_listeners()?;
    supervise_agent(link, agent, Some(port))
}

/// Reports why the machine ends, writes files back and ends it.
pub(crate) fn shut_down_machine(reason: Result<(), BootError>, off: RebootCommand) -> ExitCode {
    if let Err(error) = reason {
        log_end_reason(&error.to_string());
    }
    sync();
    let refused = reboot(off);
    log_end_reason(&format!("powering off failed: {refused:?}"));
    ExitCode::FAILURE
}

/// A step of the start that failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} failed: {source}")]
pub(crate) struct BootError {
    doing: String,
    source: io::Error,
}

pub(crate) trait BootErrorContext<T> {
    fn with_context(self, doing: &str) -> Result<T, BootError>;
}

impl<T, E: Into<io::Error>> BootErrorContext<T> for Result<T, E> {
    fn with_context(self, doing: &str) -> Result<T, BootError> {
        self.map_err(|source| BootError { doing: doing.to_owned(), source: source.into() })
    }
}

/// The machine's end of the link to the host.
#[derive(Debug)]
pub(crate) struct HostLink {
    pub(crate) agent: TcpListener,
    pub(crate) power_off: TcpListener,
    /// Reaches the host, unlike any other socket of the machine.
    pub(crate) announcement: UdpSocket,
}

impl HostLink {
    /// Opens the listeners, and moves this process and its later children to a separate network namespace without the link.
    pub(crate) fn open_listeners() -> Result<Self, BootError> {
        rustix::system::sethostname(b"machine").with_context("setting the host name")?;
        link_interface::configure_interface().with_context("configuring the link to the host")?;
        let listen = |address: SocketAddrV4| TcpListener::bind(address).with_context("opening a listener");
        let announcement = UdpSocket::bind((link::MACHINE, 0)).with_context("opening a socket")?;
        let opened = Self { agent: listen(link::AGENT)?, power_off: listen(link::POWER_OFF)?, announcement };
        // SAFETY: the flag names no descriptors, and this process has a single thread.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .with_context("separating the network of processes from the link")?;
        Ok(opened)
    }

    /// Sends a packet, by which the host learns that the listeners are open.
    fn announce_listeners(&self) -> Result<(), BootError> {
        let sent = self.announcement.send_to(link::ANNOUNCEMENT, (link::HOST, link::AGENT.port()));
        sent.map(drop).with_context("announcing the machine to the host")
    }
}

/// Mounts the machine's file systems and sets up the kernel.
pub(crate) fn private_file_systems() -> Result<(), BootError> {
    let bytes = limit_from_environment(TEMPORARY_BYTES).unwrap_or(64 << 20);
    file_system("proc", "/proc", MountFlags::NODEV | DATA, "")?;
    for (name, value) in SETTINGS {
        let _ = fs::write(Path::new("/proc/sys").join(name), value);
    }
    mount_bind("/proc/sys", "/proc/sys").with_context("closing /proc/sys")?;
    let read_only = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV | DATA;
    mount_remount("/proc/sys", read_only, "").with_context("closing /proc/sys")?;
    mount_tmpfs("/tmp", bytes, "1777", SHARED)?;
    mount_tmpfs("/run", 1 << 20, "0755", DATA)?;
    create_tool_group();
    create_devices(bytes)
}

/// Mounts the workspace and the index by `mount`, so that both sides see each other's changes.
fn shared_folders(
    mount: impl Fn(AccountShare, &str, MountFlags) -> Result<(), BootError>,
) -> Result<(), BootError> {
    mount(AccountShare::Workspace, protocol::tool::WORKSPACE, SHARED)?;
    // The kernel shows the index as a folder of the tools' user, so it is mounted below one that only root enters.
    mount_tmpfs("/index", 64 << 10, "0700", DATA)?;
    fs::create_dir(link::INDEX).with_context("making the index's folder")?;
    mount(AccountShare::Index, link::INDEX, DATA)
}

fn create_devices(temporary_bytes: u64) -> Result<(), BootError> {
    mount_tmpfs("/dev", 64 << 10, "0755", MountFlags::NOSUID | MountFlags::NOEXEC)?;
    for (name, major, minor) in DEVICES {
        let path = Path::new("/dev").join(name);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(major, minor))
            .with_context("making a device file")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))
            .with_context("opening a device file")?;
    }
    for (name, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(Path::new("/proc/self").join(target), Path::new("/dev").join(name))
            .with_context("linking /dev")?;
    }
    fs::create_dir("/dev/shm").with_context("making /dev/shm")?;
    mount_tmpfs(
        "/dev/shm",
        temporary_bytes,
        "1777",
        MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
    )?;
    let read_only = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount_remount("/dev", read_only, "").with_context("closing /dev")
}

fn mount_tmpfs(at: &str, bytes: u64, mode: &str, flags: MountFlags) -> Result<(), BootError> {
    /// A file or folder for each 4 KiB.
    const BYTES_PER_INODE: u64 = 4096;
    let inodes = (bytes / BYTES_PER_INODE).max(64);
    file_system("tmpfs", at, flags, &format!("size={bytes},nr_inodes={inodes},mode={mode}"))
}

/// A folder of the account that the host shares.
#[derive(Debug, Clone, Copy)]
enum AccountShare {
    Workspace,
    Index,
}

impl AccountShare {
    /// Returns its path on the host, as the kernel's own process sees it.
    const fn host_path(self) -> &'static str {
        match self {
            Self::Workspace => protocol::tool::WORKSPACE,
            Self::Index => "/index",
        }
    }

    /// Returns the tag under which QEMU shares it.
    const fn mount_tag(self) -> &'static str {
        match self {
            Self::Workspace => link::WORKSPACE_TAG,
            Self::Index => link::INDEX_TAG,
        }
    }
}

/// Mounts a folder that QEMU shares under a tag. With the cache `loose`, changes by the host may not be seen.
pub(crate) fn mount_9p(tag: &str, at: &str, flags: MountFlags, cache: &str) -> Result<(), BootError> {
    let context = format!("mounting the folder {tag} at {at}");
    let options = format!("trans=virtio,version=9p2000.L,msize=512000,access=any,cache={cache}");
    let options = std::ffi::CString::new(options).map_err(io::Error::other).with_context(&context)?;
    mount(tag, at, "9p", flags, Some(options.as_c_str())).with_context(&context)
}

pub(crate) fn file_system(kind: &str, at: &str, flags: MountFlags, options: &str) -> Result<(), BootError> {
    let context = format!("mounting {kind} at {at}");
    let options = std::ffi::CString::new(options).map_err(io::Error::other).with_context(&context)?;
    let options: Option<&CStr> = Some(&options);
    mount("none", at, kind, flags, options).with_context(&context)
}

/// Starts the agent or resumes the waiting one, then waits for its end or the host's request.
fn supervise_agent(link: HostLink, agent: Option<AgentProcess>, port: Option<Port>) -> Result<(), BootError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().with_context("starting")?;
    runtime.block_on(wait_for_end(link, agent, port))
}

async fn wait_for_end(
    link: HostLink,
    agent: Option<AgentProcess>,
    port: Option<Port>,
) -> Result<(), BootError> {
    let HostLink { agent: listener, power_off, announcement } = link;
    drop(announcement);
    power_off.set_nonblocking(true).with_context("preparing a listener")?;
    let power_off = tokio::net::TcpListener::from_std(power_off).with_context("preparing a listener")?;
    let mut child_ended = signal(SignalKind::child()).with_context("watching processes")?;
    let agent = match agent {
        Some(agent) => agent,
        None => AgentProcess::start(&listener).with_context("starting the agent")?,
    };
    drop(listener);
    let agent = agent.resume_process().with_context("telling the agent to go on")?;
    // Its threads start after the agent, because this process must be single-threaded until then.
    let mut port_ended = port.map(Port::forward_packets).transpose().with_context("carrying packets")?;
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == agent {
                return Err(io::Error::other(format!("{status:?}"))).with_context("the agent");
            }
        }
        tokio::select! {
            asked = power_off.accept() => {
                asked.with_context("waiting for the host")?;
                let _ = kill_process(agent, Signal::TERM);
                return Ok(());
            }
            error = async { port_ended.as_mut().expect("there is a port").recv().await }, if port_ended.is_some() => {
                return Err(error.unwrap_or_else(|| io::Error::other("its threads have exited"))).with_context("the port");
            }
            _ = child_ended.recv() => {}
        }
    }
}
