//! The User Mode Linux kernel of a machine: a process of the jail that runs the agent and its tools.
//!
//! Root in the machine controls this process, so the jail confines it like an agent: it has its own user, no
//! capabilities, only the files of the jail, and a filter of system calls. It can trace only its own children,
//! because it sees no other processes.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use protocol::link::BOOT_ARGUMENT;
use rustix::thread::{Gid, Uid};

use super::bridge::{MACHINE_MAC, MTU};
use super::jail::{LISTENER, environment};
use super::privileges;
use super::spec::{Limits, Spec, TOOLS_ID};
use super::sys::{self, ErrorContext, Failure};

/// The path of the kernel's program in the jail, and the folder of the file that backs the machine's memory. The
/// machine mounts its own file system over `/run`.
pub(crate) const PROGRAM: &str = "run/kernel";
pub(crate) const MEMORY: &str = "run/memory";
/// The path of the image in the jail of a kernel, whose own process needs the host's libraries.
pub(crate) const IMAGE: &str = "run/image";
/// Disables calibrations at boot for algorithms that the kernel never uses; they took 1.5 s of 1.9.
const NO_CALIBRATION: &str = "initcall_blacklist=raid6_select_algo,raid6_init,calibrate_xor_blocks";

/// Finds the kernel's program: `named` as a path or as a name in `PATH`, by default `linux.uml`.
#[must_use]
pub fn find_kernel(named: Option<&Path>) -> Option<PathBuf> {
    let named = named.unwrap_or(Path::new("linux.uml"));
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    // `join` keeps an absolute path unchanged.
    let places = std::env::split_paths(&path).map(|folder| folder.join(named));
    places.filter_map(|place| place.canonicalize().ok()).find(|place| place.is_file())
}

/// Becomes the kernel. Returns only after a failure.
pub(crate) fn start(spec: &Spec, link: &OwnedFd, output: &impl AsFd) -> Failure {
    let prepared = || -> Result<(), Failure> {
        sys::inherit_as(output.as_fd(), 1).doing("handing over standard output")?;
        sys::inherit_as(output.as_fd(), 2).doing("handing over standard error")?;
        sys::inherit_as(link.as_fd(), LISTENER).doing("handing over the link")?;
        sys::reset_signals().doing("resetting signals")?;
        // The kernel uses the addresses up to its heap for memory that it must manage; the host may put the heap up
        // to 1 GiB away.
        sys::keep_addresses().doing("fixing addresses")?;
        // The owner of the workspace, so that the service owns what the machine writes there.
        let (uid, gid) = (Uid::from_raw(TOOLS_ID), Gid::from_raw(TOOLS_ID));
        rustix::thread::set_thread_groups(&[]).doing("leaving groups")?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).doing("becoming the kernel's group")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).doing("becoming the kernel's user")?;
        privileges::drop_capabilities()?;
        privileges::filter_kernel(spec.grouped())
    };
    if let Err(failure) = prepared() {
        return failure;
    }
    let arguments = arguments(&spec.limits, spec.image.is_some());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let host = [format!("TMPDIR=/{MEMORY}"), "PATH=/usr/bin:/bin".to_owned(), "HOME=/tmp".to_owned()];
    Failure::new("executing the kernel", sys::exec(&format!("/{PROGRAM}"), &arguments, &host))
}

/// Returns the command line of the kernel. The kernel passes unknown arguments to process 1.
fn arguments(limits: &Limits, shows_image: bool) -> Vec<String> {
    let mac = MACHINE_MAC.map(|byte| format!("{byte:02x}")).join(":");
    let mut arguments = vec![
        format!("mem={}M", limits.memory_bytes >> 20),
        "umid=machine".to_owned(),
        "uml_dir=/tmp".to_owned(),
        "rootfstype=hostfs".to_owned(),
        "ro".to_owned(),
        "quiet".to_owned(),
        "selinux=0".to_owned(),
        "panic=-1".to_owned(),
        "con=null".to_owned(),
        "con0=null,fd:1".to_owned(),
        "ssl=null".to_owned(),
        "pty.legacy_count=0".to_owned(),
        NO_CALIBRATION.to_owned(),
        // Without it the kernel measures how fast it loops, for a third of its boot. It waits for no hardware.
        "lpj=16000000".to_owned(),
        format!("vec0:transport=fd,fd={LISTENER},depth=64,mtu={MTU},mac={mac}"),
        "init=/agent".to_owned(),
    ];
    if shows_image {
        arguments.push(format!("rootflags=/{IMAGE}"));
    }
    // Inside the machine, its own kernel counts all memory.
    arguments.extend(environment(limits, true));
    arguments.extend(["--".to_owned(), BOOT_ARGUMENT.to_owned()]);
    arguments
}
