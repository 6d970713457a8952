//! A turn's session with its machine: connects, sends frames, and turns the session's reports into events. The task
//! that holds the connection is [`agent_session`].

use std::time::Duration;

use domain::turn::HostFrame;
use domain::turn::host::TurnEvent;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::machine_wait::MachineWait;
use super::runner::TurnRunner;
use crate::turn_input::{SessionEvent, TurnInput};
use crate::{agent_session, setup};

/// The time in which a session ends after its turn.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The failed sessions in a row after which the machine counts as failed.
const FAILURES_MAX: u32 = 12;
/// The maximum number of failures that count while the turn did not need the machine.
const UNNEEDED_FAILURES_MAX: u32 = FAILURES_MAX / 2;

/// The session of a turn.
pub(super) struct SessionState {
    pub(super) number: u32,
    /// Sessions in a row that did not advance the turn.
    pub(super) failures: u32,
    pub(super) wait: MachineWait,
    pub(super) task: Option<AbortOnDropHandle<()>>,
    pub(super) frames: Option<mpsc::Sender<HostFrame>>,
    /// True if there will be no session until the machine is started.
    pub(super) machine_stopped: bool,
    /// True if the machine could not be started while the turn did not need it.
    pub(super) given_up: bool,
}

impl SessionState {
    pub(super) fn new() -> Self {
        Self {
            number: 0,
            failures: 0,
            wait: MachineWait::default(),
            task: None,
            frames: None,
            machine_stopped: false,
            given_up: false,
        }
    }

    /// Counts a failed session and returns true if the machine is given up. It is never given up while the turn does
    /// not need it, so that a model can complete its step.
    pub(super) fn is_given_up(&mut self, needed: bool) -> bool {
        self.failures = self.failures.saturating_add(1);
        if !needed {
            self.failures = self.failures.min(UNNEEDED_FAILURES_MAX);
        }
        self.failures >= FAILURES_MAX
    }
}

impl TurnRunner {
    /// Takes an input, and returns the event for the turn, if any. Inputs of earlier sessions cause no event.
    pub(super) fn receive_input(&mut self, input: TurnInput) -> Option<TurnEvent> {
        match input {
            TurnInput::Event(event) => {
                if let TurnEvent::ToolReturned { call, .. } = &event {
                    self.running.remove_call(call);
                }
                Some(event)
            }
            TurnInput::Lost(_) => None,
            TurnInput::Session { number, .. } if number != self.session.number => None,
            TurnInput::Session { event, .. } => match event {
                SessionEvent::Up { connection, frames, tools } => {
                    self.prompt.replace_tools(tools);
                    let (overhead_tokens, context_tokens) =
                        setup::token_room(&self.prompt, self.model_limits);
                    self.turn.set_budget(overhead_tokens, context_tokens);
                    self.session.frames = Some(frames);
                    self.session.wait.end_wait();
                    Some(TurnEvent::Connected(connection.instance()))
                }
                SessionEvent::Frame(frame) => Some(TurnEvent::Executor(frame)),
                SessionEvent::Violation => Some(TurnEvent::Violation),
                SessionEvent::Down => {
                    self.drop_session();
                    if !self.session.is_given_up(self.turn.needs_machine()) {
                        return Some(TurnEvent::Disconnected);
                    }
                    Some(TurnEvent::MachineFailed("it does not answer".to_owned()))
                }
                SessionEvent::GivenUp(reason) if self.turn.needs_machine() => {
                    Some(TurnEvent::MachineFailed(reason))
                }
                SessionEvent::GivenUp(_) => {
                    self.session.given_up = true;
                    None
                }
                SessionEvent::MachineStopped => {
                    self.session.machine_stopped = true;
                    None
                }
            },
        }
    }

    /// Lets the session send its last frames in the background.
    pub(super) fn close_session(&mut self) {
        self.session.frames = None;
        if let Some(task) = self.session.task.take() {
            self.store.shared.tasks.spawn(async move {
                // Aborted when it takes longer.
                let _ = timeout(CLOSE_TIMEOUT, task).await;
            });
        }
    }

    /// Begins a session if the turn needs one and has none.
    pub(super) fn connect_if_wanted(&mut self) {
        if self.session.given_up && self.turn.needs_machine() {
            self.drop_session();
        }
        if self.session.task.is_some() || !self.turn.wants_connection() {
            return;
        }
        self.store.spans.begin_connecting();
        self.session.number += 1;
        let (number, failures) = (self.session.number, self.session.failures);
        let run = agent_session::run_session(
            self.store.shared.clone(),
            self.prompt.library().clone(),
            self.store.account,
            number,
            failures,
            self.inbox.clone(),
        );
        self.session.task = Some(AbortOnDropHandle::new(tokio::spawn(run)));
    }

    pub(super) fn drop_session(&mut self) {
        self.session.frames = None;
        self.session.task = None;
        self.session.number += 1;
        self.session.machine_stopped = false;
        self.session.given_up = false;
    }

    /// Sends a frame to the executor. A guest that accepts no frame loses the session; the next session begins with
    /// the outstanding calls.
    pub(super) fn send_frame(&mut self, frame: HostFrame) -> Option<TurnEvent> {
        self.session.frames.as_ref()?.try_send(frame).err()?;
        self.drop_session();
        Some(TurnEvent::Disconnected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unneeded_session_ends_no_answer() {
        let mut session = SessionState::new();
        assert!((0..100).all(|_| !session.is_given_up(false)), "a model puts something out meanwhile");
        let needed = (0..100).take_while(|_| !session.is_given_up(true)).count();
        assert!((1..FAILURES_MAX as usize).contains(&needed), "{needed}");
    }
}
