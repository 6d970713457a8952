//! Writes event streams directly to their connection.
//!
//! The HTTP library keeps buffers for heads and bodies, and passes each piece of a body through all its layers. A
//! reader of an event stream waits long and receives little at a time. Therefore the connection is taken from the
//! library for the duration of the stream: it costs only its socket and its stream, and an event is one system call.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::events::{EventFraming, EventSource, StreamSlot};
use crate::flow_control::{BodyAborted, Stalled};
use crate::limits::{EARLY_MAX_BYTES, READER_STALL_TIMEOUT};
use crate::raw_head::raw_head;

/// The size of a read from the client during a stream.
const READ_BYTES: usize = 512;
/// The maximum number of pieces of one system call.
const SLICES_MAX: usize = 16;

/// Returns true if the response is an event stream that [`EventWriter`] can write.
#[must_use]
pub fn is_event_stream(response: &Response) -> bool {
    response.extensions().get::<StreamSlot>().is_some()
}

/// Writes an event stream to an HTTP/1.1 connection, chunk by chunk.
///
/// Returns the connection for its next request, with the data that the client sent in the meantime (at most
/// `EARLY_MAX_BYTES`; the rest is still unread). Fails when the connection breaks, or when the reader takes nothing
/// for [`READER_STALL_TIMEOUT`], or is still taking an event when it may no longer read.
#[must_use = "a future does nothing unless polled"]
pub struct EventWriter<C> {
    connection: Option<C>,
    early: BytesMut,
    /// True to read more data from the client.
    listening: bool,
    source: Option<EventSource>,
    ended: bool,
    /// The data that is not written yet.
    queue: VecDeque<Bytes>,
    /// The timeout of the reader, while output is pending.
    stall: Option<Pin<Box<Sleep>>>,
}

impl<C> EventWriter<C> {
    /// Creates a writer of `response`; `early` was already read from the client. If it is the `last` response, its
    /// head says so.
    pub fn new(connection: C, early: Bytes, response: Response, last: bool) -> Self {
        let (mut parts, _) = response.into_parts();
        parts.headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        Self {
            connection: Some(connection),
            early: early.into(),
            listening: true,
            source: parts.extensions.get().and_then(StreamSlot::take_source),
            ended: false,
            queue: VecDeque::from([raw_head(parts, last)]),
            stall: None,
        }
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> EventWriter<C> {
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.read_early_data(context)?;
            let sent = self.poll_sent(context)?;
            let Some(source) = self.source.as_mut() else { return sent.map(Ok) };
            if sent.is_pending() && source.is_revoked(context) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, BodyAborted)));
            }
            ready!(sent);
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            let more = ready!(source.poll_pieces(EventFraming::Chunks, &mut self.queue, context));
            self.ended = !more.map_err(io::Error::other)?;
        }
    }

    /// Ready when all data is written.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(())) };
        let mut connection = Pin::new(connection);
        while !self.queue.is_empty() {
            let Poll::Ready(sent) = poll_write(connection.as_mut(), &self.queue, context) else {
                return self.poll_stalled(context);
            };
            match sent? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => drop_written(&mut self.queue, sent),
            }
            self.stall = None;
        }
        if connection.poll_flush(context)?.is_pending() {
            return self.poll_stalled(context);
        }
        self.stall = None;
        Poll::Ready(Ok(()))
    }

    /// Fails when the reader takes nothing for too long.
    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(READER_STALL_TIMEOUT)));
        stall.as_mut().poll(context).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, Stalled)))
    }

    /// Reads what the client sends, and detects a broken connection. A client that has closed its side may still
    /// read.
    fn read_early_data(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        while self.listening {
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            if Pin::new(&mut *connection).poll_read(context, &mut read)?.is_pending() {
                break;
            }
            self.early.extend_from_slice(read.filled());
            self.listening = !read.filled().is_empty() && self.early.len() < EARLY_MAX_BYTES;
        }
        Ok(())
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> Future for EventWriter<C> {
    type Output = io::Result<(C, Bytes)>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.poll_written(context))?;
        let early = std::mem::take(&mut self.early).freeze();
        let connection = self.connection.take().ok_or(io::ErrorKind::NotConnected)?;
        Poll::Ready(Ok((connection, early)))
    }
}

/// Writes the bytes that the connection accepts at once.
fn poll_write(
    connection: Pin<&mut impl AsyncWrite>,
    queue: &VecDeque<Bytes>,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if let (Some(only), 1) = (queue.front(), queue.len()) {
        return connection.poll_write(context, only);
    }
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    for (slice, piece) in slices.iter_mut().zip(queue) {
        *slice = IoSlice::new(piece);
    }
    connection.poll_write_vectored(context, &slices[..queue.len().min(SLICES_MAX)])
}

/// Removes data that was written.
fn drop_written(queue: &mut VecDeque<Bytes>, mut sent: usize) {
    while let Some(piece) = queue.front_mut() {
        if sent < piece.len() {
            piece.advance(sent);
            return;
        }
        sent -= piece.len();
        queue.pop_front();
    }
}
