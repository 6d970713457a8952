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

use super::{ExecutorFrame, HostFrame, Open, Output, SessionStamp};
use crate::step::Call;

/// The calls of one answer in one instance of the machine.
#[derive(Debug, Clone, Default)]
pub struct Executor {
    stamp: SessionStamp,
    calls: BTreeMap<String, State>,
    /// Settled calls of this session: a repeated `Run` must not start them again. A newer session knows their
    /// results as committed and never requests them.
    settled: BTreeSet<String>,
}

#[derive(Debug, Clone)]
enum State {
    Running,
    Returned(Output),
}

/// An event of an executor.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A frame of the host.
    Host {
        /// The session that it came over.
        stamp: SessionStamp,
        /// The frame.
        frame: HostFrame,
    },
    /// A started call has finished.
    Finished {
        /// The call.
        call: String,
        /// Its output.
        output: Output,
    },
}

/// An effect of an executor.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send the frame over the newest session, if it is connected.
    Send(ExecutorFrame),
    /// Start the call.
    Start(Call),
    /// Kill the call.
    Kill(String),
}

impl Executor {
    /// The newest session.
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
    pub fn on(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Host { frame: HostFrame::Open(open), .. } => self.open(&open),
            Event::Host { stamp, .. } if stamp != self.stamp => Vec::new(),
            Event::Host { frame: HostFrame::Run(call), .. } => self.run(call),
            Event::Host { frame: HostFrame::Ack { call } | HostFrame::Cancel { call }, .. } => {
                self.settle(call).into_iter().collect()
            }
            Event::Finished { call, output } => self.finished(call, output).into_iter().collect(),
        }
    }

    fn open(&mut self, open: &Open) -> Vec<Effect> {
        if open.stamp <= self.stamp {
            return Vec::new();
        }
        self.stamp = open.stamp;
        self.settled.clear();
        let dropped = self.calls.keys().filter(|call| !open.outstanding.contains(call));
        let dropped: Vec<String> = dropped.cloned().collect();
        dropped.into_iter().filter_map(|call| self.settle(call)).collect()
    }

    fn run(&mut self, call: Call) -> Vec<Effect> {
        match self.calls.get(&call.id) {
            Some(State::Running) => Vec::new(),
            Some(State::Returned(output)) => vec![returned(call.id, output.clone())],
            None if self.settled.contains(&call.id) => Vec::new(),
            None => {
                self.calls.insert(call.id.clone(), State::Running);
                vec![Effect::Start(call)]
            }
        }
    }

    fn settle(&mut self, call: String) -> Option<Effect> {
        let state = self.calls.remove(&call);
        let kill = matches!(state, Some(State::Running)).then(|| Effect::Kill(call.clone()));
        self.settled.insert(call);
        kill
    }

    fn finished(&mut self, call: String, output: Output) -> Option<Effect> {
        let state = self.calls.get_mut(&call)?;
        if !matches!(state, State::Running) {
            return None;
        }
        *state = State::Returned(output.clone());
        Some(returned(call, output))
    }
}

fn returned(call: String, output: Output) -> Effect {
    Effect::Send(ExecutorFrame::Returned { call, output })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::step::{Purpose, StepOutcome};

    fn call(id: &str) -> Call {
        Call { id: id.to_owned(), tool: "t".to_owned(), arguments: "{}".to_owned(), purpose: Purpose::Tool }
    }

    fn output() -> Output {
        Output {
            images: Vec::new(),
            outcome: StepOutcome::Done,
            text: String::new(),
            passages: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
        }
    }

    fn stamp(epoch: u64) -> SessionStamp {
        SessionStamp { epoch, session: 1 }
    }

    fn open(epoch: u64, outstanding: &[&str]) -> Event {
        let frame = HostFrame::Open(Open {
            answer: MessageId::from_random(1),
            stamp: stamp(epoch),
            outstanding: outstanding.iter().map(|call| (*call).to_owned()).collect(),
            attached: Vec::new(),
        });
        Event::Host { stamp: stamp(epoch), frame }
    }

    fn run(epoch: u64, id: &str) -> Event {
        Event::Host { stamp: stamp(epoch), frame: HostFrame::Run(call(id)) }
    }

    fn finished(id: &str) -> Event {
        Event::Finished { call: id.to_owned(), output: output() }
    }

    fn sent(id: &str) -> Effect {
        returned(id.to_owned(), output())
    }

    #[test]
    fn a_call_runs_once_and_its_result_is_sent_again_until_it_is_acknowledged() {
        let mut executor = Executor::default();
        executor.on(open(1, &["w"]));
        assert_eq!(executor.on(run(1, "w")), [Effect::Start(call("w"))]);
        assert_eq!(executor.on(run(1, "w")), [], "it runs");
        executor.on(open(2, &["w"]));
        assert_eq!(executor.on(run(2, "w")), [], "it still runs, for the newer session");
        assert_eq!(executor.on(finished("w")), [sent("w")]);
        executor.on(open(3, &["w"]));
        assert_eq!(executor.on(run(3, "w")), [sent("w")]);
        let ack = HostFrame::Ack { call: "w".to_owned() };
        assert_eq!(executor.on(Event::Host { stamp: stamp(3), frame: ack }), []);
        assert!(executor.is_idle());
        assert_eq!(executor.on(run(3, "w")), [], "a repeated frame is ignored");
    }

    #[test]
    fn frames_of_an_older_session_are_void() {
        let mut executor = Executor::default();
        executor.on(open(2, &[]));
        assert_eq!(executor.on(run(1, "w")), []);
        assert_eq!(executor.on(open(1, &["w"])), []);
        assert_eq!(executor.on(run(1, "w")), []);
        assert_eq!(executor.stamp(), stamp(2));
    }

    #[test]
    fn a_call_that_nobody_waits_for_is_killed() {
        let mut executor = Executor::default();
        executor.on(open(1, &["a", "b"]));
        executor.on(run(1, "a"));
        executor.on(run(1, "b"));
        let cancel = HostFrame::Cancel { call: "a".to_owned() };
        assert_eq!(
            executor.on(Event::Host { stamp: stamp(1), frame: cancel }),
            [Effect::Kill("a".to_owned())]
        );
        assert_eq!(executor.on(finished("a")), [], "its result is dropped");
        assert_eq!(executor.on(open(2, &[])), [Effect::Kill("b".to_owned())]);
        assert!(executor.is_idle());
    }
}
