//! Flow control: passes data to a connection only once the earlier data was sent.
//!
//! A connection polls a body long before the client has received the earlier data. For a stream of states
//! that supersede each other, this would create a queue of outdated states. Therefore each piece is wrapped
//! so that dropping it signals that the connection has sent it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::READER_IN_FLIGHT_MAX_PIECES;

/// The reader took no data for too long; the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client stopped reading")]
pub struct Stalled;

/// The condition under which a body is sent has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the response was aborted")]
pub struct BodyAborted;

/// The data in flight of one body.
pub(crate) struct FlowControl {
    flight: Arc<Mutex<InFlight>>,
    timeout: Duration,
    bytes_max: usize,
    /// While it waits: the deadline, and the amount sent when it was set.
    stall: Option<(Pin<Box<Sleep>>, u64)>,
}

#[derive(Default)]
struct InFlight {
    bytes: usize,
    pieces: usize,
    taken: u64,
    waker: Option<Waker>,
}

struct InFlightPiece {
    bytes: Bytes,
    flight: Arc<Mutex<InFlight>>,
}

impl FlowControl {
    /// Creates the flow control of a body with at most `bytes_max` in flight and this timeout for a stalled
    /// reader.
    pub(crate) fn new(timeout: Duration, bytes_max: usize) -> Self {
        Self { flight: Arc::default(), timeout, bytes_max, stall: None }
    }

    /// Ready when another piece may be passed on.
    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stalled>> {
        let bytes_max = self.bytes_max;
        self.poll_until(context, |flight| {
            flight.pieces < READER_IN_FLIGHT_MAX_PIECES && flight.bytes < bytes_max
        })
    }

    /// Ready when all pieces were sent.
    pub(crate) fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stalled>> {
        self.poll_until(context, |flight| flight.pieces == 0)
    }

    /// Wraps a piece, to track when it is sent.
    pub(crate) fn wrap_piece(&mut self, bytes: Bytes) -> Bytes {
        let mut flight = lock_flight(&self.flight);
        flight.pieces += 1;
        flight.bytes += bytes.len();
        drop(flight);
        Bytes::from_owner(InFlightPiece { bytes, flight: self.flight.clone() })
    }

    fn poll_until(
        &mut self,
        context: &mut Context<'_>,
        enough: impl Fn(&InFlight) -> bool,
    ) -> Poll<Result<(), Stalled>> {
        let mut flight = lock_flight(&self.flight);
        if enough(&flight) {
            self.stall = None;
            return Poll::Ready(Ok(()));
        }
        match &mut flight.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        let taken = flight.taken;
        drop(flight);
        let timeout = self.timeout;
        let (stall, taken_when_armed) = self.stall.get_or_insert_with(|| (Box::pin(sleep(timeout)), taken));
        if *taken_when_armed != taken {
            *taken_when_armed = taken;
            stall.as_mut().reset(Instant::now() + timeout);
        }
        stall.as_mut().poll(context).map(|()| Err(Stalled))
    }
}

impl AsRef<[u8]> for InFlightPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for InFlightPiece {
    fn drop(&mut self) {
        let mut flight = lock_flight(&self.flight);
        flight.pieces -= 1;
        flight.bytes -= self.bytes.len();
        flight.taken += 1;
        let waker = flight.waker.take();
        drop(flight);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn lock_flight(flight: &Mutex<InFlight>) -> std::sync::MutexGuard<'_, InFlight> {
    flight.lock().unwrap_or_else(PoisonError::into_inner)
}
