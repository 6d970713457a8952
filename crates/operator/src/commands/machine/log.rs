//! `causerie machine log`

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::output::print_machine_text;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// Print the end of a machine's log
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie machine log ada@example.org")]
pub struct ShowMachineLog {
    /// The account: email or identifier
    account: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MachineLog {
    account: String,
    log: String,
}

impl CommandReply for MachineLog {
    fn print_for_people(&self) {
        print_machine_text(&self.log);
    }
}

impl OperatorRequest for ShowMachineLog {
    const NAME: &'static str = "show_machine_log";
    type Reply = MachineLog;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<MachineLog, CliError> {
        let (account, log) = context.admin.machine_log(&self.account).await?;
        Ok(MachineLog { account: account.id.to_string(), log })
    }
}
