//! Deletion: closes an account at once. A job then removes its data in chunks. The account's row and its postings stay,
//! without any personal data.

use domain::id::{AccountId, ConversationId, JobId, MessageId};
use domain::job::Job;
use domain::time::Timestamp;

use super::AccountError;
use crate::jobs::{self, NewJob};
use crate::sql::{Result, RowExt, Sql, SqlExt, params, stored_int};
use crate::{conversations, identities, machines};

/// The maximum number of conversations that one call of [`delete_conversations`] deletes.
const CONVERSATIONS_MAX: u32 = 100;

/// The progress of [`remove_account_rows`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountRemoval {
    Continues,
    /// Answers of the account are still in progress. They are stopped, and their holders complete them.
    Answering,
    /// Nothing is left but the account's own row.
    Done,
}

/// Closes an account: it cannot be found any more, its email is free, its keys are revoked, its sessions end, its
/// machine has no owner, and no question is accepted. Writes the job that removes the rest, and returns the answers in
/// progress, which are requested to stop and are paid for like any other.
///
/// # Errors
/// [`AccountError::NotFound`], also if it is closed already.
pub fn close_account(
    tx: &mut dyn Sql,
    account: AccountId,
    job: JobId,
    now: Timestamp,
) -> Result<Vec<MessageId>, AccountError> {
    let closed = tx.execute(
        "UPDATE accounts SET closed_at = $2, licence_until = NULL WHERE id = $1 AND closed_at IS NULL",
        params![account, now],
    )?;
    if closed == 0 {
        return Err(AccountError::NotFound);
    }
    // The email itself stays until the job has erased it from the audit log.
    tx.execute(
        "UPDATE users SET email_key = 'deleted:' || id, password_hash = NULL WHERE account_id = $1",
        params![account],
    )?;
    tx.execute(
        "UPDATE keys SET revoked_at = $2 WHERE account_id = $1 AND revoked_at IS NULL",
        params![account, now],
    )?;
    end_sessions(tx, account)?;
    machines::remove_machine(tx, account)?;
    identities::remove_identities(tx, account)?;
    let mut answers = Vec::new();
    // Conditions with an index each; their disjunction has none.
    for sql in [
        "UPDATE dispatch SET stop_requested = 1
         WHERE account_id = $1 AND lease_until IS NULL AND paused_until IS NULL RETURNING answer_id",
        "UPDATE dispatch SET stop_requested = 1
         WHERE account_id = $1 AND lease_until IS NULL AND paused_until IS NOT NULL RETURNING answer_id",
        "UPDATE dispatch SET stop_requested = 1 WHERE account_id = $1 AND lease_until IS NOT NULL
         RETURNING answer_id",
    ] {
        answers.extend(tx.query_all(sql, params![account], |row| row.get_id::<MessageId>(0))?);
    }
    let job = NewJob { id: job, job: Job::RemoveAccount(account), account: Some(account), run_at: now, now };
    jobs::enqueue_job(tx, &job)?;
    Ok(answers)
}

/// Returns `true` if the account was closed.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn is_closed(tx: &mut dyn Sql, account: AccountId) -> Result<bool> {
    let closed = tx.query_one(
        "SELECT 1 FROM accounts WHERE id = $1 AND closed_at IS NOT NULL",
        params![account],
        |_| Ok(()),
    )?;
    Ok(closed.is_some())
}

/// Deletes conversations of a closed account, at most a hundred, and returns their number. A separate job removes each
/// one after its answer in progress has completed.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn delete_conversations(tx: &mut dyn Sql, account: AccountId, now: Timestamp) -> Result<u64> {
    if !is_closed(tx, account)? {
        return Ok(0);
    }
    let found: Vec<ConversationId> = tx.query_all(
        "SELECT id FROM conversations WHERE account_id = $1 AND deleted_at IS NULL
         ORDER BY pinned, modified_at, id LIMIT $2",
        params![account, CONVERSATIONS_MAX],
        |row| row.get_id(0),
    )?;
    let mut deleted = 0;
    for conversation in found {
        match conversations::delete_conversation(tx, account, conversation, now) {
            Ok(_) => deleted += 1,
            Err(conversations::ConversationError::NotFound) => {}
            Err(conversations::ConversationError::Store(error)) => return Err(error),
        }
    }
    Ok(deleted)
}

/// Removes up to `limit` rows of a closed account, its keys and users last. [`delete_conversations`] must have deleted its
/// conversations, and [`erase_account_from_audit`](crate::audit::erase_account_from_audit) must have erased its emails.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn remove_account_rows(tx: &mut dyn Sql, account: AccountId, limit: u32) -> Result<AccountRemoval> {
    if !is_closed(tx, account)? {
        return Ok(AccountRemoval::Done);
    }
    // Completing an answer counts against the spending limit of its key.
    let answering = tx.query_one(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM dispatch
                WHERE account_id = $1 AND lease_until IS NULL AND paused_until IS NULL)
            OR EXISTS (SELECT 1 FROM dispatch WHERE account_id = $1 AND paused_until IS NOT NULL)
            OR EXISTS (SELECT 1 FROM dispatch WHERE account_id = $1 AND lease_until IS NOT NULL)
            OR EXISTS (SELECT 1 FROM embedding_requests WHERE account_id = $1)
            OR EXISTS (SELECT 1 FROM plain_steps WHERE account_id = $1)",
        params![account],
        |_| Ok(()),
    )?;
    if answering.is_some() {
        return Ok(AccountRemoval::Answering);
    }
    end_sessions(tx, account)?;
    let limit = u64::from(limit);
    let mut removed = 0;
    for sql in [
        "DELETE FROM skill_uses WHERE account_id = $1 AND skill IN
            (SELECT skill FROM skill_uses WHERE account_id = $1 LIMIT $2)",
        "DELETE FROM idempotency WHERE account_id = $1 AND name IN
            (SELECT name FROM idempotency WHERE account_id = $1 LIMIT $2)",
        "DELETE FROM embedding_costs WHERE account_id IN
            (SELECT account_id FROM embedding_costs WHERE account_id = $1 LIMIT $2)",
        "DELETE FROM keys WHERE id IN (SELECT id FROM keys WHERE account_id = $1 LIMIT $2)",
        "DELETE FROM users WHERE id IN (SELECT id FROM users WHERE account_id = $1 LIMIT $2)",
    ] {
        removed += tx.execute(sql, params![account, stored_int(limit - removed)?])?;
        if removed >= limit {
            return Ok(AccountRemoval::Continues);
        }
    }
    Ok(AccountRemoval::Done)
}

fn end_sessions(tx: &mut dyn Sql, account: AccountId) -> Result<()> {
    tx.execute(
        "DELETE FROM sessions WHERE user_id IN (SELECT id FROM users WHERE account_id = $1)",
        params![account],
    )?;
    Ok(())
}
