//! The parts of the service that this face uses, and the facts about a call.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use control::{
    AnswerService, Authenticator, ClientHistories, Conversations, FileService, Principal, QuestionService,
};
use http_common::Budgets;
use telemetry::trace::SpanContext;
use tokio_util::sync::CancellationToken;

use crate::era::Era;
use crate::request_id::RequestId;
use crate::running_calls::RunningCalls;

/// The parts of the service. Cheap to clone.
#[derive(Clone)]
pub(crate) struct McpService(pub(crate) Arc<McpParts>);

pub(crate) struct McpParts {
    pub(crate) access: Authenticator,
    pub(crate) questions: QuestionService,
    pub(crate) answers: AnswerService,
    pub(crate) conversations: Conversations,
    pub(crate) histories: ClientHistories,
    pub(crate) files: FileService,
    pub(crate) budgets: Budgets,
    /// The time limit of a body.
    pub(crate) body_timeout: Duration,
    /// Cancelled when the service shuts down.
    pub(crate) shutdown: CancellationToken,
    /// The calls that a notification can cancel.
    pub(crate) running: RunningCalls,
}

impl std::ops::Deref for McpService {
    type Target = McpParts;

    fn deref(&self) -> &McpParts {
        &self.0
    }
}

/// The facts about a request besides its method and parameters.
#[derive(Debug, Clone)]
pub(crate) struct CallContext {
    pub(crate) principal: Principal,
    pub(crate) era: Era,
    pub(crate) id: RequestId,
    /// The token under which the client reads the progress.
    pub(crate) progress_token: Option<RequestId>,
    /// True if the response may be a stream of events.
    pub(crate) accepts_events: bool,
    /// The address of the client.
    pub(crate) address: Option<IpAddr>,
    pub(crate) trace: Option<SpanContext>,
}
