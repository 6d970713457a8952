//! `causerie-guest server`: supervises an MCP server as `command` supervises a command. The server inherits the
//! supervisor's standard streams; the supervisor does not use them meanwhile.
//!
//! ```text
//! agent ── request line, then messages ──> standard input    (closing it terminates, then kills the server)
//! agent <── messages ──────────────────── standard output    (held only by the server and its descendants)
//! agent <── log of the server ─────────── standard error     (the last line is the supervisor's: the exit)
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid};

use super::confine::confine_process;
use super::epoll::{self, WatchCounter};
use super::request::{ChildRequest, ChildTask};
use super::supervise::{CommandExit, PATH, read_line, report_exit, run_child};

/// The time that a server has to exit after its standard input was closed, and again after SIGTERM.
const ENDING: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Runs the server of the request on standard input until it exits.
pub(crate) fn run_supervisor() -> ExitCode {
    // The messages after the request line belong to the server.
    let ended = read_line(1).and_then(|request| watch_server(&request)).unwrap_or_else(CommandExit::Failed);
    report_exit(&ended, rustix::stdio::stderr());
    ExitCode::SUCCESS
}

fn watch_server(request: &ChildRequest) -> Result<CommandExit, String> {
    let ChildTask::Server { server, temp } = &request.task else {
        return Err("the request is not for a server".to_owned());
    };
    let start = |counting: &OwnedFd| {
        let why = become_server(request, server, temp, counting);
        report_exit(&CommandExit::Failed(why), rustix::stdio::stderr());
    };
    run_child(start, epoll::SERVER_WATCHES_MAX, wait_or_end)
        .map_err(|error| format!("the server cannot be started: {error}"))
}

/// Waits until the server exits. When the agent closes standard input, the server has received end-of-file, too;
/// after a grace period it receives SIGTERM, and after another one the caller kills the remaining processes.
fn wait_or_end(server: Pid, mut counter: Option<WatchCounter>) -> io::Result<Option<WaitStatus>> {
    let handle = pidfd_open(server, PidfdFlags::empty())?;
    let stdin = rustix::stdio::stdin();
    let ended = || Ok(waitpid(Some(server), WaitOptions::empty())?.map(|(_, status)| status));
    loop {
        // Incoming data belongs to the server: only a hangup counts here, which poll always reports.
        let (over, closed, calls) = {
            let mut watched = vec![
                PollFd::new(&handle, PollFlags::IN),
                PollFd::from_borrowed_fd(stdin, PollFlags::empty()),
            ];
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
        if over {
            return ended();
        }
        if closed {
            break;
        }
        epoll::serve_counter(&mut counter, calls);
    }
    // Further watches are rejected from now on.
    drop(counter);
    for termination in [None, Some(Signal::TERM)] {
        if let Some(signal) = termination {
            // The server may have exited already.
            let _ = kill_process(server, signal);
        }
        let mut watched = [PollFd::new(&handle, PollFlags::IN)];
        if poll(&mut watched, Some(&ENDING)).is_ok_and(|ready| ready > 0) {
            return ended();
        }
    }
    Ok(None)
}

/// Creates the folder of the server's data, and its working folder if that lies below.
fn create_data_folder(data: &str, working: &str) -> io::Result<()> {
    std::fs::create_dir_all(data)?;
    if !Path::new(working).starts_with(data) {
        return Ok(());
    }
    std::fs::create_dir_all(working)?;
    if std::fs::canonicalize(working)?.starts_with(std::fs::canonicalize(data)?) {
        Ok(())
    } else {
        Err(io::Error::other("the working folder is outside of it"))
    }
}

/// Executes the server. Returns only on failure, with the reason.
fn become_server(
    request: &ChildRequest,
    server: &protocol::mcp::McpServerSpec,
    temp: &Path,
    counting: &OwnedFd,
) -> String {
    if let Err(error) = confine_process(&request.confinement) {
        return error.to_string();
    }
    if let Some(folder) = &server.data_folder
        && let Err(error) = create_data_folder(folder, &server.folder)
    {
        return format!("the folder {folder} for its data cannot be made: {error}");
    }
    // Some environments do not allow a filter with a listener.
    let _ = epoll::hand_over(counting);
    let error = Command::new(&server.command)
        .args(&server.args)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", &request.workspace)
        .env("LANG", "C.UTF-8")
        .env("TMPDIR", temp)
        .envs(&server.env)
        .current_dir(&server.folder)
        .exec();
    format!("{} cannot be run in {}: {error}", server.command, server.folder)
}
