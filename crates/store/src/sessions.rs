//! Sessions of the web application. Only the fingerprints of their secrets are stored.

use domain::id::{AccountId, SessionId, UserId};
use domain::time::Timestamp;

use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params};

/// The maximum number of sessions of one user at a time. A further one ends the oldest.
pub const SESSIONS_MAX: u32 = 20;
/// The maximum number of expired sessions that one new session removes.
const SWEPT_MAX: u32 = 100;

/// A session to be created.
#[derive(Debug, Clone)]
pub struct NewSession {
    pub id: SessionId,
    pub account: AccountId,
    pub user: UserId,
    /// The SHA-256 of its secret.
    pub fingerprint: [u8; 32],
    /// The browser that opened it, for its user; empty if it is not known.
    pub browser: String,
    pub expires_at: Timestamp,
    pub now: Timestamp,
}

/// A session that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    pub id: SessionId,
    pub account: AccountId,
    pub user: UserId,
    /// The browser that opened it; empty if it is not known.
    pub browser: String,
    pub created_at: Timestamp,
    /// The last recorded use.
    pub used_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Creates a session. Removes expired sessions, and the user's oldest ones beyond [`SESSIONS_MAX`].
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn create_session(tx: &mut dyn Sql, new: &NewSession) -> Result<()> {
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![new.account])?;
    tx.execute(
        "DELETE FROM sessions WHERE id IN
            (SELECT id FROM sessions WHERE expires_at <= $1 ORDER BY expires_at, id LIMIT $2)",
        params![new.now, SWEPT_MAX],
    )?;
    tx.execute(
        "DELETE FROM sessions WHERE user_id = $1 AND id NOT IN
            (SELECT id FROM sessions WHERE user_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2)",
        params![new.user, SESSIONS_MAX - 1],
    )?;
    tx.execute(
        "INSERT INTO sessions (id, user_id, account_id, fingerprint, browser, created_at, used_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, $6, $7)",
        params![new.id, new.user, new.account, &new.fingerprint, &new.browser, new.now, new.expires_at],
    )?;
    Ok(())
}

/// Returns the session with this fingerprint; `None` if it does not exist or has expired.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn resolve_session(
    tx: &mut dyn Sql,
    fingerprint: [u8; 32],
    now: Timestamp,
) -> Result<Option<StoredSession>> {
    tx.query_one(
        "SELECT id, account_id, user_id, browser, created_at, used_at, expires_at FROM sessions
         WHERE fingerprint = $1 AND expires_at > $2",
        params![&fingerprint, now],
        read_session,
    )
}

/// Returns the open sessions of a user, the last used one first: at most [`SESSIONS_MAX`].
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn list_sessions(tx: &mut dyn Sql, user: UserId, now: Timestamp) -> Result<Vec<StoredSession>> {
    tx.query_all(
        "SELECT id, account_id, user_id, browser, created_at, used_at, expires_at FROM sessions
         WHERE user_id = $1 AND expires_at > $2 ORDER BY used_at DESC, id LIMIT $3",
        params![user, now, SESSIONS_MAX],
        read_session,
    )
}

/// Returns `true` if the session exists and has not expired.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn is_open(tx: &mut dyn Sql, session: SessionId, now: Timestamp) -> Result<bool> {
    let open = "SELECT 1 FROM sessions WHERE id = $1 AND expires_at > $2";
    Ok(tx.query_one(open, params![session, now], |_| Ok(()))?.is_some())
}

/// Records a use of a session and moves its end. A use earlier than the recorded one changes nothing.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn record_use(
    tx: &mut dyn Sql,
    session: SessionId,
    used_at: Timestamp,
    expires_at: Timestamp,
) -> Result<()> {
    tx.execute(
        "UPDATE sessions SET used_at = $2, expires_at = $3 WHERE id = $1 AND used_at < $2",
        params![session, used_at, expires_at],
    )?;
    Ok(())
}

/// Ends a session of the account. Returns false if it does not exist.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn end_session(tx: &mut dyn Sql, account: AccountId, session: SessionId) -> Result<bool> {
    let ended =
        tx.execute("DELETE FROM sessions WHERE id = $1 AND account_id = $2", params![session, account])?;
    Ok(ended > 0)
}

/// Ends all sessions of the user.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn end_all(tx: &mut dyn Sql, user: UserId) -> Result<()> {
    tx.execute("DELETE FROM sessions WHERE user_id = $1", params![user])?;
    Ok(())
}

/// Reads a session from the columns that [`resolve_session`] and [`list_sessions`] name.
fn read_session(row: &dyn SqlRow) -> Result<StoredSession> {
    Ok(StoredSession {
        id: row.get_id(0)?,
        account: row.get_id(1)?,
        user: row.get_id(2)?,
        browser: row.get_text(3)?.to_owned(),
        created_at: row.get_time(4)?,
        used_at: row.get_time(5)?,
        expires_at: row.get_time(6)?,
    })
}
