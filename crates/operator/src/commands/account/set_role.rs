//! `causerie account set-role`

use clap::Args;
use domain::account::AccountRole;
use serde::{Deserialize, Serialize};

use super::replies::AccountWithRole;
use crate::error::CliError;
use crate::request::{ExecutionContext, OperatorRequest};

/// Set the role of the account's owner
///
/// Operators see and change all accounts in the web application.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie account set-role --account ada@example.org --role operator")]
pub struct SetRole {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
    /// The role: owner or operator
    #[arg(long, value_parser = ["owner", "operator"])]
    role: String,
}

impl OperatorRequest for SetRole {
    const NAME: &'static str = "set_role";
    type Reply = AccountWithRole;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<AccountWithRole, CliError> {
        let Self { account, role } = self;
        let parsed = AccountRole::parse(&role).ok_or_else(|| {
            CliError::new("INVALID_ROLE", format!("no role {role:?}: use owner or operator"))
        })?;
        let set = context.admin.set_role(&account, parsed).await?;
        Ok(AccountWithRole { account: set.into(), role })
    }
}
