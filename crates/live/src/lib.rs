//! Answers in progress and their readers.
//!
//! One task owns an answer and applies its changes; each change raises the stamp that readers wait on. Readers get
//! [`Snapshot`]s: each is created at most once per revision, from segments that all readers share, so the cost of a
//! reader depends neither on the length nor on the speed of the answer. A snapshot supersedes earlier ones: slow
//! readers get fewer of them.

mod done;
mod follower;
mod proof;
mod rope;
mod snapshot;
#[cfg(test)]
mod tests;
mod throttle;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use domain::answer::{Answer, AnswerChange, AnswerEnding, PartContent, RevisionStamp};
use domain::id::{AccountId, ConversationId, MessageId};
use domain::time::Timestamp;
use tokio::sync::watch;

use self::done::CompletedCache;
pub use self::follower::Follower;
pub use self::rope::{Representation, Rope, RopeSegment};
use self::snapshot::RenderCache;
pub use self::snapshot::{PartKind, Snapshot, SnapshotCitation, SnapshotPart};
pub use text_analysis::proof::Unproven;

pub(crate) use self::throttle::{LastSent, Throttle};

/// The constant properties of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub answer: MessageId,
    pub account: AccountId,
    pub conversation: ConversationId,
    pub created_at: Timestamp,
    /// The model of the conversation.
    pub model: String,
}

/// The progress of an answer, for waiting readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AnswerProgress {
    /// The stamp of the last change.
    pub stamp: RevisionStamp,
    /// Set when the answer is completed.
    pub ended: bool,
    /// Set when its conversation is deleted.
    pub deleted: bool,
    /// Set while it is paused and waits for replies from outside.
    pub paused: bool,
}

/// An answer in progress, or one that was in progress when its first reader arrived.
pub struct LiveAnswer {
    meta: Arc<Meta>,
    state: Mutex<LiveState>,
    progress: watch::Sender<AnswerProgress>,
    next: OnceLock<Arc<LiveAnswer>>,
    /// The last time at which its readers got a state.
    pub(crate) last_sent: LastSent,
}

struct LiveState {
    answer: Answer,
    pieces: RenderCache,
    shot: Option<Arc<Snapshot>>,
}

impl LiveAnswer {
    /// Creates a live answer with this state.
    #[must_use]
    pub fn new(meta: Meta, answer: Answer) -> Self {
        let progress = AnswerProgress {
            stamp: answer.stamp,
            ended: answer.ending.is_some(),
            paused: !answer.pending.is_empty(),
            ..AnswerProgress::default()
        };
        let state = LiveState { answer, pieces: RenderCache::default(), shot: None };
        Self {
            meta: Arc::new(meta),
            state: Mutex::new(state),
            progress: watch::Sender::new(progress),
            next: OnceLock::new(),
            last_sent: LastSent::default(),
        }
    }

    /// Returns its constant properties.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns its position in the order of its conversation's answers.
    fn order_key(&self) -> (Timestamp, MessageId) {
        (self.meta.created_at, self.meta.answer)
    }

    fn is_over(&self) -> bool {
        self.progress.borrow().ended
    }

    /// Returns a receiver that is notified of changes.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<AnswerProgress> {
        self.progress.subscribe()
    }

    /// Returns the next answer of the conversation, once it has begun.
    #[must_use]
    pub fn next_answer(&self) -> Option<Arc<LiveAnswer>> {
        self.next.get().cloned()
    }

    /// Returns a snapshot of the current state.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let mut state = self.lock_state();
        if let Some(shot) = &state.shot {
            return shot.clone();
        }
        let LiveState { answer, pieces, .. } = &mut *state;
        let shot = Arc::new(pieces.build_snapshot(&self.meta, answer));
        state.shot = Some(shot.clone());
        shot
    }

    /// Reads the present answer. Changes of the answer wait meanwhile.
    pub fn read_answer<T>(&self, read: impl FnOnce(&Answer) -> T) -> T {
        read(&self.lock_state().answer)
    }

    /// Returns the text so far: Markdown with its citation marks.
    #[must_use]
    pub fn marked_text(&self) -> String {
        let state = self.lock_state();
        let texts = state.answer.parts.iter().filter_map(|part| match &part.body {
            PartContent::Text(markdown) => Some(markdown.trim_end()),
            PartContent::Reasoning(_) | PartContent::Run(_) | PartContent::File { .. } => None,
        });
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns its approximate memory in bytes, including the forms created for its readers.
    pub fn size_bytes(&self) -> usize {
        size_of(&self.lock_state().answer)
    }

    /// Returns true if it is completed, at least this long, and not rendered yet. Never waits for a rendering.
    #[must_use]
    pub fn awaits_rendering(&self, min_bytes: usize) -> bool {
        let is_awaited = |state: &LiveState| state.shot.is_none() && size_of(&state.answer) >= min_bytes;
        // The holder of a completed answer's state is probably rendering it.
        self.is_over() && self.state.try_lock().map_or(true, |state| is_awaited(&state))
    }

    /// Applies a change. Ignores a change that is not newer.
    pub fn fold_change(&self, stamp: RevisionStamp, change: AnswerChange) {
        let mut state = self.lock_state();
        let anew = state.answer.is_cut_by(&change);
        let marked = state.answer.marked_by(&change);
        if !state.answer.fold_change(stamp, change) {
            return;
        }
        if let Some(part) = marked {
            state.pieces.forget_part(part);
        }
        if anew {
            let LiveState { answer, pieces, .. } = &mut *state;
            pieces.forget_cut(answer);
        }
        state.shot = None;
        self.notify_readers(&state.answer);
    }

    /// Replaces the state by the stored one, under a newer epoch.
    pub fn restart_from(&self, answer: Answer) {
        let mut state = self.lock_state();
        if state.answer.ending.is_some() || answer.stamp <= state.answer.stamp {
            return;
        }
        *state = LiveState { answer, pieces: RenderCache::default(), shot: None };
        self.notify_readers(&state.answer);
    }

    /// Removes a call that has a reply by now from the calls that a paused answer waits for. No turn writes the answer
    /// meanwhile.
    pub fn note_reply(&self, call: &str) {
        let mut state = self.lock_state();
        if !state.answer.pending.iter().any(|pending| pending.call.id == call) {
            return;
        }
        let RevisionStamp { epoch, revision } = state.answer.stamp;
        let stamp = RevisionStamp { epoch, revision: revision + 1 };
        state.answer.fold_change(stamp, AnswerChange::Replied { call: call.to_owned() });
        state.shot = None;
        self.notify_readers(&state.answer);
    }

    /// Sets the final state of an answer that was completed elsewhere.
    pub fn conclude(&self, answer: Answer) {
        let mut state = self.lock_state();
        if state.answer.ending.is_none() {
            *state = LiveState { answer, pieces: RenderCache::default(), shot: None };
            self.notify_readers(&state.answer);
        }
    }

    /// Marks the conversation as deleted, which ends the streams.
    fn mark_deleted(&self) {
        let mut state = self.lock_state();
        let RevisionStamp { epoch, revision } = state.answer.stamp;
        state.answer.fold_change(
            RevisionStamp { epoch, revision: revision + 1 },
            AnswerChange::Ended(AnswerEnding::Stopped),
        );
        state.shot = None;
        self.progress.send_replace(AnswerProgress {
            stamp: state.answer.stamp,
            ended: true,
            deleted: true,
            paused: false,
        });
    }

    fn notify_readers(&self, answer: &Answer) {
        self.progress.send_modify(|progress| {
            progress.stamp = answer.stamp;
            progress.ended = answer.ending.is_some();
            progress.paused = !answer.pending.is_empty();
        });
    }

    fn set_next(&self, next: Arc<LiveAnswer>) {
        // Answers of a conversation begin one after another, so this one has no successor yet.
        if self.next.set(next).is_ok() {
            // Wakes the readers of the conversation, which find the next answer here.
            self.progress.send_modify(|_| ());
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the approximate memory of an answer in bytes, including the forms created for its readers.
fn size_of(answer: &Answer) -> usize {
    /// The forms of the text: original, displayed, HTML, and the latter two encoded for requests and for
    /// streams.
    const FORMS: usize = 7;
    /// The approximate memory per answer besides its text.
    const EACH_BYTES: usize = 512;
    let Answer { parts, sources, .. } = answer;
    let text: usize = parts
        .iter()
        .map(|part| match &part.body {
            PartContent::Text(text) | PartContent::Reasoning(text) => text.len(),
            PartContent::Run(run) => run.report.len() + run.sources.len() * EACH_BYTES,
            PartContent::File { .. } => 0,
        })
        .sum();
    text * FORMS + (4 + parts.len() + sources.len()) * EACH_BYTES
}

/// Identifies the time of a read from the store, to detect later deletions.
#[derive(Debug, Clone, Copy)]
pub struct Generation(u64);

/// The least number of answers that triggers a sweep of unreferenced ones.
const SWEEP_AT_LEAST: usize = 256;

/// All answers that are in progress in this process or were read recently, and the watched conversations.
#[derive(Default)]
pub struct Live {
    known: Mutex<KnownAnswers>,
    load: Arc<Throttle>,
}

#[derive(Default)]
struct KnownAnswers {
    answers: HashMap<MessageId, Arc<LiveAnswer>>,
    /// The number of answers that triggers the next sweep.
    sweep_at: usize,
    watched: HashMap<ConversationId, WatchedConversation>,
    done: CompletedCache,
    /// The number of deletions of conversations. An answer that was read before a deletion is not cached
    /// after it.
    deleted: u64,
}

impl KnownAnswers {
    /// Drops answers without references; they are created again from the store if needed. Runs only when
    /// their number has doubled since the last sweep.
    fn sweep_unused(&mut self) {
        if self.answers.len() >= self.sweep_at {
            self.answers.retain(|_, live| Arc::strong_count(live) > 1);
            self.sweep_at = (2 * self.answers.len()).max(SWEEP_AT_LEAST);
        }
    }
}

struct WatchedConversation {
    watchers: usize,
    latest: Option<Arc<LiveAnswer>>,
    deleted: bool,
}

impl Live {
    /// Returns the throttle of readers.
    pub(crate) fn reader_throttle(&self) -> Arc<Throttle> {
        self.load.clone()
    }

    /// Returns the answer if it is in progress in this process.
    #[must_use]
    pub fn get(&self, answer: MessageId) -> Option<Arc<LiveAnswer>> {
        self.lock_known().answers.get(&answer).cloned()
    }

    /// Returns the current generation, to detect later deletions of conversations.
    pub fn generation(&self) -> Generation {
        Generation(self.lock_known().deleted)
    }

    /// Returns `true` if a conversation was deleted since `generation`. An answer that was read before may
    /// then belong to it.
    pub fn has_deleted_since(&self, generation: Generation) -> bool {
        self.lock_known().deleted != generation.0
    }

    /// Returns the answer if it is in progress in this process or was read recently.
    ///
    /// # Errors
    /// The generation for [`Self::keep_completed`], if it is not cached.
    pub fn find_cached(&self, answer: MessageId) -> Result<Arc<LiveAnswer>, Generation> {
        let mut known = self.lock_known();
        let found = known.answers.get(&answer).cloned().or_else(|| known.done.get(answer));
        found.ok_or(Generation(known.deleted))
    }

    /// Caches a completed answer, unless a conversation was deleted since `generation`, which must precede the read of
    /// the answer. Returns the answer that all readers share: possibly that of a faster reader, so that it is rendered
    /// once.
    #[must_use]
    pub fn keep_completed(&self, live: Arc<LiveAnswer>, generation: Generation) -> Arc<LiveAnswer> {
        let mut known = self.lock_known();
        if known.deleted != generation.0 {
            return live;
        }
        if let Some(shared) = known.done.get(live.meta.answer) {
            return shared;
        }
        known.done.keep_answer(live.clone());
        live
    }

    /// Registers an answer in progress and returns it; returns the registered one if there is one.
    pub fn begin_answer(&self, meta: Meta, answer: Answer) -> Arc<LiveAnswer> {
        let mut known = self.lock_known();
        if let Some(live) = known.answers.get(&meta.answer) {
            return live.clone();
        }
        known.sweep_unused();
        let conversation = meta.conversation;
        let live = Arc::new(LiveAnswer::new(meta, answer));
        known.answers.insert(live.meta.answer, live.clone());
        if let Some(watched) = known.watched.get_mut(&conversation) {
            let before = watched.latest.clone();
            // A late reader may register a completed answer, which must not follow newer ones. One in progress is the newest,
            // even if the clock was set back.
            let is_newer = |before: &Arc<LiveAnswer>| {
                before.order_key() < live.order_key() || before.is_over() && !live.is_over()
            };
            if before.as_ref().is_none_or(is_newer) {
                watched.latest = Some(live.clone());
                if let Some(before) = before {
                    before.set_next(live.clone());
                }
            }
        }
        live
    }

    /// Returns `true` if somebody watches the conversation.
    pub fn is_watched(&self, conversation: ConversationId) -> bool {
        self.lock_known().watched.contains_key(&conversation)
    }

    /// Moves the watchers of a conversation to the last answer of another branch. The answer must be a new object, so that
    /// none follows itself when a branch is shown again. Does nothing while the answer that they watch is in progress.
    pub fn show_branch(&self, latest: Arc<LiveAnswer>) {
        let mut known = self.lock_known();
        if let Some(watched) = known.watched.get_mut(&latest.meta.conversation)
            && watched.latest.as_ref().is_none_or(|before| before.is_over())
            && let Some(before) = watched.latest.replace(latest.clone())
        {
            before.set_next(latest);
        }
    }

    /// Removes an answer that is completed, or is not written here any more. Its readers keep it.
    pub fn finish_answer(&self, answer: MessageId) {
        self.lock_known().answers.remove(&answer);
    }

    /// Releases an answer that is not being written for now. It stays registered while it has readers.
    pub fn let_go(&self, answer: MessageId) {
        let mut known = self.lock_known();
        if known.answers.get(&answer).is_some_and(|live| Arc::strong_count(live) == 1) {
            known.answers.remove(&answer);
        }
    }

    /// Ends the streams of a deleted conversation's answers, and its watchers.
    pub fn delete_conversation(&self, conversation: ConversationId) {
        let mut known = self.lock_known();
        known.deleted += 1;
        known.done.forget_conversation(conversation);
        let mut affected: Vec<_> =
            known.answers.values().filter(|live| live.meta.conversation == conversation).cloned().collect();
        if let Some(watched) = known.watched.get_mut(&conversation) {
            watched.deleted = true;
            affected.extend(watched.latest.clone());
        }
        for live in affected {
            known.answers.remove(&live.meta.answer);
            live.mark_deleted();
        }
    }

    /// Watches a conversation: every answer that begins from now on becomes the successor of its latest
    /// answer.
    #[must_use]
    pub fn watch_conversation(self: &Arc<Self>, conversation: ConversationId) -> ConversationWatch {
        let mut known = self.lock_known();
        let of_it = known.answers.values().filter(|live| live.meta.conversation == conversation);
        let open = of_it.max_by_key(|live| live.order_key()).cloned();
        let watched = known.watched.entry(conversation).or_insert(WatchedConversation {
            watchers: 0,
            latest: None,
            deleted: false,
        });
        watched.watchers += 1;
        watched.latest = watched.latest.take().or(open);
        ConversationWatch { live: self.clone(), conversation }
    }

    fn lock_known(&self) -> MutexGuard<'_, KnownAnswers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registration as a watcher of a conversation.
pub struct ConversationWatch {
    live: Arc<Live>,
    conversation: ConversationId,
}

impl ConversationWatch {
    /// Returns the latest answer of the conversation: the one registered here, otherwise `stored`, the latest
    /// one in the store.
    #[must_use]
    pub fn latest_answer(&self, stored: Arc<LiveAnswer>) -> Arc<LiveAnswer> {
        let mut known = self.live.lock_known();
        let Some(watched) = known.watched.get_mut(&self.conversation) else { return stored };
        if watched.deleted {
            stored.mark_deleted(); // since the store was asked
        }
        watched.latest.get_or_insert(stored).clone()
    }
}

impl Drop for ConversationWatch {
    fn drop(&mut self) {
        let mut known = self.live.lock_known();
        if let Some(watched) = known.watched.get_mut(&self.conversation) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                known.watched.remove(&self.conversation);
            }
        }
    }
}
