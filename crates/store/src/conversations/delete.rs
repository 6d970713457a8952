//! Deletion: hides a conversation at once. A job removes its rows in chunks once the answer in progress has
//! completed.

use domain::id::{AccountId, ConversationId, MessageId};
use domain::time::Timestamp;

use super::ConversationError;
use crate::error::StoreError;
use crate::jobs;
use crate::sql::{Result, RowExt, Sql, SqlExt, params, stored_int};

/// The result of [`delete_conversation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedConversation {
    /// The answer in progress. It is asked to stop, and is paid for like any other.
    pub open_answer: Option<MessageId>,
}

/// Hides a conversation and requests a stop of its answer in progress. The holder of the answer's lease still
/// completes it. A job then [removes](remove_conversation_rows) the rows. The ledger stays.
///
/// # Errors
/// [`ConversationError::NotFound`].
pub fn delete_conversation(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    now: Timestamp,
) -> Result<DeletedConversation, ConversationError> {
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![account])?;
    let found = tx.execute(
        "UPDATE conversations SET deleted_at = $3 WHERE id = $1 AND account_id = $2 AND deleted_at IS NULL",
        params![conversation, account, now],
    )?;
    if found == 0 {
        return Err(ConversationError::NotFound);
    }
    tx.send_statement(
        "UPDATE accounts SET conversations = conversations - 1 WHERE id = $1",
        params![account],
    )?;
    let open_answer = tx.query_one(
        "UPDATE dispatch SET stop_requested = 1 WHERE answer_id =
            (SELECT a.id FROM answers a WHERE a.conversation_id = $1 AND a.completed_at IS NULL)
         RETURNING answer_id",
        params![conversation],
        |row| row.get_id(0),
    )?;
    if open_answer.is_none() {
        // With an open answer, its completion enqueues the job.
        jobs::enqueue_removal(tx, conversation, now)?;
    }
    Ok(DeletedConversation { open_answer })
}

/// Removes up to `limit` rows of a deleted conversation, unreferenced rows first. Returns the number removed;
/// fewer than `limit` means that nothing is left.
///
/// # Errors
/// [`StoreError::Rule`] if the conversation is not deleted, or an answer in it is still in progress.
pub fn remove_conversation_rows(tx: &mut dyn Sql, conversation: ConversationId, limit: u32) -> Result<u64> {
    let in_use = tx.query_one(
        "SELECT c.id FROM conversations c WHERE c.id = $1 AND (c.deleted_at IS NULL OR EXISTS
            (SELECT 1 FROM answers a WHERE a.conversation_id = c.id AND a.completed_at IS NULL))",
        params![conversation],
        |_| Ok(()),
    )?;
    if in_use.is_some() {
        return Err(StoreError::Rule("the conversation is not deleted yet or is still being answered"));
    }
    let limit = u64::from(limit);
    let mut removed = 0;
    for sql in [
        "DELETE FROM search_words WHERE conversation_id = $1 AND word IN
            (SELECT word FROM search_words WHERE conversation_id = $1 LIMIT $2)",
        "DELETE FROM client_exchanges WHERE answer_id IN
            (SELECT answer_id FROM client_exchanges WHERE conversation_id = $1 LIMIT $2)",
        "DELETE FROM delegations WHERE (answer_id, call_id) IN
            (SELECT d.answer_id, d.call_id FROM delegations d JOIN answers a ON a.id = d.answer_id
             WHERE a.conversation_id = $1 LIMIT $2)",
        "DELETE FROM awaited_calls WHERE (answer_id, call_id) IN
            (SELECT w.answer_id, w.call_id FROM awaited_calls w JOIN answers a ON a.id = w.answer_id
             WHERE a.conversation_id = $1 LIMIT $2)",
        "DELETE FROM log WHERE (answer_id, entry) IN
            (SELECT l.answer_id, l.entry FROM log l JOIN answers a ON a.id = l.answer_id
             WHERE a.conversation_id = $1 LIMIT $2)",
        "DELETE FROM questions WHERE conversation_id = $1 AND ordinal IN
            (SELECT ordinal FROM questions WHERE conversation_id = $1 LIMIT $2)",
        "DELETE FROM answers WHERE id IN (SELECT id FROM answers WHERE conversation_id = $1 LIMIT $2)",
        "DELETE FROM conversations WHERE id IN (SELECT id FROM conversations WHERE id = $1 LIMIT $2)",
    ] {
        removed += tx.execute(sql, params![conversation, stored_int(limit - removed)?])?;
        if removed >= limit {
            break;
        }
    }
    Ok(removed)
}
