//! Uses of keys that were refused and are worth an operator's look: in the audit log, now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::id::{AccountId, KeyId};
use domain::time::Timestamp;
use store::{Store, audit};
use tokio_util::task::TaskTracker;

use crate::Environment;

/// A key's refusals of one kind are noted once in so long, however many there are.
const RECORD_INTERVAL: Duration = Duration::from_secs(600);
/// The most refusals that are remembered; beyond that some may be noted again.
const ENTRIES_MAX: usize = 10_000;

/// Why a known key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DenialReason {
    Revoked,
    Ended,
    WithoutLicence,
    BeyondScope,
}

/// Notes refusals. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DeniedAccessLog {
    store: Store,
    environment: Environment,
    noted: Arc<Mutex<HashMap<(KeyId, DenialReason), Timestamp>>>,
    tasks: TaskTracker,
}

impl DeniedAccessLog {
    pub(crate) fn new(store: Store, environment: Environment, tasks: TaskTracker) -> Self {
        Self { store, environment, noted: Arc::default(), tasks }
    }

    /// Notes the refusal unless one like it was noted lately. The caller does not wait for it.
    pub(crate) fn record(&self, account: AccountId, key: KeyId, denial: DenialReason, asked: &str) {
        if !self.due(key, denial) {
            return;
        }
        let why = match denial {
            DenialReason::Revoked => "revoked",
            DenialReason::Ended => "ended",
            DenialReason::WithoutLicence => "without a licence that holds",
            DenialReason::BeyondScope => "beyond its scope",
        };
        let entry = audit::AuditEntry {
            at: self.environment.now(),
            account: Some(account),
            actor: format!("key {key}"),
            action: "refused key".to_owned(),
            subject: key.to_string(),
            detail: if asked.is_empty() { why.to_owned() } else { format!("{why}: {asked}") },
            trace: None,
        };
        let store = self.store.clone();
        self.tasks.spawn(async move {
            if let Err(error) = store.write(move |tx| audit::append(tx, &entry)).await {
                tracing::warn!(%error, "audit entry for rejected key not written");
            }
        });
    }

    fn due(&self, key: KeyId, denial: DenialReason) -> bool {
        let now = self.environment.now();
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(&(key, denial)).is_some_and(|at| now.since(*at) < RECORD_INTERVAL) {
            return false;
        }
        if noted.len() >= ENTRIES_MAX {
            noted.clear();
        }
        noted.insert((key, denial), now);
        true
    }
}
