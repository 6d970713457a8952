//! The init process of a machine: reaps children, bounds the log, suspends the machine while no service permits its work,
//! and exits with the agent.

use std::fs::File;
use std::io::{self, PipeReader, Write};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, wait};

use super::lease::{LeaseAction, LeaseWatch};
use super::sys;

/// The size at which the log is truncated.
const LOG_MAX_BYTES: u64 = 1024 * 1024;

/// The processes that a machine depends on.
#[derive(Clone, Copy)]
pub(crate) struct Processes {
    /// The agent, or the kernel that runs it.
    pub(crate) agent: Pid,
    /// The process that connects a kernel with the service; it asks the machine to power off on SIGTERM.
    pub(crate) bridge: Option<Pid>,
}

/// The lock on the machine's folder, by which a machine sees that the folder was removed.
pub(crate) struct FolderLock {
    pub(crate) file: File,
    pub(crate) check_interval: Duration,
}

impl FolderLock {
    /// Returns true if the lock was unlinked: no service will find this machine again.
    fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

/// The files whose state ends the machine, or suspends it.
pub(crate) struct WatchedFiles {
    pub(crate) lock: Option<FolderLock>,
    pub(crate) lease: Option<LeaseWatch>,
}

/// Lives until the agent ends, until the machine's folder is removed or its service is absent for too long; returns the exit
/// code. Other processes inside end with the first one.
pub(crate) fn watch_machine(
    processes: Processes,
    output: PipeReader,
    mut log: File,
    watched: WatchedFiles,
) -> i32 {
    match watch_until_end(processes, output, &mut log, watched) {
        Ok(code) => code,
        Err(error) => {
            log_line(&mut log, &format!("the machine's first process failed: {error}"));
            1
        }
    }
}

fn watch_until_end(
    processes: Processes,
    output: PipeReader,
    log: &mut File,
    WatchedFiles { lock, mut lease }: WatchedFiles,
) -> io::Result<i32> {
    let signals = sys::open_signal_fd()?;
    let mut checked = Instant::now();
    let mut output = Some(OwnedFd::from(output));
    // The agent may have ended before the signal handler was installed.
    if let Some(code) = reap_children(processes, log) {
        return Ok(code);
    }
    loop {
        let mut lease_left = None;
        if let Some(lease) = &mut lease {
            let (action, left) = lease.next_action();
            lease_left = Some(left);
            if action.is_some_and(|action| apply_action(action, processes, log).is_break()) {
                return Ok(1);
            }
        }
        let (signalled, wrote) = {
            let mut fds = vec![PollFd::new(&signals, PollFlags::IN)];
            fds.extend(output.as_ref().map(|output| PollFd::new(output, PollFlags::IN)));
            let left = lock.as_ref().map(|lock| lock.check_interval.saturating_sub(checked.elapsed()));
            let left = left.into_iter().chain(lease_left).min();
            match poll(&mut fds, left.and_then(|left| Timespec::try_from(left).ok()).as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            (!fds[0].revents().is_empty(), fds.get(1).is_some_and(|fd| !fd.revents().is_empty()))
        };
        if wrote && copy_output(output.as_ref(), log) == 0 {
            output = None;
        }
        if let Some(lock) = lock.as_ref().filter(|lock| checked.elapsed() >= lock.check_interval) {
            checked = Instant::now();
            if lock.is_removed() {
                log_line(log, "the machine's folder was removed");
                return Ok(1);
            }
        }
        if signalled {
            if sys::received_term(&signals) {
                if lease.as_ref().is_some_and(LeaseWatch::is_suspended) {
                    log_line(log, "the machine was stopped while it was suspended");
                    return Ok(0);
                }
                // It may have exited already.
                let _ = kill_process(processes.bridge.unwrap_or(processes.agent), Signal::TERM);
            }
            if let Some(code) = reap_children(processes, log) {
                return Ok(code);
            }
        }
    }
}

/// Suspends, resumes or ends the machine. A machine that cannot be suspended ends.
fn apply_action(action: LeaseAction, processes: Processes, log: &mut File) -> ControlFlow<()> {
    let (signal, line) = match action {
        LeaseAction::Suspend => (Signal::STOP, "suspended: no service lets the machine work"),
        LeaseAction::Resume => (Signal::CONT, "resumed: a service lets the machine work again"),
        LeaseAction::End => {
            log_line(log, "ended: no service came back");
            return ControlFlow::Break(());
        }
    };
    log_line(log, line);
    let sent = match processes.bridge {
        // The processes of a machine's kernel do nothing without it.
        Some(_) => kill_process(processes.agent, signal),
        // To all processes of the machine except this one.
        None => kill_process_group(Pid::INIT, signal),
    };
    match sent {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            log_line(log, &format!("ended: signalling failed: {error}"));
            ControlFlow::Break(())
        }
    }
}

/// Copies a piece of output to the log. Returns its length.
fn copy_output(output: Option<&OwnedFd>, log: &mut File) -> usize {
    let mut piece = [0; 4096];
    let Some(length) = output.and_then(|output| rustix::io::read(output, &mut piece).ok()) else { return 0 };
    if let Some(piece) = piece.get(..length) {
        write_log(log, piece);
    }
    length
}

fn write_log(log: &mut File, piece: &[u8]) {
    // A failed write to the log does not end the machine.
    if log.metadata().is_ok_and(|metadata| metadata.len() > LOG_MAX_BYTES) {
        let _ = log.set_len(0);
    }
    let _ = log.write_all(piece);
}

fn log_line(log: &mut File, line: &str) {
    write_log(log, format!("{line}\n").as_bytes());
}

/// Reaps all children that have ended. Returns the agent's exit code if it is one of them.
fn reap_children(processes: Processes, log: &mut File) -> Option<i32> {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == processes.agent {
            log_line(log, &format!("the agent ended: {status:?}"));
            return Some(status.exit_status().unwrap_or(1));
        }
        // Without an error, the bridge ends because the kernel has ended; the kernel's status follows.
        if Some(pid) == processes.bridge && status.exit_status() != Some(0) {
            log_line(log, &format!("the bridge ended: {status:?}"));
            return Some(1);
        }
    }
    None
}
