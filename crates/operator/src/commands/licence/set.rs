//! `causerie licence set`

use clap::Args;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::command::OperatorCommand;
use crate::error::CliError;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};
use crate::times::parse_end_time;

/// Set the end of an account's licence
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  causerie licence set --account ada@example.org --until 2030-12-31")]
pub struct SetLicenceArgs {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
    /// The last day in UTC, such as 2027-12-31, a time in RFC 3339, or `none`
    #[arg(long, value_name = "DATE")]
    until: String,
}

impl OperatorCommand for SetLicenceArgs {
    type Request = SetLicence;

    fn into_request(self) -> Result<SetLicence, CliError> {
        Ok(SetLicence { until: parse_end_time(&self.until)?, account: self.account })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SetLicence {
    account: String,
    until: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangedLicence {
    account_id: String,
    email: String,
    licence_until: Option<String>,
}

impl CommandReply for ChangedLicence {}

impl OperatorRequest for SetLicence {
    const NAME: &'static str = "set_licence";
    type Reply = ChangedLicence;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ChangedLicence, CliError> {
        let until = self.until.map(Timestamp::from_micros);
        let set = context.admin.set_licence(&self.account, until).await?;
        Ok(ChangedLicence {
            account_id: set.id.to_string(),
            email: set.email,
            licence_until: set.licence.until.map(|until| until.to_string()),
        })
    }
}
