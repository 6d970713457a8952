//! Usage of answers: the ledger's settled postings, added up by day, model and key.
//!
//! The sums of each day are kept in `usage_days`, written in the transaction of each posting, for pages. From any time on,
//! usage is added up from the ledger.

use domain::credits::Credits;
use domain::id::{AccountId, KeyId};
use domain::step::TokenUsage;
use domain::time::Timestamp;

use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params};

/// The maximum number of rows per call: two years of a dozen models.
pub const USAGE_ROWS_MAX: u32 = 10_000;
/// A day in UTC, in microseconds.
const DAY_MICROS: i64 = 86_400_000_000;

/// The usage of one model on one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelUsageRow {
    /// The beginning of the day in UTC.
    pub day: Timestamp,
    /// The model; `None` for postings without one.
    pub model: Option<String>,
    /// The number of settled steps, including summaries.
    pub steps: u64,
    /// The number of summaries of long exchanges, and their cost.
    pub summaries: (u64, Credits),
    /// The cost of all steps.
    pub credits: Credits,
    /// The tokens of all steps; `estimated` if some were estimated.
    pub tokens: TokenUsage,
    /// The number of tokens, input and output, that were estimated rather than counted.
    pub estimated_tokens: u64,
}

/// The usage through one key, or in the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUsage {
    /// The key; `None` for questions of the application.
    pub key: Option<KeyId>,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The number of settled steps.
    pub steps: u64,
    pub credits: Credits,
}

/// Returns the account's usage since `since` from the ledger, a row per day and model, newest days first and models by name:
/// at most [`USAGE_ROWS_MAX`] rows, and whether there are more.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn by_day_and_model(
    tx: &mut dyn Sql,
    account: AccountId,
    since: Timestamp,
) -> Result<(Vec<ModelUsageRow>, bool)> {
    let mut rows = tx.query_all(
        "SELECT created_at / 86400000000 AS day, model, COUNT(*),
            CAST(SUM(amount) AS BIGINT),
            CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT),
            CAST(COALESCE(SUM(cached_tokens), 0) AS BIGINT),
            CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT),
            CAST(COALESCE(SUM(reasoning_tokens), 0) AS BIGINT),
            CAST(COALESCE(SUM(CASE estimated WHEN 1 THEN input_tokens + output_tokens ELSE 0 END), 0) AS BIGINT),
            COUNT(summary), CAST(COALESCE(SUM(CASE summary WHEN 1 THEN amount ELSE 0 END), 0) AS BIGINT)
         FROM postings WHERE account_id = $1 AND created_at >= $2 AND kind = 'settle'
         GROUP BY day, model ORDER BY day DESC, model LIMIT $3",
        params![account, since, USAGE_ROWS_MAX + 1],
        read_used,
    )?;
    let more = rows.len() > USAGE_ROWS_MAX as usize;
    rows.truncate(USAGE_ROWS_MAX as usize);
    Ok((rows, more))
}

/// Returns the account's usage from the day of `since` on, as [`by_day_and_model`], from the sums of days.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn of_days(tx: &mut dyn Sql, account: AccountId, since: Timestamp) -> Result<(Vec<ModelUsageRow>, bool)> {
    let mut rows = tx.query_all(
        "SELECT day, NULLIF(model, '') AS used_model, CAST(SUM(steps) AS BIGINT), CAST(SUM(credits) AS BIGINT),
            CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(cached_tokens) AS BIGINT),
            CAST(SUM(output_tokens) AS BIGINT), CAST(SUM(reasoning_tokens) AS BIGINT),
            CAST(SUM(estimated_tokens) AS BIGINT), CAST(SUM(summaries) AS BIGINT),
            CAST(SUM(summary_credits) AS BIGINT)
         FROM usage_days WHERE account_id = $1 AND day >= $2
         GROUP BY day, model ORDER BY day DESC, model LIMIT $3",
        params![account, day_of(since), USAGE_ROWS_MAX + 1],
        read_used,
    )?;
    let more = rows.len() > USAGE_ROWS_MAX as usize;
    rows.truncate(USAGE_ROWS_MAX as usize);
    Ok((rows, more))
}

/// Returns the account's cost from the day of `since` on by the key that asked, most expensive first.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn by_key(tx: &mut dyn Sql, account: AccountId, since: Timestamp) -> Result<Vec<KeyUsage>> {
    tx.query_all(
        "SELECT NULLIF(u.key_id, ''), k.name, u.steps, u.credits FROM
            (SELECT key_id, CAST(SUM(steps) AS BIGINT) AS steps, CAST(SUM(credits) AS BIGINT) AS credits
             FROM usage_days WHERE account_id = $1 AND day >= $2 GROUP BY key_id) u
         LEFT JOIN keys k ON k.id = u.key_id AND k.account_id = $1
         ORDER BY u.credits DESC LIMIT $3",
        params![account, day_of(since), USAGE_ROWS_MAX],
        |row| {
            let (key, name) = (row.opt_id(0)?, row.opt_text(1)?.map(str::to_owned));
            Ok(KeyUsage { key, name, steps: row.get_count(2)?, credits: row.get_credits(3)? })
        },
    )
}

/// Returns the day of a time, in days since 1970.
fn day_of(time: Timestamp) -> i64 {
    time.micros() / DAY_MICROS
}

fn read_used(row: &dyn SqlRow) -> Result<ModelUsageRow> {
    let estimated_tokens = row.get_count(8)?;
    Ok(ModelUsageRow {
        day: Timestamp::from_micros(row.get_int(0)?.saturating_mul(DAY_MICROS)),
        model: row.opt_text(1)?.map(str::to_owned),
        steps: row.get_count(2)?,
        credits: row.get_credits(3)?,
        tokens: TokenUsage {
            input_tokens: row.get_count(4)?,
            cached_tokens: row.get_count(5)?,
            output_tokens: row.get_count(6)?,
            reasoning_tokens: row.get_count(7)?,
            estimated: estimated_tokens > 0,
        },
        estimated_tokens,
        summaries: (row.get_count(9)?, row.get_credits(10)?),
    })
}
