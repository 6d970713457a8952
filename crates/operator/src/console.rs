//! `causerie machine console` without a command: a dialogue of command lines in an account's machine, one request each.

use std::io::IsTerminal;

use serde_json::Value;
use terminal::StdinLines;

use crate::admin;
use crate::commands::{AdminCommand, MachineCommand};
use crate::error::CliError;
use crate::output;
use crate::printers::print_run;
use crate::request::AdminRequest;

/// Returns the account if this command begins a dialogue.
pub fn console_account(command: &AdminCommand) -> Option<String> {
    match command {
        AdminCommand::Machine(MachineCommand::Console { account, command: None, .. }) => {
            Some(account.clone())
        }
        _ => None,
    }
}

/// Starts the machine, then reads command lines and prints the output of each, until the input ends. A line that fails does
/// not end the dialogue.
pub async fn run_machine_console(account: &str, command: AdminCommand) -> Result<(), CliError> {
    let broken = |error: std::io::Error| CliError::new("CONSOLE_FAILED", error.to_string());
    let (places, first, as_json) = admin::prepare_request(command)?;
    let mut last = admin::carry_out(&places, first).await?;
    let mut lines = StdinLines::new().map_err(broken)?;
    if std::io::stdin().is_terminal() {
        output::error_line("commands run with the user and the limits of the agent's tools; Ctrl-D leaves");
    }
    loop {
        // The machine chose the text; a prompt is one line.
        let folder = last["folder"].as_str().unwrap_or_default();
        let folder: String = folder.chars().filter(|c| !c.is_control()).collect();
        let prompt = format!("{account}:{folder}$ ");
        let Some(line) = lines.read_line(&prompt).await.map_err(broken)? else { break };
        let command = match line.trim() {
            "" => continue,
            "exit" => break,
            command => command.to_owned(),
        };
        let request = AdminRequest::RunInMachine { account: account.to_owned(), command, folder };
        last = admin::carry_out(&places, request).await?;
        let print = if as_json { output::print_object } else { |answer: &Value, _| print_run(answer) };
        print(&last, as_json);
    }
    admin::check_command_outcome(&last)
}
