//! `causerie account show`

use clap::Args;
use serde::{Deserialize, Serialize};

use super::replies::AccountFacts;
use crate::error::CliError;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// Show an account: licence, credits, keys, machine
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie account show ada@example.org")]
pub struct ShowAccount {
    /// The account: email or identifier
    pub(super) account: String,
}

/// An account with the state of its machine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShownAccount {
    #[serde(flatten)]
    pub(super) account: AccountFacts<Option<String>>,
    pub(super) keys: usize,
}

impl CommandReply for ShownAccount {}

impl OperatorRequest for ShowAccount {
    const NAME: &'static str = "show_account";
    type Reply = ShownAccount;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ShownAccount, CliError> {
        let (admin, named) = (context.admin, self.account.as_str());
        let account = admin.find_account(named).await?;
        let credits = admin.account_balance(named).await?;
        let keys = admin.list_keys(named).await?.len();
        let machine = match account.has_machine {
            true => Some(admin.show_machine(named).await?.status.as_str().to_owned()),
            false => None,
        };
        Ok(ShownAccount { account: AccountFacts::new(&account, credits, machine), keys })
    }
}
