//! The command line of QEMU.
//!
//! The machine has no disk, no network and no display: a serial port carries the packets of its link, and folders of the
//! jail are shared by 9P. It boots a kernel of the host's distribution with an initramfs that holds the guest program.

use std::path::{Path, PathBuf};

use protocol::link::{self, INITRAMFS_ARGUMENT};

use super::agent_environment::agent_environment;
use super::jail_layout::{INITRAMFS, LISTENER, PROGRAM, SYSTEM, descriptor};
use super::own_kernel::{Accelerator, Qemu};
use super::programs::find_program;
use super::spec::{LaunchTask, Spec};

/// Finds QEMU: `named` as a path or as a name in `PATH`, by default `qemu-system-x86_64`. It must lie below `/usr`, which
/// the jail shows with the libraries and the firmware that it needs.
#[must_use]
pub fn find_qemu(named: Option<&Path>) -> Option<PathBuf> {
    find_program(named, "qemu-system-x86_64").filter(|program| program.starts_with("/usr"))
}

impl Qemu {
    /// Returns the folder of the boot files, in which a machine is also saved.
    pub(crate) fn boot_folder(&self) -> &Path {
        self.initramfs.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the program in the jail, its arguments and its environment.
    pub(crate) fn jail_command(&self, spec: &Spec) -> (String, Vec<String>, Vec<String>) {
        let environment = vec!["PATH=/usr/bin:/bin".to_owned(), "HOME=/tmp".to_owned()];
        (self.program.display().to_string(), self.qemu_arguments(spec), environment)
    }

    /// Returns the arguments, which a saved machine and the machines that continue from it share, except for the ends of
    /// their connections.
    pub(crate) fn qemu_arguments(&self, spec: &Spec) -> Vec<String> {
        let accelerator = match self.accelerator {
            Accelerator::Kvm => "kvm".to_owned(),
            Accelerator::Emulation { .. } => format!("tcg,tb-size={TRANSLATION_MEBIBYTES}"),
        };
        let memory = format!("{}M", spec.limits.memory_bytes >> 20);
        let mut arguments: Vec<String> = [
            "-name",
            "machine",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-M",
            MACHINE,
            "-cpu",
            "max",
            "-smp",
            "1",
            "-m",
            &memory,
            "-accel",
            &accelerator,
            "-kernel",
            &format!("/{PROGRAM}"),
            "-initrd",
            &format!("/{INITRAMFS}"),
            "-append",
            &self.kernel_arguments(spec),
            "-chardev",
            "stdio,id=console,signal=off",
            "-serial",
            "chardev:console",
            "-chardev",
            &format!("socket,id=link,fd={LISTENER}"),
            "-device",
            "virtio-serial-device",
            "-device",
            "virtserialport,chardev=link,name=link",
            "-sandbox",
            "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        ]
        .map(ToOwned::to_owned)
        .to_vec();
        if spec.template.is_some() {
            arguments.extend(template_arguments(spec, &memory));
        }
        for SharedFolder { tag, folder, read_only } in shared_folders(spec) {
            let access = if read_only { ",readonly=on" } else { "" };
            arguments.extend([
                "-fsdev".to_owned(),
                format!("local,id={tag},path={folder},security_model=none,multidevs=remap{access}"),
                "-device".to_owned(),
                format!("virtio-9p-device,fsdev={tag},mount_tag={tag}"),
            ]);
        }
        arguments
    }

    /// Returns the command line of the kernel, which passes arguments that it does not know to process 1.
    fn kernel_arguments(&self, spec: &Spec) -> String {
        let mut arguments = vec![
            "console=ttyS0".to_owned(),
            "quiet".to_owned(),
            // A panicking kernel restarts, which ends QEMU.
            "panic=-1".to_owned(),
            "reboot=t".to_owned(),
            "no_timer_check".to_owned(),
            "random.trust_cpu=on".to_owned(),
            "rcupdate.rcu_expedited=1".to_owned(),
            "selinux=0".to_owned(),
            "pty.legacy_count=0".to_owned(),
        ];
        if let Accelerator::Emulation { time_stamp_khz } = self.accelerator {
            // Without it the kernel measures the counter against an emulated clock, which may never converge.
            arguments.push(format!("tsc_early_khz={time_stamp_khz}"));
            // The kernel would compare the counter with its timer ticks, which come late or never on a busy host, and keep time by
            // the ticks instead.
            arguments.push("tsc=reliable".to_owned());
        }
        if self.boots_agent {
            arguments.push(format!("{}=/agent", link::INIT));
        }
        // Inside the machine, its own kernel counts all memory.
        arguments.extend(agent_environment(&spec.limits, true));
        arguments.extend(["--".to_owned(), INITRAMFS_ARGUMENT.to_owned()]);
        arguments.join(" ")
    }
}

/// Returns the arguments by which a machine is saved, or continues from a saved one. A machine that is saved writes its
/// memory to the file; one that continues gets copies of the pages that it writes.
fn template_arguments(spec: &Spec, memory: &str) -> Vec<String> {
    let is_saved = spec.task == LaunchTask::Save;
    let (shares, number) = (if is_saved { "on" } else { "off" }, descriptor::MEMORY);
    let mut arguments = vec![
        "-object".to_owned(),
        format!("memory-backend-file,id=memory,size={memory},mem-path=/proc/self/fd/{number},share={shares}"),
        "-machine".to_owned(),
        "memory-backend=memory".to_owned(),
        "-chardev".to_owned(),
        format!("socket,id=monitor,fd={}", descriptor::MONITOR),
        "-mon".to_owned(),
        "chardev=monitor,mode=control".to_owned(),
    ];
    if !is_saved {
        arguments.extend(["-incoming", "defer"].map(ToOwned::to_owned));
    }
    arguments
}

const MACHINE: &str = "microvm,acpi=on,pcie=off,usb=off";
/// The cache of translated code.
const TRANSLATION_MEBIBYTES: u64 = 32;

/// A folder of the jail that the machine mounts by its tag.
struct SharedFolder {
    tag: &'static str,
    folder: String,
    read_only: bool,
}

fn shared_folders(spec: &Spec) -> Vec<SharedFolder> {
    let shared = |tag, folder: &str, read_only| SharedFolder { tag, folder: folder.to_owned(), read_only };
    let mut shared_folders = vec![
        shared(link::SYSTEM_TAG, &format!("/{SYSTEM}"), true),
        shared(link::WORKSPACE_TAG, "/workspace", false),
        shared(link::INDEX_TAG, "/index", false),
    ];
    if spec.plugins.is_some() {
        shared_folders.push(shared(link::PLUGINS_TAG, "/plugins", true));
    }
    shared_folders
}
