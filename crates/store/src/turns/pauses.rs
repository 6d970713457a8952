//! Pauses: answers that wait for replies from outside (see [`domain::pause`]).
//!
//! A reply is stored beside the log, in the transaction that also wakes dispatch once each call has one. Only the next
//! lease writes the results into the log, so that the log keeps its single writer.

use domain::id::{AccountId, ConversationId, InstanceId, MessageId};
use domain::pause::{CallReply, GivenReply, LastPause, PauseState, PendingCall};
use domain::step::{AwaitedCall, ReplyKind, Step};
use domain::time::Timestamp;

use super::{Fence, TurnError, read_open_answer};
use crate::codec;
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params, stored_int};

/// A pause to be stored.
#[derive(Debug, Clone)]
pub struct NewPause {
    /// The step of the calls.
    pub number: u32,
    pub calls: Vec<AwaitedCall>,
    /// The time until which they can have replies.
    pub deadline: Timestamp,
    pub now: Timestamp,
}

/// A reply to be stored.
#[derive(Debug, Clone)]
pub struct NewReply {
    pub account: AccountId,
    pub conversation: ConversationId,
    pub answer: MessageId,
    /// The identifier of the call.
    pub call: String,
    pub reply: CallReply,
    pub now: Timestamp,
}

/// The result of [`give_reply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// It was the last one: the answer goes on.
    Resumes,
    /// The answer waits for further replies.
    Waits,
    /// The same reply was given before.
    Repeated,
}

/// The reasons why a reply was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReplyRefused {
    /// The answer does not exist or has never waited for this call, or it belongs to another account.
    #[error("no such call")]
    NotFound,
    /// The call has another reply.
    #[error("the call has another reply already")]
    Different,
    /// The answer has ended, or is about to end.
    #[error("the answer does not wait for the call any more")]
    Closed,
    /// A call of this kind cannot have this reply.
    #[error("the reply does not fit the call")]
    Unfit(ReplyKind),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Pauses the answer: stores the calls that await replies and releases the lease, without counting the attempt. It is
/// claimed again once each call has a reply, once the deadline has passed, or for a stop.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn pause_answer(tx: &mut dyn Sql, fence: Fence, pause: &NewPause) -> Result<(), TurnError> {
    read_open_answer(tx, fence)?;
    // Locks the answer before its queue row, in the same order as its completion.
    tx.execute(
        "UPDATE answers SET attempts = 0 WHERE id = $1 AND epoch = $2 AND completed_at IS NULL",
        params![fence.answer, stored_int(fence.epoch)?],
    )?;
    for AwaitedCall { call, kind } in &pause.calls {
        tx.send_statement(
            "INSERT INTO awaited_calls (answer_id, call_id, kind, deadline) VALUES ($1, $2, $3, $4)",
            params![fence.answer, call, kind_word(*kind), pause.deadline],
        )?;
    }
    let paused = tx.execute(
        "UPDATE dispatch SET node_id = NULL, lease_until = NULL, paused_until = $4, paused_step = $5,
            named_instance = NULL
         WHERE answer_id = $1 AND node_id = $3 AND EXISTS (SELECT 1 FROM answers a WHERE a.id = $1 AND a.epoch = $2)",
        params![fence.answer, stored_int(fence.epoch)?, fence.node, pause.deadline, pause.number],
    )?;
    if paused == 0 { Err(TurnError::Fenced) } else { Ok(()) }
}

/// Names the machine instance that may run the remaining calls of the step that was paused last.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn name_instance(tx: &mut dyn Sql, fence: Fence, instance: InstanceId) -> Result<(), TurnError> {
    read_open_answer(tx, fence)?;
    let named = tx.execute(
        "UPDATE dispatch SET named_instance = $3 WHERE answer_id = $1 AND node_id = $2 AND paused_step IS NOT NULL",
        params![fence.answer, fence.node, instance],
    )?;
    if named == 0 { Err(TurnError::Fenced) } else { Ok(()) }
}

/// Stores the reply to a call of a paused answer. The first reply counts; an equal one changes nothing.
///
/// # Errors
/// [`ReplyRefused`].
pub fn give_reply(tx: &mut dyn Sql, new: &NewReply) -> Result<ReplyOutcome, ReplyRefused> {
    // Locks the answer before its queue row, and orders replies to its calls.
    tx.lock_rows("SELECT id FROM answers WHERE id = $1 FOR NO KEY UPDATE", params![new.answer])?;
    let found = tx.query_one(
        "SELECT w.kind, w.reply, w.deadline, a.completed_at FROM awaited_calls w
         JOIN answers a ON a.id = w.answer_id JOIN conversations c ON c.id = a.conversation_id
         WHERE w.answer_id = $1 AND w.call_id = $2 AND c.id = $3 AND c.account_id = $4 AND c.deleted_at IS NULL",
        params![new.answer, &new.call, new.conversation, new.account],
        |row| {
            let is_open = row.opt_int(3)?.is_none() && row.get_time(2)? > new.now;
            Ok((kind_of(row.get_text(0)?)?, row.opt_text(1)?.map(str::to_owned), is_open))
        },
    )?;
    let Some((kind, given, is_open)) = found else { return Err(ReplyRefused::NotFound) };
    if !new.reply.fits(kind) {
        return Err(ReplyRefused::Unfit(kind));
    }
    if let Some(given) = given {
        let given = codec::read_reply(&given, &new.call)?;
        return if given == new.reply { Ok(ReplyOutcome::Repeated) } else { Err(ReplyRefused::Different) };
    }
    let stops = tx.query_one(
        "SELECT 1 FROM dispatch WHERE answer_id = $1 AND (stop_requested = 1 OR paused_until IS NULL)",
        params![new.answer],
        |_| Ok(()),
    )?;
    if !is_open || stops.is_some() {
        return Err(ReplyRefused::Closed);
    }
    tx.send_statement(
        "UPDATE awaited_calls SET reply = $3, replied_at = $4 WHERE answer_id = $1 AND call_id = $2",
        params![new.answer, &new.call, &codec::write_reply(&new.reply)?, new.now],
    )?;
    let resumed = tx.execute(
        "UPDATE dispatch SET paused_until = NULL WHERE answer_id = $1
         AND NOT EXISTS (SELECT 1 FROM awaited_calls w WHERE w.answer_id = $1 AND w.reply IS NULL)",
        params![new.answer],
    )?;
    Ok(if resumed > 0 { ReplyOutcome::Resumes } else { ReplyOutcome::Waits })
}

/// Reads the pauses of an answer in progress.
pub(super) fn load_pauses(tx: &mut dyn Sql, answer: MessageId) -> Result<PauseState> {
    let last = tx.query_one(
        "SELECT paused_step, named_instance FROM dispatch WHERE answer_id = $1 AND paused_step IS NOT NULL",
        params![answer],
        |row| Ok(LastPause { step: row.get_u32(0)?, instance: row.opt_id(1)? }),
    )?;
    if last.is_none() {
        return Ok(PauseState::default());
    }
    let replies = tx.query_all(
        "SELECT call_id, reply FROM awaited_calls WHERE answer_id = $1 AND reply IS NOT NULL ORDER BY call_id",
        params![answer],
        |row| {
            let call = row.get_text(0)?.to_owned();
            Ok(GivenReply { reply: codec::read_reply(row.get_text(1)?, &call)?, call })
        },
    )?;
    Ok(PauseState { last, replies, expired: false })
}

/// Returns the calls for which an answer waits, in the order of its last step.
pub(crate) fn pending_calls(
    tx: &mut dyn Sql,
    answer: MessageId,
    step: Option<&Step>,
) -> Result<Vec<PendingCall>> {
    let Some(step) = step.filter(|step| !step.awaited.is_empty()) else { return Ok(Vec::new()) };
    let waiting: Vec<(String, ReplyKind, Timestamp)> = tx.query_all(
        "SELECT w.call_id, w.kind, w.deadline FROM awaited_calls w JOIN dispatch d ON d.answer_id = w.answer_id
         WHERE w.answer_id = $1 AND w.reply IS NULL AND d.paused_until IS NOT NULL ORDER BY w.call_id",
        params![answer],
        read_waiting,
    )?;
    let pending = step.tool_calls().filter_map(|call| {
        let (_, kind, deadline) = waiting.iter().find(|(id, ..)| *id == call.id)?;
        Some(PendingCall { call: call.clone(), kind: *kind, deadline: *deadline })
    });
    Ok(pending.collect())
}

fn read_waiting(row: &dyn SqlRow) -> Result<(String, ReplyKind, Timestamp)> {
    Ok((row.get_text(0)?.to_owned(), kind_of(row.get_text(1)?)?, row.get_time(2)?))
}

const fn kind_word(kind: ReplyKind) -> &'static str {
    match kind {
        ReplyKind::Function => "function",
        ReplyKind::Question => "question",
        ReplyKind::Approval => "approval",
    }
}

fn kind_of(word: &str) -> Result<ReplyKind> {
    match word {
        "function" => Ok(ReplyKind::Function),
        "question" => Ok(ReplyKind::Question),
        "approval" => Ok(ReplyKind::Approval),
        _ => Err(StoreError::damaged_row("awaited call", word, "the kind is unknown")),
    }
}
