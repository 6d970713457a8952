//! `causerie account list`

use clap::Args;
use serde::{Deserialize, Serialize};

use super::replies::AccountFacts;
use crate::error::CliError;
use crate::output::{columns, print_list};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// List all accounts: licence, credits, conversations
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie account list")]
pub struct ListAccounts;

type ListedAccount = AccountFacts<bool>;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AccountList {
    pub(crate) accounts: Vec<ListedAccount>,
}

impl CommandReply for AccountList {
    fn print_for_people(&self) {
        let columns =
            columns!(ListedAccount: email, account_id, licence_until, balance, reserved, conversations);
        print_list("accounts", columns, &self.accounts);
    }
}

impl OperatorRequest for ListAccounts {
    const NAME: &'static str = "list_accounts";
    type Reply = AccountList;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<AccountList, CliError> {
        let accounts = context.admin.list_accounts().await?;
        let accounts = accounts
            .iter()
            .map(|(account, credits)| AccountFacts::new(account, *credits, account.has_machine))
            .collect();
        Ok(AccountList { accounts })
    }
}
