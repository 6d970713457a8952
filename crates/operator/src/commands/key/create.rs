//! `causerie key create`

use clap::Args;
use control::admin::KeyRestrictions;
use domain::credits::Credits;
use domain::scope::Scope;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::command::OperatorCommand;
use crate::error::CliError;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};
use crate::times::parse_end_time;

/// Create a key; it is shown only once
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n\
\x20 causerie key create --account ada@example.org --name laptop\n\
\x20 causerie key create --account ada@example.org --name ci --scope read,ask --expires 2027-06-30 --spending-limit 500")]
pub struct CreateKeyArgs {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
    /// A name by which the owner recognizes the key
    #[arg(long)]
    name: String,
    /// Expiry, if before the end of the licence: the last day in UTC, such as 2027-12-31, or a time in RFC 3339
    #[arg(long, value_name = "DATE")]
    expires: Option<String>,
    /// The permissions of the key: any of read, ask, files, machine, separated by commas; all by default
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// The total number of credits that its questions may cost; unlimited by default
    #[arg(long, value_name = "CREDITS")]
    spending_limit: Option<u64>,
}

impl OperatorCommand for CreateKeyArgs {
    type Request = CreateKey;

    fn into_request(self) -> Result<CreateKey, CliError> {
        let Self { account, name, expires, scope, spending_limit } = self;
        let expires = expires.as_deref().map(parse_end_time).transpose()?.flatten();
        Ok(CreateKey { account, name, expires, scope, spending_limit })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CreateKey {
    account: String,
    name: String,
    expires: Option<i64>,
    scope: Option<String>,
    spending_limit: Option<u64>,
}

/// A new key, which is shown only here.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatedKey {
    key_id: String,
    key: String,
}

impl CommandReply for CreatedKey {}

impl OperatorRequest for CreateKey {
    const NAME: &'static str = "create_key";
    type Reply = CreatedKey;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<CreatedKey, CliError> {
        let scope = self.scope.as_deref().map_or(Ok(Scope::ALL), Scope::parse);
        let restrictions = KeyRestrictions {
            expires_at: self.expires.map(Timestamp::from_micros),
            scope: scope.map_err(|error| CliError::new("INVALID_SCOPE", error.to_string()))?,
            spending_limit: self.spending_limit.map(Credits),
        };
        let created = context.admin.create_key(&self.account, &self.name, restrictions).await?;
        Ok(CreatedKey { key_id: created.id.to_string(), key: created.key.reveal().to_owned() })
    }
}
