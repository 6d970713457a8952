//! Holders of shares and places, and the bounds of each holder and of all.

use std::net::IpAddr;

use domain::id::AccountId;

/// The holder of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetHolder {
    /// An account, by any of its keys.
    Account(AccountId),
    /// An address that showed no valid key.
    Address(IpAddr),
}

/// Limits the sum of shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetBounds {
    pub each: u64,
    pub all: u64,
}
