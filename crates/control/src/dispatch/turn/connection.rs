//! The turn's end of its link to the agent, which comes and goes.

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::silence::Silence;

/// Links in a row that came to nothing before the machine counts as failed.
const FRUITLESS_LINKS_MAX: u32 = 12;
/// As many of them at most may have come to nothing while nobody needed them.
const UNNEEDED_LINKS_MAX: u32 = FRUITLESS_LINKS_MAX / 2;

/// Where a turn has its link.
pub(super) struct Link {
    pub(super) number: u32,
    /// Links in a row that did not get the turn on.
    pub(super) fruitless: u32,
    pub(super) silence: Silence,
    pub(super) task: Option<AbortOnDropHandle<()>>,
    pub(super) lines: Option<mpsc::Sender<bytes::Bytes>>,
    /// There will be none until somebody starts the machine.
    pub(super) machine_stopped: bool,
}

impl Link {
    pub(super) fn new() -> Self {
        Self {
            number: 0,
            fruitless: 0,
            silence: Silence::default(),
            task: None,
            lines: None,
            machine_stopped: false,
        }
    }

    /// Counts a link that came to nothing, and tells whether there is to be no other: never while the turn does not
    /// need one. A model speaks to its end however often the agent is gone meanwhile.
    pub(super) fn is_given_up(&mut self, needed: bool) -> bool {
        self.fruitless = self.fruitless.saturating_add(1);
        if !needed {
            self.fruitless = self.fruitless.min(UNNEEDED_LINKS_MAX);
        }
        self.fruitless >= FRUITLESS_LINKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_nobody_needs_end_no_answer() {
        let mut link = Link::new();
        assert!((0..100).all(|_| !link.is_given_up(false)), "a model speaks meanwhile");
        let needed = (0..100).take_while(|_| !link.is_given_up(true)).count();
        assert!((1..FRUITLESS_LINKS_MAX as usize).contains(&needed), "{needed}");
    }
}
