//! `causerie account set-email`

use clap::Args;
use serde::{Deserialize, Serialize};

use super::replies::ChangedAccount;
use crate::error::CliError;
use crate::request::{ExecutionContext, OperatorRequest};

/// Replace the email of the account's owner, or confirm it
///
/// The owner signs in with the email. A user of an identity provider is matched by it the first time,
/// unless the owner chose the email.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(
    after_help = "Examples:\n  causerie account set-email --account ada@example.org --email ada.l@example.org"
)]
pub struct SetEmail {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
    /// The email
    #[arg(long)]
    email: String,
}

impl OperatorRequest for SetEmail {
    const NAME: &'static str = "set_email";
    type Reply = ChangedAccount;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ChangedAccount, CliError> {
        Ok(context.admin.set_email(&self.account, &self.email).await?.into())
    }
}
