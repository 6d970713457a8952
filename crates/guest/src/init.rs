//! Process 1 of the machine: starts the agent, reaps orphans and exits when the agent exits or on SIGTERM.

use std::process::{Command, ExitCode};

use rustix::process::{Pid, WaitOptions, wait};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the agent as a child process until it exits or the host sends SIGTERM. When process 1 exits, the kernel
/// kills every other process in the machine.
#[must_use]
pub fn run_init() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let ended =
        runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(supervise_agent()));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            log_end_reason(&reason);
            ExitCode::FAILURE
        }
    }
}

async fn supervise_agent() -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut terminated = signal(SignalKind::terminate()).map_err(text)?;
    let mut child_ended = signal(SignalKind::child()).map_err(text)?;
    let agent = Command::new("/proc/self/exe").arg("serve").spawn().map_err(text)?;
    let agent = Pid::from_child(&agent);
    loop {
        tokio::select! {
            _ = terminated.recv() => return Ok(()),
            _ = child_ended.recv() => {
                while let Ok(Some((pid, _))) = wait(WaitOptions::NOHANG) {
                    if pid == agent {
                        return Err("the agent exited".to_owned());
                    }
                }
            }
        }
    }
}

/// Writes the reason why the machine ends to its log.
#[expect(clippy::print_stderr, reason = "standard error is the machine's log")]
pub(crate) fn log_end_reason(reason: &str) {
    eprintln!("causerie-guest: {reason}");
}
