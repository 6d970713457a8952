//! The commands for machines: their requests, results and output.

use std::time::UNIX_EPOCH;

use control::Admin;
use control::admin::{MachineSummary, ShownMachine};
use domain::id::AccountId;
use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::commands::{MachineCommand, Where};
use crate::error::CliError;
use crate::request::AdminRequest;

/// The folder in which a console begins: the workspace in the machine.
const CONSOLE_FOLDER: &str = "/workspace";

/// Splits a command into the request and its data folder.
pub(crate) fn machine_request(command: MachineCommand) -> (AdminRequest, Where) {
    match command {
        MachineCommand::List { at } => (AdminRequest::ListMachines, at),
        MachineCommand::Show { account, at } => (AdminRequest::ShowMachine { account }, at),
        MachineCommand::Start { account, at } => (AdminRequest::StartMachine { account }, at),
        MachineCommand::Stop { account: Some(account), at, .. } => {
            (AdminRequest::StopMachine { account }, at)
        }
        MachineCommand::Stop { account: None, at, .. } => (AdminRequest::StopAllMachines, at),
        MachineCommand::Console { account, command, at } => {
            // Without a command, one that only starts the machine.
            let command = command.unwrap_or_else(|| "true".to_owned());
            (AdminRequest::RunInMachine { account, command, folder: CONSOLE_FOLDER.to_owned() }, at)
        }
        MachineCommand::Log { account, at } => (AdminRequest::ShowMachineLog { account }, at),
        MachineCommand::Reset { account, at } => (AdminRequest::ResetMachine { account }, at),
    }
}

/// Executes a request about machines.
pub(crate) async fn execute_machine_request(admin: &Admin, request: AdminRequest) -> Result<Value, CliError> {
    let changed = |account: &store::accounts::StoredAccount, status: &str| json!({ "account": account.id.to_string(), "email": account.email, "status": status });
    Ok(match request {
        AdminRequest::ListMachines => {
            let machines = admin.list_machines().await?;
            json!({ "machines": machines.iter().map(machine_summary_json).collect::<Vec<_>>() })
        }
        AdminRequest::ShowMachine { account } => machine_details_json(&admin.show_machine(&account).await?),
        AdminRequest::StartMachine { account } => changed(&admin.start_machine(&account).await?, "RUNNING"),
        AdminRequest::StopMachine { account } => changed(&admin.stop_machine(&account).await?, "STOPPED"),
        AdminRequest::StopAllMachines => stopped_accounts_json(&admin.stop_all_machines().await?),
        AdminRequest::RunInMachine { account, command, folder } => {
            let run = admin.run_in_machine(&account, &command, &folder).await?;
            json!({ "output": run.text, "failed": run.failed, "folder": run.folder })
        }
        AdminRequest::ResetMachine { account } => changed(&admin.reset_machine(&account).await?, "STOPPED"),
        AdminRequest::ShowMachineLog { account } => {
            let (account, log) = admin.machine_log(&account).await?;
            json!({ "account": account.id.to_string(), "log": log })
        }
        _ => return Err(CliError::new("USAGE", "the request is not about machines")),
    })
}

/// Shows the accounts whose machines were stopped.
pub(crate) fn stopped_accounts_json(accounts: &[AccountId]) -> Value {
    json!({ "stopped": accounts.iter().map(ToString::to_string).collect::<Vec<_>>() })
}

fn machine_summary_json(machine: &MachineSummary) -> Value {
    json!({
        "account": machine.account.to_string(),
        "email": machine.email,
        "status": machine.status.map_or("UNKNOWN", |status| status.as_str()),
        "driver": machine.driver,
        "kernel": machine.kernel,
        "pids": machine.pids,
    })
}

fn machine_details_json(machine: &ShownMachine) -> Value {
    let ShownMachine { account, status, driver, kernel, isolation, reason, details } = machine;
    let started_at = details.started_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let started_at = started_at.and_then(|since| i64::try_from(since.as_micros()).ok());
    json!({
        "account": account.id.to_string(),
        "email": account.email,
        "status": status.as_str(),
        "driver": driver,
        "kernel": kernel,
        "isolation": isolation,
        "pids": details.pids,
        "startedAt": started_at.map(|at| Timestamp::from_micros(at).to_string()),
        "memoryBytes": details.memory.map(|memory| memory.bytes),
        "memorySource": details.memory.map(|memory| memory.source.as_str()),
        "reason": reason.as_ref().map(ToString::to_string),
        "log": details.log,
    })
}
