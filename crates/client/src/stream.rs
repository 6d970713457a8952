//! Streams the states of an answer or a conversation, with reconnects.

use std::time::Duration;

use reqwest::header::ACCEPT;
use reqwest::{Method, Response, StatusCode};

use crate::frames::{EventFrame, EventFrameParser};
use crate::{ChatAnswer, Client, Error, next_chunk};

/// The number of connections in a row without an event or a heartbeat before the stream fails.
const ATTEMPTS_MAX: u32 = 8;
/// The wait before a second attempt, unless the service requests another; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The end of the path of a stream, after the path of its answer or conversation.
const EVENTS: &str = "/events";
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// A stream of the states of an answer, or of a conversation's answers. A state supersedes earlier ones, and
/// a slow reader gets fewer. A broken connection is resumed at the last state.
#[derive(Debug)]
pub struct States {
    client: Client,
    path: String,
    /// True if the stream ends when the answer is completed; the stream of a conversation continues.
    ends_when_completed: bool,
    connection: Option<(Response, EventFrameParser)>,
    last_event_id: Option<String>,
    /// The completed state was returned.
    is_completed: bool,
    first_wait: Duration,
    failures: u32,
    ended: bool,
}

impl States {
    pub(crate) fn new(client: Client, path: String, ends_when_completed: bool) -> Self {
        Self {
            client,
            path,
            ends_when_completed,
            connection: None,
            last_event_id: None,
            is_completed: false,
            first_wait: FIRST_WAIT,
            failures: 0,
            ended: false,
        }
    }

    /// Returns the next state; `None` after the last one. Cancel safe: a cancelled call loses no state.
    ///
    /// # Errors
    /// [`Error::Refused`] if the service rejects the stream, [`Error::StreamLost`] if it cannot be resumed,
    /// [`Error::Form`] if an event is malformed. After an error the next call tries again.
    pub async fn next(&mut self) -> Result<Option<ChatAnswer>, Error> {
        while !self.ended {
            match self.next_frame().await {
                Ok(Some(frame)) => {
                    if let Some(answer) = self.accept_frame(frame)? {
                        return Ok(Some(answer));
                    }
                }
                // The service has no newer state: the answer is complete.
                Ok(None) if self.ended && self.ends_when_completed && !self.is_completed => {
                    return self.collect_answer().await.map(Some);
                }
                // The service closed the stream: at the end of the conversation, or because it is shutting
                // down.
                Ok(None) => self.retry_or_fail().await?,
                Err(error) if error.is_passing() => self.retry_or_fail().await?,
                Err(error) => {
                    self.connection = None;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Returns the next frame and connects if necessary; `None` if the connection was closed.
    async fn next_frame(&mut self) -> Result<Option<EventFrame>, Error> {
        if self.connection.is_none() {
            let Some(response) = self.connect_stream().await? else {
                self.ended = true;
                return Ok(None);
            };
            self.connection = Some((response, EventFrameParser::default()));
        }
        let Some((response, frames)) = &mut self.connection else { return Ok(None) };
        loop {
            if let Some(frame) = frames.next_frame() {
                if let Some(millis) = frames.retry_millis() {
                    self.first_wait = Duration::from_millis(millis).min(LONGEST_WAIT);
                }
                return Ok(Some(frame));
            }
            match next_chunk(response).await? {
                Some(bytes) => frames.push(&bytes)?,
                None => return Ok(None),
            }
        }
    }

    async fn connect_stream(&self) -> Result<Option<Response>, Error> {
        let mut request =
            self.client.new_request(Method::GET, &self.path).header(ACCEPT, "text/event-stream");
        if let Some(id) = &self.last_event_id {
            request = request.header("last-event-id", id);
        }
        let answer = tokio::time::timeout(crate::SILENCE_TIMEOUT, self.client.send_checked(request)).await;
        let response = answer.map_err(|_| Error::StreamLost { attempts: 1 })??;
        Ok((response.status() != StatusCode::NO_CONTENT).then_some(response))
    }

    /// Returns the answer in its current state.
    async fn collect_answer(&mut self) -> Result<ChatAnswer, Error> {
        let path = self.path.strip_suffix(EVENTS).unwrap_or(&self.path);
        let collected = self.client.send_for_json(self.client.new_request(Method::GET, path)).await;
        self.ended = collected.is_ok();
        self.is_completed = self.ended;
        collected
    }

    fn accept_frame(&mut self, frame: EventFrame) -> Result<Option<ChatAnswer>, Error> {
        if let Some(id) = frame.id {
            self.last_event_id = Some(id);
        }
        // Unknown events are ignored.
        if !matches!(frame.event.as_str(), "message" | "completed") {
            return Ok(None);
        }
        let answer = serde_json::from_str(&frame.data).map_err(Error::Form)?;
        if self.ends_when_completed && frame.event == "completed" {
            (self.ended, self.is_completed) = (true, true);
            self.connection = None;
        }
        Ok(Some(answer))
    }

    /// Waits before the next attempt, or fails after the last one.
    async fn retry_or_fail(&mut self) -> Result<(), Error> {
        let lived = self.connection.take().is_some_and(|(_, frames)| frames.has_lived());
        if self.ended {
            return Ok(());
        }
        self.failures = if lived { 1 } else { self.failures + 1 };
        if self.failures >= ATTEMPTS_MAX {
            let attempts = std::mem::take(&mut self.failures);
            return Err(Error::StreamLost { attempts });
        }
        tokio::time::sleep(retry_delay(self.first_wait, self.failures)).await;
        Ok(())
    }
}

/// Returns the wait after this many failures.
fn retry_delay(first: Duration, failures: u32) -> Duration {
    first.saturating_mul(1_u32 << (failures.clamp(1, ATTEMPTS_MAX) - 1)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// Starts a server that answers each connection with the next response, closes it, and returns the
    /// requests.
    fn start_server(answers: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            answers
                .into_iter()
                .map(|answer| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut request = Vec::new();
                    let mut byte = [0];
                    while !request.ends_with(b"\r\n\r\n") {
                        assert_eq!(stream.read(&mut byte).unwrap(), 1, "the request was cut");
                        request.push(byte[0]);
                    }
                    stream.write_all(answer.as_bytes()).unwrap();
                    String::from_utf8(request).unwrap().to_ascii_lowercase()
                })
                .collect()
        });
        (address, thread)
    }

    fn event_response(frames: &str) -> String {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nretry: 1\n{frames}"
        )
    }

    fn event_frame(event: &str, text: &str, id: &str) -> String {
        let status = if event == "completed" { "completed" } else { "in_progress" };
        format!(
            "event: {event}\ndata: {{\"id\":\"m\",\"chatId\":\"c\",\"status\":\"{status}\",\"text\":\"{text}\"}}\nid: {id}\n\n"
        )
    }

    fn test_states(address: &str) -> States {
        let client = Client::new(address, "api-x").unwrap();
        let mut states = States::new(client, "/chats/c/messages/m/events".to_owned(), true);
        states.first_wait = Duration::from_millis(1);
        states
    }

    #[tokio::test]
    async fn broken_stream_resumes_after_last_event() {
        let (address, server) = start_server(vec![
            event_response(&event_frame("message", "one", "m:1.1")),
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
            event_response("event: message\ndata: {\"cut\n"),
            event_response(
                &(event_frame("message", "one two", "m:1.2")
                    + &event_frame("completed", "one two.", "m:1.3")),
            ),
        ]);
        let mut states = test_states(&address);
        let mut seen = Vec::new();
        while let Some(answer) = states.next().await.unwrap() {
            seen.push((answer.text.clone(), answer.is_completed()));
        }
        let expected = [("one", false), ("one two", false), ("one two.", true)];
        assert_eq!(seen, expected.map(|(text, done)| (text.to_owned(), done)));
        assert!(states.next().await.unwrap().is_none(), "the end stays the end");
        let requests = server.join().unwrap();
        assert!(!requests[0].contains("last-event-id"));
        for request in &requests[1..] {
            assert!(request.contains("last-event-id: m:1.1\r\n"), "{request}");
        }
    }

    #[tokio::test]
    async fn silent_stream_resumes_like_broken_one() {
        let idle = std::iter::repeat_n(event_response(": beat\n\n"), 2 * ATTEMPTS_MAX as usize);
        let answers = idle.chain([event_response(&event_frame("completed", "one", "m:1.1"))]).collect();
        let (address, server) = start_server(answers);
        assert_eq!(test_states(&address).next().await.unwrap().unwrap().text, "one");
        server.join().unwrap();
    }

    #[tokio::test]
    async fn stream_without_heartbeat_is_given_up() {
        let (address, server) =
            start_server(vec![event_response("event: message\ndata: {\"cut\n"); ATTEMPTS_MAX as usize]);
        let error = test_states(&address).next().await.unwrap_err();
        assert!(matches!(error, Error::StreamLost { attempts: ATTEMPTS_MAX }), "{error:?}");
        server.join().unwrap();
    }

    #[tokio::test]
    async fn answer_ended_meanwhile_is_collected() {
        let body = "{\"id\":\"m\",\"chatId\":\"c\",\"status\":\"completed\",\"text\":\"one two\"}";
        let length = body.len();
        let (address, server) = start_server(vec![
            event_response(&event_frame("message", "one", "m:1.1")),
            "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_owned(),
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"),
        ]);
        let mut states = test_states(&address);
        assert_eq!(states.next().await.unwrap().unwrap().text, "one");
        let collected = states.next().await.unwrap().unwrap();
        assert!(collected.is_completed() && collected.text == "one two", "{collected:?}");
        assert!(states.next().await.unwrap().is_none(), "the end stays the end");
        let requests = server.join().unwrap();
        assert!(requests[2].starts_with("get /api/v1/chats/c/messages/m http"), "{}", requests[2]);
    }

    #[tokio::test]
    async fn permanent_rejection_is_reported_at_once() {
        let body = "{\"code\":\"NOT_FOUND\",\"message\":\"no such answer\"}";
        let length = body.len();
        let (address, server) = start_server(vec![format!(
            "HTTP/1.1 404 Not Found\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )]);
        let error = test_states(&address).next().await.unwrap_err();
        assert_eq!((error.status(), error.code()), (Some(404), Some("NOT_FOUND")));
        assert_eq!(error.to_string(), "no such answer (404 NOT_FOUND)");
        server.join().unwrap();
    }

    #[tokio::test]
    async fn reconnection_attempts_are_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = test_states(&address).next().await.unwrap_err();
        assert!(matches!(error, Error::StreamLost { attempts: ATTEMPTS_MAX }), "{error:?}");
    }

    #[test]
    fn waits_grow_and_are_bounded() {
        let first = Duration::from_millis(500);
        assert_eq!(retry_delay(first, 1), first);
        assert_eq!(retry_delay(first, 3), Duration::from_secs(2));
        assert_eq!(retry_delay(first, u32::MAX), LONGEST_WAIT);
    }
}
