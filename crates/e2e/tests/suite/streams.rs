//! Section 6: the streams of an answer and of a conversation.

use std::io::Read;
use std::time::{Duration, Instant};

use e2e::api::id_field;
use e2e::events::{StreamFrame, parse_version};
use e2e::{AnswerStream, Api, Expect, Say, ScriptedVendor, ServiceOptions, TestAccount, TestService};
use serde_json::{Value, json};

/// The time within which the stream of a revoked key must end: five seconds, and the delay of a busy host.
const REVOKED_WITHIN: Duration = Duration::from_secs(5 + 20);
/// The longest time between two comments on a busy host.
const BEAT_WITHIN: Duration = Duration::from_secs(10 + 20);

pub(crate) struct StreamFixture {
    pub(crate) vendor: ScriptedVendor,
    pub(crate) account: TestAccount,
    pub(crate) api: Api,
    pub(crate) service: TestService,
}

pub(crate) fn stream_fixture() -> StreamFixture {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let account = service.create_account();
    let api = service.api_for(&account);
    StreamFixture { vendor, account, api, service }
}

pub(crate) fn find_shown_text(events: &mut AnswerStream, text: &str) -> e2e::AnswerEvent {
    events.find_event(text, |event| event.text().trim_end() == text)
}

#[test]
fn stream_goes_from_state_to_completion() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([
        Say::from_text("One"),
        Say::Hold,
        Say::from_text(" two"),
        Say::Hold,
        Say::from_text(" three."),
    ]);
    let answer = api.ask_question("Count");
    let mut events = api.stream_answer(&answer);
    let first = events.next_event().expect("the present state comes at once");
    assert_eq!(first.retry.as_deref(), Some("1000"));
    let one = find_shown_text(&mut events, "One");
    assert_eq!((one.name.as_str(), &one.data["chatId"]), ("message", &answer["chatId"]));
    vendor.wait_for_holds(1);
    let mut late = api.stream_answer(&answer);
    assert_eq!(late.next_event().expect("a late reader gets the present state").text().trim_end(), "One");
    vendor.release_hold();
    let two = find_shown_text(&mut events, "One two");
    assert!(parse_version(&one.id) < parse_version(&two.id), "{} before {}", one.id, two.id);
    vendor.release_hold();
    for events in [events, late] {
        let rest = events.remaining_events();
        let (last, before) = rest.split_last().expect("a completion");
        assert_eq!((last.name.as_str(), last.text()), ("completed", "One two three."));
        assert!(before.iter().all(|event| event.name == "message" && event.retry.is_none()));
        let versions: Vec<_> = rest.iter().map(|event| parse_version(&event.id)).collect();
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        assert_eq!(last.data, api.get_answer(&answer), "the last state is the answer as it is collected");
    }
}

#[test]
fn completed_answer_streams_one_event() {
    let StreamFixture { api, service: _service, .. } = stream_fixture();
    let answer = api.wait_for_completion(&api.ask_question("Hello"));
    for _ in 0..2 {
        let events = api.stream_answer(&answer).remaining_events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!((events[0].name.as_str(), &events[0].data), ("completed", &answer));
        assert_eq!(events[0].retry.as_deref(), Some("1000"));
    }
}

#[test]
fn chat_events_follow_all_questions() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("First"), Say::Hold]);
    let first = api.ask_question("One");
    let chat = id_field(&first, "chatId");
    let mut events = AnswerStream::new(api.chat_events(&chat, None));
    find_shown_text(&mut events, "First");
    vendor.release_hold();
    let done = events.find_event("completion", |event| event.name == "completed");
    assert_eq!(done.data, api.get_answer(&first));
    vendor.add_script([Say::from_text("Second"), Say::Hold, Say::from_text(" too.")]);
    let second = api.expect_accepted(&json!({ "input": "Two", "chatId": chat }));
    let shown = find_shown_text(&mut events, "Second");
    assert_eq!(shown.data["id"], second["id"]);
    // A new reader gets the state of the latest answer.
    let mut late = AnswerStream::new(api.chat_events(&chat, None));
    assert_eq!(late.next_event().expect("the present state").data["id"], second["id"]);
    vendor.release_hold();
    for events in [&mut events, &mut late] {
        let done = events.find_event("completion", |event| event.name == "completed");
        assert_eq!((&done.data["id"], done.text()), (&second["id"], "Second too."));
    }
    // A reader that connects after the completion gets the completed answer, and stays connected.
    let mut quiet = AnswerStream::new(api.chat_events(&chat, None));
    let present = quiet.next_event().expect("the present state");
    assert_eq!((present.name.as_str(), &present.data["id"]), ("completed", &second["id"]));
    let third = api.expect_accepted(&json!({ "input": "Three", "chatId": chat }));
    for events in [&mut events, &mut late, &mut quiet] {
        events.find_event("the third answer", |event| {
            event.name == "completed" && event.data["id"] == third["id"]
        });
    }
    api.delete_chat(&chat).expect_status(204);
    for mut events in [events, late, quiet] {
        while events.next_event().is_some() {}
    }
}

#[test]
fn chat_events_report_end_despite_next() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    for round in 0..5 {
        vendor.add_script([Say::Hold, Say::from_text("First.")]);
        let first = api.ask_question("One");
        let chat = id_field(&first, "chatId");
        let mut events = AnswerStream::new(api.chat_events(&chat, None));
        vendor.wait_for_holds(1);
        vendor.add_script([Say::from_text("Second"), Say::Hold]);
        vendor.release_hold();
        api.wait_for_completion(&first);
        let second = api.expect_accepted(&json!({ "input": "Two", "chatId": chat }));
        let mut ended = false;
        loop {
            let event = events.next_event().expect("the stream stays open");
            if event.data["id"] == second["id"] {
                break;
            }
            ended |= event.name == "completed" && event.text() == "First.";
        }
        assert!(ended, "the first answer's end was left out in round {round}");
        vendor.wait_for_holds(1);
        vendor.release_hold();
        api.wait_for_completion(&second);
    }
}

#[test]
fn deleting_a_conversation_ends_its_streams() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Go on");
    let chat = id_field(&answer, "chatId");
    let mut of_answer = api.stream_answer(&answer);
    let mut of_chat = AnswerStream::new(api.chat_events(&chat, None));
    find_shown_text(&mut of_answer, "Half");
    find_shown_text(&mut of_chat, "Half");
    api.delete_chat(&chat).expect_status(204);
    let rest = of_answer.remaining_events();
    let last = rest.last().expect("a completion");
    assert_eq!((last.name.as_str(), last.text().trim_end()), ("completed", "Half"));
    while of_chat.next_event().is_some() {}
}

#[test]
fn a_stop_completes_the_stream() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Go on");
    let mut events = api.stream_answer(&answer);
    find_shown_text(&mut events, "Half");
    api.stop_chat(&id_field(&answer, "chatId")).expect_status(202);
    let rest = events.remaining_events();
    assert_eq!(rest.last().map(|event| event.name.as_str()), Some("completed"));
}

#[test]
fn a_revoked_key_ends_its_streams() {
    let StreamFixture { vendor, account, api, service } = stream_fixture();
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Go on");
    let mut of_answer = api.stream_answer(&answer);
    find_shown_text(&mut of_answer, "Half");
    let (_, other) = service.new_key(&account.email);
    let mut others = api.with_key(&other).stream_answer(&answer);
    find_shown_text(&mut others, "Half");
    service.run_admin_command(&["key", "revoke", &account.key_id]);
    let revoked = Instant::now();
    while of_answer.next_event().is_some() {}
    assert!(revoked.elapsed() < REVOKED_WITHIN, "{:?}", revoked.elapsed());
    vendor.release_hold();
    assert_eq!(others.remaining_events().last().map(|event| event.name.as_str()), Some("completed"));
}

#[test]
fn a_revoked_key_waits_for_nothing() {
    let StreamFixture { vendor, account, api, service } = stream_fixture();
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Go on");
    vendor.wait_for_holds(1);
    let target =
        format!("/api/v1/chats/{}/messages/{}", id_field(&answer, "chatId"), id_field(&answer, "id"));
    api.upload_file("large.bin", &vec![b'x'; 16 << 20]).expect_status(201);
    let download = api.new_request("GET", "/api/v1/files/uploads/large.bin").send_streaming(&api.address);
    std::thread::scope(|scope| {
        let waiting = || api.new_request("GET", &target).with_header("prefer", "wait=60").send(&api.address);
        let asking = || {
            let question = json!({ "input": "Wait", "model": "reader" }).to_string();
            api.new_request("POST", "/api/v1/chats")
                .with_header("prefer", "wait=60")
                .with_body(question)
                .send(&api.address)
        };
        vendor.add_script([Say::Hold]);
        let held = || {
            let question = json!({ "input": "Wait" }).to_string();
            api.new_request("POST", "/api/v1/chats")
                .with_header("prefer", "wait=60")
                .with_body(question)
                .send(&api.address)
        };
        asking().expect_status(201);
        let waiters = [scope.spawn(waiting), scope.spawn(held)];
        vendor.wait_for_holds(2);
        service.run_admin_command(&["key", "revoke", &account.key_id]);
        let revoked = Instant::now();
        for waiter in waiters {
            waiter.join().expect("a waiter").expect_rejection();
        }
        assert!(revoked.elapsed() < REVOKED_WITHIN, "{:?}", revoked.elapsed());
    });
    assert!(download.try_read_whole().is_err(), "a download goes no further");
    vendor.release_hold();
}

#[test]
fn a_quiet_stream_beats() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let mut events = api.stream_answer(&api.ask_question("Go on"));
    find_shown_text(&mut events, "Half");
    let quiet = Instant::now();
    loop {
        match events.next_frame().expect("the stream stays open") {
            StreamFrame::Comment => break,
            StreamFrame::Event(event) => assert_eq!(event.text().trim_end(), "Half"),
        }
    }
    assert!(quiet.elapsed() < BEAT_WITHIN, "{:?}", quiet.elapsed());
    vendor.release_hold();
}

#[test]
fn line_separators_do_not_break_frames() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let odd = "a\u{2028}b\u{2029}c\u{85}d\r\ne\nf žluťoučký 🦀";
    vendor.add_script([Say::from_text(odd), Say::Hold, Say::from_text(".")]);
    let answer = api.ask_question("Odd");
    let mut events = api.stream_answer(&answer);
    events.find_event("the odd text", |event| event.text().contains('🦀'));
    vendor.release_hold();
    let rest = events.remaining_events();
    let last = rest.last().expect("a completion");
    assert!(last.text().contains('\u{2028}') && last.text().contains('\u{85}'), "{:?}", last.text());
    assert_eq!(last.data, api.get_answer(&answer));
}

#[test]
fn unicode_line_separators_escaped_everywhere() {
    const SEPARATORS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let odd = |word: &str| SEPARATORS.map(|separator| format!("{word}{separator}")).concat();
    let path = format!("/notes/{}.txt", odd("file"));
    let write = json!({ "path": path, "content": odd("content") });
    let call = Say::Call { tool: "write".to_owned(), arguments: write };
    vendor.add_script([Say::Reasoning(odd("thought")), Say::from_text(&odd("said")), call]);
    vendor.add_script([Say::Hold, Say::from_text(&odd("done"))]);
    let question = format!("{}?", odd("asked"));
    let answer = api.ask_question(&question);
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    vendor.wait_for_holds(1);
    let streams = [api.answer_events(&chat, &message, None), api.chat_events(&chat, None)];
    vendor.release_hold();
    let whole = api.wait_for_completion(&answer);
    let renamed = format!("Title {} end", odd("x").replace('\u{85}', ""));
    let target = format!("/api/v1/chats/{chat}");
    let patched = api
        .new_request("PATCH", &target)
        .with_body(json!({ "title": renamed }).to_string())
        .send(&api.address);
    assert_eq!(patched.expect_status(200).json()["title"], renamed.as_str());
    let detail = api.get_chat(&chat).expect_status(200).json();
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
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    for coding in ["zstd", "br", "gzip"] {
        vendor.add_script([Say::from_text("Half"), Say::Hold]);
        let answer = api.ask_question("Go on");
        vendor.wait_for_holds(1);
        let target = format!(
            "/api/v1/chats/{}/messages/{}/events",
            id_field(&answer, "chatId"),
            id_field(&answer, "id")
        );
        let stream = api
            .new_request("GET", &target)
            .with_header("accept-encoding", coding)
            .send_streaming(&api.address);
        assert_eq!(stream.header("content-encoding"), Some(coding));
        let read = stream.into_body().read(&mut [0; 1024]).expect("bytes come while the model is held");
        assert!(read > 0);
        vendor.release_hold();
        api.wait_for_completion(&answer);
    }
}

#[test]
fn dozens_of_readers_see_same_end() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let words: Vec<Say> = (0..200).map(|n| Say::Text(format!("word{n} "))).collect();
    vendor.add_script([vec![Say::Hold], words].concat());
    let answer = api.ask_question("Many");
    let readers: Vec<AnswerStream> = (0..24).map(|_| api.stream_answer(&answer)).collect();
    vendor.wait_for_holds(1);
    vendor.release_hold();
    let ends: Vec<Value> = readers
        .into_iter()
        .map(|events| events.remaining_events().pop().expect("a completion").data)
        .collect();
    let whole = api.get_answer(&answer);
    assert!(whole["text"].as_str().is_some_and(|text| text.trim_end().ends_with("word199")), "{whole}");
    assert!(ends.iter().all(|end| *end == whole));
}
