//! The invariants of effectful calls: each runs once, and the calls of a step run in order.

use domain::answer::LogEntry;
use domain::id::MessageId;
use domain::step::{CallResult, StepCall, StepOutcome};
use domain::turn::host::ToolRouter;

use super::{SimulationWorld, TurnKey};
use crate::store::SimulatedToolRouter;

impl SimulationWorld {
    pub(super) fn count_effect(&mut self, answer: MessageId, call: &str) {
        let runs = self.effects.entry((answer, call.to_owned())).or_default();
        *runs += 1;
        assert_eq!(*runs, 1, "an effectful call ran twice");
        self.check_order(answer, call);
    }

    /// Checks that the effectful calls of a step run one after another in the step's order, on either side.
    fn check_order(&mut self, answer: MessageId, call: &str) {
        let log = &self.store.rows[&answer].log;
        let of_call = |entry: &LogEntry| matches!(entry, LogEntry::Step { step, .. } if step.tool_calls().any(|one| one.id == call));
        let at = log.iter().rposition(of_call).expect("only calls of committed steps run");
        let LogEntry::Step { step, .. } = &log[at] else { unreachable!("found as a step") };
        let ahead: Vec<&StepCall> = step.tool_calls().take_while(|one| one.id != call).collect();
        let tool = step.tool_calls().find(|one| one.id == call).map(|one| one.tool.as_str());
        for earlier in ahead.into_iter().filter(|one| !SimulatedToolRouter.is_repeatable(&one.tool)) {
            let of_earlier = |entry: &LogEntry| matches!(entry, LogEntry::Result { result, .. } if result.call == earlier.id);
            let over =
                log[at..].iter().any(of_earlier) || self.finished.contains(&(answer, earlier.id.clone()));
            assert!(over, "an effectful call ran before the one ahead of it was over");
            self.handovers += u64::from(Some(earlier.tool.as_str()) != tool);
        }
    }

    /// Checks that a machine's call is interrupted only if the instance of its step is lost.
    pub(super) fn check_interrupted(&self, at: TurnKey, result: &CallResult) {
        if result.outcome != StepOutcome::Interrupted || SimulatedToolRouter.runs_on_host(&result.tool) {
            return;
        }
        let row = &self.store.rows[&at.answer];
        if row.epoch != at.epoch {
            return; // rejected: another lease holds the answer
        }
        let step = row.log.iter().rev().find_map(|entry| match entry {
            LogEntry::Step { number, instance, .. } => Some((*number, *instance)),
            LogEntry::Result { .. } | LogEntry::Summary { .. } => None,
        });
        let paused = row.pause.last.filter(|last| step.is_some_and(|(number, _)| number == last.step));
        let named = paused.map_or(step.map(|(_, instance)| instance), |last| last.instance);
        let is_there = self.machine.up && named == Some(self.machine.instance_id());
        assert!(!is_there, "a call is interrupted although its machine runs");
    }
}
