//! Section 5: keys depend on the licence, but running answers outlive it.

use std::time::{Duration, Instant};

use e2e::{AnswerStream, Expect, Say, ServiceOptions, poll};
use serde_json::{Value, json};

use crate::authentication::assert_rejected;
use crate::streams::{StreamFixture, find_shown_text, stream_fixture};

/// The time within which the streams of an expired licence must end: five seconds, and the delay of a busy host.
const ENDED_WITHIN: Duration = Duration::from_secs(5 + 20);

fn licence_until(stage: &StreamFixture, day: &str) {
    stage.service.run_admin_command(&["licence", "set", "--account", &stage.account.email, "--until", day]);
}

#[test]
fn ended_licence_ends_streams_not_answers() {
    let stage = stream_fixture();
    let StreamFixture { vendor, account, api, service } = &stage;
    let write = json!({ "path": "/late.txt", "content": "still written" });
    vendor.add_script([
        Say::from_text("I look."),
        Say::Hold,
        Say::Call { tool: "write".to_owned(), arguments: write },
    ]);
    vendor.add_script([Say::from_text("And it is done.")]);
    let answer = api.ask_question("Go on");
    let neighbour = service.api_for(&service.create_account());
    let theirs = neighbour
        .wait_for_completion(&neighbour.expect_accepted(&json!({ "input": "x", "model": "reader" })));
    let mut unaffected =
        AnswerStream::new(neighbour.chat_events(theirs["chatId"].as_str().expect("an id"), None));
    unaffected.next_event().expect("its present state");
    let other = api.with_key(&service.new_key(&account.email).1);
    let mut of_answer = api.stream_answer(&answer);
    let mut of_chat = AnswerStream::new(other.chat_events(answer["chatId"].as_str().expect("an id"), None));
    find_shown_text(&mut of_answer, "I look.");
    find_shown_text(&mut of_chat, "I look.");
    licence_until(&stage, "2020-01-01");
    let ended = Instant::now();
    for events in [of_answer, of_chat] {
        let remaining = events.remaining_events();
        assert!(remaining.iter().all(|event| event.name == "message"), "nothing is completed: {remaining:?}");
    }
    assert!(ended.elapsed() < ENDED_WITHIN, "{:?}", ended.elapsed());
    assert_rejected(api);
    other.get_vm().expect_rejection();
    // The next step runs and is charged without a licence.
    vendor.release_hold();
    poll::wait_until("all is settled", || (service.show_credits(account).1 == 0).then_some(()));
    licence_until(&stage, "2099-12-31");
    let whole = api.wait_for_completion(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("I look.\n\nAnd it is done."), &Value::Null));
    assert_eq!(api.download_file("/late.txt").expect_status(200).text(), "still written");
    assert_eq!(vendor.request_bodies().len(), 2, "no step is repeated");
    neighbour.wait_for_completion(
        &neighbour.expect_accepted(&json!({ "input": "y", "chatId": theirs["chatId"] })),
    );
    unaffected.find_event("the neighbour's next answer", |event| event.text() != theirs["text"]);
}

#[test]
fn key_expiry_follows_licence() {
    let service = e2e::TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let listed = || {
        let keys = service.run_admin_command(&["key", "list", "--account", &account.email]);
        keys["keys"][0].clone()
    };
    let first = listed();
    assert!(e2e::api::is_time(&first["createdAt"]), "{first}");
    assert_eq!((&first["name"], &first["lastUsedAt"]), (&Value::from("conformance"), &Value::Null));
    assert_eq!(first["expiresAt"], "2100-01-01T00:00:00.000Z", "the end of the licence's last day");
    service.run_admin_command(&["licence", "set", "--account", &account.email, "--until", "2098-06-30"]);
    assert_eq!(listed()["expiresAt"], "2098-07-01T00:00:00.000Z");
    service.api_for(&account).get_vm().expect_status(200);
    let used =
        poll::wait_until("its use is noted", || Some(listed()).filter(|key| !key["lastUsedAt"].is_null()));
    let used = used["lastUsedAt"].as_str().expect("a time");
    assert!(used.ends_with(":00.000Z"), "to the minute: {used}");
}
