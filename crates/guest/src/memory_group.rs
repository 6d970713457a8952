//! The bound on the memory of all tools together, in a machine with its own kernel.
//!
//! Without it, a tool that takes all memory leaves none to the kernel, which then drops the pages of running programs for a minute
//! on a slow processor and may end the machine. The bound leaves a reserve to the kernel and to the agent.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

/// The folder of the control groups. Only root enters the folder above it.
const GROUPS: &str = "/run/groups/all";
/// The list of processes in the group of tools.
const TOOLS: &str = "/run/groups/all/tools/cgroup.procs";
/// The least memory that the kernel and the agent keep, in bytes.
const RESERVE_MIN_BYTES: u64 = 32 << 20;
/// One part of this many that they keep, if it is more.
const RESERVE_PART: u64 = 16;

/// Creates the group of tools, if the kernel has control groups. `/proc` and `/run` must be mounted.
pub(crate) fn create_tool_group() {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let created = || -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create("/run/groups")?;
        fs::create_dir(GROUPS)?;
        // With this option a process joins a group without waiting for all processors; kernels before 6.0 lack it.
        if mount("none", GROUPS, "cgroup2", flags, c"favordynmods").is_err() {
            mount("none", GROUPS, "cgroup2", flags, None)?;
        }
        let groups = Path::new(GROUPS);
        fs::write(groups.join("cgroup.subtree_control"), "+memory")?;
        fs::create_dir(groups.join("tools"))?;
        let available = available_bytes(&fs::read_to_string("/proc/meminfo")?)
            .ok_or_else(|| io::Error::other("the kernel does not tell the available memory"))?;
        let reserve = RESERVE_MIN_BYTES.max(available / RESERVE_PART);
        fs::write(groups.join("tools/memory.max"), available.saturating_sub(reserve).to_string())
    };
    // The kernel of another distribution may lack them; it then ends tools when the whole memory is used.
    let _ = created();
}

/// Moves the calling process to the group of tools, where there is one.
pub fn join_tool_group() {
    let _ = open_tool_group().and_then(|mut list| io::Write::write_all(&mut list, b"0"));
}

/// Opens the list of processes of the group of tools. A process that writes `0` to it joins, also as another user.
///
/// # Errors
/// Fails outside machines with their own kernel.
pub fn open_tool_group() -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).open(TOOLS)
}

/// Returns the memory that new programs can have, in bytes, as `/proc/meminfo` tells it.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::available_bytes;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let meminfo =
            "MemTotal:         160124 kB\nMemFree:           90000 kB\nMemAvailable:     120000 kB\n";
        assert_eq!(available_bytes(meminfo), Some(120_000 << 10));
        assert_eq!(available_bytes("MemTotal: 160124 kB\n"), None);
    }
}
