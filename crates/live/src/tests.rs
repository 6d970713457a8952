//! Tests of the guarantees to readers of an answer in progress.

use std::sync::Arc;

use domain::answer::{Answer, AnswerChange, AnswerEnding, RevisionStamp};
use domain::id::{AccountId, ConversationId, MessageId};
use domain::time::Timestamp;
use futures_util::FutureExt;
use proptest::prelude::*;

use crate::follower::Follower;
use crate::{Live, LiveAnswer, Meta, PartKind, Snapshot};

fn sample_meta(answer: u128) -> Meta {
    Meta {
        answer: MessageId::from_random(answer),
        account: AccountId::from_random(1),
        conversation: ConversationId::from_random(2),
        created_at: Timestamp::from_micros(0),
        model: "m".to_owned(),
    }
}

fn sample_live(answer: u128) -> LiveAnswer {
    let meta = sample_meta(answer);
    let answer = Answer::new(meta.answer, &[]);
    LiveAnswer::new(meta, answer)
}

fn stamp_at(revision: u64) -> RevisionStamp {
    RevisionStamp { epoch: 1, revision }
}

fn text_change(revision: u64, text: &str) -> (RevisionStamp, AnswerChange) {
    (stamp_at(revision), AnswerChange::TextGrew { block: 0, text: text.to_owned() })
}

fn fold_change(live: &LiveAnswer, (stamp, change): (RevisionStamp, AnswerChange)) {
    live.fold_change(stamp, change);
}

fn snapshot_html(snapshot: &Snapshot) -> String {
    let texts = snapshot.parts.iter().filter_map(|part| match &part.shape {
        PartKind::Text { html, .. } => Some(html.to_string()),
        PartKind::Reasoning { .. }
        | PartKind::Tool { .. }
        | PartKind::WebSearch { .. }
        | PartKind::Agent { .. } => None,
        PartKind::Skill { .. } | PartKind::File { .. } => None,
    });
    texts.collect()
}

#[test]
fn snapshot_made_once_per_revision() {
    let live = sample_live(1);
    fold_change(&live, text_change(1, "a"));
    assert!(Arc::ptr_eq(&live.snapshot(), &live.snapshot()));
    fold_change(&live, text_change(1, "b"));
    assert_eq!(live.snapshot().text.to_string(), "a", "a duplicate is ignored");
}

#[test]
fn cut_attempt_text_is_removed() {
    let live = sample_live(1);
    live.fold_change(stamp_at(1), AnswerChange::StepBegan { number: 0 });
    fold_change(&live, text_change(2, "wrong **way** in"));
    assert_eq!(live.snapshot().text.to_string(), "wrong **way** in");
    live.fold_change(stamp_at(3), AnswerChange::StepBegan { number: 0 });
    assert_eq!(live.snapshot().text.to_string(), "");
    fold_change(&live, text_change(4, "right"));
    let snapshot = live.snapshot();
    assert_eq!(
        (snapshot.text.to_string(), snapshot_html(&snapshot).trim()),
        ("right".to_owned(), "<p>right</p>")
    );
}

#[tokio::test]
async fn slow_reader_gets_newest_then_end() {
    let live = Arc::new(sample_live(1));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert_eq!(follower.next_snapshot().await.expect("the current state").text.to_string(), "");
    for revision in 1..=100 {
        fold_change(&live, text_change(revision, "x"));
    }
    assert_eq!(follower.next_snapshot().await.expect("the newest state").text.len(), 100);
    live.fold_change(stamp_at(101), AnswerChange::Ended(AnswerEnding::Done));
    assert!(follower.next_snapshot().await.expect("the end").ending.is_some());
    assert!(follower.next_snapshot().await.is_none());
}

#[tokio::test]
async fn watcher_gets_end_after_next_began() {
    let registry = Arc::new(Live::default());
    let first = registry.begin_answer(sample_meta(1), Answer::new(sample_meta(1).answer, &[]));
    let watch = registry.watch_conversation(sample_meta(1).conversation);
    let latest = watch.latest_answer(first.clone());
    let mut follower = Follower::new(latest, Some(watch), Arc::default());
    follower.next_snapshot().await.expect("the current state");
    first.fold_change(stamp_at(1), AnswerChange::Ended(AnswerEnding::Done));
    registry.finish_answer(first.meta().answer);
    let second = registry.begin_answer(sample_meta(2), Answer::new(sample_meta(2).answer, &[]));
    second.fold_change(stamp_at(1), AnswerChange::Ended(AnswerEnding::Done));
    registry.finish_answer(second.meta().answer);
    for expected in [&first, &second] {
        let snapshot = follower.next_snapshot().await.expect("an end");
        assert_eq!(snapshot.meta.answer, expected.meta().answer);
        assert!(snapshot.ending.is_some());
    }
    registry.delete_conversation(sample_meta(1).conversation);
    assert!(follower.next_snapshot().await.is_none(), "the conversation is deleted");
}

#[tokio::test]
async fn watcher_waits_for_next_answer() {
    let registry = Arc::new(Live::default());
    let first = registry.begin_answer(sample_meta(1), Answer::new(sample_meta(1).answer, &[]));
    let watch = registry.watch_conversation(sample_meta(1).conversation);
    let mut follower = Follower::new(watch.latest_answer(first), Some(watch), Arc::default());
    let known = sample_meta(1).answer;
    let waiting = follower.answer_after(known).now_or_never();
    assert!(waiting.is_none(), "there is no other answer");
    let _second = registry.begin_answer(sample_meta(2), Answer::new(sample_meta(2).answer, &[]));
    assert_eq!(follower.answer_after(known).await, Some(sample_meta(2).answer));
    registry.delete_conversation(sample_meta(1).conversation);
    assert_eq!(follower.answer_after(sample_meta(2).answer).await, None, "the conversation is deleted");
}

#[tokio::test]
async fn watcher_skips_late_older_answer() {
    let registry = Arc::new(Live::default());
    let second = registry.begin_answer(sample_meta(2), Answer::new(sample_meta(2).answer, &[]));
    let watch = registry.watch_conversation(sample_meta(1).conversation);
    let latest = watch.latest_answer(second.clone());
    let mut follower = Follower::new(latest, Some(watch), Arc::default());
    follower.next_snapshot().await.expect("the current state");
    // A late reader begins the answer again, although it is completed.
    registry.begin_answer(sample_meta(1), Answer::new(sample_meta(1).answer, &[]));
    second.fold_change(stamp_at(1), AnswerChange::Ended(AnswerEnding::Done));
    assert!(follower.next_snapshot().await.expect("the end").ending.is_some());
    let third = registry.begin_answer(sample_meta(3), Answer::new(sample_meta(3).answer, &[]));
    let next = follower.next_snapshot().await.expect("the answer after it");
    assert_eq!(next.meta.answer, third.meta().answer);
}

#[tokio::test]
async fn watcher_advances_despite_clock_setback() {
    let registry = Arc::new(Live::default());
    let first = registry.begin_answer(sample_meta(2), Answer::new(sample_meta(2).answer, &[]));
    let watch = registry.watch_conversation(sample_meta(2).conversation);
    let latest = watch.latest_answer(first.clone());
    let mut follower = Follower::new(latest, Some(watch), Arc::default());
    follower.next_snapshot().await.expect("the current state");
    first.fold_change(stamp_at(1), AnswerChange::Ended(AnswerEnding::Done));
    assert!(follower.next_snapshot().await.expect("the end").ending.is_some());
    let earlier = registry.begin_answer(sample_meta(1), Answer::new(sample_meta(1).answer, &[]));
    assert_eq!(follower.next_snapshot().await.expect("the next answer").meta.answer, earlier.meta().answer);
}

#[tokio::test]
async fn deleted_conversation_is_not_watched() {
    let registry = Arc::new(Live::default());
    let watch = registry.watch_conversation(sample_meta(1).conversation);
    let mut stored = Answer::new(sample_meta(1).answer, &[]);
    stored.fold_change(stamp_at(1), AnswerChange::Ended(AnswerEnding::Done));
    registry.delete_conversation(sample_meta(1).conversation);
    let latest = watch.latest_answer(Arc::new(LiveAnswer::new(sample_meta(1), stored)));
    let mut follower = Follower::new(latest, Some(watch), Arc::default());
    assert!(follower.next_snapshot().await.expect("the current state").ending.is_some());
    let rest = follower.next_snapshot().now_or_never().expect("the stream ends without waiting");
    assert!(rest.is_none());
}

#[tokio::test]
async fn deleting_a_conversation_ends_its_streams() {
    let registry = Arc::new(Live::default());
    let answer = registry.begin_answer(sample_meta(1), Answer::new(sample_meta(1).answer, &[]));
    let mut follower = Follower::new(answer.clone(), None, Arc::default());
    follower.next_snapshot().await.expect("the current state");
    registry.delete_conversation(sample_meta(1).conversation);
    assert!(follower.next_snapshot().await.expect("the end").ending.is_some());
    assert!(follower.next_snapshot().await.is_none());
    assert!(registry.get(sample_meta(1).answer).is_none());
}

#[tokio::test]
async fn resume_with_current_state_waits() {
    let live = Arc::new(sample_live(1));
    fold_change(&live, text_change(1, "a"));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert!(!follower.resume_at(stamp_at(1)));
    fold_change(&live, text_change(2, "b"));
    assert_eq!(follower.next_snapshot().await.expect("the change").text.to_string(), "ab");
}

#[tokio::test]
async fn state_sent_once_despite_wakes() {
    let live = Arc::new(sample_live(1));
    fold_change(&live, text_change(1, "a"));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert_eq!(follower.next_snapshot().await.expect("the current state").stamp, stamp_at(1));
    live.set_next(Arc::new(LiveAnswer::new(sample_meta(2), Answer::new(sample_meta(2).answer, &[]))));
    assert!(follower.next_snapshot().now_or_never().is_none(), "no new state");
    fold_change(&live, text_change(2, "b"));
    assert_eq!(follower.next_snapshot().await.expect("the change").stamp, stamp_at(2));
}

#[tokio::test]
async fn resume_with_older_state_gets_end() {
    let live = Arc::new(sample_live(1));
    fold_change(&live, text_change(1, "a"));
    live.fold_change(stamp_at(2), AnswerChange::Ended(AnswerEnding::Done));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert!(!follower.resume_at(stamp_at(1)));
    assert!(follower.next_snapshot().await.expect("the end").ending.is_some());
    let mut follower = Follower::new(live, None, Arc::default());
    assert!(follower.resume_at(stamp_at(2)), "a reader with the final state needs no further one");
    assert!(follower.next_snapshot().await.is_none());
}

#[tokio::test]
async fn resume_ahead_skips_older_states() {
    let mut stored = Answer::new(sample_meta(1).answer, &[]);
    stored.stamp = stamp_at(0);
    let live = Arc::new(LiveAnswer::new(sample_meta(1), stored));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert!(!follower.resume_at(stamp_at(57)));
    let mut anew = Answer::new(sample_meta(1).answer, &[]);
    anew.stamp = RevisionStamp { epoch: 2, revision: 0 };
    live.restart_from(anew.clone());
    assert_eq!(follower.next_snapshot().await.expect("the next epoch's state").stamp, anew.stamp);
    let mut follower = Follower::new(live, None, Arc::default());
    assert!(!follower.resume_at(RevisionStamp { epoch: 3, revision: 1 }), "an unknown state");
    assert_eq!(follower.next_snapshot().await.expect("the current state").stamp, anew.stamp);
}

#[test]
fn unreferenced_answers_are_dropped() {
    let registry = Live::default();
    let held = registry.begin_answer(sample_meta(0), Answer::new(sample_meta(0).answer, &[]));
    for number in 1..10_000 {
        registry.begin_answer(sample_meta(number), Answer::new(sample_meta(number).answer, &[]));
    }
    assert!(registry.lock_known().answers.len() <= crate::SWEEP_AT_LEAST);
    assert!(Arc::ptr_eq(&registry.get(sample_meta(0).answer).expect("it is held"), &held));
    registry.let_go(sample_meta(0).answer);
    assert!(registry.get(sample_meta(0).answer).is_some(), "it is read");
    drop(held);
    registry.let_go(sample_meta(0).answer);
    assert!(registry.get(sample_meta(0).answer).is_none());
}

proptest! {
    /// At any time, the text in progress is a prefix of the final text, and the final text equals the
    /// answer's.
    #[test]
    fn text_grows_into_final_form(pieces in prop::collection::vec("[ab \\[\\]1\\n`*]{0,6}", 0..40), look in any::<u64>()) {
        let live = sample_live(1);
        let mut answer = Answer::new(sample_meta(1).answer, &[]);
        let mut seen = Vec::new();
        for (piece, revision) in pieces.iter().zip(1..) {
            let (stamp, change) = text_change(revision, piece);
            answer.fold_change(stamp, change.clone());
            live.fold_change(stamp, change);
            if look >> (revision % 64) & 1 == 1 {
                seen.push(live.snapshot().text.to_string());
            }
        }
        live.fold_change(stamp_at(1000), AnswerChange::Ended(AnswerEnding::Done));
        let whole = live.snapshot().text.to_string();
        prop_assert_eq!(&whole, &answer.unmarked_text());
        for earlier in seen {
            prop_assert!(whole.starts_with(&earlier), "{:?} is not a prefix of {:?}", earlier, whole);
        }
    }
}
