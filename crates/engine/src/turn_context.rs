//! The surroundings of a running turn: the parts of the service that it uses, and its place among answers.

use std::sync::Arc;
use std::time::Duration;

use domain::answer::LogEntry;
use domain::time::Timestamp;
use live::Live;
use machine::Machines;
use models::Catalog;
use workspace::Workspaces;

use super::agent_session::SessionOpener;
use super::turn_store::TurnStore;
use super::web::{WebPolicy, WebTools};

/// The parts of the service that running turns use.
pub(super) struct TurnServices {
    /// Answers that are being written.
    pub(super) live: Arc<Live>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) web: WebTools,
    pub(super) workspaces: Workspaces,
    /// Draw the pages that a model is shown.
    pub(super) machines: Machines,
    pub(super) sessions: SessionOpener,
    /// The model steps of a subagent's task.
    pub(super) delegated_steps_max: u32,
    /// The time for which a paused answer waits for replies.
    pub(super) reply_timeout: Duration,
}

/// The constant inputs and services of a turn, of an answer or of a subagent.
pub(super) struct TurnContext {
    pub(super) services: Arc<TurnServices>,
    pub(super) store: TurnStore,
    /// The start of the answer.
    pub(super) created_at: Timestamp,
    pub(super) web_policy: WebPolicy,
}

impl TurnContext {
    /// Returns the context of the subagent that this call starts, after the log of its caller.
    pub(super) fn for_subagent(&self, call: &str, log: &[LogEntry]) -> Self {
        Self {
            services: self.services.clone(),
            store: TurnStore { delegation: Some(call.into()), ..self.store.clone() },
            created_at: self.created_at,
            web_policy: self.web_policy.with_log(log),
        }
    }
}
