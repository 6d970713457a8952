//! Passwords of account owners, stored as Argon2id hashes and verified with bounded concurrency.
//!
//! API keys are random and need only a digest (`domain::key`). People choose passwords, so each guess must cost time
//! and memory.

use std::fmt;
use std::sync::{Arc, OnceLock};

use argon2::password_hash::PasswordVerifier;
use argon2::{Argon2, PasswordHasher};
use domain::id::UserId;
use store::accounts::{self, Account, AccountError};
use store::audit::{self, AuditEntry};
use store::{Sql, Store, StoreError, sessions};
use tokio::sync::Semaphore;

use crate::Environment;

/// The minimum length of a password, in bytes of UTF-8.
pub const PASSWORD_MIN_BYTES: usize = 8;
/// The maximum length of a password, in bytes of UTF-8.
pub const PASSWORD_MAX_BYTES: usize = 1024;
/// The most concurrent hashes, each of which takes 19 MiB and a core. Others wait.
const HASHED_AT_ONCE_MAX: usize = 4;

/// A password in clear text. It exists only while it is hashed or compared, is never stored, and does not print
/// itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

/// The reason why a text cannot be a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPassword {
    /// Fewer than [`PASSWORD_MIN_BYTES`].
    #[error("a password has at least {PASSWORD_MIN_BYTES} bytes")]
    TooShort,
    /// More than [`PASSWORD_MAX_BYTES`].
    #[error("a password has at most {PASSWORD_MAX_BYTES} bytes")]
    TooLong,
    /// It contains a NUL or a line end.
    #[error("a password is one line without NUL")]
    NotALine,
}

/// The reason why a password was not stored or compared.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The account does not exist.
    #[error("no such account")]
    NoSuchAccount,
    /// Another password was set since this one was verified.
    #[error("the password was replaced meanwhile")]
    Replaced,
    /// The hash could not be computed.
    #[error("the password could not be hashed: {0}")]
    Hash(argon2::password_hash::Error),
    /// The shutdown of the service interrupted the computation.
    #[error("the service is ending")]
    Ending,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The stored form of a password: Argon2id with its salt and parameters in PHC format.
#[derive(Clone)]
pub struct PasswordHash(String);

/// An account whose owner gave the right password.
#[derive(Debug, Clone)]
pub struct Verified {
    /// The account.
    pub account: Account,
    /// The hash that the password was compared with.
    hash: PasswordHash,
}

impl Verified {
    /// Returns true if the password is still the right one, and keeps it so until the transaction ends.
    pub(crate) fn holds(&self, tx: &mut dyn Sql) -> Result<bool, StoreError> {
        accounts::keeps_password(tx, self.account.user, self.hash.stored())
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
    fn of(password: &Password, salt: [u8; 16]) -> Result<Self, PasswordError> {
        let hash = Argon2::default().hash_password_with_salt(password.0.as_bytes(), &salt);
        hash.map(|hash| Self(hash.to_string())).map_err(PasswordError::Hash)
    }

    /// Returns true if this is the hash of the password. Takes the same time if not. Blocks.
    fn is_of(&self, password: &Password) -> bool {
        // Uses the parameters in the hash. The library compares in constant time.
        Argon2::default().verify_password(password.0.as_bytes(), self.0.as_str()).is_ok()
    }

    /// Returns the stored form.
    #[must_use]
    pub fn stored(&self) -> &str {
        &self.0
    }
}

/// Stores and verifies passwords. Cheap to clone; clones share the limit of concurrent hashes.
#[derive(Clone)]
pub struct Passwords {
    store: Store,
    environment: Environment,
    hashing: Arc<Semaphore>,
    /// A hash of no account, for comparisons on behalf of unknown emails.
    nobody: Arc<OnceLock<PasswordHash>>,
}

impl Passwords {
    /// Creates the passwords of this store.
    #[must_use]
    pub fn new(store: Store, environment: Environment) -> Self {
        let hashing = Arc::new(Semaphore::new(HASHED_AT_ONCE_MAX));
        Self { store, environment, hashing, nobody: Arc::default() }
    }

    /// Hashes a password for storage.
    ///
    /// # Errors
    /// [`PasswordError::Hash`], [`PasswordError::Ending`].
    pub async fn hash(&self, password: Password) -> Result<PasswordHash, PasswordError> {
        let salt = self.environment.bytes();
        self.bounded(move || PasswordHash::of(&password, salt)).await?
    }

    /// Replaces the password of a user, whose sessions end, and records it in the audit log. With `verified`, only if the
    /// password that was given is still the right one.
    ///
    /// # Errors
    /// [`PasswordError::NoSuchAccount`], [`PasswordError::Replaced`] among others.
    pub(crate) async fn set(
        &self,
        user: UserId,
        password: Password,
        verified: Option<Verified>,
        entry: AuditEntry,
    ) -> Result<(), PasswordError> {
        let hash = self.hash(password).await?;
        let set = self.store.write(move |tx| {
            if let Some(verified) = &verified
                && !verified.holds(tx)?
            {
                return Ok(false);
            }
            accounts::set_password(tx, user, hash.stored())?;
            sessions::end_all(tx, user)?;
            audit::append(tx, &entry)?;
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
    /// [`PasswordError::Store`], [`PasswordError::Ending`].
    pub async fn verify(&self, email: &str, password: Password) -> Result<Option<Verified>, PasswordError> {
        let email = email.to_owned();
        let found = self.store.read(move |tx| {
            let Some(account) = accounts::by_email(tx, &email)? else { return Ok::<_, StoreError>(None) };
            let hash = accounts::password(tx, account.user)?;
            Ok(hash.map(|hash| Verified { account, hash: PasswordHash(hash) }))
        });
        let found = found.await?;
        let hash = found.as_ref().map(|found| found.hash.clone());
        let (salt, nobody) = (self.environment.bytes(), self.nobody.clone());
        let same = self.bounded(move || {
            if let Some(hash) = hash {
                return Ok(hash.is_of(&password));
            }
            if let Some(nobody) = nobody.get() {
                nobody.is_of(&password);
            } else {
                // Computed once, from the given password: takes as long as a comparison.
                let _ = nobody.set(PasswordHash::of(&password, salt)?);
            }
            Ok::<_, PasswordError>(false)
        });
        Ok(if same.await?? { found } else { None })
    }

    /// Runs `work` on a thread for blocking work, with bounded concurrency.
    async fn bounded<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PasswordError> {
        // The work itself holds the permit, because it continues when the caller is dropped.
        let permit = self.hashing.clone().acquire_owned().await.map_err(|_| PasswordError::Ending)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(|_| PasswordError::Ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line_within_its_bounds() {
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
    fn a_hash_is_argon2id_by_the_book_and_knows_its_own_password_alone() {
        let password = Password::parse("correct horse").expect("a password");
        let hash = PasswordHash::of(&password, [7; 16]).expect("a hash");
        assert!(hash.stored().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.stored());
        assert!(hash.stored().len() <= 512, "as long as the table takes");
        assert!(hash.is_of(&password));
        assert!(!hash.is_of(&Password::parse("correct horsf").expect("a password")));
        let again = PasswordHash::of(&password, [8; 16]).expect("a hash");
        assert_ne!(hash.stored(), again.stored(), "equal passwords do not show");
        assert!(!PasswordHash("no hash".to_owned()).is_of(&password));
    }

    #[test]
    fn neither_shows_itself() {
        let password = Password::parse("correct horse").expect("a password");
        let hash = PasswordHash::of(&password, [7; 16]).expect("a hash");
        assert_eq!(format!("{password:?} {hash:?}"), "Password(…) PasswordHash(…)");
    }
}
