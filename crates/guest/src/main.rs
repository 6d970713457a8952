//! The agent's program: the only process of the service inside an account's machine.
//!
//! Without arguments it is the machine's init: it starts the agent proper, reaps what is left behind, and
//! ends the machine with it. `serve` is the agent proper; the other words are the tools' own processes.

use std::process::ExitCode;

use guest::{init, listener, worker};

fn main() -> ExitCode {
    let word = std::env::args().nth(1);
    match word.as_deref() {
        None => init::run(),
        Some("serve") => listener::serve(),
        Some(role) => worker::play(role).unwrap_or(ExitCode::FAILURE),
    }
}
