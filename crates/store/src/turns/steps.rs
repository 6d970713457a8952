//! What is written while an answer comes about: reservations, steps and results.

use std::sync::Arc;

use domain::credits::{Credits, PostingKind};
use domain::id::{InstanceId, PostingId};
use domain::step::{ATTACHED_FILES, CallResult, Step};
use domain::time::Timestamp;

use super::{Fence, Open, TurnError, lock_account, open};
use crate::credits::{Posting, post, saturating};
use crate::error::StoreError;
use crate::form;
use crate::sql::{Result, RowExt, Sql, SqlExt, int, len, params};

/// A reservation for a step.
#[derive(Debug, Clone)]
pub struct Reserve {
    /// The step's number.
    pub step: u32,
    /// Whether it is for the summary before that step.
    pub summary: bool,
    /// The most that it can cost.
    pub greatest: Credits,
    /// The model that it will use.
    pub model: String,
    /// The posting that gives back what was held before.
    pub release: PostingId,
    /// The posting that holds `greatest`.
    pub reserve: PostingId,
    /// The present.
    pub now: Timestamp,
}

/// A step that succeeded.
#[derive(Debug, Clone)]
pub struct StepDone {
    /// Its number: larger than that of any step committed before. A summary has that of the step that follows it.
    pub number: u32,
    /// For a summary: how many entries before it stay as they are.
    pub summary: Option<u32>,
    /// The step.
    pub step: Arc<Step>,
    /// The agent's life to which its calls are given.
    pub instance: InstanceId,
    /// What it costs: no more than is held for it. Its usage goes into the bill.
    pub cost: Credits,
    /// The model that it used.
    pub model: String,
    /// The posting that settles the cost.
    pub settle: PostingId,
    /// The posting that gives back the rest.
    pub release: PostingId,
    /// The present.
    pub now: Timestamp,
}

/// Holds the most that a step can cost, after giving back whatever was held for the answer before. When
/// exactly that is held already, nothing is done.
///
/// # Errors
/// [`TurnError::Fenced`]; [`TurnError::Short`], and then what was held before is still held.
pub fn reserve(tx: &mut dyn Sql, fence: Fence, new: &Reserve) -> Result<(), TurnError> {
    lock_account(tx, fence)?;
    let open = open(tx, fence)?;
    if open.outstanding == new.greatest {
        return Ok(());
    }
    post_reservation(tx, fence, &open, open.outstanding, new)?;
    let held = tx.execute(
        "UPDATE answers SET outstanding = $4
         WHERE id = $1 AND epoch = $2 AND completed_at IS NULL AND outstanding = $3",
        params![fence.answer, int(fence.epoch)?, int(open.outstanding.0)?, int(new.greatest.0)?],
    )?;
    if held == 0 { Err(TurnError::Fenced) } else { Ok(()) }
}

/// Gives back what was held `before` and holds the most that the step can cost.
pub(super) fn post_reservation(
    tx: &mut dyn Sql,
    fence: Fence,
    open: &Open,
    before: Credits,
    new: &Reserve,
) -> Result<(), TurnError> {
    let posting = |id, kind, amount| Posting {
        model: Some(&new.model),
        step: Some(new.step),
        summary: new.summary,
        ..open.posting(fence, id, kind, amount, new.now)
    };
    if before > Credits(0) {
        post(tx, &posting(new.release, PostingKind::Release, before))?.map_err(|_| UNCOVERED)?;
    }
    if new.greatest > Credits(0) {
        post(tx, &posting(new.reserve, PostingKind::Reserve, new.greatest))?.map_err(TurnError::Short)?;
    }
    Ok(())
}

/// Settles what the step costs and gives back the rest of what was `held` for it.
pub(super) fn post_step(
    tx: &mut dyn Sql,
    fence: Fence,
    open: &Open,
    held: Credits,
    done: &StepDone,
) -> Result<(), TurnError> {
    let rest = held.0.checked_sub(done.cost.0);
    let rest = Credits(rest.ok_or(StoreError::Rule("a step costs no more than is held for it"))?);
    let posting = |id, kind, amount| Posting {
        model: Some(&done.model),
        step: Some(done.number),
        summary: done.summary.is_some(),
        ..open.posting(fence, id, kind, amount, done.now)
    };
    let settle = posting(done.settle, PostingKind::Settle, done.cost);
    // Also a step that costs nothing has its posting, for its usage.
    post(tx, &Posting { usage: Some(done.step.usage), ..settle })?.map_err(|_| UNCOVERED)?;
    if rest > Credits(0) {
        post(tx, &posting(done.release, PostingKind::Release, rest))?.map_err(|_| UNCOVERED)?;
    }
    Ok(())
}

/// Writes a step into the log, settles its cost and gives back the rest of what was held.
///
/// # Errors
/// [`TurnError::Fenced`]; [`TurnError::StepCommitted`] when this step or a later one was committed before.
pub fn commit_step(tx: &mut dyn Sql, fence: Fence, done: &StepDone) -> Result<(), TurnError> {
    lock_account(tx, fence)?;
    let open = open(tx, fence)?;
    if done.number < open.next_step || is_summed_up(tx, fence, done, None)? {
        return Err(TurnError::StepCommitted);
    }
    post_step(tx, fence, &open, open.outstanding, done)?;
    let body = form::write_step(&done.step, done.instance)?;
    let entry = count_step(tx, fence, &open, done, body.len())?;
    tx.send(
        "INSERT INTO log (answer_id, entry, step, epoch, created_at, body, summary_kept)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        params![
            fence.answer,
            entry,
            done.number,
            int(fence.epoch)?,
            done.now,
            &body,
            done.summary.map(i64::from)
        ],
    )?;
    Ok(())
}

/// Writes the result of a call of a committed step into the log, or before the first step what is attached. A call has
/// one result: `false` when it had one before, and then nothing is done.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn commit_result(
    tx: &mut dyn Sql,
    fence: Fence,
    number: u32,
    result: &CallResult,
    now: Timestamp,
) -> Result<bool, TurnError> {
    let open = open(tx, fence)?;
    let before_all = number == 0 && result.tool == ATTACHED_FILES;
    if number >= open.next_step && !before_all {
        return Err(StoreError::Rule("a result belongs to a committed step").into());
    }
    let known = tx.one(
        "SELECT entry FROM log WHERE answer_id = $1 AND call_id = $2 AND delegation IS NULL",
        params![fence.answer, &result.call],
        |_| Ok(()),
    )?;
    if known.is_some() {
        return Ok(false);
    }
    let body = form::write_result(result)?;
    let entry = next_entry(tx, fence, body.len())?;
    let written = tx.one(
        "INSERT INTO log (answer_id, entry, step, call_id, epoch, created_at, body)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (answer_id, call_id) WHERE call_id IS NOT NULL AND delegation IS NULL DO NOTHING
         RETURNING entry",
        params![fence.answer, entry, number, &result.call, int(fence.epoch)?, now, &body],
        |_| Ok(()),
    )?;
    Ok(written.is_some())
}

/// The place of the next entry in the answer's log: something was committed, so that the answer is not given up.
pub(super) fn next_entry(tx: &mut dyn Sql, fence: Fence, bytes: usize) -> Result<i64, TurnError> {
    tx.one(
        "UPDATE answers SET next_entry = next_entry + 1, log_bytes = log_bytes + $3, attempts = 0
         WHERE id = $1 AND epoch = $2 AND completed_at IS NULL RETURNING next_entry - 1",
        params![fence.answer, int(fence.epoch)?, len(bytes)],
        |row| row.int(0),
    )?
    .ok_or(TurnError::Fenced)
}

/// Whether this is the summary before a step that has one.
pub(super) fn is_summed_up(
    tx: &mut dyn Sql,
    fence: Fence,
    done: &StepDone,
    delegation: Option<&str>,
) -> Result<bool> {
    if done.summary.is_none() {
        return Ok(false);
    }
    let found = tx.one(
        "SELECT entry FROM log WHERE answer_id = $1 AND step = $2 AND summary_kept IS NOT NULL
            AND COALESCE(delegation, '') = $3",
        params![fence.answer, done.number, delegation.unwrap_or_default()],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

impl StepDone {
    /// The number of the step that may be committed after it.
    pub(super) fn next_step(&self) -> i64 {
        i64::from(self.number) + i64::from(self.summary.is_none())
    }
}

pub(super) const UNCOVERED: StoreError = StoreError::Rule("the purse covers what is held");

impl Open {
    /// A posting for this answer.
    pub(super) fn posting(
        &self,
        fence: Fence,
        id: PostingId,
        kind: PostingKind,
        amount: Credits,
        now: Timestamp,
    ) -> Posting<'static> {
        Posting {
            conversation: Some(self.conversation),
            answer: Some(fence.answer),
            key: self.key,
            limited: self.limited,
            ..Posting::new(id, self.account, kind, amount, now)
        }
    }
}

/// Counts the step in the answer's row, under the lease, and takes its place in the log.
fn count_step(
    tx: &mut dyn Sql,
    fence: Fence,
    open: &Open,
    done: &StepDone,
    bytes: usize,
) -> Result<i64, TurnError> {
    let usage = done.step.usage;
    tx.one(
        "UPDATE answers SET next_step = $5, next_entry = next_entry + 1, log_bytes = log_bytes + $6, attempts = 0,
            outstanding = 0, settled = settled + $7, used_input = used_input + $8,
            used_cached = used_cached + $9, used_output = used_output + $10, used_reasoning = used_reasoning + $11,
            used_estimated = CASE WHEN $12 > used_estimated THEN $12 ELSE used_estimated END
         WHERE id = $1 AND epoch = $2 AND completed_at IS NULL AND outstanding = $3 AND next_step = $4
         RETURNING next_entry - 1",
        params![
            fence.answer,
            int(fence.epoch)?,
            int(open.outstanding.0)?,
            open.next_step,
            done.next_step(),
            len(bytes),
            int(done.cost.0)?,
            tokens(usage.input_tokens),
            tokens(usage.cached_tokens),
            tokens(usage.output_tokens),
            tokens(usage.reasoning_tokens),
            usage.estimated,
        ],
        |row| row.int(0),
    )?
    .ok_or(TurnError::Fenced)
}

/// Counts of tokens come from vendors; their sum over an answer's steps must have room.
pub(super) fn tokens(count: u64) -> i64 {
    saturating(count).min(i64::MAX / 1024)
}
