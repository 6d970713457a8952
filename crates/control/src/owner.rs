//! The operations of a signed-in owner on their own account: API keys, credits and usage.

use domain::audit::AuditAction;
use domain::credits::Balance;
use domain::id::{KeyId, PostingId};
use domain::key::SecretKey;
use domain::time::Timestamp;
use store::accounts::{self, StoredAccount};
use store::audit::{self, AuditEntry};
pub use store::credits::{LEDGER_PAGE_MAX, LedgerEntry};
use store::keys::{self, KeyError, NewKey};
pub use store::keys::{Spending, StoredKey};
pub use store::usage::KeyUsage;
use store::{Store, credits, usage};

use crate::api_keys::{CreatedKey, GRANT_MAX, KeyRestrictions, key_name};
use crate::error::{PublicCode, UseCaseError};
use crate::form_token::{self, FormToken};
use crate::principal::Principal;
use crate::sessions::no_session;
use crate::usage::UsageReport;
use crate::{Authenticator, ServiceEnvironment};

/// The owners' own operations. Cheap to clone.
#[derive(Clone)]
pub struct Owner {
    store: Store,
    environment: ServiceEnvironment,
    access: Authenticator,
}

impl Owner {
    /// Creates the operations on this store.
    pub(crate) fn new(store: &Store, environment: &ServiceEnvironment, access: &Authenticator) -> Self {
        Self { store: store.clone(), environment: environment.clone(), access: access.clone() }
    }

    /// Lists the account's keys, oldest first.
    ///
    /// # Errors
    /// [`PublicCode::Forbidden`] for the principal of a key, as for every operation here.
    pub async fn list_keys(&self, principal: &Principal) -> Result<Vec<StoredKey>, UseCaseError> {
        signed_in(principal)?;
        let account = principal.account();
        Ok(self.store.read(move |tx| keys::list_keys(tx, account)).await?)
    }

    /// Creates a key. The secret cannot be shown again later. `None` if a key was already created with the same token, which
    /// identifies the form that asks for it.
    ///
    /// # Errors
    /// [`PublicCode::BadRequest`] for a name or restriction that is invalid.
    pub async fn create_key(
        &self,
        principal: &Principal,
        name: &str,
        restrictions: KeyRestrictions,
        token: Option<FormToken>,
    ) -> Result<Option<CreatedKey>, UseCaseError> {
        signed_in(principal)?;
        let name = key_name(name).ok_or_else(|| {
            UseCaseError::invalid("invalid key name: it is empty, too long or contains control characters")
        })?;
        if restrictions.spending_limit.is_some_and(|limit| !(1..=GRANT_MAX).contains(&limit.0)) {
            return Err(UseCaseError::invalid(format_args!("invalid spending limit: use 1 to {GRANT_MAX}")));
        }
        let now = self.environment.now();
        let key = SecretKey::from_random(self.environment.random_bytes());
        let account = principal.account();
        let bits = token.map_or_else(
            || self.environment.random_bits(),
            |token| form_token::form_id_bits(b"key of a form", account, token),
        );
        let new = NewKey {
            id: KeyId::from_random(bits),
            account,
            user: principal.user(),
            name: name.to_owned(),
            fingerprint: key.fingerprint(),
            expires_at: restrictions.expires_at,
            scope: restrictions.scope,
            spending_limit: restrictions.spending_limit,
            now,
        };
        let id = new.id;
        let created = self.store.write(move |tx| {
            keys::create_key(tx, &new)?;
            let account = accounts::find_account(tx, new.account)?.ok_or(KeyError::NotFound)?;
            Ok::<_, KeyError>(audit::append_audit_entry(
                tx,
                &audit_entry(&account, now, AuditAction::CreateKey, id, &new.name),
            )?)
        });
        match created.await {
            Ok(()) => Ok(Some(CreatedKey { id, key })),
            Err(KeyError::AlreadyCreated) => Ok(None),
            Err(error) => Err(key_refusal(error)),
        }
    }

    /// Revokes a key of the account.
    ///
    /// # Errors
    /// [`PublicCode::NotFound`], also if it was already revoked.
    pub async fn revoke_key(&self, principal: &Principal, key: KeyId) -> Result<(), UseCaseError> {
        signed_in(principal)?;
        let (account, now) = (principal.account(), self.environment.now());
        let store = self.store.clone();
        let revoking = async move {
            let revoked = store.write(move |tx| {
                keys::revoke_key(tx, Some(account), key, now)?;
                let account = accounts::find_account(tx, account)?.ok_or(KeyError::NotFound)?;
                Ok::<_, KeyError>(audit::append_audit_entry(
                    tx,
                    &audit_entry(&account, now, AuditAction::RevokeKey, key, ""),
                )?)
            });
            revoked.await
        };
        self.access.apply_change(revoking).await.map_err(key_refusal)
    }

    /// Returns the available and reserved credits.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn account_balance(&self, principal: &Principal) -> Result<Balance, UseCaseError> {
        signed_in(principal)?;
        let account = principal.account();
        let balance = self.store.read(move |tx| credits::find_balance(tx, account)).await?;
        balance.ok_or_else(|| UseCaseError::internal("session of a missing account"))
    }

    /// Returns the usage of the account's answers from the day of a time on, in UTC.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn account_usage(
        &self,
        principal: &Principal,
        since: Timestamp,
    ) -> Result<UsageReport, UseCaseError> {
        signed_in(principal)?;
        let account = principal.account();
        let (rows, more) = self.store.read(move |tx| usage::of_days(tx, account, since)).await?;
        Ok(UsageReport::from_rows(&rows, !more))
    }
}

impl Owner {
    /// Returns the cost of the account's answers from the day of a time on by the key that asked. Most expensive first.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn usage_by_key(
        &self,
        principal: &Principal,
        since: Timestamp,
    ) -> Result<Vec<KeyUsage>, UseCaseError> {
        signed_in(principal)?;
        let account = principal.account();
        Ok(self.store.read(move |tx| usage::by_key(tx, account, since)).await?)
    }

    /// Returns postings of the account's ledger, newest first: `limit` (at most [`LEDGER_PAGE_MAX`]) from `offset` on.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn list_postings(
        &self,
        principal: &Principal,
        offset: u64,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>, UseCaseError> {
        signed_in(principal)?;
        let account = principal.account();
        Ok(self.store.read(move |tx| credits::list_postings(tx, account, offset, limit)).await?)
    }

    /// Returns the most recent postings of the account's ledger before one of them, newest first: at most
    /// [`LEDGER_PAGE_MAX`], without postings at the end whose transaction continues on the next page. `None` after the
    /// last page.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn ledger_page(
        &self,
        principal: &Principal,
        before: Option<(Timestamp, PostingId)>,
    ) -> Result<Option<PostingPage>, UseCaseError> {
        signed_in(principal)?;
        let account = principal.account();
        let mut entries = self
            .store
            .read(move |tx| match before {
                None => credits::list_postings(tx, account, 0, LEDGER_PAGE_MAX),
                Some(before) => credits::ledger_before(tx, account, before, LEDGER_PAGE_MAX),
            })
            .await?;
        let is_full = entries.len() == LEDGER_PAGE_MAX as usize;
        // The postings of a transaction have one time.
        if is_full && let Some(at) = entries.last().map(|entry| entry.at) {
            let whole = entries.iter().take_while(|entry| entry.at != at).count();
            entries.truncate(if whole > 0 { whole } else { entries.len() });
        }
        let next = entries.last().filter(|_| is_full).map(|entry| (entry.at, entry.id));
        Ok((!entries.is_empty()).then_some(PostingPage { entries, next }))
    }
}

/// A page of the ledger.
#[derive(Debug)]
pub struct PostingPage {
    pub entries: Vec<LedgerEntry>,
    /// The posting before which the next page begins.
    pub next: Option<(Timestamp, PostingId)>,
}

/// Requires a session. A key must not create, list or revoke keys, regardless of its scope.
fn signed_in(principal: &Principal) -> Result<(), UseCaseError> {
    if principal.session_id().is_some() { Ok(()) } else { Err(no_session()) }
}

fn key_refusal(error: KeyError) -> UseCaseError {
    match error {
        KeyError::NotFound => UseCaseError::new(PublicCode::NotFound, error),
        KeyError::NoLicence => UseCaseError::licence_ended(),
        KeyError::Ended | KeyError::TooMany | KeyError::AlreadyCreated => UseCaseError::invalid(error),
        KeyError::Store(error) => error.into(),
    }
}

fn audit_entry(
    account: &StoredAccount,
    at: Timestamp,
    action: AuditAction,
    key: KeyId,
    detail: &str,
) -> AuditEntry {
    AuditEntry {
        at,
        account: Some(account.id),
        actor: account.email.clone(),
        action: action.as_str().to_owned(),
        subject: key.to_string(),
        detail: detail.to_owned(),
        trace: None,
    }
}

#[cfg(test)]
mod tests {
    use domain::account::{AccountRole, Licence};
    use domain::id::{AccountId, SessionId, UserId};

    use super::*;

    #[test]
    fn owner_operations_need_session() {
        let now = Timestamp::from_micros(1_000);
        let account = StoredAccount {
            id: AccountId::from_random(1),
            user: UserId::from_random(2),
            role: AccountRole::Owner,
            email: "ada@example.test".to_owned(),
            licence: Licence { until: Some(Timestamp::from_micros(2_000)) },
            created_at: now,
            conversations: 0,
            has_machine: true,
        };
        let session = Principal::from_session(&account, SessionId::from_random(3).to_string(), now);
        assert!(signed_in(&session.expect("it is valid")).is_ok());
        let service = Principal::for_service(&account, now).expect("it is valid");
        assert_eq!(signed_in(&service).expect_err("it is no user").code(), PublicCode::Forbidden);
    }
}
