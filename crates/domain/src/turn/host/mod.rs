//! The host's side of a turn: decides the next action and owns transcript, step log, cost and answer.
//!
//! ```text
//!           advance             Reserved                Finished                StepCommitted
//!   Idle ------------> Reserving --------> Streaming ---------------> Committing ------------> Idle
//!                                            |  ^                                                |
//!                                 ModelFailed|  |BackoffElapsed                                  | no call is left
//!                                            v  |                                                v  after a step
//!                                        BackingOff                                            Ending -> Over
//! ```
//!
//! `Idle` has two tasks: it runs the calls of the last step in order ([`calls`]), and once all their results
//! are in the log it begins the next step, or ends the turn if the last step made no calls. If all that is left are calls
//! that await a reply from outside, it pauses the answer ([`pause`]). A stop or a
//! failure ends the turn from every phase.
//!
//! When the transcript has become too long, a step that summarizes it goes through the same phases before the
//! pending step ([`pending_step`]).
//!
//! The turn begins its first step once a machine is connected, and then continues to the end of a step without one. A
//! session with the executor is opened by the first frame that is sent after `Connected`.

mod calls;
mod cited;
mod draft;
mod pause;
mod pending_step;
mod reservation;
mod session;
#[cfg(test)]
mod tests;
mod token_budget;
mod transcript;
mod types;

use std::sync::Arc;

pub use reservation::first_reservation;
pub use transcript::LoggedExchange;
pub use types::{Setup, ToolRouter, TurnCompletion, TurnEffect, TurnEvent};

use self::draft::{Draft, DraftChange};
use self::pending_step::PendingStep;
use self::session::ExecutorLink;
use self::transcript::Transcript;
use super::HostFrame;
use super::backoff::{STALLS_MAX, pause_after};
use crate::answer::{Answer, AnswerChange, AnswerEnding, AnswerFailure, ErrorCode, LogEntry, RevisionStamp};
use crate::catalog::ProviderName;
use crate::credits::{AnswerCost, Credits, Shortage};
use crate::id::InstanceId;
use crate::step::{CallResult, OutputBlock, Step, StepError, StepEvent, StopReason, TokenUsage};

#[derive(Debug, Clone)]
enum Phase {
    Idle,
    Reserving { step: PendingStep },
    Streaming { step: PendingStep, held: Credits, draft: Draft },
    BackingOff { step: PendingStep, held: Credits, draft: Draft },
    Committing { entry: LogEntry, bill: AnswerCost, then: Option<PendingStep> },
    Pausing,
    Naming,
    Ending,
    Over,
}

/// The host's side of one turn.
#[derive(Debug, Clone)]
pub struct Turn {
    setup: Setup,
    answer: Answer,
    transcript: Transcript,
    log: Vec<LogEntry>,
    bill: AnswerCost,
    phase: Phase,
    executor: ExecutorLink,
    /// Calls that the host runs in this lease.
    running: Vec<String>,
    /// Results that are being committed.
    committing: Vec<Arc<CallResult>>,
    next_source: u32,
    ending: Option<AnswerEnding>,
    /// Final effects that wait until the completion is durable.
    final_effects: Vec<TurnEffect>,
    revision: u64,
    /// The provider of the answering model, if known.
    provider: Option<ProviderName>,
}

impl Turn {
    /// Creates the turn from its stored state.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let log = setup.present.log.clone();
        let mut answer = Answer::from_log(setup.answer, &setup.present.attachments, &log, None);
        answer.stamp = RevisionStamp { epoch: setup.epoch, revision: 0 };
        let next_source = answer.last_source() + 1;
        Self {
            transcript: Transcript::new(
                &setup.earlier,
                &setup.present,
                setup.overhead_tokens,
                setup.context_tokens,
            ),
            bill: setup.bill,
            ending: types::ending_at_begin(&setup),
            setup,
            answer,
            log,
            phase: Phase::Idle,
            executor: ExecutorLink::default(),
            running: Vec::new(),
            committing: Vec::new(),
            next_source,
            final_effects: Vec::new(),
            revision: 0,
            provider: None,
        }
    }

    /// Sets the provider of the model, for error messages.
    pub fn set_provider(&mut self, provider: ProviderName) {
        self.provider = Some(provider);
    }

    /// Sets the tokens of every further request besides the transcript, and those left for the transcript.
    /// The tools may be known only later.
    pub fn set_budget(&mut self, overhead_tokens: u64, context_tokens: u64) {
        self.setup.overhead_tokens = overhead_tokens;
        self.setup.context_tokens = context_tokens;
        self.transcript.set_budget(overhead_tokens, context_tokens);
    }

    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Returns the committed part of the step log.
    #[must_use]
    pub fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// Returns `true` if nothing is left to do.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Returns `true` if neither the model nor the store is working: only calls may be running.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.committing.is_empty()
    }

    /// Returns `true` if the turn waits for a call of the connected machine.
    #[must_use]
    pub fn awaits_machine(&self) -> bool {
        self.executor.session.is_connected() && self.needs_machine()
    }

    /// Returns `true` if the turn cannot continue without the machine, connected or not.
    #[must_use]
    pub fn needs_machine(&self) -> bool {
        self.ending.is_none() && self.is_idle() && (self.executor.instance.is_none() || self.is_machine_due())
    }

    /// Returns `true` if the turn needs a connection to the machine.
    #[must_use]
    pub fn wants_connection(&self) -> bool {
        !self.executor.session.is_connected()
            && self.ending.is_none()
            && !matches!(self.phase, Phase::Ending | Phase::Over)
    }

    /// Returns the first effects, before any event. An answer whose stop was requested ends at once.
    pub fn begin_turn(&mut self) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        self.report_cut(&mut effects);
        if self.ending.is_none() {
            self.accept_replies(&mut effects);
        }
        self.advance_turn(&mut effects);
        effects
    }

    /// Handles one event. Ignores duplicate events and events of another step or attempt.
    pub fn apply_event(&mut self, event: TurnEvent) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        if self.is_over() {
            return effects;
        }
        match event {
            TurnEvent::Connected(instance) => self.connect_machine(instance, &mut effects),
            TurnEvent::Disconnected => self.disconnect_machine(),
            TurnEvent::MachineFailed(reason) => {
                self.fail_with(ErrorCode::MachineFailed, &machine_failed(&reason))
            }
            TurnEvent::Executor(frame) => self.receive_frame(frame, &mut effects),
            TurnEvent::Violation => self.count_violation(&mut effects),
            TurnEvent::Reserved { number, attempt, outcome } => {
                self.apply_reservation(number, attempt, outcome, &mut effects);
            }
            TurnEvent::ModelDelta { number, attempt, event } => {
                self.model_delta(number, attempt, event, &mut effects);
            }
            TurnEvent::ModelFailed { number, attempt, error, jitter } => {
                self.model_failed(number, attempt, error, jitter, &mut effects);
            }
            TurnEvent::BackoffElapsed { number, attempt } => {
                self.backoff_elapsed(number, attempt, &mut effects)
            }
            TurnEvent::Reported { call, keep, text } => {
                if self.ending.is_none() && self.running.contains(&call) {
                    self.publish_change(AnswerChange::Reported { call, keep, text }, &mut effects);
                }
            }
            TurnEvent::ToolReturned { call, output } => {
                self.accept_output(&call, output, true, &mut effects);
            }
            TurnEvent::StepCommitted { number, summary } => {
                self.step_committed(number, summary, &mut effects)
            }
            TurnEvent::ResultCommitted { call } => self.result_committed(&call, &mut effects),
            TurnEvent::Paused { number, deadline } => self.answer_paused(number, deadline, &mut effects),
            TurnEvent::InstanceNamed { number, instance } => self.instance_named(number, instance),
            TurnEvent::Completed => {
                if matches!(self.phase, Phase::Ending) {
                    self.phase = Phase::Over;
                    effects.append(&mut self.final_effects);
                    effects.push(TurnEffect::Finish);
                }
            }
            TurnEvent::StopRequested => {
                if self.ending.is_none() {
                    self.ending = Some(AnswerEnding::Stopped);
                }
            }
            TurnEvent::Fenced => {
                self.phase = Phase::Over;
                effects.extend([TurnEffect::CancelModel, TurnEffect::Finish]);
            }
        }
        self.advance_turn(&mut effects);
        effects
    }

    /// Decides the next action: the end, the calls of the last step, or the next step.
    fn advance_turn(&mut self, effects: &mut Vec<TurnEffect>) {
        if let Some(ending) = self.ending.clone() {
            return self.end_when_durable(ending, effects);
        }
        if !matches!(self.phase, Phase::Idle) {
            return; // calls run only between steps
        }
        if let Some(ending) = self.ending_of_declined_step() {
            return self.end_turn(ending, effects);
        }
        self.start_calls(effects);
        if !matches!(self.phase, Phase::Idle) || self.pause_if_due(effects) {
            return;
        }
        if !self.committing.is_empty() || self.executor.instance.is_none() || !self.pending_calls().is_empty()
        {
            return;
        }
        if let Some(LogEntry::Step { step, .. }) = self.log.last() {
            if step.stop == StopReason::OutputFull {
                let message = "The answer is not complete: it reached the model's output limit for one step.";
                self.fail_with(ErrorCode::OutputExhausted, message);
            }
            let ending = self.ending.get_or_insert(AnswerEnding::Done).clone();
            self.end_turn(ending, effects);
        } else if self.next_step_number() >= self.setup.steps_max {
            let message = "The answer was ended: it took more steps than allowed.";
            self.fail_with(ErrorCode::TooManySteps, message);
            self.advance_turn(effects);
        } else {
            self.transcript.trim_results();
            self.reserve_step(PendingStep::default(), effects);
        }
    }

    /// Returns the ending after a step that was declined or filtered, whose calls are not run.
    fn ending_of_declined_step(&self) -> Option<AnswerEnding> {
        let Some(LogEntry::Step { step, .. }) = self.log.last() else { return None };
        match step.stop {
            StopReason::Filtered => Some(AnswerEnding::Failed(AnswerFailure {
                code: ErrorCode::ModelRefused,
                message: "The answer is not complete: a filter of the model's server cut it off.".to_owned(),
            })),
            StopReason::Refused => Some(AnswerEnding::Done),
            StopReason::Done | StopReason::Calls | StopReason::OutputFull | StopReason::Stopped => None,
        }
    }

    /// Ends the turn, unless a commit is in progress, whose result comes first.
    fn end_when_durable(&mut self, ending: AnswerEnding, effects: &mut Vec<TurnEffect>) {
        let busy = match self.phase {
            Phase::Committing { .. }
            | Phase::Reserving { .. }
            | Phase::Pausing
            | Phase::Naming
            | Phase::Ending
            | Phase::Over => true,
            Phase::Idle | Phase::Streaming { .. } | Phase::BackingOff { .. } => !self.committing.is_empty(),
        };
        if !busy {
            self.end_turn(ending, effects);
        } else if matches!(self.phase, Phase::Streaming { .. }) {
            effects.push(TurnEffect::CancelModel);
        }
    }

    fn next_step_number(&self) -> u32 {
        let steps = self.log.iter().filter(|entry| matches!(entry, LogEntry::Step { .. })).count();
        u32::try_from(steps).unwrap_or(u32::MAX)
    }

    fn publish_change(&mut self, change: AnswerChange, effects: &mut Vec<TurnEffect>) {
        self.revision += 1;
        let stamp = RevisionStamp { epoch: self.setup.epoch, revision: self.revision };
        if self.answer.fold_change(stamp, change.clone()) {
            effects.push(TurnEffect::Publish(stamp, change));
        }
    }

    fn apply_reservation(
        &mut self,
        number: u32,
        attempt: u32,
        outcome: Result<(), Shortage>,
        effects: &mut Vec<TurnEffect>,
    ) {
        let Phase::Reserving { step } = &self.phase else { return };
        if number != self.next_step_number() || attempt != step.attempt {
            return;
        }
        let step = step.clone();
        if let Err(shortage) = outcome {
            self.phase = Phase::Idle;
            let (code, message) = types::of_shortage(shortage);
            return self.fail_with(code, message);
        }
        let held = self.max_cost(&step);
        self.call_model(step, held, effects);
    }

    fn call_model(&mut self, step: PendingStep, held: Credits, effects: &mut Vec<TurnEffect>) {
        if self.ending.is_some() {
            self.phase = Phase::Idle;
            return;
        }
        let number = self.next_step_number();
        // Citations of an earlier attempt are removed.
        if step.plan.is_none() {
            self.publish_change(AnswerChange::StepBegan { number }, effects);
            self.next_source = self.answer.last_source() + 1;
        }
        effects.push(TurnEffect::CallModel {
            number,
            attempt: step.attempt,
            transcript: self.shown_items(&step),
            tools: step.plan.is_none() && number + 1 < self.setup.steps_max,
            output_max_tokens: self.output_max_tokens(&step),
        });
        self.phase = Phase::Streaming { step, held, draft: Draft::default() };
    }

    fn model_delta(&mut self, number: u32, attempt: u32, event: StepEvent, effects: &mut Vec<TurnEffect>) {
        let next = self.next_step_number();
        let log = &self.log;
        let Phase::Streaming { step, draft, .. } = &mut self.phase else { return };
        if number != next || attempt != step.attempt {
            return;
        }
        let sums_up = step.plan.is_some();
        match draft.apply_event(number, event, |id| types::is_call_of(log, id)) {
            DraftChange::Changed(_) | DraftChange::Redrawn(_) if sums_up => {}
            DraftChange::Redrawn(changes) => {
                changes.into_iter().for_each(|change| self.publish_change(change, effects));
            }
            DraftChange::Changed(change) => self.publish_change(change, effects),
            DraftChange::None => {}
            DraftChange::Finished { stop, usage } => return self.finish_step(stop, usage, effects),
        }
        let mut phase = std::mem::replace(&mut self.phase, Phase::Idle);
        if let Phase::Streaming { step: PendingStep { plan: None, .. }, draft, .. } = &mut phase {
            self.place_citations(draft, false, effects);
        }
        self.phase = phase;
    }

    fn finish_step(&mut self, stop: StopReason, usage: Option<TokenUsage>, effects: &mut Vec<TurnEffect>) {
        let Phase::Streaming { step, held, mut draft } = std::mem::replace(&mut self.phase, Phase::Idle)
        else {
            return;
        };
        effects.push(TurnEffect::CancelModel);
        if let Some(plan) = step.plan {
            return self.commit_summary(step, plan, held, draft, (stop, usage), effects);
        }
        if draft.is_empty() && stop == StopReason::OutputFull {
            // A retry would fail in the same way.
            self.phase = Phase::Streaming { step, held, draft };
            let message =
                "The answer was ended: the model reached its output limit before it wrote any text.";
            return self.fail_with(ErrorCode::OutputExhausted, message);
        }
        if draft.is_empty() && matches!(stop, StopReason::Refused | StopReason::Filtered) {
            // A retry would be declined again.
            self.phase = Phase::Streaming { step, held, draft };
            return self.fail_with(ErrorCode::ModelRefused, "The model declined to answer this question.");
        }
        // A model that wrote its answer before its last calls may add nothing to it.
        if draft.is_empty() && !(stop == StopReason::Done && self.has_text()) {
            let error =
                StepError::Unavailable { reason: "the model returned nothing".to_owned(), retry_after: None };
            let attempt = step.attempt;
            self.phase = Phase::Streaming { step, held, draft };
            return self.model_failed(self.next_step_number(), attempt, error, 0, effects);
        }
        let usage = draft.completed_usage(usage, self.input_tokens(&step));
        let (bill, cost) = self.bill.settle_step(self.setup.price, usage, held);
        self.place_citations(&mut draft, true, effects);
        let mut finished = draft.into_step(stop, usage);
        finished.awaited = self.find_awaited(&finished);
        let entry = self.step_entry(finished);
        effects.push(TurnEffect::CommitStep { entry: entry.clone(), cost, bill });
        self.phase = Phase::Committing { entry, bill, then: None };
    }

    /// Returns true if an earlier step of the answer has text.
    fn has_text(&self) -> bool {
        self.log.iter().any(|entry| match entry {
            LogEntry::Step { step, .. } => step
                .blocks
                .iter()
                .any(|block| matches!(block, OutputBlock::Text(text) if !text.trim().is_empty())),
            _ => false,
        })
    }

    fn step_entry(&self, step: Step) -> LogEntry {
        let instance = self.executor.instance.unwrap_or(InstanceId::from_random(0));
        LogEntry::Step { number: self.next_step_number(), step: Arc::new(step), instance }
    }

    fn model_failed(
        &mut self,
        number: u32,
        attempt: u32,
        error: StepError,
        jitter: u64,
        effects: &mut Vec<TurnEffect>,
    ) {
        let Phase::Streaming { step, held, draft } = &self.phase else { return };
        if number != self.next_step_number() || attempt != step.attempt {
            return;
        }
        match &error {
            StepError::Unavailable { retry_after, .. } => {
                match pause_after(step.tries, *retry_after, jitter) {
                    Some(wait) => {
                        let step = step.next_attempt();
                        let attempt = step.attempt;
                        self.phase = Phase::BackingOff { step, held: *held, draft: draft.clone() };
                        effects.push(TurnEffect::BackOff { number, attempt, wait });
                    }
                    None => {
                        let message =
                            format!("The answer was ended: the model{} did not answer.", self.of_whom());
                        self.fail_with(ErrorCode::ModelUnavailable, &message);
                    }
                }
            }
            StepError::TimedOut { had_begun: true, .. } if step.stalls < STALLS_MAX => {
                let mut step = step.next_attempt();
                step.stalls += 1;
                let attempt = step.attempt;
                let wait = pause_after(step.tries - 1, None, jitter).unwrap_or_default();
                self.phase = Phase::BackingOff { step, held: *held, draft: draft.clone() };
                effects.push(TurnEffect::BackOff { number, attempt, wait });
            }
            StepError::TimedOut { .. } => {
                let message =
                    format!("The answer was ended: the model{} did not answer in time.", self.of_whom());
                self.fail_with(ErrorCode::ModelUnavailable, &message);
            }
            StepError::TooLong => {
                let (step, held) = (step.clone(), *held);
                self.too_long(step, held, effects);
            }
            StepError::Rejected { refused, .. } => {
                let (code, what) = types::of_rejection(*refused);
                let message =
                    format!("The answer was ended: the server of the model{} {what}", self.of_whom());
                self.fail_with(code, &message);
            }
        }
    }

    fn of_whom(&self) -> String {
        self.provider.map_or_else(String::new, |provider| format!(" of {}", provider.as_str()))
    }

    fn backoff_elapsed(&mut self, number: u32, attempt: u32, effects: &mut Vec<TurnEffect>) {
        let Phase::BackingOff { step, held, .. } = &self.phase else { return };
        if number == self.next_step_number() && attempt == step.attempt {
            let (step, held) = (step.clone(), *held);
            self.call_model(step, held, effects);
        }
    }

    fn step_committed(&mut self, number: u32, summary: bool, effects: &mut Vec<TurnEffect>) {
        let Phase::Committing { then, .. } = &self.phase else { return };
        if number != self.next_step_number() || summary != then.is_some() {
            return;
        }
        let Phase::Committing { entry, bill, then } = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        self.bill = bill;
        self.transcript.add_log_entry(&entry);
        self.log.push(entry);
        if self.ending.is_some() {
            return;
        }
        match then {
            // The pending step comes after its summary.
            Some(step) => self.reserve_step(step, effects),
            None => {
                if let Some(instance) = self.executor.session.connected_instance() {
                    self.report_interrupted(instance, effects);
                }
            }
        }
    }

    fn fail_with(&mut self, code: ErrorCode, message: &str) {
        if self.ending.is_none() {
            self.ending = Some(AnswerEnding::Failed(AnswerFailure { code, message: message.to_owned() }));
        }
    }

    fn end_turn(&mut self, ending: AnswerEnding, effects: &mut Vec<TurnEffect>) {
        let (mut cost, mut bill, mut partial) = (Credits::default(), self.bill, None);
        match std::mem::replace(&mut self.phase, Phase::Ending) {
            Phase::Streaming { step, held, mut draft } => {
                effects.push(TurnEffect::CancelModel);
                if step.plan.is_none() {
                    self.place_citations(&mut draft, true, effects);
                }
                let stopped = matches!(ending, AnswerEnding::Stopped);
                let usage = draft.estimated_usage(self.input_tokens(&step));
                if stopped && usage.output_tokens > 0 {
                    (bill, cost) = self.bill.settle_step(self.setup.price, usage, held);
                }
                let written = draft.into_step(StopReason::Stopped, usage);
                partial = match step.plan {
                    None => (usage.output_tokens > 0).then(|| self.step_entry(written)),
                    // An interrupted summary is paid for and covers nothing.
                    Some(_) => (cost > Credits(0)).then(|| self.summary_entry(u32::MAX, written)),
                };
            }
            Phase::BackingOff { step: PendingStep { plan: Some(_), .. }, .. } => {}
            Phase::BackingOff { mut draft, .. } => {
                self.place_citations(&mut draft, true, effects);
                let usage = draft.estimated_usage(0);
                partial = (usage.output_tokens > 0)
                    .then(|| self.step_entry(draft.into_step(StopReason::Stopped, usage)));
            }
            Phase::Idle
            | Phase::Reserving { .. }
            | Phase::Committing { .. }
            | Phase::Pausing
            | Phase::Naming
            | Phase::Ending
            | Phase::Over => {}
        }
        let mut final_effects = Vec::new();
        self.publish_change(AnswerChange::Ended(ending.clone()), &mut final_effects);
        // Only once the completion is durable: another lease of an uncompleted answer would need the results.
        for call in self.executor.session.take_calls() {
            final_effects.push(TurnEffect::Send(HostFrame::Cancel { call }));
        }
        self.final_effects = final_effects;
        let answer = self.answer.clone();
        effects.push(TurnEffect::Complete(Box::new(TurnCompletion { partial, cost, bill, ending, answer })));
    }
}

fn machine_failed(reason: &str) -> String {
    format!("The answer was ended: the machine could not continue ({reason}).")
}
