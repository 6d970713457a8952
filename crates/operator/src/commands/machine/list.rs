//! `causerie machine list`

use clap::Args;
use control::admin::MachineSummary;
use domain::machine::MachineStatus;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::output::{columns, print_list};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// List all machines
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie machine list")]
pub struct ListMachines;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MachineList {
    pub(crate) machines: Vec<ListedMachine>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ListedMachine {
    account: String,
    email: Option<String>,
    status: String,
    driver: Option<String>,
    kernel: Option<String>,
    pids: Vec<i32>,
}

impl From<&MachineSummary> for ListedMachine {
    fn from(machine: &MachineSummary) -> Self {
        Self {
            account: machine.account.to_string(),
            email: machine.email.clone(),
            status: machine.status.map_or("UNKNOWN", MachineStatus::as_str).to_owned(),
            driver: machine.driver.clone(),
            kernel: machine.kernel.clone(),
            pids: machine.pids.clone(),
        }
    }
}

impl CommandReply for MachineList {
    fn print_for_people(&self) {
        print_list("machines", columns!(ListedMachine: email, account, status, driver, pids), &self.machines);
    }
}

impl OperatorRequest for ListMachines {
    const NAME: &'static str = "list_machines";
    type Reply = MachineList;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<MachineList, CliError> {
        let machines = context.admin.list_machines().await?;
        Ok(MachineList { machines: machines.iter().map(ListedMachine::from).collect() })
    }
}
