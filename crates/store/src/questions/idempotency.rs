//! Removal of idempotency keys.

use domain::time::Timestamp;

use super::IDEMPOTENCY_KEPT_MICROS;
use crate::sql::{Result, Sql, params};

/// Removes up to `limit` idempotency keys older than 24 hours and returns their number.
///
/// # Errors
/// [`StoreError`].
pub fn sweep_idempotency(tx: &mut dyn Sql, now: Timestamp, limit: u32) -> Result<u64> {
    tx.execute(
        // A range of the index, up to the first key that stays. For an explicit list of rows, PostgreSQL
        // would scan the table.
        "DELETE FROM idempotency WHERE created_at <= $1 AND (created_at, account_id, name) <
            (COALESCE((SELECT created_at FROM idempotency WHERE created_at <= $1
                ORDER BY created_at, account_id, name LIMIT 1 OFFSET $2), $1 + 1),
             COALESCE((SELECT account_id FROM idempotency WHERE created_at <= $1
                ORDER BY created_at, account_id, name LIMIT 1 OFFSET $2), ''),
             COALESCE((SELECT name FROM idempotency WHERE created_at <= $1
                ORDER BY created_at, account_id, name LIMIT 1 OFFSET $2), ''))",
        params![now.micros() - IDEMPOTENCY_KEPT_MICROS, limit],
    )
}
