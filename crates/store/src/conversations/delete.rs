//! Deleting: what the user sees goes at once, the rows in chunks later.

use domain::credits::PostingKind;
use domain::id::{AccountId, ConversationId, KeyId, MessageId, PostingId};
use domain::time::Timestamp;

use super::ConversationError;
use crate::credits::{Posting, post};
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, int, params};

/// What was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// The answer that was in progress. Nothing more can be written to it.
    pub open_answer: Option<MessageId>,
}

/// Deletes a conversation: it is not found any more, its answer in progress ends, and what was held for that
/// is given back with the posting `release`. The ledger stays. [`sweep_deleted`] removes the rows.
///
/// # Errors
/// [`ConversationError::NotFound`].
pub fn delete(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    release: PostingId,
    now: Timestamp,
) -> Result<Deleted, ConversationError> {
    tx.lock("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![account])?;
    let open = tx
        .one(
            "SELECT a.id, a.outstanding, k.id FROM conversations c
             LEFT JOIN answers a ON a.conversation_id = c.id AND a.completed_at IS NULL
             LEFT JOIN questions q ON q.conversation_id = c.id AND q.ordinal = a.ordinal
             LEFT JOIN keys k ON k.id = q.key_id AND k.spending_limit IS NOT NULL
             WHERE c.id = $1 AND c.account_id = $2 AND c.deleted_at IS NULL",
            params![conversation, account],
            |row| match row.opt_id::<MessageId>(0)? {
                Some(answer) => Ok(Some((answer, row.credits(1)?, row.opt_id::<KeyId>(2)?))),
                None => Ok(None),
            },
        )?
        .ok_or(ConversationError::NotFound)?;
    tx.send("UPDATE accounts SET conversations = conversations - 1 WHERE id = $1", params![account])?;
    if let Some((answer, outstanding, limited_key)) = open
        && outstanding.0 > 0
    {
        let mut posting = Posting::new(release, account, PostingKind::Release, outstanding, now);
        posting.conversation = Some(conversation);
        posting.answer = Some(answer);
        posting.key = limited_key;
        posting.limited = limited_key.is_some();
        post(tx, &posting)?.map_err(|_| StoreError::Rule("what is held covers what is given back"))?;
    }
    let found = tx.execute(
        "UPDATE conversations SET deleted_at = $3 WHERE id = $1 AND account_id = $2 AND deleted_at IS NULL",
        params![conversation, account, now],
    )?;
    if found == 0 {
        return Err(ConversationError::NotFound);
    }
    if let Some((answer, outstanding, _)) = open {
        let ended = tx.execute(
            "UPDATE answers SET completed_at = $2, ending = 'deleted', outstanding = 0
             WHERE id = $1 AND completed_at IS NULL AND outstanding = $3",
            params![answer, now, int(outstanding.0)?],
        )?;
        if ended == 0 {
            return Err(StoreError::TransactionLost.into());
        }
        tx.send("DELETE FROM dispatch WHERE answer_id = $1", params![answer])?;
    }
    Ok(Deleted { open_answer: open.map(|(answer, ..)| answer) })
}

/// Removes up to `limit` rows of deleted conversations and says how many; none are left when that is 0.
///
/// # Errors
/// [`StoreError`].
pub fn sweep_deleted(tx: &mut dyn Sql, limit: u32) -> Result<u64> {
    let limit = u64::from(limit);
    let mut removed = 0;
    while removed < limit {
        let oldest = tx.one(
            "SELECT id FROM conversations WHERE deleted_at IS NOT NULL ORDER BY deleted_at, id LIMIT 1",
            params![],
            |row| row.id::<ConversationId>(0),
        )?;
        let Some(conversation) = oldest else { break };
        removed += sweep_one(tx, conversation, limit - removed)?;
    }
    Ok(removed)
}

/// Removes rows of one conversation, those first that nothing refers to.
fn sweep_one(tx: &mut dyn Sql, conversation: ConversationId, limit: u64) -> Result<u64> {
    let mut removed = 0;
    for sql in [
        "DELETE FROM delegations WHERE (answer_id, call_id) IN
            (SELECT d.answer_id, d.call_id FROM delegations d JOIN answers a ON a.id = d.answer_id
             WHERE a.conversation_id = $1 LIMIT $2)",
        "DELETE FROM log WHERE (answer_id, entry) IN
            (SELECT l.answer_id, l.entry FROM log l JOIN answers a ON a.id = l.answer_id
             WHERE a.conversation_id = $1 LIMIT $2)",
        "DELETE FROM questions WHERE conversation_id = $1 AND ordinal IN
            (SELECT ordinal FROM questions WHERE conversation_id = $1 LIMIT $2)",
        "DELETE FROM answers WHERE id IN (SELECT id FROM answers WHERE conversation_id = $1 LIMIT $2)",
        "DELETE FROM conversations WHERE id IN (SELECT id FROM conversations WHERE id = $1 LIMIT $2)",
    ] {
        removed += tx.execute(sql, params![conversation, int(limit - removed)?])?;
        if removed >= limit {
            break;
        }
    }
    Ok(removed)
}
