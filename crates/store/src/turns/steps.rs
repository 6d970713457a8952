//! Reservations, steps and results: the writes of a turn while it runs. They work alike for the answer's own
//! agent and for a delegated task; [`StepLog`] selects which.

use std::sync::Arc;

use domain::credits::{Credits, PostingKind};
use domain::id::{InstanceId, PostingId};
use domain::step::{ATTACHED_FILES, CallResult, Step, WORKSPACE_INSTRUCTIONS};
use domain::time::Timestamp;

use super::{Fence, OpenAnswer, TurnError, lock_account, read_open_answer};
use crate::codec;
use crate::credits::{Posting, post_credits, saturate_to_i64};
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, len, params, stored_int};

/// A reservation for a step.
#[derive(Debug, Clone)]
pub struct Reserve {
    pub step: u32,
    /// The reservation is for the summary before that step.
    pub summary: bool,
    /// The maximum cost of the step.
    pub greatest: Credits,
    /// The model that it will use.
    pub model: String,
    /// The posting that releases the previous reservation.
    pub release: PostingId,
    /// The posting that reserves `greatest`.
    pub reserve: PostingId,
    pub now: Timestamp,
}

#[derive(Debug, Clone)]
pub struct StepDone {
    /// Its number, greater than the numbers of all committed steps. A summary has the number of the step that follows
    /// it.
    pub number: u32,
    /// For a summary: the number of earlier entries that stay unchanged.
    pub summary: Option<u32>,
    pub step: Arc<Step>,
    /// The instance of the machine's agent that gets its calls.
    pub instance: InstanceId,
    /// Its cost, at most the reserved credits. Its usage is added to that of the answer.
    pub cost: Credits,
    /// The model that it used.
    pub model: String,
    /// The posting that settles the cost.
    pub settle: PostingId,
    /// The posting that releases the rest.
    pub release: PostingId,
    pub now: Timestamp,
}

/// Selects a step log: each agent that works on an answer has its own sequence of steps and its own
/// reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepLog<'a> {
    /// The answer's own agent.
    Answer,
    /// The agent of the task that was given by this call of the answer's own agent.
    Delegation(&'a str),
}

impl<'a> StepLog<'a> {
    /// Returns the log of the delegation if there is one, otherwise that of the answer.
    #[must_use]
    pub fn from_delegation(delegation: Option<&'a str>) -> Self {
        delegation.map_or(Self::Answer, Self::Delegation)
    }

    fn delegation_call(self) -> Option<&'a str> {
        match self {
            Self::Answer => None,
            Self::Delegation(call) => Some(call),
        }
    }
}

/// The position of a log: the credits reserved for its next step, and the lowest number that this step may
/// have.
pub(super) struct LogPosition {
    pub(super) outstanding: Credits,
    pub(super) next_step: u32,
}

/// Reads the position of a log. The account must be locked, so that the position stays valid until the
/// transaction ends.
pub(super) fn read_position(
    tx: &mut dyn Sql,
    fence: Fence,
    open: &OpenAnswer,
    log: StepLog<'_>,
) -> Result<LogPosition> {
    let StepLog::Delegation(call) = log else {
        return Ok(LogPosition { outstanding: open.outstanding, next_step: open.next_step });
    };
    let found = tx.query_one(
        "SELECT outstanding, next_step FROM delegations WHERE answer_id = $1 AND call_id = $2",
        params![fence.answer, call],
        |row| Ok(LogPosition { outstanding: row.get_credits(0)?, next_step: row.get_u32(1)? }),
    )?;
    found.ok_or(StoreError::Rule("the delegation was not begun"))
}

/// Reserves the maximum cost of a step and releases the log's previous reservation. Does nothing if
/// exactly that amount is already reserved.
///
/// # Errors
/// [`TurnError::Fenced`]; [`TurnError::Short`], which leaves the previous reservation in place.
pub fn reserve_step(
    tx: &mut dyn Sql,
    fence: Fence,
    log: StepLog<'_>,
    new: &Reserve,
) -> Result<(), TurnError> {
    lock_account(tx, fence)?;
    let open = read_open_answer(tx, fence)?;
    let before = read_position(tx, fence, &open, log)?.outstanding;
    if before == new.greatest {
        return Ok(());
    }
    post_reservation(tx, fence, &open, before, new)?;
    set_reservation(tx, fence, &open, log, before, new.greatest)
}

/// Sets the reservation of a log. A delegation's reservation is part of the answer's.
pub(super) fn set_reservation(
    tx: &mut dyn Sql,
    fence: Fence,
    open: &OpenAnswer,
    log: StepLog<'_>,
    before: Credits,
    now: Credits,
) -> Result<(), TurnError> {
    let others = rest_of(open, before)?;
    if let StepLog::Delegation(call) = log {
        tx.send_statement(
            "UPDATE delegations SET outstanding = $3 WHERE answer_id = $1 AND call_id = $2",
            params![fence.answer, call, stored_int(now.0)?],
        )?;
    }
    let held = tx.execute(
        "UPDATE answers SET outstanding = $4
         WHERE id = $1 AND epoch = $2 AND completed_at IS NULL AND outstanding = $3",
        params![
            fence.answer,
            stored_int(fence.epoch)?,
            stored_int(open.outstanding.0)?,
            stored_int(others.0.saturating_add(now.0))?
        ],
    )?;
    if held == 0 { Err(TurnError::Fenced) } else { Ok(()) }
}

/// Returns the part of the answer's reservation that belongs to other logs. `own` is the part of this log.
fn rest_of(open: &OpenAnswer, own: Credits) -> Result<Credits> {
    open.outstanding.0.checked_sub(own.0).map(Credits).ok_or(UNCOVERED)
}

/// Releases `before` and reserves the maximum cost of the step.
fn post_reservation(
    tx: &mut dyn Sql,
    fence: Fence,
    open: &OpenAnswer,
    before: Credits,
    new: &Reserve,
) -> Result<(), TurnError> {
    let posting = |id, kind, amount| Posting {
        model: Some(&new.model),
        step: Some(new.step),
        summary: new.summary,
        ..open.new_posting(fence, id, kind, amount, new.now)
    };
    if before > Credits(0) {
        post_credits(tx, &posting(new.release, PostingKind::Release, before))?.map_err(|_| UNCOVERED)?;
    }
    if new.greatest > Credits(0) {
        post_credits(tx, &posting(new.reserve, PostingKind::Reserve, new.greatest))?
            .map_err(TurnError::Short)?;
    }
    Ok(())
}

/// Settles the cost of a step and releases the rest of `held`.
fn post_step(
    tx: &mut dyn Sql,
    fence: Fence,
    open: &OpenAnswer,
    held: Credits,
    done: &StepDone,
) -> Result<(), TurnError> {
    let rest = held.0.checked_sub(done.cost.0);
    let rest = Credits(rest.ok_or(StoreError::Rule("a step costs more than its reservation"))?);
    let posting = |id, kind, amount| Posting {
        model: Some(&done.model),
        step: Some(done.number),
        summary: done.summary.is_some(),
        ..open.new_posting(fence, id, kind, amount, done.now)
    };
    let settle = posting(done.settle, PostingKind::Settle, done.cost);
    // A free step also has a posting, which records its usage.
    post_credits(tx, &Posting { usage: Some(done.step.usage), ..settle })?.map_err(|_| UNCOVERED)?;
    if rest > Credits(0) {
        post_credits(tx, &posting(done.release, PostingKind::Release, rest))?.map_err(|_| UNCOVERED)?;
    }
    Ok(())
}

/// Writes a step into the log, settles its cost and releases the rest of its reservation.
///
/// # Errors
/// [`TurnError::Fenced`]; [`TurnError::StepCommitted`] if this step or a later one is already committed.
pub fn commit_step(
    tx: &mut dyn Sql,
    fence: Fence,
    log: StepLog<'_>,
    done: &StepDone,
) -> Result<(), TurnError> {
    lock_account(tx, fence)?;
    let open = read_open_answer(tx, fence)?;
    let position = read_position(tx, fence, &open, log)?;
    if done.number < position.next_step || is_summed_up(tx, fence, log, done)? {
        return Err(TurnError::StepCommitted);
    }
    post_step(tx, fence, &open, position.outstanding, done)?;
    let body = codec::write_step(&done.step, done.instance)?;
    let entry = count_step(tx, fence, &open, log, &position, done, body.len())?;
    tx.send_statement(
        "INSERT INTO log (answer_id, entry, step, epoch, created_at, body, delegation, summary_kept)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        params![
            fence.answer,
            entry,
            done.number,
            stored_int(fence.epoch)?,
            done.now,
            &body,
            log.delegation_call(),
            done.summary.map(i64::from)
        ],
    )?;
    Ok(())
}

/// Writes the result of a call of a committed step into the log, or attachments before the answer's first
/// step. A call has one result: returns `false` and does nothing if it already has one.
///
/// # Errors
/// [`TurnError::Fenced`].
pub fn commit_result(
    tx: &mut dyn Sql,
    fence: Fence,
    log: StepLog<'_>,
    number: u32,
    result: &CallResult,
    now: Timestamp,
) -> Result<bool, TurnError> {
    let open = read_open_answer(tx, fence)?;
    let is_first = [ATTACHED_FILES, WORKSPACE_INSTRUCTIONS].contains(&result.tool.as_str());
    let before_all = log == StepLog::Answer && number == 0 && is_first;
    if number >= read_position(tx, fence, &open, log)?.next_step && !before_all {
        return Err(StoreError::Rule("a result belongs to no committed step").into());
    }
    if has_result(tx, fence, log, &result.call)? {
        return Ok(false);
    }
    let body = codec::write_result(result)?;
    let entry = next_entry(tx, fence, body.len())?;
    // Each kind of log has its own unique index. The conflict cannot concern the entry's position, which was
    // assigned under the lock of the answer's row.
    let written = tx.query_one(
        "INSERT INTO log (answer_id, entry, step, call_id, epoch, created_at, body, delegation)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
         ON CONFLICT DO NOTHING
         RETURNING entry",
        params![
            fence.answer,
            entry,
            number,
            &result.call,
            stored_int(fence.epoch)?,
            now,
            &body,
            log.delegation_call()
        ],
        |_| Ok(()),
    )?;
    Ok(written.is_some())
}

/// Returns `true` if the call has a result. Uses two statements, because each kind of log has its own index.
fn has_result(tx: &mut dyn Sql, fence: Fence, log: StepLog<'_>, call: &str) -> Result<bool> {
    let found = match log {
        StepLog::Answer => tx.query_one(
            "SELECT entry FROM log WHERE answer_id = $1 AND call_id = $2 AND delegation IS NULL",
            params![fence.answer, call],
            |_| Ok(()),
        ),
        StepLog::Delegation(delegation) => tx.query_one(
            "SELECT entry FROM log WHERE answer_id = $1 AND delegation = $2 AND call_id = $3",
            params![fence.answer, delegation, call],
            |_| Ok(()),
        ),
    };
    Ok(found?.is_some())
}

/// Assigns the position of the next entry in the answer's log. Also resets the attempts, because the answer
/// made progress.
fn next_entry(tx: &mut dyn Sql, fence: Fence, bytes: usize) -> Result<i64, TurnError> {
    tx.query_one(
        "UPDATE answers SET next_entry = next_entry + 1, log_bytes = log_bytes + $3, attempts = 0
         WHERE id = $1 AND epoch = $2 AND completed_at IS NULL RETURNING next_entry - 1",
        params![fence.answer, stored_int(fence.epoch)?, len(bytes)],
        |row| row.get_int(0),
    )?
    .ok_or(TurnError::Fenced)
}

/// Returns `true` if `done` is a summary before a step that already has one.
fn is_summed_up(tx: &mut dyn Sql, fence: Fence, log: StepLog<'_>, done: &StepDone) -> Result<bool> {
    if done.summary.is_none() {
        return Ok(false);
    }
    let found = tx.query_one(
        "SELECT entry FROM log WHERE answer_id = $1 AND step = $2 AND summary_kept IS NOT NULL
            AND COALESCE(delegation, '') = $3",
        params![fence.answer, done.number, log.delegation_call().unwrap_or_default()],
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

impl StepDone {
    /// Returns the lowest number of a step that may follow.
    fn next_step(&self) -> i64 {
        i64::from(self.number) + i64::from(self.summary.is_none())
    }
}

pub(super) const UNCOVERED: StoreError = StoreError::Rule("the balance does not hold the reserved credits");

impl OpenAnswer {
    /// Creates a posting for this answer.
    pub(super) fn new_posting(
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

/// The columns in which answers and delegations count a step: `$3` to `$9` of [`count_step`].
macro_rules! counted {
    () => {
        "next_step = $3, settled = settled + $4, used_input = used_input + $5, used_cached = used_cached + $6,
         used_output = used_output + $7, used_reasoning = used_reasoning + $8,
         used_estimated = CASE WHEN $9 > used_estimated THEN $9 ELSE used_estimated END"
    };
}

/// Counts the step under the lease and advances the log's position. Clears the log's reservation.
fn count_step(
    tx: &mut dyn Sql,
    fence: Fence,
    open: &OpenAnswer,
    log: StepLog<'_>,
    position: &LogPosition,
    done: &StepDone,
    bytes: usize,
) -> Result<i64, TurnError> {
    let usage = done.step.usage;
    let (epoch, next_step, cost) = (stored_int(fence.epoch)?, done.next_step(), stored_int(done.cost.0)?);
    let (input, cached) = (cap_tokens(usage.input_tokens), cap_tokens(usage.cached_tokens));
    let (output, reasoning) = (cap_tokens(usage.output_tokens), cap_tokens(usage.reasoning_tokens));
    let estimated = usage.estimated;
    let held = stored_int(open.outstanding.0)?;
    match log {
        StepLog::Answer => tx.query_one(
            concat!(
                "UPDATE answers SET ",
                counted!(),
                ", next_entry = next_entry + 1, log_bytes = log_bytes + $10, attempts = 0, outstanding = 0
                 WHERE id = $1 AND epoch = $2 AND completed_at IS NULL AND outstanding = $11 AND next_step = $12
                 RETURNING next_entry - 1"
            ),
            params![
                fence.answer,
                epoch,
                next_step,
                cost,
                input,
                cached,
                output,
                reasoning,
                estimated,
                len(bytes),
                held,
                position.next_step
            ],
            |row| row.get_int(0),
        )?,
        StepLog::Delegation(call) => {
            tx.send_statement(
                concat!(
                    "UPDATE delegations SET ",
                    counted!(),
                    ", outstanding = 0 WHERE answer_id = $1 AND call_id = $2"
                ),
                params![fence.answer, call, next_step, cost, input, cached, output, reasoning, estimated],
            )?;
            tx.query_one(
                "UPDATE answers SET outstanding = $3, next_entry = next_entry + 1, log_bytes = log_bytes + $4,
                    attempts = 0
                 WHERE id = $1 AND epoch = $2 AND completed_at IS NULL AND outstanding = $5
                 RETURNING next_entry - 1",
                params![
                    fence.answer,
                    epoch,
                    stored_int(rest_of(open, position.outstanding)?.0)?,
                    len(bytes),
                    held
                ],
                |row| row.get_int(0),
            )?
        }
    }
    .ok_or(TurnError::Fenced)
}

/// Vendors report the token counts. Caps each, so that the sum over an answer's steps cannot overflow.
fn cap_tokens(count: u64) -> i64 {
    saturate_to_i64(count).min(i64::MAX / 1024)
}
