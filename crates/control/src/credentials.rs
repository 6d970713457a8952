//! Changes of an owner's credentials: password and email. Each requires the present password.

use domain::audit::AuditAction;
use store::accounts::{self, AccountError, EmailSource, StoredAccount};
use store::audit::{self, AuditEntry};
use store::{Store, StoreError, sessions};

use crate::ServiceEnvironment;
use crate::account_deletion::AccountDeletion;
use crate::error::UseCaseError;
use crate::passwords::{InvalidPassword, Password, PasswordError, Passwords, Standing, Verified};
use crate::principal::Principal;
use crate::sessions::no_session;

/// The longest email, in bytes.
pub const EMAIL_MAX_BYTES: usize = 320;

/// The reason why credentials were not changed.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The current password is wrong.
    #[error("wrong password")]
    WrongPassword,
    /// The email that confirms a deletion is wrong.
    #[error("wrong email")]
    WrongEmail,
    /// The new password is invalid.
    #[error(transparent)]
    InvalidPassword(#[from] InvalidPassword),
    /// The text cannot be an email.
    #[error("invalid email")]
    InvalidEmail,
    /// Another user has this email.
    #[error("the email is taken")]
    EmailTaken,
    #[error(transparent)]
    Failed(#[from] UseCaseError),
}

impl From<StoreError> for CredentialsError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<AccountError> for CredentialsError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::EmailTaken => Self::EmailTaken,
            AccountError::NotFound => Self::Failed(UseCaseError::internal(error)),
            AccountError::Store(error) => error.into(),
        }
    }
}

/// The credentials of all owners. Cheap to clone. Callers bound how often a password may be tried.
#[derive(Clone)]
pub struct CredentialService {
    store: Store,
    environment: ServiceEnvironment,
    passwords: Passwords,
    deletion: AccountDeletion,
}

impl CredentialService {
    pub(crate) fn new(
        store: &Store,
        environment: &ServiceEnvironment,
        passwords: &Passwords,
        deletion: &AccountDeletion,
    ) -> Self {
        Self {
            store: store.clone(),
            environment: environment.clone(),
            passwords: passwords.clone(),
            deletion: deletion.clone(),
        }
    }

    /// Replaces the password. All sessions of the user end, the present one too.
    ///
    /// # Errors
    /// [`CredentialsError`].
    pub async fn change_password(
        &self,
        principal: &Principal,
        present: &str,
        new: &str,
    ) -> Result<(), CredentialsError> {
        let new = Password::parse(new)?;
        let verified = self.verify_present(principal, present).await?;
        let (user, entry) =
            (verified.account.user, self.audit_entry(&verified.account, AuditAction::ChangePassword));
        self.passwords.replace_password(user, new, Some(verified), entry).await.map_err(password_failure)
    }

    /// Replaces the email, by which the user signs in. Sessions stay. A user of an identity provider is not matched by it until
    /// an operator sets it.
    ///
    /// # Errors
    /// [`CredentialsError`].
    pub async fn change_email(
        &self,
        principal: &Principal,
        present: &str,
        email: &str,
    ) -> Result<(), CredentialsError> {
        let email = checked_email(email).ok_or(CredentialsError::InvalidEmail)?;
        let verified = self.verify_present(principal, present).await?;
        let entry = self.audit_entry(&verified.account, AuditAction::ChangeEmail);
        let changed = self.store.write(move |tx| {
            if !verified.still_holds(tx)? {
                return Ok(false);
            }
            accounts::set_email(tx, verified.account.user, &email, EmailSource::Owner)?;
            audit::append_audit_entry(tx, &entry)?;
            Ok::<_, AccountError>(true)
        });
        if changed.await? { Ok(()) } else { Err(CredentialsError::WrongPassword) }
    }

    /// Ends all sessions of the user, the present one too. Their open streams end within seconds.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn sign_out_everywhere(&self, principal: &Principal) -> Result<(), UseCaseError> {
        let account = self.find_account(principal).await?;
        let entry = self.audit_entry(&account, AuditAction::SignOutEverywhere);
        let ended = self.store.write(move |tx| {
            sessions::end_all(tx, account.user)?;
            audit::append_audit_entry(tx, &entry)
        });
        Ok(ended.await?)
    }

    /// Returns true if the user has a password, rather than signing in at the identity provider alone.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn has_password(&self, principal: &Principal) -> Result<bool, UseCaseError> {
        let user = self.find_account(principal).await?.user;
        Ok(self.store.read(move |tx| accounts::find_password_hash(tx, user)).await?.is_some())
    }

    /// Deletes the user's account, as [`Admin::delete_account`](crate::Admin::delete_account) does. A user without a
    /// password confirms it with the email.
    ///
    /// # Errors
    /// [`CredentialsError::WrongPassword`], [`CredentialsError::WrongEmail`] among others.
    pub async fn delete_account(
        &self,
        principal: &Principal,
        confirmation: &str,
    ) -> Result<(), CredentialsError> {
        let account = if self.has_password(principal).await? {
            self.verify_present(principal, confirmation).await?.account
        } else {
            let account = self.find_account(principal).await?;
            if confirmation.trim().to_lowercase() != account.email.to_lowercase() {
                return Err(CredentialsError::WrongEmail);
            }
            account
        };
        self.deletion.delete_account(&account, &account.email).await?;
        Ok(())
    }

    /// Returns the account of a principal whose present password this is.
    async fn verify_present(
        &self,
        principal: &Principal,
        present: &str,
    ) -> Result<Verified, CredentialsError> {
        let account = self.find_account(principal).await?;
        let present = Password::parse(present).map_err(|_| CredentialsError::WrongPassword)?;
        let verified = self
            .passwords
            .verify_password(&account.email, present, Standing::Known)
            .await
            .map_err(password_failure)?;
        verified.filter(|verified| verified.account.id == account.id).ok_or(CredentialsError::WrongPassword)
    }

    async fn find_account(&self, principal: &Principal) -> Result<StoredAccount, UseCaseError> {
        principal.session_id().ok_or_else(no_session)?;
        let account = principal.account();
        let found = self.store.read(move |tx| accounts::find_account(tx, account)).await?;
        found.ok_or_else(|| UseCaseError::internal("session of a missing account"))
    }

    fn audit_entry(&self, account: &StoredAccount, action: AuditAction) -> AuditEntry {
        AuditEntry {
            at: self.environment.now(),
            account: Some(account.id),
            actor: account.email.clone(),
            action: action.as_str().to_owned(),
            subject: account.email.clone(),
            detail: String::new(),
            trace: None,
        }
    }
}

fn password_failure(error: PasswordError) -> CredentialsError {
    CredentialsError::Failed(match error {
        PasswordError::Replaced => return CredentialsError::WrongPassword,
        PasswordError::Store(error) => error.into(),
        PasswordError::Busy | PasswordError::Ending => {
            UseCaseError::new(crate::PublicCode::Unavailable, error)
        }
        PasswordError::NoSuchAccount | PasswordError::Hash(_) => UseCaseError::internal(error),
    })
}

/// Returns an email without white space around it; `None` if the text cannot be one.
pub(crate) fn checked_email(text: &str) -> Option<String> {
    let email = text.trim();
    let (name, host) = email.rsplit_once('@')?;
    let is_plain = !email.chars().any(|c| c.is_whitespace() || c.is_control());
    // A quoted name may contain the sign.
    let is_one = !name.contains('@') || name.len() > 2 && name.starts_with('"') && name.ends_with('"');
    (is_plain && is_one && !name.is_empty() && !host.is_empty() && email.len() <= EMAIL_MAX_BYTES)
        .then(|| email.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn email_needs_name_and_host() {
        for right in ["ada@example.org", "a@b", "žofie.n+x@example.org", "\"a@b\"@example.org"] {
            assert_eq!(checked_email(&format!(" {right}\n")).as_deref(), Some(right));
        }
        for wrong in [
            "",
            "@",
            "ada",
            "a@@x",
            "a@b@example.org",
            "@@",
            "@example.org",
            "ada@",
            "a da@example.org",
            "ada@example.org\n.x",
        ]
        .into_iter()
        .chain(["a@b\u{7}", "a@b\0", "a\u{a0}@b", &"x@".repeat(161)])
        {
            assert_eq!(checked_email(wrong), None, "{wrong}");
        }
    }
}
