//! Who calls: keys resolved to accounts (section 5 of the interface).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::id::{AccountId, KeyId, UserId};
use domain::key::{KeyFingerprint, SecretKey};
use domain::scope::Scope;
use domain::time::Timestamp;
use store::keys::{self, ResolvedKey};
use store::{Store, StoreError};
use tokio_util::task::TaskTracker;
use workspace::Workspaces;

use crate::denied_access::{DenialReason, DeniedAccessLog};
use crate::{Environment, provisioning};

/// How long a resolved key is believed without asking the store. Revocation through this service is seen at
/// once; this bounds what another node can do.
const CACHE_TTL: Duration = Duration::from_secs(2);
/// Keys that are remembered at once.
const CACHED_KEYS_MAX: usize = 10_000;
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
pub struct Authenticator {
    store: Store,
    environment: Environment,
    workspaces: Workspaces,
    cache: Arc<Mutex<KeyCache>>,
    denied_access: DeniedAccessLog,
    tasks: TaskTracker,
}

#[derive(Default)]
struct KeyCache {
    keys: HashMap<KeyFingerprint, CachedKey>,
    /// How often everything was forgotten: what was read before that is not remembered after it.
    invalidations: u64,
}

struct CachedKey {
    resolved: ResolvedKey,
    at: Timestamp,
    touched: Timestamp,
}

impl Authenticator {
    /// Resolves by this store. The workspaces of accounts whose keys are used are seen to. Writes that no call waits for
    /// run on `tasks`, which the end of the service waits for.
    #[must_use]
    pub fn new(store: Store, environment: Environment, workspaces: Workspaces, tasks: TaskTracker) -> Self {
        let denied_access = DeniedAccessLog::new(store.clone(), environment.clone(), tasks.clone());
        Self { store, environment, workspaces, cache: Arc::default(), denied_access, tasks }
    }

    /// Whose key this is. A mistyped key is told by its check sum, without asking the store.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn resolve(&self, key: &str) -> Result<Caller, AccessError> {
        let fingerprint = SecretKey::parse(key).map_err(|_| AccessError::Unauthorized)?.fingerprint();
        self.authenticate(fingerprint).await
    }

    /// Whether the key was let in lately, without asking the store.
    #[must_use]
    pub fn is_cached(&self, key: &str) -> bool {
        let Ok(key) = SecretKey::parse(key) else { return false };
        self.cache().keys.contains_key(&key.fingerprint())
    }

    /// The caller's key was used for what its scope does not hold.
    pub fn record_scope_denial(&self, caller: &Caller, asked: &str) {
        self.denied_access.record(caller.account, caller.key, DenialReason::BeyondScope, asked);
    }

    /// Whether the caller would still be let in: for streams that stay open.
    pub async fn is_still_valid(&self, caller: &Caller) -> bool {
        !matches!(self.authenticate(caller.fingerprint).await, Err(AccessError::Unauthorized))
    }

    /// Forgets what is believed: after a key was revoked or a licence changed.
    pub fn invalidate(&self) {
        let mut memory = self.cache();
        memory.keys.clear();
        memory.invalidations += 1;
    }

    fn cache(&self) -> MutexGuard<'_, KeyCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn authenticate(&self, fingerprint: KeyFingerprint) -> Result<Caller, AccessError> {
        let now = self.environment.now();
        let resolved = match self.cached(fingerprint, now) {
            Some(resolved) => resolved,
            None => self.ask_store(fingerprint, now).await?,
        };
        if !resolved.valid(now) {
            self.denied_access.record(resolved.account, resolved.key, denial_reason(&resolved, now), "");
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

    fn cached(&self, fingerprint: KeyFingerprint, now: Timestamp) -> Option<ResolvedKey> {
        let memory = self.cache();
        let known = memory.keys.get(&fingerprint).filter(|known| now.since(known.at) < CACHE_TTL)?;
        Some(known.resolved.clone())
    }

    async fn ask_store(
        &self,
        fingerprint: KeyFingerprint,
        now: Timestamp,
    ) -> Result<ResolvedKey, AccessError> {
        let forgotten = self.cache().invalidations;
        let resolved = self.store.read(move |tx| keys::resolve(tx, fingerprint)).await?;
        let resolved = resolved.ok_or(AccessError::Unauthorized)?;
        provisioning::ensure(&self.workspaces, resolved.account).await;
        let minute = Timestamp::from_micros(now.micros() - now.micros().rem_euclid(MINUTE_MICROS));
        let key = resolved.key;
        let touch = {
            let mut memory = self.cache();
            if memory.keys.len() >= CACHED_KEYS_MAX {
                memory.keys.clear();
            }
            let before = memory.keys.get(&fingerprint).map(|known| known.touched);
            if memory.invalidations == forgotten {
                let known = CachedKey { resolved: resolved.clone(), at: now, touched: minute };
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
fn denial_reason(resolved: &ResolvedKey, now: Timestamp) -> DenialReason {
    if resolved.revoked {
        DenialReason::Revoked
    } else if resolved.expires_at.is_some_and(|end| end <= now) {
        DenialReason::Ended
    } else {
        DenialReason::WithoutLicence
    }
}
