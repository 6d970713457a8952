//! `causerie key revoke`

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// Revoke a key immediately
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie key revoke 0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7d")]
pub struct RevokeKey {
    /// The key's identifier
    #[serde(rename = "key")]
    key_id: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevokedKey {
    key_id: String,
    revoked: bool,
}

impl CommandReply for RevokedKey {}

impl OperatorRequest for RevokeKey {
    const NAME: &'static str = "revoke_key";
    type Reply = RevokedKey;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<RevokedKey, CliError> {
        let Self { key_id } = self;
        let id = key_id.parse().map_err(|_| {
            CliError::new("NO_SUCH_KEY", format!("{key_id:?} is not a key id: see `causerie key list`"))
        })?;
        context.admin.revoke_key(id).await?;
        Ok(RevokedKey { key_id, revoked: true })
    }
}
