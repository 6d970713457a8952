//! Commands for machines, and the reply that they share.

pub(crate) mod console;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod reset;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod stop;

use domain::machine::MachineStatus;
use serde::{Deserialize, Serialize};
use store::accounts::StoredAccount;

use crate::request::CommandReply;

/// A machine whose state was changed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChangedMachine {
    account: String,
    email: String,
    status: String,
}

impl CommandReply for ChangedMachine {}

impl ChangedMachine {
    fn new(account: StoredAccount, status: MachineStatus) -> Self {
        Self { account: account.id.to_string(), email: account.email, status: status.as_str().to_owned() }
    }
}
