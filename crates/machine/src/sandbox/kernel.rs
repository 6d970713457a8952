//! The process of the jail that runs a machine's kernel: the machine's processor and memory.
//!
//! Root in the machine controls this process, so the jail confines it like an agent: it has its own user, no
//! capabilities, only the files of the jail, and a filter of system calls. It can trace only its own children,
//! because it sees no other processes.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::{Gid, Uid};

use super::jail_layout::{LISTENER, descriptor};
use super::own_kernel::OwnKernel;
use super::spec::{Spec, TOOLS_ID};
use super::sys::{self, LaunchErrorContext, LaunchFailure};
use super::{privileges, uml};

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
