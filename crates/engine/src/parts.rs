//! The parts of the service that the engine is made of.

use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::limits::{DELEGATED_STEPS_MAX, STEPS_MAX};
use live::Live;
use machine::Machines;
use models::Catalog;
use store::Store;
use workspace::Workspaces;

use super::background_tasks::BackgroundTasks;
use super::embeddings::EmbeddingService;
use super::environment::ServiceEnvironment;
use super::plugin_library::Plugins;
use super::templates::PromptTemplates;
use super::web::WebTools;

/// The limits of concurrent answers.
#[derive(Debug, Clone, Copy)]
pub struct DispatchLimits {
    /// The answers of one account; others wait in order.
    pub turns_per_account: u32,
    /// The answers on this node.
    pub turns: u32,
    /// The model steps of an answer.
    pub steps: u32,
    /// The model steps of a subagent's task.
    pub delegated_steps: u32,
    /// The time for which a paused answer waits for replies.
    pub reply_timeout: Duration,
}

/// The time for which a paused answer waits for replies, unless the operator sets another.
const REPLY_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for DispatchLimits {
    fn default() -> Self {
        Self {
            turns_per_account: 100,
            turns: 2000,
            steps: STEPS_MAX,
            delegated_steps: DELEGATED_STEPS_MAX,
            reply_timeout: REPLY_TIMEOUT,
        }
    }
}

/// The parts of the service that the engine uses.
pub struct EngineParts {
    pub store: Store,
    /// Tasks that outlive requests; those of turns are added.
    pub tasks: BackgroundTasks,
    pub environment: ServiceEnvironment,
    /// Answers that are being written.
    pub live: Arc<Live>,
    pub machines: Machines,
    pub catalog: Arc<Catalog>,
    /// Search by meaning, if it is configured.
    pub embeddings: Option<Arc<EmbeddingService>>,
    /// The skills and agents.
    pub plugins: Plugins,
    /// Web access that the configuration allows.
    pub web: WebTools,
    pub templates: Arc<PromptTemplates>,
    pub workspaces: Workspaces,
    /// The identity of this process as a holder of leases.
    pub node: NodeId,
    /// The bounds of concurrent work.
    pub limits: DispatchLimits,
}
