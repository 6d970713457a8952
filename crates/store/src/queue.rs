//! A bounded queue from async callers to threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// Callers wait for room, threads wait for work; neither spins.
pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    work: Condvar,
    room: Semaphore,
}

struct QueueState<T> {
    waiting: VecDeque<T>,
    /// How many must wait before a thread is woken.
    wanted: usize,
    closed: bool,
}

/// The queue takes nothing any more.
pub(crate) struct QueueClosed;

impl<T> Queue<T> {
    /// A queue that holds at most `size_max`.
    pub(crate) fn new(size_max: usize) -> Self {
        let state = QueueState { waiting: VecDeque::new(), wanted: 1, closed: false };
        Self { state: Mutex::new(state), work: Condvar::new(), room: Semaphore::new(size_max) }
    }

    /// Puts `item` in when there is room. Cancel safe: dropped before that, it put nothing in.
    pub(crate) async fn push(&self, item: T) -> Result<(), QueueClosed> {
        self.room.acquire().await.map_err(|_| QueueClosed)?.forget();
        let mut state = self.lock();
        if state.closed {
            return Err(QueueClosed);
        }
        state.waiting.push_back(item);
        let enough = state.waiting.len() >= state.wanted;
        drop(state);
        if enough {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits for work and takes one piece of it. `None` only when the queue is closed and done.
    pub(crate) fn take(&self) -> Option<T> {
        let mut state = self.await_work();
        let taken = state.waiting.pop_front();
        drop(state);
        self.room.add_permits(usize::from(taken.is_some()));
        taken
    }

    /// Waits for work, then up to `patience` for `wanted` pieces of it to come together, and takes up to
    /// `most`. Empty only when the queue is closed and done. For a queue with a single thread.
    pub(crate) fn take_group(&self, wanted: usize, max_wait: Duration, most: usize) -> Vec<T> {
        let mut state = self.await_work();
        let deadline = Instant::now() + max_wait;
        state.wanted = wanted.min(most);
        while state.waiting.len() < state.wanted && !state.closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.wanted = 1;
        let taken = state.waiting.len().min(most);
        let batch: Vec<T> = state.waiting.drain(..taken).collect();
        drop(state);
        self.room.add_permits(batch.len());
        batch
    }

    /// How many wait for a thread.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Takes nothing more in. What waits is still given out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.room.close();
        self.work.notify_all();
    }

    /// The state when something waits, or when nothing will any more.
    fn await_work(&self) -> MutexGuard<'_, QueueState<T>> {
        let mut state = self.lock();
        while state.waiting.is_empty() && !state.closed {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
