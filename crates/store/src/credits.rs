//! Credits: the balance of an account, and the ledger whose sum it is.

use domain::credits::{Balance, Credits, PostingKind, Shortage};
use domain::id::{AccountId, ConversationId, KeyId, MessageId, PostingId};
use domain::step::TokenUsage;
use domain::time::Timestamp;

use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params, stored_int};

/// The largest page of [`list_postings`].
pub const LEDGER_PAGE_MAX: u32 = 1000;

/// The cap on the tokens of a posting, so that the sum of millions of postings cannot overflow.
const TOKENS_MAX: i64 = 1 << 40;
/// A day in UTC, in microseconds.
const DAY_MICROS: i64 = 86_400_000_000;

/// The reasons why a grant failed.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    #[error("no such account")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Grants credits to an account.
///
/// # Errors
/// [`GrantError`].
pub fn grant_credits(
    tx: &mut dyn Sql,
    account: AccountId,
    posting: PostingId,
    amount: Credits,
    now: Timestamp,
) -> Result<Balance, GrantError> {
    let posting = Posting::new(posting, account, PostingKind::Grant, amount, now);
    post_credits(tx, &posting)?.map_err(|_| GrantError::NotFound)
}

/// Returns true if a posting with this id exists. Locks the account, so that none is created meanwhile.
///
/// # Errors
/// [`StoreError`].
pub fn is_posted(tx: &mut dyn Sql, account: AccountId, posting: PostingId) -> Result<bool> {
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![account])?;
    Ok(tx.query_one("SELECT 1 FROM postings WHERE id = $1", params![posting], |_| Ok(()))?.is_some())
}

/// Returns the available and reserved credits; `None` if the account does not exist.
///
/// # Errors
/// [`StoreError`].
pub fn find_balance(tx: &mut dyn Sql, account: AccountId) -> Result<Option<Balance>> {
    tx.query_one("SELECT balance, reserved FROM accounts WHERE id = $1", params![account], read_balance)
}

#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry {
    pub id: PostingId,
    pub at: Timestamp,
    pub kind: PostingKind,
    /// The credits that it moved.
    pub amount: Credits,
    /// The balance after it.
    pub balance: Balance,
    /// The conversation that it paid for, which may have been deleted.
    pub conversation: Option<ConversationId>,
    /// The answer that it paid for, which may have been deleted.
    pub answer: Option<MessageId>,
    /// The key that asked the question.
    pub key: Option<KeyId>,
    /// The model that was used or will be.
    pub model: Option<String>,
    /// The number of the step.
    pub step: Option<u32>,
    /// The usage of the step, if it settles one.
    pub usage: Option<TokenUsage>,
}

/// Returns a page of the account's postings, newest first: `limit` (at most [`LEDGER_PAGE_MAX`]) from
/// `offset` on.
///
/// # Errors
/// [`StoreError`].
pub fn list_postings(
    tx: &mut dyn Sql,
    account: AccountId,
    offset: u64,
    limit: u32,
) -> Result<Vec<LedgerEntry>> {
    tx.query_all(
        "SELECT id, created_at, kind, amount, balance, reserved, conversation_id, answer_id, key_id, model, step,
            input_tokens, cached_tokens, output_tokens, reasoning_tokens, estimated
         FROM postings WHERE account_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3",
        params![account, limit.min(LEDGER_PAGE_MAX), stored_int(offset)?],
        read_posted,
    )
}

/// Returns the next page of the account's postings, newest first: those before the posting of this time and identifier.
///
/// # Errors
/// [`StoreError`].
pub fn ledger_before(
    tx: &mut dyn Sql,
    account: AccountId,
    (at, id): (Timestamp, PostingId),
    limit: u32,
) -> Result<Vec<LedgerEntry>> {
    tx.query_all(
        "SELECT id, created_at, kind, amount, balance, reserved, conversation_id, answer_id, key_id, model, step,
            input_tokens, cached_tokens, output_tokens, reasoning_tokens, estimated
         FROM postings WHERE account_id = $1 AND (created_at, id) < ($2, $3)
         ORDER BY created_at DESC, id DESC LIMIT $4",
        params![account, at, id, limit.min(LEDGER_PAGE_MAX)],
        read_posted,
    )
}

/// Sums up the account's postings. A result other than [`find_balance`] means that the ledger is damaged.
///
/// # Errors
/// [`StoreError`].
pub fn recomputed_balance(tx: &mut dyn Sql, account: AccountId) -> Result<Balance> {
    let sums = tx.query_one(
        "SELECT
            CAST(COALESCE(SUM(CASE kind WHEN 'reserve' THEN -amount WHEN 'settle' THEN 0 ELSE amount END), 0) AS BIGINT),
            CAST(COALESCE(SUM(CASE kind WHEN 'reserve' THEN amount WHEN 'grant' THEN 0 ELSE -amount END), 0) AS BIGINT)
         FROM postings WHERE account_id = $1",
        params![account],
        read_balance,
    )?;
    Ok(sums.unwrap_or_default())
}

/// A posting to be written.
pub(crate) struct Posting<'a> {
    pub(crate) id: PostingId,
    pub(crate) account: AccountId,
    pub(crate) kind: PostingKind,
    pub(crate) amount: Credits,
    pub(crate) now: Timestamp,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) answer: Option<MessageId>,
    pub(crate) key: Option<KeyId>,
    /// The key has a spending limit.
    pub(crate) limited: bool,
    pub(crate) model: Option<&'a str>,
    pub(crate) step: Option<u32>,
    /// It pays for the summary before that step.
    pub(crate) summary: bool,
    pub(crate) usage: Option<TokenUsage>,
}

impl Posting<'_> {
    pub(crate) fn new(
        id: PostingId,
        account: AccountId,
        kind: PostingKind,
        amount: Credits,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            account,
            kind,
            amount,
            now,
            conversation: None,
            answer: None,
            key: None,
            limited: false,
            model: None,
            step: None,
            summary: false,
            usage: None,
        }
    }
}

/// Moves the credits in the account's row and writes the posting. On [`Shortage`] (insufficient balance,
/// missing account, or a key over its spending limit) the caller must undo the transaction.
pub(crate) fn post_credits(tx: &mut dyn Sql, posting: &Posting<'_>) -> Result<Result<Balance, Shortage>> {
    let Some(balance) = move_credits(tx, posting)? else { return Ok(Err(Shortage::Balance)) };
    if !count_spent(tx, posting)? {
        return Ok(Err(Shortage::SpendingLimit));
    }
    record_posting(tx, posting, balance)?;
    Ok(Ok(balance))
}

/// Counts a posting against the spending limit of its key: the credits that were reserved and not released.
/// Returns `false` if the limit would be exceeded. The account's row must be locked.
pub(crate) fn count_spent(tx: &mut dyn Sql, posting: &Posting<'_>) -> Result<bool> {
    let (Some(key), true) = (posting.key, posting.limited) else { return Ok(true) };
    let sql = match posting.kind {
        PostingKind::Grant | PostingKind::Settle => return Ok(true),
        PostingKind::Reserve => {
            "UPDATE keys SET spent = spent + $2 WHERE id = $1 AND spent + $2 <= spending_limit"
        }
        PostingKind::Release => "UPDATE keys SET spent = spent - $2 WHERE id = $1",
    };
    Ok(tx.execute(sql, params![key, stored_int(posting.amount.0)?])? > 0)
}

fn move_credits(tx: &mut dyn Sql, posting: &Posting<'_>) -> Result<Option<Balance>> {
    let sql = match posting.kind {
        PostingKind::Grant => {
            "UPDATE accounts SET balance = balance + $2 WHERE id = $1 AND closed_at IS NULL
             RETURNING balance, reserved"
        }
        PostingKind::Reserve => {
            "UPDATE accounts SET balance = balance - $2, reserved = reserved + $2
             WHERE id = $1 AND balance >= $2 RETURNING balance, reserved"
        }
        PostingKind::Settle => {
            "UPDATE accounts SET reserved = reserved - $2
             WHERE id = $1 AND reserved >= $2 RETURNING balance, reserved"
        }
        PostingKind::Release => {
            "UPDATE accounts SET balance = balance + $2, reserved = reserved - $2
             WHERE id = $1 AND reserved >= $2 RETURNING balance, reserved"
        }
    };
    tx.query_one(sql, params![posting.account, stored_int(posting.amount.0)?], read_balance)
}

/// Writes a posting with the balance after it.
pub(crate) fn record_posting(tx: &mut dyn Sql, posting: &Posting<'_>, after: Balance) -> Result<()> {
    let tokens = |count: fn(TokenUsage) -> u64| posting.usage.map(|usage| stored_tokens(count(usage)));
    tx.send_statement(
        "INSERT INTO postings (id, account_id, created_at, kind, amount, balance, reserved, conversation_id,
            answer_id, key_id, model, step, input_tokens, cached_tokens, output_tokens, reasoning_tokens, estimated,
            summary)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        params![
            posting.id,
            posting.account,
            posting.now,
            kind_text(posting.kind),
            stored_int(posting.amount.0)?,
            stored_int(after.available.0)?,
            stored_int(after.reserved.0)?,
            posting.conversation,
            posting.answer,
            posting.key,
            posting.model,
            posting.step,
            tokens(|usage| usage.input_tokens),
            tokens(|usage| usage.cached_tokens),
            tokens(|usage| usage.output_tokens),
            tokens(|usage| usage.reasoning_tokens),
            posting.usage.map(|usage| usage.estimated),
            posting.summary.then_some(true),
        ],
    )?;
    if posting.kind == PostingKind::Settle {
        add_to_day(tx, posting)?;
    }
    Ok(())
}

/// Adds a settled posting to the sums of its day. The account's row must be locked.
fn add_to_day(tx: &mut dyn Sql, posting: &Posting<'_>) -> Result<()> {
    let usage = posting.usage.unwrap_or_default();
    let estimated = if usage.estimated { (usage.input_tokens, usage.output_tokens) } else { (0, 0) };
    let credits = stored_int(posting.amount.0)?;
    let key = posting.key.map(|key| key.to_string()).unwrap_or_default();
    tx.send_statement(
        "INSERT INTO usage_days (account_id, day, model, key_id, steps, credits, input_tokens, cached_tokens,
            output_tokens, reasoning_tokens, estimated_tokens, summaries, summary_credits)
         VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (account_id, day, model, key_id) DO UPDATE SET steps = usage_days.steps + 1,
            credits = usage_days.credits + $5, input_tokens = usage_days.input_tokens + $6,
            cached_tokens = usage_days.cached_tokens + $7, output_tokens = usage_days.output_tokens + $8,
            reasoning_tokens = usage_days.reasoning_tokens + $9,
            estimated_tokens = usage_days.estimated_tokens + $10, summaries = usage_days.summaries + $11,
            summary_credits = usage_days.summary_credits + $12",
        params![
            posting.account,
            posting.now.micros() / DAY_MICROS,
            posting.model.unwrap_or_default(),
            &key,
            credits,
            stored_tokens(usage.input_tokens),
            stored_tokens(usage.cached_tokens),
            stored_tokens(usage.output_tokens),
            stored_tokens(usage.reasoning_tokens),
            stored_tokens(estimated.0) + stored_tokens(estimated.1),
            posting.summary,
            if posting.summary { credits } else { 0 },
        ],
    )
}

/// Returns a token count as it is stored. Vendors report the counts: an absurd one is capped rather than rejected.
fn stored_tokens(count: u64) -> i64 {
    saturate_to_i64(count).min(TOKENS_MAX)
}

/// Vendors report the token counts. An absurd count is capped rather than rejected.
pub(crate) fn saturate_to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn read_balance(row: &dyn SqlRow) -> Result<Balance> {
    Ok(Balance { available: row.get_credits(0)?, reserved: row.get_credits(1)? })
}

fn read_posted(row: &dyn SqlRow) -> Result<LedgerEntry> {
    let kind = row.get_text(2)?;
    let usage = match row.opt_int(11)? {
        None => None,
        Some(_) => Some(TokenUsage {
            input_tokens: row.get_count(11)?,
            cached_tokens: row.get_count(12)?,
            output_tokens: row.get_count(13)?,
            reasoning_tokens: row.get_count(14)?,
            estimated: row.get_flag(15)?,
        }),
    };
    Ok(LedgerEntry {
        id: row.get_id(0)?,
        at: row.get_time(1)?,
        kind: kind_of(kind).ok_or_else(|| StoreError::damaged_row("posting kind", kind, "is unknown"))?,
        amount: row.get_credits(3)?,
        balance: Balance { available: row.get_credits(4)?, reserved: row.get_credits(5)? },
        conversation: row.opt_id(6)?,
        answer: row.opt_id(7)?,
        key: row.opt_id(8)?,
        model: row.opt_text(9)?.map(str::to_owned),
        step: row.opt_int(10)?.map(|_| row.get_u32(10)).transpose()?,
        usage,
    })
}

const fn kind_text(kind: PostingKind) -> &'static str {
    match kind {
        PostingKind::Grant => "grant",
        PostingKind::Reserve => "reserve",
        PostingKind::Settle => "settle",
        PostingKind::Release => "release",
    }
}

fn kind_of(text: &str) -> Option<PostingKind> {
    [PostingKind::Grant, PostingKind::Reserve, PostingKind::Settle, PostingKind::Release]
        .into_iter()
        .find(|kind| kind_text(*kind) == text)
}
