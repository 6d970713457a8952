//! A bounded queue from asynchronous callers to threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// Callers wait for room, threads wait for items; neither spins.
pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    work: Condvar,
    room: Semaphore,
}

struct QueueState<T> {
    waiting: VecDeque<T>,
    /// The number of items that wakes a thread.
    wanted: usize,
    closed: bool,
}

/// The error of a closed queue.
pub(crate) struct QueueClosed;

impl<T> Queue<T> {
    /// Creates a queue of at most `size_max` items.
    pub(crate) fn new(size_max: usize) -> Self {
        let state = QueueState { waiting: VecDeque::new(), wanted: 1, closed: false };
        Self { state: Mutex::new(state), work: Condvar::new(), room: Semaphore::new(size_max) }
    }

    /// Appends `item` when there is room. Cancel safe: a dropped call appends nothing.
    pub(crate) async fn push(&self, item: T) -> Result<(), QueueClosed> {
        self.room.acquire().await.map_err(|_| QueueClosed)?.forget();
        let mut state = self.lock_state();
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

    /// Waits for an item and removes it. Returns `None` only when the queue is closed and empty.
    pub(crate) fn take_next(&self) -> Option<T> {
        let mut state = self.await_work();
        let taken = state.waiting.pop_front();
        drop(state);
        self.room.add_permits(usize::from(taken.is_some()));
        taken
    }

    /// Waits for an item, then up to `max_wait` until `wanted` items are there, and removes up to `most`.
    /// Returns nothing only when the queue is closed and empty. Supports a single consumer.
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

    /// Returns the number of waiting items.
    pub(crate) fn waiting_count(&self) -> usize {
        self.lock_state().waiting.len()
    }

    /// Closes the queue to new items. Waiting items can still be taken.
    pub(crate) fn close(&self) {
        self.lock_state().closed = true;
        self.room.close();
        self.work.notify_all();
    }

    /// Waits until there is an item or the queue is closed.
    fn await_work(&self) -> MutexGuard<'_, QueueState<T>> {
        let mut state = self.lock_state();
        while state.waiting.is_empty() && !state.closed {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn lock_state(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
