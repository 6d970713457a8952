//! The audit log: operators' actions and rejected keys. Old entries are removed in the background.

use domain::id::{AccountId, TraceId};
use domain::time::Timestamp;

use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params};

/// The largest page of [`list_audit_entries`].
pub const AUDIT_PAGE_MAX: u32 = 1000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    /// The account concerned, if any.
    pub account: Option<AccountId>,
    /// The person or program that acted, at most 1024 bytes.
    pub actor: String,
    /// The name of a [`domain::audit::AuditAction`]; other releases may have written other ones. At most 256 bytes.
    pub action: String,
    /// The object of the action, at most 4096 bytes.
    pub subject: String,
    /// Further details without secrets, at most 64 KiB.
    pub detail: String,
    /// The trace of the request.
    pub trace: Option<TraceId>,
}

/// Adds an entry.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn append_audit_entry(tx: &mut dyn Sql, entry: &AuditEntry) -> Result<()> {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Only entries of this account.
    pub account: Option<AccountId>,
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// Only entries before this number: the last number of the previous page.
    pub before: Option<i64>,
    /// The size of the page, at most [`AUDIT_PAGE_MAX`].
    pub limit: u32,
}

/// Returns entries with their numbers, newest first.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn list_audit_entries(tx: &mut dyn Sql, wanted: &AuditFilter) -> Result<Vec<(i64, AuditEntry)>> {
    let before = wanted.before.unwrap_or(i64::MAX);
    let since = wanted.since.map_or(i64::MIN, Timestamp::micros);
    let limit = wanted.limit.min(AUDIT_PAGE_MAX);
    match wanted.account {
        Some(account) => tx.query_all(
            "SELECT entry, created_at, account_id, actor, action, subject, detail, trace_id FROM audit
             WHERE account_id = $1 AND entry < $2 AND created_at >= $3 ORDER BY entry DESC LIMIT $4",
            params![account, before, since, limit],
            read_entry,
        ),
        None => tx.query_all(
            "SELECT entry, created_at, account_id, actor, action, subject, detail, trace_id FROM audit
             WHERE entry < $1 AND created_at >= $2 ORDER BY entry DESC LIMIT $3",
            params![before, since, limit],
            read_entry,
        ),
    }
}

/// Removes up to `limit` entries older than `before_micros` (Unix time in microseconds). Returns the number
/// removed.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn trim_audit_log(tx: &mut dyn Sql, before_micros: i64, limit: u32) -> Result<u64> {
    tx.execute(
        // A range of the index, up to the first entry that stays. For an explicit list of rows, PostgreSQL
        // would scan the table.
        "DELETE FROM audit WHERE created_at < $1 AND (created_at, entry) <
            (COALESCE((SELECT created_at FROM audit WHERE created_at < $1
                ORDER BY created_at, entry LIMIT 1 OFFSET $2), $1),
             COALESCE((SELECT entry FROM audit WHERE created_at < $1
                ORDER BY created_at, entry LIMIT 1 OFFSET $2), 0))",
        params![before_micros, limit],
    )
}

/// Erases a closed account from the entries numbered after `after`, at most `limit` of them: the emails that its users had,
/// and the names of its keys. Returns the number after which the next call continues, `None` at the end. Entries about
/// other accounts are changed only if they are older than the closing, because the emails may belong to new accounts since.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn erase_account_from_audit(
    tx: &mut dyn Sql,
    account: AccountId,
    after: i64,
    limit: u32,
) -> Result<Option<i64>> {
    let last = tx.query_one("SELECT COALESCE(MAX(entry), 0) FROM audit", params![], |row| row.get_int(0))?;
    let (last, until) = (last.unwrap_or(0), after.saturating_add(i64::from(limit)));
    let erased = format!("deleted:{account}");
    // Entries with former emails come last, because the others need them.
    tx.execute(
        "UPDATE audit SET
            actor = CASE WHEN actor IN (SELECT email FROM users WHERE account_id = $1 UNION SELECT subject FROM audit
                WHERE account_id = $1 AND action IN ('create account', 'change email')) THEN $4 ELSE actor END,
            subject = CASE WHEN subject IN (SELECT email FROM users WHERE account_id = $1 UNION SELECT subject FROM audit
                WHERE account_id = $1 AND action IN ('create account', 'change email')) THEN $4 ELSE subject END,
            detail = CASE WHEN account_id = $1 AND action = 'create key' THEN '' ELSE detail END
         WHERE entry > $2 AND entry <= $3
            AND (account_id = $1 OR created_at < (SELECT closed_at FROM accounts WHERE id = $1))
            AND (account_id IS NULL OR account_id <> $1 OR action NOT IN ('create account', 'change email'))",
        params![account, after, until, &erased],
    )?;
    if until < last {
        return Ok(Some(until));
    }
    tx.execute(
        "UPDATE audit SET actor = CASE WHEN actor IN (SELECT email FROM users WHERE account_id = $1)
                OR action = 'change email' THEN $2 ELSE actor END, subject = $2
         WHERE account_id = $1 AND action IN ('create account', 'change email')",
        params![account, &erased],
    )?;
    Ok(None)
}

fn read_entry(row: &dyn SqlRow) -> Result<(i64, AuditEntry)> {
    let entry = AuditEntry {
        at: row.get_time(1)?,
        account: row.opt_id(2)?,
        actor: row.get_text(3)?.to_owned(),
        action: row.get_text(4)?.to_owned(),
        subject: row.get_text(5)?.to_owned(),
        detail: row.get_text(6)?.to_owned(),
        trace: row.opt_id(7)?,
    };
    Ok((row.get_int(0)?, entry))
}
