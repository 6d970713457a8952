//! Tests of summaries: the items that are shown of long conversations, and the step that summarizes them.

use super::*;
use crate::answer::AnswerEnding;
use crate::credits::{AnswerCost, Price};
use crate::id::{InstanceId, MessageId};
use crate::step::{CallResult, Purpose, StepCall, StepError, StepEvent, StepOutcome};
use crate::turn::host::{LoggedExchange, Setup, ToolRouter, TurnEvent};

#[derive(Debug)]
struct Nothing;

impl ToolRouter for Nothing {
    fn runs_on_host(&self, _: &str) -> bool {
        false
    }

    fn is_repeatable(&self, _: &str) -> bool {
        true
    }
}

/// Creates a turn with `room` tokens of transcript, with earlier exchanges and a step log.
fn new_turn(room: u64, earlier: &[LoggedExchange], log: &[LogEntry]) -> Turn {
    let present =
        LoggedExchange { question: "Who signed?".to_owned(), attachments: Vec::new(), log: log.to_vec() };
    Turn::new(Setup {
        answer: MessageId::from_random(1),
        epoch: 1,
        earlier: earlier.to_vec(),
        present,
        bill: AnswerCost::default(),
        price: Price { base_millis: 1000, input_millis: 1000, output_millis: 1000 },
        overhead_tokens: 0,
        context_tokens: room,
        summary_instruction: "Sum up.".into(),
        output_max_tokens: 1000,
        steps_max: 60,
        router: Arc::new(Nothing),
        attached: None,
        instructions: None,
        files: Vec::new(),
        sees_images: false,
        stop: false,
        pause: crate::pause::PauseState::default(),
    })
}

/// Creates an earlier exchange with a result and an answer of these sizes in bytes.
fn new_exchange(name: &str, result: usize, answer: usize) -> LoggedExchange {
    let call = StepCall {
        id: format!("call-{name}"),
        tool: "read".to_owned(),
        arguments: "{}".to_owned(),
        purpose: Purpose::Tool,
    };
    let step = |number, blocks| LogEntry::Step {
        number,
        step: Arc::new(Step { blocks, ..Step::default() }),
        instance: InstanceId::from_random(1),
    };
    let returned = CallResult {
        call: call.id.clone(),
        tool: call.tool.clone(),
        outcome: StepOutcome::Done,
        text: "r".repeat(result),
        passages: Vec::new(),
        written: Vec::new(),
        images: Vec::new(),
        unread: Vec::new(),
    };
    let log = vec![
        step(0, vec![OutputBlock::Opaque { format: "f".into(), json: "{}".into() }, OutputBlock::Call(call)]),
        LogEntry::Result { number: 0, result: Arc::new(returned) },
        step(1, vec![OutputBlock::Text(format!("{name} {}", "a".repeat(answer)))]),
    ];
    LoggedExchange { question: format!("About {name}?"), attachments: Vec::new(), log }
}

/// Connects the machine and returns the effects.
fn begin_connected(turn: &mut Turn) -> Vec<TurnEffect> {
    turn.begin_turn();
    turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)))
}

/// Returns the step of the reservation, and whether it is for a summary.
fn reserved_step(effects: &[TurnEffect]) -> (u32, bool) {
    let held = effects.iter().find_map(|effect| match effect {
        TurnEffect::Reserve { attempt, summary, .. } => Some((*attempt, *summary)),
        _ => None,
    });
    held.unwrap_or_else(|| panic!("nothing is reserved: {effects:?}"))
}

fn grant_reservation(turn: &mut Turn, attempt: u32) -> Vec<TurnEffect> {
    turn.apply_event(TurnEvent::Reserved { number: 0, attempt, outcome: Ok(()) })
}

fn model_call(effects: &[TurnEffect]) -> (u32, Vec<TranscriptItem>, bool) {
    let call = effects.iter().find_map(|effect| match effect {
        TurnEffect::CallModel { attempt, transcript, tools, .. } => {
            Some((*attempt, transcript.clone(), *tools))
        }
        _ => None,
    });
    call.unwrap_or_else(|| panic!("the model is not called: {effects:?}"))
}

fn item_texts(items: &[TranscriptItem]) -> String {
    let text = |item: &TranscriptItem| match item {
        TranscriptItem::Question { text, .. } => format!("Q {text}"),
        TranscriptItem::Step(step) => format!("S {:?}", step.blocks),
        TranscriptItem::Result(result) => format!("R {}", result.text),
    };
    items.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn model_says(turn: &mut Turn, attempt: u32, text: &str) -> Vec<TurnEffect> {
    turn.apply_event(TurnEvent::ModelDelta { number: 0, attempt, event: StepEvent::Text(text.to_owned()) });
    let event = StepEvent::Finished { stop: StopReason::Done, usage: None };
    turn.apply_event(TurnEvent::ModelDelta { number: 0, attempt, event })
}

#[test]
fn old_results_go_first() {
    let earlier = [new_exchange("rent", 9000, 30), new_exchange("deposit", 3000, 30)];
    let mut turn = new_turn(5000, &earlier, &[]);
    assert_eq!(reserved_step(&begin_connected(&mut turn)), (0, false));
    let (_, items, _) = model_call(&grant_reservation(&mut turn, 0));
    let all = item_texts(&items);
    assert_eq!(items.len(), 9, "only results are omitted: {all}");
    assert!(all.contains("look at it again") && !all.contains(&"r".repeat(9000)), "{all}");
    assert!(all.contains(&"r".repeat(3000)), "the newer one stays: {all}");
}

#[test]
fn summary_keeps_recent_entries() {
    let earlier =
        [new_exchange("rent", 300, 9000), new_exchange("deposit", 300, 9000), new_exchange("keys", 30, 30)];
    let begun = |log: &[LogEntry]| new_turn(7000, &earlier, log);
    let mut turn = begun(&[]);
    assert_eq!(reserved_step(&begin_connected(&mut turn)), (0, true));
    let (attempt, items, tools) = model_call(&grant_reservation(&mut turn, 0));
    let all = item_texts(&items);
    assert!(all.contains("rent aaa") && all.ends_with("Q Sum up.\n\nWho signed?") && !tools, "{all}");
    assert!(!all.contains("About keys?"), "recent entries are not summarized: {all}");
    let committed = model_says(&mut turn, attempt, "Rent and deposit were discussed.");
    assert!(!committed.iter().any(|effect| matches!(effect, TurnEffect::Publish(..))), "{committed:?}");
    let entry = committed.iter().find_map(|effect| match effect {
        TurnEffect::CommitStep { entry, cost, .. } => Some((entry.clone(), *cost)),
        _ => None,
    });
    let (entry, cost) = entry.expect("it is committed");
    assert!(matches!(entry, LogEntry::Summary { number: 0, .. }) && cost > Credits(0), "{entry:?}");
    let stale = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    assert_eq!(stale, [], "the step itself is not in the log");
    let then = turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: true });
    assert_eq!(reserved_step(&then), (1, false));
    assert_eq!(grant_reservation(&mut turn, 0), [], "the summary's reservation is over");
    let (attempt, items, tools) = model_call(&grant_reservation(&mut turn, 1));
    let all = item_texts(&items);
    assert!(all.contains("Rent and deposit were discussed.") && !all.contains("rent aaa") && tools, "{all}");
    assert!(all.contains("About keys?") && all.contains("keys aaa"), "{all}");
    assert!(all.ends_with("Q Who signed?"), "{all}");

    // A later lease shows the same items without a second summary.
    let mut after = begun(&[entry]);
    assert_eq!(reserved_step(&begin_connected(&mut after)), (0, false));
    assert_eq!(model_call(&grant_reservation(&mut after, 0)).1, items);

    // The summary is not part of the answer.
    model_says(&mut turn, attempt, "Novák.");
    turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: false });
    assert_eq!(turn.answer().unmarked_text(), "Novák.");
    assert_eq!(turn.answer().parts.len(), 1);
}

#[test]
fn empty_summary_is_skipped() {
    let earlier = [new_exchange("rent", 30, 9000), new_exchange("deposit", 30, 9000)];
    let mut turn = new_turn(5000, &earlier, &[]);
    assert_eq!(reserved_step(&begin_connected(&mut turn)), (0, true));
    let (attempt, ..) = model_call(&grant_reservation(&mut turn, 0));
    model_says(&mut turn, attempt, " ");
    assert_eq!(
        reserved_step(&turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: true })),
        (1, false)
    );
    let (_, items, _) = model_call(&grant_reservation(&mut turn, 1));
    let tokens: usize = item_texts(&items).len() / 3;
    assert!(tokens < 5000 && item_texts(&items).ends_with("Q Who signed?"), "the oldest goes: {tokens}");
}

#[test]
fn overlong_transcript_is_shortened_once() {
    let earlier = [new_exchange("rent", 30, 9000), new_exchange("deposit", 30, 9000)];
    let mut turn = new_turn(100_000, &earlier, &[]);
    assert_eq!(reserved_step(&begin_connected(&mut turn)), (0, false), "by the host's reckoning it fits");
    let (attempt, items, _) = model_call(&grant_reservation(&mut turn, 0));
    let whole = item_texts(&items).len();
    let too_long =
        |attempt| TurnEvent::ModelFailed { number: 0, attempt, error: StepError::TooLong, jitter: 0 };
    assert_eq!(reserved_step(&turn.apply_event(too_long(attempt))), (1, true));
    let (attempt, ..) = model_call(&grant_reservation(&mut turn, 1));
    model_says(&mut turn, attempt, "In short.");
    assert_eq!(
        reserved_step(&turn.apply_event(TurnEvent::StepCommitted { number: 0, summary: true })),
        (2, false)
    );
    let (attempt, items, _) = model_call(&grant_reservation(&mut turn, 2));
    assert!(item_texts(&items).len() < whole * 2 / 3 && item_texts(&items).contains("In short."));
    let ended = turn.apply_event(too_long(attempt));
    let ending = ended.iter().find_map(|effect| match effect {
        TurnEffect::Complete(completion) => completion.answer.ending.clone(),
        _ => None,
    });
    assert!(
        matches!(&ending, Some(AnswerEnding::Failed(error)) if error.code == ErrorCode::ContextTooLong),
        "{ending:?}"
    );
}

#[test]
fn stopped_summary_is_paid_and_unused() {
    let earlier = [new_exchange("rent", 30, 9000), new_exchange("deposit", 30, 9000)];
    let mut turn = new_turn(5000, &earlier, &[]);
    begin_connected(&mut turn);
    let (attempt, ..) = model_call(&grant_reservation(&mut turn, 0));
    turn.apply_event(TurnEvent::ModelDelta { number: 0, attempt, event: StepEvent::Text("Rent".to_owned()) });
    let ended = turn.apply_event(TurnEvent::StopRequested);
    let completion = ended.iter().find_map(|effect| match effect {
        TurnEffect::Complete(completion) => Some(completion),
        _ => None,
    });
    let completion = completion.expect("it ends");
    assert!(completion.cost > Credits(0));
    assert!(matches!(completion.partial, Some(LogEntry::Summary { kept: u32::MAX, .. })));
    assert_eq!(completion.answer.unmarked_text(), "");
}

#[test]
fn long_answer_drops_old_results() {
    let mut log = Vec::new();
    for number in 0..6 {
        let LoggedExchange { log: more, .. } = new_exchange(&number.to_string(), 3000, 0);
        for entry in more.into_iter().take(2) {
            log.push(match entry {
                LogEntry::Step { step, instance, .. } => LogEntry::Step { number, step, instance },
                LogEntry::Result { result, .. } => LogEntry::Result { number, result },
                LogEntry::Summary { .. } => unreachable!("there is none"),
            });
        }
    }
    let mut turn = new_turn(5000, &[], &log);
    turn.begin_turn();
    let effects = turn.apply_event(TurnEvent::Connected(InstanceId::from_random(1)));
    assert_eq!(reserved_step(&effects), (0, false));
    let (_, items, _) =
        model_call(&turn.apply_event(TurnEvent::Reserved { number: 6, attempt: 0, outcome: Ok(()) }));
    let whole = items.iter().filter(|item| item_texts(std::slice::from_ref(item)).contains("rrr")).count();
    assert!((2..=4).contains(&whole), "{whole} results are whole");
    assert!(item_texts(&items[items.len() - 1..]).contains("rrr"), "the last one is");
}
