//! The writes of a turn under its answer's lease, for the answer itself or for a subagent's task.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::answer::{AnswerEnding, LogEntry};
use domain::credits::{Credits, Shortage};
use domain::id::{AccountId, InstanceId, PostingId};
use domain::step::{AwaitedCall, CallResult, TokenUsage};
use domain::time::Timestamp;
use domain::turn::host::{TurnCompletion, TurnEvent};
use store::turns::{
    self, ClaimedTurn, Fence, NewPause, Reserve, StepDone, StepLog, TurnError, TurnRecord, delegations,
};
use store::{Sql, skills};
use tokio::time::{Instant, timeout};

use super::answer_records::AnswerRecords;
use super::turn_input::TurnOutcome;
use crate::spans::Spans;

/// The time for which a write waits for an unreachable database, and the pause between two attempts.
const OUTAGE_MAX: Duration = Duration::from_secs(300);
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// Attempts at a failing write before the answer is released.
const STORE_ATTEMPTS_MAX: u32 = 5;
/// The pause before the first retry; doubles.
const STORE_PAUSE: Duration = Duration::from_millis(100);

/// Writes for one turn.
#[derive(Clone)]
pub(super) struct TurnStore {
    pub(super) records: AnswerRecords,
    pub(super) fence: Fence,
    pub(super) account: AccountId,
    /// The model that the postings of its steps name.
    pub(super) model: String,
    /// The call of the subagent, when the turn is a subagent's.
    pub(super) delegation: Option<Arc<str>>,
    /// The spans of the work.
    pub(super) spans: Spans,
    /// The sums for the log, including subagents.
    pub(super) spent: Arc<Mutex<Spent>>,
}

/// The usage of an answer in this process. An answer that was resumed after a crash has used more.
#[derive(Debug, Default)]
pub(super) struct Spent {
    steps: u32,
    usage: TokenUsage,
    cost: Credits,
}

impl TurnStore {
    /// Creates the store of a claimed answer.
    pub(super) fn from_claim(records: &AnswerRecords, claimed: &ClaimedTurn, record: &TurnRecord) -> Self {
        Self {
            records: records.clone(),
            fence: claimed.fence,
            account: claimed.account,
            model: record.model.clone(),
            delegation: None,
            spans: Spans::begin_attempt(records.environment.tracer(), record, claimed.fence),
            spent: Arc::default(),
        }
    }

    /// Reserves the maximum cost of a step.
    pub(super) async fn reserve_credits(
        &self,
        number: u32,
        attempt: u32,
        summary: bool,
        max_cost: Credits,
    ) -> Result<TurnEvent, TurnOutcome> {
        let new = Reserve {
            step: number,
            summary,
            greatest: max_cost,
            model: self.model.clone(),
            release: self.new_posting_id(),
            reserve: self.new_posting_id(),
            now: self.records.now(),
        };
        let of = self.delegation.clone();
        let granted = TurnEvent::Reserved { number, attempt, outcome: Ok(()) };
        self.write_fenced(granted, move |tx, fence| {
            turns::reserve_step(tx, fence, StepLog::from_delegation(of.as_deref()), &new)
        })
        .await
    }

    /// Commits a step and settles its cost.
    pub(super) async fn commit_step(&self, entry: LogEntry, cost: Credits) -> Result<TurnEvent, TurnOutcome> {
        let done = self.step_done(entry, cost);
        let (number, usage) = (done.number, done.step.usage);
        let committed = TurnEvent::StepCommitted { number, summary: done.summary.is_some() };
        let of = self.delegation.clone();
        let event = self.write_fenced(committed.clone(), move |tx, fence| {
            turns::commit_step(tx, fence, StepLog::from_delegation(of.as_deref()), &done)
        });
        let event = event.await?;
        if event == committed {
            self.count_cost(usage, cost);
        }
        Ok(event)
    }

    /// Counts a step that was paid for.
    fn count_cost(&self, usage: TokenUsage, cost: Credits) {
        self.records.metrics.record_cost(&self.model, usage, cost);
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.steps += 1;
        spent.usage.input_tokens = spent.usage.input_tokens.saturating_add(usage.input_tokens);
        spent.usage.output_tokens = spent.usage.output_tokens.saturating_add(usage.output_tokens);
        spent.cost = Credits(spent.cost.0.saturating_add(cost.0));
    }

    /// Writes the answer's line of the log.
    fn log_end(&self, ending: Option<&AnswerEnding>, age: Duration) {
        let spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let (ending, error) = match ending {
            Some(AnswerEnding::Done) => ("done", None),
            Some(AnswerEnding::Stopped) => ("stopped", None),
            Some(AnswerEnding::Failed(error)) => ("failed", Some(error.code.as_str())),
            None => ("none", None),
        };
        tracing::info!(
            answer = %self.fence.answer,
            account = %self.account,
            model = self.model,
            ending,
            error,
            steps = spent.steps,
            tokens_read = spent.usage.input_tokens,
            tokens_written = spent.usage.output_tokens,
            credits = spent.cost.0,
            milliseconds = u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            "answer ended"
        );
    }

    /// Commits the result of a call and counts the skills that it opened.
    pub(super) async fn commit_result(
        &self,
        number: u32,
        result: Arc<CallResult>,
        opened: Vec<String>,
    ) -> Result<TurnEvent, TurnOutcome> {
        let (call, now) = (result.call.clone(), self.records.now());
        let (of, account) = (self.delegation.clone(), self.account);
        self.write_fenced(TurnEvent::ResultCommitted { call }, move |tx, fence| {
            if turns::commit_result(tx, fence, StepLog::from_delegation(of.as_deref()), number, &result, now)?
            {
                skills::count_skill_uses(tx, account, &opened)?;
            }
            Ok(())
        })
        .await
    }

    /// Pauses the answer until its calls have replies, for at most `timeout`, and releases the lease.
    pub(super) async fn pause_answer(
        &self,
        number: u32,
        calls: Vec<AwaitedCall>,
        timeout: Duration,
    ) -> Result<TurnEvent, TurnOutcome> {
        let now = self.records.now();
        let (deadline, count) = (now.saturating_add(timeout), calls.len());
        let pause = NewPause { number, calls, deadline, now };
        let paused = TurnEvent::Paused { number, deadline };
        let event =
            self.write_fenced(paused.clone(), move |tx, fence| turns::pause_answer(tx, fence, &pause));
        let event = event.await?;
        if event == paused {
            tracing::info!(answer = %self.fence.answer, calls = count, %deadline, "answer paused");
        }
        Ok(event)
    }

    /// Names the machine instance that may run the remaining calls of a paused step.
    pub(super) async fn name_instance(
        &self,
        number: u32,
        instance: InstanceId,
    ) -> Result<TurnEvent, TurnOutcome> {
        let named = TurnEvent::InstanceNamed { number, instance };
        self.write_fenced(named, move |tx, fence| turns::name_instance(tx, fence, instance)).await
    }

    /// Commits the end of the answer, with the finished part of the last step.
    pub(super) async fn complete_answer(
        &self,
        completion: TurnCompletion,
        accepted_at: Timestamp,
    ) -> Result<TurnEvent, TurnOutcome> {
        let partial = completion.partial.map(|entry| self.step_done(entry, completion.cost));
        let settled = partial.as_ref().map(|partial| (partial.step.usage, partial.cost));
        let (release, now) = (self.new_posting_id(), self.records.now());
        let ending = completion.answer.ending.clone();
        let last = turns::AnswerCompletion {
            text: if self.delegation.is_some() { String::new() } else { completion.answer.unmarked_text() },
            answer: completion.answer,
            release,
            now,
        };
        let of = self.delegation.clone();
        let event = self
            .write_fenced(TurnEvent::Completed, move |tx, fence| {
                if let Some(partial) = &partial {
                    turns::commit_step(tx, fence, StepLog::from_delegation(of.as_deref()), partial)?;
                }
                match &of {
                    None => turns::complete_answer(tx, fence, &last),
                    Some(call) => delegations::end_delegation(tx, fence, call, release, now),
                }
            })
            .await?;
        if event == TurnEvent::Completed {
            if let Some((usage, cost)) = settled {
                self.count_cost(usage, cost);
            }
            if self.delegation.is_none() {
                let age = self.records.now().duration_since(accepted_at);
                self.records.metrics.record_end(ending.as_ref(), age);
                self.spans.record_completion(ending.as_ref(), accepted_at);
                self.log_end(ending.as_ref(), age);
            }
        }
        Ok(event)
    }

    fn step_done(&self, entry: LogEntry, cost: Credits) -> StepDone {
        let (number, step, instance, summary) = match entry {
            LogEntry::Step { number, step, instance } => (number, step, instance, None),
            // A summary has no calls.
            LogEntry::Summary { number, kept, step } => {
                (number, step, InstanceId::from_random(0), Some(kept))
            }
            LogEntry::Result { .. } => unreachable!("only steps are committed as steps"),
        };
        StepDone {
            number,
            step,
            instance,
            summary,
            cost,
            model: self.model.clone(),
            settle: self.new_posting_id(),
            release: self.new_posting_id(),
            now: self.records.now(),
        }
    }

    /// Writes under the lease. A failing store is retried for a while; then the answer is released.
    pub(super) async fn write_fenced(
        &self,
        done: TurnEvent,
        op: impl Fn(&mut dyn Sql, Fence) -> Result<(), TurnError> + Clone + Send + 'static,
    ) -> Result<TurnEvent, TurnOutcome> {
        let (fence, begun) = (self.fence, Instant::now());
        let (mut attempt, mut failures) = (0, 0);
        while failures < STORE_ATTEMPTS_MAX {
            let op = op.clone();
            match self.records.store.write(move |tx| op(tx, fence)).await {
                Ok(()) => return Ok(done),
                Err(TurnError::Fenced) => return Ok(TurnEvent::Fenced),
                // The first attempt was committed, but its result was lost.
                Err(TurnError::StepCommitted) if attempt > 0 => return Ok(done),
                Err(TurnError::Short(shortage)) => return Ok(with_shortage(done, shortage)),
                // The output is paid for, and no other node can claim the answer during the outage.
                Err(TurnError::Store(error)) if error.is_outage() && begun.elapsed() < OUTAGE_MAX => {
                    tracing::debug!(answer = %fence.answer, %error, "answer waits for the database");
                    let ending = self.records.tasks.wait_for_shutdown();
                    if timeout(OUTAGE_PAUSE, ending).await.is_ok() {
                        return Err(TurnOutcome::GiveBack);
                    }
                }
                Err(error @ (TurnError::StepCommitted | TurnError::Store(_))) => {
                    tracing::error!(answer = %fence.answer, %error, attempt, "answer write failed");
                    tokio::time::sleep(STORE_PAUSE * 2_u32.pow(failures)).await;
                    failures += 1;
                }
            }
            attempt += 1;
        }
        Err(TurnOutcome::GiveBack)
    }

    fn new_posting_id(&self) -> PostingId {
        let environment = &self.records.environment;
        PostingId::made_at(environment.now(), environment.random_bits())
    }
}

/// Converts a failed reservation into its event.
fn with_shortage(done: TurnEvent, shortage: Shortage) -> TurnEvent {
    match done {
        TurnEvent::Reserved { number, attempt, .. } => {
            TurnEvent::Reserved { number, attempt, outcome: Err(shortage) }
        }
        other => other,
    }
}
