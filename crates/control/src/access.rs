//! Who calls: keys resolved to accounts (section 5 of the interface).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::{AccountId, KeyId, UserId};
use domain::key::{KeyFingerprint, SecretKey};
use domain::scope::Scope;
use domain::time::Timestamp;
use store::keys::{self, Resolved};
use store::{Store, StoreError};
use tokio_util::task::TaskTracker;
use workspace::Workspaces;

use crate::denials::{Denial, Denials};
use crate::{Environment, provisioning};

/// How long a resolved key is believed without asking the store. Revocation through this service is seen at
/// once; this bounds what another node can do.
const BELIEVED: Duration = Duration::from_secs(2);
/// Keys that are remembered at once.
const REMEMBERED_MAX: usize = 10_000;
/// Last use is recorded to the minute.
const MINUTE_MICROS: i64 = 60_000_000;

/// Who calls, as every use case takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The account.
    pub account: AccountId,
    /// Whose key it is, where that is known.
    pub user: Option<UserId>,
    /// The key.
    pub key: KeyId,
    /// What the key may do.
    pub scope: Scope,
    /// Whether the account has a machine.
    pub has_machine: bool,
    fingerprint: KeyFingerprint,
}

/// Why a call is not let in.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The key is missing, mistyped, revoked or expired.
    #[error("no valid key")]
    Unauthorized,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Resolves keys. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    store: Store,
    environment: Environment,
    workspaces: Workspaces,
    memory: Arc<Mutex<Memory>>,
    denials: Denials,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Memory {
    keys: HashMap<KeyFingerprint, Remembered>,
    /// How often everything was forgotten: what was read before that is not remembered after it.
    forgotten: u64,
}

struct Remembered {
    resolved: Resolved,
    at: Timestamp,
    touched: Timestamp,
}

impl Access {
    /// Resolves by this store. The workspaces of accounts whose keys are used are seen to. Writes that no call waits for
    /// run on `tasks`, which the end of the service waits for.
    #[must_use]
    pub fn new(store: Store, environment: Environment, workspaces: Workspaces, tasks: TaskTracker) -> Self {
        let denials = Denials::new(store.clone(), environment.clone(), tasks.clone());
        Self { store, environment, workspaces, memory: Arc::default(), denials, tasks }
    }

    /// Whose key this is. A mistyped key is told by its check sum, without asking the store.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn resolve(&self, key: &str) -> Result<Caller, AccessError> {
        let fingerprint = SecretKey::parse(key).map_err(|_| AccessError::Unauthorized)?.fingerprint();
        self.admit(fingerprint).await
    }

    /// Whether the key was let in lately, without asking the store.
    #[must_use]
    pub fn remembers(&self, key: &str) -> bool {
        let Ok(key) = SecretKey::parse(key) else { return false };
        self.memory().keys.contains_key(&key.fingerprint())
    }

    /// The caller's key was used for what its scope does not hold.
    pub fn note_beyond_scope(&self, caller: &Caller, asked: &str) {
        self.denials.note(caller.account, caller.key, Denial::BeyondScope, asked);
    }

    /// Whether the caller would still be let in: for streams that stay open.
    pub async fn holds(&self, caller: &Caller) -> bool {
        !matches!(self.admit(caller.fingerprint).await, Err(AccessError::Unauthorized))
    }

    /// Forgets what is believed: after a key was revoked or a licence changed.
    pub fn forget(&self) {
        let mut memory = self.memory();
        memory.keys.clear();
        memory.forgotten += 1;
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn admit(&self, fingerprint: KeyFingerprint) -> Result<Caller, AccessError> {
        let now = self.environment.now();
        let resolved = match self.believed(fingerprint, now) {
            Some(resolved) => resolved,
            None => self.ask_store(fingerprint, now).await?,
        };
        if !resolved.valid(now) {
            self.denials.note(resolved.account, resolved.key, why_not(&resolved, now), "");
            return Err(AccessError::Unauthorized);
        }
        Ok(Caller {
            account: resolved.account,
            user: resolved.user,
            key: resolved.key,
            scope: resolved.scope,
            has_machine: resolved.has_machine,
            fingerprint,
        })
    }

    fn believed(&self, fingerprint: KeyFingerprint, now: Timestamp) -> Option<Resolved> {
        let memory = self.memory();
        let known = memory.keys.get(&fingerprint).filter(|known| now.since(known.at) < BELIEVED)?;
        Some(known.resolved.clone())
    }

    async fn ask_store(&self, fingerprint: KeyFingerprint, now: Timestamp) -> Result<Resolved, AccessError> {
        let forgotten = self.memory().forgotten;
        let resolved = self.store.read(move |tx| keys::resolve(tx, fingerprint)).await?;
        let resolved = resolved.ok_or(AccessError::Unauthorized)?;
        provisioning::ensure(&self.workspaces, resolved.account).await;
        let minute = Timestamp::from_micros(now.micros() - now.micros().rem_euclid(MINUTE_MICROS));
        let key = resolved.key;
        let touch = {
            let mut memory = self.memory();
            if memory.keys.len() >= REMEMBERED_MAX {
                memory.keys.clear();
            }
            let before = memory.keys.get(&fingerprint).map(|known| known.touched);
            if memory.forgotten == forgotten {
                let known = Remembered { resolved: resolved.clone(), at: now, touched: minute };
                memory.keys.insert(fingerprint, known);
            }
            before != Some(minute) && resolved.valid(now)
        };
        if touch {
            let store = self.store.clone();
            // The call does not wait for it, and is not refused when it fails.
            self.tasks.spawn(async move { store.write(move |tx| keys::touch(tx, key, minute)).await });
        }
        Ok(resolved)
    }
}

/// Why a key that is known is not let in.
fn why_not(resolved: &Resolved, now: Timestamp) -> Denial {
    if resolved.revoked {
        Denial::Revoked
    } else if resolved.expires_at.is_some_and(|end| end <= now) {
        Denial::Ended
    } else {
        Denial::WithoutLicence
    }
}
