//! The agent's program: the only process of the service inside an account's machine.
//!
//! Without arguments it is the machine's init: it starts the agent proper, reaps what is left behind, and
//! ends the machine with it. `boot` is the init of a kernel of its own, which it sets up first. `serve` is the agent
//! proper; the other words are the tools' own processes.

use std::process::ExitCode;

use guest::{boot, init, listener, worker};
use protocol::link::BOOT_ARGUMENT;

fn main() -> ExitCode {
    let word = std::env::args().nth(1);
    match word.as_deref() {
        None => init::run(),
        Some(BOOT_ARGUMENT) => boot::run(),
        Some("serve") => listener::serve(),
        Some(role) => worker::play(role).unwrap_or(ExitCode::FAILURE),
    }
}
