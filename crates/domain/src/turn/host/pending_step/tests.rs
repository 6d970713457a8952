//! Tests of summaries: the items that are shown of long conversations, and the step that summarizes them.

use super::*;
use crate::answer::Ending;
use crate::credits::{AnswerCost, Price};
use crate::id::{InstanceId, MessageId};
use crate::step::{Call, CallResult, Purpose, StepError, StepEvent, StepOutcome};
use crate::turn::host::{Event, Exchange, Setup, ToolRouter};

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
fn turn(room: u64, earlier: &[Exchange], log: &[LogEntry]) -> Turn {
    let present = Exchange { question: "Who signed?".to_owned(), attachments: Vec::new(), log: log.to_vec() };
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
    })
}

/// Creates an earlier exchange with a result and an answer of these sizes in bytes.
fn exchange(name: &str, result: usize, answer: usize) -> Exchange {
    let call = Call {
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
        step(0, vec![Block::Opaque { format: "f".into(), json: "{}".into() }, Block::Call(call)]),
        LogEntry::Result { number: 0, result: Arc::new(returned) },
        step(1, vec![Block::Text(format!("{name} {}", "a".repeat(answer)))]),
    ];
    Exchange { question: format!("About {name}?"), attachments: Vec::new(), log }
}

/// Connects the machine and returns the effects.
fn wanted(turn: &mut Turn) -> Vec<Effect> {
    turn.begin();
    turn.on(Event::Connected(InstanceId::from_random(1)))
}

/// Returns the step of the reservation, and whether it is for a summary.
fn held(effects: &[Effect]) -> (u32, bool) {
    let held = effects.iter().find_map(|effect| match effect {
        Effect::Reserve { attempt, summary, .. } => Some((*attempt, *summary)),
        _ => None,
    });
    held.unwrap_or_else(|| panic!("nothing is reserved: {effects:?}"))
}

fn granted(turn: &mut Turn, attempt: u32) -> Vec<Effect> {
    turn.on(Event::Reserved { number: 0, attempt, outcome: Ok(()) })
}

fn shown(effects: &[Effect]) -> (u32, Vec<Item>, bool) {
    let call = effects.iter().find_map(|effect| match effect {
        Effect::CallModel { attempt, transcript, tools, .. } => Some((*attempt, transcript.clone(), *tools)),
        _ => None,
    });
    call.unwrap_or_else(|| panic!("the model is not called: {effects:?}"))
}

fn texts(items: &[Item]) -> String {
    let text = |item: &Item| match item {
        Item::Question { text, .. } => format!("Q {text}"),
        Item::Step(step) => format!("S {:?}", step.blocks),
        Item::Result(result) => format!("R {}", result.text),
    };
    items.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn model_says(turn: &mut Turn, attempt: u32, text: &str) -> Vec<Effect> {
    turn.on(Event::ModelDelta { number: 0, attempt, event: StepEvent::Text(text.to_owned()) });
    let event = StepEvent::Finished { stop: StopReason::Done, usage: None };
    turn.on(Event::ModelDelta { number: 0, attempt, event })
}

#[test]
fn old_results_go_first() {
    let earlier = [exchange("rent", 9000, 30), exchange("deposit", 3000, 30)];
    let mut turn = turn(5000, &earlier, &[]);
    assert_eq!(held(&wanted(&mut turn)), (0, false));
    let (_, items, _) = shown(&granted(&mut turn, 0));
    let all = texts(&items);
    assert_eq!(items.len(), 9, "only results are omitted: {all}");
    assert!(all.contains("look at it again") && !all.contains(&"r".repeat(9000)), "{all}");
    assert!(all.contains(&"r".repeat(3000)), "the newer one stays: {all}");
}

#[test]
fn old_entries_are_summarized_and_recent_ones_are_unchanged() {
    let earlier = [exchange("rent", 300, 9000), exchange("deposit", 300, 9000), exchange("keys", 30, 30)];
    let begun = |log: &[LogEntry]| turn(7000, &earlier, log);
    let mut turn = begun(&[]);
    assert_eq!(held(&wanted(&mut turn)), (0, true));
    let (attempt, items, tools) = shown(&granted(&mut turn, 0));
    let all = texts(&items);
    assert!(all.contains("rent aaa") && all.ends_with("Q Sum up.\n\nWho signed?") && !tools, "{all}");
    assert!(!all.contains("About keys?"), "recent entries are not summarized: {all}");
    let committed = model_says(&mut turn, attempt, "Rent and deposit were discussed.");
    assert!(!committed.iter().any(|effect| matches!(effect, Effect::Publish(..))), "{committed:?}");
    let entry = committed.iter().find_map(|effect| match effect {
        Effect::CommitStep { entry, cost, .. } => Some((entry.clone(), *cost)),
        _ => None,
    });
    let (entry, cost) = entry.expect("it is committed");
    assert!(matches!(entry, LogEntry::Summary { number: 0, .. }) && cost > Credits(0), "{entry:?}");
    let stale = turn.on(Event::StepCommitted { number: 0, summary: false });
    assert_eq!(stale, [], "the step itself is not in the log");
    let then = turn.on(Event::StepCommitted { number: 0, summary: true });
    assert_eq!(held(&then), (1, false));
    assert_eq!(granted(&mut turn, 0), [], "the summary's reservation is over");
    let (attempt, items, tools) = shown(&granted(&mut turn, 1));
    let all = texts(&items);
    assert!(all.contains("Rent and deposit were discussed.") && !all.contains("rent aaa") && tools, "{all}");
    assert!(all.contains("About keys?") && all.contains("keys aaa"), "{all}");
    assert!(all.ends_with("Q Who signed?"), "{all}");

    // A later lease shows the same items without a second summary.
    let mut after = begun(&[entry]);
    assert_eq!(held(&wanted(&mut after)), (0, false));
    assert_eq!(shown(&granted(&mut after, 0)).1, items);

    // The summary is not part of the answer.
    model_says(&mut turn, attempt, "Novák.");
    turn.on(Event::StepCommitted { number: 0, summary: false });
    assert_eq!(turn.answer().text(), "Novák.");
    assert_eq!(turn.answer().parts.len(), 1);
}

#[test]
fn a_summary_that_says_nothing_is_done_without() {
    let earlier = [exchange("rent", 30, 9000), exchange("deposit", 30, 9000)];
    let mut turn = turn(5000, &earlier, &[]);
    assert_eq!(held(&wanted(&mut turn)), (0, true));
    let (attempt, ..) = shown(&granted(&mut turn, 0));
    model_says(&mut turn, attempt, " ");
    assert_eq!(held(&turn.on(Event::StepCommitted { number: 0, summary: true })), (1, false));
    let (_, items, _) = shown(&granted(&mut turn, 1));
    let tokens: usize = texts(&items).len() / 3;
    assert!(tokens < 5000 && texts(&items).ends_with("Q Who signed?"), "the oldest goes: {tokens}");
}

#[test]
fn a_transcript_too_long_for_the_vendor_is_shortened_once() {
    let earlier = [exchange("rent", 30, 9000), exchange("deposit", 30, 9000)];
    let mut turn = turn(100_000, &earlier, &[]);
    assert_eq!(held(&wanted(&mut turn)), (0, false), "by the host's reckoning it fits");
    let (attempt, items, _) = shown(&granted(&mut turn, 0));
    let whole = texts(&items).len();
    let too_long = |attempt| Event::ModelFailed { number: 0, attempt, error: StepError::TooLong, jitter: 0 };
    assert_eq!(held(&turn.on(too_long(attempt))), (1, true));
    let (attempt, ..) = shown(&granted(&mut turn, 1));
    model_says(&mut turn, attempt, "In short.");
    assert_eq!(held(&turn.on(Event::StepCommitted { number: 0, summary: true })), (2, false));
    let (attempt, items, _) = shown(&granted(&mut turn, 2));
    assert!(texts(&items).len() < whole * 2 / 3 && texts(&items).contains("In short."));
    let ended = turn.on(too_long(attempt));
    let ending = ended.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => completion.answer.ending.clone(),
        _ => None,
    });
    assert!(
        matches!(&ending, Some(Ending::Failed(error)) if error.code == ErrorCode::ContextTooLong),
        "{ending:?}"
    );
}

#[test]
fn a_stopped_summary_is_paid_for_and_covers_nothing() {
    let earlier = [exchange("rent", 30, 9000), exchange("deposit", 30, 9000)];
    let mut turn = turn(5000, &earlier, &[]);
    wanted(&mut turn);
    let (attempt, ..) = shown(&granted(&mut turn, 0));
    turn.on(Event::ModelDelta { number: 0, attempt, event: StepEvent::Text("Rent".to_owned()) });
    let ended = turn.on(Event::StopRequested);
    let completion = ended.iter().find_map(|effect| match effect {
        Effect::Complete(completion) => Some(completion),
        _ => None,
    });
    let completion = completion.expect("it ends");
    assert!(completion.cost > Credits(0));
    assert!(matches!(completion.partial, Some(LogEntry::Summary { kept: u32::MAX, .. })));
    assert_eq!(completion.answer.text(), "");
}

#[test]
fn results_of_a_long_answer_go_as_it_grows() {
    let mut log = Vec::new();
    for number in 0..6 {
        let Exchange { log: more, .. } = exchange(&number.to_string(), 3000, 0);
        for entry in more.into_iter().take(2) {
            log.push(match entry {
                LogEntry::Step { step, instance, .. } => LogEntry::Step { number, step, instance },
                LogEntry::Result { result, .. } => LogEntry::Result { number, result },
                LogEntry::Summary { .. } => unreachable!("there is none"),
            });
        }
    }
    let mut turn = turn(5000, &[], &log);
    turn.begin();
    let effects = turn.on(Event::Connected(InstanceId::from_random(1)));
    assert_eq!(held(&effects), (0, false));
    let (_, items, _) = shown(&turn.on(Event::Reserved { number: 6, attempt: 0, outcome: Ok(()) }));
    let whole = items.iter().filter(|item| texts(std::slice::from_ref(item)).contains("rrr")).count();
    assert!((2..=4).contains(&whole), "{whole} results are whole");
    assert!(texts(&items[items.len() - 1..]).contains("rrr"), "the last one is");
}
