//! The turn's session with the executor in the machine, which comes and goes.

use super::{Effect, Phase, Turn, machine_failed};
use crate::answer::ErrorCode;
use crate::id::InstanceId;
use crate::limits::CALLS_MAX;
use crate::turn::{ExecutorFrame, HostFrame, Open, SessionStamp};

/// How often an executor may break the protocol before its machine counts as failed.
pub(super) const VIOLATIONS_MAX: u32 = 3;
/// Unexpected frames in a row that break the protocol. An executor that keeps to it sends hardly any, when a result
/// crosses a cancellation.
pub(super) const UNEXPECTED_FRAMES_MAX: u32 = 2 * CALLS_MAX as u32;

impl Turn {
    pub(super) fn connected(&mut self, instance: InstanceId, effects: &mut Vec<Effect>) {
        self.disconnected();
        self.connected = Some(instance);
        self.instance = Some(instance);
        self.unexpected = 0;
        // The calls of a step that is being committed are looked at when it is in the log.
        if !matches!(self.phase, Phase::Committing { .. }) {
            self.report_interrupted(instance, effects);
        }
    }

    pub(super) fn disconnected(&mut self) {
        self.connected = None;
        self.opened = false;
        self.sent.clear();
    }

    /// Sends a frame to the executor, behind the one that opens the session.
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

    /// Takes a result of the executor. One that is not expected changes nothing, a bounded number of times.
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
