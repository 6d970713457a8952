//! A turn's session with its machine: connects, sends frames, and turns the session's reports into events. The task
//! that holds the connection is [`agent_session`].

use std::time::Duration;

use domain::turn::HostFrame;
use domain::turn::host::TurnEvent;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::runner::TurnRunner;
use crate::turn_input::{SessionEvent, TurnInput};
use crate::{agent_session, setup};

/// The time in which a session ends after its turn.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

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
                        setup::token_room(&self.prompt, self.model.limits);
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
            self.context.store.records.tasks.spawn_to_end(async move {
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
        self.context.store.spans.begin_connecting();
        self.session.number += 1;
        let (number, failures) = (self.session.number, self.session.failures);
        let run = agent_session::run_session(
            self.context.services.sessions.clone(),
            self.prompt.library().clone(),
            self.context.store.account,
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
