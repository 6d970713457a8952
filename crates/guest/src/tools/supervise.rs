//! `causerie-guest command`: supervises one command. It keeps the agent's user id, so that the command cannot signal
//! it, and reaps all descendants of the command, so that no process outlives the call.
//!
//! ```text
//! agent ── request line, then silence ──> standard input    (closing it kills the command)
//! agent <── the command's output ─────── standard output    (held only by the command and its descendants)
//! agent <── one line of JSON ─────────── standard error     (the exit status)
//! ```

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, set_child_subreaper, waitpid};
use serde::{Deserialize, Serialize};

use super::confine::{ForkedProcess, confine_process, fork_process};
use super::epoll::{self, WatchCounter};
use super::kill::kill_descendants;
use super::request::{ChildRequest, ChildTask};

/// The `PATH` of programs in the machine.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The exit of a command, as reported to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CommandExit {
    Exit {
        status: i32,
        /// The number of background processes that were still running and were killed.
        left: usize,
    },
    Signal {
        signal: i32,
        left: usize,
    },
    /// The command was not started.
    Failed(String),
}

/// Runs the command of the request on standard input until it exits.
pub(crate) fn supervise_command() -> ExitCode {
    let ended =
        read_request().and_then(|request| watch_command(&request)).unwrap_or_else(CommandExit::Failed);
    report_exit(&ended, rustix::stdio::stderr());
    ExitCode::SUCCESS
}

pub(super) fn report_exit(ended: &CommandExit, to: impl AsFd) {
    if let Ok(mut line) = serde_json::to_vec(ended) {
        line.push(b'\n');
        // Lines up to the size of a pipe are written atomically.
        let _ = rustix::io::write(to, &line);
    }
}

/// Reads standard input up to the end of the first line, unbuffered, and parses it.
pub(crate) fn read_request() -> Result<ChildRequest, String> {
    read_line(64 * 1024)
}

/// Reads the request in chunks of `chunk_bytes`. Bytes after its line within the last chunk are lost; with 1, none
/// are.
pub(super) fn read_line(chunk_bytes: usize) -> Result<ChildRequest, String> {
    const REQUEST_MAX_BYTES: usize = 64 * 1024 * 1024;
    let mut line = Vec::new();
    let mut chunk = vec![0; chunk_bytes];
    while line.last() != Some(&b'\n') {
        match rustix::io::read(rustix::stdio::stdin(), &mut *chunk) {
            Ok(0) => break,
            Ok(read) => line.extend_from_slice(&chunk[..read]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("the request cannot be read: {error}")),
        }
        if line.len() > REQUEST_MAX_BYTES {
            return Err("the request is too long".to_owned());
        }
    }
    serde_json::from_slice(&line).map_err(|error| format!("the request cannot be understood: {error}"))
}

fn watch_command(request: &ChildRequest) -> Result<CommandExit, String> {
    let ChildTask::Shell { command, temp } = &request.task else {
        return Err("the request is not for a command".to_owned());
    };
    let start = |counting: &OwnedFd| {
        // Its final report is sent on the descriptor that the command does not get.
        if let Ok(told) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3) {
            let why = become_shell(request, command, temp, counting);
            report_exit(&CommandExit::Failed(why), &told);
        }
    };
    run_child(start, epoll::COMMAND_WATCHES_MAX, wait_or_end)
        .map_err(|error| format!("the command cannot be started: {error}"))
}

/// Runs a child that `start` turns into its program, waits for it by `wait`, and ends all its descendants.
pub(super) fn run_child(
    start: impl FnOnce(&OwnedFd),
    watches_max: u32,
    wait: impl FnOnce(Pid, Option<WatchCounter>) -> io::Result<Option<WaitStatus>>,
) -> io::Result<CommandExit> {
    let null = File::options().write(true).open("/dev/null")?;
    set_child_subreaper(Some(rustix::process::getpid()))?;
    let (counted, counting) = epoll::socket_pair()?;
    let child = match fork_process()? {
        ForkedProcess::Parent(pid) => pid,
        ForkedProcess::Child => {
            drop(counted);
            start(&counting);
            std::process::exit(1);
        }
    };
    // The pipe must end with the child, not with its watcher.
    rustix::stdio::dup2_stdout(&null)?;
    drop(counting);
    let status = wait(child, WatchCounter::receive_listener(&counted, watches_max))?;
    let left = kill_descendants();
    Ok(match status.map(|status| (status.exit_status(), status.terminating_signal())) {
        Some((Some(status), _)) => CommandExit::Exit { status, left },
        Some((_, Some(signal))) => CommandExit::Signal { signal, left },
        // It was among the ended processes; its status is lost, which does not matter.
        Some((None, None)) | None => {
            CommandExit::Signal { signal: libc::SIGKILL, left: left.saturating_sub(1) }
        }
    })
}

/// Waits until the command exits or the agent closes standard input.
fn wait_or_end(shell: Pid, mut counter: Option<WatchCounter>) -> io::Result<Option<WaitStatus>> {
    let handle = pidfd_open(shell, PidfdFlags::empty())?;
    let stdin = rustix::stdio::stdin();
    loop {
        let (ended, closed, calls) = {
            let mut watched =
                vec![PollFd::new(&handle, PollFlags::IN), PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
            watched.extend(
                counter.as_ref().map(|counter| PollFd::from_borrowed_fd(counter.poll_fd(), PollFlags::IN)),
            );
            match poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => continue,
                outcome => outcome?,
            };
            let calls = watched.get(2).map_or(PollFlags::empty(), PollFd::revents);
            (!watched[0].revents().is_empty(), !watched[1].revents().is_empty(), calls)
        };
        if ended {
            return Ok(waitpid(Some(shell), WaitOptions::empty())?.map(|(_, status)| status));
        }
        if closed {
            return Ok(None);
        }
        epoll::serve_counter(&mut counter, calls);
    }
}

/// Executes the shell. Returns only on failure, with the reason.
fn become_shell(request: &ChildRequest, command: &str, temp: &Path, counting: &OwnedFd) -> String {
    if let Err(error) = confine_process(&request.confinement) {
        return error.to_string();
    }
    // Some environments do not allow a filter with a listener.
    let _ = epoll::hand_over(counting);
    let Ok(output) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3) else {
        return "standard output cannot be shared".to_owned();
    };
    let error = Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", &request.workspace)
        .env("LANG", "C.UTF-8")
        .env("TMPDIR", temp)
        .current_dir(&request.workspace)
        .stdin(Stdio::null())
        .stderr(Stdio::from(output))
        .exec();
    format!("/bin/sh cannot be run: {error}")
}
