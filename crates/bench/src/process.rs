//! Reads process statistics, and pins processes to processors.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::process::Command;
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Outcome;

/// The processor of what is measured, and the one of clients and vendor.
const MEASURED: usize = 0;
const REST: usize = 1;

/// Where a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a processor of its own, apart from those who load it.
    Alone,
    /// Where the system puts it.
    Anywhere,
}

impl Place {
    /// The program, to be run there.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        if self == Self::Alone && can_pin() {
            let mut command = Command::new("taskset");
            command.args(["-c", &MEASURED.to_string()]).arg(program);
            command
        } else {
            Command::new(program)
        }
    }
}

/// Runs `work` on a thread of its own, with all that it spawns, apart from what is measured.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            pin_apart()?;
            work()
        });
        working.join().unwrap_or_else(|_| Err("the measuring thread ended".into()))
    })
}

/// Takes the present thread, and those that it starts, off the processor of what is measured.
pub(crate) fn pin_apart() -> Outcome<()> {
    if can_pin() {
        let mut set = CpuSet::new();
        set.set(REST);
        sched_setaffinity(None, &set)?;
    }
    Ok(())
}

fn can_pin() -> bool {
    // The process as a whole, not the thread, which may be pinned already.
    let pid = Pid::from_raw(i32::try_from(std::process::id()).unwrap_or_default());
    sched_getaffinity(pid).is_ok_and(|set| set.is_set(MEASURED) && set.is_set(REST))
}

/// Lets this process and those that it starts open as many files as they may.
pub(crate) fn raise_open_files() -> Outcome<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?)
}

/// The processor time that each thread of a process has taken so far, in nanoseconds.
pub(crate) struct CpuTime(HashMap<String, u64>);

impl CpuTime {
    pub(crate) fn of(pid: u32) -> Outcome<Self> {
        let mut threads = HashMap::new();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?;
            // A thread may end while it is looked at.
            let Ok(told) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let nanos = told.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
            threads.insert(thread.file_name().to_string_lossy().into_owned(), nanos);
        }
        Ok(Self(threads))
    }

    /// Returns the processor time since `before`, without threads that have exited.
    pub(crate) fn since(&self, before: &Self) -> f64 {
        let taken = |(thread, nanos): (&String, &u64)| nanos - before.0.get(thread).unwrap_or(&0).min(nanos);
        self.0.iter().map(taken).sum::<u64>() as f64
    }
}

/// Memory of a process in kibibytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// All that is resident.
    pub(crate) rss: f64,
    /// The same with shared pages counted in parts.
    pub(crate) pss: f64,
}

impl Memory {
    pub(crate) fn of(pid: u32) -> Outcome<Self> {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let field = |name: &str| {
            let line = rollup.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<f64>().ok()
        };
        let missing = || "smaps_rollup lacks a field";
        Ok(Self { rss: field("Rss:").ok_or_else(missing)?, pss: field("Pss:").ok_or_else(missing)? })
    }

    pub(crate) fn rss_mebibytes(self) -> f64 {
        self.rss / 1024.0
    }

    pub(crate) fn pss_mebibytes(self) -> f64 {
        self.pss / 1024.0
    }
}

/// Tells a process to end.
pub(crate) fn terminate(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // One that is gone has ended.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// The processes of this host whose command line has this text.
pub(crate) fn naming(text: &str) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let named = processes.flatten().filter_map(|process| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let id = process.file_name().to_str()?.parse().ok()?;
        line.windows(text.len()).any(|window| window == text.as_bytes()).then_some(id)
    });
    named.collect()
}

/// Kills what still runs on a folder of ours: processes whose command line or mounts name it, as machines have.
pub(crate) fn kill_those_of(folder: &std::path::Path) {
    let folder = folder.as_os_str().as_encoded_bytes();
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let names_it = ["cmdline", "mountinfo"].iter().any(|file| {
            let content = fs::read(process.path().join(file)).unwrap_or_default();
            content.windows(folder.len()).any(|window| window == folder)
        });
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| names_it && id != std::process::id()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
