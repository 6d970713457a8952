//! Pauses: calls of the last step that await a reply from outside of the service.
//!
//! When nothing else of the step is left to do, the turn pauses the answer and is over. The next lease begins with the
//! replies. No other call of the step has begun by then, so that another machine instance may run the remaining ones: it
//! is named in the store before the first of them begins.

use super::{Phase, Turn, TurnEffect};
use crate::answer::{AnswerChange, LogEntry};
use crate::id::InstanceId;
use crate::pause::{CallReply, LastPause, PendingCall};
use crate::step::{AwaitedCall, CallResult, ReplyKind, Step, StepCall, StepOutcome};
use crate::time::Timestamp;

impl Turn {
    /// Returns the last step of the log with its machine instance.
    fn last_step(&self) -> Option<(&Step, InstanceId)> {
        self.log.iter().rev().find_map(|entry| match entry {
            LogEntry::Step { step, instance, .. } => Some((&**step, *instance)),
            LogEntry::Result { .. } | LogEntry::Summary { .. } => None,
        })
    }

    /// Returns the calls of a new step that await a reply. The log keeps the decision.
    pub(super) fn find_awaited(&self, step: &Step) -> Vec<AwaitedCall> {
        let awaited = |call: &StepCall| {
            let kind = self.setup.router.awaited_reply(call)?;
            Some(AwaitedCall { call: call.id.clone(), kind })
        };
        step.tool_calls().filter_map(awaited).collect()
    }

    /// Returns the kind of reply that decides a call of the last step, whether or not it has come.
    fn reply_kind(&self, call: &str) -> Option<ReplyKind> {
        self.last_step()?.0.awaited_kind(call)
    }

    /// Returns `true` if the result of the call itself comes from outside.
    pub(super) fn is_run_outside(&self, call: &str) -> bool {
        match self.reply_kind(call) {
            Some(ReplyKind::Function | ReplyKind::Question) => true,
            Some(ReplyKind::Approval) | None => false,
        }
    }

    /// Returns the kind of reply that a call of the last step still awaits.
    pub(super) fn awaited_kind(&self, call: &str) -> Option<ReplyKind> {
        self.reply_kind(call).filter(|_| self.reply_to(call).is_none())
    }

    fn reply_to(&self, call: &str) -> Option<&CallReply> {
        let given = self.setup.pause.replies.iter().find(|given| given.call == call);
        given.map(|given| &given.reply)
    }

    /// Returns the last pause, if it was in the last step.
    fn pause_of_last_step(&self) -> Option<LastPause> {
        self.setup.pause.last.filter(|last| last.step + 1 == self.next_step_number())
    }

    /// Returns the machine instance with which a pending call may have begun; `None` if it has not begun.
    pub(super) fn begun_with(&self, call: &str) -> Option<InstanceId> {
        if self.awaited_kind(call).is_some() {
            return None;
        }
        match self.pause_of_last_step() {
            Some(pause) => pause.instance,
            None => Some(self.last_step().map_or(InstanceId::from_random(0), |(_, instance)| instance)),
        }
    }

    /// Returns `true` if no effectful call of the last step may begin before an instance is named.
    pub(super) fn lacks_instance(&self) -> bool {
        self.pause_of_last_step().is_some_and(|pause| pause.instance.is_none())
    }

    /// Commits the results that replies decide. Permitted calls run like any other.
    pub(super) fn accept_replies(&mut self, effects: &mut Vec<TurnEffect>) {
        for call in self.pending_calls() {
            if self.reply_kind(&call.id).is_none() {
                continue;
            }
            let result = match self.reply_to(&call.id) {
                Some(CallReply::Output { text, failed }) => replied_result(
                    call,
                    if *failed { StepOutcome::Failed } else { StepOutcome::Done },
                    text.clone(),
                ),
                Some(CallReply::Refused { reason }) => {
                    let text = refusal_text(reason);
                    replied_result(call, StepOutcome::Failed, text)
                }
                Some(CallReply::Approved) | None => continue,
            };
            self.commit_result(result, effects);
        }
    }

    /// Names the connected instance for the remaining calls of a paused step. Without a connection, the next one is named.
    pub(super) fn name_instance(&mut self, effects: &mut Vec<TurnEffect>) {
        if let Some(instance) = self.executor.session.connected_instance() {
            self.phase = Phase::Naming;
            let number = self.next_step_number().saturating_sub(1);
            effects.push(TurnEffect::NameInstance { number, instance });
        }
    }

    /// Handles the name of an instance. If another one is connected by now, that one is named in turn: no call has begun.
    pub(super) fn instance_named(&mut self, number: u32, instance: InstanceId) {
        if !matches!(self.phase, Phase::Naming) || number + 1 != self.next_step_number() {
            return;
        }
        self.phase = Phase::Idle;
        let is_connected = self.executor.session.connected_instance() == Some(instance);
        if let Some(last) = self.setup.pause.last.as_mut().filter(|_| is_connected) {
            last.instance = Some(instance);
        }
    }

    /// Pauses if the turn waits for nothing but replies. Returns whether it does.
    pub(super) fn pause_if_due(&mut self, effects: &mut Vec<TurnEffect>) -> bool {
        let calls: Vec<AwaitedCall> = self.awaited_calls().into_iter().map(|(awaited, _)| awaited).collect();
        if calls.is_empty() || !self.committing.is_empty() || self.has_due_call() {
            return false;
        }
        self.phase = Phase::Pausing;
        effects.push(TurnEffect::Pause { number: self.next_step_number().saturating_sub(1), calls });
        true
    }

    fn awaited_calls(&self) -> Vec<(AwaitedCall, StepCall)> {
        let pending = self.pending_calls().into_iter();
        pending
            .filter_map(|call| {
                let kind = self.awaited_kind(&call.id)?;
                Some((AwaitedCall { call: call.id.clone(), kind }, call))
            })
            .collect()
    }

    /// Ends the turn after its pause is durable. The answer is not over: a later lease goes on with it.
    pub(super) fn answer_paused(&mut self, number: u32, deadline: Timestamp, effects: &mut Vec<TurnEffect>) {
        if !matches!(self.phase, Phase::Pausing) || number + 1 != self.next_step_number() {
            return;
        }
        let calls = self.awaited_calls().into_iter();
        let calls =
            calls.map(|(AwaitedCall { kind, .. }, call)| PendingCall { call, kind, deadline }).collect();
        self.publish_change(AnswerChange::Paused { calls }, effects);
        self.phase = Phase::Over;
        effects.push(TurnEffect::Finish);
    }
}

/// Creates the result of a call that a reply decides.
fn replied_result(call: StepCall, outcome: StepOutcome, text: String) -> CallResult {
    CallResult {
        images: Vec::new(),
        call: call.id,
        tool: call.tool,
        outcome,
        text,
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}

fn refusal_text(reason: &str) -> String {
    let refused =
        "The user refused this call, and it was not run. Do not try to reach the same in another way.";
    if reason.trim().is_empty() {
        refused.to_owned()
    } else {
        format!("{refused} The user's reason: {reason}")
    }
}
