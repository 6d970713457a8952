//! The kernel of a machine: its configuration, and the process of the jail that is its processor and memory.
//!
//! Root in the machine controls this process, so the jail confines it like an agent: it has its own user, no
//! capabilities, only the files of the jail, and a filter of system calls. It can trace only its own children,
//! because it sees no other processes.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::thread::{Gid, Uid};
use serde::{Deserialize, Serialize};

use super::jail::LISTENER;
use super::qemu::Qemu;
use super::spec::{Spec, TOOLS_ID};
use super::sys::{self, LaunchErrorContext, LaunchFailure};
use super::uml_kernel::UmlKernel;
use super::{Kernel, privileges, uml};

/// The path of the kernel in the jail: the program of a User Mode Linux kernel, or the kernel that QEMU boots. The
/// machine mounts its own file system over `/run`.
pub(crate) const PROGRAM: &str = "run/kernel";
/// The folder in the jail of the libraries that a kernel needs instead of the host's.
pub(crate) const LIBRARIES: &str = "run/kernel-lib";
/// The path of the initramfs in the jail.
pub(crate) const INITRAMFS: &str = "run/initramfs";
/// The path in the jail of the system that the machine shows, if it is not the jail's root: an image, or the folder that
/// QEMU shares.
pub(crate) const SYSTEM: &str = "run/system";

/// The descriptor numbers that QEMU inherits to be saved, or to continue; the link is [`LISTENER`].
pub(crate) mod descriptor {
    pub(crate) const MONITOR: i32 = 4;
    pub(crate) const MEMORY: i32 = 5;
}

/// The descriptors that the process of a kernel inherits.
pub(crate) struct Inheritance {
    pub(crate) link: OwnedFd,
    /// For a machine that is saved, or continues from a saved one.
    pub(crate) template: Option<InheritedTemplate>,
}

pub(crate) struct InheritedTemplate {
    pub(crate) monitor: OwnedFd,
    pub(crate) memory: File,
}

/// A kernel for each machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnKernel {
    /// A User Mode Linux kernel.
    UserModeLinux(UmlKernel),
    /// A virtual machine of QEMU.
    Qemu(Qemu),
}

impl OwnKernel {
    /// Returns the kind of this kernel.
    #[must_use]
    pub const fn kernel_kind(&self) -> Kernel {
        match self {
            Self::UserModeLinux(_) => Kernel::UserModeLinux,
            Self::Qemu(_) => Kernel::Qemu,
        }
    }

    /// Returns the files and folders that the jail shows read-only besides the system, with their paths there.
    pub(crate) fn jail_files(&self) -> Vec<(&Path, &'static str)> {
        match self {
            Self::UserModeLinux(kernel) => kernel.jail_files(),
            Self::Qemu(qemu) => vec![(&qemu.kernel, PROGRAM), (&qemu.initramfs, INITRAMFS)],
        }
    }

    /// Returns the virtual machine if this kernel runs in one, which can be saved.
    pub(crate) const fn virtual_machine(&self) -> Option<&Qemu> {
        match self {
            Self::UserModeLinux(_) => None,
            Self::Qemu(qemu) => Some(qemu),
        }
    }

    /// Returns true if the machine's processor is emulated.
    pub(crate) fn is_emulated(&self) -> bool {
        matches!(self, Self::Qemu(qemu) if !qemu.accelerator.needs_kvm())
    }

    /// Returns true if the machine runs on the processor's virtualisation, for which its process opens `/dev/kvm`.
    pub(crate) fn needs_kvm(&self) -> bool {
        matches!(self, Self::Qemu(qemu) if qemu.accelerator.needs_kvm())
    }
}

impl fmt::Display for OwnKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UserModeLinux(kernel) => kernel.fmt(f),
            Self::Qemu(qemu) => write!(f, "{} in QEMU", qemu.kernel.display()),
        }
    }
}

/// Finds a program: `named` as a path or as a name in `PATH`, or else `usual`.
pub(crate) fn find_program(named: Option<&Path>, usual: &str) -> Option<PathBuf> {
    let named = named.unwrap_or(Path::new(usual));
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    // `join` keeps an absolute path unchanged.
    let places = std::env::split_paths(&path).map(|folder| folder.join(named));
    places.filter_map(|place| place.canonicalize().ok()).find(|place| place.is_file())
}

/// Becomes the kernel's process. Returns only after a failure.
pub(crate) fn exec_kernel(
    spec: &Spec,
    kernel: &OwnKernel,
    inheritance: &Inheritance,
    output: &impl AsFd,
) -> LaunchFailure {
    let prepared = || -> Result<(), LaunchFailure> {
        sys::inherit_as(output.as_fd(), 1).with_context("handing over standard output")?;
        sys::inherit_as(output.as_fd(), 2).with_context("handing over standard error")?;
        sys::inherit_as(inheritance.link.as_fd(), LISTENER).with_context("handing over the link")?;
        if let Some(InheritedTemplate { monitor, memory }) = &inheritance.template {
            let files = [(monitor.as_fd(), descriptor::MONITOR), (memory.as_fd(), descriptor::MEMORY)];
            for (file, number) in files {
                sys::inherit_as(file, number).with_context("handing over a saved machine")?;
            }
        }
        sys::reset_signals().with_context("resetting signals")?;
        if matches!(kernel, OwnKernel::UserModeLinux(_)) {
            // The kernel uses the addresses up to its heap for memory that it must manage; the host may put the heap
            // up to 1 GiB away.
            sys::keep_addresses().with_context("fixing addresses")?;
            // The kernel and the programs of the machine are processes that take turns. On two processors, each turn
            // wakes an idle one, which takes longer than most turns, especially if the host is itself a virtual
            // machine. A host that refuses this has slower machines.
            let _ = sys::stay_on_processor();
        }
        // The owner of the workspace, so that the service owns files that the machine writes there.
        let (uid, gid) = (Uid::from_raw(TOOLS_ID), Gid::from_raw(TOOLS_ID));
        rustix::thread::set_thread_groups(&[]).with_context("leaving groups")?;
        rustix::thread::set_thread_res_gid(gid, gid, gid).with_context("becoming the kernel's group")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).with_context("becoming the kernel's user")?;
        privileges::drop_capabilities()?;
        privileges::filter_kernel(kernel.kernel_kind(), spec.has_cgroups())
    };
    if let Err(failure) = prepared() {
        return failure;
    }
    let (program, arguments, environment) = match kernel {
        OwnKernel::UserModeLinux(kernel) => {
            uml::jail_command(&spec.limits, kernel.has_libraries(), spec.image.is_some())
        }
        OwnKernel::Qemu(qemu) => qemu.jail_command(spec),
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    LaunchFailure::new("executing the kernel", sys::exec_program(&program, &arguments, &environment))
}
