//! The agent's program: the only process of the service inside an account's machine.
//!
//! Without arguments it is the machine's init process: it starts the agent, reaps orphans and ends the machine when
//! the agent exits. `serve` runs the agent; the other arguments run the processes of tools.

use std::process::ExitCode;

use guest::boot::Platform;
use guest::listener::WAITS_ARGUMENT;
use guest::{boot, init, initramfs, listener, worker};
use protocol::link::{BOOT_ARGUMENT, INITRAMFS_ARGUMENT};

fn main() -> ExitCode {
    let word = std::env::args().nth(1);
    match word.as_deref() {
        None => init::run_init(),
        Some(BOOT_ARGUMENT) => boot::run_machine(Platform::UserModeLinux),
        Some(INITRAMFS_ARGUMENT) => initramfs::run_initramfs(),
        Some("serve") => listener::serve_agent(std::env::args().nth(2).as_deref() == Some(WAITS_ARGUMENT)),
        Some(role) => worker::run_role(role).unwrap_or(ExitCode::FAILURE),
    }
}
