//! The credits of requests for embeddings: reserved before a request, settled after it.
//!
//! One request costs a fraction of a credit. So fractions are added up for each account, and whole credits are settled.

use domain::credits::{Credits, PostingKind, Price, Shortage};
use domain::id::{AccountId, PostingId};
use domain::step::Usage;
use domain::time::Timestamp;

use crate::accounts::is_closed;
use crate::credits::{Posting, post};
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, int, params};

/// The millionths of a credit.
const MICROS: u64 = 1_000_000;
/// The most requests that one call of [`pending`] returns.
const PENDING_MAX: u32 = 1000;

/// A reservation for a request.
#[derive(Debug, Clone)]
pub struct EmbeddingReserve {
    pub account: AccountId,
    /// The posting that reserves the credits; it identifies the request, too.
    pub request: PostingId,
    /// The most tokens that the request can have, and their price.
    pub tokens_max: u64,
    pub price: Price,
    /// The model that it will use.
    pub model: String,
    pub now: Timestamp,
}

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct EmbeddingDone {
    pub request: PostingId,
    pub usage: Usage,
    pub price: Price,
    pub model: String,
    /// The posting that settles the whole credits.
    pub settle: PostingId,
    /// The posting that releases the rest.
    pub release: PostingId,
    pub now: Timestamp,
}

/// The reason why credits for a request were not reserved.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The account has too few credits.
    #[error("not enough credits for embeddings")]
    Short(Shortage),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reserves the most credits that a request can cost, together with what is not settled yet.
///
/// # Errors
/// [`EmbeddingError`].
pub fn reserve(tx: &mut dyn Sql, new: &EmbeddingReserve) -> Result<(), EmbeddingError> {
    lock(tx, new.account)?;
    if is_closed(tx, new.account)? {
        return Err(StoreError::Rule("the account is closed").into());
    }
    let micros = unsettled(tx, new.account)?.saturating_add(cost_micros(new.price, new.tokens_max));
    let reserved = Credits(micros.div_ceil(MICROS));
    if reserved > Credits(0) {
        let posting = Posting::new(new.request, new.account, PostingKind::Reserve, reserved, new.now);
        let posting = Posting { model: Some(&new.model), ..posting };
        post(tx, &posting)?.map_err(EmbeddingError::Short)?;
    }
    tx.send(
        "INSERT INTO embedding_requests (id, account_id, reserved) VALUES ($1, $2, $3)",
        params![new.request, new.account, int(reserved.0)?],
    )?;
    Ok(())
}

/// Settles a request, and releases the rest of its reservation. Returns the credits that were settled; none of a request that is
/// over already.
///
/// # Errors
/// [`StoreError`].
pub fn settle(tx: &mut dyn Sql, done: &EmbeddingDone) -> Result<Credits> {
    let Some((account, reserved)) = take(tx, done.request)? else { return Ok(Credits(0)) };
    let spent = cost_micros(done.price, done.usage.input_tokens);
    let micros = unsettled(tx, account)?.saturating_add(spent);
    let cost = Credits((micros / MICROS).min(reserved.0));
    // What exceeds the reservation is the service's loss.
    let rest = (micros - cost.0 * MICROS).min(MICROS - 1);
    tx.send(
        "INSERT INTO embedding_costs (account_id, unsettled_micros) VALUES ($1, $2)
         ON CONFLICT (account_id) DO UPDATE SET unsettled_micros = EXCLUDED.unsettled_micros",
        params![account, int(rest)?],
    )?;
    let posting = |id, kind, amount| Posting {
        model: Some(&done.model),
        ..Posting::new(id, account, kind, amount, done.now)
    };
    // Also without a whole credit, the posting records the usage.
    let settled = posting(done.settle, PostingKind::Settle, cost);
    post(tx, &Posting { usage: Some(done.usage), ..settled })?.map_err(|_| UNCOVERED)?;
    let left = Credits(reserved.0 - cost.0);
    if left > Credits(0) {
        post(tx, &posting(done.release, PostingKind::Release, left))?.map_err(|_| UNCOVERED)?;
    }
    Ok(cost)
}

/// Releases the reservation of a request that failed. Does nothing for one that is over already.
///
/// # Errors
/// [`StoreError`].
pub fn release(tx: &mut dyn Sql, request: PostingId, posting: PostingId, now: Timestamp) -> Result<()> {
    let Some((account, reserved)) = take(tx, request)? else { return Ok(()) };
    if reserved > Credits(0) {
        let released = Posting::new(posting, account, PostingKind::Release, reserved, now);
        post(tx, &released)?.map_err(|_| UNCOVERED)?;
    }
    Ok(())
}

/// Returns requests that are under way, at most a thousand. At the start of a service they are those of a killed one.
///
/// # Errors
/// [`StoreError`].
pub fn pending(tx: &mut dyn Sql) -> Result<Vec<PostingId>> {
    tx.all("SELECT id FROM embedding_requests ORDER BY id LIMIT $1", params![PENDING_MAX], |row| row.id(0))
}

const UNCOVERED: StoreError = StoreError::Rule("the credits reserved for embeddings are not reserved");

/// Removes a request, and locks its account.
fn take(tx: &mut dyn Sql, request: PostingId) -> Result<Option<(AccountId, Credits)>> {
    tx.lock(
        "SELECT id FROM accounts WHERE id = (SELECT account_id FROM embedding_requests WHERE id = $1)
         FOR NO KEY UPDATE",
        params![request],
    )?;
    tx.one(
        "DELETE FROM embedding_requests WHERE id = $1 RETURNING account_id, reserved",
        params![request],
        |row| Ok((row.id(0)?, row.credits(1)?)),
    )
}

fn lock(tx: &mut dyn Sql, account: AccountId) -> Result<()> {
    tx.lock("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![account])
}

fn unsettled(tx: &mut dyn Sql, account: AccountId) -> Result<u64> {
    let found = tx.one(
        "SELECT unsettled_micros FROM embedding_costs WHERE account_id = $1",
        params![account],
        |row| row.count(0),
    )?;
    Ok(found.unwrap_or(0))
}

/// Returns the cost of tokens, in millionths of a credit.
fn cost_micros(price: Price, tokens: u64) -> u64 {
    tokens.saturating_mul(price.input_millis).min(u64::MAX / 4)
}
