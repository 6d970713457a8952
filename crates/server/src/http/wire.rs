//! The byte stream of a connection, with its timeouts.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::Bytes;
use bytes::Buf;
use http_common::limits::HEAD_COUNTED_BYTES;
use http_common::{Budget, BudgetHolder, BudgetShare};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::activity::ConnectionActivity;

/// A connection with the bytes that were read before, and its stall timeout: it fails when its client does not take
/// pending output in time.
pub(super) struct BufferedConnection<C> {
    connection: C,
    early: Bytes,
    activity: Arc<ConnectionActivity>,
    stall_timeout: Duration,
    /// The timeout, while output is pending.
    stall: Option<Pin<Box<Sleep>>>,
    /// True to stop reading while output is pending. HTTP/1.1 requests are served one after another, and a client
    /// might never read the responses.
    in_turn: bool,
    /// The reader that waits until all output is written.
    reader: Option<Waker>,
    heads: PartialHead,
}

/// The bytes of an incomplete request head.
pub(super) struct PartialHead {
    budget: Arc<Budget>,
    holder: BudgetHolder,
    /// The number of requests that had begun when its first bytes arrived.
    begun: u64,
    bytes: usize,
    lines: usize,
    /// The lines after which no data is passed on, because a connection with a larger buffer must serve them.
    lines_max: usize,
    held: Option<BudgetShare>,
}

impl PartialHead {
    /// Counts the heads of this holder's connection in the budget.
    pub(super) fn new(budget: Arc<Budget>, holder: BudgetHolder, lines_max: usize) -> Self {
        Self { budget, holder, begun: 0, bytes: 0, lines: 0, lines_max, held: None }
    }

    /// Counts received bytes and returns true if they may be passed on. Fails when too many connections have long
    /// incomplete heads.
    fn count_received(&mut self, bytes: &[u8], activity: &ConnectionActivity) -> io::Result<bool> {
        let begun = activity.begun.load(Ordering::Relaxed);
        if begun != self.begun || activity.under_way.load(Ordering::Relaxed) > 0 {
            (self.begun, self.bytes, self.lines, self.held) = (begun, 0, 0, None);
        }
        self.bytes += bytes.len();
        if self.bytes > HEAD_COUNTED_BYTES && self.held.is_none() {
            self.held = Some(self.budget.take_share(self.holder, 1).map_err(io::Error::other)?);
        }
        if self.lines_max == usize::MAX || activity.under_way.load(Ordering::Relaxed) > 0 {
            return Ok(true);
        }
        self.lines += count_lines(bytes);
        Ok(self.lines <= self.lines_max)
    }
}

/// Returns the number of lines that end in these bytes.
pub(super) fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

impl<C> BufferedConnection<C> {
    pub(super) fn new(
        connection: C,
        early: Bytes,
        activity: Arc<ConnectionActivity>,
        stall_timeout: Duration,
        in_turn: bool,
        mut heads: PartialHead,
    ) -> Self {
        heads.lines = count_lines(&early);
        Self { connection, early, activity, stall_timeout, stall: None, in_turn, reader: None, heads }
    }

    /// Returns the connection and the bytes that were read too early.
    pub(super) fn into_parts(self) -> (C, Bytes) {
        (self.connection, self.early)
    }

    fn apply_stall_timeout<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        self.activity.clogged.store(true, Ordering::Relaxed);
        let timeout = self.stall_timeout;
        let stall = self.stall.get_or_insert_with(|| Box::pin(sleep(timeout)));
        stall
            .as_mut()
            .poll(context)
            .map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, http_common::Stalled)))
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for BufferedConnection<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Received bytes are left to the connection that takes over: a head parsed here would be lost with its
        // response.
        if self.activity.crowded.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        if self.in_turn && self.activity.clogged.load(Ordering::Relaxed) {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        if self.early.is_empty() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.connection).poll_read(context, buffer))?;
            let this = &mut *self;
            let handed_on = this.heads.count_received(&buffer.filled()[before..], &this.activity)?;
            if !handed_on {
                this.early = Bytes::copy_from_slice(&buffer.filled()[before..]);
                buffer.set_filled(before);
                this.activity.crowded.store(true, Ordering::Relaxed);
                return Poll::Pending;
            }
            return Poll::Ready(Ok(()));
        }
        let length = self.early.len().min(buffer.remaining());
        buffer.put_slice(&self.early[..length]);
        self.early.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for BufferedConnection<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write(context, bytes);
        self.apply_stall_timeout(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.connection).poll_write_vectored(context, slices);
        self.apply_stall_timeout(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    /// Wakes the reader when all output is written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.connection).poll_flush(context);
        if flushed.is_ready() {
            self.activity.clogged.store(false, Ordering::Relaxed);
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
        self.apply_stall_timeout(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http_common::BudgetBounds;

    use super::*;

    #[tokio::test]
    async fn excess_lines_pass_to_crowded_connection() {
        let activity = Arc::new(ConnectionActivity::default());
        let holder = BudgetHolder::Address([192, 0, 2, 1].into());
        let heads = PartialHead::new(Budget::new(BudgetBounds { each: 1, all: 1 }), holder, 2);
        let sent: &[u8] = b"GET / HTTP/1.1\r\na: b\r\nc: d\r\n\r\n";
        let timeout = Duration::from_secs(60);
        let mut wire = BufferedConnection::new(sent, Bytes::new(), activity.clone(), timeout, true, heads);
        // The HTTP library may read again before it returns the connection.
        for _ in 0..2 {
            let mut memory = [0; 64];
            let mut buffer = ReadBuf::new(&mut memory);
            let polled = poll_fn(|context| Poll::Ready(Pin::new(&mut wire).poll_read(context, &mut buffer)));
            assert!(polled.await.is_pending());
            assert!(buffer.filled().is_empty());
        }
        assert!(activity.crowded.load(Ordering::Relaxed));
        assert_eq!(wire.into_parts().1, sent);
    }
}
