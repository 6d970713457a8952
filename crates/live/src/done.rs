//! A cache of recently read, completed answers, so that they are read and rendered once for many readers.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use domain::id::{ConversationId, MessageId};

use crate::LiveAnswer;

/// The approximate capacity of each of the two generations, in bytes.
const GENERATION_MAX_BYTES: usize = 8 << 20;
/// Longer answers are not cached, only shared by concurrent readers: reading them costs more than finding
/// them.
const ANSWER_MAX_BYTES: usize = 1 << 20;

/// A cache of two generations: an entry that is read moves to the young one. When that is full, it replaces
/// the old one.
#[derive(Default)]
pub(crate) struct CompletedCache {
    young: HashMap<MessageId, CachedAnswer>,
    old: HashMap<MessageId, CachedAnswer>,
    young_bytes: usize,
    /// Long answers, for as long as a reader holds them.
    long: HashMap<MessageId, Weak<LiveAnswer>>,
}

#[derive(Clone)]
struct CachedAnswer {
    live: Arc<LiveAnswer>,
    bytes: usize,
}

impl CompletedCache {
    pub(crate) fn get(&mut self, answer: MessageId) -> Option<Arc<LiveAnswer>> {
        if let Some(cached) = self.young.get(&answer) {
            return Some(cached.live.clone());
        }
        if let Some(cached) = self.old.remove(&answer) {
            self.insert(cached.clone());
            return Some(cached.live);
        }
        self.long.get(&answer)?.upgrade()
    }

    pub(crate) fn keep_answer(&mut self, live: Arc<LiveAnswer>) {
        let bytes = live.size_bytes();
        if bytes <= ANSWER_MAX_BYTES {
            self.insert(CachedAnswer { live, bytes });
        } else {
            // Removes entries without readers, so that their number is bounded by the current readers.
            self.long.retain(|_, live| live.strong_count() > 0);
            self.long.insert(live.meta().answer, Arc::downgrade(&live));
        }
    }

    pub(crate) fn forget_conversation(&mut self, conversation: ConversationId) {
        for generation in [&mut self.young, &mut self.old] {
            generation.retain(|_, cached| cached.live.meta().conversation != conversation);
        }
        self.long
            .retain(|_, live| live.upgrade().is_some_and(|live| live.meta().conversation != conversation));
        self.young_bytes = self.young.values().map(|cached| cached.bytes).sum();
    }

    fn insert(&mut self, cached: CachedAnswer) {
        if self.young_bytes + cached.bytes > GENERATION_MAX_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += cached.bytes;
        if let Some(before) = self.young.insert(cached.live.meta().answer, cached) {
            self.young_bytes -= before.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::answer::{Answer, AnswerEnding};
    use domain::id::AccountId;
    use domain::time::Timestamp;

    use super::*;
    use crate::Meta;

    fn completed_answer(number: u128, text: &str) -> Arc<LiveAnswer> {
        let mut answer = Answer::new(MessageId::from_random(number), &[]);
        answer.parts.push(domain::answer::ContentPart {
            id: domain::id::PartId::from_random(number),
            step: None,
            body: domain::answer::PartContent::Text(text.to_owned()),
        });
        answer.ending = Some(AnswerEnding::Done);
        let meta = Meta {
            answer: MessageId::from_random(number),
            account: AccountId::from_random(1),
            conversation: ConversationId::from_random(number),
            created_at: Timestamp::from_micros(0),
            model: "m".to_owned(),
        };
        Arc::new(LiveAnswer::new(meta, answer))
    }

    #[test]
    fn recently_read_answers_outlive_others() {
        let (mut done, text) = (CompletedCache::default(), "x".repeat(ANSWER_MAX_BYTES / 8));
        let answers: Vec<_> = (0..64).map(|number| completed_answer(number, &text)).collect();
        for answer in &answers {
            done.keep_answer(answer.clone());
            assert!(done.get(answers[0].meta().answer).is_some());
        }
        assert!(done.get(answers[1].meta().answer).is_none());
        assert!(done.young_bytes <= GENERATION_MAX_BYTES);
        done.forget_conversation(answers[0].meta().conversation);
        assert!(done.get(answers[0].meta().answer).is_none());
    }

    #[test]
    fn long_answer_shared_not_cached() {
        let mut done = CompletedCache::default();
        let long = completed_answer(1, &"x".repeat(ANSWER_MAX_BYTES));
        done.keep_answer(long.clone());
        let shared = done.get(long.meta().answer).expect("it is held");
        assert!(Arc::ptr_eq(&shared, &long) && done.young_bytes == 0);
        let answer = long.meta().answer;
        drop((long, shared));
        assert!(done.get(answer).is_none());
        let deleted = completed_answer(2, &"x".repeat(ANSWER_MAX_BYTES));
        done.keep_answer(deleted.clone());
        done.forget_conversation(deleted.meta().conversation);
        assert!(done.get(deleted.meta().answer).is_none() && done.long.is_empty());
    }
}
