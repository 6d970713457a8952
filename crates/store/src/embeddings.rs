//! The credits of requests for embeddings: reserved before a request, settled after it.
//!
//! One request costs a fraction of a credit. So fractions are added up for each account, and whole credits are settled.

use domain::credits::{Credits, PostingKind, Price, Shortage};
use domain::id::{AccountId, PostingId};
use domain::step::TokenUsage;
use domain::time::Timestamp;

use crate::accounts::is_closed;
use crate::credits::{Posting, post_credits};
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, params, stored_int};

/// The number of millionths in a credit.
const MICROS: u64 = 1_000_000;
/// The maximum number of requests that one call of [`list_pending_embeddings`] returns.
const PENDING_MAX: u32 = 1000;

/// A reservation for a request.
#[derive(Debug, Clone)]
pub struct EmbeddingReserve {
    pub account: AccountId,
    /// The posting that reserves the credits; it identifies the request, too.
    pub request: PostingId,
    /// The maximum number of tokens that the request can have, and their price.
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
    pub usage: TokenUsage,
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

/// Reserves the maximum cost of a request, in addition to the reservations that are not settled yet.
///
/// # Errors
/// [`EmbeddingError`].
pub fn reserve_embedding(tx: &mut dyn Sql, new: &EmbeddingReserve) -> Result<(), EmbeddingError> {
    lock_account(tx, new.account)?;
    if is_closed(tx, new.account)? {
        return Err(StoreError::Rule("the account is closed").into());
    }
    let micros =
        read_unsettled_micros(tx, new.account)?.saturating_add(cost_micros(new.price, new.tokens_max));
    let reserved = Credits(micros.div_ceil(MICROS));
    if reserved > Credits(0) {
        let posting = Posting::new(new.request, new.account, PostingKind::Reserve, reserved, new.now);
        let posting = Posting { model: Some(&new.model), ..posting };
        post_credits(tx, &posting)?.map_err(EmbeddingError::Short)?;
    }
    tx.send_statement(
        "INSERT INTO embedding_requests (id, account_id, reserved) VALUES ($1, $2, $3)",
        params![new.request, new.account, stored_int(reserved.0)?],
    )?;
    Ok(())
}

/// Settles a request, and releases the rest of its reservation. Returns the settled credits; zero for a request that
/// has already ended.
///
/// # Errors
/// [`StoreError`].
pub fn settle_embedding(tx: &mut dyn Sql, done: &EmbeddingDone) -> Result<Credits> {
    let Some((account, reserved)) = take_request(tx, done.request)? else { return Ok(Credits(0)) };
    let spent = cost_micros(done.price, done.usage.input_tokens);
    let micros = read_unsettled_micros(tx, account)?.saturating_add(spent);
    let cost = Credits((micros / MICROS).min(reserved.0));
    // The service bears costs above the reservation.
    let rest = (micros - cost.0 * MICROS).min(MICROS - 1);
    tx.send_statement(
        "INSERT INTO embedding_costs (account_id, unsettled_micros) VALUES ($1, $2)
         ON CONFLICT (account_id) DO UPDATE SET unsettled_micros = EXCLUDED.unsettled_micros",
        params![account, stored_int(rest)?],
    )?;
    let posting = |id, kind, amount| Posting {
        model: Some(&done.model),
        ..Posting::new(id, account, kind, amount, done.now)
    };
    // Also without a whole credit, the posting records the usage.
    let settled = posting(done.settle, PostingKind::Settle, cost);
    post_credits(tx, &Posting { usage: Some(done.usage), ..settled })?.map_err(|_| UNCOVERED)?;
    let left = Credits(reserved.0 - cost.0);
    if left > Credits(0) {
        post_credits(tx, &posting(done.release, PostingKind::Release, left))?.map_err(|_| UNCOVERED)?;
    }
    Ok(cost)
}

/// Releases the reservation of a request that failed. Does nothing for a request that has already ended.
///
/// # Errors
/// [`StoreError`].
pub fn release_embedding(
    tx: &mut dyn Sql,
    request: PostingId,
    posting: PostingId,
    now: Timestamp,
) -> Result<()> {
    let Some((account, reserved)) = take_request(tx, request)? else { return Ok(()) };
    if reserved > Credits(0) {
        let released = Posting::new(posting, account, PostingKind::Release, reserved, now);
        post_credits(tx, &released)?.map_err(|_| UNCOVERED)?;
    }
    Ok(())
}

/// Returns requests in progress, at most a thousand. At the start of a service they belong to a killed one.
///
/// # Errors
/// [`StoreError`].
pub fn list_pending_embeddings(tx: &mut dyn Sql) -> Result<Vec<PostingId>> {
    tx.query_all("SELECT id FROM embedding_requests ORDER BY id LIMIT $1", params![PENDING_MAX], |row| {
        row.get_id(0)
    })
}

const UNCOVERED: StoreError =
    StoreError::Rule("the balance does not hold the credits reserved for embeddings");

/// Removes a request, and locks its account.
fn take_request(tx: &mut dyn Sql, request: PostingId) -> Result<Option<(AccountId, Credits)>> {
    tx.lock_rows(
        "SELECT id FROM accounts WHERE id = (SELECT account_id FROM embedding_requests WHERE id = $1)
         FOR NO KEY UPDATE",
        params![request],
    )?;
    tx.query_one(
        "DELETE FROM embedding_requests WHERE id = $1 RETURNING account_id, reserved",
        params![request],
        |row| Ok((row.get_id(0)?, row.get_credits(1)?)),
    )
}

fn lock_account(tx: &mut dyn Sql, account: AccountId) -> Result<()> {
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![account])
}

fn read_unsettled_micros(tx: &mut dyn Sql, account: AccountId) -> Result<u64> {
    let found = tx.query_one(
        "SELECT unsettled_micros FROM embedding_costs WHERE account_id = $1",
        params![account],
        |row| row.get_count(0),
    )?;
    Ok(found.unwrap_or(0))
}

/// Returns the cost of tokens, in millionths of a credit.
fn cost_micros(price: Price, tokens: u64) -> u64 {
    tokens.saturating_mul(price.input_millis).min(u64::MAX / 4)
}
