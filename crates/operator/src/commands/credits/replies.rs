//! The reply that the commands for credits share.

use domain::credits::Balance;
use serde::{Deserialize, Serialize};

use crate::request::CommandReply;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShownBalance {
    pub(super) balance: u64,
    pub(super) reserved: u64,
}

impl CommandReply for ShownBalance {}

impl From<Balance> for ShownBalance {
    fn from(balance: Balance) -> Self {
        Self { balance: balance.available.0, reserved: balance.reserved.0 }
    }
}
