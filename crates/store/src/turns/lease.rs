//! Leases: holding answers, giving them back. [`claim`](super::claim) takes them up.

use domain::id::{AccountId, ConversationId, NodeId};
use domain::time::Timestamp;

use super::{Fence, TurnError};
use crate::sql::{Result, RowExt, Sql, SqlExt, int, params};

/// The terms on which answers are taken up.
#[derive(Debug, Clone, Copy)]
pub struct ClaimOptions {
    /// Who takes them.
    pub node: NodeId,
    /// The present.
    pub now: Timestamp,
    /// Until when the leases hold unless they are renewed.
    pub lease_until: Timestamp,
    /// How many answers of one account are worked on at the same time, by whomever.
    pub per_account_max: u32,
    /// How many to take at most (at most 256).
    pub limit: u32,
}

/// An answer that was taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedTurn {
    /// The lease.
    pub fence: Fence,
    /// The answer's conversation.
    pub conversation: ConversationId,
    /// Whose it is.
    pub account: AccountId,
    /// How often it was taken up since something of it was last committed, this time included.
    pub attempts: u32,
    /// Whether the user asked that it be stopped.
    pub stop_requested: bool,
}

/// A lease that was renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLease {
    /// The lease.
    pub fence: Fence,
    /// Whether the user asked that the answer be stopped.
    pub stop_requested: bool,
}

/// Gives up every lease that `node` holds and says how many: a process that starts under the same name as one
/// that died need not wait for them to end.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn take_over(tx: &mut dyn Sql, node: NodeId) -> Result<u64> {
    lock_leases(tx, node)?;
    tx.execute("UPDATE dispatch SET node_id = NULL, lease_until = NULL WHERE node_id = $1", params![node])
}

/// Prolongs every lease that `node` still holds and tells them.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn renew(tx: &mut dyn Sql, node: NodeId, until: Timestamp) -> Result<Vec<HeldLease>> {
    lock_leases(tx, node)?;
    tx.execute("UPDATE dispatch SET lease_until = $2 WHERE node_id = $1", params![node, until])?;
    tx.all(
        "SELECT d.answer_id, a.epoch, d.stop_requested FROM dispatch d JOIN answers a ON a.id = d.answer_id
         WHERE d.node_id = $1 ORDER BY d.accepted_at, d.answer_id",
        params![node],
        |row| {
            let fence = Fence { answer: row.id(0)?, epoch: row.count(1)?, node };
            Ok(HeldLease { fence, stop_requested: row.flag(2)? })
        },
    )
}

/// Gives a lease back: the answer can be taken up again at once.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn release(tx: &mut dyn Sql, fence: Fence) -> Result<(), TurnError> {
    let released = tx.execute(
        "UPDATE dispatch SET node_id = NULL, lease_until = NULL WHERE answer_id = $1 AND node_id = $3
         AND EXISTS (SELECT 1 FROM answers a WHERE a.id = $1 AND a.epoch = $2)",
        params![fence.answer, int(fence.epoch)?, fence.node],
    )?;
    if released == 0 { Err(TurnError::Fenced) } else { Ok(()) }
}

/// Gives a lease back as [`release`] does, and the attempt does not count: what was waited for did not come.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn put_back(tx: &mut dyn Sql, fence: Fence) -> Result<(), TurnError> {
    // The answer before its place in the queue, as whoever ends it takes them.
    tx.execute(
        "UPDATE answers SET attempts = attempts - 1
         WHERE id = $1 AND epoch = $2 AND attempts > 0 AND completed_at IS NULL
         AND EXISTS (SELECT 1 FROM dispatch d WHERE d.answer_id = $1 AND d.node_id = $3)",
        params![fence.answer, int(fence.epoch)?, fence.node],
    )?;
    release(tx, fence)
}

/// Locks what `node` holds in the order in which claims lock it.
fn lock_leases(tx: &mut dyn Sql, node: NodeId) -> Result<()> {
    tx.lock(
        "SELECT answer_id FROM dispatch WHERE node_id = $1 ORDER BY accepted_at, answer_id FOR NO KEY UPDATE",
        params![node],
    )
}

/// How many answers are in progress: leased or waiting.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn open_answers(tx: &mut dyn Sql) -> Result<u64> {
    let counted = tx.one("SELECT count(*) FROM dispatch", params![], |row| row.count(0))?;
    Ok(counted.unwrap_or_default())
}
