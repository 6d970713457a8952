//! The first stage of process 1 of a QEMU machine: the program of the initramfs.
//!
//! ```text
//! modules ── port ── (a saved machine continues here) ── introduction by the host ── system ── boot
//! ```
//! Up to the introduction nothing is mounted that the host shares and nothing is of one account, so that a machine may be
//! saved there and continued many times.
#![expect(unsafe_code, reason = "modules are loaded by a system call without a safe wrapper")]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use protocol::link;
use rustix::mount::{MountFlags, mount_move};
use rustix::process::{chdir, chroot};
use rustix::system::RebootCommand;

use crate::boot::{self, BootError, ErrorContext, Platform, file_system, mount_9p};
use crate::port::{Port, introduce};

/// Where the system is mounted before it becomes the root.
const SYSTEM: &str = "/system";

/// Runs the machine until it ends.
#[must_use]
pub fn run() -> ExitCode {
    match prepare() {
        Ok(port) => boot::run(Platform::Qemu(port)),
        Err(error) => boot::end(Err(error), RebootCommand::Restart),
    }
}

fn prepare() -> Result<Port, BootError> {
    let data = MountFlags::NOSUID | MountFlags::NOEXEC;
    for folder in ["/dev", SYSTEM] {
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).doing("making a folder");
            }
            Ok(()) | Err(_) => {}
        }
    }
    file_system("devtmpfs", "/dev", data, "")?;
    load_modules()?;
    let mut port = Port::open().doing("opening the port")?;
    let introduction = port.meet().doing("meeting the host")?;
    introduce(&introduction).doing("taking the host's time and entropy")?;
    enter_system()?;
    let Some(program) = std::env::var_os(link::INIT) else { return Ok(port) };
    port.hand_over().doing("handing over the port")?;
    let error = Command::new(program).arg(link::BOOT_QEMU_ARGUMENT).exec();
    Err(error).doing("executing the system's program")
}

fn load_modules() -> Result<(), BootError> {
    let listed = fs::read_dir(link::MODULES).doing("listing modules")?;
    let mut modules: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for path in modules {
        let context = format!("loading {}", path.display());
        let module = File::open(&path).doing(&context)?;
        // SAFETY: the parameters are an empty C string.
        let loaded = unsafe { libc::syscall(libc::SYS_finit_module, module.as_raw_fd(), c"".as_ptr(), 0) };
        if loaded == -1 {
            return Err(io::Error::last_os_error()).doing(&context);
        }
        // Its memory is the machine's.
        fs::remove_file(&path).doing(&context)?;
    }
    Ok(())
}

/// Makes the system that the host shows the root.
fn enter_system() -> Result<(), BootError> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_9p(link::SYSTEM_TAG, SYSTEM, flags, "loose")?;
    let context = "entering the system";
    chdir(SYSTEM).doing(context)?;
    mount_move(".", "/").doing(context)?;
    chroot(".").doing(context)?;
    chdir("/").doing(context)
}
