//! Principals: the callers of use cases, with their permissions.
//!
//! Every use case takes a [`Principal`] and requires a permission of it before it does anything. A principal of a key exists
//! only while its account's licence is valid: [`crate::Authenticator`] creates it and checks it again while a response is in
//! progress. [`Principal::session`] creates those of the web application. Without a licence they read, export and delete; what
//! adds something calls [`Principal::require_licence`].

use domain::account::Licence;
use domain::id::{AccountId, KeyId, SessionId, UserId};
use domain::key::KeyFingerprint;
use domain::scope::{Permission, Scope};
use domain::time::Timestamp;
use store::accounts::Account;
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
        /// The account.
        account: AccountId,
        /// The user who created the key, if known.
        user: Option<UserId>,
        /// The key.
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
        /// The account.
        account: AccountId,
        /// The user.
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
        /// The account.
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
    /// The key expired.
    #[error("ended")]
    Expired,
    /// The account has no valid licence.
    #[error("without a licence that holds")]
    NoLicence,
    /// The session's identifier is empty or longer than [`SESSION_ID_MAX_BYTES`].
    #[error("without an identifier of its session")]
    NoSessionId,
}

impl Principal {
    /// Creates the principal of a stored key.
    pub(crate) fn key(
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
        licensed(Licence { until: resolved.licence_until }, now)?;
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
    pub fn session(account: &Account, session: String, now: Timestamp) -> Result<Self, Invalidity> {
        if session.is_empty() || session.len() > SESSION_ID_MAX_BYTES {
            return Err(Invalidity::NoSessionId);
        }
        let (user, has_machine) = (account.user, account.has_machine);
        let is_licensed = account.licence.active(now);
        Ok(Self::Session { account: account.id, user, session, has_machine, is_licensed })
    }

    /// Creates the principal of the service for an account.
    ///
    /// # Errors
    /// [`Invalidity::NoLicence`].
    pub fn service(account: &Account, now: Timestamp) -> Result<Self, Invalidity> {
        licensed(account.licence, now)?;
        Ok(Self::Service { account: account.id, has_machine: account.has_machine })
    }

    /// Returns the account.
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

    /// Returns the permissions.
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
    pub fn require(&self, any_of: &[Permission]) -> Result<(), UseCaseError> {
        if any_of.iter().any(|permission| self.scope().allows(*permission)) {
            return Ok(());
        }
        Err(UseCaseError::new(PublicCode::KeyScope, "the key's scopes do not permit this operation"))
    }

    /// Returns true if the account has a valid licence. Others read, export and delete.
    #[must_use]
    pub fn is_licensed(&self) -> bool {
        match self {
            Self::Session { is_licensed, .. } => *is_licensed,
            Self::Key { .. } | Self::Service { .. } => true,
        }
    }

    /// Requires a valid licence, for what adds something to the account.
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
pub(crate) fn licensed(licence: Licence, now: Timestamp) -> Result<(), Invalidity> {
    if licence.active(now) { Ok(()) } else { Err(Invalidity::NoLicence) }
}

#[cfg(test)]
mod tests {
    use domain::account::Role;
    use domain::key::SecretKey;
    use domain::scope::Permission::{Ask, Files, Machine, Read};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000);
    const LATER: Timestamp = Timestamp::from_micros(2_000);

    fn resolved() -> ResolvedKey {
        ResolvedKey {
            key: KeyId::from_random(1),
            account: AccountId::from_random(2),
            user: None,
            licence_until: Some(LATER),
            revoked: false,
            expires_at: None,
            scope: Scope::of(&[Read, Files]).expect("there are two"),
            has_machine: true,
        }
    }

    fn key(resolved: &ResolvedKey, now: Timestamp) -> Result<Principal, Invalidity> {
        Principal::key(resolved, SecretKey::from_random([7; 24]).fingerprint(), now)
    }

    fn account(until: Option<Timestamp>) -> Account {
        Account {
            id: AccountId::from_random(2),
            user: UserId::from_random(3),
            role: Role::Owner,
            email: "ada@example.test".to_owned(),
            licence: Licence { until },
            created_at: NOW,
            conversations: 0,
            has_machine: true,
        }
    }

    fn permitted(principal: &Principal) -> [bool; 4] {
        [Read, Ask, Files, Machine].map(|permission| principal.require(&[permission]).is_ok())
    }

    #[test]
    fn a_key_may_do_what_its_scope_names_and_nothing_else() {
        let key = key(&resolved(), NOW).expect("it is valid");
        assert_eq!(permitted(&key), [true, false, true, false]);
        assert!(key.require(&[Ask, Read]).is_ok(), "one of several is enough");
        let refused = key.require(&[Ask, Machine]).expect_err("it has none of them");
        assert_eq!(refused.code(), PublicCode::KeyScope);
        assert!(key.require(&[]).is_err(), "what needs nothing that is named is for nobody");
    }

    #[test]
    fn a_key_is_valid_until_it_is_revoked_expires_or_loses_its_licence() {
        assert_eq!(key(&ResolvedKey { revoked: true, ..resolved() }, NOW), Err(Invalidity::Revoked));
        let ending = ResolvedKey { expires_at: Some(NOW), ..resolved() };
        assert_eq!(key(&ending, NOW), Err(Invalidity::Expired));
        assert_eq!(key(&resolved(), LATER), Err(Invalidity::NoLicence));
        assert_eq!(key(&ResolvedKey { licence_until: None, ..resolved() }, NOW), Err(Invalidity::NoLicence));
    }

    #[test]
    fn a_session_may_do_everything_in_its_account_and_add_to_it_while_licensed() {
        let account = account(Some(LATER));
        let session = Principal::session(&account, "s-1".to_owned(), NOW).expect("it is valid");
        assert_eq!(permitted(&session), [true; 4]);
        assert_eq!((session.account(), session.user()), (account.id, Some(account.user)));
        assert_eq!(session.asked_through(), AskedThrough::Session("s-1".to_owned()));
        assert_eq!(session.key_id(), None);
        assert_eq!(session.require_licence(), Ok(()));
        let ended =
            Principal::session(&account, "s-1".to_owned(), LATER).expect("its user reads and deletes");
        assert_eq!(permitted(&ended), [true; 4]);
        assert!(ended.require_licence().expect_err("nothing is added").is_licence_ended());
        for wrong in [String::new(), "x".repeat(SESSION_ID_MAX_BYTES + 1)] {
            assert_eq!(Principal::session(&account, wrong, NOW), Err(Invalidity::NoSessionId));
        }
    }

    #[test]
    fn the_service_acts_for_licensed_accounts_alone() {
        let service = Principal::service(&account(Some(LATER)), NOW).expect("it is valid");
        assert_eq!(permitted(&service), [true; 4]);
        assert_eq!((service.user(), service.asked_through()), (None, AskedThrough::Service));
        assert_eq!(Principal::service(&account(None), NOW), Err(Invalidity::NoLicence));
    }
}
