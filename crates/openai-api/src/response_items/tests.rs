use domain::answer::{AnswerChange, RevisionStamp};
use domain::id::{ConversationId, MessageId};
use domain::step::{CallResult, StepCall, StepOutcome};

use super::*;

/// The arguments of each call.
const ARGUMENTS: &str = r#"{"command":"ls"}"#;

fn new_items() -> ResponseItems {
    let (conversation, answer) = (ConversationId::from_random(2), MessageId::from_random(1));
    ResponseItems::new(ResponseId { conversation, answer }, "http://host".to_owned())
}

/// An answer that a client follows.
struct FollowedAnswer {
    answer: Answer,
    items: ResponseItems,
    events: Vec<ResponseEvent>,
}

impl FollowedAnswer {
    fn new() -> Self {
        let answer = Answer::new(MessageId::from_random(1), &[]);
        Self { answer, items: new_items(), events: Vec::new() }
    }

    fn apply(&mut self, change: AnswerChange) {
        let RevisionStamp { epoch, revision } = self.answer.stamp;
        assert!(self.answer.fold_change(RevisionStamp { epoch, revision: revision + 1 }, change));
        self.events.extend(self.items.read_state(&self.answer));
    }

    fn say(&mut self, block: u32, text: &str) {
        self.apply(AnswerChange::TextGrew { block, text: text.to_owned() });
    }

    fn call(&mut self, block: u32, id: &str) {
        let (id, tool, arguments) = (id.to_owned(), "shell".to_owned(), ARGUMENTS.to_owned());
        let call = StepCall { id, tool, arguments, purpose: Purpose::Tool };
        self.apply(AnswerChange::Called { block, call });
    }

    fn settle(&mut self, call: &str) {
        let result = CallResult {
            call: call.to_owned(),
            tool: "shell".to_owned(),
            outcome: StepOutcome::Done,
            text: "done".to_owned(),
            passages: Vec::new(),
            written: Vec::new(),
            images: Vec::new(),
            unread: Vec::new(),
        };
        self.apply(AnswerChange::Resulted { result: result.into() });
    }

    fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.name.trim_start_matches("response.")).collect()
    }
}

/// Returns the texts of the deltas in encoded events.
fn join_deltas(events: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let deltas = events.into_iter().filter(|(name, _)| name.ends_with("delta"));
    let events = deltas.map(|(_, data)| serde_json::from_str::<Value>(&data).expect("JSON"));
    events.map(|event| event["delta"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn finished_answer_has_same_events_as_growing_one() {
    let mut followed = FollowedAnswer::new();
    followed.apply(AnswerChange::StepBegan { number: 0 });
    followed.apply(AnswerChange::ReasoningGrew { block: 0, text: "Úvaha".to_owned() });
    followed.say(1, "Let me ");
    followed.say(1, "see.");
    followed.call(2, "a");
    followed.call(3, "b");
    followed.settle("b");
    followed.settle("a");
    followed.apply(AnswerChange::StepBegan { number: 1 });
    followed.say(0, "On the 5th, ");
    followed.say(0, "příště.\n");
    followed.apply(AnswerChange::Ended(AnswerEnding::Done));
    let mut again = new_items();
    let whole = again.read_state(&followed.answer);
    assert_eq!(again.output(&followed.answer), followed.items.output(&followed.answer));
    assert_eq!(again.numbers.next, followed.items.numbers.next);
    let output = again.output(&followed.answer);
    let called = output.iter().filter_map(|item| item["arguments"].as_str());
    assert_eq!(called.collect::<Vec<_>>(), [ARGUMENTS; 2]);
    let phases: Vec<_> = output.iter().filter_map(|item| item["phase"].as_str()).collect();
    assert_eq!(phases, ["commentary", "final_answer"]);
    // A client that has got the first events gets the others.
    let text = join_deltas(whole.iter().cloned().map(ResponseEvent::encode));
    for at in 0..followed.events.len() {
        let (first, rest) = followed.events.split_at(at + 1);
        let after = first.last().map(|event| event.last);
        let resumed: Vec<_> = whole.iter().cloned().filter_map(|event| event.encode_after(after)).collect();
        let known = join_deltas(first.iter().cloned().map(ResponseEvent::encode));
        assert_eq!(known + &join_deltas(resumed.iter().cloned()), text);
        let others = |name: &&str| !name.ends_with("delta");
        let resumed: Vec<_> = resumed.iter().map(|(name, _)| *name).filter(others).collect();
        let wanted: Vec<_> = rest.iter().map(|event| event.name).filter(others).collect();
        assert_eq!(resumed, wanted);
    }
}

#[test]
fn pending_call_delays_what_follows() {
    let mut followed = FollowedAnswer::new();
    followed.apply(AnswerChange::StepBegan { number: 0 });
    followed.call(0, "a");
    followed.call(1, "b");
    followed.settle("b");
    assert_eq!(followed.names(), ["output_item.added", "mcp_call.in_progress"]);
    followed.settle("a");
    let one = ["output_item.added", "mcp_call.in_progress", "mcp_call.completed", "output_item.done"];
    assert_eq!(followed.names(), [one, one].concat());
}

#[test]
fn text_said_anew_is_another_item() {
    let mut followed = FollowedAnswer::new();
    followed.apply(AnswerChange::StepBegan { number: 0 });
    followed.say(0, "Begun.");
    followed.apply(AnswerChange::StepBegan { number: 0 });
    followed.say(0, "Beg");
    assert_eq!(followed.items.items.len(), 1, "so far the same words");
    followed.say(0, "an anew.");
    followed.apply(AnswerChange::Ended(AnswerEnding::Done));
    let output = followed.items.output(&followed.answer);
    assert_eq!(output.len(), 1);
    assert_eq!(output[0]["content"][0]["text"], "Began anew.");
    let [old, new] = &followed.items.items[..] else { unreachable!("{:?}", followed.items.items) };
    assert_eq!((old.status, new.status), (ItemStatus::Incomplete, ItemStatus::Completed));
    assert_ne!(old.id, new.id);
    assert_eq!((old.index, new.index), (0, 1));
}

#[test]
fn stopped_answer_has_incomplete_items() {
    let mut followed = FollowedAnswer::new();
    followed.apply(AnswerChange::StepBegan { number: 0 });
    followed.say(0, "Begun.");
    followed.apply(AnswerChange::Ended(AnswerEnding::Stopped));
    let output = followed.items.output(&followed.answer);
    assert_eq!((&output[0]["status"], &output[0]["phase"]), (&json!("incomplete"), &json!("commentary")));
}
