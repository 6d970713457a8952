//! Completed answers that were read lately: they are read and rendered once for many who collect them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use domain::id::{ConversationId, MessageId};

use crate::LiveAnswer;

/// The most that each of the two generations holds, about.
const GENERATION_MAX_BYTES: usize = 8 << 20;
/// A longer answer is not kept, but shared by those who read it at the same time: reading it costs more than finding it.
const ANSWER_MAX_BYTES: usize = 1 << 20;

/// Two generations: what is read moves to the young one; when that is full, the old one is forgotten.
#[derive(Default)]
pub(crate) struct Done {
    young: HashMap<MessageId, Kept>,
    old: HashMap<MessageId, Kept>,
    young_bytes: usize,
    /// Long ones, for as long as somebody has them.
    long: HashMap<MessageId, Weak<LiveAnswer>>,
}

#[derive(Clone)]
struct Kept {
    live: Arc<LiveAnswer>,
    bytes: usize,
}

impl Done {
    pub(crate) fn get(&mut self, answer: MessageId) -> Option<Arc<LiveAnswer>> {
        if let Some(kept) = self.young.get(&answer) {
            return Some(kept.live.clone());
        }
        if let Some(kept) = self.old.remove(&answer) {
            self.insert(kept.clone());
            return Some(kept.live);
        }
        self.long.get(&answer)?.upgrade()
    }

    pub(crate) fn keep(&mut self, live: Arc<LiveAnswer>) {
        let bytes = live.size_bytes();
        if bytes <= ANSWER_MAX_BYTES {
            self.insert(Kept { live, bytes });
        } else {
            // There are as many as somebody reads now, and those that nobody asked for since.
            self.long.retain(|_, live| live.strong_count() > 0);
            self.long.insert(live.meta().answer, Arc::downgrade(&live));
        }
    }

    pub(crate) fn forget(&mut self, conversation: ConversationId) {
        for generation in [&mut self.young, &mut self.old] {
            generation.retain(|_, kept| kept.live.meta().conversation != conversation);
        }
        self.long
            .retain(|_, live| live.upgrade().is_some_and(|live| live.meta().conversation != conversation));
        self.young_bytes = self.young.values().map(|kept| kept.bytes).sum();
    }

    fn insert(&mut self, kept: Kept) {
        if self.young_bytes + kept.bytes > GENERATION_MAX_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += kept.bytes;
        if let Some(before) = self.young.insert(kept.live.meta().answer, kept) {
            self.young_bytes -= before.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::answer::{Answer, Ending};
    use domain::id::AccountId;
    use domain::time::Timestamp;

    use super::*;
    use crate::Meta;

    fn completed(number: u128, text: &str) -> Arc<LiveAnswer> {
        let mut answer = Answer::new(MessageId::from_random(number), &[]);
        answer.parts.push(domain::answer::Part {
            id: domain::id::PartId::from_random(number),
            step: None,
            body: domain::answer::Body::Text(text.to_owned()),
        });
        answer.ending = Some(Ending::Done);
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
    fn what_is_read_again_outlives_what_is_not() {
        let (mut done, text) = (Done::default(), "x".repeat(ANSWER_MAX_BYTES / 8));
        let answers: Vec<_> = (0..64).map(|number| completed(number, &text)).collect();
        for answer in &answers {
            done.keep(answer.clone());
            assert!(done.get(answers[0].meta().answer).is_some());
        }
        assert!(done.get(answers[1].meta().answer).is_none());
        assert!(done.young_bytes <= GENERATION_MAX_BYTES);
        done.forget(answers[0].meta().conversation);
        assert!(done.get(answers[0].meta().answer).is_none());
    }

    #[test]
    fn a_long_answer_is_shared_and_not_kept() {
        let mut done = Done::default();
        let long = completed(1, &"x".repeat(ANSWER_MAX_BYTES));
        done.keep(long.clone());
        let shared = done.get(long.meta().answer).expect("somebody has it");
        assert!(Arc::ptr_eq(&shared, &long) && done.young_bytes == 0);
        let answer = long.meta().answer;
        drop((long, shared));
        assert!(done.get(answer).is_none());
        let deleted = completed(2, &"x".repeat(ANSWER_MAX_BYTES));
        done.keep(deleted.clone());
        done.forget(deleted.meta().conversation);
        assert!(done.get(deleted.meta().answer).is_none() && done.long.is_empty());
    }
}
