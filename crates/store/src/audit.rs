//! The audit log: who did what to what. Rows are only ever added.

use domain::id::{AccountId, TraceId};
use domain::time::Timestamp;

use crate::sql::{Result, Row, RowExt, Sql, SqlExt, int, params};

/// The most entries that one call lists.
pub const AUDIT_PAGE_MAX: u32 = 1000;

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
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
pub fn append(tx: &mut dyn Sql, entry: &Entry) -> Result<()> {
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

/// What was done to an account, newest first: `limit` entries (at most [`AUDIT_PAGE_MAX`]) from `offset` on.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn list(tx: &mut dyn Sql, account: AccountId, offset: u64, limit: u32) -> Result<Vec<Entry>> {
    tx.all(
        "SELECT created_at, account_id, actor, action, subject, detail, trace_id FROM audit
         WHERE account_id = $1 ORDER BY entry DESC LIMIT $2 OFFSET $3",
        params![account, limit.min(AUDIT_PAGE_MAX), int(offset)?],
        read_entry,
    )
}

fn read_entry(row: &dyn Row) -> Result<Entry> {
    Ok(Entry {
        at: row.time(0)?,
        account: row.opt_id(1)?,
        actor: row.text(2)?.to_owned(),
        action: row.text(3)?.to_owned(),
        subject: row.text(4)?.to_owned(),
        detail: row.text(5)?.to_owned(),
        trace: row.opt_id(6)?,
    })
}
