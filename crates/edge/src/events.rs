//! Event streams: section 6 of the interface.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use http_body::{Frame as BodyFrame, SizeHint};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::direct::Events;
use crate::limits::{HEARTBEAT, READER_IN_FLIGHT_MAX_BYTES};
use crate::pace::{Pace, Stalled};

/// A segment shorter than this is copied beside its neighbours; a longer one is shared.
const COPIED_MAX_BYTES: usize = 4 << 10;

/// What a frame takes besides its data.
const FRAME_BYTES: usize = 128;

/// An event of a stream: a state that supersedes the ones before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The name of the event.
    pub event: &'static str,
    /// Its id, one line.
    pub id: String,
    /// One line of JSON in segments, which are shared with other readers and never put together.
    pub data: Vec<Bytes>,
}

/// The frames as a response of type `text/event-stream`, which ends when they end.
///
/// The next frame is asked for only when the connection has sent the one before, so `frames` should give the
/// newest state whenever it is asked. A reader costs what is in flight ([`READER_IN_FLIGHT_MAX_BYTES`]) and
/// one frame; one that takes nothing for [`crate::limits::READER_STALL_TIMEOUT`] is let go.
pub fn event_stream(frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let body = EventBody {
        frames: Some(Box::pin(frames)),
        pieces: VecDeque::new(),
        pace: Pace::new(),
        heartbeat,
        began: false,
    };
    let mut response = Response::new(Body::new(body));
    response.extensions_mut().insert(Events);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

struct EventBody<S> {
    /// Nothing once they have ended: they are not asked again.
    frames: Option<Pin<Box<S>>>,
    /// What of the present frame is not handed over yet.
    pieces: VecDeque<Bytes>,
    pace: Pace,
    heartbeat: Interval,
    began: bool,
}

impl<S: Stream<Item = Frame>> EventBody<S> {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Stalled>>> {
        if self.pieces.is_empty() {
            if self.frames.is_none() {
                return Poll::Ready(None);
            }
            if let Err(stalled) = ready!(self.pace.poll_sent(context)) {
                return Poll::Ready(Some(Err(stalled)));
            }
            if ready!(self.poll_next(context)).is_none() {
                self.frames = None;
                return Poll::Ready(None);
            }
        }
        if let Err(stalled) = ready!(self.pace.poll_room(context)) {
            return Poll::Ready(Some(Err(stalled)));
        }
        let Some(mut piece) = self.pieces.pop_front() else { return Poll::Ready(None) };
        if piece.len() > READER_IN_FLIGHT_MAX_BYTES {
            self.pieces.push_front(piece.split_off(READER_IN_FLIGHT_MAX_BYTES));
        }
        Poll::Ready(Some(Ok(self.pace.wrap(piece))))
    }

    /// Takes up the next frame or the next comment.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<()>> {
        let Some(frames) = &mut self.frames else { return Poll::Ready(None) };
        match frames.as_mut().poll_next(context) {
            Poll::Ready(Some(frame)) => {
                let first = !std::mem::replace(&mut self.began, true);
                write_frame(&frame, first, &mut self.pieces);
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                ready!(self.heartbeat.poll_tick(context));
                self.pieces.push_back(Bytes::from_static(b":\n\n"));
            }
        }
        Poll::Ready(Some(()))
    }
}

impl<S: Stream<Item = Frame>> http_body::Body for EventBody<S> {
    type Data = Bytes;
    type Error = Stalled;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Stalled>>> {
        let piece = ready!(self.get_mut().poll_piece(context));
        Poll::Ready(piece.map(|piece| piece.map(BodyFrame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_none() && self.pieces.is_empty()
    }

    /// What is there already of the present frame.
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.pieces.iter().map(|piece| piece.len() as u64).sum());
        hint
    }
}

/// Writes a frame as pieces: long segments as they are, what is between them gathered.
fn write_frame(frame: &Frame, first: bool, pieces: &mut VecDeque<Bytes>) {
    let copied = frame.data.iter().map(Bytes::len).filter(|length| *length < COPIED_MAX_BYTES);
    let mut gathered = BytesMut::with_capacity(FRAME_BYTES + copied.sum::<usize>());
    let event = one_line(frame.event);
    for text in ["event: ", &event, "\ndata: "] {
        gathered.put_slice(text.as_bytes());
    }
    for segment in &frame.data {
        if segment.len() < COPIED_MAX_BYTES {
            gathered.put_slice(segment);
        } else {
            pieces.extend([gathered.split().freeze(), segment.clone()].into_iter().filter(|p| !p.is_empty()));
        }
        if gathered.len() >= READER_IN_FLIGHT_MAX_BYTES {
            pieces.push_back(gathered.split().freeze());
        }
    }
    gathered.put_slice(b"\nid: ");
    gathered.put_slice(one_line(&frame.id).as_bytes());
    gathered.put_slice(if first { b"\nretry: 1000\n\n" } else { b"\n\n" });
    pieces.push_back(gathered.freeze());
}

/// A field of a frame cannot end it.
fn one_line(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains(['\n', '\r', '\0']) { text.replace(['\n', '\r', '\0'], " ").into() } else { text.into() }
}
