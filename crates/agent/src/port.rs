//! The listening socket that the machine's driver left open for the agent.
#![expect(unsafe_code, reason = "an inherited file descriptor is taken over by its number")]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::Duration;

use domain::id::InstanceId;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::net::UnixListener;

use crate::init::report;
use crate::serve::Agent;
use crate::tools::Limits;

/// Names the descriptor of the listening socket.
const LISTEN_FD: &str = "CAUSERIE_LISTEN_FD";
/// How long to wait when the kernel has no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the port until the machine ends.
#[must_use]
pub fn serve() -> ExitCode {
    match listen() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            report(&reason);
            ExitCode::FAILURE
        }
    }
}

fn listen() -> Result<(), String> {
    let listener = inherited()?;
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|error| error.to_string())?;
    let instance = InstanceId::from_random(u128::from_be_bytes(bits));
    let agent = Agent::new(instance, Limits::from_environment());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(accept(listener, agent))
}

async fn accept(listener: std::os::unix::net::UnixListener, agent: Agent) -> Result<(), String> {
    let listener = UnixListener::from_std(listener).map_err(|error| error.to_string())?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(agent.clone().serve(stream));
            }
            Err(error) => {
                report(&format!("accepting failed: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Takes the socket over and hides it, and this process, from the tools.
fn inherited() -> Result<std::os::unix::net::UnixListener, String> {
    let number: RawFd = std::env::var(LISTEN_FD)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|number| *number > 2)
        .ok_or_else(|| {
            format!("{LISTEN_FD} names no socket; this program is started by a machine's driver")
        })?;
    // SAFETY: the driver opened this descriptor for this process alone, and nothing else here has used it:
    // this is the first thing that the process does.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let text = |error: std::io::Error| format!("{LISTEN_FD}: {error}");
    fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(|error| text(error.into()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| text(error.into()))?;
    let listener = std::os::unix::net::UnixListener::from(socket);
    listener.set_nonblocking(true).map_err(text)?;
    Ok(listener)
}
