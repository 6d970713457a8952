//! The calls in progress that `notifications/cancelled` can name.
//!
//! In the revisions with a handshake a client cancels a request by its id. There is no session, so the id belongs to a key
//! and an address. Several clients there may use the same id: a cancellation that could mean two calls is ignored.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::KeyId;
use tokio_util::sync::CancellationToken;

use crate::request_id::RequestId;

/// The name of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallName {
    pub(crate) key: Option<KeyId>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) id: RequestId,
}

/// The calls in progress. Their number is bounded by that of requests. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RunningCalls(Arc<Mutex<HashMap<CallName, Vec<CancellationToken>>>>);

/// A call in progress, until it is dropped.
pub(crate) struct RunningCall {
    calls: RunningCalls,
    name: CallName,
    /// Cancelled by the client.
    pub(crate) cancelled: CancellationToken,
}

impl RunningCalls {
    /// Adds a call.
    pub(crate) fn add_call(&self, name: CallName) -> RunningCall {
        let cancelled = CancellationToken::new();
        self.lock_calls().entry(name.clone()).or_default().push(cancelled.clone());
        RunningCall { calls: self.clone(), name, cancelled }
    }

    /// Cancels the call of this name, unless there are several.
    pub(crate) fn cancel_call(&self, name: &CallName) {
        if let Some([only]) = self.lock_calls().get(name).map(Vec::as_slice) {
            only.cancel();
        }
    }

    fn lock_calls(&self) -> MutexGuard<'_, HashMap<CallName, Vec<CancellationToken>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        // Only this call has a clone of its token, so the cancellation marks it.
        self.cancelled.cancel();
        let mut calls = self.calls.lock_calls();
        if let Some(same) = calls.get_mut(&self.name) {
            same.retain(|token| !token.is_cancelled());
            if same.is_empty() {
                calls.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: i64) -> CallName {
        CallName { key: None, address: None, id: RequestId::Number(id) }
    }

    #[test]
    fn ambiguous_cancellation_is_ignored() {
        let calls = RunningCalls::default();
        let first = calls.add_call(name(1));
        let second = calls.add_call(name(1));
        let other = calls.add_call(name(2));
        calls.cancel_call(&name(1));
        assert!(!first.cancelled.is_cancelled() && !second.cancelled.is_cancelled());
        drop(second);
        calls.cancel_call(&name(1));
        assert!(first.cancelled.is_cancelled() && !other.cancelled.is_cancelled());
        drop((first, other));
        assert!(calls.lock_calls().is_empty());
    }
}
