//! API keys (section 5 of the interface). Only their fingerprints are stored.

use domain::account::Licence;
use domain::credits::Credits;
use domain::id::{AccountId, KeyId, UserId};
use domain::key::KeyFingerprint;
use domain::scope::Scope;
use domain::time::Timestamp;

use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params, stored_int};

/// The maximum number of keys of one account at a time.
pub const KEYS_MAX: u32 = 1000;

/// A key to be created.
#[derive(Debug, Clone)]
pub struct NewKey {
    pub id: KeyId,
    pub account: AccountId,
    /// The user who creates it, if any.
    pub user: Option<UserId>,
    /// A name for its owner, 1 to 1024 bytes.
    pub name: String,
    pub fingerprint: KeyFingerprint,
    /// The key's own end, in the future; `None` ends it with the licence.
    pub expires_at: Option<Timestamp>,
    pub scope: Scope,
    /// The credits that its questions may cost in total over its lifetime. It cannot be changed later.
    pub spending_limit: Option<Credits>,
    pub now: Timestamp,
}

/// A key as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    pub id: KeyId,
    pub name: String,
    pub created_at: Timestamp,
    /// The expiry of the key: the end of the licence, or the key's own end if earlier; `None` without a licence.
    pub expires_at: Option<Timestamp>,
    /// The minute of its last use.
    pub last_used_at: Option<Timestamp>,
    pub scope: Scope,
    /// The spending limit and the credits spent so far, including reserved ones.
    pub spending: Option<Spending>,
}

/// The spending of a key that has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spending {
    /// The credits that its questions may cost in total.
    pub limit: Credits,
    /// The credits settled and currently reserved.
    pub spent: Credits,
}

/// The key and account that a fingerprint identifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedKey {
    pub key: KeyId,
    pub account: AccountId,
    /// The user who created it, on whose behalf it asks.
    pub user: Option<UserId>,
    /// The end of the account's licence.
    pub licence_until: Option<Timestamp>,
    pub revoked: bool,
    /// The key's own end, before that of the licence.
    pub expires_at: Option<Timestamp>,
    pub scope: Scope,
    pub has_machine: bool,
}

impl ResolvedKey {
    /// Returns `true` if the key works at `now`: it is not revoked, not expired, and the licence is active.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        let open = |until: Option<Timestamp>| until.is_some_and(|until| now < until);
        !self.revoked && open(self.licence_until) && (self.expires_at.is_none() || open(self.expires_at))
    }
}

/// The reasons why an operation on a key failed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("no such key or account")]
    NotFound,
    /// The account has no active licence.
    #[error("the account has no active licence")]
    NoLicence,
    /// The key's end is not in the future.
    #[error("key expiry is in the past: give a later time")]
    Ended,
    #[error("the account has too many keys: revoke one first")]
    TooMany,
    /// A key of this id was created before.
    #[error("this key was already created by an earlier request")]
    AlreadyCreated,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Creates a key.
///
/// # Errors
/// [`KeyError::NoLicence`], [`KeyError::TooMany`], [`KeyError::Ended`], [`KeyError::AlreadyCreated`] (even if the key was
/// revoked since), and [`KeyError::NotFound`] if the account does not exist.
pub fn create_key(tx: &mut dyn Sql, new: &NewKey) -> Result<(), KeyError> {
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![new.account])?;
    let (licence_until, keys, same) = tx
        .query_one(
            "SELECT a.licence_until,
                (SELECT count(*) FROM keys k WHERE k.account_id = a.id AND k.revoked_at IS NULL),
                (SELECT count(*) FROM keys k WHERE k.id = $2)
             FROM accounts a WHERE a.id = $1",
            params![new.account, new.id],
            |row| Ok((row.opt_time(0)?, row.get_int(1)?, row.get_int(2)?)),
        )?
        .ok_or(KeyError::NotFound)?;
    if same > 0 {
        return Err(KeyError::AlreadyCreated);
    }
    if !(Licence { until: licence_until }).is_active(new.now) {
        return Err(KeyError::NoLicence);
    }
    if new.expires_at.is_some_and(|end| end <= new.now) {
        return Err(KeyError::Ended);
    }
    if keys >= i64::from(KEYS_MAX) {
        return Err(KeyError::TooMany);
    }
    let scope = (new.scope != Scope::ALL).then(|| new.scope.to_string());
    tx.execute(
        "INSERT INTO keys (id, account_id, user_id, name, fingerprint, created_at, expires_at, scope, spending_limit)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        params![
            new.id,
            new.account,
            new.user,
            &new.name,
            &new.fingerprint.0,
            new.now,
            new.expires_at,
            scope.as_ref(),
            new.spending_limit.map(|limit| stored_int(limit.0)).transpose()?,
        ],
    )?;
    Ok(())
}

/// Returns the account's keys that are not revoked, oldest first.
///
/// # Errors
/// [`StoreError`].
pub fn list_keys(tx: &mut dyn Sql, account: AccountId) -> Result<Vec<StoredKey>> {
    tx.query_all(
        "SELECT k.id, k.name, k.created_at,
            CASE WHEN k.expires_at < a.licence_until THEN k.expires_at ELSE a.licence_until END,
            k.last_used_at, k.scope, k.spending_limit, k.spent
         FROM keys k JOIN accounts a ON a.id = k.account_id
         WHERE k.account_id = $1 AND k.revoked_at IS NULL ORDER BY k.created_at, k.id LIMIT $2",
        params![account, KEYS_MAX],
        |row| {
            Ok(StoredKey {
                id: row.get_id(0)?,
                name: row.get_text(1)?.to_owned(),
                created_at: row.get_time(2)?,
                expires_at: row.opt_time(3)?,
                last_used_at: row.opt_time(4)?,
                scope: read_scope(row, 5)?,
                spending: match row.opt_int(6)? {
                    Some(_) => Some(Spending { limit: row.get_credits(6)?, spent: row.get_credits(7)? }),
                    None => None,
                },
            })
        },
    )
}

/// Revokes a key permanently and returns its account. With `account`, only a key of that account; operators
/// pass `None`.
///
/// # Errors
/// [`KeyError::NotFound`], also if it was already revoked.
pub fn revoke_key(
    tx: &mut dyn Sql,
    account: Option<AccountId>,
    key: KeyId,
    now: Timestamp,
) -> Result<AccountId, KeyError> {
    tx.query_one(
        "UPDATE keys SET revoked_at = $2
         WHERE id = $1 AND revoked_at IS NULL AND account_id = COALESCE($3, account_id) RETURNING account_id",
        params![key, now, account],
        |row| row.get_id(0),
    )?
    .ok_or(KeyError::NotFound)
}

/// Returns the key of a fingerprint, or `None`.
///
/// # Errors
/// [`StoreError`].
pub fn resolve_key(tx: &mut dyn Sql, fingerprint: KeyFingerprint) -> Result<Option<ResolvedKey>> {
    tx.query_one(
        "SELECT k.id, k.account_id, k.user_id, a.licence_until, k.revoked_at, k.expires_at, k.scope,
            (SELECT m.ordinal FROM machines m WHERE m.account_id = a.id)
         FROM keys k JOIN accounts a ON a.id = k.account_id WHERE k.fingerprint = $1",
        params![&fingerprint.0],
        read_resolved,
    )
}

/// Records the use of a key in `minute`. A minute earlier than the stored one changes nothing.
///
/// # Errors
/// [`StoreError`].
pub fn record_key_use(tx: &mut dyn Sql, key: KeyId, minute: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE keys SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)",
        params![key, minute],
    )?;
    Ok(())
}

/// Reads the scope; NULL means all permissions.
fn read_scope(row: &dyn SqlRow, column: usize) -> Result<Scope> {
    let text = row.opt_text(column)?;
    let read = |text: &str| Scope::parse(text).map_err(|error| StoreError::damaged_row("scope", text, error));
    text.map_or(Ok(Scope::ALL), read)
}

fn read_resolved(row: &dyn SqlRow) -> Result<ResolvedKey> {
    Ok(ResolvedKey {
        key: row.get_id(0)?,
        account: row.get_id(1)?,
        user: row.opt_id(2)?,
        licence_until: row.opt_time(3)?,
        revoked: row.opt_int(4)?.is_some(),
        expires_at: row.opt_time(5)?,
        scope: read_scope(row, 6)?,
        has_machine: row.opt_int(7)?.is_some(),
    })
}
