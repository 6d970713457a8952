//! Writes refused uses of keys to the audit log, at a limited rate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::audit::AuditAction;
use domain::id::{AccountId, KeyId};
use domain::time::Timestamp;
use store::{Store, audit};
use tokio_util::task::TaskTracker;

use crate::ServiceEnvironment;
use crate::principal::Invalidity;

/// The minimum interval between two entries of the same key and reason.
const RECORD_INTERVAL: Duration = Duration::from_secs(600);
/// The number of keys and reasons that are remembered. Beyond it, some may be written again early.
const ENTRIES_MAX: usize = 10_000;

/// The reason why a known key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub(crate) enum DenialReason {
    #[error("{0}")]
    Invalid(Invalidity),
    #[error("beyond its scope")]
    BeyondScope,
}

/// Writes refusals to the audit log. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DeniedAccessLog {
    store: Store,
    environment: ServiceEnvironment,
    recorded: Arc<Mutex<HashMap<(KeyId, DenialReason), Timestamp>>>,
    tasks: TaskTracker,
}

impl DeniedAccessLog {
    pub(crate) fn new(store: Store, environment: ServiceEnvironment, tasks: TaskTracker) -> Self {
        Self { store, environment, recorded: Arc::default(), tasks }
    }

    /// Writes the refusal unless the same one was written within [`RECORD_INTERVAL`]. Does not wait for the store.
    pub(crate) fn record_denial(
        &self,
        account: AccountId,
        key: KeyId,
        denial: DenialReason,
        operation: &str,
    ) {
        if !self.is_due(key, denial) {
            return;
        }
        let entry = audit::AuditEntry {
            at: self.environment.now(),
            account: Some(account),
            actor: format!("key {key}"),
            action: AuditAction::RefusedKey.as_str().to_owned(),
            subject: key.to_string(),
            detail: if operation.is_empty() { denial.to_string() } else { format!("{denial}: {operation}") },
            trace: None,
        };
        let store = self.store.clone();
        self.tasks.spawn(async move {
            if let Err(error) = store.write(move |tx| audit::append_audit_entry(tx, &entry)).await {
                tracing::warn!(%error, "writing audit entry of rejected key failed");
            }
        });
    }

    fn is_due(&self, key: KeyId, denial: DenialReason) -> bool {
        let now = self.environment.now();
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.get(&(key, denial)).is_some_and(|at| now.duration_since(*at) < RECORD_INTERVAL) {
            return false;
        }
        if recorded.len() >= ENTRIES_MAX {
            recorded.clear();
        }
        recorded.insert((key, denial), now);
        true
    }
}
