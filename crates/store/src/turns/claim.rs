//! Claims: takes up answers that nobody works on, at a cost that does not grow with how many wait.
//!
//! ```text
//! the oldest 512 ──some left over──▶ the first of each account ──merged by age──▶ claimed
//!       │                                   ▲       │
//!       └──claimed                          └───────┘ the account's next 16
//! ```
//! Most of the time the oldest rows are all that is wanted. When they belong to accounts that have their share, or
//! whose machine is meant to be stopped, the accounts that have any waiting are visited by one step in the index each.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use domain::id::{AccountId, MessageId};
use domain::time::Timestamp;

use super::{ClaimOptions, ClaimedTurn, Fence};
use crate::sql::{Result, Row, RowExt, Sql, SqlExt, params};

/// The most answers that one call takes up.
const CLAIMS_MAX: u32 = 256;
/// How many of the oldest rows are looked at before the accounts are visited one by one.
const OLDEST_MAX: u32 = 512;
/// How many rows of one account are read at a time.
const OF_ACCOUNT_MAX: u32 = 16;

/// A row of the queue that nobody holds; they are ordered by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ClaimableAnswer {
    accepted_at: Timestamp,
    answer: MessageId,
    account: AccountId,
    /// Whether a lease of it is over. Else it waits, in the order of its account.
    is_over: bool,
}

impl ClaimableAnswer {
    /// Reads the columns `accepted_at, answer_id, account_id, lease_until`.
    fn read(row: &dyn Row) -> Result<Self> {
        let is_over = row.opt_int(3)?.is_some();
        Ok(Self { accepted_at: row.time(0)?, answer: row.id(1)?, account: row.id(2)?, is_over })
    }
}

/// Takes up answers that nobody works on, or whose lease is over, in the order in which they were accepted.
/// Each gets the next epoch. Those of an account whose machine is meant to be stopped wait here until it is not.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn claim(tx: &mut dyn Sql, terms: &ClaimOptions) -> Result<Vec<ClaimedTurn>> {
    lock_claims(tx)?;
    let leased = leased_of_accounts(tx, terms.now)?;
    let limit = terms.limit.min(CLAIMS_MAX) as usize;
    let mut claims = Claims { terms, limit, leased, claimed: Vec::new() };
    let more = claims.claim_oldest(tx)?;
    if more && claims.room() > 0 {
        claims.claim_of_each_account(tx)?;
    }
    Ok(claims.claimed)
}

/// Takes up at most 256 answers that are to be stopped and that nobody works on, whatever their accounts'
/// shares: there is nothing to work on but their end. The terms' own limit does not count either.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn claim_stopped(tx: &mut dyn Sql, terms: &ClaimOptions) -> Result<Vec<ClaimedTurn>> {
    lock_claims(tx)?;
    // The first in the order of the index, not the oldest: however many there are, no more are looked at.
    let free = tx.all(
        "SELECT o.accepted_at, o.answer_id, o.account_id, o.lease_until
         FROM (SELECT d.accepted_at, d.answer_id, d.account_id, d.lease_until FROM dispatch d
            WHERE d.stop_requested = 1 AND (d.lease_until IS NULL OR d.lease_until <= $1)
            ORDER BY d.answer_id LIMIT $2) o
         ORDER BY o.accepted_at, o.answer_id",
        params![terms.now, CLAIMS_MAX],
        ClaimableAnswer::read,
    )?;
    let mut claimed = Vec::with_capacity(free.len());
    for one in free {
        claimed.extend(claim_one(tx, terms, one)?);
    }
    Ok(claimed)
}

/// Claims under way.
struct Claims<'a> {
    terms: &'a ClaimOptions,
    limit: usize,
    /// How many answers of which account are worked on.
    leased: HashMap<AccountId, u32>,
    claimed: Vec<ClaimedTurn>,
}

impl Claims<'_> {
    fn room(&self) -> usize {
        self.limit - self.claimed.len()
    }

    /// How many more answers the account may have worked on.
    fn share_left(&self, account: AccountId) -> u32 {
        self.terms.per_account_max.saturating_sub(self.leased.get(&account).copied().unwrap_or_default())
    }

    /// Takes the row up if there is room for it.
    fn take(&mut self, tx: &mut dyn Sql, free: ClaimableAnswer) -> Result<()> {
        if self.room() == 0 || self.share_left(free.account) == 0 {
            return Ok(());
        }
        if let Some(one) = claim_one(tx, self.terms, free)? {
            *self.leased.entry(free.account).or_insert(0) += 1;
            self.claimed.push(one);
        }
        Ok(())
    }

    /// Claims among the oldest rows. Returns whether there are any behind them.
    fn claim_oldest(&mut self, tx: &mut dyn Sql) -> Result<bool> {
        let oldest = tx.all(
            "SELECT o.accepted_at, o.answer_id, o.account_id, o.lease_until, CAST(CASE WHEN
                (SELECT m.desired FROM machines m WHERE m.account_id = o.account_id) = 'stopped'
                THEN 1 ELSE 0 END AS BIGINT)
             FROM (SELECT d.accepted_at, d.answer_id, d.account_id, d.lease_until FROM dispatch d
                WHERE d.lease_until IS NULL OR d.lease_until <= $1
                ORDER BY d.accepted_at, d.answer_id LIMIT $2) o
             ORDER BY o.accepted_at, o.answer_id",
            params![self.terms.now, OLDEST_MAX],
            |row| Ok((ClaimableAnswer::read(row)?, row.flag(4)?)),
        )?;
        let more = oldest.len() >= OLDEST_MAX as usize;
        for (free, is_stopped) in oldest {
            if !is_stopped {
                self.take(tx, free)?;
            }
        }
        Ok(more)
    }

    /// Claims the oldest of what waits for accounts that have room.
    fn claim_of_each_account(&mut self, tx: &mut dyn Sql) -> Result<()> {
        let mut first = self.first_of_accounts(tx)?;
        first.extend(self.over(tx)?.into_iter().filter(|free| self.share_left(free.account) > 0));
        let mut behind: HashMap<AccountId, VecDeque<ClaimableAnswer>> = HashMap::new();
        let mut oldest: BinaryHeap<Reverse<ClaimableAnswer>> = first.into_iter().map(Reverse).collect();
        // Each round either takes one up or meets an account that has its share now, which it does not meet again.
        for _ in 0..self.limit * 2 + oldest.len() {
            let Some(Reverse(free)) = oldest.pop() else { break };
            self.take(tx, free)?;
            if self.room() == 0 {
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

    /// Those whose lease is over, of accounts that have room. There are no more than there were leases.
    fn over(&self, tx: &mut dyn Sql) -> Result<Vec<ClaimableAnswer>> {
        tx.all(
            "SELECT d.accepted_at, d.answer_id, d.account_id, d.lease_until FROM dispatch d
             WHERE d.lease_until <= $1
                AND COALESCE((SELECT m.desired FROM machines m WHERE m.account_id = d.account_id), '') <> 'stopped'
             ORDER BY d.account_id, d.lease_until",
            params![self.terms.now],
            ClaimableAnswer::read,
        )
    }

    /// The oldest row that waits for each account that has room: the oldest of them.
    fn first_of_accounts(&self, tx: &mut dyn Sql) -> Result<Vec<ClaimableAnswer>> {
        tx.all(
            "WITH RECURSIVE waiting (account) AS (
                SELECT (SELECT d.account_id FROM dispatch d WHERE d.lease_until IS NULL ORDER BY d.account_id LIMIT 1)
                UNION ALL
                SELECT (SELECT d.account_id FROM dispatch d WHERE d.lease_until IS NULL AND d.account_id > w.account
                        ORDER BY d.account_id LIMIT 1)
                FROM waiting w WHERE w.account IS NOT NULL)
             SELECT o.accepted_at, o.answer_id, o.account, o.lease_until FROM
                (SELECT w.account, CAST(NULL AS BIGINT) AS lease_until,
                    (SELECT d.accepted_at FROM dispatch d WHERE d.account_id = w.account AND d.lease_until IS NULL
                     ORDER BY d.accepted_at, d.answer_id LIMIT 1) AS accepted_at,
                    (SELECT d.answer_id FROM dispatch d WHERE d.account_id = w.account AND d.lease_until IS NULL
                     ORDER BY d.accepted_at, d.answer_id LIMIT 1) AS answer_id
                 FROM waiting w
                 WHERE w.account IS NOT NULL
                    AND COALESCE((SELECT m.desired FROM machines m WHERE m.account_id = w.account), '') <> 'stopped'
                    AND (SELECT count(*) FROM dispatch l
                         WHERE l.account_id = w.account AND l.lease_until > $1) < $2) o
             ORDER BY o.accepted_at, o.answer_id LIMIT $3",
            params![self.terms.now, self.terms.per_account_max, i64::try_from(self.room()).unwrap_or(i64::MAX)],
            ClaimableAnswer::read,
        )
    }
}

/// What waits for the account behind the row.
fn next_of_account(tx: &mut dyn Sql, free: ClaimableAnswer, limit: u32) -> Result<Vec<ClaimableAnswer>> {
    tx.all(
        "SELECT accepted_at, answer_id, account_id, lease_until FROM dispatch
         WHERE account_id = $1 AND lease_until IS NULL AND (accepted_at, answer_id) > ($2, $3)
         ORDER BY accepted_at, answer_id LIMIT $4",
        params![free.account, free.accepted_at, free.answer, limit],
        ClaimableAnswer::read,
    )
}

/// One claim at a time, or two would each give an account what is left of its share.
///
/// The queue can be empty at one moment and long at the next, and what PostgreSQL believes of its size, or planned for
/// when it was short, is of no use. So it is told to go by the indexes; and the statements here have no joins, of
/// which it could choose the order.
fn lock_claims(tx: &mut dyn Sql) -> Result<()> {
    tx.lock(
        "SELECT pg_advisory_xact_lock(5306812771394912257), set_config('enable_seqscan', 'off', true),
            set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)",
        params![],
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

fn claim_one(
    tx: &mut dyn Sql,
    terms: &ClaimOptions,
    ClaimableAnswer { answer, account, .. }: ClaimableAnswer,
) -> Result<Option<ClaimedTurn>> {
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
    Ok(Some(ClaimedTurn { fence, conversation, account, attempts, stop_requested }))
}

#[cfg(test)]
mod tests;
