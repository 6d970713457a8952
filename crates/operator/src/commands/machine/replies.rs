//! The reply that the commands for machines share.

use domain::machine::MachineStatus;
use serde::{Deserialize, Serialize};
use store::accounts::StoredAccount;

use crate::request::CommandReply;

/// A machine whose state was changed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChangedMachine {
    pub(super) account: String,
    pub(super) email: String,
    pub(super) status: String,
}

impl CommandReply for ChangedMachine {}

impl ChangedMachine {
    pub(super) fn new(account: StoredAccount, status: MachineStatus) -> Self {
        Self { account: account.id.to_string(), email: account.email, status: status.as_str().to_owned() }
    }
}
