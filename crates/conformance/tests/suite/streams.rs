//! Section 6: the streams of an answer and of a conversation.

use std::io::Read;
use std::time::{Duration, Instant};

use conformance::api::id;
use conformance::events::{Frame, version};
use conformance::{Account, Api, Events, Expect, Options, Say, Service, Vendor};
use serde_json::{Value, json};

/// The time within which the stream of a revoked key must end: five seconds, and what a busy host adds.
const REVOKED_WITHIN: Duration = Duration::from_secs(5 + 20);
/// The longest time between two comments on a busy host.
const BEAT_WITHIN: Duration = Duration::from_secs(10 + 20);

pub(crate) struct Stage {
    pub(crate) vendor: Vendor,
    pub(crate) account: Account,
    pub(crate) api: Api,
    pub(crate) service: Service,
}

pub(crate) fn stage() -> Stage {
    let vendor = Vendor::start();
    let service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let account = service.account();
    let api = service.api(&account);
    Stage { vendor, account, api, service }
}

pub(crate) fn shows(events: &mut Events, text: &str) -> conformance::Event {
    events.find(text, |event| event.text().trim_end() == text)
}

#[test]
fn an_answer_is_streamed_from_its_present_state_to_its_completion() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("One"), Say::Hold, Say::text(" two"), Say::Hold, Say::text(" three.")]);
    let answer = api.ask("Count");
    let mut events = api.events_of(&answer);
    let first = events.event().expect("the present state comes at once");
    assert_eq!(first.retry.as_deref(), Some("1000"));
    let one = shows(&mut events, "One");
    assert_eq!((one.name.as_str(), &one.data["chatId"]), ("message", &answer["chatId"]));
    vendor.wait_held(1);
    let mut late = api.events_of(&answer);
    assert_eq!(late.event().expect("a late reader gets the present state").text().trim_end(), "One");
    vendor.release();
    let two = shows(&mut events, "One two");
    assert!(version(&one.id) < version(&two.id), "{} before {}", one.id, two.id);
    vendor.release();
    for events in [events, late] {
        let rest = events.rest();
        let (last, before) = rest.split_last().expect("a completion");
        assert_eq!((last.name.as_str(), last.text()), ("completed", "One two three."));
        assert!(before.iter().all(|event| event.name == "message" && event.retry.is_none()));
        let versions: Vec<_> = rest.iter().map(|event| version(&event.id)).collect();
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        assert_eq!(last.data, api.now(&answer), "the last state is the answer as it is collected");
    }
}

#[test]
fn an_answer_that_is_done_is_its_completion_alone() {
    let Stage { api, service: _service, .. } = stage();
    let answer = api.completed(&api.ask("Hello"));
    for _ in 0..2 {
        let events = api.events_of(&answer).rest();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!((events[0].name.as_str(), &events[0].data), ("completed", &answer));
        assert_eq!(events[0].retry.as_deref(), Some("1000"));
    }
}

#[test]
fn a_conversation_is_streamed_through_its_questions() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("First"), Say::Hold]);
    let first = api.ask("One");
    let chat = id(&first, "chatId");
    let mut events = Events::new(api.chat_events(&chat, None));
    shows(&mut events, "First");
    vendor.release();
    let done = events.find("completion", |event| event.name == "completed");
    assert_eq!(done.data, api.now(&first));
    vendor.will([Say::text("Second"), Say::Hold, Say::text(" too.")]);
    let second = api.accepted(&json!({ "input": "Two", "chatId": chat }));
    let shown = shows(&mut events, "Second");
    assert_eq!(shown.data["id"], second["id"]);
    // A new reader gets the state of the latest answer.
    let mut late = Events::new(api.chat_events(&chat, None));
    assert_eq!(late.event().expect("the present state").data["id"], second["id"]);
    vendor.release();
    for events in [&mut events, &mut late] {
        let done = events.find("completion", |event| event.name == "completed");
        assert_eq!((&done.data["id"], done.text()), (&second["id"], "Second too."));
    }
    // A reader that connects after the completion gets the completed answer, and stays connected.
    let mut quiet = Events::new(api.chat_events(&chat, None));
    let present = quiet.event().expect("the present state");
    assert_eq!((present.name.as_str(), &present.data["id"]), ("completed", &second["id"]));
    let third = api.accepted(&json!({ "input": "Three", "chatId": chat }));
    for events in [&mut events, &mut late, &mut quiet] {
        events.find("the third answer", |event| event.name == "completed" && event.data["id"] == third["id"]);
    }
    api.delete_chat(&chat).expect_status(204);
    for mut events in [events, late, quiet] {
        while events.event().is_some() {}
    }
}

#[test]
fn a_watcher_is_told_of_an_end_also_when_the_next_question_has_begun() {
    let Stage { vendor, api, service: _service, .. } = stage();
    for round in 0..5 {
        vendor.will([Say::Hold, Say::text("First.")]);
        let first = api.ask("One");
        let chat = id(&first, "chatId");
        let mut events = Events::new(api.chat_events(&chat, None));
        vendor.wait_held(1);
        vendor.will([Say::text("Second"), Say::Hold]);
        vendor.release();
        api.completed(&first);
        let second = api.accepted(&json!({ "input": "Two", "chatId": chat }));
        let mut ended = false;
        loop {
            let event = events.event().expect("the stream stays open");
            if event.data["id"] == second["id"] {
                break;
            }
            ended |= event.name == "completed" && event.text() == "First.";
        }
        assert!(ended, "the first answer's end was left out in round {round}");
        vendor.wait_held(1);
        vendor.release();
        api.completed(&second);
    }
}

#[test]
fn deleting_a_conversation_ends_its_streams() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Go on");
    let chat = id(&answer, "chatId");
    let mut of_answer = api.events_of(&answer);
    let mut of_chat = Events::new(api.chat_events(&chat, None));
    shows(&mut of_answer, "Half");
    shows(&mut of_chat, "Half");
    api.delete_chat(&chat).expect_status(204);
    let rest = of_answer.rest();
    let last = rest.last().expect("a completion");
    assert_eq!((last.name.as_str(), last.text().trim_end()), ("completed", "Half"));
    while of_chat.event().is_some() {}
}

#[test]
fn a_stop_completes_the_stream() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Go on");
    let mut events = api.events_of(&answer);
    shows(&mut events, "Half");
    api.stop(&id(&answer, "chatId")).expect_status(202);
    let rest = events.rest();
    assert_eq!(rest.last().map(|event| event.name.as_str()), Some("completed"));
}

#[test]
fn a_revoked_key_ends_its_streams() {
    let Stage { vendor, account, api, service } = stage();
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Go on");
    let mut of_answer = api.events_of(&answer);
    shows(&mut of_answer, "Half");
    let (_, other) = service.new_key(&account.email);
    let mut others = api.with_key(&other).events_of(&answer);
    shows(&mut others, "Half");
    service.admin(&["key", "revoke", &account.key_id]);
    let revoked = Instant::now();
    while of_answer.event().is_some() {}
    assert!(revoked.elapsed() < REVOKED_WITHIN, "{:?}", revoked.elapsed());
    vendor.release();
    assert_eq!(others.rest().last().map(|event| event.name.as_str()), Some("completed"));
}

#[test]
fn a_revoked_key_waits_for_nothing() {
    let Stage { vendor, account, api, service } = stage();
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Go on");
    vendor.wait_held(1);
    let target = format!("/api/v1/chats/{}/messages/{}", id(&answer, "chatId"), id(&answer, "id"));
    api.upload("large.bin", &vec![b'x'; 16 << 20]).expect_status(201);
    let download = api.request("GET", "/api/v1/files/uploads/large.bin").open(&api.address);
    std::thread::scope(|scope| {
        let waiting = || api.request("GET", &target).header("prefer", "wait=60").send(&api.address);
        let asking = || {
            let question = json!({ "input": "Wait", "model": "reader" }).to_string();
            api.request("POST", "/api/v1/chats").header("prefer", "wait=60").body(question).send(&api.address)
        };
        vendor.will([Say::Hold]);
        let held = || {
            let question = json!({ "input": "Wait" }).to_string();
            api.request("POST", "/api/v1/chats").header("prefer", "wait=60").body(question).send(&api.address)
        };
        asking().expect_status(201);
        let waiters = [scope.spawn(waiting), scope.spawn(held)];
        vendor.wait_held(2);
        service.admin(&["key", "revoke", &account.key_id]);
        let revoked = Instant::now();
        for waiter in waiters {
            waiter.join().expect("a waiter").expect_rejection();
        }
        assert!(revoked.elapsed() < REVOKED_WITHIN, "{:?}", revoked.elapsed());
    });
    assert!(download.try_whole().is_err(), "a download goes no further");
    vendor.release();
}

#[test]
fn a_quiet_stream_beats() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("Half"), Say::Hold]);
    let mut events = api.events_of(&api.ask("Go on"));
    shows(&mut events, "Half");
    let quiet = Instant::now();
    loop {
        match events.frame().expect("the stream stays open") {
            Frame::Comment => break,
            Frame::Event(event) => assert_eq!(event.text().trim_end(), "Half"),
        }
    }
    assert!(quiet.elapsed() < BEAT_WITHIN, "{:?}", quiet.elapsed());
    vendor.release();
}

#[test]
fn line_separators_in_an_answer_do_not_break_its_frames() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let odd = "a\u{2028}b\u{2029}c\u{85}d\r\ne\nf žluťoučký 🦀";
    vendor.will([Say::text(odd), Say::Hold, Say::text(".")]);
    let answer = api.ask("Odd");
    let mut events = api.events_of(&answer);
    events.find("the odd text", |event| event.text().contains('🦀'));
    vendor.release();
    let rest = events.rest();
    let last = rest.last().expect("a completion");
    assert!(last.text().contains('\u{2028}') && last.text().contains('\u{85}'), "{:?}", last.text());
    assert_eq!(last.data, api.now(&answer));
}

#[test]
fn separators_that_some_readers_take_for_line_ends_are_escaped_wherever_they_stand() {
    const SEPARATORS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    let Stage { vendor, api, service: _service, .. } = stage();
    let odd = |word: &str| SEPARATORS.map(|separator| format!("{word}{separator}")).concat();
    let path = format!("/notes/{}.txt", odd("file"));
    let write = json!({ "path": path, "content": odd("content") });
    let call = Say::Call { tool: "write".to_owned(), arguments: write };
    vendor.will([Say::Reasoning(odd("thought")), Say::text(&odd("said")), call]);
    vendor.will([Say::Hold, Say::text(&odd("done"))]);
    let question = format!("{}?", odd("asked"));
    let answer = api.ask(&question);
    let (chat, message) = (id(&answer, "chatId"), id(&answer, "id"));
    vendor.wait_held(1);
    let streams = [api.answer_events(&chat, &message, None), api.chat_events(&chat, None)];
    vendor.release();
    let whole = api.completed(&answer);
    let renamed = format!("Title {} end", odd("x").replace('\u{85}', ""));
    let target = format!("/api/v1/chats/{chat}");
    let patched =
        api.request("PATCH", &target).body(json!({ "title": renamed }).to_string()).send(&api.address);
    assert_eq!(patched.expect_status(200).json()["title"], renamed.as_str());
    let detail = api.chat(&chat).expect_status(200).json();
    assert_eq!(detail["messages"][0]["text"], question.as_str(), "the question is unchanged");
    assert_eq!((&detail["messages"][1]["text"], &detail["chat"]["title"]), (&whole["text"], &json!(renamed)));
    assert!(
        SEPARATORS.iter().all(|separator| whole["text"].as_str().is_some_and(|t| t.contains(*separator)))
    );
    api.delete_chat(&chat).expect_status(204);
    for stream in streams {
        let mut raw = String::new();
        stream.into_body().read_to_string(&mut raw).expect("text to the stream's end");
        assert!(!raw.contains(SEPARATORS), "{raw}");
        let data = raw.lines().rev().find_map(|line| line.strip_prefix("data: ")).expect("data");
        assert_eq!(serde_json::from_str::<Value>(data).expect("JSON on one line"), whole);
    }
}

#[test]
fn compressed_streams_are_flushed() {
    let Stage { vendor, api, service: _service, .. } = stage();
    for coding in ["zstd", "br", "gzip"] {
        vendor.will([Say::text("Half"), Say::Hold]);
        let answer = api.ask("Go on");
        vendor.wait_held(1);
        let target = format!("/api/v1/chats/{}/messages/{}/events", id(&answer, "chatId"), id(&answer, "id"));
        let stream = api.request("GET", &target).header("accept-encoding", coding).open(&api.address);
        assert_eq!(stream.header("content-encoding"), Some(coding));
        let read = stream.into_body().read(&mut [0; 1024]).expect("bytes come while the model is held");
        assert!(read > 0);
        vendor.release();
        api.completed(&answer);
    }
}

#[test]
fn readers_by_the_dozen_see_the_same_end() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let words: Vec<Say> = (0..200).map(|n| Say::Text(format!("word{n} "))).collect();
    vendor.will([vec![Say::Hold], words].concat());
    let answer = api.ask("Many");
    let readers: Vec<Events> = (0..24).map(|_| api.events_of(&answer)).collect();
    vendor.wait_held(1);
    vendor.release();
    let ends: Vec<Value> =
        readers.into_iter().map(|events| events.rest().pop().expect("a completion").data).collect();
    let whole = api.now(&answer);
    assert!(whole["text"].as_str().is_some_and(|text| text.trim_end().ends_with("word199")), "{whole}");
    assert!(ends.iter().all(|end| *end == whole));
}
