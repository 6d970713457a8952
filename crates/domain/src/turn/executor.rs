//! The executor of one answer's calls, in the machine.
//!
//! ```text
//!             Run                Finished              Ack
//!   unknown ------> Running ----------------> Returned ----> acknowledged
//!                      |  Cancel, or not outstanding           ^
//!                      +----------- killed --------------------+
//! ```
//!
//! Each call runs at most once per executor. A result is retained, and sent again when a newer session
//! requests the call, until it is acknowledged. Only the host decides when a call runs.

use std::collections::{BTreeMap, BTreeSet};

use super::{CallOutput, ExecutorFrame, HostFrame, SessionOpening, SessionStamp};
use crate::step::StepCall;

/// The calls of one answer in one instance of the machine.
#[derive(Debug, Clone, Default)]
pub struct Executor {
    stamp: SessionStamp,
    calls: BTreeMap<String, ExecutorCallState>,
    /// Settled calls of this session: a repeated `Run` must not start them again. A newer session knows their
    /// results as committed and never requests them.
    settled: BTreeSet<String>,
}

#[derive(Debug, Clone)]
enum ExecutorCallState {
    Running,
    Returned(CallOutput),
}

/// An event of an executor.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorEvent {
    /// A frame of the host.
    Host {
        /// The session that it came over.
        stamp: SessionStamp,
        frame: HostFrame,
    },
    /// A started call has finished.
    Finished { call: String, output: CallOutput },
}

/// An effect of an executor.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorEffect {
    /// Send the frame over the newest session, if it is connected.
    Send(ExecutorFrame),
    Start(StepCall),
    Kill(String),
}

impl Executor {
    #[must_use]
    pub fn stamp(&self) -> SessionStamp {
        self.stamp
    }

    /// Returns `true` if it holds no call. An idle executor is still needed: its stamp invalidates older
    /// sessions.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// Handles one event. Ignores duplicate frames and frames of older sessions.
    pub fn apply_event(&mut self, event: ExecutorEvent) -> Vec<ExecutorEffect> {
        match event {
            ExecutorEvent::Host { frame: HostFrame::Open(open), .. } => self.open_session(&open),
            ExecutorEvent::Host { stamp, .. } if stamp != self.stamp => Vec::new(),
            ExecutorEvent::Host { frame: HostFrame::Run(call), .. } => self.start_call(call),
            ExecutorEvent::Host { frame: HostFrame::Ack { call } | HostFrame::Cancel { call }, .. } => {
                self.settle_call(call).into_iter().collect()
            }
            ExecutorEvent::Finished { call, output } => self.finish_call(call, output).into_iter().collect(),
        }
    }

    fn open_session(&mut self, open: &SessionOpening) -> Vec<ExecutorEffect> {
        if open.stamp <= self.stamp {
            return Vec::new();
        }
        self.stamp = open.stamp;
        self.settled.clear();
        let dropped = self.calls.keys().filter(|call| !open.outstanding.contains(call));
        let dropped: Vec<String> = dropped.cloned().collect();
        dropped.into_iter().filter_map(|call| self.settle_call(call)).collect()
    }

    fn start_call(&mut self, call: StepCall) -> Vec<ExecutorEffect> {
        match self.calls.get(&call.id) {
            Some(ExecutorCallState::Running) => Vec::new(),
            Some(ExecutorCallState::Returned(output)) => vec![returned_effect(call.id, output.clone())],
            None if self.settled.contains(&call.id) => Vec::new(),
            None => {
                self.calls.insert(call.id.clone(), ExecutorCallState::Running);
                vec![ExecutorEffect::Start(call)]
            }
        }
    }

    fn settle_call(&mut self, call: String) -> Option<ExecutorEffect> {
        let state = self.calls.remove(&call);
        let kill =
            matches!(state, Some(ExecutorCallState::Running)).then(|| ExecutorEffect::Kill(call.clone()));
        self.settled.insert(call);
        kill
    }

    fn finish_call(&mut self, call: String, output: CallOutput) -> Option<ExecutorEffect> {
        let state = self.calls.get_mut(&call)?;
        if !matches!(state, ExecutorCallState::Running) {
            return None;
        }
        *state = ExecutorCallState::Returned(output.clone());
        Some(returned_effect(call, output))
    }
}

fn returned_effect(call: String, output: CallOutput) -> ExecutorEffect {
    ExecutorEffect::Send(ExecutorFrame::Returned { call, output })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::step::{Purpose, StepOutcome};

    fn example_call(id: &str) -> StepCall {
        StepCall {
            id: id.to_owned(),
            tool: "t".to_owned(),
            arguments: "{}".to_owned(),
            purpose: Purpose::Tool,
        }
    }

    fn done_output() -> CallOutput {
        CallOutput {
            images: Vec::new(),
            outcome: StepOutcome::Done,
            text: String::new(),
            passages: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
        }
    }

    fn epoch_stamp(epoch: u64) -> SessionStamp {
        SessionStamp { epoch, session: 1 }
    }

    fn open_event(epoch: u64, outstanding: &[&str]) -> ExecutorEvent {
        let frame = HostFrame::Open(SessionOpening {
            answer: MessageId::from_random(1),
            stamp: epoch_stamp(epoch),
            outstanding: outstanding.iter().map(|call| (*call).to_owned()).collect(),
            attached: Vec::new(),
        });
        ExecutorEvent::Host { stamp: epoch_stamp(epoch), frame }
    }

    fn run_event(epoch: u64, id: &str) -> ExecutorEvent {
        ExecutorEvent::Host { stamp: epoch_stamp(epoch), frame: HostFrame::Run(example_call(id)) }
    }

    fn finished_event(id: &str) -> ExecutorEvent {
        ExecutorEvent::Finished { call: id.to_owned(), output: done_output() }
    }

    fn sent_effect(id: &str) -> ExecutorEffect {
        returned_effect(id.to_owned(), done_output())
    }

    #[test]
    fn executor_repeats_result_until_acknowledged() {
        let mut executor = Executor::default();
        executor.apply_event(open_event(1, &["w"]));
        assert_eq!(executor.apply_event(run_event(1, "w")), [ExecutorEffect::Start(example_call("w"))]);
        assert_eq!(executor.apply_event(run_event(1, "w")), [], "it runs");
        executor.apply_event(open_event(2, &["w"]));
        assert_eq!(executor.apply_event(run_event(2, "w")), [], "it still runs, for the newer session");
        assert_eq!(executor.apply_event(finished_event("w")), [sent_effect("w")]);
        executor.apply_event(open_event(3, &["w"]));
        assert_eq!(executor.apply_event(run_event(3, "w")), [sent_effect("w")]);
        let ack = HostFrame::Ack { call: "w".to_owned() };
        assert_eq!(executor.apply_event(ExecutorEvent::Host { stamp: epoch_stamp(3), frame: ack }), []);
        assert!(executor.is_idle());
        assert_eq!(executor.apply_event(run_event(3, "w")), [], "a repeated frame is ignored");
    }

    #[test]
    fn executor_ignores_older_session_frames() {
        let mut executor = Executor::default();
        executor.apply_event(open_event(2, &[]));
        assert_eq!(executor.apply_event(run_event(1, "w")), []);
        assert_eq!(executor.apply_event(open_event(1, &["w"])), []);
        assert_eq!(executor.apply_event(run_event(1, "w")), []);
        assert_eq!(executor.stamp(), epoch_stamp(2));
    }

    #[test]
    fn executor_kills_unwanted_call() {
        let mut executor = Executor::default();
        executor.apply_event(open_event(1, &["a", "b"]));
        executor.apply_event(run_event(1, "a"));
        executor.apply_event(run_event(1, "b"));
        let cancel = HostFrame::Cancel { call: "a".to_owned() };
        assert_eq!(
            executor.apply_event(ExecutorEvent::Host { stamp: epoch_stamp(1), frame: cancel }),
            [ExecutorEffect::Kill("a".to_owned())]
        );
        assert_eq!(executor.apply_event(finished_event("a")), [], "its result is dropped");
        assert_eq!(executor.apply_event(open_event(2, &[])), [ExecutorEffect::Kill("b".to_owned())]);
        assert!(executor.is_idle());
    }
}
