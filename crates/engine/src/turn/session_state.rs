//! The state of a turn's sessions with its machine.

use domain::turn::HostFrame;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::machine_wait::MachineWait;

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
