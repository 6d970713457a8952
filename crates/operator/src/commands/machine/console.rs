//! `causerie machine console`: a command line in an account's machine or, without one, a dialogue with one request each.

use std::io::IsTerminal;

use clap::Args;
use serde::{Deserialize, Serialize};
use terminal::StdinLines;

use crate::carry_out::carry_out;
use crate::command::{OperatorCommand, run_request};
use crate::error::CliError;
use crate::location::{Where, load_locations_as_caller};
use crate::output::{self, print_machine_text};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// The folder in which a console begins: the workspace in the machine.
const CONSOLE_FOLDER: &str = "/workspace";

/// Run commands in a machine, with the user and the limits of the agent's tools
///
/// Without COMMAND it reads command lines, from the terminal or a pipe, until the input ends.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n\
\x20 causerie machine console ada@example.org\n\
\x20 causerie machine console ada@example.org \"du -sh /workspace\"")]
pub struct ConsoleArgs {
    /// The account: email or identifier
    account: String,
    /// A command line for the machine's shell
    command: Option<String>,
}

impl OperatorCommand for ConsoleArgs {
    type Request = RunInMachine;

    fn into_request(self) -> Result<RunInMachine, CliError> {
        // Without a command, one that only starts the machine.
        let command = self.command.unwrap_or_else(|| "true".to_owned());
        Ok(RunInMachine { account: self.account, command, folder: CONSOLE_FOLDER.to_owned() })
    }

    async fn run(self, at: &Where) -> Result<(), CliError> {
        let is_dialogue = self.command.is_none();
        let request = self.into_request()?;
        if is_dialogue { run_dialogue(request, at).await } else { run_request(request, at).await }
    }
}

/// Starts the machine, then reads command lines and prints the output of each, until the input ends. A line that fails does
/// not end the dialogue.
async fn run_dialogue(first: RunInMachine, at: &Where) -> Result<(), CliError> {
    let broken = |error: std::io::Error| CliError::new("CONSOLE_FAILED", error.to_string());
    let places = load_locations_as_caller(at)?;
    let account = first.account.clone();
    let mut last = carry_out(&places, first).await?;
    let mut lines = StdinLines::new().map_err(broken)?;
    if std::io::stdin().is_terminal() {
        output::error_line("commands run with the user and the limits of the agent's tools; Ctrl-D leaves");
    }
    loop {
        // The machine chose the text; a prompt is one line.
        let folder: String = last.folder.chars().filter(|c| !c.is_control()).collect();
        let prompt = format!("{account}:{folder}$ ");
        let Some(line) = lines.read_line(&prompt).await.map_err(broken)? else { break };
        let command = match line.trim() {
            "" => continue,
            "exit" => break,
            command => command.to_owned(),
        };
        let request = RunInMachine { account: account.clone(), command, folder };
        last = carry_out(&places, request).await?;
        last.print(at.json);
    }
    last.failure().map_or(Ok(()), Err)
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunInMachine {
    account: String,
    command: String,
    folder: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommandOutput {
    output: String,
    failed: bool,
    /// The folder in which the command has ended.
    folder: String,
}

impl CommandReply for CommandOutput {
    fn print_for_people(&self) {
        print_machine_text(&self.output);
    }

    fn failure(&self) -> Option<CliError> {
        self.failed.then(|| CliError::new("COMMAND_FAILED", "the command failed in the machine"))
    }
}

impl OperatorRequest for RunInMachine {
    const NAME: &'static str = "run_in_machine";
    type Reply = CommandOutput;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<CommandOutput, CliError> {
        let Self { account, command, folder } = self;
        let run = context.admin.run_in_machine(&account, &command, &folder).await?;
        Ok(CommandOutput { output: run.text, failed: run.failed, folder: run.folder })
    }
}
