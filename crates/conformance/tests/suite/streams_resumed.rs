//! Section 6: readers that reconnect with `Last-Event-ID`.

use conformance::api::id;
use conformance::{Events, Expect, Say};
use serde_json::json;

use crate::streams::{Stage, shows, stage};

#[test]
fn a_state_that_the_reader_has_is_not_sent_again() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("One"), Say::Hold, Say::text(" two."), Say::Hold]);
    let answer = api.ask("Count");
    let (chat, message) = (id(&answer, "chatId"), id(&answer, "id"));
    vendor.wait_held(1);
    let mut events = api.events_of(&answer);
    let one = shows(&mut events, "One");
    drop(events);
    let mut of_answer = Events::new(api.answer_events(&chat, &message, Some(&one.id)));
    let mut of_chat = Events::new(api.chat_events(&chat, Some(&one.id)));
    vendor.release();
    for events in [&mut of_answer, &mut of_chat] {
        let next = events.event().expect("the next state");
        assert_ne!(next.id, one.id, "not again");
        assert_eq!(next.text(), "One two.");
    }
    vendor.release();
    assert_eq!(of_answer.rest().last().map(|event| event.name.clone()).as_deref(), Some("completed"));
}

#[test]
fn a_reader_that_missed_states_gets_the_present_one() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("One"), Say::Hold, Say::text(" two"), Say::Hold]);
    let answer = api.ask("Count");
    let (chat, message) = (id(&answer, "chatId"), id(&answer, "id"));
    let mut events = api.events_of(&answer);
    let one = shows(&mut events, "One");
    vendor.wait_held(1);
    vendor.release();
    shows(&mut events, "One two");
    let known = [
        one.id.clone(),
        format!("{message}:0.0"),
        "00000000-0000-4000-8000-000000000000:1.1".to_owned(),
        format!("{message}:99999999.0"),
        format!("{message}:999999999999999999999999.1"),
        format!("{message}:-1.x"),
        message.clone(),
        "nonsense".to_owned(),
        String::new(),
    ];
    for last in known {
        let mut again = Events::new(api.answer_events(&chat, &message, Some(&last)));
        let present = again.event().expect("the present state");
        assert_eq!(present.text().trim_end(), "One two", "after {last:?}");
    }
    vendor.release();
    api.completed(&answer);
}

#[test]
fn a_completion_that_was_received_is_answered_with_nothing() {
    let Stage { vendor, api, service: _service, .. } = stage();
    vendor.will([Say::text("One"), Say::Hold]);
    let answer = api.ask("Hello");
    let (chat, message) = (id(&answer, "chatId"), id(&answer, "id"));
    let mut events = api.events_of(&answer);
    let one = shows(&mut events, "One");
    vendor.release();
    let done = events.find("completion", |event| event.name == "completed");
    let nothing = api.answer_events(&chat, &message, Some(&done.id)).whole().expect_status(204);
    assert!(nothing.body.is_empty());
    let rest = Events::new(api.answer_events(&chat, &message, Some(&one.id))).rest();
    assert_eq!(rest.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), [done.id.as_str()]);
    // The conversation continues: its stream waits for newer states.
    let mut of_chat = Events::new(api.chat_events(&chat, Some(&done.id)));
    let next = api.accepted(&json!({ "input": "More", "chatId": chat }));
    assert_eq!(of_chat.event().expect("the next answer").data["id"], next["id"]);
}

#[test]
fn an_id_from_before_a_crash_is_older_than_what_comes_after() {
    let Stage { vendor, api, mut service, account } = stage();
    vendor.will([Say::text("One two three"), Say::Hold]);
    let answer = api.ask("Count");
    let (chat, message) = (id(&answer, "chatId"), id(&answer, "id"));
    let mut events = api.events_of(&answer);
    let before = shows(&mut events, "One two three");
    service.kill();
    vendor.will([Say::text("One"), Say::Hold, Say::text(".")]);
    service.restart();
    let api = service.api(&account);
    vendor.wait_held(1);
    let mut again = Events::new(api.answer_events(&chat, &message, Some(&before.id)));
    let after = shows(&mut again, "One");
    assert!(conformance::events::version(&before.id) < conformance::events::version(&after.id));
    vendor.release();
    assert_eq!(again.rest().last().map(|event| event.text().to_owned()).as_deref(), Some("One."));
}
