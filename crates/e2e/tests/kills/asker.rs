//! A client that asks in one conversation after another and follows each answer to its completion.

use std::sync::atomic::{AtomicBool, Ordering};

use e2e::http::HttpRequest;
use e2e::{Expect, HttpResponse, poll};
use serde_json::{Value, json};

use crate::follow::follow_answer;
use crate::random::Random;

/// The number of answers per conversation.
const ANSWERS_PER_CONVERSATION: u64 = 8;
/// The probability, in percent, of a second question while the first is being answered.
const SECOND_QUESTION_PERCENT: u64 = 30;

/// A key and the address of the service, which may be down at any moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) address: &'a str,
    pub(crate) key: &'a str,
}

impl Caller<'_> {
    pub(crate) fn new_request(&self, method: &str, target: &str) -> HttpRequest {
        HttpRequest::new(method, target).with_header("x-api-key", self.key)
    }

    /// Repeats the request until a service responds that is not shutting down.
    pub(crate) fn send_until_answered(&self, request: &HttpRequest) -> HttpResponse {
        poll::wait_until("the service answers", || {
            request.clone().try_send(self.address).ok().filter(|response| response.status != 503)
        })
    }

    pub(crate) fn get_json(&self, target: &str) -> Value {
        self.send_until_answered(&self.new_request("GET", target)).expect_status(200).json()
    }
}

/// An accepted answer and its completed state.
#[derive(Debug)]
pub(crate) struct CompletedAnswer {
    pub(crate) chat: String,
    pub(crate) marker: String,
    pub(crate) whole: Value,
}

/// The record of one client.
#[derive(Debug, Default)]
pub(crate) struct AskerRecord {
    pub(crate) answers: Vec<CompletedAnswer>,
    pub(crate) refused_busy: u64,
    pub(crate) reconnects: u64,
    pub(crate) states: u64,
}

/// Asks until `enough` is set, and follows every accepted answer to its completion.
pub(crate) fn ask_on(caller: Caller<'_>, name: &str, mut random: Random, enough: &AtomicBool) -> AskerRecord {
    let mut record = AskerRecord::default();
    let mut chat: Option<String> = None;
    let mut number = 0;
    while !enough.load(Ordering::Relaxed) {
        if number % ANSWERS_PER_CONVERSATION == 0 {
            chat = None;
        }
        number += 1;
        let marker = format!("{name}-{number}");
        let first = ask_until_accepted(caller, &marker, chat.as_deref())
            .expect("a conversation at rest takes a question");
        chat = first["chatId"].as_str().map(str::to_owned);
        if random.next_chance(SECOND_QUESTION_PERCENT) {
            number += 1;
            let marker = format!("{name}-{number}");
            match ask_until_accepted(caller, &marker, chat.as_deref()) {
                None => record.refused_busy += 1,
                Some(second) => {
                    let before = caller.get_json(&events_target(&first));
                    assert_eq!(before["status"], "completed", "two answers of one conversation are open");
                    see_to_the_end(caller, marker, &second, &mut random, &mut record);
                }
            }
        }
        see_to_the_end(caller, marker, &first, &mut random, &mut record);
    }
    record
}

/// Asks, with an idempotency key, until the question is accepted. `None` if the conversation has an open
/// answer.
pub(crate) fn ask_until_accepted(caller: Caller<'_>, marker: &str, chat: Option<&str>) -> Option<Value> {
    let mut question = json!({ "input": script_question(marker), "webSearchEnabled": true });
    if let Some(chat) = chat {
        question["chatId"] = chat.into();
    }
    let request = caller
        .new_request("POST", "/api/v1/chats")
        .with_header("content-type", "application/json")
        .with_header("idempotency-key", marker)
        .with_body(question.to_string());
    let response = caller.send_until_answered(&request);
    if response.status == 409 {
        response.expect_code(409, "CONVERSATION_BUSY");
        return None;
    }
    assert!([201, 202].contains(&response.status), "{} {}", response.status, response.text());
    Some(response.json())
}

/// Creates the model's script: five steps and two of a subagent, each with fixed usage, so that all answers
/// cost the same.
fn script_question(marker: &str) -> String {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 600, "completion_tokens": 60}});
    let usage = json!({ "raw": format!("data: {usage}\n\n") });
    let run = |which: &str| {
        let command = format!("echo {marker}-{which} >> /workspace/runs.txt; sleep 0.05");
        json!({"call": {"tool": "shell", "arguments": {"command": command}}})
    };
    let call = |tool: &str, arguments: Value| json!({"call": {"tool": tool, "arguments": arguments}});
    let step = |actions: Value| json!({"actions": actions, "pace_ms": 3, "usage": false});
    let task = json!({"steps": [
        step(json!([{"say": "The lawyer looks."}, run("c"), call("list", json!({"path": "/"})), usage])),
        step(json!([{"say": format!("The lawyer reports on {marker}, ")}, {"tokens": {"count": 15, "every_ms": 8}}, usage])),
    ]});
    let script = json!({"steps": [
        step(json!([
            {"think": "I look for it first."},
            {"say": format!("Looking up {marker}.")},
            call("search", json!({"query": "monthly rent"})),
            run("a"),
            call("list", json!({"path": "/uploads"})),
            usage,
        ])),
        step(json!([
            {"say": "Asking the servers."},
            call("registry__note", json!({"text": format!("{marker}-d"), "file": "/workspace/servers.txt", "seconds": 0.03})),
            call("registry__echo", json!({"text": marker})),
            call("diary__note", json!({"text": format!("{marker}-e")})),
            usage,
        ])),
        step(json!([
            {"say": "Reading it."},
            call("read", json!({"path": "/uploads/lease.txt"})),
            call("write", json!({"path": format!("/notes/{marker}.txt"), "content": marker})),
            run("b"),
            usage,
        ])),
        step(json!([
            call("skill", json!({"skill": "causerie:document-summary"})),
            call("web_search", json!({"query": "notice period"})),
            call("agent", json!({"agent": "causerie:lawyer", "task": format!("STANDIN {task}")})),
            usage,
        ])),
        step(json!([{"say": format!("So {marker} comes to this: ")}, {"tokens": {"count": 25, "every_ms": 8}}, usage])),
    ]});
    format!("{marker}: STANDIN {script}")
}

pub(crate) fn events_target(answer: &Value) -> String {
    let text = |field: &str| answer[field].as_str().expect("an id");
    format!("/api/v1/chats/{}/messages/{}", text("chatId"), text("id"))
}

fn see_to_the_end(
    caller: Caller<'_>,
    marker: String,
    answer: &Value,
    random: &mut Random,
    record: &mut AskerRecord,
) {
    let followed = follow_answer(&caller, answer, random);
    record.reconnects += followed.reconnects;
    record.states += followed.states;
    let whole = caller.get_json(&events_target(answer));
    assert_eq!(whole, followed.completed, "the stream ended with the stored answer");
    let chat = answer["chatId"].as_str().expect("a chat").to_owned();
    record.answers.push(CompletedAnswer { chat, marker, whole });
}
