//! The first stage of process 1 of a QEMU machine: the program of the initramfs.
//!
//! ```text
//! modules ── port ── own file systems ── link ── agent, which waits ── (a saved machine continues here)
//!     ── introduction by the host ── system ── boot
//! ```
//! Before the introduction, nothing is mounted that the host shares and nothing belongs to an account, so a machine may
//! be saved there and continued many times. Later steps are done at each start.
#![expect(unsafe_code, reason = "modules are loaded by a system call without a safe wrapper")]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use protocol::link;
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_move, unmount};
use rustix::process::{chdir, chroot, pivot_root};
use rustix::system::RebootCommand;

use crate::agent::AgentProcess;
use crate::boot::{
    self, BootError, BootErrorContext, HostLink, Platform, Prepared, file_system, mount_9p,
    private_file_systems,
};
use crate::port::{Port, seed_kernel_random};

/// Where the system is mounted before it becomes the root.
const SYSTEM: &str = "/system";
/// Where the root of the initramfs is mounted once more, because a mount of the kernel cannot be replaced.
const BASE: &str = "/base";
/// The machine's file systems, which move to the system.
const OWN: [&str; 4] = ["/proc", "/tmp", "/run", "/dev"];

/// Runs the machine until it ends.
#[must_use]
pub fn run_initramfs() -> ExitCode {
    match prepare_machine() {
        Ok(prepared) => boot::run_machine(Platform::Qemu(prepared)),
        Err(error) => boot::shut_down_machine(Err(error), RebootCommand::Restart),
    }
}

fn prepare_machine() -> Result<Prepared, BootError> {
    for folder in OWN.into_iter().chain([SYSTEM, BASE]) {
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context("making a folder");
            }
            Ok(()) | Err(_) => {}
        }
    }
    mount_bind("/", BASE).with_context("mounting the root")?;
    chdir(BASE).with_context("entering the root")?;
    become_root().with_context("entering the root")?;
    file_system("devtmpfs", "/dev", MountFlags::NOSUID | MountFlags::NOEXEC, "")?;
    load_modules()?;
    let mut port = Port::open_port().with_context("opening the port")?;
    private_file_systems()?;
    let link = HostLink::open_listeners()?;
    let program = std::env::var_os(link::INIT);
    let agent = match program {
        None => Some(AgentProcess::start_waiting(&link.agent).with_context("starting the agent")?),
        Some(_) => None,
    };
    let introduction = port.receive_introduction().with_context("meeting the host")?;
    seed_kernel_random(&introduction).with_context("taking the host's entropy")?;
    port.set_clock().with_context("setting the clock")?;
    enter_system()?;
    let prepared = Prepared { port, link, agent };
    let Some(program) = program else { return Ok(prepared) };
    prepared.hand_over().with_context("handing over what is open")?;
    let error = Command::new(program).arg(link::BOOT_QEMU_ARGUMENT).exec();
    Err(error).with_context("executing the system's program")
}

/// Makes the current folder, which is a mount, the root of this process.
fn become_root() -> rustix::io::Result<()> {
    mount_move(".", "/")?;
    chroot(".")?;
    chdir("/")
}

fn load_modules() -> Result<(), BootError> {
    let listed = fs::read_dir(link::MODULES).with_context("listing modules")?;
    let mut modules: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for path in modules {
        let context = format!("loading {}", path.display());
        let module = File::open(&path).with_context(&context)?;
        // SAFETY: the parameters are an empty C string.
        let loaded = unsafe { libc::syscall(libc::SYS_finit_module, module.as_raw_fd(), c"".as_ptr(), 0) };
        if loaded == -1 {
            return Err(io::Error::last_os_error()).with_context(&context);
        }
        // Its memory belongs to the machine.
        fs::remove_file(&path).with_context(&context)?;
    }
    Ok(())
}

/// Makes the system that the host shares the root of all processes.
fn enter_system() -> Result<(), BootError> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_9p(link::SYSTEM_TAG, SYSTEM, flags, "loose")?;
    let enter = || {
        for own in OWN {
            let below = own.strip_prefix('/').unwrap_or(own);
            mount_move(own, Path::new(SYSTEM).join(below))?;
        }
        chdir(SYSTEM)?;
        // The earlier root is then mounted over the new one, and unmounted.
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")
    };
    enter().with_context("entering the system")
}
