//! Answers being written, and those who read them.
//!
//! One task owns an answer and folds its changes in; each fold raises the stamp that readers wait on. What a
//! reader gets is a [`Snapshot`]: made at most once for each revision, from segments that all readers share,
//! so that a reader costs the same however long and fast the answer is. States supersede each other: a
//! reader that is slow gets fewer of them.

mod done;
mod follower;
mod rope;
mod snapshot;
#[cfg(test)]
mod tests;
mod throttle;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use domain::answer::{Answer, Body, Change, Ending, Stamp};
use domain::id::{AccountId, ConversationId, MessageId};
use domain::time::Timestamp;
use tokio::sync::watch;

use self::done::Done;
pub use self::follower::Follower;
pub use self::rope::{Representation, Rope, Segment};
use self::snapshot::RenderCache;
pub use self::snapshot::{Citation, PartKind, Snapshot, SnapshotPart};
pub(crate) use self::throttle::{Throttle, Told};

/// What is known of an answer from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The answer.
    pub answer: MessageId,
    /// Whose it is.
    pub account: AccountId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// When it was created.
    pub created_at: Timestamp,
    /// The model that the conversation answers with.
    pub model: String,
}

/// How far an answer has come, for those who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The last change.
    pub stamp: Stamp,
    /// Whether it is done.
    pub ended: bool,
    /// Whether its conversation was deleted.
    pub deleted: bool,
    /// Whether another answer of the conversation has begun.
    pub followed: bool,
}

/// An answer that is being written, or was when somebody began to read it.
pub struct LiveAnswer {
    meta: Arc<Meta>,
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
    next: OnceLock<Arc<LiveAnswer>>,
    /// When its readers were told of it last.
    pub(crate) told: Told,
}

struct State {
    answer: Answer,
    pieces: RenderCache,
    shot: Option<Arc<Snapshot>>,
}

impl LiveAnswer {
    /// An answer as it stands now.
    #[must_use]
    pub fn new(meta: Meta, answer: Answer) -> Self {
        let progress =
            Progress { stamp: answer.stamp, ended: answer.ending.is_some(), ..Progress::default() };
        let state = State { answer, pieces: RenderCache::default(), shot: None };
        Self {
            meta: Arc::new(meta),
            state: Mutex::new(state),
            progress: watch::Sender::new(progress),
            next: OnceLock::new(),
            told: Told::default(),
        }
    }

    /// What is known of it from its beginning.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Its place among the answers of its conversation.
    fn age(&self) -> (Timestamp, MessageId) {
        (self.meta.created_at, self.meta.answer)
    }

    /// Tells when it has changed.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// The answer of the conversation that began after this one, once it has.
    #[must_use]
    pub fn next(&self) -> Option<Arc<LiveAnswer>> {
        self.next.get().cloned()
    }

    /// The answer as it stands.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let mut state = self.lock();
        if let Some(shot) = &state.shot {
            return shot.clone();
        }
        let State { answer, pieces, .. } = &mut *state;
        let shot = Arc::new(pieces.snapshot(&self.meta, answer));
        state.shot = Some(shot.clone());
        shot
    }

    /// What it takes of memory with what is made of it for its readers, about.
    pub fn size_bytes(&self) -> usize {
        /// The text as it came, as it is shown, as HTML, and both as they are sent to who asks and to who follows.
        const FORMS: usize = 7;
        /// What everything takes besides its text.
        const EACH_BYTES: usize = 512;
        let state = self.lock();
        let Answer { parts, sources, .. } = &state.answer;
        let text: usize = parts
            .iter()
            .map(|part| match &part.body {
                Body::Text(text) | Body::Reasoning(text) => text.len(),
                Body::Run(run) => run.report.len() + run.sources.len() * EACH_BYTES,
                Body::File { .. } => 0,
            })
            .sum();
        text * FORMS + (4 + parts.len() + sources.len()) * EACH_BYTES
    }

    /// Folds a change in. A change that is not newer changes nothing.
    pub fn fold(&self, stamp: Stamp, change: Change) {
        let mut state = self.lock();
        let anew = state.answer.is_cut_by(&change);
        let marked = state.answer.marked_by(&change);
        if !state.answer.fold(stamp, change) {
            return;
        }
        if let Some(part) = marked {
            state.pieces.forget(part);
        }
        if anew {
            let State { answer, pieces, .. } = &mut *state;
            pieces.forget_cut(answer);
        }
        state.shot = None;
        self.tell(&state.answer);
    }

    /// Begins again from what the store knows, under a newer epoch.
    pub fn restart(&self, answer: Answer) {
        let mut state = self.lock();
        if state.answer.ending.is_some() || answer.stamp <= state.answer.stamp {
            return;
        }
        *state = State { answer, pieces: RenderCache::default(), shot: None };
        self.tell(&state.answer);
    }

    /// The answer was completed elsewhere: this is how it stands for good.
    pub fn conclude(&self, answer: Answer) {
        let mut state = self.lock();
        if state.answer.ending.is_none() {
            *state = State { answer, pieces: RenderCache::default(), shot: None };
            self.tell(&state.answer);
        }
    }

    /// The conversation was deleted: what was being written ends here.
    fn delete(&self) {
        let mut state = self.lock();
        let Stamp { epoch, revision } = state.answer.stamp;
        state.answer.fold(Stamp { epoch, revision: revision + 1 }, Change::Ended(Ending::Stopped));
        state.shot = None;
        let (stamp, followed) = (state.answer.stamp, self.next.get().is_some());
        self.progress.send_replace(Progress { stamp, ended: true, deleted: true, followed });
    }

    fn tell(&self, answer: &Answer) {
        self.progress.send_modify(|progress| {
            progress.stamp = answer.stamp;
            progress.ended = answer.ending.is_some();
        });
    }

    fn follow(&self, next: Arc<LiveAnswer>) {
        // Answers of a conversation begin one after another, so that the place is free.
        if self.next.set(next).is_ok() {
            self.progress.send_modify(|progress| progress.followed = true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When something was read of the store.
#[derive(Debug, Clone, Copy)]
pub struct Generation(u64);

/// Fewer answers than this are not looked through for those that nobody holds.
const SWEEP_AT_LEAST: usize = 256;

/// Every answer that is being written here or was read lately, and the conversations that are watched.
#[derive(Default)]
pub struct Live {
    known: Mutex<Known>,
    load: Arc<Throttle>,
}

#[derive(Default)]
struct Known {
    answers: HashMap<MessageId, Arc<LiveAnswer>>,
    /// At how many of them those that nobody holds any more are dropped.
    sweep_at: usize,
    watched: HashMap<ConversationId, Watched>,
    done: Done,
    /// How often a conversation was deleted: what was read before that is not kept after it.
    deleted: u64,
}

impl Known {
    /// Drops the answers that nobody writes, reads or watches: one that is asked for again is made anew from the
    /// store. Looks at them only when they have doubled since the last time.
    fn sweep(&mut self) {
        if self.answers.len() >= self.sweep_at {
            self.answers.retain(|_, live| Arc::strong_count(live) > 1);
            self.sweep_at = (2 * self.answers.len()).max(SWEEP_AT_LEAST);
        }
    }
}

struct Watched {
    watchers: usize,
    latest: Option<Arc<LiveAnswer>>,
    deleted: bool,
}

impl Live {
    /// How many answers grow.
    pub(crate) fn load(&self) -> Arc<Throttle> {
        self.load.clone()
    }

    /// The answer, if it is being written here.
    #[must_use]
    pub fn get(&self, answer: MessageId) -> Option<Arc<LiveAnswer>> {
        self.lock().answers.get(&answer).cloned()
    }

    /// The present: to tell later whether a conversation was deleted since.
    pub fn generation(&self) -> Generation {
        Generation(self.lock().deleted)
    }

    /// Whether some conversation was deleted since the generation. An answer that is begun with what was known then may be
    /// of one.
    pub fn has_deleted_since(&self, generation: Generation) -> bool {
        self.lock().deleted != generation.0
    }

    /// The answer, if it is being written here or was read lately; else the generation for [`Self::keep`].
    ///
    /// # Errors
    /// The generation.
    pub fn find(&self, answer: MessageId) -> Result<Arc<LiveAnswer>, Generation> {
        let mut known = self.lock();
        let found = known.answers.get(&answer).cloned().or_else(|| known.done.get(answer));
        found.ok_or(Generation(known.deleted))
    }

    /// Keeps a completed answer for those who will read it soon, unless a conversation was deleted since the
    /// generation before it was read.
    pub fn keep(&self, live: &Arc<LiveAnswer>, generation: Generation) {
        let mut known = self.lock();
        if known.deleted == generation.0 {
            known.done.keep(live.clone());
        }
    }

    /// The answer from now on; the one that is known already when there is one.
    pub fn begin(&self, meta: Meta, answer: Answer) -> Arc<LiveAnswer> {
        let mut known = self.lock();
        if let Some(live) = known.answers.get(&meta.answer) {
            return live.clone();
        }
        known.sweep();
        let conversation = meta.conversation;
        let live = Arc::new(LiveAnswer::new(meta, answer));
        known.answers.insert(live.meta.answer, live.clone());
        if let Some(watched) = known.watched.get_mut(&conversation) {
            let before = watched.latest.clone();
            // Who looks late may begin an answer that is over: it follows none that came after it.
            if before.as_ref().is_none_or(|before| before.age() < live.age()) {
                watched.latest = Some(live.clone());
                if let Some(before) = before {
                    before.follow(live.clone());
                }
            }
        }
        live
    }

    /// The answer is done, or no longer written here; those who read it keep it.
    pub fn finish(&self, answer: MessageId) {
        self.lock().answers.remove(&answer);
    }

    /// Nobody writes the answer for now: it is kept for those who read it, if there are any.
    pub fn let_go(&self, answer: MessageId) {
        let mut known = self.lock();
        if known.answers.get(&answer).is_some_and(|live| Arc::strong_count(live) == 1) {
            known.answers.remove(&answer);
        }
    }

    /// The conversation is gone: its answer's readers and its watchers are told.
    pub fn delete(&self, conversation: ConversationId) {
        let mut known = self.lock();
        known.deleted += 1;
        known.done.forget(conversation);
        let mut gone: Vec<_> =
            known.answers.values().filter(|live| live.meta.conversation == conversation).cloned().collect();
        if let Some(watched) = known.watched.get_mut(&conversation) {
            watched.deleted = true;
            gone.extend(watched.latest.clone());
        }
        for live in gone {
            known.answers.remove(&live.meta.answer);
            live.delete();
        }
    }

    /// Watches a conversation: every answer that begins from now on follows the one that is its latest.
    #[must_use]
    pub fn watch(self: &Arc<Self>, conversation: ConversationId) -> Watch {
        let mut known = self.lock();
        let of_it = known.answers.values().filter(|live| live.meta.conversation == conversation);
        let open = of_it.max_by_key(|live| live.age()).cloned();
        let watched = known.watched.entry(conversation).or_insert(Watched {
            watchers: 0,
            latest: None,
            deleted: false,
        });
        watched.watchers += 1;
        watched.latest = watched.latest.take().or(open);
        Watch { live: self.clone(), conversation }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watcher's place in a conversation.
pub struct Watch {
    live: Arc<Live>,
    conversation: ConversationId,
}

impl Watch {
    /// The conversation's latest answer; `stored` is what the store says is, when none has been seen here.
    #[must_use]
    pub fn latest(&self, stored: Arc<LiveAnswer>) -> Arc<LiveAnswer> {
        let mut known = self.live.lock();
        let Some(watched) = known.watched.get_mut(&self.conversation) else { return stored };
        if watched.deleted {
            stored.delete(); // since the store was asked
        }
        watched.latest.get_or_insert(stored).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut known = self.live.lock();
        if let Some(watched) = known.watched.get_mut(&self.conversation) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                known.watched.remove(&self.conversation);
            }
        }
    }
}
