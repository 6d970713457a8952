//! The program in the machine.

use std::process::ExitCode;

fn main() -> ExitCode {
    let role = std::env::args().nth(1).unwrap_or_default();
    agent::worker::play(&role).unwrap_or(ExitCode::FAILURE)
}
