//! A reader of an answer's stream that reconnects with `Last-Event-ID` whenever the stream breaks.

use std::io::{self, BufRead, BufReader};
use std::time::Instant;

use e2e::events::parse_version;
use e2e::http::HttpBodyReader;
use e2e::poll::{self, TIMEOUT};
use serde_json::Value;

use crate::asker::Caller;
use crate::random::Random;

/// The number of states after which a reader disconnects and reconnects.
const STATES_TAKEN: std::ops::Range<u64> = 5..80;

/// The result of following an answer.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// The number of reconnections.
    pub(crate) reconnects: u64,
    /// The number of states received.
    pub(crate) states: u64,
    /// The answer in the last event.
    pub(crate) completed: Value,
}

/// Follows an answer to its completion and checks the order of its states.
pub(crate) fn follow_answer(caller: &Caller, answer: &Value, random: &mut Random) -> Followed {
    let (chat, message) = (answer["chatId"].as_str().expect("a chat"), answer["id"].as_str().expect("an id"));
    let target = format!("/api/v1/chats/{chat}/messages/{message}/events");
    let mut followed = Followed::default();
    let mut last: Option<String> = None;
    let until = Instant::now() + TIMEOUT;
    poll::wait_until("the answer's stream comes to its end", || {
        let mut request = caller.new_request("GET", &target).with_header("accept", "text/event-stream");
        if let Some(last) = &last {
            request = request.with_header("last-event-id", last);
        }
        let stream = request.try_send_streaming(caller.address).ok()?;
        if stream.status == 503 {
            return None;
        }
        assert_eq!(stream.status, 200, "the stream of an accepted answer opens, last seen {last:?}");
        followed.reconnects += 1;
        let mut lines = BufReader::new(stream.into_body());
        for _ in 0..random.next_in_range(STATES_TAKEN) {
            let event = read_event(&mut lines, until).ok()?;
            assert_eq!(event.data["id"], answer["id"], "a stream contains only its answer");
            if let Some(last) = &last {
                assert!(
                    parse_version(last) < parse_version(&event.id),
                    "a state came after a newer one: {} after {last}",
                    event.id
                );
            }
            followed.states += 1;
            last = Some(event.id);
            if event.name == "completed" {
                assert_eq!(event.data["status"], "completed");
                followed.completed = event.data;
                return Some(());
            }
            assert_eq!(event.data["status"], "in_progress");
        }
        None
    });
    followed.reconnects -= 1;
    followed
}

struct FollowedEvent {
    name: String,
    id: String,
    data: Value,
}

/// Reads the next complete event; an error if the stream breaks or ends first. Bounded in time, because
/// comments keep a stream open.
fn read_event(lines: &mut BufReader<HttpBodyReader>, until: Instant) -> io::Result<FollowedEvent> {
    let (mut name, mut id, mut data) = (None, None, None);
    loop {
        assert!(Instant::now() < until, "an accepted answer does not go on");
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(": ") {
            Some(("event", value)) => name = Some(value.to_owned()),
            Some(("id", value)) => id = Some(value.to_owned()),
            Some(("data", value)) => data = Some(value.to_owned()),
            _ => {}
        }
        if line.trim_end().is_empty()
            && let (Some(name), Some(id), Some(data)) = (name.take(), id.take(), data.take())
        {
            let data = serde_json::from_str(&data).expect("data is JSON");
            return Ok(FollowedEvent { name, id, data });
        }
    }
}
