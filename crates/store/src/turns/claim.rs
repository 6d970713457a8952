//! Claims waiting answers at a cost that does not depend on the number of answers that wait.
//!
//! ```text
//! the oldest 512 ──some left over──▶ the first of each account ──merged by age──▶ claimed
//!       │                                   ▲       │
//!       └──claimed                          └───────┘ the account's next 16
//! ```
//! The oldest rows usually suffice. When they belong to accounts at their limit, or whose machine is meant to
//! be stopped, the accounts with waiting answers are visited with one index lookup each.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use domain::id::{AccountId, MessageId};
use domain::time::Timestamp;

use super::{ClaimedTurn, Fence, TurnClaimOptions};
use crate::serving::nobody_else_serves;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params};

/// The maximum number of answers per call.
const CLAIMS_MAX: u32 = 256;
/// The number of oldest rows that are examined before accounts are visited one by one.
const OLDEST_MAX: u32 = 512;
/// The number of rows read per account at a time.
const OF_ACCOUNT_MAX: u32 = 16;

/// A row of the queue without a holder. Ordered by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimableAnswer {
    accepted_at: Timestamp,
    answer: MessageId,
    account: AccountId,
    /// Set if its lease expired. Otherwise it waits in the order of its account.
    is_over: bool,
}

impl ClaimableAnswer {
    /// Reads the columns `accepted_at, answer_id, account_id, lease_until`.
    fn from_row(row: &dyn SqlRow) -> Result<Self> {
        let is_over = row.opt_int(3)?.is_some();
        Ok(Self { accepted_at: row.get_time(0)?, answer: row.get_id(1)?, account: row.get_id(2)?, is_over })
    }
}

/// Claims answers without a lease, or with an expired one, in the order in which they were accepted. Each
/// gets the next epoch. Claims none if another process serves (see [`serving`](crate::serving)). Answers of an account whose machine is meant to be stopped are skipped.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn claim_turns(tx: &mut dyn Sql, options: &TurnClaimOptions) -> Result<Vec<ClaimedTurn>> {
    lock_claims(tx)?;
    let leased = leased_of_accounts(tx, options.now)?;
    let limit = options.limit.min(CLAIMS_MAX) as usize;
    let mut claims = ClaimRun { options, limit, leased, claimed: Vec::new() };
    let more = claims.claim_oldest(tx)?;
    if more && claims.room_left() > 0 {
        claims.claim_of_each_account(tx)?;
    }
    Ok(claims.claimed)
}

/// Claims answers without a lease whose stop was requested, or whose pause is over: at most 256 of each. They only have to
/// be completed, so neither the limit per account nor that of the options applies.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn claim_stopped(tx: &mut dyn Sql, options: &TurnClaimOptions) -> Result<Vec<ClaimedTurn>> {
    lock_claims(tx)?;
    // The first in index order rather than the oldest, so the work is bounded.
    let mut free = tx.query_all(
        "SELECT o.accepted_at, o.answer_id, o.account_id, o.lease_until
         FROM (SELECT d.accepted_at, d.answer_id, d.account_id, d.lease_until FROM dispatch d
            WHERE d.stop_requested = 1 AND (d.lease_until IS NULL OR d.lease_until <= $1)
            ORDER BY d.answer_id LIMIT $2) o
         ORDER BY o.accepted_at, o.answer_id",
        params![options.now, CLAIMS_MAX],
        ClaimableAnswer::from_row,
    )?;
    free.extend(tx.query_all(
        "SELECT d.accepted_at, d.answer_id, d.account_id, d.lease_until FROM dispatch d
         WHERE d.paused_until <= $1 AND (d.lease_until IS NULL OR d.lease_until <= $1)
         ORDER BY d.paused_until LIMIT $2",
        params![options.now, CLAIMS_MAX],
        ClaimableAnswer::from_row,
    )?);
    let mut claimed = Vec::with_capacity(free.len());
    for one in free {
        claimed.extend(claim_one(tx, options, one)?);
    }
    Ok(claimed)
}

/// The claims of one call.
struct ClaimRun<'a> {
    options: &'a TurnClaimOptions,
    limit: usize,
    /// The number of leased answers per account.
    leased: HashMap<AccountId, u32>,
    claimed: Vec<ClaimedTurn>,
}

impl ClaimRun<'_> {
    fn room_left(&self) -> usize {
        self.limit - self.claimed.len()
    }

    /// Returns the number of answers that may still be claimed for the account.
    fn share_left(&self, account: AccountId) -> u32 {
        self.options.per_account_max.saturating_sub(self.leased.get(&account).copied().unwrap_or_default())
    }

    /// Claims the row if there is room for it.
    fn claim_if_room(&mut self, tx: &mut dyn Sql, free: ClaimableAnswer) -> Result<()> {
        if self.room_left() == 0 || self.share_left(free.account) == 0 {
            return Ok(());
        }
        if let Some(one) = claim_one(tx, self.options, free)? {
            *self.leased.entry(free.account).or_insert(0) += 1;
            self.claimed.push(one);
        }
        Ok(())
    }

    /// Claims among the oldest rows. Returns `true` if there are more rows behind them.
    fn claim_oldest(&mut self, tx: &mut dyn Sql) -> Result<bool> {
        let oldest = tx.query_all(
            "SELECT o.accepted_at, o.answer_id, o.account_id, o.lease_until, CAST(CASE WHEN
                (SELECT m.desired FROM machines m WHERE m.account_id = o.account_id) = 'stopped'
                THEN 1 ELSE 0 END AS BIGINT)
             FROM (SELECT d.accepted_at, d.answer_id, d.account_id, d.lease_until FROM dispatch d
                WHERE (d.lease_until IS NULL OR d.lease_until <= $1) AND d.paused_until IS NULL
                ORDER BY d.accepted_at, d.answer_id LIMIT $2) o
             ORDER BY o.accepted_at, o.answer_id",
            params![self.options.now, OLDEST_MAX],
            |row| Ok((ClaimableAnswer::from_row(row)?, row.get_flag(4)?)),
        )?;
        let more = oldest.len() >= OLDEST_MAX as usize;
        for (free, is_stopped) in oldest {
            if !is_stopped {
                self.claim_if_room(tx, free)?;
            }
        }
        Ok(more)
    }

    /// Claims the oldest waiting answers of accounts that have room.
    fn claim_of_each_account(&mut self, tx: &mut dyn Sql) -> Result<()> {
        let mut first = self.first_of_accounts(tx)?;
        first.extend(self.list_expired(tx)?.into_iter().filter(|free| self.share_left(free.account) > 0));
        let mut behind: HashMap<AccountId, VecDeque<ClaimableAnswer>> = HashMap::new();
        let mut oldest: BinaryHeap<Reverse<ClaimableAnswer>> = first.into_iter().map(Reverse).collect();
        // Each round claims an answer or removes an account that has reached its limit.
        for _ in 0..self.limit * 2 + oldest.len() {
            let Some(Reverse(free)) = oldest.pop() else { break };
            self.claim_if_room(tx, free)?;
            if self.room_left() == 0 {
                break;
            }
            let share = self.share_left(free.account);
            if free.is_over || share == 0 {
                continue;
            }
            let known = behind.entry(free.account).or_default();
            if known.is_empty() {
                let wanted = share.min(OF_ACCOUNT_MAX);
                known.extend(next_of_account(tx, free, wanted)?);
            }
            oldest.extend(known.pop_front().map(Reverse));
        }
        Ok(())
    }

    /// Returns the answers with expired leases, of accounts that have room. Their number is bounded by the number of
    /// leases.
    fn list_expired(&self, tx: &mut dyn Sql) -> Result<Vec<ClaimableAnswer>> {
        tx.query_all(
            "SELECT d.accepted_at, d.answer_id, d.account_id, d.lease_until FROM dispatch d
             WHERE d.lease_until <= $1 AND d.paused_until IS NULL
                AND COALESCE((SELECT m.desired FROM machines m WHERE m.account_id = d.account_id), '') <> 'stopped'
             ORDER BY d.account_id, d.lease_until",
            params![self.options.now],
            ClaimableAnswer::from_row,
        )
    }

    /// Returns the oldest waiting answer of each account that has room, up to the limit of the call.
    fn first_of_accounts(&self, tx: &mut dyn Sql) -> Result<Vec<ClaimableAnswer>> {
        tx.query_all(
            "WITH RECURSIVE waiting (account) AS (
                SELECT (SELECT d.account_id FROM dispatch d WHERE d.lease_until IS NULL AND d.paused_until IS NULL
                        ORDER BY d.account_id LIMIT 1)
                UNION ALL
                SELECT (SELECT d.account_id FROM dispatch d WHERE d.lease_until IS NULL AND d.paused_until IS NULL
                        AND d.account_id > w.account
                        ORDER BY d.account_id LIMIT 1)
                FROM waiting w WHERE w.account IS NOT NULL)
             SELECT o.accepted_at, o.answer_id, o.account, o.lease_until FROM
                (SELECT w.account, CAST(NULL AS BIGINT) AS lease_until,
                    (SELECT d.accepted_at FROM dispatch d WHERE d.account_id = w.account AND d.lease_until IS NULL
                        AND d.paused_until IS NULL
                     ORDER BY d.accepted_at, d.answer_id LIMIT 1) AS accepted_at,
                    (SELECT d.answer_id FROM dispatch d WHERE d.account_id = w.account AND d.lease_until IS NULL
                        AND d.paused_until IS NULL
                     ORDER BY d.accepted_at, d.answer_id LIMIT 1) AS answer_id
                 FROM waiting w
                 WHERE w.account IS NOT NULL
                    AND COALESCE((SELECT m.desired FROM machines m WHERE m.account_id = w.account), '') <> 'stopped'
                    AND (SELECT count(*) FROM dispatch l
                         WHERE l.account_id = w.account AND l.lease_until > $1) < $2) o
             ORDER BY o.accepted_at, o.answer_id LIMIT $3",
            params![self.options.now, self.options.per_account_max, i64::try_from(self.room_left()).unwrap_or(i64::MAX)],
            ClaimableAnswer::from_row,
        )
    }
}

/// Returns the waiting answers of the account after the given row.
fn next_of_account(tx: &mut dyn Sql, free: ClaimableAnswer, limit: u32) -> Result<Vec<ClaimableAnswer>> {
    tx.query_all(
        "SELECT accepted_at, answer_id, account_id, lease_until FROM dispatch
         WHERE account_id = $1 AND lease_until IS NULL AND paused_until IS NULL AND (accepted_at, answer_id) > ($2, $3)
         ORDER BY accepted_at, answer_id LIMIT $4",
        params![free.account, free.accepted_at, free.answer, limit],
        ClaimableAnswer::from_row,
    )
}

/// Serializes claims; otherwise two of them could both use the rest of an account's limit.
///
/// The queue's size changes so quickly that PostgreSQL's statistics and cached plans do not describe it. The
/// planner is therefore configured to use the indexes, and the statements here have no joins whose order it could
/// choose.
pub(crate) fn lock_claims(tx: &mut dyn Sql) -> Result<()> {
    tx.lock_rows(
        "SELECT pg_advisory_xact_lock(5306812771394912257), set_config('enable_seqscan', 'off', true),
            set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)",
        params![],
    )
}

fn leased_of_accounts(tx: &mut dyn Sql, now: Timestamp) -> Result<HashMap<AccountId, u32>> {
    let counts = tx.query_all(
        "SELECT account_id, count(*) FROM dispatch WHERE lease_until > $1 GROUP BY account_id",
        params![now],
        |row| Ok((row.get_id(0)?, row.get_u32(1)?)),
    )?;
    Ok(counts.into_iter().collect())
}

fn claim_one(
    tx: &mut dyn Sql,
    options: &TurnClaimOptions,
    ClaimableAnswer { answer, account, .. }: ClaimableAnswer,
) -> Result<Option<ClaimedTurn>> {
    // Locks the answer before its queue row, in the same order as its completion.
    tx.lock_rows("SELECT id FROM answers WHERE id = $1 FOR NO KEY UPDATE", params![answer])?;
    let row = tx.query_one(
        concat!(
            "UPDATE dispatch SET node_id = $2, lease_until = $3
             WHERE answer_id = $1 AND (lease_until IS NULL OR lease_until <= $4)
                AND (paused_until IS NULL OR paused_until <= $4 OR stop_requested = 1) AND ",
            nobody_else_serves!(),
            " RETURNING conversation_id, stop_requested, paused_until"
        ),
        params![answer, options.node, options.lease_until, options.now],
        |row| Ok((row.get_id(0)?, row.get_flag(1)?, row.opt_int(2)?.is_some())),
    )?;
    let Some((conversation, stop_requested, pause_over)) = row else { return Ok(None) };
    let raised = tx.query_one(
        "UPDATE answers SET epoch = epoch + 1, attempts = attempts + 1,
            attempts_since = CASE WHEN attempts = 0 THEN $2 ELSE COALESCE(attempts_since, $2) END
         WHERE id = $1 AND completed_at IS NULL RETURNING epoch, attempts, attempts_since",
        params![answer, options.now],
        |row| Ok((row.get_count(0)?, row.get_u32(1)?, row.get_time(2)?)),
    )?;
    let Some((epoch, attempts, attempts_since)) = raised else {
        // The answer is completed: a queue row left behind must not block all others.
        tx.send_statement("DELETE FROM dispatch WHERE answer_id = $1", params![answer])?;
        return Ok(None);
    };
    let fence = Fence { answer, epoch, node: options.node };
    Ok(Some(ClaimedTurn {
        fence,
        conversation,
        account,
        attempts,
        attempts_since,
        stop_requested,
        pause_over,
    }))
}

#[cfg(test)]
mod tests;
