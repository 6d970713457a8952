//! Tests of the host's decisions, mainly at the end of a turn.

mod model_ends;
mod pauses;

use super::session::{UNEXPECTED_FRAMES_MAX, VIOLATIONS_MAX};
use super::*;
use crate::agent::AgentName;
use crate::citation;
use crate::credits::{Price, Shortage};
use crate::id::MessageId;
use crate::step::{Purpose, ReplyKind, StepCall, StepOutcome};
use crate::turn::{CallOutput, ExecutorFrame};

#[derive(Debug)]
struct TestToolRouter;

impl ToolRouter for TestToolRouter {
    fn runs_on_host(&self, tool: &str) -> bool {
        ["skill", "agent", "registry__look_up", "registry__file", "registry__pay"].contains(&tool)
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        !["registry__file", "registry__pay", "shell", "sign"].contains(&tool)
    }

    fn awaited_reply(&self, call: &StepCall) -> Option<ReplyKind> {
        match call.tool.as_str() {
            "function" => Some(ReplyKind::Function),
            "sign" | "registry__pay" => Some(ReplyKind::Approval),
            _ => None,
        }
    }
}

fn new_turn() -> Turn {
    let present = LoggedExchange { question: "Go on".to_owned(), attachments: Vec::new(), log: Vec::new() };
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
        router: Arc::new(TestToolRouter),
        attached: None,
        instructions: None,
        files: Vec::new(),
        sees_images: false,
        stop: false,
        pause: crate::pause::PauseState::default(),
    })
}

fn has_cancel(effects: &[TurnEffect]) -> bool {
    effects.iter().any(|effect| matches!(effect, TurnEffect::Send(HostFrame::Cancel { .. })))
}

#[test]
fn calls_cancel_only_after_durable_end() {
    let (mut turn, _) = turn_after_calls(&[new_call("a", "shell")]);
    let ending = turn.apply_event(TurnEvent::StopRequested);
    assert!(ending.iter().any(|effect| matches!(effect, TurnEffect::Complete(_))), "{ending:?}");
    assert!(!has_cancel(&ending), "were the service killed now, the next lease would need the result");
    let ended = turn.apply_event(TurnEvent::Completed);
    assert!(has_cancel(&ended) && ended.last() == Some(&TurnEffect::Finish), "{ended:?}");
}

/// Returns the output of a call that is done.
fn done_output() -> CallOutput {
    CallOutput {
        images: Vec::new(),
        outcome: StepOutcome::Done,
        text: "x".into(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}

#[test]
fn step_without_calls_ends_answer() {
    let mut turn = new_turn();
    assert_eq!(turn.begin_turn(), [], "no step begins before the machine is running");
    let connected = turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    assert!(matches!(connected.as_slice(), [TurnEffect::Reserve { number: 0, .. }]), "{connected:?}");
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
    turn.apply_event(delta(StepEvent::Text("Done.".to_owned())));
    turn.apply_event(delta(StepEvent::Finished { stop: StopReason::Done, usage: None }));
    let ending = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    assert!(ending.iter().any(|effect| matches!(effect, TurnEffect::Complete(_))), "{ending:?}");
    assert!(
        !ending.iter().any(|effect| matches!(effect, TurnEffect::Send(_))),
        "no session was needed: {ending:?}"
    );
}

#[test]
fn unaffordable_answer_ends_with_reason() {
    for (shortage, code) in [
        (Shortage::Balance, ErrorCode::InsufficientCredits),
        (Shortage::SpendingLimit, ErrorCode::SpendingLimit),
    ] {
        let mut turn = new_turn();
        turn.begin_turn();
        turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
        let ending = turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Err(shortage) });
        let outcome = ending.iter().find_map(|effect| match effect {
            TurnEffect::Complete(completion) => completion.answer.ending.clone(),
            _ => None,
        });
        assert!(matches!(outcome, Some(AnswerEnding::Failed(error)) if error.code == code), "{ending:?}");
    }
}

#[test]
fn host_call_reruns_after_restart() {
    let call = StepCall {
        id: "c".to_owned(),
        tool: "skill".to_owned(),
        arguments: "{}".to_owned(),
        purpose: Purpose::Tool,
    };
    let mut turn = new_turn();
    turn.begin_turn();
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
    turn.apply_event(delta(StepEvent::Call(call.clone())));
    turn.apply_event(delta(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    let committed = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    assert!(committed.contains(&TurnEffect::RunTool(call.clone())), "{committed:?}");
    assert!(!committed.iter().any(|effect| matches!(effect, TurnEffect::Send(_))), "{committed:?}");
    let output = done_output();
    let forged = ExecutorFrame::Returned { call: "c".to_owned(), output: output.clone() };
    assert_eq!(turn.apply_event(TurnEvent::Executor(forged)), [], "the machine has no say in it");
    let mut restarted = Turn::new(Setup {
        present: LoggedExchange { log: turn.log.clone(), ..turn.setup.present.clone() },
        ..turn.setup.clone()
    });
    assert!(restarted.begin_turn().contains(&TurnEffect::RunTool(call)));
    let returned = turn.apply_event(TurnEvent::ToolReturned { call: "c".to_owned(), output });
    assert!(matches!(returned.as_slice(), [TurnEffect::CommitResult { .. }]), "{returned:?}");
}

#[test]
fn wordless_step_after_calls_ends_answer() {
    for (first, ends) in [(Some("I have written the file."), true), (None, false)] {
        let mut turn = new_turn();
        turn.begin_turn();
        turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
        turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
        let delta = |number, event| TurnEvent::ModelDelta { number, attempt: 0, event };
        if let Some(text) = first {
            turn.apply_event(delta(0, StepEvent::Text(text.to_owned())));
        }
        let (id, tool, arguments) = ("c".to_owned(), "skill".to_owned(), "{}".to_owned());
        turn.apply_event(delta(0, StepEvent::Call(StepCall { id, tool, arguments, purpose: Purpose::Tool })));
        turn.apply_event(delta(0, StepEvent::Finished { stop: StopReason::Calls, usage: None }));
        turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
        let output = done_output();
        let returned = turn.apply_event(TurnEvent::ToolReturned { call: "c".to_owned(), output });
        assert!(matches!(returned.as_slice(), [TurnEffect::CommitResult { .. }]), "{returned:?}");
        let next = turn.apply_event(TurnEvent::ResultCommitted { call: "c".to_owned() });
        let [.., TurnEffect::Reserve { number, .. }] = *next.as_slice() else { panic!("{next:?}") };
        turn.apply_event(TurnEvent::Reserved { number, attempt: 0, outcome: Ok(()) });
        let finished =
            turn.apply_event(delta(number, StepEvent::Finished { stop: StopReason::Done, usage: None }));
        let commits = finished.iter().any(|effect| matches!(effect, TurnEffect::CommitStep { .. }));
        let retries = finished.iter().any(|effect| matches!(effect, TurnEffect::BackOff { .. }));
        assert_eq!((commits, retries), (ends, !ends), "{finished:?}");
    }
}

#[test]
fn wordless_refusal_ends_with_sentence() {
    let refused = |before: &[StepEvent]| {
        let mut turn = new_turn();
        turn.begin_turn();
        turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
        turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
        let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
        for event in before {
            turn.apply_event(delta(event.clone()));
        }
        turn.apply_event(delta(StepEvent::Finished { stop: StopReason::Refused, usage: None }))
    };
    for silent in
        [vec![], vec![StepEvent::Reasoning("May I?".to_owned())], vec![StepEvent::Text(" \n".to_owned())]]
    {
        let effects = refused(&silent);
        let completion = effects.iter().find_map(|effect| match effect {
            TurnEffect::Complete(completion) => Some(completion),
            _ => None,
        });
        let completion = completion.expect("it ends instead of being tried again");
        let AnswerEnding::Failed(error) = &completion.ending else { unreachable!("{:?}", completion.ending) };
        assert_eq!((error.code, completion.cost), (ErrorCode::ModelRefused, Credits(0)));
        assert_eq!(completion.answer.unmarked_text().trim(), error.message);
    }
    let effects = refused(&[StepEvent::Text("I'd rather not.".to_owned())]);
    assert!(
        effects.iter().any(|effect| matches!(effect, TurnEffect::CommitStep { .. })),
        "its own words stand"
    );
}

#[test]
fn endless_thinking_ends_answer() {
    let mut turn = new_turn();
    turn.begin_turn();
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
    turn.apply_event(delta(StepEvent::Reasoning("Hm, ".repeat(100))));
    let effects = turn.apply_event(delta(StepEvent::Finished { stop: StopReason::OutputFull, usage: None }));
    let completion = effects.iter().find_map(|effect| match effect {
        TurnEffect::Complete(completion) => Some(completion),
        _ => None,
    });
    let completion = completion.expect("it ends instead of being tried again");
    let AnswerEnding::Failed(error) = &completion.ending else { unreachable!("{:?}", completion.ending) };
    assert_eq!((error.code, completion.cost), (ErrorCode::OutputExhausted, Credits(0)));
    assert_eq!(completion.answer.parts.len(), 2, "the reasoning and the error");
}

#[test]
fn output_limit_keeps_text_with_note() {
    let mut turn = new_turn();
    turn.begin_turn();
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
    turn.apply_event(delta(StepEvent::Text("The rent is seven hun".to_owned())));
    turn.apply_event(delta(StepEvent::Finished { stop: StopReason::OutputFull, usage: None }));
    let effects = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    let completion = effects.iter().find_map(|effect| match effect {
        TurnEffect::Complete(completion) => Some(completion),
        _ => None,
    });
    let completion = completion.expect("it ends");
    let AnswerEnding::Failed(error) = &completion.ending else { unreachable!("{:?}", completion.ending) };
    assert_eq!(error.code, ErrorCode::OutputExhausted);
    let text = completion.answer.unmarked_text();
    assert!(text.starts_with("The rent is seven hun\n\nThe answer is not complete"), "{text}");
}

#[test]
fn effectful_host_calls_run_once() {
    let call = |id: &str, tool: &str| StepCall {
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
    let mut turn = new_turn();
    turn.begin_turn();
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
    for call in &calls {
        turn.apply_event(delta(StepEvent::Call(call.clone())));
    }
    turn.apply_event(delta(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    assert_eq!(
        run_tool_ids(&turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false })),
        ["a", "c", "d"]
    );
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(2)));
    let output = done_output();
    assert_eq!(
        run_tool_ids(&turn.apply_event(TurnEvent::ToolReturned { call: "a".to_owned(), output })),
        [""; 0],
        "it is not durable yet"
    );
    assert_eq!(run_tool_ids(&turn.apply_event(TurnEvent::ResultCommitted { call: "a".to_owned() })), ["b"]);
    let mut restarted = Turn::new(Setup {
        present: LoggedExchange { log: turn.log.clone(), ..turn.setup.present.clone() },
        ..turn.setup.clone()
    });
    let begun = restarted.begin_turn();
    assert_eq!(run_tool_ids(&begun), ["c", "d"], "those that may run again do");
    let cut = begun.iter().find_map(|effect| match effect {
        TurnEffect::CommitResult { result, .. } => Some((result.call.as_str(), result.outcome)),
        _ => None,
    });
    assert_eq!(cut, Some(("b", StepOutcome::Interrupted)));
}

fn run_tool_ids(effects: &[TurnEffect]) -> Vec<&str> {
    let ids = effects.iter().filter_map(|effect| match effect {
        TurnEffect::RunTool(call) => Some(call.id.as_str()),
        _ => None,
    });
    ids.collect()
}

#[test]
fn subagent_citations_get_new_numbers() {
    let name = |full: &str| AgentName {
        id: crate::id::AgentId::from_full_name(full),
        name: full.to_owned(),
        full_name: full.to_owned(),
    };
    let mut turn = new_turn();
    turn.begin_turn();
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
    for id in ["a", "b"] {
        let purpose = Purpose::Agent(name("p:lawyer"));
        let (tool, arguments) = ("agent".to_owned(), "{}".to_owned());
        turn.apply_event(delta(StepEvent::Call(StepCall { id: id.to_owned(), tool, arguments, purpose })));
    }
    turn.apply_event(delta(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    turn.apply_event(TurnEvent::Reported { call: "b".to_owned(), keep: 0, text: "It see".to_owned() });
    turn.apply_event(TurnEvent::Reported { call: "b".to_owned(), keep: 3, text: "is".to_owned() });
    let report = |turn: &Turn, at: usize| match &turn.answer().parts[at].body {
        crate::answer::PartContent::Run(run) => run.report.clone(),
        other => unreachable!("{other:?}"),
    };
    assert_eq!(report(&turn, 1), "It is");
    let passage = |page| citation::Passage {
        place: citation::PassagePlace::File {
            path: "/a".to_owned(),
            page: Some(page),
            lines: None,
            page_name: None,
        },
        text: "t".to_owned(),
    };
    for id in ["a", "b"] {
        let output = CallOutput {
            images: Vec::new(),
            outcome: StepOutcome::Done,
            text: "Due [2], unless [1]; never [3].".into(),
            passages: vec![passage(1), passage(2)],
            written: Vec::new(),
            unread: Vec::new(),
        };
        turn.apply_event(TurnEvent::ToolReturned { call: id.to_owned(), output });
        turn.apply_event(TurnEvent::ResultCommitted { call: id.to_owned() });
    }
    assert_eq!(report(&turn, 0), "Due [2], unless [1]; never.");
    assert_eq!(report(&turn, 1), "Due [4], unless [3]; never.");
    turn.apply_event(TurnEvent::Reported { call: "b".to_owned(), keep: 0, text: "late".to_owned() });
    assert_eq!(report(&turn, 1), "Due [4], unless [3]; never.", "it has settled");
}

fn call_output() -> CallOutput {
    CallOutput {
        images: Vec::new(),
        outcome: StepOutcome::Done,
        text: "x".into(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}

fn new_call(id: &str, tool: &str) -> StepCall {
    StepCall { id: id.to_owned(), tool: tool.to_owned(), arguments: "{}".to_owned(), purpose: Purpose::Tool }
}

/// Creates a turn whose first step made these calls. Returns the effects of its commit.
fn turn_after_calls(calls: &[StepCall]) -> (Turn, Vec<TurnEffect>) {
    let mut turn = new_turn();
    turn.begin_turn();
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
    for call in calls {
        turn.apply_event(delta(StepEvent::Call(call.clone())));
    }
    turn.apply_event(delta(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    let committed = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    (turn, committed)
}

/// Returns the calls that the machine is asked to run.
fn sent_run_ids(effects: &[TurnEffect]) -> Vec<&str> {
    let calls = effects.iter().filter_map(|effect| match effect {
        TurnEffect::Send(HostFrame::Run(call)) => Some(call.id.as_str()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn effectful_calls_run_one_by_one() {
    let calls = [
        new_call("a", "shell"),
        new_call("b", "registry__file"),
        new_call("c", "read"),
        new_call("d", "registry__look_up"),
        new_call("e", "shell"),
        new_call("f", "registry__file"),
        new_call("g", "shell"),
    ];
    let (mut turn, begun) = turn_after_calls(&calls);
    assert_eq!((sent_run_ids(&begun), run_tool_ids(&begun)), (vec!["a", "c"], vec!["d"]));
    let returned = |call: &str| {
        TurnEvent::Executor(ExecutorFrame::Returned { call: call.to_owned(), output: call_output() })
    };
    let committed = |call: &str| TurnEvent::ResultCommitted { call: call.to_owned() };
    let here = |call: &str| TurnEvent::ToolReturned { call: call.to_owned(), output: call_output() };
    assert_eq!(turn.apply_event(returned("e")), [], "it was not sent yet");
    turn.apply_event(here("d"));
    assert_eq!(turn.apply_event(committed("d")).len(), 1, "only the result is published");
    assert_eq!(run_tool_ids(&turn.apply_event(returned("a"))), [""; 0], "it is not durable yet");
    assert_eq!(run_tool_ids(&turn.apply_event(committed("a"))), ["b"]);
    turn.apply_event(here("b"));
    assert_eq!(sent_run_ids(&turn.apply_event(committed("b"))), ["e"]);
    turn.apply_event(returned("e"));
    let (e, f) = (turn.apply_event(committed("e")), turn.apply_event(here("f")));
    assert_eq!((run_tool_ids(&e), sent_run_ids(&e), f.len()), (vec!["f"], vec![], 1));
    assert_eq!(sent_run_ids(&turn.apply_event(committed("f"))), ["g"]);
    turn.apply_event(returned("c"));
    turn.apply_event(committed("c"));
    turn.apply_event(returned("g"));
    let last = turn.apply_event(committed("g"));
    assert!(last.iter().any(|effect| matches!(effect, TurnEffect::Reserve { number: 1, .. })), "{last:?}");
}

#[test]
fn session_opens_with_outstanding_calls() {
    let (mut turn, begun) =
        turn_after_calls(&[new_call("a", "shell"), new_call("b", "skill"), new_call("c", "shell")]);
    let open =
        |effects: &[TurnEffect]| match effects.iter().find(|effect| matches!(effect, TurnEffect::Send(_))) {
            Some(TurnEffect::Send(HostFrame::Open(open))) => open.clone(),
            other => unreachable!("{other:?}"),
        };
    let first = open(&begun);
    assert_eq!(
        (first.stamp.session, first.outstanding.as_slice()),
        (1, &["a".to_owned(), "c".to_owned()][..])
    );
    turn.apply_event(TurnEvent::Disconnected);
    let again = turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    assert_eq!(sent_run_ids(&again), ["a"], "its result is asked for again");
    assert_eq!(open(&again).stamp.session, 2);
    turn.apply_event(TurnEvent::Executor(ExecutorFrame::Returned {
        call: "a".to_owned(),
        output: call_output(),
    }));
    let committed = turn.apply_event(TurnEvent::ResultCommitted { call: "a".to_owned() });
    assert!(committed.contains(&TurnEffect::Send(HostFrame::Ack { call: "a".to_owned() })), "{committed:?}");
    assert_eq!(sent_run_ids(&committed), ["c"]);
}

#[test]
fn waiting_call_stays_with_its_instance() {
    let (mut turn, begun) = turn_after_calls(&[new_call("a", "registry__file"), new_call("b", "shell")]);
    assert_eq!((sent_run_ids(&begun), run_tool_ids(&begun)), (vec![], vec!["a"]));
    turn.apply_event(TurnEvent::Disconnected);
    let connected = turn.apply_event(TurnEvent::Connected(InstanceId::from_random(2)));
    let cut = connected.iter().find_map(|effect| match effect {
        TurnEffect::CommitResult { result, .. } => Some((result.call.as_str(), result.outcome)),
        _ => None,
    });
    assert_eq!(cut, Some(("b", StepOutcome::Interrupted)));
}

#[test]
fn turn_waits_for_machine_when_needed() {
    let mut turn = new_turn();
    turn.begin_turn();
    assert!(!turn.awaits_machine() && turn.needs_machine(), "it is not connected");
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    assert!(!turn.awaits_machine(), "credits are reserved");
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt: 0, outcome: Ok(()) });
    let delta = |event| TurnEvent::ModelDelta { number: 0, attempt: 0, event };
    assert!(!turn.awaits_machine(), "the model puts something out");
    turn.apply_event(TurnEvent::Disconnected);
    assert!(!turn.needs_machine(), "a step is completed without it");
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    let error = StepError::Unavailable { reason: "cut".to_owned(), retry_after: None };
    turn.apply_event(TurnEvent::ModelFailed { number: 0, attempt: 0, error, jitter: 0 });
    assert!(!turn.awaits_machine(), "the model is given a pause");
    turn.apply_event(TurnEvent::BackoffElapsed { number: 0, attempt: 1 });
    let said_again = |event| TurnEvent::ModelDelta { number: 0, attempt: 1, event };
    turn.apply_event(delta(StepEvent::Text("late".to_owned())));
    for call in [new_call("a", "registry__file"), new_call("b", "shell")] {
        turn.apply_event(said_again(StepEvent::Call(call)));
    }
    turn.apply_event(said_again(StepEvent::Finished { stop: StopReason::Calls, usage: None }));
    assert!(!turn.awaits_machine(), "the step is committed");
    turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    assert!(!turn.awaits_machine(), "the host's call runs, and the machine's behind it");
    turn.apply_event(TurnEvent::ToolReturned { call: "a".to_owned(), output: call_output() });
    turn.apply_event(TurnEvent::ResultCommitted { call: "a".to_owned() });
    assert!(turn.awaits_machine(), "its call runs");
    turn.apply_event(TurnEvent::Executor(ExecutorFrame::Returned {
        call: "b".to_owned(),
        output: call_output(),
    }));
    assert!(!turn.awaits_machine(), "the result is committed");
    turn.apply_event(TurnEvent::ResultCommitted { call: "b".to_owned() });
    assert!(!turn.awaits_machine() && !turn.needs_machine(), "the next step needs the model alone");
    turn.apply_event(TurnEvent::StopRequested);
    assert!(!turn.awaits_machine(), "the answer ends");
}

#[test]
fn repeated_unexpected_results_break_protocol() {
    let (mut turn, _) = turn_after_calls(&[new_call("a", "shell")]);
    let unexpected = ExecutorFrame::Returned { call: "x".to_owned(), output: call_output() };
    for _ in 0..VIOLATIONS_MAX {
        turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
        let mut taken = 0;
        while turn.apply_event(TurnEvent::Executor(unexpected.clone())).is_empty() {
            taken += 1;
            assert!(taken <= UNEXPECTED_FRAMES_MAX, "they cost the host without bound");
        }
    }
    assert!(
        matches!(&turn.ending, Some(AnswerEnding::Failed(error)) if error.code == ErrorCode::MachineFailed)
    );
}
