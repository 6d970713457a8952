//! Section 6: readers that reconnect with `Last-Event-ID`.

use e2e::api::id_field;
use e2e::{AnswerStream, Expect, Say};
use serde_json::json;

use crate::streams::{StreamFixture, find_shown_text, stream_fixture};

#[test]
fn known_state_is_not_sent_again() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("One"), Say::Hold, Say::from_text(" two."), Say::Hold]);
    let answer = api.ask_question("Count");
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    vendor.wait_for_holds(1);
    let mut events = api.stream_answer(&answer);
    let one = find_shown_text(&mut events, "One");
    drop(events);
    let mut of_answer = AnswerStream::new(api.answer_events(&chat, &message, Some(&one.id)));
    let mut of_chat = AnswerStream::new(api.chat_events(&chat, Some(&one.id)));
    vendor.release_hold();
    for events in [&mut of_answer, &mut of_chat] {
        let next = events.next_event().expect("the next state");
        assert_ne!(next.id, one.id, "not again");
        assert_eq!(next.text(), "One two.");
    }
    vendor.release_hold();
    assert_eq!(
        of_answer.remaining_events().last().map(|event| event.name.clone()).as_deref(),
        Some("completed")
    );
}

#[test]
fn resumed_reader_gets_present_state() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("One"), Say::Hold, Say::from_text(" two"), Say::Hold]);
    let answer = api.ask_question("Count");
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    let mut events = api.stream_answer(&answer);
    let one = find_shown_text(&mut events, "One");
    vendor.wait_for_holds(1);
    vendor.release_hold();
    find_shown_text(&mut events, "One two");
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
        let mut again = AnswerStream::new(api.answer_events(&chat, &message, Some(&last)));
        let present = again.next_event().expect("the present state");
        assert_eq!(present.text().trim_end(), "One two", "after {last:?}");
    }
    vendor.release_hold();
    api.wait_for_completion(&answer);
}

#[test]
fn received_completion_gets_no_content() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("One"), Say::Hold]);
    let answer = api.ask_question("Hello");
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    let mut events = api.stream_answer(&answer);
    let one = find_shown_text(&mut events, "One");
    vendor.release_hold();
    let done = events.find_event("completion", |event| event.name == "completed");
    let nothing = api.answer_events(&chat, &message, Some(&done.id)).read_whole().expect_status(204);
    assert!(nothing.body.is_empty());
    let rest = AnswerStream::new(api.answer_events(&chat, &message, Some(&one.id))).remaining_events();
    assert_eq!(rest.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), [done.id.as_str()]);
    // The conversation continues: its stream waits for newer states.
    let mut of_chat = AnswerStream::new(api.chat_events(&chat, Some(&done.id)));
    let next = api.expect_accepted(&json!({ "input": "More", "chatId": chat }));
    assert_eq!(of_chat.next_event().expect("the next answer").data["id"], next["id"]);
}

#[test]
fn event_ids_increase_across_crash() {
    let StreamFixture { vendor, api, mut service, account } = stream_fixture();
    vendor.add_script([Say::from_text("One two three"), Say::Hold]);
    let answer = api.ask_question("Count");
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    let mut events = api.stream_answer(&answer);
    let before = find_shown_text(&mut events, "One two three");
    service.kill();
    vendor.add_script([Say::from_text("One"), Say::Hold, Say::from_text(".")]);
    service.restart();
    let api = service.api_for(&account);
    vendor.wait_for_holds(1);
    let mut again = AnswerStream::new(api.answer_events(&chat, &message, Some(&before.id)));
    let after = find_shown_text(&mut again, "One");
    assert!(e2e::events::parse_version(&before.id) < e2e::events::parse_version(&after.id));
    vendor.release_hold();
    assert_eq!(again.remaining_events().last().map(|event| event.text().to_owned()).as_deref(), Some("One."));
}
