//! The audit log: who did what to what. Rows are added, and removed when they are old.

use domain::id::{AccountId, TraceId};
use domain::time::Timestamp;

use crate::sql::{Result, Row, RowExt, Sql, SqlExt, params};

/// The most entries that one call lists.
pub const AUDIT_PAGE_MAX: u32 = 1000;

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// The account that it concerns, if any.
    pub account: Option<AccountId>,
    /// Who did it, at most 1024 bytes.
    pub actor: String,
    /// What was done, a word or two, at most 256 bytes.
    pub action: String,
    /// What it was done to, at most 4096 bytes.
    pub subject: String,
    /// What else there is to know, without secrets, at most 64 KiB.
    pub detail: String,
    /// The request in which it was done.
    pub trace: Option<TraceId>,
}

/// Adds an entry.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn append(tx: &mut dyn Sql, entry: &AuditEntry) -> Result<()> {
    tx.execute(
        "INSERT INTO audit (created_at, account_id, actor, action, subject, detail, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        params![
            entry.at,
            entry.account,
            &entry.actor,
            &entry.action,
            &entry.subject,
            &entry.detail,
            entry.trace
        ],
    )?;
    Ok(())
}

/// Which entries are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Those of this account alone.
    pub account: Option<AccountId>,
    /// Those from this moment on.
    pub since: Option<Timestamp>,
    /// Those before the entry of this number: the last one of the page before.
    pub before: Option<i64>,
    /// How many, at most [`AUDIT_PAGE_MAX`].
    pub limit: u32,
}

/// What was done, newest first, with the numbers of the entries.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn list(tx: &mut dyn Sql, wanted: &AuditFilter) -> Result<Vec<(i64, AuditEntry)>> {
    let before = wanted.before.unwrap_or(i64::MAX);
    let since = wanted.since.map_or(i64::MIN, Timestamp::micros);
    let limit = wanted.limit.min(AUDIT_PAGE_MAX);
    match wanted.account {
        Some(account) => tx.all(
            "SELECT entry, created_at, account_id, actor, action, subject, detail, trace_id FROM audit
             WHERE account_id = $1 AND entry < $2 AND created_at >= $3 ORDER BY entry DESC LIMIT $4",
            params![account, before, since, limit],
            read_entry,
        ),
        None => tx.all(
            "SELECT entry, created_at, account_id, actor, action, subject, detail, trace_id FROM audit
             WHERE entry < $1 AND created_at >= $2 ORDER BY entry DESC LIMIT $3",
            params![before, since, limit],
            read_entry,
        ),
    }
}

/// Removes up to `limit` entries from before a moment, in microseconds, and says how many.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn sweep(tx: &mut dyn Sql, before_micros: i64, limit: u32) -> Result<u64> {
    tx.execute(
        // A range of the index, up to the first that stays. To be told each row, PostgreSQL would read the whole table.
        "DELETE FROM audit WHERE created_at < $1 AND (created_at, entry) <
            (COALESCE((SELECT created_at FROM audit WHERE created_at < $1
                ORDER BY created_at, entry LIMIT 1 OFFSET $2), $1),
             COALESCE((SELECT entry FROM audit WHERE created_at < $1
                ORDER BY created_at, entry LIMIT 1 OFFSET $2), 0))",
        params![before_micros, limit],
    )
}

fn read_entry(row: &dyn Row) -> Result<(i64, AuditEntry)> {
    let entry = AuditEntry {
        at: row.time(1)?,
        account: row.opt_id(2)?,
        actor: row.text(3)?.to_owned(),
        action: row.text(4)?.to_owned(),
        subject: row.text(5)?.to_owned(),
        detail: row.text(6)?.to_owned(),
        trace: row.opt_id(7)?,
    };
    Ok((row.int(0)?, entry))
}
