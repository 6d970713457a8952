//! The host's side of a turn: transcript, step log, bill and answer.
//!
//! ```text
//!            Wanted              Reserved              Finished               StepCommitted
//!   Idle ------------> Reserving ---------> Saying ---------------> Committing ------------> Idle
//!                                            |  ^                                             |
//!                                   SayFailed|  |PauseOver                                    | Done, stop, failure
//!                                            v  |                                             v
//!                                          Pausing                                          Ending -> Over
//! ```
//!
//! Where what is shown has become too long, a step that sums it up goes the same way before the one that is wanted
//! ([`summary`]): it is in the log before the other is said.
//!
//! The link to the agent comes and goes beside these phases: a step is said to its end without one. Each new
//! link begins with `Open`, once nothing is being committed, so that it tells the truth.

mod calls;
mod cited;
mod context;
mod draft;
mod frames;
mod reservation;
mod summary;
#[cfg(test)]
mod tests;
mod transcript;
mod words;

use std::sync::Arc;

pub use reservation::first_reservation;
pub use transcript::Exchange;
pub use words::{Completion, Effect, Event, Hosted, Setup};

use self::draft::{Draft, Grown};
use self::summary::Task;
use self::transcript::Transcript;
use super::backoff::pause_after;
use super::{HostFrame, LinkStamp, Open};
use crate::answer::{Answer, AnswerError, Change, Ending, ErrorCode, LogEntry, Stamp};
use crate::catalog::ProviderName;
use crate::credits::{Bill, Credits, Shortage};
use crate::id::InstanceId;
use crate::step::{CallResult, Step, StepError, StepEvent, StopReason, Usage};

/// How often an agent may break the protocol before its machine counts as failed.
const VIOLATIONS_MAX: u32 = 3;

#[derive(Debug, Clone)]
enum Phase {
    Idle,
    Reserving { task: Task },
    Saying { task: Task, held: Credits, draft: Draft },
    Pausing { task: Task, held: Credits, draft: Draft },
    Committing { entry: LogEntry, bill: Bill, then: Option<Task> },
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
    bill: Bill,
    phase: Phase,
    link: Option<InstanceId>,
    /// The last life of the agent that a link led to: steps that are committed belong to it.
    instance: Option<InstanceId>,
    opened: bool,
    links: u32,
    violations: u32,
    /// Frames of the agent in a row that were not due.
    undue: u32,
    /// Calls of which the agent was told to wait for them, and that it is to run later.
    withheld: Vec<String>,
    /// Calls that the host was told to run in this lease.
    running: Vec<String>,
    /// Results that are being committed.
    committing: Vec<Arc<CallResult>>,
    next_source: u32,
    ending: Option<Ending>,
    /// The end as it is published once it is durable.
    last_words: Vec<Effect>,
    revision: u64,
    /// Whose model answers, where it is known.
    provider: Option<ProviderName>,
}

impl Turn {
    /// The turn as the store tells it.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let log = setup.present.log.clone();
        let mut answer = Answer::rebuild(setup.answer, &setup.present.attachments, &log, None);
        answer.stamp = Stamp { epoch: setup.epoch, revision: 0 };
        let next_source = last_source(&answer) + 1;
        Self {
            transcript: Transcript::new(
                &setup.earlier,
                &setup.present,
                setup.overhead_tokens,
                setup.context_tokens,
            ),
            bill: setup.bill,
            ending: setup.stop.then_some(Ending::Stopped),
            setup,
            answer,
            log,
            phase: Phase::Idle,
            link: None,
            instance: None,
            opened: false,
            links: 0,
            violations: 0,
            undue: 0,
            withheld: Vec::new(),
            running: Vec::new(),
            committing: Vec::new(),
            next_source,
            last_words: Vec::new(),
            revision: 0,
            provider: None,
        }
    }

    /// Says whose model answers: failures of it name its provider.
    pub fn answered_by(&mut self, provider: ProviderName) {
        self.provider = Some(provider);
    }

    /// What every further request has besides the transcript, and what that leaves for it: tools may become known late.
    pub fn weigh(&mut self, overhead_tokens: u64, context_tokens: u64) {
        self.setup.overhead_tokens = overhead_tokens;
        self.setup.context_tokens = context_tokens;
        self.transcript.weigh(overhead_tokens, context_tokens);
    }

    /// The answer as it stands.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// What is committed of it.
    #[must_use]
    pub fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Whether nothing is under way: the next move is the agent's, or that of whoever ends it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.committing.is_empty()
    }

    /// Whether the next move is the agent's, and it knows: it has a call to run, or it is to say how the answer goes on.
    #[must_use]
    pub fn awaits_agent(&self) -> bool {
        self.opened && self.needs_agent()
    }

    /// Whether the next move is the agent's, whether or not there is a link to it.
    #[must_use]
    pub fn needs_agent(&self) -> bool {
        let is_next = self.ending.is_none() && self.is_idle();
        is_next && (self.pending().is_empty() || self.is_agent_due())
    }

    /// Whether a link to the agent is worth having.
    #[must_use]
    pub fn wants_link(&self) -> bool {
        self.link.is_none() && self.ending.is_none() && !matches!(self.phase, Phase::Ending | Phase::Over)
    }

    /// What the turn wants before anything has happened: an answer that was stopped already ends.
    pub fn begin(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.report_cut(&mut effects);
        self.run_hosted(&mut effects);
        self.settle(&mut effects);
        effects
    }

    /// Takes one event. Events that repeat what is known, or are of another step or attempt, change nothing.
    pub fn on(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.is_over() {
            return effects;
        }
        match event {
            Event::Linked(instance) => self.linked(instance, &mut effects),
            Event::Unlinked => self.unlinked(),
            Event::MachineFailed(reason) => self.fail(ErrorCode::MachineFailed, &machine_failed(&reason)),
            Event::Agent(frame) => self.heard(frame, &mut effects),
            Event::Violation => self.violated(&mut effects),
            Event::Reserved { number, attempt, outcome } => {
                self.reserved(number, attempt, outcome, &mut effects);
            }
            Event::Said { number, attempt, event } => self.said(number, attempt, event, &mut effects),
            Event::SayFailed { number, attempt, error, jitter } => {
                self.say_failed(number, attempt, error, jitter, &mut effects);
            }
            Event::PauseOver { number, attempt } => self.pause_over(number, attempt, &mut effects),
            Event::Reported { call, keep, text } => {
                if self.ending.is_none() && self.running.contains(&call) {
                    self.publish(Change::Reported { call, keep, text }, &mut effects);
                }
            }
            Event::Hosted { call, output } => {
                self.returned(&call, output, true, &mut effects);
            }
            Event::StepCommitted { number, summary } => self.step_committed(number, summary, &mut effects),
            Event::ResultCommitted { call } => self.result_committed(&call, &mut effects),
            Event::Completed => {
                if matches!(self.phase, Phase::Ending) {
                    self.phase = Phase::Over;
                    effects.append(&mut self.last_words);
                    effects.push(Effect::Leave);
                }
            }
            Event::StopRequested => {
                if self.ending.is_none() {
                    self.ending = Some(Ending::Stopped);
                }
            }
            Event::Fenced => {
                self.phase = Phase::Over;
                effects.extend([Effect::Hush, Effect::Leave]);
            }
        }
        self.settle(&mut effects);
        effects
    }

    fn next(&self) -> u32 {
        let steps = self.log.iter().filter(|entry| matches!(entry, LogEntry::Step { .. })).count();
        u32::try_from(steps).unwrap_or(u32::MAX)
    }

    fn publish(&mut self, change: Change, effects: &mut Vec<Effect>) {
        self.revision += 1;
        let stamp = Stamp { epoch: self.setup.epoch, revision: self.revision };
        if self.answer.fold(stamp, change.clone()) {
            effects.push(Effect::Publish(stamp, change));
        }
    }

    fn linked(&mut self, instance: InstanceId, effects: &mut Vec<Effect>) {
        self.link = Some(instance);
        self.instance = Some(instance);
        self.links += 1;
        self.opened = false;
        self.undue = 0;
        if matches!(self.phase, Phase::Committing { .. }) {
            return; // the calls of that step are looked at when it is in the log
        }
        self.report_interrupted(instance, effects);
    }

    fn unlinked(&mut self) {
        self.link = None;
        self.opened = false;
    }

    fn violated(&mut self, effects: &mut Vec<Effect>) {
        self.violations += 1;
        self.unlinked();
        if self.violations >= VIOLATIONS_MAX {
            self.fail(ErrorCode::MachineFailed, &machine_failed("the agent does not keep to the protocol"));
        } else {
            effects.push(Effect::Relink);
        }
    }

    fn reserved(
        &mut self,
        number: u32,
        attempt: u32,
        outcome: Result<(), Shortage>,
        effects: &mut Vec<Effect>,
    ) {
        let Phase::Reserving { task } = &self.phase else { return };
        if number != self.next() || attempt != task.attempt {
            return;
        }
        let task = task.clone();
        if let Err(shortage) = outcome {
            self.phase = Phase::Idle;
            let (code, told) = words::of_shortage(shortage);
            return self.fail(code, told);
        }
        let held = self.greatest(&task);
        self.say(task, held, effects);
    }

    fn say(&mut self, task: Task, held: Credits, effects: &mut Vec<Effect>) {
        if self.ending.is_some() {
            self.phase = Phase::Idle;
            return;
        }
        let number = self.next();
        // What an attempt before this one cited is gone.
        if task.plan.is_none() {
            self.publish(Change::StepBegan { number }, effects);
            self.next_source = last_source(&self.answer) + 1;
        }
        effects.push(Effect::Say {
            number,
            attempt: task.attempt,
            transcript: self.shown(&task),
            tools: task.plan.is_none() && number + 1 < self.setup.steps_max,
            output_max_tokens: self.output_max_tokens(&task),
        });
        self.phase = Phase::Saying { task, held, draft: Draft::default() };
    }

    fn said(&mut self, number: u32, attempt: u32, event: StepEvent, effects: &mut Vec<Effect>) {
        let next = self.next();
        let log = &self.log;
        let Phase::Saying { task, draft, .. } = &mut self.phase else { return };
        if number != next || attempt != task.attempt {
            return;
        }
        let sums_up = task.plan.is_some();
        match draft.grow(number, event, |id| is_call_of(log, id)) {
            Grown::Changed(_) if sums_up => {}
            Grown::Changed(change) => self.publish(change, effects),
            Grown::Quietly => {}
            Grown::Finished { stop, usage } => return self.finished(stop, usage, effects),
        }
        let mut phase = std::mem::replace(&mut self.phase, Phase::Idle);
        if let Phase::Saying { task: Task { plan: None, .. }, draft, .. } = &mut phase {
            self.cite(draft, false, effects);
        }
        self.phase = phase;
    }

    fn finished(&mut self, stop: StopReason, usage: Option<Usage>, effects: &mut Vec<Effect>) {
        let Phase::Saying { task, held, mut draft } = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        effects.push(Effect::Hush);
        if let Some(plan) = task.plan {
            return self.summed_up(task, plan, held, draft, (stop, usage), effects);
        }
        if draft.is_empty() && stop == StopReason::OutputFull {
            // It would go the same way again.
            self.phase = Phase::Saying { task, held, draft };
            let message =
                "The answer was ended: the model used up all that it may put out before it said anything.";
            return self.fail(ErrorCode::OutputExhausted, message);
        }
        if draft.is_empty() && stop == StopReason::Refused {
            // Nor would it say another time what it does not want to say.
            self.phase = Phase::Saying { task, held, draft };
            return self.fail(ErrorCode::ModelRefused, "The model declined to answer this question.");
        }
        if draft.is_empty() {
            let error =
                StepError::Unavailable { reason: "the model said nothing".to_owned(), retry_after: None };
            let attempt = task.attempt;
            self.phase = Phase::Saying { task, held, draft };
            return self.say_failed(self.next(), attempt, error, 0, effects);
        }
        let usage = usage.unwrap_or_else(|| draft.estimated_usage(self.input_tokens(&task)));
        let (bill, cost) = self.bill.settle(self.setup.price, usage, held);
        self.cite(&mut draft, true, effects);
        let entry = self.entry(draft.into_step(stop, usage));
        effects.push(Effect::CommitStep { entry: entry.clone(), cost, bill });
        self.phase = Phase::Committing { entry, bill, then: None };
    }

    fn entry(&self, step: Step) -> LogEntry {
        let instance = self.instance.unwrap_or(InstanceId::from_random(0));
        LogEntry::Step { number: self.next(), step: Arc::new(step), instance }
    }

    fn say_failed(
        &mut self,
        number: u32,
        attempt: u32,
        error: StepError,
        jitter: u64,
        effects: &mut Vec<Effect>,
    ) {
        let Phase::Saying { task, held, draft } = &self.phase else { return };
        if number != self.next() || attempt != task.attempt {
            return;
        }
        match &error {
            StepError::Unavailable { retry_after, .. } => {
                match pause_after(task.tries, *retry_after, jitter) {
                    Some(wait) => {
                        let task = task.again();
                        let attempt = task.attempt;
                        self.phase = Phase::Pausing { task, held: *held, draft: draft.clone() };
                        effects.push(Effect::Pause { number, attempt, wait });
                    }
                    None => {
                        let message =
                            format!("The answer was ended: the model{} did not answer.", self.of_whom());
                        self.fail(ErrorCode::ModelUnavailable, &message);
                    }
                }
            }
            StepError::TooLong => {
                let (task, held) = (task.clone(), *held);
                self.too_long(task, held, effects);
            }
            StepError::Rejected { .. } => {
                let message = format!(
                    "The answer was ended: the server of the model{} refused the request.",
                    self.of_whom()
                );
                self.fail(ErrorCode::ModelRejected, &message);
            }
        }
    }

    fn of_whom(&self) -> String {
        self.provider.map_or_else(String::new, |provider| format!(" of {}", provider.as_str()))
    }

    fn pause_over(&mut self, number: u32, attempt: u32, effects: &mut Vec<Effect>) {
        let Phase::Pausing { task, held, .. } = &self.phase else { return };
        if number == self.next() && attempt == task.attempt {
            let (task, held) = (task.clone(), *held);
            self.say(task, held, effects);
        }
    }

    fn step_committed(&mut self, number: u32, summary: bool, effects: &mut Vec<Effect>) {
        let Phase::Committing { then, .. } = &self.phase else { return };
        if number != self.next() || summary != then.is_some() {
            return;
        }
        let Phase::Committing { entry, bill, then } = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        self.bill = bill;
        let note = self.transcript.add(&entry);
        self.log.push(entry);
        if self.ending.is_some() {
            return;
        }
        let Some(note) = note else {
            // What it was made for can be said now.
            if let Some(task) = then {
                self.reserve(task, effects);
            }
            return;
        };
        if self.opened {
            let calls = self.notes();
            effects.push(Effect::Send(HostFrame::Step { number, entry: note, calls }));
        } else if let Some(instance) = self.link {
            self.report_interrupted(instance, effects);
        }
        self.run_hosted(effects);
    }

    fn fail(&mut self, code: ErrorCode, message: &str) {
        if self.ending.is_none() {
            self.ending = Some(Ending::Failed(AnswerError { code, message: message.to_owned() }));
        }
    }

    /// Ends the turn when it is to end and nothing is being committed; else opens a fresh link.
    fn settle(&mut self, effects: &mut Vec<Effect>) {
        let busy = matches!(
            self.phase,
            Phase::Committing { .. } | Phase::Reserving { .. } | Phase::Ending | Phase::Over
        );
        if let Some(ending) = self.ending.clone() {
            if !busy && self.committing.is_empty() {
                self.end(ending, effects);
            } else if matches!(self.phase, Phase::Saying { .. }) {
                effects.push(Effect::Hush);
            }
            return;
        }
        let committing = matches!(self.phase, Phase::Committing { .. }) || !self.committing.is_empty();
        if self.link.is_some()
            && !self.opened
            && !committing
            && !matches!(self.phase, Phase::Ending | Phase::Over)
        {
            self.opened = true;
            let open = self.open();
            effects.push(Effect::Send(HostFrame::Open(open)));
        }
    }

    fn open(&mut self) -> Open {
        let pending = self.notes();
        Open {
            answer: self.setup.answer,
            link: LinkStamp { epoch: self.setup.epoch, link: self.links },
            entries: self.transcript.notes(),
            pending,
            next: self.next(),
            saying: !matches!(self.phase, Phase::Idle),
            // What is left out is decided here: the agent wants all that there is.
            context_tokens: super::ALL_TOKENS,
            attached: self.setup.files.clone(),
        }
    }

    fn end(&mut self, ending: Ending, effects: &mut Vec<Effect>) {
        let (mut cost, mut bill, mut partial) = (Credits::default(), self.bill, None);
        match std::mem::replace(&mut self.phase, Phase::Ending) {
            Phase::Saying { task, held, mut draft } => {
                effects.push(Effect::Hush);
                if task.plan.is_none() {
                    self.cite(&mut draft, true, effects);
                }
                let stopped = matches!(ending, Ending::Stopped);
                let usage = draft.estimated_usage(self.input_tokens(&task));
                if stopped && usage.output_tokens > 0 {
                    (bill, cost) = self.bill.settle(self.setup.price, usage, held);
                }
                let step = draft.into_step(StopReason::Stopped, usage);
                partial = match task.plan {
                    None => (usage.output_tokens > 0).then(|| self.entry(step)),
                    // It is paid for, and sums nothing up.
                    Some(_) => (cost > Credits(0)).then(|| self.summary(u32::MAX, step)),
                };
            }
            Phase::Pausing { task: Task { plan: Some(_), .. }, .. } => {}
            Phase::Pausing { mut draft, .. } => {
                self.cite(&mut draft, true, effects);
                let usage = draft.estimated_usage(0);
                partial = (usage.output_tokens > 0)
                    .then(|| self.entry(draft.into_step(StopReason::Stopped, usage)));
            }
            Phase::Idle
            | Phase::Reserving { .. }
            | Phase::Committing { .. }
            | Phase::Ending
            | Phase::Over => {}
        }
        let mut last_words = Vec::new();
        self.publish(Change::Ended(ending.clone()), &mut last_words);
        // Not before the end is durable: whoever takes up an answer that was not completed needs its agent.
        if self.opened {
            last_words.push(Effect::Send(HostFrame::Close));
        }
        self.last_words = last_words;
        let answer = self.answer.clone();
        effects.push(Effect::Complete(Box::new(Completion { partial, cost, bill, ending, answer })));
    }
}

fn last_source(answer: &Answer) -> u32 {
    answer.sources.iter().map(|source| source.number).max().unwrap_or(0)
}

/// Whether an identifier is in use in the answer: for a call, or for what was read before the first step.
fn is_call_of(log: &[LogEntry], id: &str) -> bool {
    log.iter().any(|entry| match entry {
        LogEntry::Step { step, .. } => step.calls().any(|call| call.id == id),
        LogEntry::Result { result, .. } => result.call == id,
        LogEntry::Summary { .. } => false,
    })
}

fn machine_failed(reason: &str) -> String {
    format!("The answer was ended: the machine could not go on ({reason}).")
}
