//! Passwords of account owners, stored as Argon2id hashes and verified with bounded concurrency.
//!
//! API keys are random and need only a digest (`domain::key`). People choose passwords, so each guess must cost time
//! and memory.

use std::fmt;
use std::sync::{Arc, OnceLock};

use argon2::password_hash::PasswordVerifier;
use argon2::{Argon2, PasswordHasher};
use domain::id::UserId;
use store::accounts::{self, AccountError, StoredAccount};
use store::audit::{self, AuditEntry};
use store::{Sql, Store, StoreError, sessions};
use tokio::sync::Semaphore;

use crate::ServiceEnvironment;

/// The minimum length of a password, in bytes of UTF-8.
pub const PASSWORD_MIN_BYTES: usize = 8;
/// The maximum length of a password, in bytes of UTF-8.
pub const PASSWORD_MAX_BYTES: usize = 1024;
/// The maximum number of concurrent hashes, each of which takes 19 MiB and a core. Others wait.
const HASHED_AT_ONCE_MAX: usize = 4;
/// The maximum number of hashes that wait for others; further ones are refused.
const WAITING_MAX: usize = 32;
/// The same for known users, so that attackers who guess passwords do not make them wait.
const HASHED_AT_ONCE_KNOWN_MAX: usize = 1;
const WAITING_KNOWN_MAX: usize = 16;

/// A password in clear text. It exists only while it is hashed or compared, is never stored, and does not print
/// itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

/// The reason why a text cannot be a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPassword {
    /// Fewer than [`PASSWORD_MIN_BYTES`].
    #[error("password is too short: use at least {PASSWORD_MIN_BYTES} bytes")]
    TooShort,
    /// More than [`PASSWORD_MAX_BYTES`].
    #[error("password is too long: use at most {PASSWORD_MAX_BYTES} bytes")]
    TooLong,
    /// It contains a NUL or a line end.
    #[error("password contains a line break or NUL: use a single line")]
    NotALine,
}

/// The reason why a password was not stored or compared.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The account does not exist.
    #[error("no such account")]
    NoSuchAccount,
    /// Another password was set since this one was verified.
    #[error("the password was changed by another request: try again")]
    Replaced,
    /// The hash could not be computed.
    #[error("the password could not be hashed: {0}")]
    Hash(argon2::password_hash::Error),
    /// Too many others wait.
    #[error("too many sign-ins at once: try again later")]
    Busy,
    /// The shutdown of the service interrupted the computation.
    #[error("the service is shutting down")]
    Ending,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The stored form of a password: Argon2id with its salt and parameters in PHC format.
#[derive(Clone)]
pub struct PasswordHash(String);

/// An account whose owner gave the right password.
#[derive(Debug, Clone)]
pub struct Verified {
    pub account: StoredAccount,
    /// The hash that the password was compared with.
    hash: PasswordHash,
}

impl Verified {
    /// Returns true if the password is still current, and keeps it so until the transaction ends.
    pub(crate) fn still_holds(&self, tx: &mut dyn Sql) -> Result<bool, StoreError> {
        accounts::keeps_password(tx, self.account.user, self.hash.as_str())
    }
}

impl Password {
    /// Checks a password that a person entered.
    ///
    /// # Errors
    /// [`InvalidPassword`].
    pub fn parse(text: &str) -> Result<Self, InvalidPassword> {
        if text.contains(['\0', '\n', '\r']) {
            return Err(InvalidPassword::NotALine);
        }
        match text.len() {
            ..PASSWORD_MIN_BYTES => Err(InvalidPassword::TooShort),
            PASSWORD_MIN_BYTES..=PASSWORD_MAX_BYTES => Ok(Self(text.to_owned())),
            _ => Err(InvalidPassword::TooLong),
        }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

impl PasswordHash {
    /// Hashes a password with the library's parameters, as OWASP recommends: 19 MiB, two passes, one lane. Blocks for
    /// tens of milliseconds.
    fn from_password(password: &Password, salt: [u8; 16]) -> Result<Self, PasswordError> {
        let hash = Argon2::default().hash_password_with_salt(password.0.as_bytes(), &salt);
        hash.map(|hash| Self(hash.to_string())).map_err(PasswordError::Hash)
    }

    /// Returns true if this is the hash of the password. Takes the same time if not. Blocks.
    fn is_of(&self, password: &Password) -> bool {
        // Uses the parameters in the hash. The library compares in constant time.
        Argon2::default().verify_password(password.0.as_bytes(), self.0.as_str()).is_ok()
    }

    /// Takes the stored form.
    pub(crate) const fn from_stored(stored: String) -> Self {
        Self(stored)
    }

    /// Returns the stored form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The origin of a password attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Stranger,
    /// A signed-in user, an operator, or the user of a [known browser](crate::known_browser).
    Known,
}

/// Bounds the number of hashes that are computed at once, and of waiting ones.
struct HashQueue {
    hashing: Arc<Semaphore>,
    /// One for each hash that is computed or waits.
    places: Arc<Semaphore>,
}

impl HashQueue {
    fn new(at_once_max: usize, waiting_max: usize) -> Arc<Self> {
        let hashing = Arc::new(Semaphore::new(at_once_max));
        Arc::new(Self { hashing, places: Arc::new(Semaphore::new(at_once_max + waiting_max)) })
    }

    /// Runs `work` on a thread for blocking work.
    async fn run_hashing<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PasswordError> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| PasswordError::Busy)?;
        let permit = self.hashing.clone().acquire_owned().await.map_err(|_| PasswordError::Ending)?;
        // The work itself holds the permits, because it continues when the caller is dropped.
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop((permit, place));
            done
        });
        done.await.map_err(|_| PasswordError::Ending)
    }
}

/// Stores and verifies passwords. Cheap to clone; clones share the limit of concurrent hashes.
#[derive(Clone)]
pub struct Passwords {
    store: Store,
    environment: ServiceEnvironment,
    strangers: Arc<HashQueue>,
    known: Arc<HashQueue>,
    /// A hash of no account, for comparisons on behalf of unknown emails.
    nobody: Arc<OnceLock<PasswordHash>>,
}

impl Passwords {
    /// Creates the passwords of this store.
    #[must_use]
    pub fn new(store: Store, environment: ServiceEnvironment) -> Self {
        let strangers = HashQueue::new(HASHED_AT_ONCE_MAX, WAITING_MAX);
        let known = HashQueue::new(HASHED_AT_ONCE_KNOWN_MAX, WAITING_KNOWN_MAX);
        Self { store, environment, strangers, known, nobody: Arc::default() }
    }

    /// Hashes a password for storage.
    ///
    /// # Errors
    /// [`PasswordError::Hash`], [`PasswordError::Busy`], [`PasswordError::Ending`].
    pub async fn hash_password(&self, password: Password) -> Result<PasswordHash, PasswordError> {
        let salt = self.environment.random_bytes();
        self.known.run_hashing(move || PasswordHash::from_password(&password, salt)).await?
    }

    /// Replaces the password of a user, whose sessions end, and records it in the audit log. With `verified`, only if
    /// the given password is still current.
    ///
    /// # Errors
    /// [`PasswordError::NoSuchAccount`], [`PasswordError::Replaced`] among others.
    pub(crate) async fn replace_password(
        &self,
        user: UserId,
        password: Password,
        verified: Option<Verified>,
        entry: AuditEntry,
    ) -> Result<(), PasswordError> {
        let hash = self.hash_password(password).await?;
        let set = self.store.write(move |tx| {
            if let Some(verified) = &verified
                && !verified.still_holds(tx)?
            {
                return Ok(false);
            }
            accounts::set_password(tx, user, hash.as_str())?;
            sessions::end_all(tx, user)?;
            audit::append_audit_entry(tx, &entry)?;
            Ok::<_, AccountError>(true)
        });
        match set.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(PasswordError::Replaced),
            Err(AccountError::Store(error)) => Err(PasswordError::Store(error)),
            Err(AccountError::NotFound | AccountError::EmailTaken) => Err(PasswordError::NoSuchAccount),
        }
    }

    /// Returns the account whose owner has this email and password; `None` otherwise. Takes the same time for an
    /// unknown email or an owner without a password, so that the time reveals nothing.
    ///
    /// # Errors
    /// [`PasswordError::Store`], [`PasswordError::Busy`], [`PasswordError::Ending`].
    pub async fn verify_password(
        &self,
        email: &str,
        password: Password,
        standing: Standing,
    ) -> Result<Option<Verified>, PasswordError> {
        let found = self.of_email(email).await?;
        let hash = found.as_ref().map(|(_, hash)| hash.clone());
        let (salt, nobody) = (self.environment.random_bytes(), self.nobody.clone());
        let queue = match standing {
            Standing::Stranger => &self.strangers,
            Standing::Known => &self.known,
        };
        let same = queue.run_hashing(move || {
            if let Some(hash) = hash {
                return Ok(hash.is_of(&password));
            }
            if let Some(nobody) = nobody.get() {
                nobody.is_of(&password);
            } else {
                // Computed once, from the given password: takes as long as a comparison.
                let _ = nobody.set(PasswordHash::from_password(&password, salt)?);
            }
            Ok::<_, PasswordError>(false)
        });
        let is_same = same.await??;
        Ok(found.filter(|_| is_same).map(|(account, hash)| Verified { account, hash }))
    }

    /// Returns the account with this email and the hash of its owner's password, if both exist.
    pub(crate) async fn of_email(
        &self,
        email: &str,
    ) -> Result<Option<(StoredAccount, PasswordHash)>, StoreError> {
        let email = email.to_owned();
        let found = self.store.read(move |tx| {
            let Some(account) = accounts::by_email(tx, &email)? else { return Ok::<_, StoreError>(None) };
            let hash = accounts::find_password_hash(tx, account.user)?;
            Ok(hash.map(|hash| (account, PasswordHash::from_stored(hash))))
        });
        found.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_parse_enforces_bounds() {
        let parsed = |text: &str| Password::parse(text).err();
        assert_eq!(parsed("1234567"), Some(InvalidPassword::TooShort));
        assert_eq!(parsed("heslo žš"), None);
        assert_eq!(parsed(&"x".repeat(1024)), None);
        assert_eq!(parsed(&"x".repeat(1025)), Some(InvalidPassword::TooLong));
        for inside in ["\0", "\n", "\r"] {
            assert_eq!(parsed(&format!("correct{inside}horse")), Some(InvalidPassword::NotALine));
        }
    }

    #[test]
    fn hash_is_argon2id_and_verifies() {
        let password = Password::parse("correct horse").expect("a password");
        let hash = PasswordHash::from_password(&password, [7; 16]).expect("a hash");
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.as_str());
        assert!(hash.as_str().len() <= 512, "as long as the table takes");
        assert!(hash.is_of(&password));
        assert!(!hash.is_of(&Password::parse("correct horsf").expect("a password")));
        let again = PasswordHash::from_password(&password, [8; 16]).expect("a hash");
        assert_ne!(hash.as_str(), again.as_str(), "equal passwords do not show");
        assert!(!PasswordHash("no hash".to_owned()).is_of(&password));
    }

    #[tokio::test]
    async fn queue_overflow_spares_known_users() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("causerie.db")).expect("a database");
        let passwords = Passwords::new(store, ServiceEnvironment::system());
        let password = || Password::parse("correct horse").expect("a password");
        let most = u32::try_from(HASHED_AT_ONCE_MAX + WAITING_MAX).expect("a small number");
        let others = passwords.strangers.places.clone().try_acquire_many_owned(most).expect("all places");
        let guessed = passwords.verify_password("a@example.test", password(), Standing::Stranger).await;
        assert!(matches!(guessed, Err(PasswordError::Busy)), "{guessed:?}");
        let known = passwords.verify_password("a@example.test", password(), Standing::Known).await;
        assert!(matches!(known, Ok(None)), "{known:?}");
        drop(others);
        let later = passwords.verify_password("a@example.test", password(), Standing::Stranger).await;
        assert!(matches!(later, Ok(None)), "{later:?}");
    }

    #[test]
    fn neither_shows_itself() {
        let password = Password::parse("correct horse").expect("a password");
        let hash = PasswordHash::from_password(&password, [7; 16]).expect("a hash");
        assert_eq!(format!("{password:?} {hash:?}"), "Password(…) PasswordHash(…)");
    }
}
