//! Tasks that an answer's agent gave to subagents. Their steps are in the answer's log under the call that
//! gave the task ([`StepLog::Delegation`]), and the answer's account pays for them. Their
//! reserved credits are part of the answer's, so that completing the answer releases all of them.

use domain::answer::LogEntry;
use domain::credits::{AnswerCost, Credits, PostingKind};
use domain::id::{MessageId, PostingId};
use domain::time::Timestamp;

use super::load::read_entry;
use super::steps::{UNCOVERED, read_position, set_reservation};
use super::{Fence, StepLog, TurnError, lock_account, read_cost, read_open_answer};
use crate::credits::post_credits;
use crate::sql::{Result, Sql, SqlExt, params};

/// The progress of a delegation.
#[derive(Debug, Clone, Default)]
pub struct Delegation {
    /// The steps and results of the subagent.
    pub log: Vec<LogEntry>,
    /// Its usage and settled credits.
    pub bill: AnswerCost,
}

/// Begins a delegation, or returns the progress of one that exists; `None` if the answer has `max`
/// delegations.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn begin_delegation(
    tx: &mut dyn Sql,
    fence: Fence,
    call: &str,
    max: u32,
) -> Result<Option<Delegation>, TurnError> {
    // Concurrent calls are serialized, so that each counts the previous ones.
    lock_account(tx, fence)?;
    read_open_answer(tx, fence)?;
    let bill = tx.query_one(
        "SELECT settled, used_input, used_cached, used_output, used_reasoning, used_estimated FROM delegations
         WHERE answer_id = $1 AND call_id = $2",
        params![fence.answer, call],
        |row| read_cost(row, 0),
    )?;
    if let Some(bill) = bill {
        return Ok(Some(Delegation { log: log_of(tx, fence.answer, call)?, bill }));
    }
    let begun = tx.execute(
        "INSERT INTO delegations (answer_id, call_id, next_step, outstanding, settled, used_input, used_cached,
            used_output, used_reasoning, used_estimated)
         SELECT $1, $2, 0, 0, 0, 0, 0, 0, 0, 0
         WHERE (SELECT count(*) FROM delegations WHERE answer_id = $1) < $3",
        params![fence.answer, call, max],
    )?;
    Ok((begun > 0).then(Delegation::default))
}

fn log_of(tx: &mut dyn Sql, answer: MessageId, call: &str) -> Result<Vec<LogEntry>> {
    tx.query_all(
        "SELECT step, call_id, body, answer_id, summary_kept FROM log
         WHERE answer_id = $1 AND delegation = $2 ORDER BY entry",
        params![answer, call],
        |row| read_entry(row, answer),
    )
}

/// Releases the credits that are still reserved for the delegation.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn end_delegation(
    tx: &mut dyn Sql,
    fence: Fence,
    call: &str,
    release: PostingId,
    now: Timestamp,
) -> Result<(), TurnError> {
    lock_account(tx, fence)?;
    let open = read_open_answer(tx, fence)?;
    let log = StepLog::Delegation(call);
    let held = read_position(tx, fence, &open, log)?.outstanding;
    if held == Credits(0) {
        return Ok(());
    }
    post_credits(tx, &open.new_posting(fence, release, PostingKind::Release, held, now))?
        .map_err(|_| UNCOVERED)?;
    set_reservation(tx, fence, &open, log, held, Credits(0))
}
