//! How long an agent may keep its turn waiting.

use std::time::Duration;

use tokio::time::Instant;

/// How long an agent may take over its move; longer than any tool may run.
const SILENCE_MAX: Duration = Duration::from_secs(20 * 60);

/// For how long the agent has kept the turn waiting. It counts only while the next move is the agent's: a model may
/// speak, and the host's calls run, for as long as they like.
#[derive(Default)]
pub(super) struct Silence {
    since: Option<Instant>,
}

impl Silence {
    /// When it will have lasted too long; never, while the agent is not waited for.
    pub(super) fn until(&mut self, awaited: bool, now: Instant) -> Option<Instant> {
        self.since = awaited.then(|| self.since.unwrap_or(now));
        Some(self.since? + SILENCE_MAX)
    }

    /// The agent got the turn on.
    pub(super) fn end(&mut self) {
        self.since = None;
    }
}

/// Comes back at that time; never, when there is none.
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
    fn only_what_the_agent_is_waited_for_counts() {
        let begun = Instant::now();
        let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
        let mut silence = Silence::default();
        assert_eq!(silence.until(true, after(0)), Some(after(20)));
        assert_eq!(silence.until(true, after(5)), Some(after(20)), "it goes on");
        assert_eq!(silence.until(false, after(6)), None, "a model speaks, for an hour");
        assert_eq!(silence.until(true, after(66)), Some(after(86)), "the agent has its whole time");
        silence.end();
        assert_eq!(silence.until(true, after(70)), Some(after(90)));
    }
}
