//! The clients that read an answer. An answer that all of them have left is stopped after a while, because nobody will
//! read it: these clients cannot come back for it later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{Authenticator, ClientHistories, Principal};
use domain::answer::{Answer, AnswerEnding};
use domain::id::{ConversationId, MessageId};
use live::{AnswerProgress, LiveAnswer};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::error::{OpenAiError, OpenAiResult};

/// The time for a client to ask again whose connection was lost.
const GRACE: Duration = Duration::from_secs(10);

/// The readers of all answers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AnswerReaders {
    shared: Arc<Mutex<HashMap<MessageId, ReadAnswer>>>,
    histories: ClientHistories,
    access: Authenticator,
    shutdown: CancellationToken,
}

struct ReadAnswer {
    conversation: ConversationId,
    readers: usize,
    /// Counts the times that it had no reader.
    left: u64,
}

/// A reader of an answer. Dropping it before the answer has ended is leaving.
pub(crate) struct ReaderGuard {
    readers: AnswerReaders,
    principal: Principal,
    answer: MessageId,
    has_ended: bool,
}

/// The place of a reader in the stream that it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamStage {
    /// Nothing was sent.
    Begin,
    /// The present state is read without waiting for a change.
    Present,
    Growing,
    Ended,
}

/// Follows the states of an answer, for a stream.
pub(crate) struct AnswerFollower {
    live: Arc<LiveAnswer>,
    progress: watch::Receiver<AnswerProgress>,
    shutdown: CancellationToken,
    stage: StreamStage,
}

/// The next step of a stream.
pub(crate) enum FollowedStep<T> {
    /// Its beginning.
    Began,
    /// The part of a state that was read, with the ending of the answer in the last one.
    State(T, Option<AnswerEnding>),
    /// The service shuts down; nothing follows.
    Interrupted,
}

impl AnswerFollower {
    pub(crate) fn new(live: Arc<LiveAnswer>, shutdown: CancellationToken) -> Self {
        let progress = live.progress();
        Self { live, progress, shutdown, stage: StreamStage::Begin }
    }

    /// Returns the next step, which `read` reads of a state; `None` at the end. Cancel safe.
    pub(crate) async fn next_step<T>(&mut self, read: impl FnOnce(&Answer) -> T) -> Option<FollowedStep<T>> {
        match self.stage {
            StreamStage::Begin => {
                self.stage = StreamStage::Present;
                return Some(FollowedStep::Began);
            }
            StreamStage::Present => {}
            StreamStage::Growing => {
                let is_changed = tokio::select! {
                    // The sender lives as long as the answer.
                    changed = self.progress.changed() => changed.is_ok(),
                    () = self.shutdown.cancelled() => false,
                };
                if !is_changed {
                    self.stage = StreamStage::Ended;
                    return Some(FollowedStep::Interrupted);
                }
            }
            StreamStage::Ended => return None,
        }
        self.progress.mark_unchanged();
        let (state, ending) = self.live.read_answer(|answer| (read(answer), answer.ending.clone()));
        self.stage = if ending.is_some() { StreamStage::Ended } else { StreamStage::Growing };
        Some(FollowedStep::State(state, ending))
    }

    /// Waits for the end of the answer, or until `revoked` completes.
    ///
    /// # Errors
    /// [`OpenAiError`] if it was not waited for.
    pub(crate) async fn wait_for_end(&mut self, revoked: impl Future<Output = ()>) -> OpenAiResult<()> {
        tokio::select! {
            _ = self.progress.wait_for(|progress| progress.ended) => Ok(()),
            () = self.shutdown.cancelled() => Err(restart_error()),
            () = revoked => Err(OpenAiError::invalid_key()),
        }
    }
}

/// Returns the error of an answer whose reader cannot wait for its end.
pub(crate) fn restart_error() -> OpenAiError {
    OpenAiError::unavailable("the service is restarting: ask again, and the answer continues")
}

impl AnswerReaders {
    pub(crate) fn new(
        histories: ClientHistories,
        access: Authenticator,
        shutdown: CancellationToken,
    ) -> Self {
        Self { shared: Arc::default(), histories, access, shutdown }
    }

    /// Adds a reader.
    pub(crate) fn add_reader(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        answer: MessageId,
    ) -> ReaderGuard {
        let new = ReadAnswer { conversation, readers: 0, left: 0 };
        self.lock_answers().entry(answer).or_insert(new).readers += 1;
        ReaderGuard { readers: self.clone(), principal: principal.clone(), answer, has_ended: false }
    }

    /// Adds a reader of an answer that stops without readers. `None` for other answers.
    pub(crate) fn join_readers(&self, principal: &Principal, answer: MessageId) -> Option<ReaderGuard> {
        self.lock_answers().get_mut(&answer)?.readers += 1;
        Some(ReaderGuard { readers: self.clone(), principal: principal.clone(), answer, has_ended: false })
    }

    /// Returns the answer of a conversation that its readers have left.
    pub(crate) fn abandoned_in(&self, conversation: ConversationId) -> Option<MessageId> {
        let answers = self.lock_answers();
        let abandoned = |read: &ReadAnswer| read.conversation == conversation && read.readers == 0;
        answers.iter().find(|(_, read)| abandoned(read)).map(|(answer, _)| *answer)
    }

    /// Stops an answer that nobody reads after the time of grace. The end of a key does not stop its answers.
    async fn stop_after_grace(self, principal: Principal, answer: MessageId, left: u64) {
        sleep(GRACE).await;
        let is_abandoned = {
            let mut answers = self.lock_answers();
            let is_abandoned =
                answers.get(&answer).is_some_and(|read| read.readers == 0 && read.left == left);
            if is_abandoned {
                answers.remove(&answer);
            }
            is_abandoned
        };
        if is_abandoned && self.access.is_still_valid(&principal).await {
            // The failure was logged. The answer is written to its end then.
            let _ = self.histories.stop_abandoned(&principal, answer).await;
        }
    }

    fn lock_answers(&self) -> MutexGuard<'_, HashMap<MessageId, ReadAnswer>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReaderGuard {
    /// Records that the answer has ended.
    pub(crate) fn finish(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        let mut answers = self.readers.lock_answers();
        let Some(read) = answers.get_mut(&self.answer) else { return };
        read.readers = read.readers.saturating_sub(1);
        if read.readers > 0 {
            return;
        }
        if self.has_ended || self.readers.shutdown.is_cancelled() {
            answers.remove(&self.answer);
            return;
        }
        read.left += 1;
        let left = read.left;
        drop(answers);
        let (readers, principal) = (self.readers.clone(), self.principal.clone());
        let stopping = readers.clone().stop_after_grace(principal, self.answer, left);
        // Ends with the shutdown; the answer continues after the next start then.
        tokio::spawn(readers.shutdown.run_until_cancelled_owned(stopping));
    }
}
