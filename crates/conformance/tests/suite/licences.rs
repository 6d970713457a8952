//! Section 5: keys depend on the licence, but running answers outlive it.

use std::time::{Duration, Instant};

use conformance::{Events, Expect, Options, Say, poll};
use serde_json::{Value, json};

use crate::authentication::assert_rejected;
use crate::streams::{Stage, shows, stage};

/// The time within which the streams of an expired licence must end: five seconds, and what a busy host adds.
const ENDED_WITHIN: Duration = Duration::from_secs(5 + 20);

fn licence_until(stage: &Stage, day: &str) {
    stage.service.admin(&["licence", "set", "--account", &stage.account.email, "--until", day]);
}

#[test]
fn a_licence_that_ends_ends_the_streams_of_all_its_keys_and_nothing_that_is_under_way() {
    let stage = stage();
    let Stage { vendor, account, api, service } = &stage;
    let write = json!({ "path": "/late.txt", "content": "written all the same" });
    vendor.will([Say::text("I look."), Say::Hold, Say::Call { tool: "write".to_owned(), arguments: write }]);
    vendor.will([Say::text("And it is done.")]);
    let answer = api.ask("Go on");
    let neighbour = service.api(&service.account());
    let theirs = neighbour.completed(&neighbour.accepted(&json!({ "input": "x", "model": "reader" })));
    let mut unaffected = Events::new(neighbour.chat_events(theirs["chatId"].as_str().expect("an id"), None));
    unaffected.event().expect("its present state");
    let other = api.with_key(&service.new_key(&account.email).1);
    let mut of_answer = api.events_of(&answer);
    let mut of_chat = Events::new(other.chat_events(answer["chatId"].as_str().expect("an id"), None));
    shows(&mut of_answer, "I look.");
    shows(&mut of_chat, "I look.");
    licence_until(&stage, "2020-01-01");
    let ended = Instant::now();
    for events in [of_answer, of_chat] {
        let remaining = events.rest();
        assert!(remaining.iter().all(|event| event.name == "message"), "nothing is completed: {remaining:?}");
    }
    assert!(ended.elapsed() < ENDED_WITHIN, "{:?}", ended.elapsed());
    assert_rejected(api);
    other.vm().expect_rejection();
    // The next step runs and is charged without a licence.
    vendor.release();
    poll::until("all is settled", || (service.credits(account).1 == 0).then_some(()));
    licence_until(&stage, "2099-12-31");
    let whole = api.completed(&answer);
    assert_eq!((&whole["text"], &whole["error"]), (&Value::from("I look.\n\nAnd it is done."), &Value::Null));
    assert_eq!(api.download("/late.txt").expect_status(200).text(), "written all the same");
    assert_eq!(vendor.requests().len(), 2, "no step is repeated");
    neighbour.completed(&neighbour.accepted(&json!({ "input": "y", "chatId": theirs["chatId"] })));
    unaffected.find("the neighbour's next answer", |event| event.text() != theirs["text"]);
}

#[test]
fn a_key_lives_as_long_as_the_licence_and_moves_with_it() {
    let service = conformance::Service::start(Options::default());
    let account = service.account();
    let listed = || {
        let keys = service.admin(&["key", "list", "--account", &account.email]);
        keys["keys"][0].clone()
    };
    let first = listed();
    assert!(conformance::api::is_time(&first["createdAt"]), "{first}");
    assert_eq!((&first["name"], &first["lastUsedAt"]), (&Value::from("conformance"), &Value::Null));
    assert_eq!(first["expiresAt"], "2100-01-01T00:00:00.000Z", "the end of the licence's last day");
    service.admin(&["licence", "set", "--account", &account.email, "--until", "2098-06-30"]);
    assert_eq!(listed()["expiresAt"], "2098-07-01T00:00:00.000Z");
    service.api(&account).vm().expect_status(200);
    let used = poll::until("its use is noted", || Some(listed()).filter(|key| !key["lastUsedAt"].is_null()));
    let used = used["lastUsedAt"].as_str().expect("a time");
    assert!(used.ends_with(":00.000Z"), "to the minute: {used}");
}
