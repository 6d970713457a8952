//! `causerie machine start`

use clap::Args;
use domain::machine::MachineStatus;
use serde::{Deserialize, Serialize};

use super::replies::ChangedMachine;
use crate::error::CliError;
use crate::request::{ExecutionContext, OperatorRequest};

/// Start a machine and wait until its agent answers
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie machine start ada@example.org")]
pub struct StartMachine {
    /// The account: email or identifier
    account: String,
}

impl OperatorRequest for StartMachine {
    const NAME: &'static str = "start_machine";
    type Reply = ChangedMachine;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ChangedMachine, CliError> {
        let account = context.admin.start_machine(&self.account).await?;
        Ok(ChangedMachine::new(account, MachineStatus::Running))
    }
}
