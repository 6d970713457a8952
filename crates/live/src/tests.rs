//! Tests of the guarantees to readers of an answer in progress.

use std::sync::Arc;

use domain::answer::{Answer, Change, Ending, Stamp};
use domain::id::{AccountId, ConversationId, MessageId};
use domain::time::Timestamp;
use futures_util::FutureExt;
use proptest::prelude::*;

use crate::follower::Follower;
use crate::{Live, LiveAnswer, Meta, PartKind, Snapshot};

fn meta(answer: u128) -> Meta {
    Meta {
        answer: MessageId::from_random(answer),
        account: AccountId::from_random(1),
        conversation: ConversationId::from_random(2),
        created_at: Timestamp::from_micros(0),
        model: "m".to_owned(),
    }
}

fn live(answer: u128) -> LiveAnswer {
    let meta = meta(answer);
    let answer = Answer::new(meta.answer, &[]);
    LiveAnswer::new(meta, answer)
}

fn stamp(revision: u64) -> Stamp {
    Stamp { epoch: 1, revision }
}

fn text(revision: u64, text: &str) -> (Stamp, Change) {
    (stamp(revision), Change::TextGrew { block: 0, text: text.to_owned() })
}

fn fold(live: &LiveAnswer, (stamp, change): (Stamp, Change)) {
    live.fold(stamp, change);
}

fn html(snapshot: &Snapshot) -> String {
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
fn a_revision_is_made_once_for_all_readers() {
    let live = live(1);
    fold(&live, text(1, "a"));
    assert!(Arc::ptr_eq(&live.snapshot(), &live.snapshot()));
    fold(&live, text(1, "b"));
    assert_eq!(live.snapshot().text.to_string(), "a", "a duplicate is ignored");
}

#[test]
fn text_of_a_cut_attempt_is_removed() {
    let live = live(1);
    live.fold(stamp(1), Change::StepBegan { number: 0 });
    fold(&live, text(2, "wrong **way** in"));
    assert_eq!(live.snapshot().text.to_string(), "wrong **way** in");
    live.fold(stamp(3), Change::StepBegan { number: 0 });
    assert_eq!(live.snapshot().text.to_string(), "");
    fold(&live, text(4, "right"));
    let snapshot = live.snapshot();
    assert_eq!((snapshot.text.to_string(), html(&snapshot).trim()), ("right".to_owned(), "<p>right</p>"));
}

#[tokio::test]
async fn a_slow_reader_gets_the_newest_state_and_then_the_end() {
    let live = Arc::new(live(1));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert_eq!(follower.next().await.expect("the current state").text.to_string(), "");
    for revision in 1..=100 {
        fold(&live, text(revision, "x"));
    }
    assert_eq!(follower.next().await.expect("the newest state").text.len(), 100);
    live.fold(stamp(101), Change::Ended(Ending::Done));
    assert!(follower.next().await.expect("the end").ending.is_some());
    assert!(follower.next().await.is_none());
}

#[tokio::test]
async fn a_watcher_gets_every_end_even_after_the_next_answer_has_begun() {
    let registry = Arc::new(Live::default());
    let first = registry.begin(meta(1), Answer::new(meta(1).answer, &[]));
    let watch = registry.watch(meta(1).conversation);
    let latest = watch.latest(first.clone());
    let mut follower = Follower::new(latest, Some(watch), Arc::default());
    follower.next().await.expect("the current state");
    first.fold(stamp(1), Change::Ended(Ending::Done));
    registry.finish(first.meta().answer);
    let second = registry.begin(meta(2), Answer::new(meta(2).answer, &[]));
    second.fold(stamp(1), Change::Ended(Ending::Done));
    registry.finish(second.meta().answer);
    for expected in [&first, &second] {
        let snapshot = follower.next().await.expect("an end");
        assert_eq!(snapshot.meta.answer, expected.meta().answer);
        assert!(snapshot.ending.is_some());
    }
    registry.delete(meta(1).conversation);
    assert!(follower.next().await.is_none(), "the conversation is deleted");
}

#[tokio::test]
async fn a_watcher_waits_for_the_answer_after_one_that_it_has() {
    let registry = Arc::new(Live::default());
    let first = registry.begin(meta(1), Answer::new(meta(1).answer, &[]));
    let watch = registry.watch(meta(1).conversation);
    let mut follower = Follower::new(watch.latest(first), Some(watch), Arc::default());
    let known = meta(1).answer;
    let waiting = follower.answer_after(known).now_or_never();
    assert!(waiting.is_none(), "there is no other answer");
    let _second = registry.begin(meta(2), Answer::new(meta(2).answer, &[]));
    assert_eq!(follower.answer_after(known).await, Some(meta(2).answer));
    registry.delete(meta(1).conversation);
    assert_eq!(follower.answer_after(meta(2).answer).await, None, "the conversation is deleted");
}

#[tokio::test]
async fn a_watcher_is_not_led_back_to_an_answer_that_is_begun_late() {
    let registry = Arc::new(Live::default());
    let second = registry.begin(meta(2), Answer::new(meta(2).answer, &[]));
    let watch = registry.watch(meta(1).conversation);
    let latest = watch.latest(second.clone());
    let mut follower = Follower::new(latest, Some(watch), Arc::default());
    follower.next().await.expect("the current state");
    // A late reader begins the answer again, although it is completed.
    registry.begin(meta(1), Answer::new(meta(1).answer, &[]));
    second.fold(stamp(1), Change::Ended(Ending::Done));
    assert!(follower.next().await.expect("the end").ending.is_some());
    let third = registry.begin(meta(3), Answer::new(meta(3).answer, &[]));
    let next = follower.next().await.expect("the answer after it");
    assert_eq!(next.meta.answer, third.meta().answer);
}

#[tokio::test]
async fn a_watcher_gets_the_next_answer_although_the_clock_was_set_back() {
    let registry = Arc::new(Live::default());
    let first = registry.begin(meta(2), Answer::new(meta(2).answer, &[]));
    let watch = registry.watch(meta(2).conversation);
    let latest = watch.latest(first.clone());
    let mut follower = Follower::new(latest, Some(watch), Arc::default());
    follower.next().await.expect("the current state");
    first.fold(stamp(1), Change::Ended(Ending::Done));
    assert!(follower.next().await.expect("the end").ending.is_some());
    let earlier = registry.begin(meta(1), Answer::new(meta(1).answer, &[]));
    assert_eq!(follower.next().await.expect("the next answer").meta.answer, earlier.meta().answer);
}

#[tokio::test]
async fn a_conversation_deleted_while_its_watcher_looked_for_the_latest_answer_is_not_watched() {
    let registry = Arc::new(Live::default());
    let watch = registry.watch(meta(1).conversation);
    let mut stored = Answer::new(meta(1).answer, &[]);
    stored.fold(stamp(1), Change::Ended(Ending::Done));
    registry.delete(meta(1).conversation);
    let latest = watch.latest(Arc::new(LiveAnswer::new(meta(1), stored)));
    let mut follower = Follower::new(latest, Some(watch), Arc::default());
    assert!(follower.next().await.expect("the current state").ending.is_some());
    let rest = follower.next().now_or_never().expect("the stream ends without waiting");
    assert!(rest.is_none());
}

#[tokio::test]
async fn deleting_a_conversation_ends_its_streams() {
    let registry = Arc::new(Live::default());
    let answer = registry.begin(meta(1), Answer::new(meta(1).answer, &[]));
    let mut follower = Follower::new(answer.clone(), None, Arc::default());
    follower.next().await.expect("the current state");
    registry.delete(meta(1).conversation);
    assert!(follower.next().await.expect("the end").ending.is_some());
    assert!(follower.next().await.is_none());
    assert!(registry.get(meta(1).answer).is_none());
}

#[tokio::test]
async fn a_reader_that_has_the_present_state_gets_the_next_change() {
    let live = Arc::new(live(1));
    fold(&live, text(1, "a"));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert!(!follower.resume(stamp(1)));
    fold(&live, text(2, "b"));
    assert_eq!(follower.next().await.expect("the change").text.to_string(), "ab");
}

#[tokio::test]
async fn a_state_is_sent_once_despite_spurious_wakes() {
    let live = Arc::new(live(1));
    fold(&live, text(1, "a"));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert_eq!(follower.next().await.expect("the current state").stamp, stamp(1));
    live.follow(Arc::new(LiveAnswer::new(meta(2), Answer::new(meta(2).answer, &[]))));
    assert!(follower.next().now_or_never().is_none(), "no new state");
    fold(&live, text(2, "b"));
    assert_eq!(follower.next().await.expect("the change").stamp, stamp(2));
}

#[tokio::test]
async fn a_reader_that_has_an_older_state_gets_the_end_that_came_meanwhile() {
    let live = Arc::new(live(1));
    fold(&live, text(1, "a"));
    live.fold(stamp(2), Change::Ended(Ending::Done));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert!(!follower.resume(stamp(1)));
    assert!(follower.next().await.expect("the end").ending.is_some());
    let mut follower = Follower::new(live, None, Arc::default());
    assert!(follower.resume(stamp(2)), "a reader with the final state needs no further one");
    assert!(follower.next().await.is_none());
}

#[tokio::test]
async fn a_reader_ahead_of_the_store_gets_no_older_state() {
    let mut stored = Answer::new(meta(1).answer, &[]);
    stored.stamp = stamp(0);
    let live = Arc::new(LiveAnswer::new(meta(1), stored));
    let mut follower = Follower::new(live.clone(), None, Arc::default());
    assert!(!follower.resume(stamp(57)));
    let mut anew = Answer::new(meta(1).answer, &[]);
    anew.stamp = Stamp { epoch: 2, revision: 0 };
    live.restart(anew.clone());
    assert_eq!(follower.next().await.expect("the next epoch's state").stamp, anew.stamp);
    let mut follower = Follower::new(live, None, Arc::default());
    assert!(!follower.resume(Stamp { epoch: 3, revision: 1 }), "an unknown state");
    assert_eq!(follower.next().await.expect("the current state").stamp, anew.stamp);
}

#[test]
fn unreferenced_answers_are_dropped() {
    let registry = Live::default();
    let held = registry.begin(meta(0), Answer::new(meta(0).answer, &[]));
    for number in 1..10_000 {
        registry.begin(meta(number), Answer::new(meta(number).answer, &[]));
    }
    assert!(registry.lock().answers.len() <= crate::SWEEP_AT_LEAST);
    assert!(Arc::ptr_eq(&registry.get(meta(0).answer).expect("it is held"), &held));
    registry.let_go(meta(0).answer);
    assert!(registry.get(meta(0).answer).is_some(), "it is read");
    drop(held);
    registry.let_go(meta(0).answer);
    assert!(registry.get(meta(0).answer).is_none());
}

proptest! {
    /// At any time, the text in progress is a prefix of the final text, and the final text equals the
    /// answer's.
    #[test]
    fn the_text_only_grows_into_its_final_form(pieces in prop::collection::vec("[ab \\[\\]1\\n`*]{0,6}", 0..40), look in any::<u64>()) {
        let live = live(1);
        let mut answer = Answer::new(meta(1).answer, &[]);
        let mut seen = Vec::new();
        for (piece, revision) in pieces.iter().zip(1..) {
            let (stamp, change) = text(revision, piece);
            answer.fold(stamp, change.clone());
            live.fold(stamp, change);
            if look >> (revision % 64) & 1 == 1 {
                seen.push(live.snapshot().text.to_string());
            }
        }
        live.fold(stamp(1000), Change::Ended(Ending::Done));
        let whole = live.snapshot().text.to_string();
        prop_assert_eq!(&whole, &answer.text());
        for earlier in seen {
            prop_assert!(whole.starts_with(&earlier), "{:?} is not a prefix of {:?}", earlier, whole);
        }
    }
}
