//! Calls that the service runs itself, beside the turn that made them: each is a task that comes back with `ToolRouter`.

use std::collections::HashMap;
use std::time::Duration;

use domain::step::StepOutcome;
use domain::turn::Output;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::control_signal::{self, ControlSignal, ControlSignals};

/// How long other agents may take to leave their work when the answer ends.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The calls of one turn that run here.
#[derive(Default)]
pub(super) struct Running(HashMap<String, Run>);

struct Run {
    task: AbortOnDropHandle<()>,
    /// Where another agent is told to stop.
    signals: Option<watch::Sender<ControlSignals>>,
}

impl Running {
    /// Runs a call that ends at once when it is dropped.
    pub(super) fn start(&mut self, call: String, work: impl Future<Output = ()> + Send + 'static) {
        let task = AbortOnDropHandle::new(tokio::spawn(work));
        self.0.insert(call, Run { task, signals: None });
    }

    /// Runs another agent, which has to be told to stop: its tools run in the machine.
    pub(super) fn delegate(
        &mut self,
        call: String,
        work: impl Future<Output = ()> + Send + 'static,
        signals: watch::Sender<ControlSignals>,
    ) {
        let task = AbortOnDropHandle::new(tokio::spawn(work));
        self.0.insert(call, Run { task, signals: Some(signals) });
    }

    /// The call came back.
    pub(super) fn over(&mut self, call: &str) {
        self.0.remove(call);
    }

    /// Ends all that runs; other agents once they have stopped their tools and paid for what they said.
    pub(super) async fn end(&mut self, order: ControlSignal) {
        let others: Vec<Run> =
            self.0.drain().map(|(_, run)| run).filter(|run| run.signals.is_some()).collect();
        for signals in others.iter().filter_map(|run| run.signals.as_ref()) {
            control_signal::give(signals, order);
        }
        let over = async {
            for run in others {
                // One that panicked is over as well.
                let _ = run.task.await;
            }
        };
        if timeout(LEAVE_TIMEOUT, over).await.is_err() {
            tracing::warn!("subagent did not stop in time");
        }
    }
}

/// What a call came to that could not be run.
pub(super) fn failed(text: impl Into<String>) -> Output {
    Output {
        images: Vec::new(),
        outcome: StepOutcome::Failed,
        text: text.into(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}
