//! Accounts and the people in them. Only the operations of [`close`] find a closed account.

mod close;

use domain::account::{AccountRole, Licence};
use domain::credits::{Balance, Credits, PostingKind};
use domain::id::{AccountId, PostingId, UserId};
use domain::time::Timestamp;

use crate::credits::{Posting, post_credits};
use crate::error::StoreError;
use crate::machines;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params};

pub use close::{AccountRemoval, close_account, delete_conversations, is_closed, remove_account_rows};

/// The largest page of [`list_accounts`].
pub const ACCOUNTS_PAGE_MAX: u32 = 1000;

macro_rules! account_select {
    () => {
        "SELECT a.id, u.id, u.role, u.email, a.licence_until, a.created_at, a.conversations,
            (SELECT m.ordinal FROM machines m WHERE m.account_id = a.id)
         FROM accounts a JOIN users u ON u.account_id = a.id"
    };
}

/// An account to be created, with the user who owns it.
#[derive(Debug, Clone)]
pub struct NewAccount {
    pub account: AccountId,
    pub user: UserId,
    pub role: AccountRole,
    /// The user's email, at most 320 bytes, unique regardless of case.
    pub email: String,
    /// The end of the licence; `None` for no licence.
    pub licence_until: Option<Timestamp>,
    /// The first grant; zero grants nothing.
    pub grant: Credits,
    /// The posting of the grant.
    pub posting: PostingId,
    /// Creates a machine, too.
    pub machine: bool,
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAccount {
    pub id: AccountId,
    pub user: UserId,
    pub role: AccountRole,
    /// The user's email as it was entered.
    pub email: String,
    pub licence: Licence,
    pub created_at: Timestamp,
    /// The number of its conversations.
    pub conversations: u64,
    pub has_machine: bool,
}

/// The reasons why an operation on an account failed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("no such account")]
    NotFound,
    /// Another user has this email.
    #[error("the email is taken")]
    EmailTaken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Creates an account, its owner, its first grant and, if requested, its machine.
///
/// # Errors
/// [`AccountError::EmailTaken`].
pub fn create_account(tx: &mut dyn Sql, new: &NewAccount) -> Result<StoredAccount, AccountError> {
    tx.execute(
        "INSERT INTO accounts (id, created_at, licence_until, balance, reserved, conversations)
         VALUES ($1, $2, $3, 0, 0, 0)",
        params![new.account, new.now, new.licence_until],
    )?;
    let taken = tx
        .query_one(
            "INSERT INTO users (id, account_id, role, email, email_key, created_at) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (email_key) DO NOTHING RETURNING id",
            params![
                new.user,
                new.account,
                new.role.as_str(),
                &new.email,
                &email_key(&new.email),
                new.now
            ],
            |_| Ok(()),
        )?
        .is_none();
    if taken {
        return Err(AccountError::EmailTaken);
    }
    if new.grant > Credits(0) {
        let posting = Posting::new(new.posting, new.account, PostingKind::Grant, new.grant, new.now);
        post_credits(tx, &posting)?.map_err(|_| AccountError::NotFound)?;
    }
    if new.machine {
        machines::create_machine(tx, new.account, new.now)?;
    }
    find_account(tx, new.account)?.ok_or(AccountError::NotFound)
}

/// Returns the account, or `None` if it does not exist.
///
/// # Errors
/// [`StoreError`].
pub fn find_account(tx: &mut dyn Sql, account: AccountId) -> Result<Option<StoredAccount>> {
    tx.query_one(
        concat!(
            account_select!(),
            " WHERE a.id = $1 AND a.closed_at IS NULL ORDER BY u.created_at, u.id LIMIT 1"
        ),
        params![account],
        read_account,
    )
}

/// Returns the account of the user with this email, ignoring case.
///
/// # Errors
/// [`StoreError`].
pub fn by_email(tx: &mut dyn Sql, email: &str) -> Result<Option<StoredAccount>> {
    if email.contains('\0') {
        return Ok(None);
    }
    tx.query_one(
        concat!(account_select!(), " WHERE u.email_key = $1 AND a.closed_at IS NULL"),
        params![&email_key(email)],
        read_account,
    )
}

/// Returns up to `limit` accounts (at most [`ACCOUNTS_PAGE_MAX`]) with identifiers after `after`, by identifier, with
/// their credits.
///
/// # Errors
/// [`StoreError`].
pub fn list_accounts(
    tx: &mut dyn Sql,
    after: Option<AccountId>,
    limit: u32,
) -> Result<Vec<(StoredAccount, Balance)>> {
    tx.query_all(
        "SELECT a.id, u.id, u.role, u.email, a.licence_until, a.created_at, a.conversations,
            (SELECT m.ordinal FROM machines m WHERE m.account_id = a.id), a.balance, a.reserved
         FROM accounts a JOIN users u ON u.account_id = a.id WHERE a.id > $1 AND a.closed_at IS NULL
         ORDER BY a.id LIMIT $2",
        params![after.unwrap_or(AccountId::from_random(0)), limit.min(ACCOUNTS_PAGE_MAX)],
        |row| {
            let balance = Balance { available: row.get_credits(8)?, reserved: row.get_credits(9)? };
            Ok((read_account(row)?, balance))
        },
    )
}

/// Returns `true` if at least one account exists that is not closed.
///
/// # Errors
/// [`StoreError`].
pub fn any_open(tx: &mut dyn Sql) -> Result<bool> {
    let open =
        tx.query_one("SELECT 1 FROM accounts WHERE closed_at IS NULL LIMIT 1", params![], |_| Ok(()))?;
    Ok(open.is_some())
}

/// Returns `true` if at least one operator exists whose account is not closed.
///
/// # Errors
/// [`StoreError`].
pub fn any_operator(tx: &mut dyn Sql) -> Result<bool> {
    let found = tx.query_one(
        "SELECT 1 FROM users u JOIN accounts a ON a.id = u.account_id
         WHERE u.role = $1 AND a.closed_at IS NULL LIMIT 1",
        params![AccountRole::Operator.as_str()],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// Returns `true` if at least one account exists, or existed and was closed.
///
/// # Errors
/// [`StoreError`].
pub fn has_any_account(tx: &mut dyn Sql) -> Result<bool> {
    Ok(tx.query_one("SELECT 1 FROM accounts LIMIT 1", params![], |_| Ok(()))?.is_some())
}

/// Sets the end of the licence; `None` ends it.
///
/// # Errors
/// [`AccountError::NotFound`].
pub fn set_licence(
    tx: &mut dyn Sql,
    account: AccountId,
    until: Option<Timestamp>,
) -> Result<(), AccountError> {
    let changed = tx.execute(
        "UPDATE accounts SET licence_until = $2 WHERE id = $1 AND closed_at IS NULL",
        params![account, until],
    )?;
    if changed == 0 { Err(AccountError::NotFound) } else { Ok(()) }
}

/// Replaces the role of a user. Does nothing if the user does not exist.
///
/// # Errors
/// [`StoreError`].
pub fn set_role(tx: &mut dyn Sql, user: UserId, role: AccountRole) -> Result<()> {
    tx.execute("UPDATE users SET role = $2 WHERE id = $1", params![user, role.as_str()])?;
    Ok(())
}

/// Replaces the hash of the user's password; at most 512 bytes.
///
/// # Errors
/// [`AccountError::NotFound`].
pub fn set_password(tx: &mut dyn Sql, user: UserId, hash: &str) -> Result<(), AccountError> {
    let changed = tx.execute("UPDATE users SET password_hash = $2 WHERE id = $1", params![user, hash])?;
    if changed == 0 { Err(AccountError::NotFound) } else { Ok(()) }
}

/// The person who confirmed that an email belongs to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmailSource {
    /// The user, without proof.
    Owner,
    Operator,
}

/// Replaces the user's email; at most 320 bytes.
///
/// # Errors
/// [`AccountError::EmailTaken`].
pub fn set_email(
    tx: &mut dyn Sql,
    user: UserId,
    email: &str,
    source: EmailSource,
) -> Result<(), AccountError> {
    let changed = tx.execute(
        "UPDATE users SET email = $2, email_key = $3, email_chosen = $4 WHERE id = $1
            AND NOT EXISTS (SELECT 1 FROM users WHERE email_key = $3 AND id <> $1)",
        params![user, email, &email_key(email), source == EmailSource::Owner],
    )?;
    if changed == 0 { Err(AccountError::EmailTaken) } else { Ok(()) }
}

/// Returns true if the user chose the email and no operator has set it since.
///
/// # Errors
/// [`StoreError`].
pub fn is_email_chosen(tx: &mut dyn Sql, user: UserId) -> Result<bool> {
    let chosen =
        tx.query_one("SELECT email_chosen FROM users WHERE id = $1", params![user], |row| row.get_flag(0))?;
    Ok(chosen.unwrap_or(false))
}

/// Returns the hash of the user's password; `None` if the user does not exist or has no password.
///
/// # Errors
/// [`StoreError`].
pub fn find_password_hash(tx: &mut dyn Sql, user: UserId) -> Result<Option<String>> {
    let found = tx.query_one("SELECT password_hash FROM users WHERE id = $1", params![user], |row| {
        Ok(row.opt_text(0)?.map(ToOwned::to_owned))
    });
    Ok(found?.flatten())
}

/// Returns true if the user's stored password hash is still this one, and keeps it so until the transaction ends.
///
/// # Errors
/// [`StoreError`].
pub fn keeps_password(tx: &mut dyn Sql, user: UserId, hash: &str) -> Result<bool> {
    // Locks the row in PostgreSQL.
    let kept = tx.execute(
        "UPDATE users SET password_hash = password_hash WHERE id = $1 AND password_hash = $2",
        params![user, hash],
    )?;
    Ok(kept > 0)
}

fn read_account(row: &dyn SqlRow) -> Result<StoredAccount> {
    let role = row.get_text(2)?;
    Ok(StoredAccount {
        id: row.get_id(0)?,
        user: row.get_id(1)?,
        role: AccountRole::parse(role).ok_or_else(|| StoreError::damaged_row("role", role, "is unknown"))?,
        email: row.get_text(3)?.to_owned(),
        licence: Licence { until: row.opt_time(4)? },
        created_at: row.get_time(5)?,
        conversations: row.get_count(6)?,
        has_machine: row.opt_int(7)?.is_some(),
    })
}

fn email_key(email: &str) -> String {
    email.trim().to_lowercase()
}
