//! Calls that run on the host beside their turn: each is a task that returns with `ToolReturned`.

use std::collections::HashMap;
use std::time::Duration;

use domain::step::StepOutcome;
use domain::turn::CallOutput;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::control_signal::{self, ControlSignal, ControlSignals};

/// The time in which subagents end with their answer.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The calls of one turn that run on the host.
#[derive(Default)]
pub(super) struct RunningCalls(HashMap<String, LocalCall>);

struct LocalCall {
    task: AbortOnDropHandle<()>,
    signals: Option<watch::Sender<ControlSignals>>,
}

impl RunningCalls {
    /// Runs a call that is aborted when it is dropped.
    pub(super) fn start_call(&mut self, call: String, work: impl Future<Output = ()> + Send + 'static) {
        let task = AbortOnDropHandle::new(tokio::spawn(work));
        self.0.insert(call, LocalCall { task, signals: None });
    }

    /// Runs a subagent, which needs a signal to stop: its tools run in the machine.
    pub(super) fn start_subagent(
        &mut self,
        call: String,
        work: impl Future<Output = ()> + Send + 'static,
        signals: watch::Sender<ControlSignals>,
    ) {
        let task = AbortOnDropHandle::new(tokio::spawn(work));
        self.0.insert(call, LocalCall { task, signals: Some(signals) });
    }

    /// Returns true if no call is running.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes a call that returned.
    pub(super) fn remove_call(&mut self, call: &str) {
        self.0.remove(call);
    }

    /// Ends all calls; subagents once they have cancelled their calls and settled their cost.
    pub(super) async fn end_all(&mut self, order: ControlSignal) {
        let others: Vec<LocalCall> =
            self.0.drain().map(|(_, run)| run).filter(|run| run.signals.is_some()).collect();
        for signals in others.iter().filter_map(|run| run.signals.as_ref()) {
            control_signal::send_signal(signals, order);
        }
        let over = async {
            for run in others {
                // A call that panicked has ended as well.
                let _ = run.task.await;
            }
        };
        if timeout(LEAVE_TIMEOUT, over).await.is_err() {
            tracing::warn!("subagent did not stop in time");
        }
    }
}

/// Returns the output of a call that could not run.
pub(super) fn failed_output(text: impl Into<String>) -> CallOutput {
    CallOutput {
        images: Vec::new(),
        outcome: StepOutcome::Failed,
        text: text.into(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}
