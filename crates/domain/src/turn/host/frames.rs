//! What the agent says: taken where it is due, passed over where it is not, and that a bounded number of times.

use super::summary::Task;
use super::{Phase, Turn};
use crate::answer::{Ending, ErrorCode, LogEntry};
use crate::limits::CALLS_MAX;
use crate::turn::AgentFrame;
use crate::turn::host::Effect;

/// Frames in a row that are not due: more of them break the protocol. An agent that keeps to it says hardly any, when
/// what it says crosses what it is told.
pub(super) const UNDUE_FRAMES_MAX: u32 = 2 * CALLS_MAX as u32;

impl Turn {
    pub(super) fn heard(&mut self, frame: AgentFrame, effects: &mut Vec<Effect>) {
        if self.ending.is_some() {
            return;
        }
        if self.opened && self.is_due(frame, effects) {
            self.undue = 0;
            return;
        }
        self.undue += 1;
        if self.undue > UNDUE_FRAMES_MAX {
            self.violated(effects);
        }
    }

    /// Takes what the agent says, and tells whether it was due: if not, nothing has changed.
    fn is_due(&mut self, frame: AgentFrame, effects: &mut Vec<Effect>) -> bool {
        match frame {
            AgentFrame::Want { number, keep } => {
                if number != self.next() || !self.is_idle() {
                    return false;
                }
                // After a step without calls there is nothing to go on with: no further one is bought.
                let goes_on = !matches!(self.log.last(), Some(LogEntry::Step { .. }));
                if !goes_on || !self.pending().is_empty() || !self.transcript.may_show(&keep) {
                    self.violated(effects);
                } else if number >= self.setup.steps_max {
                    let message = "The answer was ended: it took more steps than allowed.";
                    self.fail(ErrorCode::TooManySteps, message);
                } else {
                    self.transcript.trim();
                    self.reserve(Task::first(keep), effects);
                }
                true
            }
            AgentFrame::Returned { call, output } => self.returned(&call, output, false, effects),
            AgentFrame::Done { number } => {
                let last_is_step = matches!(self.log.last(), Some(LogEntry::Step { .. }));
                if !matches!(self.phase, Phase::Idle) || !last_is_step || number + 1 != self.next() {
                    return false;
                }
                if self.pending().is_empty() {
                    self.ending = Some(Ending::Done);
                } else {
                    self.violated(effects);
                }
                true
            }
        }
    }
}
