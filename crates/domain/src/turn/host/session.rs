//! The turn's session with the executor in the machine, which may break and be reopened.

use super::{Phase, Turn, TurnEffect, machine_failed};
use crate::answer::ErrorCode;
use crate::id::InstanceId;
use crate::limits::CALLS_MAX;
use crate::step::StepCall;
use crate::turn::{ExecutorFrame, HostFrame, SessionOpening, SessionStamp};

/// The maximum number of protocol violations of an executor before its machine counts as failed.
pub(super) const VIOLATIONS_MAX: u32 = 3;
/// The number of consecutive unexpected frames that violates the protocol. A correct executor sends only few
/// of them, when a result crosses a cancellation.
pub(super) const UNEXPECTED_FRAMES_MAX: u32 = 2 * CALLS_MAX as u32;

/// The executor in the machine, as the turn sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct ExecutorLink {
    pub(super) session: ExecutorSession,
    /// The machine instance that was connected last; committed steps name it.
    pub(super) instance: Option<InstanceId>,
    /// The number of sessions that were opened.
    sessions: u32,
    violations: u32,
    /// The number of consecutive unexpected frames.
    unexpected: u32,
}

/// The session with the executor.
#[derive(Debug, Clone, Default)]
pub(super) enum ExecutorSession {
    /// No machine is connected.
    #[default]
    Disconnected,
    /// This machine instance is connected. The first frame opens the session.
    Connected(InstanceId),
    /// The session is open; `sent` are the calls that the executor was sent in it.
    Open { instance: InstanceId, sent: Vec<String> },
}

impl ExecutorSession {
    /// Returns the connected machine instance.
    pub(super) fn connected_instance(&self) -> Option<InstanceId> {
        match self {
            Self::Disconnected => None,
            Self::Connected(instance) | Self::Open { instance, .. } => Some(*instance),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connected_instance().is_some()
    }

    fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Returns the calls that the executor was sent.
    pub(super) fn sent_calls(&self) -> &[String] {
        match self {
            Self::Disconnected | Self::Connected(_) => &[],
            Self::Open { sent, .. } => sent,
        }
    }

    /// Removes a call and returns true if the executor was sent it.
    pub(super) fn remove_call(&mut self, call: &str) -> bool {
        let Self::Open { sent, .. } = self else { return false };
        let before = sent.len();
        sent.retain(|sent| sent != call);
        sent.len() < before
    }

    /// Removes all calls and returns the calls that were sent to the executor.
    pub(super) fn take_calls(&mut self) -> Vec<String> {
        match self {
            Self::Disconnected | Self::Connected(_) => Vec::new(),
            Self::Open { sent, .. } => std::mem::take(sent),
        }
    }
}

impl Turn {
    pub(super) fn connect_machine(&mut self, instance: InstanceId, effects: &mut Vec<TurnEffect>) {
        self.executor.session = ExecutorSession::Connected(instance);
        self.executor.instance = Some(instance);
        self.executor.unexpected = 0;
        // Calls of a step that is being committed are handled once it is in the log.
        if !matches!(self.phase, Phase::Committing { .. }) {
            self.report_interrupted(instance, effects);
        }
    }

    pub(super) fn disconnect_machine(&mut self) {
        self.executor.session = ExecutorSession::Disconnected;
    }

    /// Sends the executor a call, after the frame that opens the session. Without a connection, the next one sends it.
    pub(super) fn send_call(&mut self, call: StepCall, effects: &mut Vec<TurnEffect>) {
        self.open_session(effects);
        if let ExecutorSession::Open { sent, .. } = &mut self.executor.session {
            sent.push(call.id.clone());
            effects.push(TurnEffect::Send(HostFrame::Run(call)));
        }
    }

    /// Opens the session of a new connection.
    fn open_session(&mut self, effects: &mut Vec<TurnEffect>) {
        let ExecutorSession::Connected(instance) = self.executor.session else { return };
        self.executor.session = ExecutorSession::Open { instance, sent: Vec::new() };
        self.executor.sessions += 1;
        effects.push(TurnEffect::Send(HostFrame::Open(SessionOpening {
            answer: self.setup.answer,
            stamp: SessionStamp { epoch: self.setup.epoch, session: self.executor.sessions },
            outstanding: self.outstanding_calls(),
            attached: self.setup.files.clone(),
        })));
    }

    /// Handles a result of the executor. Ignores a bounded number of unexpected ones.
    pub(super) fn receive_frame(&mut self, frame: ExecutorFrame, effects: &mut Vec<TurnEffect>) {
        if self.ending.is_some() {
            return;
        }
        let ExecutorFrame::Returned { call, output } = frame;
        if self.executor.session.is_open() && self.accept_output(&call, output, false, effects) {
            self.executor.unexpected = 0;
            return;
        }
        self.executor.unexpected += 1;
        if self.executor.unexpected > UNEXPECTED_FRAMES_MAX {
            self.count_violation(effects);
        }
    }

    pub(super) fn count_violation(&mut self, effects: &mut Vec<TurnEffect>) {
        self.executor.violations += 1;
        self.disconnect_machine();
        if self.executor.violations >= VIOLATIONS_MAX {
            self.fail_with(ErrorCode::MachineFailed, &machine_failed("its program breaks the protocol"));
        } else {
            effects.push(TurnEffect::Reconnect);
        }
    }
}
