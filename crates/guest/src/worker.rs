//! The program's other roles: processes that the agent starts to work under the tools' user.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::tools;

/// Plays the role that the program's first argument names; `None` when it is none of these.
///
/// `worker` answers one request of a tool, `shell` watches over one command line, `server` over an MCP server; all
/// take the request on standard input. The process must have one thread.
#[must_use]
pub fn play(role: &str) -> Option<ExitCode> {
    match role {
        "worker" => Some(work()),
        "shell" => Some(tools::supervise()),
        "server" => Some(tools::run_supervisor()),
        _ => None,
    }
}

fn work() -> ExitCode {
    // Parsers panic on odd documents; that is told in the answer, not on standard error.
    std::panic::set_hook(Box::new(|_| {}));
    match answer() {
        Ok(answer) => match std::io::stdout().write_all(&answer) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(why) => {
            let _ = std::io::stderr().write_all(why.as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn answer() -> Result<Vec<u8>, String> {
    let request = tools::read_request()?;
    tools::confine(&request.confinement).map_err(|error| error.to_string())?;
    let answer = catch_unwind(AssertUnwindSafe(|| tools::answer(&request.workspace, &request.task)))
        .map_err(|_| "it broke on what it was given".to_owned())?;
    serde_json::to_vec(&answer).map_err(|error| error.to_string())
}
