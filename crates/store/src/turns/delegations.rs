//! Tasks that an answer's agent gave to other agents: the same writes as for the answer itself, in its log under the
//! call that gave the task, and paid by the answer's account. What is held for them is part of what the answer holds,
//! so that its end gives back all of it.

use domain::answer::LogEntry;
use domain::credits::{Bill, Credits, PostingKind};
use domain::id::{MessageId, PostingId};
use domain::step::CallResult;
use domain::time::Timestamp;

use super::load::read_entry;
use super::steps::{UNCOVERED, is_summed_up, next_entry, post_reservation, post_step, tokens};
use super::{Fence, Open, Reserve, StepDone, TurnError, lock_account, open, read_bill};
use crate::credits::post;
use crate::error::StoreError;
use crate::form;
use crate::sql::{Result, RowExt, Sql, SqlExt, int, params};

/// A delegation as far as it has come.
#[derive(Debug, Clone, Default)]
pub struct Delegation {
    /// What the other agent said and did.
    pub log: Vec<LogEntry>,
    /// What it has used and paid.
    pub bill: Bill,
}

/// Begins a delegation, or tells how far it has come; `None` when the answer has as many as it may.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn begin(tx: &mut dyn Sql, fence: Fence, call: &str, max: u32) -> Result<Option<Delegation>, TurnError> {
    open(tx, fence)?;
    let bill = tx.one(
        "SELECT settled, used_input, used_cached, used_output, used_reasoning, used_estimated FROM delegations
         WHERE answer_id = $1 AND call_id = $2",
        params![fence.answer, call],
        |row| read_bill(row, 0),
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
    tx.all(
        "SELECT step, call_id, body, answer_id, summary_kept FROM log
         WHERE answer_id = $1 AND delegation = $2 ORDER BY entry",
        params![answer, call],
        |row| read_entry(row, answer),
    )
}

/// What the fenced operations need of a delegation besides its answer.
struct Held {
    outstanding: Credits,
    next_step: u32,
}

fn held(tx: &mut dyn Sql, fence: Fence, call: &str) -> Result<Held> {
    let found = tx.one(
        "SELECT outstanding, next_step FROM delegations WHERE answer_id = $1 AND call_id = $2",
        params![fence.answer, call],
        |row| Ok(Held { outstanding: row.credits(0)?, next_step: row.small(1)? }),
    )?;
    found.ok_or(StoreError::Rule("a delegation was begun before it is worked on"))
}

/// Holds the most that a step of it can cost, after giving back what was held for it before.
///
/// # Errors
/// [`TurnError::Fenced`]; [`TurnError::Short`], and then what was held before is still held.
pub fn reserve(tx: &mut dyn Sql, fence: Fence, call: &str, new: &Reserve) -> Result<(), TurnError> {
    lock_account(tx, fence)?;
    let open = open(tx, fence)?;
    let held = held(tx, fence, call)?;
    if held.outstanding == new.greatest {
        return Ok(());
    }
    post_reservation(tx, fence, &open, held.outstanding, new)?;
    tx.execute(
        "UPDATE delegations SET outstanding = $3 WHERE answer_id = $1 AND call_id = $2",
        params![fence.answer, call, int(new.greatest.0)?],
    )?;
    hold(tx, fence, &open, held.outstanding, new.greatest)
}

/// Replaces a part of what the answer holds.
fn hold(tx: &mut dyn Sql, fence: Fence, open: &Open, before: Credits, now: Credits) -> Result<(), TurnError> {
    let others = open.outstanding.0.checked_sub(before.0).ok_or(UNCOVERED)?;
    let held = tx.execute(
        "UPDATE answers SET outstanding = $4
         WHERE id = $1 AND epoch = $2 AND completed_at IS NULL AND outstanding = $3",
        params![
            fence.answer,
            int(fence.epoch)?,
            int(open.outstanding.0)?,
            int(others.saturating_add(now.0))?
        ],
    )?;
    if held == 0 { Err(TurnError::Fenced) } else { Ok(()) }
}

/// Writes a step of it into the log, settles its cost and gives back the rest of what was held for it.
///
/// # Errors
/// [`TurnError::Fenced`]; [`TurnError::StepCommitted`] when this step or a later one was committed before.
pub fn commit_step(tx: &mut dyn Sql, fence: Fence, call: &str, done: &StepDone) -> Result<(), TurnError> {
    lock_account(tx, fence)?;
    let open = open(tx, fence)?;
    let held = held(tx, fence, call)?;
    if done.number < held.next_step || is_summed_up(tx, fence, done, Some(call))? {
        return Err(TurnError::StepCommitted);
    }
    post_step(tx, fence, &open, held.outstanding, done)?;
    let usage = done.step.usage;
    hold(tx, fence, &open, held.outstanding, Credits(0))?;
    tx.execute(
        "UPDATE delegations SET next_step = $3, outstanding = 0, settled = settled + $4, used_input = used_input + $5,
            used_cached = used_cached + $6, used_output = used_output + $7, used_reasoning = used_reasoning + $8,
            used_estimated = CASE WHEN $9 > used_estimated THEN $9 ELSE used_estimated END
         WHERE answer_id = $1 AND call_id = $2",
        params![
            fence.answer,
            call,
            done.next_step(),
            int(done.cost.0)?,
            tokens(usage.input_tokens),
            tokens(usage.cached_tokens),
            tokens(usage.output_tokens),
            tokens(usage.reasoning_tokens),
            usage.estimated,
        ],
    )?;
    let body = form::write_step(&done.step, done.instance)?;
    let entry = next_entry(tx, fence, body.len())?;
    tx.send(
        "INSERT INTO log (answer_id, entry, step, epoch, created_at, body, delegation, summary_kept)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        params![
            fence.answer,
            entry,
            done.number,
            int(fence.epoch)?,
            done.now,
            &body,
            call,
            done.summary.map(i64::from)
        ],
    )?;
    Ok(())
}

/// Writes what came of a call of one of its steps. A call has one result: `false` when it had one before, and then
/// nothing is done.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn commit_result(
    tx: &mut dyn Sql,
    fence: Fence,
    call: &str,
    number: u32,
    result: &CallResult,
    now: Timestamp,
) -> Result<bool, TurnError> {
    open(tx, fence)?;
    if number >= held(tx, fence, call)?.next_step {
        return Err(StoreError::Rule("a result belongs to a committed step").into());
    }
    let known = tx.one(
        "SELECT entry FROM log WHERE answer_id = $1 AND delegation = $2 AND call_id = $3",
        params![fence.answer, call, &result.call],
        |_| Ok(()),
    )?;
    if known.is_some() {
        return Ok(false);
    }
    let body = form::write_result(result)?;
    let entry = next_entry(tx, fence, body.len())?;
    tx.send(
        "INSERT INTO log (answer_id, entry, step, call_id, epoch, created_at, body, delegation)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        params![fence.answer, entry, number, &result.call, int(fence.epoch)?, now, &body, call],
    )?;
    Ok(true)
}

/// Gives back what is still held for it.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn end(
    tx: &mut dyn Sql,
    fence: Fence,
    call: &str,
    release: PostingId,
    now: Timestamp,
) -> Result<(), TurnError> {
    lock_account(tx, fence)?;
    let open = open(tx, fence)?;
    let held = held(tx, fence, call)?;
    if held.outstanding == Credits(0) {
        return Ok(());
    }
    let posting = open.posting(fence, release, PostingKind::Release, held.outstanding, now);
    post(tx, &posting)?.map_err(|_| UNCOVERED)?;
    tx.execute(
        "UPDATE delegations SET outstanding = 0 WHERE answer_id = $1 AND call_id = $2",
        params![fence.answer, call],
    )?;
    hold(tx, fence, &open, held.outstanding, Credits(0))
}
