//! Leases: taking answers up, holding them, giving them back.

use std::collections::HashMap;

use domain::id::{AccountId, ConversationId, MessageId, NodeId};
use domain::time::Timestamp;

use super::{Fence, TurnError};
use crate::sql::{Result, RowExt, Sql, SqlExt, int, params};

/// The most answers that one call takes up.
const CLAIMS_MAX: u32 = 256;

/// The terms on which answers are taken up.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
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
pub struct Claimed {
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
pub struct Held {
    /// The lease.
    pub fence: Fence,
    /// Whether the user asked that the answer be stopped.
    pub stop_requested: bool,
}

/// An answer that nobody works on.
struct Free {
    answer: MessageId,
    account: AccountId,
}

/// Takes up answers that nobody works on, or whose lease is over, in the order in which they were accepted.
/// Each gets the next epoch. Those of an account whose machine is meant to be stopped wait here until it is not.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn claim(tx: &mut dyn Sql, terms: &Terms) -> Result<Vec<Claimed>> {
    let limit = terms.limit.min(CLAIMS_MAX) as usize;
    lock_claims(tx)?;
    let mut leased = leased_of_accounts(tx, terms.now)?;
    let mut claimed = Vec::new();
    // An account that fills its share is not looked at in the next round, so each round ends or gets on.
    for _ in 0..limit {
        let room = limit - claimed.len();
        let free = free_answers(tx, terms, room)?;
        let found = free.len();
        for Free { answer, account } in free {
            let working = leased.entry(account).or_insert(0);
            if *working < terms.per_account_max
                && let Some(one) = claim_one(tx, terms, answer, account)?
            {
                *working += 1;
                claimed.push(one);
            }
        }
        if claimed.len() == limit || found < room {
            break;
        }
    }
    Ok(claimed)
}

/// Takes up at most 256 answers that are to be stopped and that nobody works on, whatever their accounts'
/// shares: there is nothing to work on but their end. The terms' own limit does not count either.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn claim_stopped(tx: &mut dyn Sql, terms: &Terms) -> Result<Vec<Claimed>> {
    lock_claims(tx)?;
    let free = tx.all(
        "SELECT answer_id, account_id FROM dispatch
         WHERE stop_requested = 1 AND (lease_until IS NULL OR lease_until <= $1)
         ORDER BY accepted_at, answer_id LIMIT $2",
        params![terms.now, CLAIMS_MAX],
        |row| Ok(Free { answer: row.id(0)?, account: row.id(1)? }),
    )?;
    let mut claimed = Vec::with_capacity(free.len());
    for Free { answer, account } in free {
        claimed.extend(claim_one(tx, terms, answer, account)?);
    }
    Ok(claimed)
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
pub fn renew(tx: &mut dyn Sql, node: NodeId, until: Timestamp) -> Result<Vec<Held>> {
    lock_leases(tx, node)?;
    tx.execute("UPDATE dispatch SET lease_until = $2 WHERE node_id = $1", params![node, until])?;
    tx.all(
        "SELECT d.answer_id, a.epoch, d.stop_requested FROM dispatch d JOIN answers a ON a.id = d.answer_id
         WHERE d.node_id = $1 ORDER BY d.accepted_at, d.answer_id",
        params![node],
        |row| {
            let fence = Fence { answer: row.id(0)?, epoch: row.count(1)?, node };
            Ok(Held { fence, stop_requested: row.flag(2)? })
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

/// One claim at a time, or two would each give an account what is left of its share.
fn lock_claims(tx: &mut dyn Sql) -> Result<()> {
    tx.lock("SELECT pg_advisory_xact_lock(5306812771394912257)", params![])
}

/// Locks what `node` holds in the order in which claims lock it.
fn lock_leases(tx: &mut dyn Sql, node: NodeId) -> Result<()> {
    tx.lock(
        "SELECT answer_id FROM dispatch WHERE node_id = $1 ORDER BY accepted_at, answer_id FOR NO KEY UPDATE",
        params![node],
    )
}

fn leased_of_accounts(tx: &mut dyn Sql, now: Timestamp) -> Result<HashMap<AccountId, u32>> {
    let counts = tx.all(
        "SELECT account_id, count(*) FROM dispatch WHERE lease_until > $1 GROUP BY account_id",
        params![now],
        |row| Ok((row.id(0)?, row.small(1)?)),
    )?;
    Ok(counts.into_iter().collect())
}

/// The first answers that may be taken up. Of each account that has any waiting, its own first ones are looked at
/// and no more: however many wait for a full account, those of others are found at once.
fn free_answers(tx: &mut dyn Sql, terms: &Terms, room: usize) -> Result<Vec<Free>> {
    tx.all(
        "WITH RECURSIVE
         waiting (account) AS (
            SELECT (SELECT account_id FROM dispatch WHERE lease_until IS NULL ORDER BY account_id LIMIT 1)
            UNION ALL
            SELECT (SELECT d.account_id FROM dispatch d WHERE d.lease_until IS NULL AND d.account_id > w.account
                    ORDER BY d.account_id LIMIT 1)
            FROM waiting w WHERE w.account IS NOT NULL),
         free (answer_id, account_id, accepted_at) AS (
            SELECT d.answer_id, d.account_id, d.accepted_at FROM waiting w JOIN dispatch d ON d.answer_id IN
                (SELECT f.answer_id FROM dispatch f WHERE f.account_id = w.account AND f.lease_until IS NULL
                 ORDER BY f.accepted_at, f.answer_id LIMIT $2)
            WHERE NOT EXISTS (SELECT 1 FROM machines m WHERE m.account_id = w.account AND m.desired = 'stopped')
                AND (SELECT count(*) FROM dispatch l WHERE l.account_id = w.account AND l.lease_until > $1) < $2
            UNION ALL
            SELECT d.answer_id, d.account_id, d.accepted_at FROM dispatch d
            WHERE d.lease_until <= $1
                AND NOT EXISTS (SELECT 1 FROM machines m WHERE m.account_id = d.account_id AND m.desired = 'stopped')
                AND (SELECT count(*) FROM dispatch l WHERE l.account_id = d.account_id AND l.lease_until > $1) < $2)
         SELECT answer_id, account_id FROM free ORDER BY accepted_at, answer_id LIMIT $3",
        params![terms.now, terms.per_account_max, i64::try_from(room).unwrap_or(i64::MAX)],
        |row| Ok(Free { answer: row.id(0)?, account: row.id(1)? }),
    )
}

fn claim_one(
    tx: &mut dyn Sql,
    terms: &Terms,
    answer: MessageId,
    account: AccountId,
) -> Result<Option<Claimed>> {
    // The answer before its place in the queue, as whoever ends it takes them.
    tx.lock("SELECT id FROM answers WHERE id = $1 FOR NO KEY UPDATE", params![answer])?;
    let taken = tx.one(
        "UPDATE dispatch SET node_id = $2, lease_until = $3
         WHERE answer_id = $1 AND (lease_until IS NULL OR lease_until <= $4)
         RETURNING conversation_id, stop_requested",
        params![answer, terms.node, terms.lease_until, terms.now],
        |row| Ok((row.id(0)?, row.flag(1)?)),
    )?;
    let Some((conversation, stop_requested)) = taken else { return Ok(None) };
    let raised = tx.one(
        "UPDATE answers SET epoch = epoch + 1, attempts = attempts + 1
         WHERE id = $1 AND completed_at IS NULL RETURNING epoch, attempts",
        params![answer],
        |row| Ok((row.count(0)?, row.small(1)?)),
    )?;
    let Some((epoch, attempts)) = raised else {
        // It is over: a place in the queue that was left behind must not keep all others waiting.
        tx.send("DELETE FROM dispatch WHERE answer_id = $1", params![answer])?;
        return Ok(None);
    };
    let fence = Fence { answer, epoch, node: terms.node };
    Ok(Some(Claimed { fence, conversation, account, attempts, stop_requested }))
}

/// How many answers are in progress: leased or waiting.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn open_answers(tx: &mut dyn Sql) -> Result<u64> {
    let counted = tx.one("SELECT count(*) FROM dispatch", params![], |row| row.count(0))?;
    Ok(counted.unwrap_or_default())
}
