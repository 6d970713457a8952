//! A bounded queue from async callers to threads.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// Callers wait for room, threads wait for work; neither spins.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    work: Condvar,
    room: Semaphore,
}

struct State<T> {
    waiting: VecDeque<T>,
    closed: bool,
}

/// The queue takes nothing any more.
pub(crate) struct Closed;

impl<T> Queue<T> {
    /// A queue that holds at most `size_max`.
    pub(crate) fn new(size_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), closed: false };
        Self { state: Mutex::new(state), work: Condvar::new(), room: Semaphore::new(size_max) }
    }

    /// Puts `item` in when there is room. Cancel safe: dropped before that, it put nothing in.
    pub(crate) async fn push(&self, item: T) -> Result<(), Closed> {
        self.room.acquire().await.map_err(|_| Closed)?.forget();
        let mut state = self.lock();
        if state.closed {
            return Err(Closed);
        }
        state.waiting.push_back(item);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Waits for work and takes up to `most` of it. Empty only when the queue is closed and done.
    pub(crate) fn take(&self, most: usize) -> Vec<T> {
        let mut state = self.lock();
        while state.waiting.is_empty() && !state.closed {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = state.waiting.len().min(most);
        let batch: Vec<T> = state.waiting.drain(..taken).collect();
        drop(state);
        self.room.add_permits(batch.len());
        batch
    }

    /// Takes nothing more in. What waits is still given out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.room.close();
        self.work.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
