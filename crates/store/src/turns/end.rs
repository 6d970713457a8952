//! Completion of an answer.

use domain::answer::{Answer, AnswerEnding};
use domain::credits::{Credits, PostingKind};
use domain::id::PostingId;
use domain::time::Timestamp;

use super::{Fence, TurnError, lock_account, read_open_answer};
use crate::codec;
use crate::credits::post_credits;
use crate::error::StoreError;
use crate::jobs;
use crate::sql::{Result, Sql, params, stored_int};

/// The longest stored text of an answer, in bytes; the rest is truncated.
const TEXT_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The largest stored encoding of an answer's parts, in bytes; parts that do not fit are dropped.
const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The longest stored error message, in bytes; the rest is truncated.
const ERROR_MAX_BYTES: usize = 64 * 1024;

/// The final state of an answer.
#[derive(Debug, Clone)]
pub struct AnswerCompletion {
    /// The answer with its parts, sources and ending.
    pub answer: Answer,
    pub text: String,
    /// The posting that releases the remaining reserved credits.
    pub release: PostingId,
    pub now: Timestamp,
}

/// Completes an answer, once: releases its reserved credits, stores it and removes it from dispatch.
///
/// # Errors
/// [`TurnError::Fenced`], also if the answer is already completed.
pub fn complete_answer(
    tx: &mut dyn Sql,
    fence: Fence,
    completion: &AnswerCompletion,
) -> Result<(), TurnError> {
    let AnswerCompletion { answer, text, release, now } = completion;
    let (ending, code, message) = match &answer.ending {
        Some(AnswerEnding::Done) => ("done", None, None),
        Some(AnswerEnding::Stopped) => ("stopped", None, None),
        Some(AnswerEnding::Failed(error)) => {
            ("failed", Some(error.code.as_str()), Some(truncate_text(&error.message, ERROR_MAX_BYTES)))
        }
        None => return Err(StoreError::Rule("a completed answer has no ending").into()),
    };
    lock_account(tx, fence)?;
    let open = read_open_answer(tx, fence)?;
    if open.outstanding > Credits(0) {
        let posting = open.new_posting(fence, *release, PostingKind::Release, open.outstanding, *now);
        post_credits(tx, &posting)?
            .map_err(|_| StoreError::Rule("the balance does not hold the reserved credits"))?;
    }
    tx.send_statement(
        "UPDATE conversations SET modified_at = $2 WHERE id = $1",
        params![open.conversation, *now],
    )?;
    let ended = tx.execute(
        "UPDATE answers SET completed_at = $4, ending = $5, error_code = $6, error_message = $7, text = $8,
            body = $9, outstanding = 0
         WHERE id = $1 AND epoch = $2 AND completed_at IS NULL AND outstanding = $3",
        params![
            fence.answer,
            stored_int(fence.epoch)?,
            stored_int(open.outstanding.0)?,
            *now,
            ending,
            code,
            message.as_ref(),
            &truncate_text(text, TEXT_MAX_BYTES),
            &codec::write_answer(answer, BODY_MAX_BYTES)?,
        ],
    )?;
    if ended == 0 {
        return Err(TurnError::Fenced);
    }
    tx.send_statement("DELETE FROM delegations WHERE answer_id = $1", params![fence.answer])?;
    tx.send_statement("DELETE FROM dispatch WHERE answer_id = $1", params![fence.answer])?;
    Ok(jobs::enqueue_removal(tx, open.conversation, *now)?)
}

/// Replaces NUL, which models may produce and engines reject, and truncates the text to `max_bytes`, because
/// completing an answer must never fail.
fn truncate_text(text: &str, max_bytes: usize) -> String {
    let prefix = &text[..text.floor_char_boundary(max_bytes)];
    prefix.replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_can_be_stored() {
        assert_eq!(truncate_text("a\0b", 10), "a b");
        assert_eq!(truncate_text("áá", 3), "á");
    }
}
