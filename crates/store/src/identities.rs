//! Users of identity providers, and the accounts that they sign in to.

use domain::id::{AccountId, UserId};
use domain::time::Timestamp;

use crate::sql::{Result, RowExt, Sql, SqlExt, params};

/// A user of an identity provider, to be bound to a user of the service.
#[derive(Debug, Clone)]
pub struct NewIdentity {
    /// The provider, at most 4096 bytes.
    pub issuer: String,
    /// The provider's identifier of the user, at most 255 bytes.
    pub subject: String,
    pub account: AccountId,
    pub user: UserId,
    pub now: Timestamp,
}

/// Returns the account of the provider's user; `None` if nobody is bound to it.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn find_identity_account(tx: &mut dyn Sql, issuer: &str, subject: &str) -> Result<Option<AccountId>> {
    tx.query_one(
        "SELECT account_id FROM identities WHERE issuer = $1 AND subject = $2",
        params![issuer, subject],
        |row| row.get_id(0),
    )
}

/// Binds the provider's user to a user of the service. Returns `false` if either of them is bound to another already.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn bind_identity(tx: &mut dyn Sql, new: &NewIdentity) -> Result<bool> {
    let bound = tx.execute(
        "INSERT INTO identities (issuer, subject, user_id, account_id, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING",
        params![&new.issuer, &new.subject, new.user, new.account, new.now],
    )?;
    Ok(bound > 0)
}

/// Returns `true` if the account's user is bound to a user of the provider.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn is_bound(tx: &mut dyn Sql, account: AccountId, issuer: &str) -> Result<bool> {
    let bound = tx.query_one(
        "SELECT 1 FROM identities WHERE account_id = $1 AND issuer = $2",
        params![account, issuer],
        |_| Ok(()),
    )?;
    Ok(bound.is_some())
}

/// Removes the bindings of an account.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn remove_identities(tx: &mut dyn Sql, account: AccountId) -> Result<()> {
    tx.execute("DELETE FROM identities WHERE account_id = $1", params![account])?;
    Ok(())
}
