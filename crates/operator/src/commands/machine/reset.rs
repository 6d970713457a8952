//! `causerie machine reset`

use clap::Args;
use domain::machine::MachineStatus;
use serde::{Deserialize, Serialize};

use super::replies::ChangedMachine;
use crate::error::CliError;
use crate::request::{ExecutionContext, OperatorRequest};

/// Stop a machine and remove its index; the next start reads the workspace again
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie machine reset ada@example.org")]
pub struct ResetMachine {
    /// The account: email or identifier
    account: String,
}

impl OperatorRequest for ResetMachine {
    const NAME: &'static str = "reset_machine";
    type Reply = ChangedMachine;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ChangedMachine, CliError> {
        let account = context.admin.reset_machine(&self.account).await?;
        Ok(ChangedMachine::new(account, MachineStatus::Stopped))
    }
}
