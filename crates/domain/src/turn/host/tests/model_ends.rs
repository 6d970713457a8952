//! Tests of how a step of the model ends: cut, late, uncounted, with notes.

use super::*;
use crate::step_note::StepNote;

/// Returns a turn whose model was called for the first step.
fn streaming() -> Turn {
    let mut turn = turn();
    turn.begin();
    turn.on(Event::Connected(InstanceId::from_random(1)));
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    turn
}

fn say(turn: &mut Turn, event: StepEvent) -> Vec<Effect> {
    turn.on(Event::ModelDelta { number: 0, attempt: 0, event })
}

fn completion(effects: &[Effect]) -> Option<&Completion> {
    effects.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some(&**completion),
        _ => None,
    })
}

#[test]
fn filtered_step_keeps_its_text_and_runs_no_call() {
    let mut turn = streaming();
    say(&mut turn, StepEvent::Text("The notice period is".to_owned()));
    say(&mut turn, StepEvent::Call(call("a", "skill")));
    say(&mut turn, StepEvent::Finished { stop: StopReason::Filtered, usage: None });
    let effects = turn.on(Event::StepCommitted { number: 0, summary: false });
    let ended = completion(&effects).expect("it ends");
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::RunTool(_) | Effect::Send(_))),
        "{effects:?}"
    );
    let Ending::Failed(error) = &ended.ending else { unreachable!("{:?}", ended.ending) };
    assert_eq!(error.code, ErrorCode::ModelRefused);
    let text = ended.answer.text();
    assert_eq!(text, format!("The notice period is\n\n{}", error.message));
    let present = Exchange { log: turn.log.clone(), ..turn.setup.present.clone() };
    let mut restarted = Turn::new(Setup { present, ..turn.setup.clone() });
    assert!(completion(&restarted.begin()).is_some(), "another lease ends it, too");
}

#[test]
fn server_that_does_not_begin_in_time_is_not_asked_again() {
    let too_slow = |had_begun| StepError::TimedOut { reason: "x".to_owned(), had_begun };
    let failed = |attempt, error| Event::ModelFailed { number: 0, attempt, error, jitter: 0 };
    let mut turn = streaming();
    let effects = turn.on(failed(0, too_slow(false)));
    let ended = completion(&effects).expect("it ends");
    assert!(matches!(&ended.ending, Ending::Failed(error) if error.code == ErrorCode::ModelUnavailable));
    let mut turn = streaming();
    let effects = turn.on(failed(0, too_slow(true)));
    assert!(matches!(effects.as_slice(), [Effect::BackOff { attempt: 1, .. }]), "{effects:?}");
    turn.on(Event::BackoffElapsed { number: 0, attempt: 1 });
    let effects = turn.on(failed(1, too_slow(true)));
    assert!(completion(&effects).is_some(), "once is enough: {effects:?}");
}

#[test]
fn usage_that_is_missing_or_zero_is_estimated() {
    let used = |reported: Option<Usage>| {
        let mut turn = streaming();
        say(&mut turn, StepEvent::Text("word ".repeat(100)));
        let effects = say(&mut turn, StepEvent::Finished { stop: StopReason::Done, usage: reported });
        effects.iter().find_map(|effect| match effect {
            Effect::CommitStep { entry: LogEntry::Step { step, .. }, .. } => Some(step.usage),
            _ => None,
        })
    };
    let counted = Usage { input_tokens: 30, output_tokens: 20, ..Usage::default() };
    assert_eq!(used(Some(counted)), Some(counted));
    for reported in [None, Some(Usage::default())] {
        let usage = used(reported).expect("a step");
        assert!(usage.estimated && usage.output_tokens > 100 && usage.input_tokens > 0, "{usage:?}");
    }
    let usage = used(Some(Usage { output_tokens: 0, ..counted })).expect("a step");
    assert!(usage.estimated && usage.input_tokens == 30 && usage.output_tokens > 100, "{usage:?}");
}

#[test]
fn notes_on_steps_are_told_once_at_the_end() {
    let mut turn = streaming();
    for note in [StepNote::ToolsRefused, StepNote::ToolsRefused, StepNote::UnknownStop] {
        say(&mut turn, StepEvent::Noted(note));
    }
    say(&mut turn, StepEvent::Text("Hello.".to_owned()));
    say(&mut turn, StepEvent::Finished { stop: StopReason::Done, usage: None });
    let effects = turn.on(Event::StepCommitted { number: 0, summary: false });
    let answer = &completion(&effects).expect("it ends").answer;
    let text = answer.text();
    assert!(text.starts_with("Hello.\n\nThis model cannot use files"), "{text}");
    assert_eq!(text.matches("cannot use files").count(), 1);
    let rebuilt = Answer::rebuild(answer.id, &[], &turn.log, answer.ending.clone());
    assert_eq!(rebuilt.parts, answer.parts, "the log tells it, too");
}

#[test]
fn text_that_turns_out_to_be_reasoning_is_told_anew() {
    let mut turn = streaming();
    say(&mut turn, StepEvent::Text("Hmm.".to_owned()));
    say(&mut turn, StepEvent::WasReasoning);
    say(&mut turn, StepEvent::Text("Whole.".to_owned()));
    assert_eq!(turn.answer().text(), "Whole.");
    say(&mut turn, StepEvent::Finished { stop: StopReason::Done, usage: None });
    let effects = turn.on(Event::StepCommitted { number: 0, summary: false });
    let answer = &completion(&effects).expect("it ends").answer;
    let rebuilt = Answer::rebuild(answer.id, &[], &turn.log, answer.ending.clone());
    assert_eq!((rebuilt.parts.len(), &rebuilt.parts), (2, &answer.parts));
}
