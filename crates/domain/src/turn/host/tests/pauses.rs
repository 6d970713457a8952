//! Tests of pauses.

use super::*;
use crate::pause::{CallReply, GivenReply, LastPause, PauseState};
use crate::step::AwaitedCall;
use crate::time::Timestamp;

const DEADLINE: Timestamp = Timestamp::from_micros(7);

/// Creates the turn of a later lease, with replies to calls of the first step.
fn resumed_turn(turn: &Turn, replies: &[(&str, CallReply)], instance: Option<u128>) -> Turn {
    let given =
        |(call, reply): &(&str, CallReply)| GivenReply { call: (*call).to_owned(), reply: reply.clone() };
    let last = LastPause { step: 0, instance: instance.map(InstanceId::from_random) };
    Turn::new(Setup {
        epoch: 2,
        present: LoggedExchange { log: turn.log.clone(), ..turn.setup.present.clone() },
        pause: PauseState { last: Some(last), replies: replies.iter().map(given).collect(), expired: false },
        ..turn.setup.clone()
    })
}

fn text_reply(text: &str) -> CallReply {
    CallReply::Output { text: text.to_owned(), failed: false }
}

fn committed_results(effects: &[TurnEffect]) -> Vec<(&str, StepOutcome)> {
    let results = effects.iter().filter_map(|effect| match effect {
        TurnEffect::CommitResult { result, .. } => Some((result.call.as_str(), result.outcome)),
        _ => None,
    });
    results.collect()
}

#[test]
fn turn_pauses_once_only_replies_are_awaited() {
    let (mut turn, effects) = turn_after_calls(&[new_call("f", "function"), new_call("r", "skill")]);
    assert!(effects.contains(&TurnEffect::RunTool(new_call("r", "skill"))), "{effects:?}");
    assert!(
        !effects.iter().any(|effect| matches!(effect, TurnEffect::Pause { .. })),
        "a call runs: {effects:?}"
    );
    turn.apply_event(TurnEvent::ToolReturned { call: "r".to_owned(), output: done_output() });
    let idle = turn.apply_event(TurnEvent::ResultCommitted { call: "r".to_owned() });
    let calls = vec![AwaitedCall { call: "f".to_owned(), kind: ReplyKind::Function }];
    assert_eq!(idle.last(), Some(&TurnEffect::Pause { number: 0, calls }));
    let paused = turn.apply_event(TurnEvent::Paused { number: 0, deadline: DEADLINE });
    assert!(matches!(paused[..], [TurnEffect::Publish(..), TurnEffect::Finish]), "{paused:?}");
    assert!(turn.is_over() && turn.answer().ending.is_none());
    assert_eq!(turn.answer().pending.len(), 1);
    assert_eq!(turn.answer().pending[0].deadline, DEADLINE);
}

#[test]
fn replies_become_results_of_next_lease() {
    let (turn, _) = turn_after_calls(&[new_call("f", "function")]);
    let mut resumed = resumed_turn(&turn, &[("f", text_reply("21 degrees"))], None);
    let begun = resumed.begin_turn();
    assert_eq!(committed_results(&begun), [("f", StepOutcome::Done)]);
    let effects = resumed.apply_event(TurnEvent::ResultCommitted { call: "f".to_owned() });
    assert!(matches!(effects[..], [TurnEffect::Publish(..)]), "it waits for the machine: {effects:?}");
    let effects = resumed.apply_event(TurnEvent::Connected(InstanceId::from_random(2)));
    assert!(matches!(effects[..], [TurnEffect::Reserve { number: 1, .. }]), "{effects:?}");
}

#[test]
fn approved_call_runs_after_instance_is_named() {
    let calls = [new_call("a", "sign"), new_call("b", "shell"), new_call("c", "sign")];
    let (turn, effects) = turn_after_calls(&calls);
    assert_eq!(sent_run_ids(&effects), [""; 0], "what follows waits, too");
    assert!(matches!(effects.last(), Some(TurnEffect::Pause { .. })), "{effects:?}");
    let refused = CallReply::Refused { reason: "not now".to_owned() };
    let replies = [("a", CallReply::Approved), ("c", refused)];
    let mut resumed = resumed_turn(&turn, &replies, None);
    assert_eq!(committed_results(&resumed.begin_turn()), [("c", StepOutcome::Failed)]);
    resumed.apply_event(TurnEvent::ResultCommitted { call: "c".to_owned() });
    // Another instance than that of the step: none of the calls has begun there.
    let instance = InstanceId::from_random(2);
    let connected = resumed.apply_event(TurnEvent::Connected(instance));
    assert_eq!(connected, [TurnEffect::NameInstance { number: 0, instance }]);
    let named = resumed.apply_event(TurnEvent::InstanceNamed { number: 0, instance });
    assert_eq!(sent_run_ids(&named), ["a"], "{named:?}");
    // Now it may have begun, so that a third instance does not run it.
    let mut again = resumed_turn(&resumed, &replies, Some(2));
    again.begin_turn();
    let connected = again.apply_event(TurnEvent::Connected(InstanceId::from_random(3)));
    let interrupted = [("a", StepOutcome::Interrupted), ("b", StepOutcome::Interrupted)];
    assert_eq!(committed_results(&connected), interrupted);
    let mut same = resumed_turn(&resumed, &replies, Some(2));
    same.begin_turn();
    assert_eq!(sent_run_ids(&same.apply_event(TurnEvent::Connected(instance))), ["a"], "it is sent again");
}

#[test]
fn approved_host_call_runs_once() {
    let (turn, _) = turn_after_calls(&[new_call("p", "registry__pay")]);
    let replies = [("p", CallReply::Approved)];
    let mut resumed = resumed_turn(&turn, &replies, None);
    assert_eq!(resumed.begin_turn(), [], "an instance is named first");
    assert!(resumed.needs_machine());
    let instance = InstanceId::from_random(2);
    resumed.apply_event(TurnEvent::Connected(instance));
    let named = resumed.apply_event(TurnEvent::InstanceNamed { number: 0, instance });
    assert_eq!(named, [TurnEffect::RunTool(new_call("p", "registry__pay"))]);
    let mut again = resumed_turn(&resumed, &replies, Some(2));
    assert_eq!(committed_results(&again.begin_turn()), [("p", StepOutcome::Interrupted)]);
}

#[test]
fn other_instance_is_named_again() {
    let (turn, _) = turn_after_calls(&[new_call("a", "sign")]);
    let mut resumed = resumed_turn(&turn, &[("a", CallReply::Approved)], None);
    resumed.begin_turn();
    let (first, second) = (InstanceId::from_random(2), InstanceId::from_random(3));
    resumed.apply_event(TurnEvent::Connected(first));
    assert_eq!(
        resumed.apply_event(TurnEvent::Connected(second)),
        [],
        "the name of the first is being stored"
    );
    let named = resumed.apply_event(TurnEvent::InstanceNamed { number: 0, instance: first });
    assert_eq!(named, [TurnEffect::NameInstance { number: 0, instance: second }]);
    let named = resumed.apply_event(TurnEvent::InstanceNamed { number: 0, instance: second });
    assert_eq!(sent_run_ids(&named), ["a"]);
}

#[test]
fn overdue_answer_ends_without_another_step() {
    let (turn, _) = turn_after_calls(&[new_call("f", "function")]);
    let mut resumed = resumed_turn(&turn, &[], None);
    resumed.setup.pause.expired = true;
    let mut expired = Turn::new(resumed.setup);
    let effects = expired.begin_turn();
    let [TurnEffect::Complete(completion)] = &effects[..] else { panic!("{effects:?}") };
    assert!(
        matches!(&completion.ending, AnswerEnding::Failed(error) if error.code == ErrorCode::ReplyOverdue),
        "{completion:?}"
    );
    assert_eq!(completion.cost, Credits(0));
}

#[test]
fn stop_during_pause_ends_nothing_twice() {
    let (mut turn, effects) = turn_after_calls(&[new_call("f", "function")]);
    assert!(matches!(effects.last(), Some(TurnEffect::Pause { .. })), "{effects:?}");
    assert_eq!(turn.apply_event(TurnEvent::StopRequested), [], "the pause is being stored");
    let paused = turn.apply_event(TurnEvent::Paused { number: 0, deadline: DEADLINE });
    assert!(!paused.iter().any(|effect| matches!(effect, TurnEffect::Complete(_))), "the lease is gone");
    assert!(turn.is_over());
}
