//! The turn's session with the executor in the machine, which may break and be reopened.

use super::{Effect, Phase, Turn, machine_failed};
use crate::answer::ErrorCode;
use crate::id::InstanceId;
use crate::limits::CALLS_MAX;
use crate::turn::{ExecutorFrame, HostFrame, Open, SessionStamp};

/// The most protocol violations of an executor before its machine counts as failed.
pub(super) const VIOLATIONS_MAX: u32 = 3;
/// The number of consecutive unexpected frames that violates the protocol. A correct executor sends only few
/// of them, when a result crosses a cancellation.
pub(super) const UNEXPECTED_FRAMES_MAX: u32 = 2 * CALLS_MAX as u32;

impl Turn {
    pub(super) fn connected(&mut self, instance: InstanceId, effects: &mut Vec<Effect>) {
        self.disconnected();
        self.connected = Some(instance);
        self.instance = Some(instance);
        self.unexpected = 0;
        // Calls of a step that is being committed are handled once it is in the log.
        if !matches!(self.phase, Phase::Committing { .. }) {
            self.report_interrupted(instance, effects);
        }
    }

    pub(super) fn disconnected(&mut self) {
        self.connected = None;
        self.opened = false;
        self.sent.clear();
    }

    /// Sends a frame to the executor, after the one that opens the session.
    pub(super) fn send(&mut self, frame: HostFrame, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.opened, true) {
            self.sessions += 1;
            effects.push(Effect::Send(HostFrame::Open(Open {
                answer: self.setup.answer,
                stamp: SessionStamp { epoch: self.setup.epoch, session: self.sessions },
                outstanding: self.outstanding(),
                attached: self.setup.files.clone(),
            })));
        }
        effects.push(Effect::Send(frame));
    }

    /// Handles a result of the executor. Ignores a bounded number of unexpected ones.
    pub(super) fn received(&mut self, frame: ExecutorFrame, effects: &mut Vec<Effect>) {
        if self.ending.is_some() {
            return;
        }
        let ExecutorFrame::Returned { call, output } = frame;
        if self.opened && self.returned(&call, output, false, effects) {
            self.unexpected = 0;
            return;
        }
        self.unexpected += 1;
        if self.unexpected > UNEXPECTED_FRAMES_MAX {
            self.violated(effects);
        }
    }

    pub(super) fn violated(&mut self, effects: &mut Vec<Effect>) {
        self.violations += 1;
        self.disconnected();
        if self.violations >= VIOLATIONS_MAX {
            self.fail(ErrorCode::MachineFailed, &machine_failed("its program breaks the protocol"));
        } else {
            effects.push(Effect::Reconnect);
        }
    }
}
