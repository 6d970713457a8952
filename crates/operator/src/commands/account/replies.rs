//! Replies that the commands for accounts share.

use domain::credits::Balance;
use serde::{Deserialize, Serialize};
use store::accounts::StoredAccount;

use crate::request::CommandReply;

/// An account that was changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangedAccount {
    pub(super) account_id: String,
    pub(super) email: String,
}

impl CommandReply for ChangedAccount {}

impl From<StoredAccount> for ChangedAccount {
    fn from(account: StoredAccount) -> Self {
        Self { account_id: account.id.to_string(), email: account.email }
    }
}

/// An account and the role of its owner.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AccountWithRole {
    #[serde(flatten)]
    pub(super) account: ChangedAccount,
    pub(super) role: String,
}

impl CommandReply for AccountWithRole {}

/// The facts about an account; `machine` says whether it has one, or the state of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountFacts<M> {
    pub(super) account_id: String,
    pub(super) email: String,
    pub(super) role: String,
    pub(super) licence_until: Option<String>,
    pub(super) balance: u64,
    pub(super) reserved: u64,
    pub(super) conversations: u64,
    pub(super) machine: M,
    pub(super) created_at: String,
}

impl<M> AccountFacts<M> {
    pub(super) fn new(account: &StoredAccount, credits: Balance, machine: M) -> Self {
        Self {
            account_id: account.id.to_string(),
            email: account.email.clone(),
            role: account.role.as_str().to_owned(),
            licence_until: account.licence.until.map(|until| until.to_string()),
            balance: credits.available.0,
            reserved: credits.reserved.0,
            conversations: account.conversations,
            machine,
            created_at: account.created_at.to_string(),
        }
    }
}
