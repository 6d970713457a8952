//! Kills processes that may fork meanwhile: all are stopped before any is killed, and a stopped process cannot
//! fork.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// The maximum number of scans for new processes before the found ones are killed.
const ROUNDS_MAX: usize = 64;
/// The time that killed processes may take to exit, and the polling interval.
const DYING_TIME_MAX: Duration = Duration::from_secs(5);
const DYING_POLL: Duration = Duration::from_millis(2);

/// A process, as read from `/proc`.
struct Process {
    pid: i32,
    parent: i32,
    user: u32,
    is_zombie: bool,
}

/// Kills and reaps all descendants of the calling process. Returns their number. The caller must be the reaper of
/// its descendants (a child subreaper).
pub(super) fn kill_descendants() -> usize {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let reap = || while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {};
    reap();
    // Descendants of any depth would have a child of the calling process among their ancestors.
    if matches!(wait(WaitOptions::NOHANG), Err(rustix::io::Errno::CHILD)) {
        return 0;
    }
    let ended = kill_selected(reap, |all| {
        let parents = parent_map(all);
        all.iter()
            .filter(|process| !process.is_zombie && is_descendant(&parents, process.pid, &[own]))
            .map(|process| process.pid)
            .collect()
    });
    reap();
    ended
}

fn parent_map(all: &[Process]) -> HashMap<i32, i32> {
    all.iter().map(|process| (process.pid, process.parent)).collect()
}

/// Returns true if a process descends from one of `from`.
fn is_descendant(parents: &HashMap<i32, i32>, pid: i32, from: &[i32]) -> bool {
    let mut at = pid;
    // A chain longer than the number of processes is a cycle.
    for _ in 0..parents.len() {
        match parents.get(&at) {
            Some(parent) if from.contains(parent) => return true,
            Some(parent) => at = *parent,
            None => return false,
        }
    }
    false
}

/// Kills every process of a user except the calling one and the descendants of `spared`. Their parents must reap
/// them.
pub(super) fn end_user(user: u32, spared: &[i32]) {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    kill_selected(
        || (),
        |all| {
            let parents = parent_map(all);
            let wanted = |process: &&Process| {
                process.user == user
                    && !process.is_zombie
                    && process.pid != own
                    && !is_descendant(&parents, process.pid, spared)
            };
            all.iter().filter(wanted).map(|process| process.pid).collect()
        },
    );
}

/// Counts the processes of a user, without zombies.
pub(super) fn count_user(user: u32) -> u64 {
    list_processes().iter().filter(|process| process.user == user && !process.is_zombie).count() as u64
}

/// Returns the anonymous and shared memory of a user's processes, in bytes. Shared memory counts once per process.
pub(super) fn memory_of_user(user: u32) -> u64 {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| memory_of(pid, user)).fold(0, u64::saturating_add)
}

fn memory_of(pid: i32, user: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    if number("Uid:")? != u64::from(user) {
        return None;
    }
    let kib = number("RssAnon:")?.saturating_add(number("RssShmem:")?);
    Some(kib.saturating_mul(1024))
}

fn kill_selected(reap: impl Fn(), select: impl Fn(&[Process]) -> Vec<i32>) -> usize {
    let mut known = HashSet::new();
    for _ in 0..ROUNDS_MAX {
        let new: Vec<i32> =
            select(&list_processes()).into_iter().filter(|pid| !known.contains(pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            signal_process(pid, Signal::STOP);
            known.insert(pid);
        }
    }
    let until = Instant::now() + DYING_TIME_MAX;
    loop {
        let left = select(&list_processes());
        if left.is_empty() || Instant::now() > until {
            return known.len();
        }
        for pid in left {
            signal_process(pid, Signal::KILL);
            known.insert(pid);
        }
        std::thread::sleep(DYING_POLL);
        reap();
    }
}

fn signal_process(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may have exited already.
        let _ = kill_process(pid, signal);
    }
}

fn list_processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(read_process)
        .collect()
}

fn read_process(pid: i32) -> Option<Process> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    Some(Process {
        pid,
        parent: field("PPid")?.parse().ok()?,
        user: field("Uid")?.parse().ok()?,
        is_zombie: field("State")? == "Z",
    })
}
