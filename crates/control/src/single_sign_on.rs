//! Signing in at an identity provider (OpenID Connect). A user of the provider is bound to an account by issuer and subject:
//! at the first time by the email, which the provider must have verified, later by nothing else.

use std::sync::Arc;
use std::time::Duration;

use domain::account::AccountRole;
use domain::audit::AuditAction;
use domain::credits::Credits;
use domain::hex;
use domain::id::{AccountId, PostingId, UserId};
use domain::outgoing::OutgoingConfig;
use domain::time::Timestamp;
use egress::{Callback, Oidc, OidcConfig, OidcError, OidcIdentity, SignInRequest, TokenError};
use store::accounts::{self, AccountError, NewAccount, StoredAccount};
use store::audit::{self, AuditEntry};
use store::identities::{self, NewIdentity};
use store::{Sql, Store};
use workspace::Workspaces;

use crate::ServiceEnvironment;
use crate::data_folder::StartError;
use crate::error::UseCaseError;
use crate::sessions::{SessionSecret, SessionService, SignInError};

/// The configuration of signing in at an identity provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SingleSignOnConfig {
    pub provider: OidcConfig,
    /// The text of the button, in the operator's language.
    pub button: String,
    /// The accounts that are created; `None` if only existing accounts may sign in.
    pub new_accounts: Option<NewAccounts>,
    /// How the provider is connected.
    pub outgoing: OutgoingConfig,
}

/// The accounts that are created at the first sign-in of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccounts {
    /// The domains of emails whose users get an account, in lower case.
    pub domains: Vec<String>,
    /// The duration of the licence.
    pub licence: Duration,
    pub credits: Credits,
}

/// The reason why a user of the provider is not signed in.
#[derive(Debug, thiserror::Error)]
pub enum SingleSignOnError {
    /// No provider is configured.
    #[error("no identity provider is configured")]
    NotConfigured,
    /// The provider is unreachable, or its answer is invalid.
    #[error("the identity provider is unavailable")]
    Unavailable,
    /// The provider refused the user, or the user cancelled.
    #[error("the identity provider refused the sign-in")]
    Refused,
    /// This browser has not begun the sign-in, or the provider's response is invalid.
    #[error("the sign-in is not valid")]
    Invalid,
    /// The provider has not verified the email, or sent none.
    #[error("the email is not verified")]
    EmailNotVerified,
    /// The email belongs to an account that another user of the provider signs in to.
    #[error("the account belongs to another user of the identity provider")]
    BoundToAnother,
    /// The owner of the account with the email chose it, and no operator has confirmed that it is theirs.
    #[error("the email of the account is not confirmed")]
    EmailNotConfirmed,
    /// No account has this email.
    #[error("there is no account with this email")]
    NoAccount,
    #[error(transparent)]
    Failed(#[from] UseCaseError),
}

/// The secret of a sign-in that the browser keeps until the provider returns the user: 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInSecret([u8; 32]);

impl SignInSecret {
    /// Parses a secret; `None` if the text cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode_array::<32>(text).map(Self)
    }

    /// Returns the secret itself, for the user's browser.
    #[must_use]
    pub fn reveal(&self) -> String {
        hex::encode_hex(&self.0)
    }
}

/// Signs users in at the identity provider, if one is configured. Cheap to clone.
#[derive(Clone)]
pub struct SingleSignOn {
    provider: Option<Arc<ConfiguredProvider>>,
    store: Store,
    environment: ServiceEnvironment,
    workspaces: Workspaces,
    sessions: SessionService,
}

struct ConfiguredProvider {
    client: Oidc,
    config: SingleSignOnConfig,
}

/// The account that a user of the provider signs in to.
enum SignOnAccount {
    Account(StoredAccount),
    /// An account that was created for the user.
    New(StoredAccount),
    BoundToAnother,
    EmailNotConfirmed,
    Nobody,
}

impl SingleSignOn {
    /// Creates the sign-in at the configured provider.
    ///
    /// # Errors
    /// [`StartError::SingleSignOn`].
    pub(crate) fn new(
        config: Option<SingleSignOnConfig>,
        sessions: &SessionService,
    ) -> Result<Self, StartError> {
        let provider = |config: SingleSignOnConfig| {
            let client = Oidc::new(config.provider.clone()).map_err(StartError::SingleSignOn)?;
            let client = client.with_outgoing(&config.outgoing);
            Ok::<_, StartError>(Arc::new(ConfiguredProvider { client, config }))
        };
        Ok(Self {
            provider: config.map(provider).transpose()?,
            store: sessions.store.clone(),
            environment: sessions.environment.clone(),
            workspaces: sessions.workspaces.clone(),
            sessions: sessions.clone(),
        })
    }

    /// Returns the text of the button; `None` without a provider.
    #[must_use]
    pub fn button_text(&self) -> Option<&str> {
        self.provider.as_ref().map(|provider| provider.config.button.as_str())
    }

    /// Returns true if users come back over HTTPS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.provider
            .as_ref()
            .is_some_and(|provider| provider.config.provider.redirect_url.starts_with("https:"))
    }

    /// Begins a sign-in: returns the URL at the provider, and the secret that the browser keeps meanwhile.
    ///
    /// # Errors
    /// [`SingleSignOnError::NotConfigured`], [`SingleSignOnError::Unavailable`].
    pub async fn begin_sign_in(&self) -> Result<(String, SignInSecret), SingleSignOnError> {
        let provider = self.provider.as_ref().ok_or(SingleSignOnError::NotConfigured)?;
        let secret = SignInSecret(self.environment.random_bytes());
        let request = SignInRequest::from_secret(&secret.0);
        let url = provider.client.authorization_url(&request, self.environment.now()).await;
        Ok((url.map_err(log_refusal)?, secret))
    }

    /// Completes the sign-in that the secret began, and opens a session of this browser. Callers bound how often an address may try.
    ///
    /// # Errors
    /// [`SingleSignOnError`].
    pub async fn complete_sign_in(
        &self,
        secret: Option<&SignInSecret>,
        callback: Callback<'_>,
        browser: String,
    ) -> Result<SessionSecret, SingleSignOnError> {
        let provider = self.provider.as_ref().ok_or(SingleSignOnError::NotConfigured)?;
        let secret = secret.ok_or_else(|| log_refusal(OidcError::State))?;
        let request = SignInRequest::from_secret(&secret.0);
        let identity = provider.client.complete_sign_in(&request, callback, self.environment.now()).await;
        let identity = identity.map_err(log_refusal)?;
        let account = match self.find_or_create(provider, identity).await? {
            SignOnAccount::Account(account) => account,
            SignOnAccount::New(account) => {
                let provisioned = self.workspaces.provision(account.id, None).await;
                provisioned.map_err(UseCaseError::internal)?;
                account
            }
            SignOnAccount::BoundToAnother => return Err(SingleSignOnError::BoundToAnother),
            SignOnAccount::EmailNotConfirmed => return Err(SingleSignOnError::EmailNotConfirmed),
            SignOnAccount::Nobody => return Err(SingleSignOnError::NoAccount),
        };
        match self.sessions.open_for_identity(&account, browser).await {
            Ok(session) => Ok(session),
            Err(SignInError::Denied) => Err(SingleSignOnError::NoAccount),
            Err(SignInError::Failed(error)) => Err(SingleSignOnError::Failed(error)),
        }
    }

    /// Finds the account of a user, and binds or creates it at the first time.
    async fn find_or_create(
        &self,
        provider: &ConfiguredProvider,
        identity: OidcIdentity,
    ) -> Result<SignOnAccount, SingleSignOnError> {
        let now = self.environment.now();
        let new =
            provider.config.new_accounts.as_ref().filter(|new| is_admitted(&new.domains, &identity.email));
        let new = new.map(|new| NewAccount {
            account: AccountId::from_random(self.environment.random_bits()),
            user: UserId::from_random(self.environment.random_bits()),
            role: AccountRole::Owner,
            email: identity.email.clone(),
            licence_until: Some(now.saturating_add(new.licence)),
            grant: new.credits,
            posting: PostingId::from_random(self.environment.random_bits()),
            machine: true,
            now,
        });
        let found = self.store.write(move |tx| resolve_identity(tx, &identity, new.as_ref(), now)).await;
        found.map_err(|error| match error {
            AccountError::Store(error) => SingleSignOnError::Failed(error.into()),
            AccountError::NotFound | AccountError::EmailTaken => {
                SingleSignOnError::Failed(UseCaseError::internal(error))
            }
        })
    }
}

fn resolve_identity(
    tx: &mut dyn Sql,
    identity: &OidcIdentity,
    new: Option<&NewAccount>,
    now: Timestamp,
) -> Result<SignOnAccount, AccountError> {
    if let Some(account) = identities::find_identity_account(tx, &identity.issuer, &identity.subject)? {
        return Ok(accounts::find_account(tx, account)?.map_or(SignOnAccount::Nobody, SignOnAccount::Account));
    }
    let (account, is_new) = match (accounts::by_email(tx, &identity.email)?, new) {
        // Otherwise an owner who chooses another person's email shares the account with that person.
        (Some(account), _) if accounts::is_email_chosen(tx, account.user)? => {
            return Ok(SignOnAccount::EmailNotConfirmed);
        }
        (Some(account), _) => (account, false),
        (None, Some(new)) => (accounts::create_account(tx, new)?, true),
        (None, None) => return Ok(SignOnAccount::Nobody),
    };
    if is_new {
        let detail = format!("credits {}", new.map_or(0, |new| new.grant.0));
        audit::append_audit_entry(
            tx,
            &audit_entry(&account, now, AuditAction::CreateAccount, &account.email, &detail),
        )?;
    }
    let bound = NewIdentity {
        issuer: identity.issuer.clone(),
        subject: identity.subject.clone(),
        account: account.id,
        user: account.user,
        now,
    };
    if !identities::bind_identity(tx, &bound)? {
        return Ok(SignOnAccount::BoundToAnother);
    }
    audit::append_audit_entry(
        tx,
        &audit_entry(&account, now, AuditAction::BindIdentity, &identity.issuer, ""),
    )?;
    Ok(if is_new { SignOnAccount::New(account) } else { SignOnAccount::Account(account) })
}

/// Returns true if the email is of one of the domains.
fn is_admitted(domains: &[String], email: &str) -> bool {
    let domain = email.rsplit_once('@').map(|(_, domain)| domain.to_lowercase());
    domain.is_some_and(|domain| domains.contains(&domain))
}

/// Logs the cause for operators, and returns the error for the user.
fn log_refusal(error: OidcError) -> SingleSignOnError {
    tracing::warn!(%error, "sign-in at the identity provider failed");
    match error {
        OidcError::Unavailable(_) => SingleSignOnError::Unavailable,
        OidcError::Refused(_) => SingleSignOnError::Refused,
        OidcError::Token(TokenError::NoEmail | TokenError::EmailNotVerified) => {
            SingleSignOnError::EmailNotVerified
        }
        OidcError::State | OidcError::OtherIssuer | OidcError::Token(_) => SingleSignOnError::Invalid,
    }
}

fn audit_entry(
    account: &StoredAccount,
    at: Timestamp,
    action: AuditAction,
    subject: &str,
    detail: &str,
) -> AuditEntry {
    AuditEntry {
        at,
        account: Some(account.id),
        actor: account.email.clone(),
        action: action.as_str().to_owned(),
        subject: subject.to_owned(),
        detail: detail.to_owned(),
        trace: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domain_admits_own_emails_only() {
        let domains = ["example.org".to_owned()];
        for email in ["ada@example.org", "Ada@EXAMPLE.org", "\"a@b\"@example.org"] {
            assert!(is_admitted(&domains, email), "{email}");
        }
        for email in
            ["ada@evil.example.org", "ada@example.org.evil", "example.org", "ada@", "ada@notexample.org"]
        {
            assert!(!is_admitted(&domains, email), "{email}");
        }
    }

    #[test]
    fn sign_in_secret_round_trips() {
        let secret = SignInSecret([7; 32]);
        assert!(SignInSecret::parse(&secret.reveal()) == Some(secret));
        for wrong in ["", "07", &"x".repeat(64), &"0".repeat(66)] {
            assert!(SignInSecret::parse(wrong).is_none(), "{wrong}");
        }
    }
}
