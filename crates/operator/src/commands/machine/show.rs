//! `causerie machine show`

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use clap::Args;
use control::admin::ShownMachine;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// Show a machine: state, driver and isolation, processes, memory, log
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie machine show ada@example.org")]
pub struct ShowMachine {
    /// The account: email or identifier
    account: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MachineFacts {
    account: String,
    email: String,
    status: String,
    driver: Option<String>,
    kernel: Option<String>,
    isolation: Option<String>,
    pids: Vec<i32>,
    started_at: Option<String>,
    memory_bytes: Option<u64>,
    memory_source: Option<String>,
    /// The reason of the last change of the state.
    reason: Option<String>,
    log: PathBuf,
}

impl CommandReply for MachineFacts {}

impl From<ShownMachine> for MachineFacts {
    fn from(machine: ShownMachine) -> Self {
        let ShownMachine { account, status, driver, kernel, isolation, reason, details } = machine;
        let started_at = details.started_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let started_at = started_at.and_then(|since| i64::try_from(since.as_micros()).ok());
        Self {
            account: account.id.to_string(),
            email: account.email,
            status: status.as_str().to_owned(),
            driver,
            kernel,
            isolation: isolation.map(str::to_owned),
            pids: details.pids,
            started_at: started_at.map(|at| Timestamp::from_micros(at).to_string()),
            memory_bytes: details.memory.map(|memory| memory.bytes),
            memory_source: details.memory.map(|memory| memory.source.as_str().to_owned()),
            reason: reason.as_ref().map(ToString::to_string),
            log: details.log,
        }
    }
}

impl OperatorRequest for ShowMachine {
    const NAME: &'static str = "show_machine";
    type Reply = MachineFacts;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<MachineFacts, CliError> {
        Ok(context.admin.show_machine(&self.account).await?.into())
    }
}
