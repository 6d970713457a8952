//! The turn's session with the executor in the machine, which may break and be reopened.

use super::{Phase, Turn, TurnEffect, machine_failed};
use crate::answer::ErrorCode;
use crate::id::InstanceId;
use crate::limits::CALLS_MAX;
use crate::turn::{ExecutorFrame, HostFrame, SessionOpening, SessionStamp};

/// The maximum number of protocol violations of an executor before its machine counts as failed.
pub(super) const VIOLATIONS_MAX: u32 = 3;
/// The number of consecutive unexpected frames that violates the protocol. A correct executor sends only few
/// of them, when a result crosses a cancellation.
pub(super) const UNEXPECTED_FRAMES_MAX: u32 = 2 * CALLS_MAX as u32;

impl Turn {
    pub(super) fn connect_machine(&mut self, instance: InstanceId, effects: &mut Vec<TurnEffect>) {
        self.disconnect_machine();
        self.connected = Some(instance);
        self.instance = Some(instance);
        self.unexpected = 0;
        // Calls of a step that is being committed are handled once it is in the log.
        if !matches!(self.phase, Phase::Committing { .. }) {
            self.report_interrupted(instance, effects);
        }
    }

    pub(super) fn disconnect_machine(&mut self) {
        self.connected = None;
        self.opened = false;
        self.sent.clear();
    }

    /// Sends a frame to the executor, after the one that opens the session.
    pub(super) fn send_frame(&mut self, frame: HostFrame, effects: &mut Vec<TurnEffect>) {
        if !std::mem::replace(&mut self.opened, true) {
            self.sessions += 1;
            effects.push(TurnEffect::Send(HostFrame::Open(SessionOpening {
                answer: self.setup.answer,
                stamp: SessionStamp { epoch: self.setup.epoch, session: self.sessions },
                outstanding: self.outstanding_calls(),
                attached: self.setup.files.clone(),
            })));
        }
        effects.push(TurnEffect::Send(frame));
    }

    /// Handles a result of the executor. Ignores a bounded number of unexpected ones.
    pub(super) fn receive_frame(&mut self, frame: ExecutorFrame, effects: &mut Vec<TurnEffect>) {
        if self.ending.is_some() {
            return;
        }
        let ExecutorFrame::Returned { call, output } = frame;
        if self.opened && self.accept_output(&call, output, false, effects) {
            self.unexpected = 0;
            return;
        }
        self.unexpected += 1;
        if self.unexpected > UNEXPECTED_FRAMES_MAX {
            self.count_violation(effects);
        }
    }

    pub(super) fn count_violation(&mut self, effects: &mut Vec<TurnEffect>) {
        self.violations += 1;
        self.disconnect_machine();
        if self.violations >= VIOLATIONS_MAX {
            self.fail_with(ErrorCode::MachineFailed, &machine_failed("its program breaks the protocol"));
        } else {
            effects.push(TurnEffect::Reconnect);
        }
    }
}
