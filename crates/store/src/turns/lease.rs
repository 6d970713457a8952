//! Renewing and releasing leases. [`claim`](super::claim) acquires them.

use domain::id::{AccountId, ConversationId, NodeId};
use domain::time::Timestamp;

use super::{Fence, TurnError};
use crate::sql::{Result, RowExt, Sql, SqlExt, params, stored_int};

/// The options of a claim.
#[derive(Debug, Clone, Copy)]
pub struct TurnClaimOptions {
    pub node: NodeId,
    pub now: Timestamp,
    /// The end of the leases unless they are renewed.
    pub lease_until: Timestamp,
    /// The maximum number of answers of one account that are worked on at the same time, by all processes together.
    pub per_account_max: u32,
    /// The maximum number of answers to claim (at most 256).
    pub limit: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedTurn {
    pub fence: Fence,
    pub conversation: ConversationId,
    pub account: AccountId,
    /// The number of claims since the answer last made progress, including this one.
    pub attempts: u32,
    /// The time of the first of them.
    pub attempts_since: Timestamp,
    /// The user requested a stop.
    pub stop_requested: bool,
    /// The answer was paused, and nothing is left of it but to end: its deadline has passed, or its stop was requested.
    pub pause_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLease {
    pub fence: Fence,
    /// The user requested a stop of the answer.
    pub stop_requested: bool,
}

/// Ends every lease and returns their number. No claim may be under way.
pub(crate) fn end_all_leases(tx: &mut dyn Sql) -> Result<u64> {
    // In the order in which claims and renewals lock the rows.
    tx.lock_rows(
        "SELECT answer_id FROM dispatch WHERE node_id IS NOT NULL ORDER BY accepted_at, answer_id FOR NO KEY UPDATE",
        params![],
    )?;
    tx.execute("UPDATE dispatch SET node_id = NULL, lease_until = NULL WHERE node_id IS NOT NULL", params![])
}

/// Renews and returns every lease that `node` still holds.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn renew_leases(tx: &mut dyn Sql, node: NodeId, until: Timestamp) -> Result<Vec<HeldLease>> {
    lock_leases(tx, node)?;
    tx.execute("UPDATE dispatch SET lease_until = $2 WHERE node_id = $1", params![node, until])?;
    tx.query_all(
        "SELECT d.answer_id, a.epoch, d.stop_requested FROM dispatch d JOIN answers a ON a.id = d.answer_id
         WHERE d.node_id = $1 ORDER BY d.accepted_at, d.answer_id",
        params![node],
        |row| {
            let fence = Fence { answer: row.get_id(0)?, epoch: row.get_count(1)?, node };
            Ok(HeldLease { fence, stop_requested: row.get_flag(2)? })
        },
    )
}

/// Releases a lease: the answer can be claimed again at once.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn release_lease(tx: &mut dyn Sql, fence: Fence) -> Result<(), TurnError> {
    let released = tx.execute(
        "UPDATE dispatch SET node_id = NULL, lease_until = NULL WHERE answer_id = $1 AND node_id = $3
         AND EXISTS (SELECT 1 FROM answers a WHERE a.id = $1 AND a.epoch = $2)",
        params![fence.answer, stored_int(fence.epoch)?, fence.node],
    )?;
    if released == 0 { Err(TurnError::Fenced) } else { Ok(()) }
}

/// Releases a lease like [`release_lease`], without counting the attempt: the turn only waited in vain.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn put_back(tx: &mut dyn Sql, fence: Fence) -> Result<(), TurnError> {
    // Locks the answer before its queue row, in the same order as its completion.
    tx.execute(
        "UPDATE answers SET attempts = attempts - 1
         WHERE id = $1 AND epoch = $2 AND attempts > 0 AND completed_at IS NULL
         AND EXISTS (SELECT 1 FROM dispatch d WHERE d.answer_id = $1 AND d.node_id = $3)",
        params![fence.answer, stored_int(fence.epoch)?, fence.node],
    )?;
    release_lease(tx, fence)
}

/// Locks the rows of `node` in the order in which claims lock them.
fn lock_leases(tx: &mut dyn Sql, node: NodeId) -> Result<()> {
    tx.lock_rows(
        "SELECT answer_id FROM dispatch WHERE node_id = $1 ORDER BY accepted_at, answer_id FOR NO KEY UPDATE",
        params![node],
    )
}

/// Requests a stop of every answer in progress.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn request_all_stops(tx: &mut dyn Sql) -> Result<u64> {
    tx.execute("UPDATE dispatch SET stop_requested = 1", params![])
}

/// Returns the number of answers in progress, leased or waiting.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn open_answers(tx: &mut dyn Sql) -> Result<u64> {
    let counted = tx.query_one("SELECT count(*) FROM dispatch", params![], |row| row.get_count(0))?;
    Ok(counted.unwrap_or_default())
}
