//! Event streams: section 6 of the interface.
//!
//! An event is encoded once for all its readers. The connection determines how a stream is sent: over
//! HTTP/1.1 by an [`crate::EventWriter`], otherwise as the body of its response.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use http_body::Frame;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::event_encoder::{COPIED_MAX_BYTES, EventEncoder};
use crate::flow_control::{BodyAborted, FlowControl};
use crate::limits::{HEARTBEAT, READER_IN_FLIGHT_MAX_BYTES, READER_STALL_TIMEOUT};

/// The bytes of an event in addition to its data.
const EVENT_BYTES: usize = 128;
/// The end of the first event, with the reconnection time in milliseconds.
const RETRY: &[u8] = b"retry: 1000\n\n";
/// A comment that shows that the connection is alive.
const COMMENT: &[u8] = b":\n\n";
/// The end of a chunk in HTTP/1.1.
const CHUNK_END: &[u8] = b"\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An event with a state that supersedes earlier ones. It is encoded once, as a chunk of HTTP/1.1, and shared
/// by its clones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent(Arc<[Bytes]>);

impl SseEvent {
    /// Creates an event with this name, id and one line of JSON, whose longer segments are shared and not
    /// copied.
    #[must_use]
    pub fn new(name: &str, id: &str, data: &[Bytes]) -> Self {
        let (name, id) = (one_line(name), one_line(id));
        let fields = ["event: ", &name, "\ndata: ", "\nid: ", &id, "\n\n"];
        let size = fields.iter().map(|field| field.len()).sum::<usize>()
            + data.iter().map(Bytes::len).sum::<usize>();
        let copied = data.iter().map(Bytes::len).filter(|length| *length < COPIED_MAX_BYTES);
        let mut gathered = BytesMut::with_capacity(EVENT_BYTES + copied.sum::<usize>());
        let mut pieces = Vec::with_capacity(1);
        gathered.put_slice(chunk_begin(size).as_bytes());
        for field in &fields[..3] {
            gathered.put_slice(field.as_bytes());
        }
        for segment in data {
            if segment.len() < COPIED_MAX_BYTES {
                gathered.put_slice(segment);
                continue;
            }
            if !gathered.is_empty() {
                pieces.push(gathered.split().freeze());
            }
            pieces.push(segment.clone());
        }
        for field in &fields[3..] {
            gathered.put_slice(field.as_bytes());
        }
        gathered.put_slice(CHUNK_END);
        pieces.push(gathered.freeze());
        Self(pieces.into())
    }

    /// Creates an event of several frames without names and ids, each with one line of JSON or a word.
    #[must_use]
    pub fn from_data(lines: &[impl AsRef<str>]) -> Self {
        let frames: String =
            lines.iter().map(|line| format!("data: {}\n\n", one_line(line.as_ref()))).collect();
        let begin = chunk_begin(frames.len());
        Self([Bytes::from([begin.as_bytes(), frames.as_bytes(), CHUNK_END].concat())].into())
    }

    /// Creates an event of several frames with names, each with one line of JSON, and without ids.
    #[must_use]
    pub fn from_named(frames: &[(&str, String)]) -> Self {
        let frames: String = frames
            .iter()
            .map(|(name, data)| format!("event: {}\ndata: {}\n\n", one_line(name), one_line(data)))
            .collect();
        let begin = chunk_begin(frames.len());
        Self([Bytes::from([begin.as_bytes(), frames.as_bytes(), CHUNK_END].concat())].into())
    }

    /// Creates an event from the result of [`Self::into_pieces`].
    #[must_use]
    pub fn from_pieces(pieces: Arc<[Bytes]>) -> Self {
        Self(pieces)
    }

    /// Returns its encoded pieces, for caching.
    #[must_use]
    pub fn into_pieces(self) -> Arc<[Bytes]> {
        self.0
    }

    /// Returns its pieces as the first event of a stream, without the chunk framing.
    fn first_event_pieces(&self) -> Vec<Bytes> {
        let mut pieces: Vec<_> = self.unframed_pieces().collect();
        if let Some(last) = pieces.last_mut() {
            // The final empty line follows the reconnection time.
            last.truncate(last.len() - 1);
        }
        pieces.push(Bytes::from_static(RETRY));
        pieces
    }

    /// Returns its pieces without the chunk framing.
    fn unframed_pieces(&self) -> impl Iterator<Item = Bytes> {
        let last = self.0.len().saturating_sub(1);
        self.0.iter().enumerate().map(move |(at, piece)| {
            let end = if at == last { piece.len() - CHUNK_END.len() } else { piece.len() };
            let size_line =
                |piece: &Bytes| piece.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let begin = if at == 0 { size_line(piece) } else { 0 };
            piece.slice(begin..end)
        })
    }
}

fn chunk_begin(size: usize) -> String {
    format!("{size:x}\r\n")
}

/// Replaces line ends, which would end the field.
fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains(['\n', '\r', '\0']) { text.replace(['\n', '\r', '\0'], " ").into() } else { text.into() }
}

/// Creates a response of type `text/event-stream`, which ends with `events`.
///
/// The next event is polled only when the connection has sent the previous one, so `events` should return the
/// newest state when polled. A reader costs its data in flight ([`READER_IN_FLIGHT_MAX_BYTES`]) and one
/// event. A reader that takes no data for [`crate::limits::READER_STALL_TIMEOUT`] is disconnected.
///
/// The stream ends when `revoked` completes, in the middle of an event if the reader is slow to take it.
pub fn event_stream(
    events: impl Stream<Item = SseEvent> + Send + 'static,
    revoked: impl Future<Output = ()> + Send + 'static,
) -> Response {
    stream_response(events, revoked, false)
}

/// Creates a response as [`event_stream`] does, of frames with data alone: the first one has no reconnection time, because
/// programs that expect only data fail at other fields.
pub fn data_stream(
    events: impl Stream<Item = SseEvent> + Send + 'static,
    revoked: impl Future<Output = ()> + Send + 'static,
) -> Response {
    stream_response(events, revoked, true)
}

fn stream_response(
    events: impl Stream<Item = SseEvent> + Send + 'static,
    revoked: impl Future<Output = ()> + Send + 'static,
    only_data: bool,
) -> Response {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let source = EventSource {
        events: Some(Box::pin(events)),
        revoked: Some(Box::pin(revoked)),
        heartbeat,
        began: only_data,
        packed: None,
    };
    let stream_slot = StreamSlot(Arc::new(Mutex::new(Some(source))));
    let body = EventBody {
        stream_slot: stream_slot.clone(),
        source: None,
        ended: false,
        pieces: VecDeque::new(),
        flow_control: FlowControl::new(READER_STALL_TIMEOUT, READER_IN_FLIGHT_MAX_BYTES),
    };
    let mut response = Response::new(Body::new(body));
    response.extensions_mut().insert(stream_slot);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Holds a response's source until it is sent.
#[derive(Clone)]
pub(crate) struct StreamSlot(Arc<Mutex<Option<EventSource>>>);

impl StreamSlot {
    /// Takes the source for sending.
    pub(crate) fn take_source(&self) -> Option<EventSource> {
        self.lock_source().take()
    }

    /// Enables compression of the source.
    pub(crate) fn enable_compression(&self, packed: EventEncoder) {
        if let Some(source) = &mut *self.lock_source() {
            source.packed = Some(Box::new(packed));
        }
    }

    fn lock_source(&self) -> MutexGuard<'_, Option<EventSource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The framing of the pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventFraming {
    /// Chunks of HTTP/1.1, including the final one.
    Chunks,
    Plain,
}

/// The source of a stream: events, with comments in between, optionally compressed.
pub(crate) struct EventSource {
    /// `None` once they have ended, so that they are not polled again.
    events: Option<Pin<Box<dyn Stream<Item = SseEvent> + Send>>>,
    /// `None` once the reader may no longer read.
    revoked: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    heartbeat: Interval,
    /// True once the event that has the reconnection time was sent.
    began: bool,
    packed: Option<Box<EventEncoder>>,
}

impl EventSource {
    /// Appends the next data to `pieces`; returns false at the end. Must be called again only once all of it
    /// is sent.
    pub(crate) fn poll_pieces(
        &mut self,
        framing: EventFraming,
        pieces: &mut VecDeque<Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BoxError>> {
        if self.packed.is_some() {
            return self.poll_packed(framing, pieces, context);
        }
        let Some(event) = ready!(self.poll_event(context)) else {
            if framing == EventFraming::Chunks {
                pieces.push_back(Bytes::from_static(LAST_CHUNK));
            }
            return Poll::Ready(Ok(false));
        };
        match event {
            None => push_framed(framing, [Bytes::from_static(COMMENT)].into(), pieces),
            Some(event) if self.is_first_event() => push_framed(framing, event.first_event_pieces(), pieces),
            Some(event) if framing == EventFraming::Chunks => pieces.extend(event.0.iter().cloned()),
            Some(event) => pieces.extend(event.unframed_pieces()),
        }
        Poll::Ready(Ok(true))
    }

    fn poll_packed(
        &mut self,
        framing: EventFraming,
        pieces: &mut VecDeque<Bytes>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, BoxError>> {
        loop {
            if let Some(packed) = &mut self.packed
                && let Some(output) = packed.next_output()?
            {
                push_framed(framing, vec![output], pieces);
                return Poll::Ready(Ok(true));
            }
            let event = ready!(self.poll_event(context));
            let begins = matches!(event, Some(Some(_))) && self.is_first_event();
            let Some(packed) = &mut self.packed else { return Poll::Ready(Ok(false)) };
            match event {
                Some(Some(event)) if begins => packed.push_event(event.first_event_pieces()),
                Some(Some(event)) => packed.push_event(event.unframed_pieces()),
                Some(None) => packed.push_event([Bytes::from_static(COMMENT)]),
                None => {
                    let rest =
                        self.packed.take().map_or_else(|| Ok(Bytes::new()), |packed| packed.finish())?;
                    push_framed(framing, vec![rest], pieces);
                    if framing == EventFraming::Chunks {
                        pieces.push_back(Bytes::from_static(LAST_CHUNK));
                    }
                    return Poll::Ready(Ok(false));
                }
            }
        }
    }

    /// Returns true once the reader may no longer read; wakes the task when that changes.
    pub(crate) fn is_revoked(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(revoked) = &mut self.revoked
            && revoked.as_mut().poll(context).is_ready()
        {
            self.revoked = None;
        }
        self.revoked.is_none()
    }

    /// Returns `true` for the first event.
    fn is_first_event(&mut self) -> bool {
        !std::mem::replace(&mut self.began, true)
    }

    /// Returns the next event, `Some(None)` when a comment is due, or `None` at the end.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Option<SseEvent>>> {
        if self.is_revoked(context) {
            self.events = None;
        }
        let Some(events) = &mut self.events else { return Poll::Ready(None) };
        match events.as_mut().poll_next(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(Some(event))),
            Poll::Ready(None) => {
                self.events = None;
                Poll::Ready(None)
            }
            Poll::Pending => self.heartbeat.poll_tick(context).map(|_| Some(None)),
        }
    }
}

/// Appends content, framed as a chunk if required.
fn push_framed(framing: EventFraming, content: Vec<Bytes>, pieces: &mut VecDeque<Bytes>) {
    let size: usize = content.iter().map(Bytes::len).sum();
    match framing {
        // An empty chunk would be the final one.
        _ if size == 0 => {}
        EventFraming::Plain => pieces.extend(content),
        EventFraming::Chunks => {
            pieces.push_back(chunk_begin(size).into());
            pieces.extend(content);
            pieces.push_back(Bytes::from_static(CHUNK_END));
        }
    }
}

/// The body of a response that polls the stream as the connection sends it.
struct EventBody {
    stream_slot: StreamSlot,
    /// Set when polled for the first time.
    source: Option<EventSource>,
    ended: bool,
    /// Data that is not passed to the connection yet.
    pieces: VecDeque<Bytes>,
    flow_control: FlowControl,
}

impl EventBody {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        if let Some(source) = self.stream_slot.take_source() {
            self.source = Some(source);
        }
        while self.pieces.is_empty() {
            let Some(source) = self.source.as_mut().filter(|_| !self.ended) else {
                return Poll::Ready(Ok(None));
            };
            ready!(self.flow_control.poll_sent(context))?;
            self.ended = !ready!(source.poll_pieces(EventFraming::Plain, &mut self.pieces, context))?;
        }
        ready!(self.flow_control.poll_room(context))?;
        let Some(mut piece) = self.pieces.pop_front() else { return Poll::Ready(Ok(None)) };
        if piece.len() > READER_IN_FLIGHT_MAX_BYTES {
            self.pieces.push_front(piece.split_off(READER_IN_FLIGHT_MAX_BYTES));
        }
        Poll::Ready(Ok(Some(self.flow_control.wrap_piece(piece))))
    }
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let revoked =
            !self.pieces.is_empty() && self.source.as_mut().is_some_and(|source| source.is_revoked(context));
        let piece = if revoked { Err(BodyAborted.into()) } else { ready!(self.poll_piece(context)) };
        if piece.is_err() {
            self.source = None;
            self.pieces.clear();
        }
        Poll::Ready(piece.transpose().map(|piece| piece.map(Frame::data)))
    }
}
