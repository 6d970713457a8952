//! Tests of how a step of the model ends: cut, late, uncounted, with notes.

use super::*;
use crate::step_note::StepNote;

/// Returns a turn whose model was called for the first step.
fn streaming_turn() -> Turn {
    let mut turn = new_turn();
    turn.begin_turn();
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    turn
}

fn send_delta(turn: &mut Turn, event: StepEvent) -> Vec<TurnEffect> {
    turn.apply_event(TurnEvent::ModelDelta { number: 0, attempt: 0, event })
}

fn find_completion(effects: &[TurnEffect]) -> Option<&TurnCompletion> {
    effects.iter().find_map(|effect| match effect {
        TurnEffect::Complete(completion) => Some(&**completion),
        _ => None,
    })
}

#[test]
fn filtered_step_keeps_text_runs_nothing() {
    let mut turn = streaming_turn();
    send_delta(&mut turn, StepEvent::Text("The notice period is".to_owned()));
    send_delta(&mut turn, StepEvent::Call(new_call("a", "skill")));
    send_delta(&mut turn, StepEvent::Finished { stop: StopReason::Filtered, usage: None });
    let effects = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    let ended = find_completion(&effects).expect("it ends");
    assert!(
        !effects.iter().any(|effect| matches!(effect, TurnEffect::RunTool(_) | TurnEffect::Send(_))),
        "{effects:?}"
    );
    let AnswerEnding::Failed(error) = &ended.ending else { unreachable!("{:?}", ended.ending) };
    assert_eq!(error.code, ErrorCode::ModelRefused);
    let text = ended.answer.unmarked_text();
    assert_eq!(text, format!("The notice period is\n\n{}", error.message));
    let present = LoggedExchange { log: turn.log.clone(), ..turn.setup.present.clone() };
    let mut restarted = Turn::new(Setup { present, ..turn.setup.clone() });
    assert!(find_completion(&restarted.begin_turn()).is_some(), "another lease ends it, too");
}

#[test]
fn slow_model_start_is_not_retried() {
    let too_slow = |had_begun| StepError::TimedOut { reason: "x".to_owned(), had_begun };
    let failed = |attempt, error| TurnEvent::ModelFailed { number: 0, attempt, error, jitter: 0 };
    let mut turn = streaming_turn();
    let effects = turn.apply_event(failed(0, too_slow(false)));
    let ended = find_completion(&effects).expect("it ends");
    assert!(
        matches!(&ended.ending, AnswerEnding::Failed(error) if error.code == ErrorCode::ModelUnavailable)
    );
    let mut turn = streaming_turn();
    let effects = turn.apply_event(failed(0, too_slow(true)));
    assert!(matches!(effects.as_slice(), [TurnEffect::BackOff { attempt: 1, .. }]), "{effects:?}");
    turn.apply_event(TurnEvent::BackoffElapsed { number: 0, attempt: 1 });
    let effects = turn.apply_event(failed(1, too_slow(true)));
    assert!(find_completion(&effects).is_some(), "once is enough: {effects:?}");
}

#[test]
fn missing_or_zero_usage_is_estimated() {
    let used = |reported: Option<TokenUsage>| {
        let mut turn = streaming_turn();
        send_delta(&mut turn, StepEvent::Text("word ".repeat(100)));
        let effects = send_delta(&mut turn, StepEvent::Finished { stop: StopReason::Done, usage: reported });
        effects.iter().find_map(|effect| match effect {
            TurnEffect::CommitStep { entry: LogEntry::Step { step, .. }, .. } => Some(step.usage),
            _ => None,
        })
    };
    let counted = TokenUsage { input_tokens: 30, output_tokens: 20, ..TokenUsage::default() };
    assert_eq!(used(Some(counted)), Some(counted));
    for reported in [None, Some(TokenUsage::default())] {
        let usage = used(reported).expect("a step");
        assert!(usage.estimated && usage.output_tokens > 100 && usage.input_tokens > 0, "{usage:?}");
    }
    let usage = used(Some(TokenUsage { output_tokens: 0, ..counted })).expect("a step");
    assert!(usage.estimated && usage.input_tokens == 30 && usage.output_tokens > 100, "{usage:?}");
}

#[test]
fn step_notes_are_told_at_end() {
    let mut turn = streaming_turn();
    for note in [StepNote::ToolsRefused, StepNote::ToolsRefused, StepNote::UnknownStop] {
        send_delta(&mut turn, StepEvent::Noted(note));
    }
    send_delta(&mut turn, StepEvent::Text("Hello.".to_owned()));
    send_delta(&mut turn, StepEvent::Finished { stop: StopReason::Done, usage: None });
    let effects = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    let answer = &find_completion(&effects).expect("it ends").answer;
    let text = answer.unmarked_text();
    assert!(text.starts_with("Hello.\n\nThis model cannot use files"), "{text}");
    assert_eq!(text.matches("cannot use files").count(), 1);
    let rebuilt = Answer::from_log(answer.id, &[], &turn.log, answer.ending.clone());
    assert_eq!(rebuilt.parts, answer.parts, "the log tells it, too");
}

#[test]
fn text_turned_reasoning_is_told_anew() {
    let mut turn = streaming_turn();
    send_delta(&mut turn, StepEvent::Text("Hmm.".to_owned()));
    send_delta(&mut turn, StepEvent::WasReasoning);
    send_delta(&mut turn, StepEvent::Text("Whole.".to_owned()));
    assert_eq!(turn.answer().unmarked_text(), "Whole.");
    send_delta(&mut turn, StepEvent::Finished { stop: StopReason::Done, usage: None });
    let effects = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    let answer = &find_completion(&effects).expect("it ends").answer;
    let rebuilt = Answer::from_log(answer.id, &[], &turn.log, answer.ending.clone());
    assert_eq!((rebuilt.parts.len(), &rebuilt.parts), (2, &answer.parts));
}
