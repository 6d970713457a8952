//! Tests of the host's decisions, mainly at the end of a turn.

mod model_ends;

use super::session::{UNEXPECTED_FRAMES_MAX, VIOLATIONS_MAX};
use super::*;
use crate::agent::AgentName;
use crate::citation;
use crate::credits::{Price, Shortage};
use crate::id::MessageId;
use crate::step::{Call, Purpose, StepOutcome};
use crate::turn::{ExecutorFrame, Output};

#[derive(Debug)]
struct OfHost;

impl ToolRouter for OfHost {
    fn runs_on_host(&self, tool: &str) -> bool {
        ["skill", "agent", "registry__look_up", "registry__file"].contains(&tool)
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        !["registry__file", "shell"].contains(&tool)
    }
}

fn turn() -> Turn {
    let present = Exchange { question: "Go on".to_owned(), attachments: Vec::new(), log: Vec::new() };
    Turn::new(Setup {
        answer: MessageId::from_random(1),
        epoch: 1,
        earlier: Vec::new(),
        present,
        bill: AnswerCost::default(),
        price: Price { base_millis: 1000, input_millis: 0, output_millis: 0 },
        overhead_tokens: 0,
        context_tokens: 1000,
        summary_instruction: "Sum up.".into(),
        output_max_tokens: 100,
        steps_max: 60,
        router: Arc::new(OfHost),
        attached: None,
        instructions: None,
        files: Vec::new(),
        sees_images: false,
        stop: false,
    })
}

fn cancels(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Send(HostFrame::Cancel { .. })))
}

#[test]
fn calls_are_not_cancelled_before_the_end_is_durable() {
    let (mut turn, _) = called(&[call("a", "shell")]);
    let ending = turn.on(Event::StopRequested);
    assert!(ending.iter().any(|effect| matches!(effect, Effect::Complete(_))), "{ending:?}");
    assert!(!cancels(&ending), "were the service killed now, the next lease would need the result");
    let ended = turn.on(Event::Completed);
    assert!(cancels(&ended) && ended.last() == Some(&Effect::Finish), "{ended:?}");
}

/// Returns the output of a call that is done.
fn done() -> Output {
    Output {
        images: Vec::new(),
        outcome: StepOutcome::Done,
        text: "x".into(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}

#[test]
fn a_step_without_calls_ends_the_answer() {
    let mut turn = turn();
    assert_eq!(turn.begin(), [], "no step begins before the machine is running");
    let connected = turn.on(Event::Connected(InstanceId::from_random(1)));
    assert!(matches!(connected.as_slice(), [Effect::Reserve { number: 0, .. }]), "{connected:?}");
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
    turn.on(delta(StepEvent::Text("Done.".to_owned())));
    turn.on(delta(StepEvent::Finished { stop: StopReason::Done, usage: None }));
    let ending = turn.on(Event::StepCommitted { number: 0, summary: false });
    assert!(ending.iter().any(|effect| matches!(effect, Effect::Complete(_))), "{ending:?}");
    assert!(
        !ending.iter().any(|effect| matches!(effect, Effect::Send(_))),
        "no session was needed: {ending:?}"
    );
}

#[test]
fn an_answer_that_can_not_be_paid_for_ends_with_the_reason() {
    for (shortage, code) in [
        (Shortage::Balance, ErrorCode::InsufficientCredits),
        (Shortage::SpendingLimit, ErrorCode::SpendingLimit),
    ] {
        let mut turn = turn();
        turn.begin();
        turn.on(Event::Connected(InstanceId::from_random(1)));
        let ending = turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Err(shortage) });
        let outcome = ending.iter().find_map(|effect| match effect {
            Effect::Complete(completion) => completion.answer.ending.clone(),
            _ => None,
        });
        assert!(matches!(outcome, Some(Ending::Failed(error)) if error.code == code), "{ending:?}");
    }
}

#[test]
fn a_call_of_the_host_is_run_by_it_alone_and_again_after_a_restart() {
    let call = Call {
        id: "c".to_owned(),
        tool: "skill".to_owned(),
        arguments: "{}".to_owned(),
        purpose: Purpose::Tool,
    };
    let mut turn = turn();
    turn.begin();
    turn.on(Event::Connected(InstanceId::from_random(1)));
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
    turn.on(delta(StepEvent::Call(call.clone())));
    turn.on(delta(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    let committed = turn.on(Event::StepCommitted { number: 0, summary: false });
    assert!(committed.contains(&Effect::RunTool(call.clone())), "{committed:?}");
    assert!(!committed.iter().any(|effect| matches!(effect, Effect::Send(_))), "{committed:?}");
    let output = done();
    let forged = ExecutorFrame::Returned { call: "c".to_owned(), output: output.clone() };
    assert_eq!(turn.on(Event::Executor(forged)), [], "the machine has no say in it");
    let mut restarted = Turn::new(Setup {
        present: Exchange { log: turn.log.clone(), ..turn.setup.present.clone() },
        ..turn.setup.clone()
    });
    assert!(restarted.begin().contains(&Effect::RunTool(call)));
    let returned = turn.on(Event::ToolReturned { call: "c".to_owned(), output });
    assert!(matches!(returned.as_slice(), [Effect::CommitResult { .. }]), "{returned:?}");
}

#[test]
fn a_model_may_end_its_answer_after_the_last_calls_without_a_word() {
    for (first, ends) in [(Some("I have written the file."), true), (None, false)] {
        let mut turn = turn();
        turn.begin();
        turn.on(Event::Connected(InstanceId::from_random(1)));
        turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
        let delta = |number, event| Event::ModelDelta { number, attempt: 0, event };
        if let Some(text) = first {
            turn.on(delta(0, StepEvent::Text(text.to_owned())));
        }
        let (id, tool, arguments) = ("c".to_owned(), "skill".to_owned(), "{}".to_owned());
        turn.on(delta(0, StepEvent::Call(Call { id, tool, arguments, purpose: Purpose::Tool })));
        turn.on(delta(0, StepEvent::Finished { stop: StopReason::Calls, usage: None }));
        turn.on(Event::StepCommitted { number: 0, summary: false });
        let output = done();
        let returned = turn.on(Event::ToolReturned { call: "c".to_owned(), output });
        assert!(matches!(returned.as_slice(), [Effect::CommitResult { .. }]), "{returned:?}");
        let next = turn.on(Event::ResultCommitted { call: "c".to_owned() });
        let [.., Effect::Reserve { number, .. }] = *next.as_slice() else { panic!("{next:?}") };
        turn.on(Event::Reserved { number, attempt: 0, outcome: Ok(()) });
        let finished = turn.on(delta(number, StepEvent::Finished { stop: StopReason::Done, usage: None }));
        let commits = finished.iter().any(|effect| matches!(effect, Effect::CommitStep { .. }));
        let retries = finished.iter().any(|effect| matches!(effect, Effect::BackOff { .. }));
        assert_eq!((commits, retries), (ends, !ends), "{finished:?}");
    }
}

#[test]
fn a_model_that_declines_without_a_word_ends_the_answer_with_a_sentence() {
    let refused = |before: &[StepEvent]| {
        let mut turn = turn();
        turn.begin();
        turn.on(Event::Connected(InstanceId::from_random(1)));
        turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
        let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
        for event in before {
            turn.on(delta(event.clone()));
        }
        turn.on(delta(StepEvent::Finished { stop: StopReason::Refused, usage: None }))
    };
    for silent in
        [vec![], vec![StepEvent::Reasoning("May I?".to_owned())], vec![StepEvent::Text(" \n".to_owned())]]
    {
        let effects = refused(&silent);
        let completion = effects.iter().find_map(|effect| match effect {
            Effect::Complete(completion) => Some(completion),
            _ => None,
        });
        let completion = completion.expect("it ends instead of being tried again");
        let Ending::Failed(error) = &completion.ending else { unreachable!("{:?}", completion.ending) };
        assert_eq!((error.code, completion.cost), (ErrorCode::ModelRefused, Credits(0)));
        assert_eq!(completion.answer.text().trim(), error.message);
    }
    let effects = refused(&[StepEvent::Text("I'd rather not.".to_owned())]);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::CommitStep { .. })), "its own words stand");
}

#[test]
fn a_step_that_thinks_until_it_may_put_out_no_more_ends_the_answer_at_once() {
    let mut turn = turn();
    turn.begin();
    turn.on(Event::Connected(InstanceId::from_random(1)));
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
    turn.on(delta(StepEvent::Reasoning("Hm, ".repeat(100))));
    let effects = turn.on(delta(StepEvent::Finished { stop: StopReason::OutputFull, usage: None }));
    let completion = effects.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion),
        _ => None,
    });
    let completion = completion.expect("it ends instead of being tried again");
    let Ending::Failed(error) = &completion.ending else { unreachable!("{:?}", completion.ending) };
    assert_eq!((error.code, completion.cost), (ErrorCode::OutputExhausted, Credits(0)));
    assert_eq!(completion.answer.parts.len(), 2, "the reasoning and the error");
}

#[test]
fn an_answer_that_reaches_the_limit_of_output_keeps_its_text_and_says_so() {
    let mut turn = turn();
    turn.begin();
    turn.on(Event::Connected(InstanceId::from_random(1)));
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
    turn.on(delta(StepEvent::Text("The rent is seven hun".to_owned())));
    turn.on(delta(StepEvent::Finished { stop: StopReason::OutputFull, usage: None }));
    let effects = turn.on(Event::StepCommitted { number: 0, summary: false });
    let completion = effects.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion),
        _ => None,
    });
    let completion = completion.expect("it ends");
    let Ending::Failed(error) = &completion.ending else { unreachable!("{:?}", completion.ending) };
    assert_eq!(error.code, ErrorCode::OutputExhausted);
    let text = completion.answer.text();
    assert!(text.starts_with("The rent is seven hun\n\nThe answer is not complete"), "{text}");
}

#[test]
fn effectful_calls_of_the_host_run_one_after_another_and_never_twice() {
    let call = |id: &str, tool: &str| Call {
        id: id.to_owned(),
        tool: tool.to_owned(),
        arguments: "{}".to_owned(),
        purpose: Purpose::Tool,
    };
    let calls = [
        call("a", "registry__file"),
        call("b", "registry__file"),
        call("c", "registry__look_up"),
        call("d", "skill"),
    ];
    let mut turn = turn();
    turn.begin();
    turn.on(Event::Connected(InstanceId::from_random(1)));
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
    for call in &calls {
        turn.on(delta(StepEvent::Call(call.clone())));
    }
    turn.on(delta(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    assert_eq!(runs(&turn.on(Event::StepCommitted { number: 0, summary: false })), ["a", "c", "d"]);
    turn.on(Event::Connected(InstanceId::from_random(2)));
    let output = done();
    assert_eq!(
        runs(&turn.on(Event::ToolReturned { call: "a".to_owned(), output })),
        [""; 0],
        "it is not durable yet"
    );
    assert_eq!(runs(&turn.on(Event::ResultCommitted { call: "a".to_owned() })), ["b"]);
    let mut restarted = Turn::new(Setup {
        present: Exchange { log: turn.log.clone(), ..turn.setup.present.clone() },
        ..turn.setup.clone()
    });
    let begun = restarted.begin();
    assert_eq!(runs(&begun), ["c", "d"], "those that may run again do");
    let cut = begun.iter().find_map(|effect| match effect {
        Effect::CommitResult { result, .. } => Some((result.call.as_str(), result.outcome)),
        _ => None,
    });
    assert_eq!(cut, Some(("b", StepOutcome::Interrupted)));
}

fn runs(effects: &[Effect]) -> Vec<&str> {
    let ids = effects.iter().filter_map(|effect| match effect {
        Effect::RunTool(call) => Some(call.id.as_str()),
        _ => None,
    });
    ids.collect()
}

#[test]
fn citations_of_a_subagent_get_numbers_of_this_answer() {
    let name = |full: &str| AgentName {
        id: crate::id::AgentId::of(full),
        name: full.to_owned(),
        full_name: full.to_owned(),
    };
    let mut turn = turn();
    turn.begin();
    turn.on(Event::Connected(InstanceId::from_random(1)));
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
    for id in ["a", "b"] {
        let purpose = Purpose::Agent(name("p:lawyer"));
        let (tool, arguments) = ("agent".to_owned(), "{}".to_owned());
        turn.on(delta(StepEvent::Call(Call { id: id.to_owned(), tool, arguments, purpose })));
    }
    turn.on(delta(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    turn.on(Event::StepCommitted { number: 0, summary: false });
    turn.on(Event::Reported { call: "b".to_owned(), keep: 0, text: "It see".to_owned() });
    turn.on(Event::Reported { call: "b".to_owned(), keep: 3, text: "is".to_owned() });
    let report = |turn: &Turn, at: usize| match &turn.answer().parts[at].body {
        crate::answer::Body::Run(run) => run.report.clone(),
        other => unreachable!("{other:?}"),
    };
    assert_eq!(report(&turn, 1), "It is");
    let passage = |page| citation::Passage {
        place: citation::Place::File {
            path: "/a".to_owned(),
            page: Some(page),
            lines: None,
            page_name: None,
        },
        text: "t".to_owned(),
    };
    for id in ["a", "b"] {
        let output = Output {
            images: Vec::new(),
            outcome: StepOutcome::Done,
            text: "Due [2], unless [1]; never [3].".into(),
            passages: vec![passage(1), passage(2)],
            written: Vec::new(),
            unread: Vec::new(),
        };
        turn.on(Event::ToolReturned { call: id.to_owned(), output });
        turn.on(Event::ResultCommitted { call: id.to_owned() });
    }
    assert_eq!(report(&turn, 0), "Due [2], unless [1]; never.");
    assert_eq!(report(&turn, 1), "Due [4], unless [3]; never.");
    turn.on(Event::Reported { call: "b".to_owned(), keep: 0, text: "late".to_owned() });
    assert_eq!(report(&turn, 1), "Due [4], unless [3]; never.", "it has settled");
}

fn output() -> Output {
    Output {
        images: Vec::new(),
        outcome: StepOutcome::Done,
        text: "x".into(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}

fn call(id: &str, tool: &str) -> Call {
    Call { id: id.to_owned(), tool: tool.to_owned(), arguments: "{}".to_owned(), purpose: Purpose::Tool }
}

/// Creates a turn whose first step made these calls. Returns the effects of its commit.
fn called(calls: &[Call]) -> (Turn, Vec<Effect>) {
    let mut turn = turn();
    turn.begin();
    turn.on(Event::Connected(InstanceId::from_random(1)));
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
    for call in calls {
        turn.on(delta(StepEvent::Call(call.clone())));
    }
    turn.on(delta(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    let committed = turn.on(Event::StepCommitted { number: 0, summary: false });
    (turn, committed)
}

/// Returns the calls that the machine is asked to run.
fn sent(effects: &[Effect]) -> Vec<&str> {
    let calls = effects.iter().filter_map(|effect| match effect {
        Effect::Send(HostFrame::Run(call)) => Some(call.id.as_str()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn effectful_calls_of_host_and_machine_run_one_after_another() {
    let calls = [
        call("a", "shell"),
        call("b", "registry__file"),
        call("c", "read"),
        call("d", "registry__look_up"),
        call("e", "shell"),
        call("f", "registry__file"),
        call("g", "shell"),
    ];
    let (mut turn, begun) = called(&calls);
    assert_eq!((sent(&begun), runs(&begun)), (vec!["a", "c"], vec!["d"]));
    let returned =
        |call: &str| Event::Executor(ExecutorFrame::Returned { call: call.to_owned(), output: output() });
    let committed = |call: &str| Event::ResultCommitted { call: call.to_owned() };
    let here = |call: &str| Event::ToolReturned { call: call.to_owned(), output: output() };
    assert_eq!(turn.on(returned("e")), [], "it was not sent yet");
    turn.on(here("d"));
    assert_eq!(turn.on(committed("d")).len(), 1, "only the result is published");
    assert_eq!(runs(&turn.on(returned("a"))), [""; 0], "it is not durable yet");
    assert_eq!(runs(&turn.on(committed("a"))), ["b"]);
    turn.on(here("b"));
    assert_eq!(sent(&turn.on(committed("b"))), ["e"]);
    turn.on(returned("e"));
    let (e, f) = (turn.on(committed("e")), turn.on(here("f")));
    assert_eq!((runs(&e), sent(&e), f.len()), (vec!["f"], vec![], 1));
    assert_eq!(sent(&turn.on(committed("f"))), ["g"]);
    turn.on(returned("c"));
    turn.on(committed("c"));
    turn.on(returned("g"));
    let last = turn.on(committed("g"));
    assert!(last.iter().any(|effect| matches!(effect, Effect::Reserve { number: 1, .. })), "{last:?}");
}

#[test]
fn a_session_begins_with_the_calls_that_are_outstanding() {
    let (mut turn, begun) = called(&[call("a", "shell"), call("b", "skill"), call("c", "shell")]);
    let open = |effects: &[Effect]| match effects.iter().find(|effect| matches!(effect, Effect::Send(_))) {
        Some(Effect::Send(HostFrame::Open(open))) => open.clone(),
        other => unreachable!("{other:?}"),
    };
    let first = open(&begun);
    assert_eq!(
        (first.stamp.session, first.outstanding.as_slice()),
        (1, &["a".to_owned(), "c".to_owned()][..])
    );
    turn.on(Event::Disconnected);
    let again = turn.on(Event::Connected(InstanceId::from_random(1)));
    assert_eq!(sent(&again), ["a"], "its result is asked for again");
    assert_eq!(open(&again).stamp.session, 2);
    turn.on(Event::Executor(ExecutorFrame::Returned { call: "a".to_owned(), output: output() }));
    let committed = turn.on(Event::ResultCommitted { call: "a".to_owned() });
    assert!(committed.contains(&Effect::Send(HostFrame::Ack { call: "a".to_owned() })), "{committed:?}");
    assert_eq!(sent(&committed), ["c"]);
}

#[test]
fn a_call_that_waits_is_not_sent_to_another_instance() {
    let (mut turn, begun) = called(&[call("a", "registry__file"), call("b", "shell")]);
    assert_eq!((sent(&begun), runs(&begun)), (vec![], vec!["a"]));
    turn.on(Event::Disconnected);
    let connected = turn.on(Event::Connected(InstanceId::from_random(2)));
    let cut = connected.iter().find_map(|effect| match effect {
        Effect::CommitResult { result, .. } => Some((result.call.as_str(), result.outcome)),
        _ => None,
    });
    assert_eq!(cut, Some(("b", StepOutcome::Interrupted)));
}

#[test]
fn the_machine_is_waited_for_only_while_the_next_move_is_its_own() {
    let mut turn = turn();
    turn.begin();
    assert!(!turn.awaits_machine() && turn.needs_machine(), "it is not connected");
    turn.on(Event::Connected(InstanceId::from_random(1)));
    assert!(!turn.awaits_machine(), "credits are reserved");
    turn.on(Event::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| Event::ModelDelta { number: 0, attempt: 0, event };
    assert!(!turn.awaits_machine(), "the model puts something out");
    turn.on(Event::Disconnected);
    assert!(!turn.needs_machine(), "a step is completed without it");
    turn.on(Event::Connected(InstanceId::from_random(1)));
    let error = StepError::Unavailable { reason: "cut".to_owned(), retry_after: None };
    turn.on(Event::ModelFailed { number: 0, attempt: 0, error, jitter: 0 });
    assert!(!turn.awaits_machine(), "the model is given a pause");
    turn.on(Event::BackoffElapsed { number: 0, attempt: 1 });
    let said_again = |event| Event::ModelDelta { number: 0, attempt: 1, event };
    turn.on(delta(StepEvent::Text("late".to_owned())));
    for call in [call("a", "registry__file"), call("b", "shell")] {
        turn.on(said_again(StepEvent::Call(call)));
    }
    turn.on(said_again(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    assert!(!turn.awaits_machine(), "the step is committed");
    turn.on(Event::StepCommitted { number: 0, summary: false });
    assert!(!turn.awaits_machine(), "the host's call runs, and the machine's behind it");
    turn.on(Event::ToolReturned { call: "a".to_owned(), output: output() });
    turn.on(Event::ResultCommitted { call: "a".to_owned() });
    assert!(turn.awaits_machine(), "its call runs");
    turn.on(Event::Executor(ExecutorFrame::Returned { call: "b".to_owned(), output: output() }));
    assert!(!turn.awaits_machine(), "the result is committed");
    turn.on(Event::ResultCommitted { call: "b".to_owned() });
    assert!(!turn.awaits_machine() && !turn.needs_machine(), "the next step needs the model alone");
    turn.on(Event::StopRequested);
    assert!(!turn.awaits_machine(), "the answer ends");
}

#[test]
fn an_executor_that_sends_the_unexpected_again_and_again_breaks_the_protocol() {
    let (mut turn, _) = called(&[call("a", "shell")]);
    let unexpected = ExecutorFrame::Returned { call: "x".to_owned(), output: output() };
    for _ in 0..VIOLATIONS_MAX {
        turn.on(Event::Connected(InstanceId::from_random(1)));
        let mut taken = 0;
        while turn.on(Event::Executor(unexpected.clone())).is_empty() {
            taken += 1;
            assert!(taken <= UNEXPECTED_FRAMES_MAX, "they cost the host without bound");
        }
    }
    assert!(matches!(&turn.ending, Some(Ending::Failed(error)) if error.code == ErrorCode::MachineFailed));
}
