//! The credits of model steps without a conversation: reserved before a step, settled after it.

use domain::credits::{Credits, PostingKind, Price, Shortage};
use domain::id::{AccountId, KeyId, PostingId};
use domain::step::TokenUsage;
use domain::time::Timestamp;

use crate::accounts::is_closed;
use crate::credits::{Posting, find_balance, post_credits};
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, params, stored_int};

/// The maximum number of steps that one call of [`list_pending_plain_steps`] returns.
const PENDING_MAX: u32 = 1000;

/// A reservation for a step.
#[derive(Debug, Clone)]
pub struct PlainStepReserve {
    pub account: AccountId,
    /// The key of the request, if any.
    pub key: Option<KeyId>,
    /// The posting that reserves the credits; it identifies the step, too.
    pub step: PostingId,
    /// The maximum cost of the step.
    pub greatest: Credits,
    /// The model that it will use.
    pub model: String,
    pub now: Timestamp,
}

/// A step that has ended.
#[derive(Debug, Clone)]
pub struct PlainStepDone {
    pub step: PostingId,
    pub usage: TokenUsage,
    pub price: Price,
    pub model: String,
    /// The posting that settles the cost.
    pub settle: PostingId,
    /// The posting that releases the rest.
    pub release: PostingId,
    pub now: Timestamp,
}

/// The reason why credits for a step were not reserved.
#[derive(Debug, thiserror::Error)]
pub enum PlainStepError {
    /// The balance does not cover the step.
    #[error("not enough credits: the request needs {needed}, and the account has {available}", needed = needed.0, available = available.0)]
    Insufficient { needed: Credits, available: Credits },
    /// The key has reached its spending limit, or the step would exceed it.
    #[error("the key has reached its spending limit")]
    SpendingLimit,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reserves the maximum cost of a step.
///
/// # Errors
/// [`PlainStepError`].
pub fn reserve_plain_step(tx: &mut dyn Sql, new: &PlainStepReserve) -> Result<(), PlainStepError> {
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![new.account])?;
    if is_closed(tx, new.account)? {
        return Err(StoreError::Rule("the account is closed").into());
    }
    let limited = tx.query_one("SELECT spending_limit FROM keys WHERE id = $1", params![new.key], |row| {
        Ok(row.opt_int(0)?.is_some())
    })?;
    let limited = limited.unwrap_or(false);
    if new.greatest > Credits(0) {
        let posting = Posting::new(new.step, new.account, PostingKind::Reserve, new.greatest, new.now);
        let posting = Posting { key: new.key, limited, model: Some(&new.model), ..posting };
        match post_credits(tx, &posting)? {
            Ok(_) => {}
            Err(Shortage::SpendingLimit) => return Err(PlainStepError::SpendingLimit),
            Err(Shortage::Balance) => {
                let available = find_balance(tx, new.account)?.unwrap_or_default().available;
                return Err(PlainStepError::Insufficient { needed: new.greatest, available });
            }
        }
    }
    tx.send_statement(
        "INSERT INTO plain_steps (id, account_id, key_id, limited, reserved) VALUES ($1, $2, $3, $4, $5)",
        params![new.step, new.account, new.key, limited, stored_int(new.greatest.0)?],
    )?;
    Ok(())
}

/// Settles a step, and releases the rest of its reservation. Returns the settled credits; zero for a step that has
/// already ended.
///
/// # Errors
/// [`StoreError`].
pub fn settle_plain_step(tx: &mut dyn Sql, done: &PlainStepDone) -> Result<Credits> {
    let Some(pending) = take_pending(tx, done.step)? else { return Ok(Credits(0)) };
    // The service bears costs above the reservation.
    let cost = done.price.cost_of(done.usage).min(pending.reserved);
    let posting = |id, kind, amount| Posting {
        key: pending.key,
        limited: pending.limited,
        model: Some(&done.model),
        ..Posting::new(id, pending.account, kind, amount, done.now)
    };
    // Also without a cost, the posting records the usage.
    let settled = posting(done.settle, PostingKind::Settle, cost);
    post_credits(tx, &Posting { usage: Some(done.usage), ..settled })?.map_err(|_| UNCOVERED)?;
    let left = Credits(pending.reserved.0 - cost.0);
    if left > Credits(0) {
        post_credits(tx, &posting(done.release, PostingKind::Release, left))?.map_err(|_| UNCOVERED)?;
    }
    Ok(cost)
}

/// Releases the reservation of a step that failed. Does nothing for a step that has already ended.
///
/// # Errors
/// [`StoreError`].
pub fn release_plain_step(
    tx: &mut dyn Sql,
    step: PostingId,
    posting: PostingId,
    now: Timestamp,
) -> Result<()> {
    let Some(pending) = take_pending(tx, step)? else { return Ok(()) };
    if pending.reserved > Credits(0) {
        let released = Posting::new(posting, pending.account, PostingKind::Release, pending.reserved, now);
        let released = Posting { key: pending.key, limited: pending.limited, ..released };
        post_credits(tx, &released)?.map_err(|_| UNCOVERED)?;
    }
    Ok(())
}

/// Returns steps in progress, at most a thousand. At the start of a service they belong to a killed one.
///
/// # Errors
/// [`StoreError`].
pub fn list_pending_plain_steps(tx: &mut dyn Sql) -> Result<Vec<PostingId>> {
    tx.query_all("SELECT id FROM plain_steps ORDER BY id LIMIT $1", params![PENDING_MAX], |row| row.get_id(0))
}

const UNCOVERED: StoreError = StoreError::Rule("the balance does not hold the credits reserved for a step");

/// A step in progress.
struct PendingPlainStep {
    account: AccountId,
    key: Option<KeyId>,
    limited: bool,
    reserved: Credits,
}

/// Removes a step in progress, and locks its account.
fn take_pending(tx: &mut dyn Sql, step: PostingId) -> Result<Option<PendingPlainStep>> {
    tx.lock_rows(
        "SELECT id FROM accounts WHERE id = (SELECT account_id FROM plain_steps WHERE id = $1)
         FOR NO KEY UPDATE",
        params![step],
    )?;
    tx.query_one(
        "DELETE FROM plain_steps WHERE id = $1 RETURNING account_id, key_id, limited, reserved",
        params![step],
        |row| {
            Ok(PendingPlainStep {
                account: row.get_id(0)?,
                key: row.opt_id(1)?,
                limited: row.get_flag(2)?,
                reserved: row.get_credits(3)?,
            })
        },
    )
}
