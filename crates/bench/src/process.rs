//! Reads process statistics, and pins processes to processors.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::BenchResult;

/// The processors of the measured process and of clients and vendor.
const MEASURED: usize = 0;
const REST: usize = 1;

/// The placement of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuPlacement {
    /// On a separate processor, apart from the load generators.
    Alone,
    /// As the system decides.
    Anywhere,
}

impl CpuPlacement {
    /// Builds a command of the program with this placement.
    pub(crate) fn build_command(self, program: impl AsRef<OsStr>) -> Command {
        if self == Self::Alone && can_pin() {
            let mut command = Command::new("taskset");
            command.args(["-c", &MEASURED.to_string()]).arg(program);
            command
        } else {
            Command::new(program)
        }
    }
}

/// Runs `work` and everything that it spawns on a separate thread, apart from the measured process.
pub(crate) fn run_apart<T: Send>(work: impl FnOnce() -> BenchResult<T> + Send) -> BenchResult<T> {
    thread::scope(|scope| {
        let working = scope.spawn(|| {
            pin_apart()?;
            work()
        });
        working.join().unwrap_or_else(|_| Err("the measuring thread ended".into()))
    })
}

/// Moves this thread and its children off the processor of the measured process.
pub(crate) fn pin_apart() -> BenchResult<()> {
    if can_pin() {
        let mut set = CpuSet::new();
        set.set(REST);
        sched_setaffinity(None, &set)?;
    }
    Ok(())
}

fn can_pin() -> bool {
    // The process's limit, because the thread may already be pinned.
    let pid = Pid::from_raw(i32::try_from(std::process::id()).unwrap_or_default());
    sched_getaffinity(pid).is_ok_and(|set| set.is_set(MEASURED) && set.is_set(REST))
}

/// Raises the limit of open files for this process and its children.
pub(crate) fn raise_open_files() -> BenchResult<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?)
}

/// The processor time of each thread of a process, in nanoseconds.
pub(crate) struct CpuTime(HashMap<String, u64>);

impl CpuTime {
    pub(crate) fn of_process(pid: u32) -> BenchResult<Self> {
        let mut threads = HashMap::new();
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let thread = thread?;
            // A thread may exit while it is read.
            let Ok(told) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let nanos = told.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0);
            threads.insert(thread.file_name().to_string_lossy().into_owned(), nanos);
        }
        Ok(Self(threads))
    }

    /// Returns the processor time since `before`, without threads that have exited.
    pub(crate) fn nanos_since(&self, before: &Self) -> f64 {
        let taken = |(thread, nanos): (&String, &u64)| nanos - before.0.get(thread).unwrap_or(&0).min(nanos);
        self.0.iter().map(taken).sum::<u64>() as f64
    }
}

/// The memory of a process in kibibytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProcessMemory {
    pub(crate) rss: f64,
    /// The same with shared pages divided among their users.
    pub(crate) pss: f64,
}

impl ProcessMemory {
    pub(crate) fn of_process(pid: u32) -> BenchResult<Self> {
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

/// Sends SIGTERM to a process.
pub(crate) fn terminate_process(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // A missing process has ended.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Returns the processes of this host whose command line contains this text.
pub(crate) fn find_processes_by_command(text: &str) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let named = processes.flatten().filter_map(|process| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let id = process.file_name().to_str()?.parse().ok()?;
        line.windows(text.len()).any(|window| window == text.as_bytes()).then_some(id)
    });
    named.collect()
}

/// Returns the processes of a folder: processes with it in their command line or mounts, such as machines.
pub(crate) fn find_processes_in_folder(folder: &Path) -> Vec<u32> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let of_folder = processes.flatten().filter_map(|process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let names_it = ["cmdline", "mountinfo"].iter().any(|file| {
            let content = fs::read(process.path().join(file)).unwrap_or_default();
            content.windows(folder.len()).any(|window| window == folder)
        });
        (names_it && id != std::process::id()).then_some(id)
    });
    of_folder.collect()
}

/// Kills the remaining processes of a folder.
pub(crate) fn kill_processes_in_folder(folder: &Path) {
    for id in find_processes_in_folder(folder) {
        if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            // A missing process has ended.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
