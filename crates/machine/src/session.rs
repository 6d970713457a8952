//! A session: the calls of one answer over an HTTP/2 exchange in which both sides stream frames.

use std::convert::Infallible;

use bytes::Bytes;
use domain::turn::{ExecutorFrame, HostFrame};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use protocol::session::{EXECUTOR_FRAME_MAX_BYTES, LineReader, SESSION_PATH, host_line, read_executor_line};
use protocol::v1;
use tokio::sync::mpsc;

use crate::connection::{GuestConnection, GuestConnectionError};

/// Lines that wait to be sent in one exchange.
const LINES_WAITING_MAX: usize = 256;

/// The guest sent an invalid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the guest broke the protocol")]
pub struct ProtocolViolation;

/// The session of one answer. Its exchange begins with the first frame of the host, so that an answer without calls in
/// the machine needs no exchange. The session ends when the sender of its frames is dropped and the guest has ended
/// its side.
pub struct GuestSession {
    connection: GuestConnection,
    /// `None` once their sender was dropped.
    frames: Option<mpsc::Receiver<HostFrame>>,
    exchange: Option<SessionExchange>,
    /// For a guest of that version.
    v1: Option<v1::Translator>,
    /// A result that the translator has kept.
    kept: Option<ExecutorFrame>,
}

impl GuestSession {
    /// Creates a session that sends `frames` in order; the first one is [`HostFrame::Open`].
    #[must_use]
    pub fn new(connection: GuestConnection, frames: mpsc::Receiver<HostFrame>) -> Self {
        let v1 = (connection.protocol_version() == v1::VERSION).then(v1::Translator::default);
        Self { connection, frames: Some(frames), exchange: None, v1, kept: None }
    }

    /// Sends due frames and returns the next frame of the executor; `None` when the session or its connection
    /// has ended. Cancel safe.
    ///
    /// # Errors
    /// [`ProtocolViolation`] also ends the session.
    pub async fn next_executor_frame(&mut self) -> Result<Option<ExecutorFrame>, ProtocolViolation> {
        loop {
            if let Some(frame) = self.kept.take() {
                return Ok(Some(frame));
            }
            tokio::select! {
                biased;
                frame = next_frame(&mut self.frames) => match frame {
                    Some(frame) => {
                        if !self.send_frame(frame) {
                            return Ok(None); // the guest takes nothing
                        }
                    }
                    None => match &mut self.exchange {
                        Some(exchange) => {
                            self.frames = None;
                            exchange.lines = None;
                        }
                        None => return Ok(None),
                    },
                },
                line = next_line(&mut self.exchange) => {
                    let Some(line) = line? else { return Ok(None) };
                    let frame = match &mut self.v1 {
                        None => read_executor_line(&line).map(Some),
                        Some(v1) => v1.translate_agent_line(&line),
                    };
                    if let Some(frame) = frame.map_err(|_| ProtocolViolation)? {
                        return Ok(Some(frame));
                    }
                }
                () = self.connection.wait_until_closed(), if self.exchange.is_none() => return Ok(None),
            }
        }
    }

    /// Sends a frame and returns true on success.
    fn send_frame(&mut self, frame: HostFrame) -> bool {
        let Some(v1) = &mut self.v1 else {
            let line = host_line(&frame);
            return match &self.exchange {
                Some(exchange) => exchange.send_line(line),
                None => self.begin_exchange(SESSION_PATH, line),
            };
        };
        match v1.translate_host_frame(frame) {
            v1::TranslatorAction::None => true,
            v1::TranslatorAction::Reopen(line) => self.begin_exchange(v1::TURN_PATH, line),
            v1::TranslatorAction::Send(line) => {
                self.exchange.as_ref().is_none_or(|exchange| exchange.send_line(line))
            }
            v1::TranslatorAction::Receive(frame) => {
                self.kept = Some(frame);
                true
            }
        }
    }

    /// Begins a new exchange with this line.
    fn begin_exchange(&mut self, path: &'static str, line: Vec<u8>) -> bool {
        let exchange = SessionExchange::open_exchange(&self.connection, path);
        let sent = exchange.send_line(line);
        self.exchange = Some(exchange);
        sent
    }
}

/// One request and its response, both streams of lines.
struct SessionExchange {
    /// Lines of the request; dropped to end it.
    lines: Option<mpsc::Sender<Bytes>>,
    response: ResponseState,
    received: LineReader,
}

enum ResponseState {
    Awaited(BoxFuture<'static, Result<Response<Incoming>, GuestConnectionError>>),
    Body(Incoming),
    Ended,
}

impl SessionExchange {
    fn open_exchange(connection: &GuestConnection, path: &'static str) -> Self {
        let (lines, waiting) = mpsc::channel(LINES_WAITING_MAX);
        let waiting = stream::unfold(waiting, |mut waiting: mpsc::Receiver<Bytes>| async {
            waiting.recv().await.map(|line| (line, waiting))
        });
        let body = StreamBody::new(waiting.map(|line| Ok::<_, Infallible>(Frame::data(line))));
        let body = body.map_err(|never| match never {}).boxed_unsync();
        let request = Request::post(path).body(body).expect("a fixed path is a request");
        let connection = connection.clone();
        let response = async move { connection.send_request(request).await }.boxed();
        Self {
            lines: Some(lines),
            response: ResponseState::Awaited(response),
            received: LineReader::of_at_most(EXECUTOR_FRAME_MAX_BYTES),
        }
    }

    /// Sends a line and returns true if there was room for it.
    fn send_line(&self, line: Vec<u8>) -> bool {
        self.lines.as_ref().is_some_and(|lines| lines.try_send(line.into()).is_ok())
    }

    /// Returns the next line of the response; `None` at its end. Cancel safe.
    async fn next_line(&mut self) -> Result<Option<Vec<u8>>, ProtocolViolation> {
        loop {
            if let Some(line) = self.received.next_line().map_err(|_| ProtocolViolation)? {
                return Ok(Some(line));
            }
            match &mut self.response {
                ResponseState::Awaited(response) => match response.await {
                    Ok(response) if !response.status().is_success() => return Err(ProtocolViolation),
                    Ok(response) => self.response = ResponseState::Body(response.into_body()),
                    Err(_) => self.response = ResponseState::Ended,
                },
                ResponseState::Body(body) => match body.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(bytes) = frame.into_data() {
                            self.received.push(&bytes);
                        }
                    }
                    Some(Err(_)) | None => self.response = ResponseState::Ended,
                },
                ResponseState::Ended => return Ok(None),
            }
        }
    }
}

/// Returns the next frame of the host, or `None` at the end; later calls never return.
async fn next_frame(frames: &mut Option<mpsc::Receiver<HostFrame>>) -> Option<HostFrame> {
    match frames {
        Some(frames) => frames.recv().await,
        None => std::future::pending().await,
    }
}

async fn next_line(exchange: &mut Option<SessionExchange>) -> Result<Option<Vec<u8>>, ProtocolViolation> {
    match exchange {
        Some(exchange) => exchange.next_line().await,
        None => std::future::pending().await,
    }
}
