//! Creates, lists and revokes the keys of accounts.

use domain::audit::AuditAction;
use domain::id::KeyId;
use domain::key::SecretKey;
use domain::scope::Scope;
use store::audit;
use store::keys::{self, KeyError, NewKey, StoredKey};

use super::{Admin, AdminError, CreatedKey, KeyRestrictions};
use crate::api_keys::{GRANT_MAX, key_name};

impl Admin {
    /// Creates a key. The secret cannot be shown again later.
    ///
    /// # Errors
    /// [`AdminError::NotAName`], [`AdminError::NotAnAmount`], [`KeyError::NoLicence`] among others.
    pub async fn create_key(
        &self,
        account: &str,
        name: &str,
        bounds: KeyRestrictions,
    ) -> Result<CreatedKey, AdminError> {
        let name = key_name(name).ok_or(AdminError::NotAName)?;
        if bounds.spending_limit.is_some_and(|limit| !(1..=GRANT_MAX).contains(&limit.0)) {
            return Err(AdminError::NotAnAmount);
        }
        let account = self.find_account(account).await?;
        let key = SecretKey::from_random(self.environment.random_bytes());
        let new = NewKey {
            id: KeyId::from_random(self.environment.random_bits()),
            account: account.id,
            user: Some(account.user),
            name: name.to_owned(),
            fingerprint: key.fingerprint(),
            expires_at: bounds.expires_at,
            scope: bounds.scope,
            spending_limit: bounds.spending_limit,
            now: self.environment.now(),
        };
        let id = new.id;
        let noted = self.audit_entry(
            Some(account.id),
            AuditAction::CreateKey,
            &id.to_string(),
            &describe_key(name, bounds),
        );
        let made = self.store.write(move |tx| {
            keys::create_key(tx, &new)?;
            Ok::<_, KeyError>(audit::append_audit_entry(tx, &noted)?)
        });
        made.await?;
        Ok(CreatedKey { id, key })
    }

    /// Lists the account's keys.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn list_keys(&self, account: &str) -> Result<Vec<StoredKey>, AdminError> {
        let account = self.find_account(account).await?.id;
        Ok(self.store.read(move |tx| keys::list_keys(tx, account)).await?)
    }

    /// Revokes a key: further calls with it are refused, and open streams end within seconds.
    ///
    /// # Errors
    /// [`KeyError::NotFound`].
    pub async fn revoke_key(&self, key: KeyId) -> Result<(), AdminError> {
        let now = self.environment.now();
        let noted = self.audit_entry(None, AuditAction::RevokeKey, &key.to_string(), "");
        let store = self.store.clone();
        let revoking = async move {
            let revoked = store.write(move |tx| {
                let account = Some(keys::revoke_key(tx, None, key, now)?);
                Ok::<_, KeyError>(audit::append_audit_entry(
                    tx,
                    &audit::AuditEntry { account, ..noted.clone() },
                )?)
            });
            revoked.await
        };
        Ok(self.change_keys(revoking).await?)
    }
}

/// Describes a key for the audit log: its name and its restrictions.
fn describe_key(name: &str, bounds: KeyRestrictions) -> String {
    let mut text = name.to_owned();
    if bounds.scope != Scope::ALL {
        text = format!("{text}; scope {}", bounds.scope);
    }
    if let Some(end) = bounds.expires_at {
        text = format!("{text}; until {end}");
    }
    if let Some(limit) = bounds.spending_limit {
        text = format!("{text}; spending limit {}", limit.0);
    }
    text
}
