//! Logs requests and their outcomes, for assertions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, header};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Limits the log; older requests are dropped.
const SEEN_MAX: usize = 10_000;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The answer is in progress.
    Open,
    Done,
    /// The script cut the connection.
    Cut,
    /// The client closed the connection.
    Closed,
    /// The request was rejected with this status.
    Refused(u16),
}

#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRequest {
    /// The request's index, from 0.
    pub number: u64,
    /// The path with its query.
    pub path: String,
    /// The header with the key: `Authorization`, `x-api-key` or `x-goog-api-key`.
    pub authorization: Option<String>,
    /// The body, or `null` when it was not JSON.
    pub body: Value,
    pub outcome: RequestOutcome,
    /// The time of the outcome, in microseconds since 1970.
    pub ended_micros: Option<u64>,
}

impl LoggedRequest {
    /// Returns the requested model.
    #[must_use]
    pub fn requested_model(&self) -> &str {
        let named = self.path.rsplit('/').next().and_then(|last| last.split_once(':'));
        named.map_or_else(|| self.body["model"].as_str().unwrap_or(""), |(model, _)| model)
    }

    pub(crate) fn to_json(&self) -> Value {
        let outcome = match self.outcome {
            RequestOutcome::Open => "open".to_owned(),
            RequestOutcome::Done => "done".to_owned(),
            RequestOutcome::Cut => "cut".to_owned(),
            RequestOutcome::Closed => "closed".to_owned(),
            RequestOutcome::Refused(status) => format!("refused {status}"),
        };
        json!({"number": self.number, "path": self.path, "authorization": self.authorization, "outcome": outcome,
            "endedMicros": self.ended_micros, "body": self.body})
    }
}

#[derive(Debug, Default)]
struct LogEntries {
    next: u64,
    seen: VecDeque<LoggedRequest>,
}

#[derive(Debug)]
pub(crate) struct RequestLog {
    entries: Mutex<LogEntries>,
    changed: watch::Sender<u64>,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self { entries: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl RequestLog {
    pub(crate) fn begin_request(&self, path: &str, headers: &HeaderMap, body: &[u8]) -> u64 {
        let keys = [header::AUTHORIZATION.as_str(), "x-api-key", "x-goog-api-key"];
        let authorization = keys.iter().find_map(|name| headers.get(*name)?.to_str().ok());
        let number = {
            let mut entries = self.lock_entries();
            let number = entries.next;
            entries.next += 1;
            if entries.seen.len() == SEEN_MAX {
                entries.seen.pop_front();
            }
            entries.seen.push_back(LoggedRequest {
                number,
                path: path.to_owned(),
                authorization: authorization.map(str::to_owned),
                body: serde_json::from_slice(body).unwrap_or_default(),
                outcome: RequestOutcome::Open,
                ended_micros: None,
            });
            number
        };
        self.changed.send_modify(|changes| *changes += 1);
        number
    }

    pub(crate) fn end_request(&self, number: u64, outcome: RequestOutcome) {
        if let Some(seen) = self.lock_entries().seen.iter_mut().find(|seen| seen.number == number) {
            seen.outcome = outcome;
            let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
            seen.ended_micros = since.and_then(|since| u64::try_from(since.as_micros()).ok());
        }
        self.changed.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn all_requests(&self) -> Vec<LoggedRequest> {
        self.lock_entries().seen.iter().cloned().collect()
    }

    pub(crate) fn clear(&self) {
        self.lock_entries().seen.clear();
    }

    pub(crate) async fn wait_until(&self, wanted: impl Fn(&[LoggedRequest]) -> bool) -> Vec<LoggedRequest> {
        let mut changes = self.changed.subscribe();
        loop {
            changes.borrow_and_update();
            let seen = self.all_requests();
            if wanted(&seen) || changes.changed().await.is_err() {
                return seen;
            }
        }
    }

    fn lock_entries(&self) -> MutexGuard<'_, LogEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer in progress. Logs that the client closed it when it is dropped before its end.
#[derive(Debug)]
pub(crate) struct RunningAnswer {
    log: Arc<RequestLog>,
    number: u64,
    outcome: RequestOutcome,
}

impl RunningAnswer {
    pub(crate) fn new(log: Arc<RequestLog>, number: u64) -> Self {
        Self { log, number, outcome: RequestOutcome::Closed }
    }

    pub(crate) fn set_outcome(&mut self, outcome: RequestOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for RunningAnswer {
    fn drop(&mut self) {
        self.log.end_request(self.number, self.outcome);
    }
}
