//! Runs an operator's commands in a machine: as the agent's tool `shell` does, with its user and its limits.

use std::time::Duration;

use domain::audit::AuditAction;
use domain::id::MessageId;
use domain::step::{Purpose, StepCall, StepOutcome};
use domain::tool::MachineTool;
use domain::turn::{CallOutput, ExecutorFrame, HostFrame, SessionOpening, SessionStamp};
use machine::{GuestConnection, GuestSession, SupervisorError};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Admin, AdminError};
use crate::RunningService;

/// The time limit of a command, the longest that the tool accepts.
const COMMAND_SECONDS: u32 = 600;
/// The time limit for its result.
const RESULT_TIMEOUT: Duration = Duration::from_secs(COMMAND_SECONDS as u64 + 30);
/// The frames of one command.
const FRAMES: usize = 3;
/// The part of a command that the audit log keeps, in characters.
const AUDITED_CHARS: usize = 200;

/// The outcome of a command. None of it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleOutput {
    /// The output of the command, and below it the exit status unless that is 0.
    pub text: String,
    /// The exit status was not 0, or the command was killed.
    pub failed: bool,
    /// The folder in which the next command runs.
    pub folder: String,
}

impl Admin {
    /// Runs a command line in a folder of the account's machine, which is started if necessary. At most 600 s.
    ///
    /// # Errors
    /// [`AdminError::NoService`], [`AdminError::NoSuchAccount`], [`AdminError::Machine`].
    pub async fn run_in_machine(
        &self,
        account: &str,
        command: &str,
        folder: &str,
    ) -> Result<ConsoleOutput, AdminError> {
        let account = self.with_machine(account).await?;
        let RunningService { vm, .. } = self.running.as_ref().ok_or(AdminError::NoService)?;
        let audited: String = command.chars().take(AUDITED_CHARS).collect();
        self.record_audit(Some(account.id), AuditAction::RunInMachine, &account.email, &audited).await?;
        vm.start_of(account.id).await?;
        let connection = vm.machines.ensure_running(account.id).await?;
        let marker = format!("{:032x}", self.environment.random_bits());
        let answer = MessageId::from_random(self.environment.random_bits());
        let line = command_line(command, folder, &marker);
        let output = timeout(RESULT_TIMEOUT, call_shell(connection, answer, &line)).await;
        let output = output.unwrap_or(Err(SupervisorError::NotInTime))?;
        Ok(read_output(&output, &marker, folder))
    }
}

/// Runs one call of the tool `shell` in a separate session.
async fn call_shell(
    connection: GuestConnection,
    answer: MessageId,
    line: &str,
) -> Result<CallOutput, SupervisorError> {
    let ended = || SupervisorError::GivenUp("it ended while the command ran".to_owned());
    let (frames, waiting) = mpsc::channel(FRAMES);
    let mut session = GuestSession::new(connection, waiting);
    let call = StepCall {
        id: "console".to_owned(),
        tool: MachineTool::Shell.name().to_owned(),
        arguments: json!({ "command": line, "timeout_seconds": COMMAND_SECONDS }).to_string(),
        purpose: Purpose::Tool,
    };
    let stamp = SessionStamp { epoch: 1, session: 1 };
    let open = SessionOpening { answer, stamp, outstanding: Vec::new(), attached: Vec::new() };
    for frame in [HostFrame::Open(open), HostFrame::Run(call.clone())] {
        frames.send(frame).await.map_err(|_| ended())?;
    }
    while let Ok(Some(ExecutorFrame::Returned { call: returned, output })) =
        session.next_executor_frame().await
    {
        if returned == call.id {
            let _ = frames.send(HostFrame::Ack { call: returned }).await;
            drop(frames);
            // The session sends the acknowledgement; further frames of the machine do not matter.
            let _ = timeout(Duration::from_secs(1), session.next_executor_frame()).await;
            return Ok(output);
        }
    }
    Err(ended())
}

/// Returns the command line that runs `command` in `folder`, then reports the folder behind the marker.
fn command_line(command: &str, folder: &str, marker: &str) -> String {
    let folder = folder.replace('\'', r"'\''");
    format!(
        "cd -- '{folder}' || exit\n{command}\n__status=$?\nprintf '\\n%s%s\\n' {marker} \"$PWD\"\nexit $__status"
    )
}

/// Separates the command's output from the report of the command line.
fn read_output(output: &CallOutput, marker: &str, before: &str) -> ConsoleOutput {
    let failed = output.outcome != StepOutcome::Done;
    let text = output.text.trim_end();
    let (printed, status) = text.rsplit_once('\n').unwrap_or(("", text));
    let (printed, folder) = match printed.rsplit_once(&format!("\n{marker}")) {
        Some((printed, folder)) => (printed, folder.trim_end()),
        // It ended the shell, or was killed.
        None => (printed, before),
    };
    let printed = printed.trim_end_matches('\n');
    let text = if failed { format!("{printed}\n{status}") } else { printed.to_owned() };
    ConsoleOutput { text: text.trim_matches('\n').to_owned(), failed, folder: folder.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console_output(outcome: StepOutcome, text: &str) -> (String, String) {
        let output = CallOutput {
            outcome,
            text: text.to_owned(),
            passages: vec![],
            written: vec![],
            images: vec![],
            unread: vec![],
        };
        let read = read_output(&output, "mark", "/before");
        (read.text, read.folder)
    }

    fn owned_pair(text: &str, folder: &str) -> (String, String) {
        (text.to_owned(), folder.to_owned())
    }

    #[test]
    fn output_and_folder_are_separated() {
        let done = StepOutcome::Done;
        assert_eq!(
            console_output(done, "a\nb\n\nmark/workspace/x\n[exit status 0]"),
            owned_pair("a\nb", "/workspace/x")
        );
        assert_eq!(console_output(done, "\nmark/workspace\n[exit status 0]"), owned_pair("", "/workspace"));
        let failed = StepOutcome::Failed;
        assert_eq!(
            console_output(failed, "no\n\nmark/w\n[exit status 2]"),
            owned_pair("no\n[exit status 2]", "/w")
        );
        assert_eq!(console_output(failed, "[exit status 3]"), owned_pair("[exit status 3]", "/before"));
    }

    #[test]
    fn quoted_folder_stays_one_word() {
        assert!(
            command_line("ls", "/workspace/it's", "m").starts_with(r"cd -- '/workspace/it'\''s' || exit")
        );
    }
}
