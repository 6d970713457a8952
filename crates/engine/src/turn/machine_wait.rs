//! The time that a machine may keep its turn waiting.

use std::time::Duration;

use tokio::time::Instant;

/// The time limit for a machine's calls; longer than any tool may run.
const WAIT_MAX: Duration = Duration::from_secs(20 * 60);

/// Measures how long the machine has kept the turn waiting: only while nothing else can advance it. Models and calls of
/// the host are not limited here.
#[derive(Default)]
pub(super) struct MachineWait {
    since: Option<Instant>,
}

impl MachineWait {
    /// Returns the time at which the wait exceeds the limit; `None` while the machine is not waited for.
    pub(super) fn deadline_at(&mut self, awaited: bool, now: Instant) -> Option<Instant> {
        self.since = awaited.then(|| self.since.unwrap_or(now));
        Some(self.since? + WAIT_MAX)
    }

    /// Ends the wait: the machine advanced the turn.
    pub(super) fn end_wait(&mut self) {
        self.since = None;
    }
}

/// Waits until that time; forever without one.
pub(super) async fn over_at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_for_the_machine_count() {
        let begun = Instant::now();
        let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
        let mut wait = MachineWait::default();
        assert_eq!(wait.deadline_at(true, after(0)), Some(after(20)));
        assert_eq!(wait.deadline_at(true, after(5)), Some(after(20)), "it goes on");
        assert_eq!(wait.deadline_at(false, after(6)), None, "a model speaks, for an hour");
        assert_eq!(wait.deadline_at(true, after(66)), Some(after(86)), "the machine has its whole time");
        wait.end_wait();
        assert_eq!(wait.deadline_at(true, after(70)), Some(after(90)));
    }
}
