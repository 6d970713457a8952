//! Section 6: event streams, as far as they can be checked without controlling the answer's progress.

use std::io::Read;

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect, builtin_reader_id, encode_path, id_field, uploaded_path};
use crate::events::{AnswerStream, parse_version};

pub(super) const CASES: &[Case] = cases![
    Answers:
    an_answer_is_streamed_to_its_end,
    the_end_arrives_in_every_coding,
    last_event_ids_of_every_kind_are_answered,
    a_conversation_is_watched_through_its_answers,
    frames_are_of_the_promised_form;
    Directly:
    a_reader_that_has_said_all_still_gets_its_stream,
    requests_before_and_after_a_stream_are_answered_in_their_order,
    a_stream_to_a_client_of_http_1_0_ends_with_its_connection,
    readers_that_take_nothing_hold_up_nobody;
];

fn ask_builtin_reader(api: &Api) -> Value {
    api.expect_accepted(&json!({ "input": "What is said of rent?", "model": builtin_reader_id(api) }))
}

fn events_target(answer: &Value) -> String {
    format!("/api/v1/chats/{}/messages/{}/events", id_field(answer, "chatId"), id_field(answer, "id"))
}

fn an_answer_is_streamed_to_its_end(api: &Api) {
    let answer = ask_builtin_reader(api);
    let events = api.stream_answer(&answer).remaining_events();
    let (last, before) = events.split_last().expect("a completion");
    assert_eq!(last.name, "completed");
    assert!(before.iter().all(|event| event.name == "message" && event.data["status"] == "in_progress"));
    let versions: Vec<_> = events.iter().map(|event| parse_version(&event.id)).collect();
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    assert_eq!(last.data, api.get_answer(&answer));
    for event in &events {
        for field in ["id", "chatId", "createdAt", "model"] {
            assert_eq!(event.data[field], answer[field], "{field}");
        }
    }
    assert_eq!(events[0].retry.as_deref(), Some("1000"));
    let late = api.stream_answer(&answer).remaining_events();
    assert_eq!(late.iter().map(|event| event.name.as_str()).collect::<Vec<_>>(), ["completed"]);
}

fn the_end_arrives_in_every_coding(api: &Api) {
    for (accepted, coding) in [
        ("zstd", Some("zstd")),
        ("br", Some("br")),
        ("gzip", Some("gzip")),
        ("gzip;q=0.1, br;q=0.5", Some("br")),
        ("identity", None),
        ("zstd;q=0, gzip;q=0", None),
        ("nonsense", None),
    ] {
        let answer = ask_builtin_reader(api);
        let stream = api
            .new_request("GET", &events_target(&answer))
            .with_header("accept-encoding", accepted)
            .send_streaming(&api.address);
        assert_eq!(stream.header("content-encoding"), coding, "{accepted}");
        let last = AnswerStream::new(stream).remaining_events().pop().expect("a completion");
        assert_eq!((last.name.as_str(), last.data), ("completed", api.get_answer(&answer)), "{accepted}");
    }
}

fn last_event_ids_of_every_kind_are_answered(api: &Api) {
    let answer = api.wait_for_completion(&ask_builtin_reader(api));
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    let done = api.stream_answer(&answer).remaining_events().pop().expect("a completion").id;
    let nothing = api.answer_events(&chat, &message, Some(&done)).read_whole().expect_status(204);
    assert!(nothing.body.is_empty());
    let other = ask_builtin_reader(api);
    let (epoch, revision) = parse_version(&done);
    for unknown in [
        "",
        "nonsense",
        "0",
        ":",
        &message,
        &format!("{message}:"),
        &format!("{message}:{epoch}"),
        &format!("{message}:{epoch}.{}", revision + 1),
        &format!("{message}:{}.{revision}", epoch + 7),
        &format!("{message}:-1.-1"),
        &format!("{message}:99999999999999999999.0"),
        &format!("{}:{epoch}.{revision}", id_field(&other, "id")),
        &"x".repeat(5000),
        "žluťoučký",
    ] {
        let events = AnswerStream::new(api.answer_events(&chat, &message, Some(unknown))).remaining_events();
        assert_eq!(events.len(), 1, "after {unknown:?}");
        assert_eq!((events[0].name.as_str(), &events[0].data), ("completed", &answer), "after {unknown:?}");
    }
    api.wait_for_completion(&other);
}

fn a_conversation_is_watched_through_its_answers(api: &Api) {
    let first = api.wait_for_completion(&ask_builtin_reader(api));
    let chat = id_field(&first, "chatId");
    let mut events = AnswerStream::new(api.chat_events(&chat, None));
    let present = events.next_event().expect("the present state");
    assert_eq!((present.name.as_str(), &present.data), ("completed", &first));
    let mut resumed = AnswerStream::new(api.chat_events(&chat, Some(&present.id)));
    for input in ["Two", "Three"] {
        let next = api.expect_accepted(&json!({ "input": input, "chatId": chat }));
        for stream in [&mut events, &mut resumed] {
            let done =
                stream.find_event(input, |event| event.name == "completed" && event.data["id"] == next["id"]);
            assert_eq!(done.data, api.wait_for_completion(&next));
        }
    }
    api.delete_chat(&chat).expect_status(204);
    for mut stream in [events, resumed] {
        while stream.next_event().is_some() {}
    }
}

fn frames_are_of_the_promised_form(api: &Api) {
    let answer = api.wait_for_completion(&ask_builtin_reader(api));
    let stream = api.answer_events(&id_field(&answer, "chatId"), &id_field(&answer, "id"), None);
    let mut text = String::new();
    stream.into_body().read_to_string(&mut text).expect("text");
    let lines: Vec<&str> = text.split('\n').collect();
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("event: ")).collect::<Vec<_>>(),
        [&"event: completed"]
    );
    let data = lines.iter().find_map(|line| line.strip_prefix("data: ")).expect("data");
    assert_eq!(serde_json::from_str::<Value>(data).expect("JSON"), answer, "on one line");
    assert!(
        lines.iter().any(|line| line.starts_with(&format!("id: {}:", id_field(&answer, "id")))),
        "{text}"
    );
    assert!(lines.contains(&"retry: 1000") && text.ends_with("\n\n") && !text.contains('\r'), "{text}");
}

fn a_reader_that_has_said_all_still_gets_its_stream(api: &Api) {
    let answer = ask_builtin_reader(api);
    let mut connection = crate::RawConnection::connect(&api.address).expect("a connection");
    assert!(
        connection.write_bytes(get_request_head(api, &events_target(&answer), "HTTP/1.1", "").as_bytes())
    );
    connection.end_writing();
    let whole = connection.read_response("GET").expect("the stream to its end").expect_status(200).text();
    assert!(whole.contains("event: completed"), "{whole}");
}

/// Formats the head of a request with further header lines.
fn get_request_head(api: &Api, target: &str, version: &str, lines: &str) -> String {
    let (prefix, host, key) = (api.address.path_prefix(), &api.address, &api.key);
    format!("GET {prefix}{target} {version}\r\nhost: {host}\r\nx-api-key: {key}\r\n{lines}\r\n")
}

/// More than the buffers of a connection hold.
const DOWNLOAD_BYTES: usize = 16 << 20;

fn requests_before_and_after_a_stream_are_answered_in_their_order(api: &Api) {
    let answer = api.wait_for_completion(&ask_builtin_reader(api));
    let content: Vec<u8> = (0..DOWNLOAD_BYTES).map(|at| (at / 1000 % 251) as u8).collect();
    let path = uploaded_path(api.upload_file("long.bin", &content));
    let stream = events_target(&answer);
    let mut connection = crate::RawConnection::connect(&api.address).expect("a connection");
    for (target, lines) in [
        (format!("/api/v1/files{}", encode_path(&path)).as_str(), ""),
        (&stream, ""),
        ("/api/v1/vm", ""),
        (&stream, "connection: keep-alive\r\n"),
        (&stream, "connection: close\r\n"),
    ] {
        assert!(connection.write_bytes(get_request_head(api, target, "HTTP/1.1", lines).as_bytes()));
    }
    let mut next = || connection.read_response("GET").expect("an answer").expect_status(200);
    assert!(next().body == content, "the download before a stream is whole");
    assert!(next().text().contains("event: completed"));
    assert_eq!(next().json()["id"], api.get_vm().json()["id"]);
    for _ in 0..2 {
        assert!(next().text().contains("event: completed"));
    }
    assert!(connection.is_closed());
}

fn a_stream_to_a_client_of_http_1_0_ends_with_its_connection(api: &Api) {
    let answer = api.wait_for_completion(&ask_builtin_reader(api));
    let mut connection = crate::RawConnection::connect(&api.address).expect("a connection");
    assert!(
        connection.write_bytes(get_request_head(api, &events_target(&answer), "HTTP/1.0", "").as_bytes())
    );
    let response = String::from_utf8(connection.read_rest()).expect("text");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.0 200 ") && !head.contains("transfer-encoding"), "{head}");
    assert!(body.contains("event: completed") && body.ends_with("\n\n"), "{body}");
}

fn readers_that_take_nothing_hold_up_nobody(api: &Api) {
    let answer = ask_builtin_reader(api);
    let chat = id_field(&answer, "chatId");
    let idle: Vec<_> = (0..64).map(|_| api.chat_events(&chat, None)).collect();
    assert!(idle.iter().all(|stream| stream.status == 200));
    let whole = api.wait_for_completion(&answer);
    assert_eq!(api.stream_answer(&answer).remaining_events().pop().map(|event| event.data), Some(whole));
    for stream in idle {
        assert!(AnswerStream::new(stream).next_event().is_some(), "and they may still read");
    }
}
