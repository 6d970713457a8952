//! The other roles of the program: processes that the agent starts and that run as the tools' user.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::tools::{self, Role};

/// Runs the role named by the program's first argument. Returns `None` for an unknown role. All roles read their request
/// from standard input. The process must have a single thread.
#[must_use]
pub fn play(argument: &str) -> Option<ExitCode> {
    let role = Role::ALL.into_iter().find(|role| role.argument() == argument)?;
    Some(match role {
        Role::Worker => work(),
        Role::Command => tools::supervise(),
        Role::Server => tools::run_supervisor(),
    })
}

fn work() -> ExitCode {
    // Parsers may panic on malformed documents; the response reports that, so nothing is printed to standard error.
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
        .map_err(|_| "the parser failed on this input".to_owned())?;
    serde_json::to_vec(&answer).map_err(|error| error.to_string())
}
