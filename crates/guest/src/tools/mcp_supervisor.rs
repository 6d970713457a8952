//! `causerie-guest server`: watches over an MCP server as `shell` does over a command line. The server's standard
//! streams are the watcher's own, which goes on without touching them.
//!
//! ```text
//! agent ── request line, then messages ──> standard input    (its end asks the server to end, and then ends it)
//! agent <── messages ──────────────────── standard output    (the server and what it starts hold it alone)
//! agent <── what it says for people ───── standard error     (the last line is the watcher's: how it ended)
//! ```

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid};

use super::confine::confine;
use super::epoll::{self, Counter};
use super::request::{Request, Task};
use super::supervise::{Ended, PATH, read_line, report, run_child};

/// How long a server may take to end by itself, first after its standard input and then after it was told to.
const ENDING: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Runs the server of the request on standard input to its end.
pub(crate) fn run_supervisor() -> ExitCode {
    // The messages behind the request are the server's.
    let ended = read_line(1).and_then(|request| watch(&request)).unwrap_or_else(Ended::Failed);
    report(&ended, rustix::stdio::stderr());
    ExitCode::SUCCESS
}

fn watch(request: &Request) -> Result<Ended, String> {
    let Task::Server { server, temp } = &request.task else {
        return Err("the request is none for a server".to_owned());
    };
    let start = |counting: &OwnedFd| {
        let why = become_server(request, server, temp, counting);
        report(&Ended::Failed(why), rustix::stdio::stderr());
    };
    run_child(start, epoll::SERVER_WATCHES_MAX, wait_or_end)
        .map_err(|error| format!("the server cannot be started: {error}"))
}

/// Waits until the server ends. When the agent closes its end of standard input, the server has seen that, too; then
/// it is told to end, and what is left after that is for the caller to end.
fn wait_or_end(server: Pid, mut counter: Option<Counter>) -> io::Result<Option<WaitStatus>> {
    let handle = pidfd_open(server, PidfdFlags::empty())?;
    let stdin = rustix::stdio::stdin();
    let ended = || Ok(waitpid(Some(server), WaitOptions::empty())?.map(|(_, status)| status));
    loop {
        // What the agent writes is the server's: only the end of it counts here, which is always told.
        let (over, asked, calls) = {
            let mut watched = vec![
                PollFd::new(&handle, PollFlags::IN),
                PollFd::from_borrowed_fd(stdin, PollFlags::empty()),
            ];
            watched.extend(
                counter.as_ref().map(|counter| PollFd::from_borrowed_fd(counter.fd(), PollFlags::IN)),
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
        if asked {
            break;
        }
        epoll::serve(&mut counter, calls);
    }
    // Whoever still adds a watch is refused.
    drop(counter);
    for told in [None, Some(Signal::TERM)] {
        if let Some(signal) = told {
            // It may be gone by now.
            let _ = kill_process(server, signal);
        }
        let mut watched = [PollFd::new(&handle, PollFlags::IN)];
        if poll(&mut watched, Some(&ENDING)).is_ok_and(|ready| ready > 0) {
            return ended();
        }
    }
    Ok(None)
}

/// Becomes the server; comes back only with what failed.
fn become_server(
    request: &Request,
    server: &protocol::mcp::Server,
    temp: &Path,
    counting: &OwnedFd,
) -> String {
    if let Err(error) = confine(&request.confinement) {
        return error.to_string();
    }
    // Not every surrounding lets a filter have a listener.
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
