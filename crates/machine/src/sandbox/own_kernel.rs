//! The kernel of a machine that has its own, as a part of the spec of a launch.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Kernel;
use super::jail_layout::{INITRAMFS, PROGRAM};
use super::uml_kernel::UmlKernel;

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

/// The processor that a virtual machine runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accelerator {
    /// The host's processor, by `/dev/kvm`.
    Kvm,
    /// A processor emulated by QEMU, which is many times slower.
    Emulation {
        /// The frequency of the host's time stamp counter, in kHz, which the machine's kernel could not measure.
        time_stamp_khz: u32,
    },
}

impl Accelerator {
    pub(crate) const fn needs_kvm(self) -> bool {
        matches!(self, Self::Kvm)
    }
}

/// A virtual machine of QEMU, made of files of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qemu {
    /// The program, below `/usr`.
    pub(crate) program: PathBuf,
    /// The kernel, not compressed.
    pub(crate) kernel: PathBuf,
    pub(crate) initramfs: PathBuf,
    pub(crate) accelerator: Accelerator,
    /// True if process 1 becomes the agent's program of the system instead of remaining the initramfs's program.
    pub(crate) boots_agent: bool,
}
