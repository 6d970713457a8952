//! `causerie machine stop`: one machine, or all of them, which needs no database.

use clap::{ArgGroup, Args};
use control::admin::stop_left_over;
use domain::id::AccountId;
use domain::machine::MachineStatus;
use machine::MachineFolders;
use serde::{Deserialize, Serialize};

use super::replies::ChangedMachine;
use crate::error::CliError;
use crate::request::{CommandReply, DatabaseUse, ExecutionContext, OperatorRequest};

/// Stop a machine, or all machines, and wait until their processes have ended
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(
    group = ArgGroup::new("which").required(true),
    after_help = "Examples:\n  causerie machine stop ada@example.org\n  causerie machine stop --all"
)]
pub struct StopMachines {
    /// The account: email or identifier
    #[arg(group = "which")]
    account: Option<String>,
    /// Stop every running machine, for example before the service is removed; questions start them again
    #[arg(long, group = "which")]
    all: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum StoppedMachines {
    One(ChangedMachine),
    /// The accounts whose machines were stopped.
    All {
        stopped: Vec<String>,
    },
}

impl StoppedMachines {
    fn from_accounts(accounts: &[AccountId]) -> Self {
        Self::All { stopped: accounts.iter().map(ToString::to_string).collect() }
    }
}

impl CommandReply for StoppedMachines {}

impl OperatorRequest for StopMachines {
    const NAME: &'static str = "stop_machines";
    type Reply = StoppedMachines;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<StoppedMachines, CliError> {
        Ok(match self.account {
            Some(account) => {
                let account = context.admin.stop_machine(&account).await?;
                StoppedMachines::One(ChangedMachine::new(account, MachineStatus::Stopped))
            }
            None => StoppedMachines::from_accounts(&context.admin.stop_all_machines().await?),
        })
    }

    fn database_use(&self) -> DatabaseUse {
        if self.account.is_none() { DatabaseUse::Optional } else { DatabaseUse::Required }
    }

    async fn execute_without_database(self, folders: &MachineFolders) -> Result<StoppedMachines, CliError> {
        Ok(StoppedMachines::from_accounts(&stop_left_over(folders).await?))
    }
}
