//! The invariants that are checked once all answers are complete.

use std::collections::HashMap;

use e2e::api::id_field;
use e2e::{Expect, TestAccount, TestService, poll};
use serde_json::Value;

use crate::asker::{Caller, CompletedAnswer, ask_until_accepted, events_target};

/// The question that is asked before the first kill.
const UNDISTURBED: &str = "undisturbed";
/// More conversations than an account can have here, but still one page.
const CHATS_MAX: usize = 200;

/// An undisturbed answer, for comparison.
#[derive(Debug)]
pub(crate) struct ReferenceAnswer {
    /// The cost of an answer.
    pub(crate) cost: i64,
    text: String,
    shape: Vec<(String, String)>,
}

impl ReferenceAnswer {
    /// Asks the undisturbed question for the first account.
    pub(crate) fn ask_undisturbed(service: &TestService, accounts: &[TestAccount]) -> Self {
        let first = &accounts[0];
        let caller = Caller { address: service.address(), key: &first.key };
        let (before, _) = service.show_credits(first);
        let answer = ask_until_accepted(caller, UNDISTURBED, None).expect("it is taken");
        let whole = poll::wait_until("the answer is completed", || {
            Some(caller.get_json(&events_target(&answer))).filter(|answer| answer["status"] == "completed")
        });
        assert!(whole["error"].is_null(), "{whole}");
        let (balance, reserved) = service.show_credits(first);
        assert_eq!(reserved, 0, "a completed answer reserves nothing");
        service.api_for(first).delete_chat(&id_field(&answer, "chatId")).expect_status(204);
        let model = Self {
            cost: before - balance,
            text: whole["text"].as_str().expect("text").to_owned(),
            shape: part_types(&whole),
        };
        assert!(model.cost > 0 && model.text.contains(UNDISTURBED) && model.shape.len() >= 12, "{whole}");
        assert!(tool_states(&whole).iter().all(|(_, state)| *state == "COMPLETE"), "{whole}");
        model
    }

    /// Returns the account's spending before the first kill.
    pub(crate) fn spent_before(&self, account: usize) -> i64 {
        if account == 0 { self.cost } else { 0 }
    }
}

/// Returns the types and tools of the parts in order, without files, which depend on interruptions.
fn part_types(answer: &Value) -> Vec<(String, String)> {
    let text = |part: &Value, field: &str| part[field].as_str().unwrap_or_default().to_owned();
    let parts = answer["parts"].as_array().expect("parts").iter();
    parts
        .filter(|part| part["type"] != "FILE")
        .map(|part| (text(part, "type"), text(part, "toolName")))
        .collect()
}

/// Returns the tools and their states, in order.
fn tool_states(answer: &Value) -> Vec<(&str, &str)> {
    let parts = answer["parts"].as_array().expect("parts").iter().filter(|part| part["type"] == "TOOL");
    parts
        .map(|part| (part["toolName"].as_str().expect("a name"), part["state"].as_str().expect("a state")))
        .collect()
}

/// Returns the states of one tool's calls, in order.
fn states_of_tool<'a>(answer: &'a Value, name: &str) -> Vec<&'a str> {
    tool_states(answer).into_iter().filter(|(tool, _)| *tool == name).map(|(_, state)| state).collect()
}

/// Checks that each answer is complete, as long as the undisturbed one, and does not change.
pub(crate) fn check_answers(caller: Caller<'_>, answers: &[&CompletedAnswer], model: &ReferenceAnswer) {
    for CompletedAnswer { whole, marker, .. } in answers {
        assert_eq!(whole["status"], "completed");
        assert!(whole["error"].is_null(), "no answer fails: {whole}");
        assert_eq!(
            whole["text"].as_str().expect("text"),
            model.text.replace(UNDISTURBED, marker),
            "{marker}: text before a cut is replaced, and nothing is missing"
        );
        assert_eq!(part_types(whole), model.shape, "{marker}");
        check_report(whole, marker);
        assert!(tool_states(whole).iter().all(|(_, state)| ["COMPLETE", "ERROR"].contains(state)), "{whole}");
        assert_eq!(
            &caller.get_json(&events_target(whole)),
            whole,
            "{marker}: a completed answer stays as it is"
        );
    }
}

/// Checks that the subagent's report is complete.
fn check_report(whole: &Value, marker: &str) {
    let parts = whole["parts"].as_array().expect("parts");
    let part = parts.iter().find(|part| part["type"] == "AGENT").expect("a task was given away");
    assert_eq!(part["state"], "COMPLETE", "{part}");
    let content = part["content"].as_str().expect("content");
    let once = |text: &str| content.matches(text).count() == 1;
    assert!(once("The lawyer looks.") && once(&format!("The lawyer reports on {marker}, ")), "{part}");
}

/// Checks that every accepted answer is in its conversation once, without others.
pub(crate) fn check_history(caller: Caller<'_>, answers: &[&CompletedAnswer]) {
    let mut left: HashMap<&str, &CompletedAnswer> =
        answers.iter().map(|answered| (answered.whole["id"].as_str().expect("an id"), *answered)).collect();
    assert_eq!(left.len(), answers.len(), "two questions got the same answer");
    let page = caller.get_json("/api/v1/chats?limit=200");
    let chats = page["chats"].as_array().expect("chats");
    assert!(chats.len() < CHATS_MAX && page["totalCount"] == chats.len(), "one page shows all: {page}");
    for chat in chats {
        assert_eq!(chat["status"], "completed", "{chat}");
        let chat = id_field(chat, "chatId");
        let detail = caller.get_json(&format!("/api/v1/chats/{chat}"));
        let messages = detail["messages"].as_array().expect("messages");
        for (at, message) in messages.iter().enumerate() {
            assert_eq!(message["role"], if at % 2 == 0 { "USER" } else { "ASSISTANT" }, "they take turns");
            assert_eq!(message["status"], "completed", "{message}");
            if at % 2 == 1 {
                let known = left.remove(message["id"].as_str().expect("an id"));
                let known =
                    known.unwrap_or_else(|| unreachable!("an unexpected or duplicate answer: {message}"));
                assert_eq!((&known.chat, &known.whole["text"]), (&chat, &message["text"]));
            }
        }
        assert_eq!(messages.len() % 2, 0, "each question has its answer");
    }
    assert!(left.is_empty(), "answers that were promised are in no history: {left:?}");
}

/// Checks that no effectful call ran twice, and that calls with state COMPLETE ran.
pub(crate) fn check_runs(caller: Caller<'_>, answers: &[&CompletedAnswer]) {
    let file = caller.send_until_answered(&caller.new_request("GET", "/api/v1/files/runs.txt"));
    assert_eq!(file.status, 200, "{}", file.text());
    let text = file.text();
    let mut runs = count_lines(&text);
    let noted = caller.send_until_answered(&caller.new_request("GET", "/api/v1/files/servers.txt")).text();
    let mut notes = count_lines(&noted);
    for CompletedAnswer { whole, marker, .. } in answers {
        for (which, state) in ["a", "b"].into_iter().zip(states_of_tool(whole, "shell")) {
            let ran = runs.remove(format!("{marker}-{which}").as_str()).unwrap_or(0);
            assert!(ran <= 1, "{marker}-{which} ran {ran} times");
            assert!(ran == 1 || state == "ERROR", "{marker}-{which} is {state} and never ran");
        }
        // Calls of the subagent are not parts of the answer.
        let ran = runs.remove(format!("{marker}-c").as_str()).unwrap_or(0);
        assert!(ran <= 1, "{marker}-c ran {ran} times");
        // The plugin's server, which runs in the machine.
        let ran = notes.remove(format!("{marker}-d").as_str()).unwrap_or(0);
        check_note(marker, &states_of_tool(whole, "registry__note"), ran);
        if states_of_tool(whole, "write") == ["COMPLETE"] {
            let target = format!("/api/v1/files/notes/{marker}.txt");
            let note = caller.send_until_answered(&caller.new_request("GET", &target));
            assert_eq!((note.status, note.text().as_str()), (200, marker.as_str()));
        }
    }
    assert!(runs.is_empty(), "lines that no answer accounts for: {runs:?}");
    assert!(notes.is_empty(), "notes that no answer accounts for: {notes:?}");
}

/// Checks that the MCP server over HTTP took no note twice.
pub(crate) fn check_diary<'a>(diary: &str, answers: impl Iterator<Item = &'a CompletedAnswer>) {
    let mut notes = count_lines(diary);
    for CompletedAnswer { whole, marker, .. } in answers {
        let ran = notes.remove(format!("{marker}-e").as_str()).unwrap_or(0);
        check_note(marker, &states_of_tool(whole, "diary__note"), ran);
    }
    assert!(notes.is_empty(), "notes that no answer accounts for: {notes:?}");
}

fn check_note(marker: &str, states: &[&str], ran: u32) {
    assert!(ran <= 1, "a note of {marker} was taken {ran} times");
    assert!(ran == 1 || states == ["ERROR"], "a note of {marker} is {states:?} and was never taken");
}

/// Counts each line, except the lines of the undisturbed question.
fn count_lines(text: &str) -> HashMap<&str, u32> {
    let mut lines: HashMap<&str, u32> = HashMap::new();
    for line in text.lines().filter(|line| !line.starts_with(UNDISTURBED)) {
        *lines.entry(line).or_default() += 1;
    }
    lines
}

/// Counts the calls that were interrupted by a kill and not run again.
pub(crate) fn count_interrupted_calls<'a>(answers: impl Iterator<Item = &'a CompletedAnswer>) -> usize {
    answers
        .map(|answered| tool_states(&answered.whole).iter().filter(|(_, state)| *state == "ERROR").count())
        .sum()
}
