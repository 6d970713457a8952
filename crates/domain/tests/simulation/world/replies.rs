//! The outside of the simulated world: replies to the calls of paused answers, in time, late, twice, different or never.

use domain::answer::{AnswerEnding, AnswerFailure, ErrorCode, LogEntry};
use domain::id::MessageId;
use domain::pause::CallReply;
use domain::step::{AwaitedCall, CallResult, ReplyKind, StepOutcome};
use domain::turn::host::TurnCompletion;

use super::{PAUSE, SimulationWorld, TurnKey, What};
use crate::store::SimulatedToolRouter;
use domain::turn::host::ToolRouter;

impl SimulationWorld {
    /// Plans the replies to the calls of an answer that was just paused.
    pub(super) fn plan_replies(&mut self, answer: MessageId, calls: &[AwaitedCall]) {
        self.pauses += 1;
        for AwaitedCall { call, kind } in calls {
            let reply = self.next_reply(*kind);
            let spread = if self.rng.roll_percent(90) { PAUSE / 3 } else { 2 * PAUSE };
            let once = |reply| What::Reply { answer, call: call.clone(), reply };
            self.schedule_after(1, spread, once(reply.clone()));
            if self.rng.roll_percent(20) {
                self.schedule_after(1, PAUSE, once(reply));
            }
            if self.rng.roll_percent(15) {
                let other = self.next_reply(*kind);
                self.schedule_after(1, PAUSE, once(other));
            }
        }
    }

    fn next_reply(&mut self, kind: ReplyKind) -> CallReply {
        let text = "o".repeat(self.rng.next_below(500) as usize);
        match kind {
            ReplyKind::Function => CallReply::Output { text, failed: self.rng.roll_percent(20) },
            ReplyKind::Question => CallReply::Output { text, failed: false },
            ReplyKind::Approval if self.rng.roll_percent(70) => CallReply::Approved,
            ReplyKind::Approval => CallReply::Refused { reason: text },
        }
    }

    pub(super) fn give_reply(&mut self, answer: MessageId, call: &str, reply: CallReply) {
        let now = self.now;
        let row = self.store.rows.get_mut(&answer).expect("a paused answer has a row");
        let before = row.pause.reply_to(call).cloned();
        let is_gone = row.ending.is_some() || row.stop;
        if before.is_none() && is_gone {
            return;
        }
        let taken = row.pause.take_reply(call, reply.clone(), now);
        assert_eq!(
            taken && before.is_some(),
            before == Some(reply),
            "only an equal second reply is accepted"
        );
        self.replies += u64::from(taken && before.is_none());
        self.late_replies += u64::from(!taken);
    }

    /// Checks that a call runs only with the user's permission, if it needs one.
    pub(super) fn check_permitted(&self, answer: MessageId, call: &str, tool: &str) {
        if ["sign", "registry__pay", "open"].contains(&tool) {
            let reply = self.store.rows[&answer].pause.reply_to(call);
            assert_eq!(reply, Some(&CallReply::Approved), "a call ran without permission");
        }
    }

    /// Checks that a result agrees with the reply to its call, and that nothing is interrupted that cannot have begun.
    pub(super) fn check_replied(&self, at: TurnKey, result: &CallResult) {
        let row = &self.store.rows[&at.answer];
        if row.epoch != at.epoch || row.lease.is_none() {
            return; // rejected
        }
        if ["function", "ask_user"].contains(&result.tool.as_str()) {
            let Some(CallReply::Output { text, failed }) = row.pause.reply_to(&result.call) else {
                panic!("a result without a reply")
            };
            let outcome = if *failed { StepOutcome::Failed } else { StepOutcome::Done };
            assert_eq!((&result.text, result.outcome), (text, outcome), "the first reply is the result");
        }
        let is_unnamed = row.pause.last.is_some_and(|last| {
            let steps = row.log.iter().filter(|entry| matches!(entry, LogEntry::Step { .. })).count();
            last.instance.is_none() && last.step as usize + 1 == steps
        });
        if is_unnamed && !SimulatedToolRouter.is_repeatable(&result.tool) {
            assert_ne!(result.outcome, StepOutcome::Interrupted, "a call is interrupted that has not begun");
        }
    }

    /// Checks that an answer ends for a missing reply only when its time is over.
    pub(super) fn check_overdue(&mut self, at: TurnKey, completion: &TurnCompletion) {
        let overdue =
            AnswerEnding::Failed(AnswerFailure { code: ErrorCode::ReplyOverdue, message: String::new() });
        let is_overdue = match (&completion.ending, &overdue) {
            (AnswerEnding::Failed(error), AnswerEnding::Failed(overdue)) => error.code == overdue.code,
            _ => false,
        };
        let row = &self.store.rows[&at.answer];
        if is_overdue && row.epoch == at.epoch && row.ending.is_none() {
            assert!(row.pause.until.is_some_and(|until| until <= self.now), "it had time left");
            assert!(row.pause.lacks_reply(), "each call has its reply");
            self.expiries += 1;
        }
    }
}
