//! Deletes accounts: an account is closed in one transaction, and a [job](crate::jobs) removes its data.

use domain::audit::AuditAction;
use domain::id::{AccountId, JobId, MessageId};
use store::accounts::{self, AccountError, StoredAccount};
use store::audit::{self, AuditEntry};
use store::{Store, StoreError};

use crate::jobs::Jobs;
use crate::{Authenticator, ServiceEnvironment, Vm};

/// The parts of a running service that an operator's command affects at once.
#[derive(Clone)]
pub struct RunningService {
    pub(crate) vm: Vm,
    pub(crate) access: Authenticator,
    pub(crate) jobs: Jobs,
}

/// The deletion of accounts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AccountDeletion {
    store: Store,
    environment: ServiceEnvironment,
    running: Option<RunningService>,
}

impl AccountDeletion {
    /// Creates the deletion of accounts of this store. Without a running service, the next one completes deletions.
    pub(crate) fn new(
        store: Store,
        environment: ServiceEnvironment,
        running: Option<RunningService>,
    ) -> Self {
        Self { store, environment, running }
    }

    /// Closes the account: its keys and sessions end, its answers stop, its email is free. Its data is removed in the
    /// background. Returns `false` if it was closed already. Dropping the future does not interrupt it.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn delete_account(
        &self,
        account: &StoredAccount,
        actor: &str,
    ) -> Result<bool, StoreError> {
        let (this, id) = (self.clone(), account.id);
        let entry = AuditEntry {
            at: self.environment.now(),
            account: Some(id),
            actor: actor.to_owned(),
            action: AuditAction::DeleteAccount.as_str().to_owned(),
            subject: id.to_string(),
            detail: String::new(),
            trace: None,
        };
        let closing = async move {
            let closed = this.close_account(id, entry).await?;
            if let (Some(answers), Some(running)) = (&closed, &this.running) {
                running.access.invalidate_cache();
                for answer in answers {
                    running.vm.dispatch.stop_answer(*answer);
                }
                running.jobs.wake_up();
            }
            Ok(closed.is_some())
        };
        match &self.running {
            Some(running) => {
                running.vm.background.see_through(closing).await.unwrap_or(Err(StoreError::Panicked))
            }
            None => closing.await,
        }
    }

    /// Closes the account and returns its answers in progress; `None` if it was closed already.
    async fn close_account(
        &self,
        id: AccountId,
        entry: AuditEntry,
    ) -> Result<Option<Vec<MessageId>>, StoreError> {
        let now = entry.at;
        let job = JobId::made_at(now, self.environment.random_bits());
        let closed = self.store.write(move |tx| {
            let answers = accounts::close_account(tx, id, job, now)?;
            audit::append_audit_entry(tx, &entry)?;
            Ok::<_, AccountError>(answers)
        });
        match closed.await {
            Ok(answers) => Ok(Some(answers)),
            Err(AccountError::NotFound | AccountError::EmailTaken) => Ok(None),
            Err(AccountError::Store(error)) => Err(error),
        }
    }
}
