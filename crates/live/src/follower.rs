//! Readers of answers in progress.

use std::sync::Arc;

use domain::answer::RevisionStamp;
use domain::id::MessageId;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::{AnswerProgress, ConversationWatch, Live, LiveAnswer, Snapshot, Throttle};

/// A reader of one answer, or of the consecutive answers of a conversation. It has no queue: each state that
/// it gets is the newest.
pub struct Follower {
    current: Arc<LiveAnswer>,
    progress: watch::Receiver<AnswerProgress>,
    watch: Option<ConversationWatch>,
    first: bool,
    /// The last state that was returned: its stamp and whether it is final.
    last_sent: Option<(RevisionStamp, bool)>,
    ended: bool,
    load: Arc<Throttle>,
    /// The end of the current pause.
    paused_until: Option<Instant>,
}

impl Follower {
    pub(crate) fn new(
        current: Arc<LiveAnswer>,
        watch: Option<ConversationWatch>,
        load: Arc<Throttle>,
    ) -> Self {
        let progress = current.progress();
        Self {
            current,
            progress,
            watch,
            first: true,
            last_sent: None,
            ended: false,
            load,
            paused_until: None,
        }
    }

    /// Returns the answer that is being read.
    #[must_use]
    pub fn current(&self) -> &Arc<LiveAnswer> {
        &self.current
    }

    /// Sets the state that the reader already has and returns whether it is the final one. That state and
    /// older ones are not returned again: after a crash, the store's state may be older until the next epoch
    /// begins.
    pub fn resume_at(&mut self, had: RevisionStamp) -> bool {
        let AnswerProgress { stamp: present, ended, .. } = *self.progress.borrow_and_update();
        let newer = had.epoch == present.epoch && had.revision > present.revision;
        if had == present || (newer && !ended) {
            self.first = false;
            self.last_sent = Some((had, ended));
            self.ended = ended;
        }
        had == present && ended
    }

    /// Returns the newest state that the reader does not have yet, waiting for it if necessary; `None` at the
    /// end. When many answers grow at once, readers pause after each state (for tens of milliseconds at most)
    /// and get fewer of them. Cancel safe: a state that was not returned is returned by the next call.
    pub async fn next_snapshot(&mut self) -> Option<Arc<Snapshot>> {
        if self.ended {
            self.move_on().await?;
        }
        loop {
            if !self.first {
                self.wait_out_pause().await;
                // The sender lives as long as `current`.
                self.progress.changed().await.ok()?;
            }
            self.progress.mark_unchanged();
            let snapshot = self.current.snapshot();
            self.first = false;
            self.ended = snapshot.ending.is_some();
            // A change between the two lines above is already in the snapshot, and wakes the reader once
            // more.
            let state = Some((snapshot.stamp, self.ended));
            if self.last_sent != state {
                self.last_sent = state;
                let rest = self.load.rest_after(&self.current.last_sent, snapshot.size_bytes());
                self.paused_until = (!rest.is_zero() && !self.ended).then(|| Instant::now() + rest);
                return Some(snapshot);
            }
        }
    }

    /// Waits until another answer than this one is the latest of the watched conversation, and returns it; `None` when the
    /// conversation is deleted. Renders nothing. Cancel safe.
    pub async fn answer_after(&mut self, answer: MessageId) -> Option<MessageId> {
        while self.current.meta().answer == answer {
            self.move_on().await?;
        }
        Some(self.current.meta().answer)
    }

    /// Waits for the end of the pause. Cancel safe.
    async fn wait_out_pause(&mut self) {
        if let Some(until) = self.paused_until {
            sleep_until(until).await;
            self.paused_until = None;
        }
    }

    /// Waits for the next answer of a watched conversation.
    async fn move_on(&mut self) -> Option<()> {
        self.watch.as_ref()?;
        loop {
            // Marked as seen before the next answer is looked up, so that an answer in between wakes the reader.
            let deleted = self.progress.borrow_and_update().deleted;
            if let Some(next) = self.current.next_answer() {
                self.progress = next.progress();
                self.current = next;
                self.first = true;
                self.last_sent = None;
                self.ended = false;
                return Some(());
            }
            if deleted {
                return None;
            }
            self.progress.changed().await.ok()?;
        }
    }
}

impl Live {
    /// Follows an answer; with `watch`, also the later answers of its conversation.
    #[must_use]
    pub fn follow_answer(&self, answer: Arc<LiveAnswer>, watch: Option<ConversationWatch>) -> Follower {
        Follower::new(answer, watch, self.reader_throttle())
    }
}
