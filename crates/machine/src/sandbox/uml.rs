//! The command line of a User Mode Linux kernel.

use protocol::link::{BOOT_ARGUMENT, MTU};

use super::agent_environment::agent_environment;
use super::carrier::MACHINE_MAC;
use super::jail_layout::{LIBRARIES, LISTENER, PROGRAM, SYSTEM};
use super::spec::MachineLimits;

/// The folder in the jail of the file that backs the machine's memory.
pub(crate) const MEMORY: &str = "run/memory";
/// Steps of the boot that no machine needs: calibrations of algorithms, which took 1.5 s of 1.9; compressed swap, without
/// any swap; and file systems of disks, without any disk: of these, JFS and Btrfs took 7 MiB of memory.
const SKIPPED_STEPS: [&str; 8] = [
    "raid6_select_algo",
    "raid6_init",
    "calibrate_xor_blocks",
    "init_zswap",
    "init_jfs_fs",
    "init_btrfs_fs",
    "init_xfs_fs",
    "init_reiserfs_fs",
];

/// Returns the program in the jail, its arguments and its environment.
pub(crate) fn jail_command(
    limits: &MachineLimits,
    has_libraries: bool,
    shows_image: bool,
) -> (String, Vec<String>, Vec<String>) {
    let mut environment =
        vec![format!("TMPDIR=/{MEMORY}"), "PATH=/usr/bin:/bin".to_owned(), "HOME=/tmp".to_owned()];
    if has_libraries {
        environment.push(format!("LD_LIBRARY_PATH=/{LIBRARIES}"));
    }
    (format!("/{PROGRAM}"), kernel_arguments(limits, shows_image), environment)
}

/// Returns the command line of the kernel. The kernel passes unknown arguments to process 1.
fn kernel_arguments(limits: &MachineLimits, shows_image: bool) -> Vec<String> {
    let mac = MACHINE_MAC.map(|byte| format!("{byte:02x}")).join(":");
    let mut arguments = vec![
        format!("mem={}M", limits.memory_bytes >> 20),
        "umid=machine".to_owned(),
        "uml_dir=/tmp".to_owned(),
        "rootfstype=hostfs".to_owned(),
        "ro".to_owned(),
        "quiet".to_owned(),
        // Newer kernels can catch system calls without tracing, but then any process can write all memory of its machine.
        "seccomp=off".to_owned(),
        "selinux=0".to_owned(),
        "panic=-1".to_owned(),
        "con=null".to_owned(),
        "con0=null,fd:1".to_owned(),
        "ssl=null".to_owned(),
        "pty.legacy_count=0".to_owned(),
        format!("initcall_blacklist={}", SKIPPED_STEPS.join(",")),
        // Without it, the kernel calibrates its delay loop for a third of its boot, although it waits for no hardware.
        "lpj=16000000".to_owned(),
        // Tables that the kernel makes larger for the memory that a machine may take: 2 MiB of an idle one.
        "dhash_entries=16384".to_owned(),
        "ihash_entries=8192".to_owned(),
        "mhash_entries=512".to_owned(),
        "mphash_entries=512".to_owned(),
        "thash_entries=2048".to_owned(),
        format!("vec0:transport=fd,fd={LISTENER},depth=64,mtu={MTU},mac={mac}"),
        "init=/agent".to_owned(),
    ];
    if shows_image {
        arguments.push(format!("rootflags=/{SYSTEM}"));
    }
    // Inside the machine, its own kernel counts all memory.
    arguments.extend(agent_environment(limits, true));
    arguments.extend(["--".to_owned(), BOOT_ARGUMENT.to_owned()]);
    arguments
}
