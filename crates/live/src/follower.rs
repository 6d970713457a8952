//! Readers of answers that are being written.

use std::sync::Arc;

use domain::answer::Stamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::{Live, LiveAnswer, Progress, Snapshot, Throttle, Watch};

/// A reader of one answer, or of a conversation's answers one after another. It holds a place, never a
/// queue: each state that it takes is the newest.
pub struct Follower {
    current: Arc<LiveAnswer>,
    progress: watch::Receiver<Progress>,
    watch: Option<Watch>,
    first: bool,
    /// The state of the current answer that was told last: its stamp and whether it is the end.
    told: Option<(Stamp, bool)>,
    ended: bool,
    load: Arc<Throttle>,
    /// Until when it rests.
    rests_until: Option<Instant>,
}

impl Follower {
    pub(crate) fn new(current: Arc<LiveAnswer>, watch: Option<Watch>, load: Arc<Throttle>) -> Self {
        let progress = current.progress();
        Self { current, progress, watch, first: true, told: None, ended: false, load, rests_until: None }
    }

    /// The answer that is being read.
    #[must_use]
    pub fn current(&self) -> &Arc<LiveAnswer> {
        &self.current
    }

    /// Says which state of the current answer the reader had last, and tells whether it was the end. A state
    /// that the reader has is not told again, nor an older one: after a crash the present state is what the
    /// store knows, until the answer is taken up under the next epoch.
    pub fn resume(&mut self, had: Stamp) -> bool {
        let Progress { stamp: present, ended, .. } = *self.progress.borrow_and_update();
        let newer = had.epoch == present.epoch && had.revision > present.revision;
        if had == present || (newer && !ended) {
            self.first = false;
            self.told = Some((had, ended));
            self.ended = ended;
        }
        had == present && ended
    }

    /// The newest state, as soon as it is one that the reader has not had; `None` when there is no more. When many
    /// answers grow at once, readers get fewer states: each rests after one (for tens of milliseconds at most).
    /// Cancel safe: a state that was not handed out is handed out the next time.
    pub async fn next(&mut self) -> Option<Arc<Snapshot>> {
        if self.ended {
            self.move_on().await?;
        }
        loop {
            if !self.first {
                self.rest().await;
                // The sender lives as long as `current`, which is held here.
                self.progress.changed().await.ok()?;
            }
            self.progress.mark_unchanged();
            let snapshot = self.current.snapshot();
            self.first = false;
            self.ended = snapshot.ending.is_some();
            // A change between the two lines above is in the snapshot, and is told of again.
            let state = Some((snapshot.stamp, self.ended));
            if self.told != state {
                self.told = state;
                let rest = self.load.rest_after(&self.current.told, snapshot.size_bytes());
                self.rests_until = (!rest.is_zero() && !self.ended).then(|| Instant::now() + rest);
                return Some(snapshot);
            }
        }
    }

    /// Rests, where it is to. Cancel safe.
    async fn rest(&mut self) {
        if let Some(until) = self.rests_until {
            sleep_until(until).await;
            self.rests_until = None;
        }
    }

    /// Waits for the answer after the current one, where there may be one.
    async fn move_on(&mut self) -> Option<()> {
        self.watch.as_ref()?;
        loop {
            if let Some(next) = self.current.next() {
                self.progress = next.progress();
                self.current = next;
                self.first = true;
                self.told = None;
                self.ended = false;
                return Some(());
            }
            if self.progress.borrow_and_update().deleted {
                return None;
            }
            self.progress.changed().await.ok()?;
        }
    }
}

impl Live {
    /// Reads the answer; with `watch` also the ones after it in its conversation.
    #[must_use]
    pub fn follow(&self, answer: Arc<LiveAnswer>, watch: Option<Watch>) -> Follower {
        Follower::new(answer, watch, self.load())
    }
}
