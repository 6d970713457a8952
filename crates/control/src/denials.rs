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
const NOTED_EVERY: Duration = Duration::from_secs(600);
/// The most refusals that are remembered; beyond that some may be noted again.
const REMEMBERED_MAX: usize = 10_000;

/// Why a known key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Denial {
    Revoked,
    Ended,
    WithoutLicence,
    BeyondScope,
}

/// Notes refusals. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Denials {
    store: Store,
    environment: Environment,
    noted: Arc<Mutex<HashMap<(KeyId, Denial), Timestamp>>>,
    tasks: TaskTracker,
}

impl Denials {
    pub(crate) fn new(store: Store, environment: Environment, tasks: TaskTracker) -> Self {
        Self { store, environment, noted: Arc::default(), tasks }
    }

    /// Notes the refusal unless one like it was noted lately. The caller does not wait for it.
    pub(crate) fn note(&self, account: AccountId, key: KeyId, denial: Denial, asked: &str) {
        if !self.due(key, denial) {
            return;
        }
        let why = match denial {
            Denial::Revoked => "revoked",
            Denial::Ended => "ended",
            Denial::WithoutLicence => "without a licence that holds",
            Denial::BeyondScope => "beyond its scope",
        };
        let entry = audit::Entry {
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
                tracing::warn!(%error, "a refused key could not be noted");
            }
        });
    }

    fn due(&self, key: KeyId, denial: Denial) -> bool {
        let now = self.environment.now();
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(&(key, denial)).is_some_and(|at| now.since(*at) < NOTED_EVERY) {
            return false;
        }
        if noted.len() >= REMEMBERED_MAX {
            noted.clear();
        }
        noted.insert((key, denial), now);
        true
    }
}
