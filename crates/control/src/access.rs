//! Authentication: resolves keys to principals and checks them again (section 5 of the interface).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::key::{KeyFingerprint, SecretKey};
use domain::scope::Permission;
use domain::time::Timestamp;
use store::accounts::{self, StoredAccount};
use store::keys::{self, ResolvedKey};
use store::{Store, StoreError, sessions};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::task::TaskTracker;
use workspace::Workspaces;

use crate::denied_access::{DenialReason, DeniedAccessLog};
use crate::error::UseCaseError;
use crate::principal::{Principal, check_licence};
use crate::{ServiceEnvironment, provisioning};

/// The time to live of a resolved key. A revocation by this process takes effect at once, one by another process
/// within this time.
const CACHE_TTL: Duration = Duration::from_secs(2);
/// The number of keys in the cache.
const CACHED_KEYS_MAX: usize = 10_000;
/// The resolution of the recorded last use.
const MINUTE_MICROS: i64 = 60_000_000;
/// The interval of checks of a principal whose response is in progress.
pub const VALIDITY_CHECK_INTERVAL: Duration = Duration::from_secs(2);
// The interface promises that open streams end within five seconds.
const _: () = assert!(2 * VALIDITY_CHECK_INTERVAL.as_secs() < 5);

/// The reason why a key is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The key is missing, mistyped, revoked or expired.
    #[error("no valid key")]
    Unauthorized,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Resolves keys to principals, and checks principals. Cheap to clone.
#[derive(Clone)]
pub struct Authenticator {
    store: Store,
    environment: ServiceEnvironment,
    workspaces: Workspaces,
    cache: Arc<Mutex<KeyCache>>,
    denied_access: DeniedAccessLog,
    tasks: TaskTracker,
}

#[derive(Default)]
struct KeyCache {
    keys: HashMap<KeyFingerprint, CachedKey>,
    /// The number of invalidations. A key that was read before one is not cached after it.
    invalidations: u64,
}

struct CachedKey {
    resolved: ResolvedKey,
    at: Timestamp,
    touched: Timestamp,
}

impl Authenticator {
    /// Creates an authenticator on the store. It creates missing workspaces of the accounts whose keys are used. Writes in
    /// the background run on `tasks`, which the shutdown of the service waits for.
    #[must_use]
    pub fn new(
        store: Store,
        environment: ServiceEnvironment,
        workspaces: Workspaces,
        tasks: TaskTracker,
    ) -> Self {
        let denied_access = DeniedAccessLog::new(store.clone(), environment.clone(), tasks.clone());
        Self { store, environment, workspaces, cache: Arc::default(), denied_access, tasks }
    }

    /// Resolves a key to its principal. A mistyped key fails by its check sum, without a query.
    ///
    /// # Errors
    /// [`AccessError`].
    pub async fn resolve_key(&self, key: &str) -> Result<Principal, AccessError> {
        let fingerprint = SecretKey::parse(key).map_err(|_| AccessError::Unauthorized)?.fingerprint();
        self.authenticate_key(fingerprint).await
    }

    /// Resolves a key that is cached, without a query.
    #[must_use]
    pub fn resolve_cached(&self, key: &str) -> Option<Principal> {
        let fingerprint = SecretKey::parse(key).ok()?.fingerprint();
        let now = self.environment.now();
        Principal::from_key(&self.find_cached(fingerprint, now)?, fingerprint, now).ok()
    }

    /// Returns true if the key was valid when it was last resolved and has not expired since, without a query.
    #[must_use]
    pub fn is_known(&self, key: &str) -> bool {
        let Ok(key) = SecretKey::parse(key) else { return false };
        let now = self.environment.now();
        self.lock_cache().keys.get(&key.fingerprint()).is_some_and(|known| known.resolved.is_valid(now))
    }

    /// Requires one of these permissions for an operation, before its use case is called. The refusal of a key is
    /// written to the audit log under the operation's name.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`](crate::PublicCode::KeyScope).
    pub fn authorize(
        &self,
        principal: &Principal,
        any_of: &[Permission],
        operation: &str,
    ) -> Result<(), UseCaseError> {
        principal.require_any(any_of).inspect_err(|_| {
            if let Some(key) = principal.key_id() {
                self.denied_access.record_denial(
                    principal.account(),
                    key,
                    DenialReason::BeyondScope,
                    operation,
                );
            }
        })
    }

    /// Returns true if the principal is still valid: its key is neither revoked nor expired and its account has a valid licence,
    /// or its session has not ended. While the store is unavailable, it counts as valid.
    pub async fn is_still_valid(&self, principal: &Principal) -> bool {
        let account = match principal {
            Principal::Key { fingerprint, .. } => {
                return !matches!(self.authenticate_key(*fingerprint).await, Err(AccessError::Unauthorized));
            }
            Principal::Session { account, .. } | Principal::Service { account, .. } => *account,
        };
        let (session, now) = (principal.session_id(), self.environment.now());
        let is_session = matches!(principal, Principal::Session { .. });
        let valid = self.store.read(move |tx| {
            let open = match session {
                Some(session) => sessions::is_open(tx, session, now)?,
                None => !is_session,
            };
            let found = accounts::find_account(tx, account)?;
            let is_valid = |found: StoredAccount| is_session || check_licence(found.licence, now).is_ok();
            Ok::<_, StoreError>(open && found.is_some_and(is_valid))
        });
        valid.await.unwrap_or(true)
    }

    /// Completes when the principal has become invalid, at most twice [`VALIDITY_CHECK_INTERVAL`] later. The
    /// first check is one interval after the call, because the principal was checked when it was created. Cancel safe.
    pub async fn await_revocation(self, principal: Principal) {
        let mut checks = validity_checks();
        loop {
            checks.tick().await;
            if !self.is_still_valid(&principal).await {
                return;
            }
        }
    }

    /// Carries out a change of keys or licences to its end, also if the caller is dropped, and empties the cache after it.
    ///
    /// # Errors
    /// Those of the change.
    pub(crate) async fn apply_change<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        let this = self.clone();
        let changing = self.tasks.spawn(async move {
            let changed = change.await;
            // Also after a failure: the outcome of a commit may be unknown.
            this.invalidate_cache();
            changed
        });
        changing.await.unwrap_or_else(|_| Err(StoreError::Panicked.into()))
    }

    /// Empties the cache, after a key was revoked or a licence changed.
    pub fn invalidate_cache(&self) {
        let mut cache = self.lock_cache();
        cache.keys.clear();
        cache.invalidations += 1;
    }

    fn lock_cache(&self) -> MutexGuard<'_, KeyCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn authenticate_key(&self, fingerprint: KeyFingerprint) -> Result<Principal, AccessError> {
        let now = self.environment.now();
        let resolved = match self.find_cached(fingerprint, now) {
            Some(resolved) => resolved,
            None => self.ask_store(fingerprint, now).await?,
        };
        Principal::from_key(&resolved, fingerprint, now).map_err(|reason| {
            self.denied_access.record_denial(
                resolved.account,
                resolved.key,
                DenialReason::Invalid(reason),
                "",
            );
            AccessError::Unauthorized
        })
    }

    fn find_cached(&self, fingerprint: KeyFingerprint, now: Timestamp) -> Option<ResolvedKey> {
        let cache = self.lock_cache();
        // After the clock was set back, entries from the future are not known to be fresh.
        let known = cache
            .keys
            .get(&fingerprint)
            .filter(|known| known.at <= now && now.duration_since(known.at) < CACHE_TTL)?;
        Some(known.resolved.clone())
    }

    async fn ask_store(
        &self,
        fingerprint: KeyFingerprint,
        now: Timestamp,
    ) -> Result<ResolvedKey, AccessError> {
        let invalidations = self.lock_cache().invalidations;
        let resolved = self.store.read(move |tx| keys::resolve_key(tx, fingerprint)).await?;
        let resolved = resolved.ok_or(AccessError::Unauthorized)?;
        if resolved.is_valid(now) {
            provisioning::ensure_folder(&self.workspaces, resolved.account).await;
        }
        let minute = Timestamp::from_micros(now.micros() - now.micros().rem_euclid(MINUTE_MICROS));
        let key = resolved.key;
        let touch = {
            let mut cache = self.lock_cache();
            if cache.keys.len() >= CACHED_KEYS_MAX {
                cache.keys.clear();
            }
            let before = cache.keys.get(&fingerprint).map(|known| known.touched);
            if cache.invalidations == invalidations {
                let known = CachedKey { resolved: resolved.clone(), at: now, touched: minute };
                cache.keys.insert(fingerprint, known);
            }
            before != Some(minute) && resolved.is_valid(now)
        };
        if touch {
            let store = self.store.clone();
            // In the background: a failure does not refuse the call.
            self.tasks
                .spawn(async move { store.write(move |tx| keys::record_key_use(tx, key, minute)).await });
        }
        Ok(resolved)
    }
}

fn validity_checks() -> Interval {
    let mut checks = interval_at(Instant::now() + VALIDITY_CHECK_INTERVAL, VALIDITY_CHECK_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn new_principal_not_checked_at_once() {
        assert!(validity_checks().tick().now_or_never().is_none());
    }
}
