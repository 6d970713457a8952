//! The messages between service and launcher, and the files in the machine's folder.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::own_kernel::OwnKernel;
use super::template::TemplateFiles;
use super::{Kernel, MachineImage};

/// The longest spec that a launcher reads.
pub(crate) const SPEC_MAX_BYTES: usize = 64 * 1024;
/// The longest report that a service reads.
pub(crate) const REPORT_MAX_BYTES: usize = 64 * 1024;
/// The agent's listening socket in the machine's folder.
pub(crate) const SOCKET: &str = "agent.sock";
/// The file that is locked while the machine lives.
pub(crate) const LOCK: &str = "lock";
/// The machine's [`MachineIdentity`].
pub(crate) const STATE: &str = "state.json";
/// The standard output and error of the agent and the jail.
pub(crate) const LOG: &str = "agent.log";
/// The device of the processor's virtualisation that a machine of a root service has.
pub(crate) const KVM: &str = "kvm";
/// The file with the reason of the last change of the machine's state.
pub(crate) const REASON: &str = "reason";
/// The user of tools inside.
pub(crate) const TOOLS_ID: u32 = 1000;

/// The resource limits of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineLimits {
    /// The memory of all processes together with a control group, otherwise of each process.
    pub memory_bytes: u64,
    pub processes: u64,
    /// The processor time in percent of one core, enforced by a control group.
    pub cpu_percent: u64,
    /// The size of the workspace, which the agent checks.
    pub workspace_bytes: u64,
    /// The largest file that a process may write.
    pub file_bytes: u64,
    /// The sizes of `/tmp` and `/dev/shm`, each.
    pub temporary_bytes: u64,
    /// Open files of each process.
    pub open_files: u64,
}

/// The largest stack of a process, and of each of its threads.
const STACK_BYTES: u64 = 64 << 20;
/// The same for QEMU, which has up to 64 threads for files.
const QEMU_STACK_BYTES: u64 = 2 << 20;

impl MachineLimits {
    /// Returns the limits on the host for a kernel whose machine has these limits.
    pub(crate) fn with_kernel(&self, kernel: Kernel) -> Self {
        const OPEN_FILES: u64 = 65_536;
        let kernel_memory_bytes: u64 = match kernel {
            Kernel::Host | Kernel::UserModeLinux => 96 << 20,
            // The program with the stacks of its threads, its translated code, and the kernel that it loads.
            Kernel::Qemu => 256 << 20,
        };
        let memory_bytes = self.memory_bytes.saturating_add(self.memory_bytes / 8 + kernel_memory_bytes);
        Self {
            memory_bytes,
            processes: self.processes.saturating_mul(2).saturating_add(64),
            // The memory of the machine and of the kernel itself is a file of the kernel.
            file_bytes: self.file_bytes.max(memory_bytes),
            open_files: self.open_files.max(OPEN_FILES),
            ..self.clone()
        }
    }
}

impl Default for MachineLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            processes: 256,
            cpu_percent: 100,
            workspace_bytes: 10 << 30,
            file_bytes: 2 << 30,
            temporary_bytes: 128 << 20,
            open_files: 4096,
        }
    }
}

/// The ids on the host that represent the two users of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserIds {
    pub(crate) agent_uid: u32,
    pub(crate) agent_gid: u32,
    pub(crate) tools_uid: u32,
    pub(crate) tools_gid: u32,
}

/// The request to a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LaunchTask {
    Run,
    /// Create the whole jail, run the self-test, and remove it.
    Check,
    /// Boot a virtual machine, save it to the spec's template, and end it.
    Save,
    /// Empty the index, whose files belong to the agent's user.
    Clear,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) task: LaunchTask,
    pub(crate) machine: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) agent: PathBuf,
    /// The machine's kernel, which runs the agent; `None` runs it on the host's kernel.
    pub(crate) kernel: Option<OwnKernel>,
    /// The saved virtual machine from which this one continues, or which it becomes; `None` boots.
    pub(crate) template: Option<TemplateFiles>,
    /// The system that the machine shows; `None` shows the host's.
    pub(crate) image: Option<MachineImage>,
    /// The files of skills, shown to all machines read-only.
    pub(crate) plugins: Option<PathBuf>,
    /// True if the service runs as root and maps ids itself.
    pub(crate) privileged: bool,
    pub(crate) ids: UserIds,
    pub(crate) limits: MachineLimits,
    /// The machine's control groups, made by the service.
    pub(crate) cgroups: Vec<PathBuf>,
    /// The interval in which the machine checks that its folder exists.
    pub(crate) folder_check_ms: u64,
    /// The deadline until which the machine may work; `None` sets none.
    #[serde(default)]
    pub(crate) lease: Option<LeaseTerms>,
}

/// The page that a machine watches (see [`LeasePage`](super::LeasePage)).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LeaseTerms {
    pub(crate) page: PathBuf,
    /// The time for which the machine stays suspended before it ends.
    pub(crate) suspended_max_ms: u64,
}

impl Spec {
    /// Returns the limits of the machine's processes on the host. A separate kernel needs memory for itself, and a
    /// process of the host for each process of the machine.
    pub(crate) fn host_limits(&self) -> MachineLimits {
        match &self.kernel {
            Some(kernel) => self.limits.with_kernel(kernel.kernel_kind()),
            None => self.limits.clone(),
        }
    }

    /// Returns the largest stack of a thread of the machine's processes on the host, in bytes.
    pub(crate) fn stack_bytes(&self) -> u64 {
        match self.kernel.as_ref().map(OwnKernel::kernel_kind) {
            Some(Kernel::Qemu) => QEMU_STACK_BYTES,
            _ => STACK_BYTES,
        }
    }

    /// Returns true if control groups limit all processes of the machine together.
    pub(crate) fn has_cgroups(&self) -> bool {
        !self.cgroups.is_empty()
    }
}

/// Identifies a machine by the first process of its process namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineIdentity {
    pub(crate) pid: i32,
    /// The start time in clock ticks since boot: distinguishes it from a later process with the same id.
    pub(crate) start_time: u64,
    pub(crate) boot_id: String,
    pub(crate) cgroups: Vec<PathBuf>,
    /// The kernel that it runs on; a version that did not write it may have started it.
    #[serde(default)]
    pub(crate) kernel: Option<Kernel>,
}

/// The launcher's answer, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LaunchReport {
    Running(MachineIdentity),
    Checked,
    Saved,
    Cleared,
    /// Another process runs this machine.
    Busy,
    Failed {
        reason: String,
    },
}
