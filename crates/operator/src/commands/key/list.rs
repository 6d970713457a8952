//! `causerie key list`

use clap::Args;
use domain::scope::Permission;
use serde::{Deserialize, Serialize};
use store::keys::StoredKey;

use crate::error::CliError;
use crate::output::{columns, print_list};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// List an account's keys
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie key list --account ada@example.org")]
pub struct ListKeys {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeyList {
    keys: Vec<ListedKey>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedKey {
    key_id: String,
    name: String,
    created_at: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    scope: Vec<String>,
    spending_limit: Option<u64>,
    spent: Option<u64>,
}

impl From<&StoredKey> for ListedKey {
    fn from(key: &StoredKey) -> Self {
        Self {
            key_id: key.id.to_string(),
            name: key.name.clone(),
            created_at: key.created_at.to_string(),
            expires_at: key.expires_at.map(|time| time.to_string()),
            last_used_at: key.last_used_at.map(|time| time.to_string()),
            scope: key.scope.permissions().map(Permission::as_str).map(str::to_owned).collect(),
            spending_limit: key.spending.map(|spending| spending.limit.0),
            spent: key.spending.map(|spending| spending.spent.0),
        }
    }
}

impl CommandReply for KeyList {
    fn print_for_people(&self) {
        let columns =
            columns!(ListedKey: name, key_id, scope, expires_at, last_used_at, spending_limit, spent);
        print_list("keys", columns, &self.keys);
    }
}

impl OperatorRequest for ListKeys {
    const NAME: &'static str = "list_keys";
    type Reply = KeyList;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<KeyList, CliError> {
        let keys = context.admin.list_keys(&self.account).await?;
        Ok(KeyList { keys: keys.iter().map(ListedKey::from).collect() })
    }
}
