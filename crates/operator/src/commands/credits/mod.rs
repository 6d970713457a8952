//! Commands for credits, and the reply that they share.

pub(crate) mod grant;
pub(crate) mod show;

use domain::credits::Balance;
use serde::{Deserialize, Serialize};

use crate::request::CommandReply;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShownBalance {
    balance: u64,
    reserved: u64,
}

impl CommandReply for ShownBalance {}

impl From<Balance> for ShownBalance {
    fn from(balance: Balance) -> Self {
        Self { balance: balance.available.0, reserved: balance.reserved.0 }
    }
}
