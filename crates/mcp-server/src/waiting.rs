//! Waits for an answer, as a stream of events or without one.
//!
//! ```text
//!   the answer ends, the time is over, the service shuts down --> the result, in the present state; the stream ends
//!   a client of a stateless revision closes the stream ---------> the call is cancelled
//!   notifications/cancelled, in the other revisions ------------> the call is cancelled, and the stream ends without a result
//! ```
//!
//! Cancelling the call that asked stops the answer. Cancelling one that only waits does not.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use control::answers::WaitOutcome;
use futures_util::stream;
use http_common::{SseEvent, data_stream};
use live::{AnswerProgress, LiveAnswer};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::answers::{answer_output, progress_line};
use crate::output::ToolOutput;
use crate::request_id::RequestId;
use crate::running_calls::{CallName, RunningCall};
use crate::service::{CallContext, McpService};

/// The longest time to wait. Clients give a call up after a minute.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(50);
/// The time between notifications of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// A call that waits for an answer.
pub(crate) struct AnswerWait {
    pub(crate) live: Arc<LiveAnswer>,
    pub(crate) max_wait: Duration,
    /// True if the call asked the question, so that its cancellation stops the answer.
    pub(crate) owns_answer: bool,
}

/// Encodes the result of a call as a message.
type EncodeResult = fn(&CallContext, ToolOutput) -> Value;

impl AnswerWait {
    /// Waits, and returns the answer in its state then. `None` if the key became invalid.
    pub(crate) async fn wait(self, service: &McpService, call: &CallContext) -> Option<ToolOutput> {
        let waited = service.answers.wait_for_end(
            &call.principal,
            &self.live,
            self.max_wait,
            service.shutdown.cancelled(),
        );
        match waited.await {
            WaitOutcome::Show => Some(answer_output(&self.live)),
            WaitOutcome::Revoked => None,
        }
    }

    /// Streams the progress and the result.
    pub(crate) fn stream(self, service: McpService, call: CallContext, encode: EncodeResult) -> Response {
        let revoked = service.access.clone().await_revocation(call.principal.clone());
        let running = (!call.era.is_stateless()).then(|| {
            let (key, address, id) = (call.principal.key_id(), call.address, call.id.clone());
            service.running.add_call(CallName { key, address, id })
        });
        let waiting = WaitStream {
            progress: self.live.progress(),
            deadline: Instant::now() + self.max_wait,
            // The first notification is sent at once.
            next_progress: Instant::now(),
            described: None,
            sent: 0,
            has_ended: false,
            wait: self,
            service,
            call,
            running,
            encode,
        };
        let events = stream::unfold(waiting, async |mut waiting| {
            let message = waiting.next_message().await?;
            Some((SseEvent::from_data(&[message.to_string()]), waiting))
        });
        data_stream(events, revoked)
    }
}

/// The stream of a call.
struct WaitStream {
    service: McpService,
    call: CallContext,
    wait: AnswerWait,
    progress: watch::Receiver<AnswerProgress>,
    deadline: Instant,
    /// The time from which the next notification may be sent.
    next_progress: Instant,
    /// The last notification's text.
    described: Option<String>,
    /// The number of notifications.
    sent: u64,
    /// `None` in a stateless revision.
    running: Option<RunningCall>,
    has_ended: bool,
    encode: EncodeResult,
}

/// The reason why a stream goes on.
enum Wake {
    Changed,
    ProgressDue,
    Over,
    Cancelled,
}

impl WaitStream {
    /// Returns the next message; `None` at the end.
    async fn next_message(&mut self) -> Option<Value> {
        if self.has_ended {
            return None;
        }
        loop {
            if self.progress.borrow_and_update().ended {
                return Some(self.finish());
            }
            if let Some(notification) = self.describe_progress() {
                return Some(notification);
            }
            match self.wait_for_event().await {
                Wake::Changed | Wake::ProgressDue => {}
                Wake::Over => return Some(self.finish()),
                Wake::Cancelled => {
                    // Dropping the stream cancels the call.
                    return None;
                }
            }
        }
    }

    async fn wait_for_event(&mut self) -> Wake {
        let waits_for_progress = self.call.progress_token.is_some() && Instant::now() < self.next_progress;
        let cancelled = async {
            match &self.running {
                Some(running) => running.cancelled.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The sender lives as long as the answer.
            changed = self.progress.changed() => if changed.is_ok() { Wake::Changed } else { Wake::Over },
            () = sleep_until(self.next_progress), if waits_for_progress => Wake::ProgressDue,
            () = sleep_until(self.deadline) => Wake::Over,
            () = self.service.shutdown.cancelled() => Wake::Over,
            () = cancelled => Wake::Cancelled,
        }
    }

    /// Returns a notification of the progress, if it is due and there is something new.
    fn describe_progress(&mut self) -> Option<Value> {
        let token = self.call.progress_token.as_ref()?;
        if Instant::now() < self.next_progress {
            return None;
        }
        let described = self.wait.live.read_answer(progress_line);
        if self.described.as_ref() == Some(&described) {
            return None;
        }
        self.sent += 1;
        self.next_progress = Instant::now() + PROGRESS_INTERVAL;
        let notification = progress_notification(token, self.sent, &described);
        self.described = Some(described);
        Some(notification)
    }

    fn finish(&mut self) -> Value {
        self.has_ended = true;
        (self.encode)(&self.call, answer_output(&self.wait.live))
    }
}

impl Drop for WaitStream {
    fn drop(&mut self) {
        let is_cancelled = match &self.running {
            // The client may leave and collect the answer later.
            Some(running) => running.cancelled.is_cancelled(),
            None => true,
        };
        let shutdown = &self.service.shutdown;
        if self.has_ended || !self.wait.owns_answer || !is_cancelled || shutdown.is_cancelled() {
            return;
        }
        let (service, principal) = (self.service.clone(), self.call.principal.clone());
        let answer = self.wait.live.meta().answer;
        let stopping = async move {
            // The end of a key does not stop its answers.
            if service.access.is_still_valid(&principal).await {
                // The failure was logged. The answer is written to its end then.
                let _ = service.histories.stop_abandoned(&principal, answer).await;
            }
        };
        // Ends with the shutdown; the answer continues after the next start then.
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(stopping));
    }
}

fn progress_notification(token: &RequestId, progress: u64, message: &str) -> Value {
    let params = json!({ "progressToken": token.to_value(), "progress": progress, "message": message });
    json!({ "jsonrpc": "2.0", "method": mcp::PROGRESS, "params": params })
}
