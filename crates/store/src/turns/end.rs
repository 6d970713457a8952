//! The end of an answer.

use domain::answer::{Answer, Ending};
use domain::credits::{Credits, PostingKind};
use domain::id::PostingId;
use domain::time::Timestamp;

use super::{Fence, TurnError, lock_account, open};
use crate::codec;
use crate::credits::post;
use crate::error::StoreError;
use crate::jobs;
use crate::sql::{Result, Sql, int, params};

/// The longest text of an answer that is stored; what is beyond is cut off.
const TEXT_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The largest form of an answer's parts that is stored; parts that no longer fit are left out.
const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;
/// The longest message of an error that is stored; what is beyond is cut off.
const ERROR_MAX_BYTES: usize = 64 * 1024;

/// How an answer ends.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The answer with its parts, sources and ending, as it will be read from now on.
    pub answer: Answer,
    /// Its text.
    pub text: String,
    /// The posting that gives back what is still held.
    pub release: PostingId,
    /// The present.
    pub now: Timestamp,
}

/// Ends an answer, once: gives back what is held, stores it whole, and nobody works on it any more.
///
/// # Errors
/// [`TurnError::Fenced`], also when it is completed already.
pub fn complete(tx: &mut dyn Sql, fence: Fence, completion: &Completion) -> Result<(), TurnError> {
    let Completion { answer, text, release, now } = completion;
    let (ending, code, message) = match &answer.ending {
        Some(Ending::Done) => ("done", None, None),
        Some(Ending::Stopped) => ("stopped", None, None),
        Some(Ending::Failed(error)) => {
            ("failed", Some(error.code.as_str()), Some(storable(&error.message, ERROR_MAX_BYTES)))
        }
        None => return Err(StoreError::Rule("a completed answer has an ending").into()),
    };
    lock_account(tx, fence)?;
    let open = open(tx, fence)?;
    if open.outstanding > Credits(0) {
        let posting = open.posting(fence, *release, PostingKind::Release, open.outstanding, *now);
        post(tx, &posting)?.map_err(|_| StoreError::Rule("the purse covers what is held"))?;
    }
    tx.send("UPDATE conversations SET modified_at = $2 WHERE id = $1", params![open.conversation, *now])?;
    let ended = tx.execute(
        "UPDATE answers SET completed_at = $4, ending = $5, error_code = $6, error_message = $7, text = $8,
            body = $9, outstanding = 0
         WHERE id = $1 AND epoch = $2 AND completed_at IS NULL AND outstanding = $3",
        params![
            fence.answer,
            int(fence.epoch)?,
            int(open.outstanding.0)?,
            *now,
            ending,
            code,
            message.as_ref(),
            &storable(text, TEXT_MAX_BYTES),
            &codec::write_answer(answer, BODY_MAX_BYTES)?,
        ],
    )?;
    if ended == 0 {
        return Err(TurnError::Fenced);
    }
    tx.send("DELETE FROM delegations WHERE answer_id = $1", params![fence.answer])?;
    tx.send("DELETE FROM dispatch WHERE answer_id = $1", params![fence.answer])?;
    Ok(jobs::enqueue_removal(tx, open.conversation, *now)?)
}

/// The text without NUL, which models may write and engines refuse, and no longer than can be stored: an
/// answer must be able to end, whatever was written.
fn storable(text: &str, max_bytes: usize) -> String {
    let kept = &text[..text.floor_char_boundary(max_bytes)];
    kept.replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_can_be_stored() {
        assert_eq!(storable("a\0b", 10), "a b");
        assert_eq!(storable("áá", 3), "á");
    }
}
