//! Sessions of the web application: signing in with a password, resolving the secret of a session, listing them, signing out.
//!
//! A session ends when it has not been used for [`IDLE_MAX`], after [`AGE_MAX`] at the latest, when its user signs out,
//! and when the user's password is replaced.

use std::fmt;
use std::time::Duration;

use domain::account::AccountRole;
use domain::audit::AuditAction;
use domain::hex;
use domain::id::SessionId;
use domain::time::Timestamp;
use sha2::{Digest, Sha256};
use store::accounts::{self, StoredAccount};
use store::audit::{self, AuditEntry};
use store::sessions::{self, NewSession, StoredSession};
use store::{Store, StoreError};
use workspace::Workspaces;

use crate::error::{PublicCode, UseCaseError};
use crate::known_browser::KnownBrowser;
use crate::passwords::{Password, PasswordError, Passwords, Standing, Verified};
use crate::principal::Principal;
use crate::{ServiceEnvironment, provisioning};

/// The time without use after which a session ends.
pub const IDLE_MAX: Duration = Duration::from_secs(14 * 24 * 3600);
/// The longest age of a session.
pub const AGE_MAX: Duration = Duration::from_secs(90 * 24 * 3600);
/// The resolution of the recorded use.
const USE_RESOLUTION: Duration = Duration::from_secs(3600);

/// The secret that proves a session: 64 hexadecimal digits of 256 random bits. It does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret(String);

impl SessionSecret {
    fn from_random(bits: [u8; 32]) -> Self {
        Self(hex::encode_hex(&bits))
    }

    /// Parses a secret; `None` if the text cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode_array::<32>(text).map(|bits| Self(hex::encode_hex(&bits)))
    }

    /// Returns the secret itself, for the user's browser.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn fingerprint(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionSecret(…)")
    }
}

/// The user of a session.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The principal of the session.
    pub principal: Principal,
    pub email: String,
    /// The user's role, as it is now.
    pub role: AccountRole,
    /// The end of the account's licence.
    pub licence_until: Option<Timestamp>,
}

/// An open session, as its user sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSession {
    pub id: SessionId,
    /// The browser that opened it; empty if it is not known.
    pub browser: String,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The last recorded use, up to an hour before the real one.
    pub used_at: Timestamp,
    /// True for the session that asks.
    pub is_current: bool,
}

/// The reason why a user is not signed in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The email or the password is wrong.
    #[error("wrong email or password")]
    Denied,
    #[error(transparent)]
    Failed(#[from] UseCaseError),
}

/// The sessions of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct SessionService {
    pub(crate) store: Store,
    pub(crate) environment: ServiceEnvironment,
    passwords: Passwords,
    pub(crate) workspaces: Workspaces,
}

impl SessionService {
    /// Creates the sessions of this store.
    pub(crate) fn new(
        store: &Store,
        environment: &ServiceEnvironment,
        passwords: &Passwords,
        workspaces: &Workspaces,
    ) -> Self {
        let (store, environment) = (store.clone(), environment.clone());
        Self { store, environment, passwords: passwords.clone(), workspaces: workspaces.clone() }
    }

    /// Signs a user in and opens a session of this browser. Callers bound how often an email and an address may try.
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if too many others wait.
    ///
    /// # Errors
    /// [`SignInError`].
    pub async fn sign_in(
        &self,
        email: &str,
        password: &str,
        browser: String,
        standing: Standing,
    ) -> Result<SessionSecret, SignInError> {
        // A text that cannot be a password matches no account.
        let password = Password::parse(password).map_err(|_| SignInError::Denied)?;
        let verified =
            self.passwords.verify_password(email, password, standing).await.map_err(sign_in_failure)?;
        let verified = verified.ok_or(SignInError::Denied)?;
        self.open_session(&verified.account.clone(), "password", Some(verified), browser).await
    }

    /// Returns the proof that the owner of the account with this email has signed in, for the browser to keep; `None`
    /// if the owner does not exist.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn proof_of_browser(&self, email: &str) -> Result<Option<KnownBrowser>, UseCaseError> {
        let found = self.passwords.of_email(email).await?;
        Ok(found.map(|(account, hash)| {
            KnownBrowser::from_password(self.environment.random_bytes(), account.user, &hash)
        }))
    }

    /// Returns the trust in a browser with this proof, for the account with this email.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn browser_standing(&self, email: &str, kept: &KnownBrowser) -> Result<Standing, UseCaseError> {
        let found = self.passwords.of_email(email).await?;
        let is_known = found.is_some_and(|(account, hash)| kept.is_of(account.user, &hash));
        Ok(if is_known { Standing::Known } else { Standing::Stranger })
    }

    /// Opens a session of the owner of an account, who has proved who they are at the identity provider.
    ///
    /// # Errors
    /// [`SignInError::Failed`].
    pub(crate) async fn open_for_identity(
        &self,
        account: &StoredAccount,
        browser: String,
    ) -> Result<SessionSecret, SignInError> {
        self.open_session(account, "identity provider", None, browser).await
    }

    /// Opens a session. A session by password requires that the password is still current.
    async fn open_session(
        &self,
        account: &StoredAccount,
        means: &str,
        verified: Option<Verified>,
        browser: String,
    ) -> Result<SessionSecret, SignInError> {
        let now = self.environment.now();
        provisioning::ensure_folder(&self.workspaces, account.id).await;
        let secret = SessionSecret::from_random(self.environment.random_bytes());
        let new = NewSession {
            id: SessionId::from_random(self.environment.random_bits()),
            account: account.id,
            user: account.user,
            fingerprint: secret.fingerprint(),
            browser,
            expires_at: now.saturating_add(IDLE_MAX),
            now,
        };
        let entry =
            AuditEntry { detail: means.to_owned(), ..audit_entry(account, now, AuditAction::SignIn, new.id) };
        let opened = self.store.write(move |tx| {
            // It may have been replaced while it was compared.
            if let Some(verified) = &verified
                && !verified.still_holds(tx)?
            {
                return Ok(false);
            }
            sessions::create_session(tx, &new)?;
            audit::append_audit_entry(tx, &entry)?;
            Ok::<_, StoreError>(true)
        });
        if opened.await.map_err(UseCaseError::from)? { Ok(secret) } else { Err(SignInError::Denied) }
    }

    /// Returns the user of the session that a secret proves; `None` if it has ended.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn resolve_session(&self, secret: &SessionSecret) -> Result<Option<SignedIn>, UseCaseError> {
        let (fingerprint, now) = (secret.fingerprint(), self.environment.now());
        let found = self.store.read(move |tx| {
            let Some(session) = sessions::resolve_session(tx, fingerprint, now)? else {
                return Ok::<_, StoreError>(None);
            };
            let account = accounts::find_account(tx, session.account)?;
            Ok(account.filter(|account| account.user == session.user).map(|account| (session, account)))
        });
        let Some((session, account)) = found.await? else { return Ok(None) };
        let Ok(principal) = Principal::from_session(&account, session.id.to_string(), now) else {
            return Ok(None);
        };
        self.record_use(&session, now).await;
        Ok(Some(SignedIn {
            principal,
            email: account.email,
            role: account.role,
            licence_until: account.licence.until,
        }))
    }

    /// Ends the session of the principal. Its open streams end within seconds.
    ///
    /// # Errors
    /// [`PublicCode::Forbidden`] for the principal of a key.
    pub async fn sign_out(&self, principal: &Principal) -> Result<(), UseCaseError> {
        self.end_session(principal, principal.session_id().ok_or_else(no_session)?).await
    }

    /// Ends a session of the principal's account. One that has ended already changes nothing.
    ///
    /// # Errors
    /// [`PublicCode::Forbidden`] for the principal of a key.
    pub async fn end_session(&self, principal: &Principal, session: SessionId) -> Result<(), UseCaseError> {
        principal.session_id().ok_or_else(no_session)?;
        let (account, now) = (principal.account(), self.environment.now());
        let ended = self.store.write(move |tx| {
            if !sessions::end_session(tx, account, session)? {
                return Ok(());
            }
            let Some(owner) = accounts::find_account(tx, account)? else { return Ok(()) };
            audit::append_audit_entry(tx, &audit_entry(&owner, now, AuditAction::SignOut, session))
        });
        Ok(ended.await?)
    }

    /// Returns the open sessions of the principal's user, the last used one first.
    ///
    /// # Errors
    /// [`PublicCode::Forbidden`] for the principal of a key.
    pub async fn list_sessions(&self, principal: &Principal) -> Result<Vec<OpenSession>, UseCaseError> {
        let current = principal.session_id().ok_or_else(no_session)?;
        let (account, now) = (principal.account(), self.environment.now());
        let listed = self.store.read(move |tx| match accounts::find_account(tx, account)? {
            Some(owner) => sessions::list_sessions(tx, owner.user, now),
            None => Ok(Vec::new()),
        });
        let open = |session: StoredSession| OpenSession {
            id: session.id,
            browser: session.browser,
            created_at: session.created_at,
            used_at: session.used_at,
            is_current: session.id == current,
        };
        Ok(listed.await?.into_iter().map(open).collect())
    }

    /// Records that a session is used and moves its end, at most once in [`USE_RESOLUTION`]. If the store accepts no
    /// writes, the user stays signed in and the next use is recorded.
    async fn record_use(&self, session: &StoredSession, now: Timestamp) {
        if now.duration_since(session.used_at) < USE_RESOLUTION {
            return;
        }
        let (id, end) =
            (session.id, now.saturating_add(IDLE_MAX).min(session.created_at.saturating_add(AGE_MAX)));
        if let Err(error) = self.store.write(move |tx| sessions::record_use(tx, id, now, end)).await {
            tracing::warn!(session = %id, %error, "recording session use failed");
        }
    }
}

fn sign_in_failure(error: PasswordError) -> SignInError {
    SignInError::Failed(match error {
        PasswordError::Store(error) => error.into(),
        PasswordError::Busy | PasswordError::Ending => UseCaseError::new(PublicCode::Unavailable, error),
        PasswordError::NoSuchAccount | PasswordError::Replaced | PasswordError::Hash(_) => {
            UseCaseError::internal(error)
        }
    })
}

/// Creates the error for an operation that requires a session.
pub(crate) fn no_session() -> UseCaseError {
    UseCaseError::new(PublicCode::Forbidden, "only a signed-in user may do this")
}

fn audit_entry(
    account: &StoredAccount,
    at: Timestamp,
    action: AuditAction,
    session: SessionId,
) -> AuditEntry {
    AuditEntry {
        at,
        account: Some(account.id),
        actor: account.email.clone(),
        action: action.as_str().to_owned(),
        subject: session.to_string(),
        detail: String::new(),
        trace: None,
    }
}

#[cfg(test)]
mod tests {
    use domain::credits::Credits;
    use domain::id::{AccountId, PostingId, UserId};
    use store::accounts::NewAccount;
    use workspace::Quota;

    use super::*;

    const EMAIL: &str = "a@example.test";

    fn parsed_password(text: &str) -> Password {
        Password::parse(text).expect("a password")
    }

    #[tokio::test]
    async fn replaced_password_opens_no_session() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("causerie.db")).expect("a database");
        let environment = ServiceEnvironment::system();
        let passwords = Passwords::new(store.clone(), environment.clone());
        let workspaces =
            Workspaces::new(folder.path().join("workspaces"), Quota::default()).expect("a folder");
        let sessions = SessionService::new(&store, &environment, &passwords, &workspaces);
        let now = environment.now();
        let (account, user) = (AccountId::from_random(1), UserId::from_random(1));
        let new = NewAccount {
            account,
            user,
            role: AccountRole::Owner,
            email: EMAIL.to_owned(),
            licence_until: Some(now.saturating_add(IDLE_MAX)),
            grant: Credits(0),
            posting: PostingId::from_random(1),
            machine: false,
            now,
        };
        store.write(move |tx| accounts::create_account(tx, &new)).await.expect("an account");
        let found = store
            .read(move |tx| accounts::find_account(tx, account))
            .await
            .expect("a read")
            .expect("an account");
        let audited = || audit_entry(&found, now, AuditAction::SetPassword, SessionId::from_random(1));
        passwords
            .replace_password(user, parsed_password("correct horse"), None, audited())
            .await
            .expect("it is set");
        let compared = async || {
            passwords
                .verify_password(EMAIL, parsed_password("correct horse"), Standing::Known)
                .await
                .expect("it is compared")
                .expect("right")
        };
        let (late, other) = (compared().await, compared().await);
        let early = sessions.open_session(&found, "password", Some(compared().await), String::new()).await;
        let early = early.expect("it holds");
        passwords
            .replace_password(user, parsed_password("another horse"), None, audited())
            .await
            .expect("it is set");
        assert!(
            sessions.resolve_session(&early).await.expect("a read").is_none(),
            "sessions end with the password"
        );
        let opened = sessions.open_session(&found, "password", Some(late), String::new()).await;
        assert!(matches!(opened, Err(SignInError::Denied)), "{:?}", opened.err());
        let replaced =
            passwords.replace_password(user, parsed_password("a third horse"), Some(other), audited()).await;
        assert!(matches!(replaced, Err(PasswordError::Replaced)), "{replaced:?}");
        let verified =
            passwords.verify_password(EMAIL, parsed_password("another horse"), Standing::Known).await;
        assert!(verified.expect("it is compared").is_some());
    }
}
