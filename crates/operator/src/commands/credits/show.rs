//! `causerie credits show`

use clap::Args;
use serde::{Deserialize, Serialize};

use super::replies::ShownBalance;
use crate::error::CliError;
use crate::request::{ExecutionContext, OperatorRequest};

/// Show an account's balance
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie credits show --account ada@example.org")]
pub struct ShowCredits {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
}

impl OperatorRequest for ShowCredits {
    const NAME: &'static str = "show_credits";
    type Reply = ShownBalance;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ShownBalance, CliError> {
        Ok(context.admin.account_balance(&self.account).await?.into())
    }
}
