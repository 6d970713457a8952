//! The other roles of the program: processes that the agent starts and that run as the tools' user.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::tools::{self, ProcessRole};

/// Runs the role named by the program's first argument. Returns `None` for an unknown role. All roles read their request
/// from standard input. The process must have a single thread.
#[must_use]
pub fn run_role(argument: &str) -> Option<ExitCode> {
    let role = ProcessRole::ALL.into_iter().find(|role| role.program_argument() == argument)?;
    Some(match role {
        ProcessRole::Worker => run_worker(),
        ProcessRole::Command => tools::supervise_command(),
        ProcessRole::Server => tools::run_supervisor(),
    })
}

fn run_worker() -> ExitCode {
    // Parsers may panic on malformed documents; the response reports that, so nothing is printed to standard error.
    std::panic::set_hook(Box::new(|_| {}));
    match serve_requests() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = std::io::stderr().write_all(why.as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// Handles the request on standard input, and further requests if it announces them.
fn serve_requests() -> Result<(), String> {
    let mut request = tools::read_request()?;
    tools::confine_process(&request.confinement).map_err(|error| error.to_string())?;
    let mut kept = tools::Kept::default();
    loop {
        let answer = catch_unwind(AssertUnwindSafe(|| tools::answer_request(&request, &mut kept)))
            .map_err(|_| "the parser failed on this input".to_owned())?;
        let mut line = serde_json::to_vec(&answer).map_err(|error| error.to_string())?;
        drop(answer);
        if request.more {
            line.push(b'\n');
        }
        let mut out = std::io::stdout();
        out.write_all(&line).and_then(|()| out.flush()).map_err(|error| error.to_string())?;
        if !request.more {
            return Ok(());
        }
        // At the end of its input, the worker is no longer needed.
        let Ok(next) = tools::read_request() else { return Ok(()) };
        request = next;
    }
}
