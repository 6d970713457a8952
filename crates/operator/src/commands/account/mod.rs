//! Commands for accounts, and the replies that they share.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod set_email;
pub(crate) mod set_password;
pub(crate) mod set_role;
pub(crate) mod show;

use domain::credits::Balance;
use serde::{Deserialize, Serialize};
use store::accounts::StoredAccount;

use crate::request::CommandReply;

/// An account that was changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangedAccount {
    account_id: String,
    email: String,
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
    account: ChangedAccount,
    role: String,
}

impl CommandReply for AccountWithRole {}

/// The facts about an account; `machine` says whether it has one, or the state of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccountFacts<M> {
    account_id: String,
    email: String,
    role: String,
    licence_until: Option<String>,
    balance: u64,
    reserved: u64,
    conversations: u64,
    machine: M,
    created_at: String,
}

impl<M> AccountFacts<M> {
    fn new(account: &StoredAccount, credits: Balance, machine: M) -> Self {
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
