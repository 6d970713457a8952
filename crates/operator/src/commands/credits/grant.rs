//! `causerie credits grant`

use clap::Args;
use domain::credits::Credits;
use serde::{Deserialize, Serialize};

use super::replies::ShownBalance;
use crate::error::CliError;
use crate::request::{ExecutionContext, OperatorRequest};

/// Give credits to an account
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie credits grant --account ada@example.org 1000")]
pub struct GrantCredits {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
    /// The number of credits
    amount: u64,
}

impl OperatorRequest for GrantCredits {
    const NAME: &'static str = "grant";
    type Reply = ShownBalance;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ShownBalance, CliError> {
        Ok(context.admin.grant_credits(&self.account, Credits(self.amount), None).await?.into())
    }
}
