//! Principals: the callers of use cases, with their permissions.
//!
//! Every use case takes a [`Principal`] and requires a permission of it before it does anything. A principal of a key exists
//! only while its account's licence is valid: [`crate::Authenticator`] creates it and checks it again while a response is in
//! progress. [`Principal::from_session`] creates a principal of the web application. Without a licence it may read, export
//! and delete; use cases that add something call [`Principal::require_licence`].

use domain::account::Licence;
use domain::id::{AccountId, KeyId, SessionId, UserId};
use domain::key::KeyFingerprint;
use domain::scope::{Permission, Scope};
use domain::time::Timestamp;
use store::accounts::StoredAccount;
use store::keys::ResolvedKey;
use store::questions::AskedThrough;

use crate::error::{PublicCode, UseCaseError};

/// The longest identifier of a session, in bytes.
pub const SESSION_ID_MAX_BYTES: usize = 128;

/// The caller of a use case. Only this crate creates principals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// A client with an API key. It may do what the key's scope permits.
    #[non_exhaustive]
    Key {
        account: AccountId,
        /// The user who created the key, if known.
        user: Option<UserId>,
        key: KeyId,
        /// The permissions of the key.
        scope: Scope,
        /// True if the account has a machine.
        has_machine: bool,
        /// The key's fingerprint, by which it is looked up again.
        fingerprint: KeyFingerprint,
    },
    /// A user of the web application. It may do everything in its account while that has a licence.
    #[non_exhaustive]
    Session {
        account: AccountId,
        user: UserId,
        /// The identifier of the session. It is stored with the questions that the session asks, so it must not be the
        /// secret that proves the session.
        session: String,
        /// True if the account has a machine.
        has_machine: bool,
        /// True if the account had a valid licence when the request began.
        is_licensed: bool,
    },
    /// The service itself on behalf of an account, without a person. It may do everything in the account.
    #[non_exhaustive]
    Service {
        account: AccountId,
        /// True if the account has a machine.
        has_machine: bool,
    },
}

/// The reason why a key or session is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Invalidity {
    /// The key was revoked.
    #[error("revoked")]
    Revoked,
    #[error("expired")]
    Expired,
    /// The account has no valid licence.
    #[error("account licence missing or expired")]
    NoLicence,
    /// The session's identifier is empty or longer than [`SESSION_ID_MAX_BYTES`].
    #[error("session identifier empty or too long")]
    NoSessionId,
}

impl Principal {
    /// Creates the principal of a stored key.
    pub(crate) fn from_key(
        resolved: &ResolvedKey,
        fingerprint: KeyFingerprint,
        now: Timestamp,
    ) -> Result<Self, Invalidity> {
        if resolved.revoked {
            return Err(Invalidity::Revoked);
        }
        if resolved.expires_at.is_some_and(|end| end <= now) {
            return Err(Invalidity::Expired);
        }
        check_licence(Licence { until: resolved.licence_until }, now)?;
        Ok(Self::Key {
            account: resolved.account,
            user: resolved.user,
            key: resolved.key,
            scope: resolved.scope,
            has_machine: resolved.has_machine,
            fingerprint,
        })
    }

    /// Creates the principal of an authenticated session of the account's user.
    ///
    /// # Errors
    /// [`Invalidity::NoSessionId`].
    pub fn from_session(
        account: &StoredAccount,
        session: String,
        now: Timestamp,
    ) -> Result<Self, Invalidity> {
        if session.is_empty() || session.len() > SESSION_ID_MAX_BYTES {
            return Err(Invalidity::NoSessionId);
        }
        let (user, has_machine) = (account.user, account.has_machine);
        let is_licensed = account.licence.is_active(now);
        Ok(Self::Session { account: account.id, user, session, has_machine, is_licensed })
    }

    /// Creates the principal of the service for an account.
    ///
    /// # Errors
    /// [`Invalidity::NoLicence`].
    pub fn for_service(account: &StoredAccount, now: Timestamp) -> Result<Self, Invalidity> {
        check_licence(account.licence, now)?;
        Ok(Self::Service { account: account.id, has_machine: account.has_machine })
    }

    #[must_use]
    pub fn account(&self) -> AccountId {
        match self {
            Self::Key { account, .. } | Self::Session { account, .. } | Self::Service { account, .. } => {
                *account
            }
        }
    }

    /// Returns the user, if known.
    #[must_use]
    pub fn user(&self) -> Option<UserId> {
        match self {
            Self::Key { user, .. } => *user,
            Self::Session { user, .. } => Some(*user),
            Self::Service { .. } => None,
        }
    }

    /// Returns the key of a [`Principal::Key`].
    #[must_use]
    pub fn key_id(&self) -> Option<KeyId> {
        match self {
            Self::Key { key, .. } => Some(*key),
            Self::Session { .. } | Self::Service { .. } => None,
        }
    }

    /// Returns the session of a [`Principal::Session`].
    #[must_use]
    pub fn session_id(&self) -> Option<SessionId> {
        match self {
            Self::Session { session, .. } => session.parse().ok(),
            Self::Key { .. } | Self::Service { .. } => None,
        }
    }

    /// Returns true if the account has a machine.
    #[must_use]
    pub fn has_machine(&self) -> bool {
        match self {
            Self::Key { has_machine, .. }
            | Self::Session { has_machine, .. }
            | Self::Service { has_machine, .. } => *has_machine,
        }
    }

    #[must_use]
    pub fn scope(&self) -> Scope {
        match self {
            Self::Key { scope, .. } => *scope,
            Self::Session { .. } | Self::Service { .. } => Scope::ALL,
        }
    }

    /// Requires one of these permissions; every use case calls it first.
    ///
    /// # Errors
    /// [`PublicCode::KeyScope`].
    pub fn require_any(&self, any_of: &[Permission]) -> Result<(), UseCaseError> {
        if any_of.iter().any(|permission| self.scope().allows(*permission)) {
            return Ok(());
        }
        Err(UseCaseError::new(PublicCode::KeyScope, "the key's scopes do not permit this operation"))
    }

    /// Returns true if the account has a valid licence. Without one, it may only read, export and delete.
    #[must_use]
    pub fn is_licensed(&self) -> bool {
        match self {
            Self::Session { is_licensed, .. } => *is_licensed,
            Self::Key { .. } | Self::Service { .. } => true,
        }
    }

    /// Requires a valid licence, for use cases that add something to the account.
    ///
    /// # Errors
    /// [`UseCaseError::licence_ended`].
    pub fn require_licence(&self) -> Result<(), UseCaseError> {
        if self.is_licensed() { Ok(()) } else { Err(UseCaseError::licence_ended()) }
    }

    /// Returns the origin that is stored with a question.
    pub(crate) fn asked_through(&self) -> AskedThrough {
        match self {
            Self::Key { key, .. } => AskedThrough::Key(*key),
            Self::Session { session, .. } => AskedThrough::Session(session.clone()),
            Self::Service { .. } => AskedThrough::Service,
        }
    }
}

/// Requires a valid licence: without one, no key works.
pub(crate) fn check_licence(licence: Licence, now: Timestamp) -> Result<(), Invalidity> {
    if licence.is_active(now) { Ok(()) } else { Err(Invalidity::NoLicence) }
}

#[cfg(test)]
mod tests {
    use domain::account::AccountRole;
    use domain::key::SecretKey;
    use domain::scope::Permission::{Ask, Files, Machine, Read};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000);
    const LATER: Timestamp = Timestamp::from_micros(2_000);

    fn resolved_key() -> ResolvedKey {
        ResolvedKey {
            key: KeyId::from_random(1),
            account: AccountId::from_random(2),
            user: None,
            licence_until: Some(LATER),
            revoked: false,
            expires_at: None,
            scope: Scope::from_permissions(&[Read, Files]).expect("there are two"),
            has_machine: true,
        }
    }

    fn key_principal(resolved: &ResolvedKey, now: Timestamp) -> Result<Principal, Invalidity> {
        Principal::from_key(resolved, SecretKey::from_random([7; 24]).fingerprint(), now)
    }

    fn sample_account(until: Option<Timestamp>) -> StoredAccount {
        StoredAccount {
            id: AccountId::from_random(2),
            user: UserId::from_random(3),
            role: AccountRole::Owner,
            email: "ada@example.test".to_owned(),
            licence: Licence { until },
            created_at: NOW,
            conversations: 0,
            has_machine: true,
        }
    }

    fn permitted_scopes(principal: &Principal) -> [bool; 4] {
        [Read, Ask, Files, Machine].map(|permission| principal.require_any(&[permission]).is_ok())
    }

    #[test]
    fn key_permitted_by_scope_only() {
        let key = key_principal(&resolved_key(), NOW).expect("it is valid");
        assert_eq!(permitted_scopes(&key), [true, false, true, false]);
        assert!(key.require_any(&[Ask, Read]).is_ok(), "one of several is enough");
        let refused = key.require_any(&[Ask, Machine]).expect_err("it has none of them");
        assert_eq!(refused.code(), PublicCode::KeyScope);
        assert!(key.require_any(&[]).is_err(), "what needs nothing that is named is for nobody");
    }

    #[test]
    fn key_invalid_when_revoked_or_expired() {
        assert_eq!(
            key_principal(&ResolvedKey { revoked: true, ..resolved_key() }, NOW),
            Err(Invalidity::Revoked)
        );
        let ending = ResolvedKey { expires_at: Some(NOW), ..resolved_key() };
        assert_eq!(key_principal(&ending, NOW), Err(Invalidity::Expired));
        assert_eq!(key_principal(&resolved_key(), LATER), Err(Invalidity::NoLicence));
        assert_eq!(
            key_principal(&ResolvedKey { licence_until: None, ..resolved_key() }, NOW),
            Err(Invalidity::NoLicence)
        );
    }

    #[test]
    fn session_permits_all_while_licensed() {
        let account = sample_account(Some(LATER));
        let session = Principal::from_session(&account, "s-1".to_owned(), NOW).expect("it is valid");
        assert_eq!(permitted_scopes(&session), [true; 4]);
        assert_eq!((session.account(), session.user()), (account.id, Some(account.user)));
        assert_eq!(session.asked_through(), AskedThrough::Session("s-1".to_owned()));
        assert_eq!(session.key_id(), None);
        assert_eq!(session.require_licence(), Ok(()));
        let ended =
            Principal::from_session(&account, "s-1".to_owned(), LATER).expect("its user reads and deletes");
        assert_eq!(permitted_scopes(&ended), [true; 4]);
        assert!(ended.require_licence().expect_err("nothing is added").is_licence_ended());
        for wrong in [String::new(), "x".repeat(SESSION_ID_MAX_BYTES + 1)] {
            assert_eq!(Principal::from_session(&account, wrong, NOW), Err(Invalidity::NoSessionId));
        }
    }

    #[test]
    fn service_needs_licensed_account() {
        let service = Principal::for_service(&sample_account(Some(LATER)), NOW).expect("it is valid");
        assert_eq!(permitted_scopes(&service), [true; 4]);
        assert_eq!((service.user(), service.asked_through()), (None, AskedThrough::Service));
        assert_eq!(Principal::for_service(&sample_account(None), NOW), Err(Invalidity::NoLicence));
    }
}
