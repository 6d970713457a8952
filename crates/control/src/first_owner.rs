//! The first operator of a service, whose account is created in the browser by anyone with the link that the service printed
//! at its start.
//!
//! The link holds an invitation of 256 random bits, of which the service keeps the SHA-256 in memory. It is valid once, for
//! [`INVITATION_MAX`], until the service ends, and only before the first operator exists: accounts created by command
//! leave it valid, because they cannot open the pages of operators.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::credits::Credits;
use domain::hex;
use domain::time::Timestamp;
use sha2::{Digest, Sha256};

use crate::admin::AdminError;
use crate::passwords::{InvalidPassword, Password};
use crate::{Admin, ServiceEnvironment};

/// The time for which an invitation is valid.
pub const INVITATION_MAX: Duration = Duration::from_secs(24 * 3600);
/// The first account's licence and credits. Its owner is an operator and can change both.
const LICENCE: Duration = Duration::from_secs(365 * 24 * 3600);
const CREDITS: Credits = Credits(100_000);

/// The secret of an invitation: 64 hexadecimal digits. It does not print itself.
#[derive(Clone)]
pub struct Invitation(String);

impl Invitation {
    /// Returns the secret itself, for the link.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invitation(…)")
    }
}

/// The reason why the first account was not created.
#[derive(Debug, thiserror::Error)]
pub enum FirstOwnerError {
    /// The invitation is unknown, used or expired, or there is an operator.
    #[error("the invitation is not valid")]
    NotInvited,
    /// The password is invalid.
    #[error(transparent)]
    Password(#[from] InvalidPassword),
    /// The account could not be created.
    #[error(transparent)]
    Admin(#[from] AdminError),
}

/// A valid invitation as the service keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Issued {
    fingerprint: [u8; 32],
    expires_at: Timestamp,
}

impl Issued {
    fn admits(self, secret: &str, now: Timestamp) -> bool {
        let fingerprint: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.fingerprint == fingerprint && now < self.expires_at
    }
}

/// The way to the first account. Cheap to clone.
#[derive(Clone)]
pub struct FirstOwner {
    admin: Admin,
    environment: ServiceEnvironment,
    issued: Arc<Mutex<Option<Issued>>>,
}

impl FirstOwner {
    /// Creates the way to the first account of this service, without an invitation.
    pub(crate) fn new(admin: &Admin, environment: &ServiceEnvironment) -> Self {
        Self { admin: admin.clone(), environment: environment.clone(), issued: Arc::default() }
    }

    /// Issues an invitation, which replaces the last one; `None` if there is an operator.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn issue_invitation(&self) -> Result<Option<Invitation>, AdminError> {
        if self.admin.has_operators().await? {
            return Ok(None);
        }
        let invitation = Invitation(hex::encode_hex(&self.environment.random_bytes::<32>()));
        let fingerprint = Sha256::digest(invitation.reveal().as_bytes()).into();
        let expires_at = self.environment.now().saturating_add(INVITATION_MAX);
        self.put_invitation(Some(Issued { fingerprint, expires_at }));
        Ok(Some(invitation))
    }

    /// Returns true if the secret belongs to the valid invitation, and no operator exists.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_invited(&self, secret: &str) -> Result<bool, AdminError> {
        let issued = *self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        let is_admitted = issued.is_some_and(|issued| issued.admits(secret, self.environment.now()));
        Ok(is_admitted && !self.admin.has_operators().await?)
    }

    /// Creates the account of the first operator, with a machine. Uses up the invitation if it succeeds.
    ///
    /// # Errors
    /// [`FirstOwnerError`].
    pub async fn create_owner(
        &self,
        secret: &str,
        email: &str,
        password: &str,
    ) -> Result<(), FirstOwnerError> {
        let mut taken = self.take_invitation(secret).ok_or(FirstOwnerError::NotInvited)?;
        let created = self.create_account(email, password).await;
        if matches!(created, Ok(()) | Err(FirstOwnerError::NotInvited)) {
            taken.issued = None;
        }
        created
    }

    async fn create_account(&self, email: &str, password: &str) -> Result<(), FirstOwnerError> {
        let password = Password::parse(password)?;
        let until = self.environment.now().saturating_add(LICENCE);
        let created = self.admin.create_first_operator(email, until, CREDITS, password).await?;
        created.map(|_| ()).ok_or(FirstOwnerError::NotInvited)
    }

    /// Takes the invitation, so that two requests at the same time cannot both use it.
    fn take_invitation(&self, secret: &str) -> Option<TakenInvitation<'_>> {
        let mut issued = self.issued.lock().unwrap_or_else(PoisonError::into_inner);
        let issued = issued.take_if(|issued| issued.admits(secret, self.environment.now()));
        issued.map(|issued| TakenInvitation { first_owner: self, issued: Some(issued) })
    }

    fn put_invitation(&self, invitation: Option<Issued>) {
        *self.issued.lock().unwrap_or_else(PoisonError::into_inner) = invitation;
    }
}

/// An invitation that is being used. Unless the account was created, dropping it makes the invitation valid again, also
/// if the request is dropped because the browser sends its form again.
struct TakenInvitation<'a> {
    first_owner: &'a FirstOwner,
    issued: Option<Issued>,
}

impl Drop for TakenInvitation<'_> {
    fn drop(&mut self) {
        if let Some(issued) = self.issued.take() {
            self.first_owner.put_invitation(Some(issued));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invitation_admits_secret_until_expiry() {
        let fingerprint = Sha256::digest(b"secret").into();
        let issued = Issued { fingerprint, expires_at: Timestamp::from_micros(10) };
        assert!(issued.admits("secret", Timestamp::from_micros(9)));
        assert!(!issued.admits("secret", Timestamp::from_micros(10)));
        assert!(!issued.admits("Secret", Timestamp::from_micros(9)));
        assert!(!issued.admits("", Timestamp::from_micros(9)));
    }
}
