//! Concurrent callers: an operation that can succeed once succeeds for one of them, and the others get an
//! error.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect, builtin_reader_id, id_field, list_names, uploaded_path};
use crate::http::HttpResponse;
use crate::poll;

pub(super) const CASES: &[Case] = cases![
    Key:
    one_of_many_makes_a_folder,
    one_of_many_deletes_a_file,
    many_uploads_of_one_name_leave_one_of_them_whole;
    Answers:
    many_questions_into_one_conversation_are_answered_one_by_one,
    many_repetitions_of_a_question_are_one,
    one_of_many_deletes_a_conversation;
    Machine:
    many_starts_and_stops_leave_a_machine_that_starts;
];

/// The number of concurrent callers.
const CALLERS: usize = 64;

/// Calls concurrently from [`CALLERS`] threads, with the number of each, and returns the responses.
fn at_once(call: impl Fn(usize) -> HttpResponse + Sync) -> Vec<HttpResponse> {
    let ready = Barrier::new(CALLERS);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let (ready, call) = (&ready, &call);
                scope.spawn(move || {
                    ready.wait();
                    call(number)
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().expect("a caller")).collect()
    })
}

fn count_statuses(responses: &[HttpResponse]) -> BTreeMap<u16, usize> {
    let mut counted = BTreeMap::new();
    for response in responses {
        *counted.entry(response.status).or_default() += 1;
    }
    counted
}

fn one_of_many_makes_a_folder(api: &Api) {
    let made = at_once(|_| api.create_folder("/race"));
    assert_eq!(count_statuses(&made), BTreeMap::from([(201, 1), (409, CALLERS - 1)]));
    for response in made.into_iter().filter(|response| response.status == 409) {
        response.expect_code(409, "ALREADY_EXISTS");
    }
    api.list_directory("/race").expect_status(200);
}

fn one_of_many_deletes_a_file(api: &Api) {
    uploaded_path(api.upload_file("race.txt", b"x"));
    let deleted = at_once(|_| api.delete_file("/uploads/race.txt"));
    assert_eq!(count_statuses(&deleted), BTreeMap::from([(204, 1), (404, CALLERS - 1)]));
    api.create_folder("/race").expect_status(201);
    api.create_folder("/race/deep").expect_status(201);
    let deleted = at_once(|_| api.delete_file("/race?recursive=true"));
    assert!(
        deleted.iter().all(|response| matches!(response.status, 204 | 404)),
        "{:?}",
        count_statuses(&deleted)
    );
    assert!(deleted.iter().any(|response| response.status == 204));
    api.list_directory("/race").expect_code(404, "NOT_FOUND");
}

fn many_uploads_of_one_name_leave_one_of_them_whole(api: &Api) {
    let content = |number: usize| vec![b'0' + number as u8; 50_000 + number];
    let uploaded = at_once(|number| api.upload_file("race.bin", &content(number)));
    for (number, response) in uploaded.into_iter().enumerate() {
        let body = response.expect_status(201).json();
        assert_eq!((&body["path"], &body["size"]), (&"/uploads/race.bin".into(), &(50_000 + number).into()));
    }
    let left = api.download_file("/uploads/race.bin").expect_status(200).body;
    assert!((0..CALLERS).any(|number| left == content(number)), "{} bytes that no caller sent", left.len());
    assert_eq!(list_names(api, "/uploads"), ["race.bin"]);
    // Readers see only complete files, however often they are replaced.
    let met = at_once(|number| match number % 2 {
        0 => api.upload_file("race.bin", &content(number)),
        _ => api.download_file("/uploads/race.bin"),
    });
    for response in met.iter().filter(|response| response.status == 200) {
        assert!((0..CALLERS).any(|number| response.body == content(number)), "a mixture was read");
    }
}

fn many_questions_into_one_conversation_are_answered_one_by_one(api: &Api) {
    let first = api.wait_for_completion(
        &api.expect_accepted(&json!({ "input": "Hello", "model": builtin_reader_id(api) })),
    );
    let chat = id_field(&first, "chatId");
    let asked = at_once(|number| {
        api.send_question(&json!({ "input": format!("Question {number}"), "chatId": chat }))
    });
    let mut accepted = Vec::new();
    for response in asked {
        match response.status {
            202 => accepted.push(response.json()),
            _ => {
                response.expect_code(409, "CONVERSATION_BUSY");
            }
        }
    }
    // Later questions are accepted once an answer has completed, but never two at a time.
    assert!(!accepted.is_empty());
    for answer in &accepted {
        assert!(api.wait_for_completion(answer)["error"].is_null());
    }
    let detail = api.get_chat(&chat).expect_status(200).json();
    let roles: Vec<&Value> =
        detail["messages"].as_array().expect("messages").iter().map(|message| &message["role"]).collect();
    assert_eq!(roles.len(), 2 * (1 + accepted.len()));
    assert!(
        roles.chunks(2).all(|pair| pair == [&Value::from("USER"), &Value::from("ASSISTANT")]),
        "{roles:?}"
    );
}

fn many_repetitions_of_a_question_are_one(api: &Api) {
    let question = json!({ "input": "Once", "model": builtin_reader_id(api) }).to_string();
    let asked = at_once(|_| {
        let request = api.new_request("POST", "/api/v1/chats").with_header("idempotency-key", "race");
        request.with_body(question.clone()).send(&api.address)
    });
    let replayed =
        asked.iter().filter(|response| response.header("idempotent-replayed") == Some("true")).count();
    assert_eq!(replayed, CALLERS - 1, "{:?}", count_statuses(&asked));
    let answers: Vec<Value> = asked.iter().map(HttpResponse::json).collect();
    assert!(answers.iter().all(|answer| answer["id"] == answers[0]["id"]));
    api.wait_for_completion(&answers[0]);
    assert_eq!(api.list_chats("").json()["totalCount"], 1);
}

fn one_of_many_deletes_a_conversation(api: &Api) {
    let answer = api.expect_accepted(&json!({ "input": "Hello", "model": builtin_reader_id(api) }));
    let chat = id_field(&answer, "chatId");
    let met = at_once(|number| match number % 4 {
        0 => api.stop_chat(&chat),
        1 => api.get_chat(&chat),
        _ => api.delete_chat(&chat),
    });
    assert_eq!(met.iter().filter(|response| response.status == 204).count(), 1, "{:?}", count_statuses(&met));
    assert!(
        met.iter().all(|response| matches!(response.status, 200 | 202 | 204 | 404)),
        "{:?}",
        count_statuses(&met)
    );
    api.get_chat(&chat).expect_code(404, "NOT_FOUND");
    assert_eq!(api.list_chats("").json()["totalCount"], 0);
}

fn many_starts_and_stops_leave_a_machine_that_starts(api: &Api) {
    let responses = at_once(|number| if number % 2 == 0 { api.start_vm() } else { api.stop_vm() });
    for (number, response) in responses.into_iter().enumerate() {
        let wanted = if number % 2 == 0 { "STARTING" } else { "STOPPING" };
        assert_eq!(response.expect_status(202).json(), json!({ "status": wanted }));
    }
    api.start_vm().expect_status(202);
    poll::wait_until("it runs", || (api.get_vm().json()["status"] == "RUNNING").then_some(()));
    api.stop_vm().expect_status(202);
    poll::wait_until("it is stopped", || (api.get_vm().json()["status"] == "STOPPED").then_some(()));
}
