//! Identifies the init process of a machine, and lists its descendants.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::spec::MachineIdentity;

/// The maximum number of processes of the host that are examined.
const PROCESSES_MAX: usize = 100_000;

/// Returns the start time of the process, in clock ticks since boot.
pub(crate) fn start_time(pid: i32) -> io::Result<u64> {
    /// The 22nd field of the line; the second is the name in parentheses, which may contain spaces.
    const AFTER_NAME: usize = 19;
    let line = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let field = line.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(AFTER_NAME));
    field
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/PID/stat has an unknown format"))
}

/// Returns the id of this boot of the host. Process ids of another boot are meaningless.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Opens a descriptor of the process if it is still the same one.
pub(crate) fn open_process(identity: &MachineIdentity) -> io::Result<Option<OwnedFd>> {
    if boot_id()? != identity.boot_id {
        return Ok(None);
    }
    let Some(pid) = Pid::from_raw(identity.pid) else { return Ok(None) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // The descriptor was opened before, so the start time read now belongs to its process or to none.
    match start_time(identity.pid) {
        Ok(time) if time == identity.start_time => {
            Ok(if has_ended(&process)? { None } else { Some(process) })
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if the process has exited, reaped or not.
fn has_ended(process: &OwnedFd) -> io::Result<bool> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let look = || poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&at_once));
    Ok(rustix::io::retry_on_intr(look)? > 0)
}

/// Returns the host's process ids of a machine, including its first process.
pub(crate) fn list_processes(first: i32) -> io::Result<Vec<i32>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc")?.take(PROCESSES_MAX) {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A process may end during the listing.
        let Ok(line) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let parent =
            line.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![first];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}
