//! The operations of operators on accounts, keys, licences, credits, machines and backups. Each writes to the audit
//! log.

mod console;
mod keys;
mod machines;

use std::path::Path;

use domain::account::AccountRole;
use domain::audit::AuditAction;
use domain::credits::{Balance, Credits};
use domain::id::{AccountId, JobId, PostingId, UserId};
use domain::time::Timestamp;
use machine::{DriverError, MachineFolders, SupervisorError};
use store::accounts::{self, AccountError, EmailSource, NewAccount, StoredAccount};
use store::credits::{self, GrantError};
use store::jobs::{self, FailedJob};
use store::keys::KeyError;
use store::{Store, StoreError, audit, usage};
use workspace::{WorkspaceError, Workspaces};

pub use self::console::ConsoleOutput;
pub use self::machines::{MachineSummary, ShownMachine, stop_left_over};
pub use crate::api_keys::{CreatedKey, KeyRestrictions};

use crate::ServiceEnvironment;
use crate::account_deletion::{AccountDeletion, RunningService};
use crate::api_keys::{GRANT_MAX, KEY_NAME_MAX_BYTES};
use crate::backup::{self, BackupError, BackupReport, Summary};
use crate::credentials::{EMAIL_MAX_BYTES, checked_email};
use crate::form_token::{self, FormToken};
use crate::passwords::{Password, PasswordError, Passwords};
use crate::usage::UsageReport;

/// The error of an operator's command.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// No account has this email or identifier.
    #[error("there is no account {0:?}")]
    NoSuchAccount(String),
    /// The text is not an email.
    #[error("{0:?} is not an email address")]
    NotAnEmail(String),
    /// The name of a key is empty, too long, or has control characters.
    #[error("invalid name: use 1 to {KEY_NAME_MAX_BYTES} bytes without control characters")]
    NotAName,
    /// The amount is zero or exceeds [`GRANT_MAX`].
    #[error("invalid amount of credits: use 1 to {GRANT_MAX}")]
    NotAnAmount,
    /// The licence would end in the past.
    #[error("licence expiry is in the past: give a later time")]
    Past,
    /// Another account has the email.
    #[error("an account with this email already exists")]
    EmailTaken,
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The key could not be created or revoked.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The workspace could not be created.
    #[error("the workspace could not be created: {0}")]
    Workspace(#[from] WorkspaceError),
    /// The password could not be stored.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// Starting or stopping the machine failed.
    #[error(transparent)]
    Machine(#[from] SupervisorError),
    /// The machine's processes or files could not be read or stopped.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Some machines could not be stopped; the others were.
    #[error("{failed} of {running} machines could not be stopped, the first because: {first}")]
    NotAllStopped { failed: usize, running: usize, first: Box<AdminError> },
    /// Only a running service can do it.
    #[error("the service is not running: start it with `causerie serve`")]
    NoService,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The operations of operators. Works with and without a running service. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    store: Store,
    environment: ServiceEnvironment,
    workspaces: Workspaces,
    passwords: Passwords,
    machine_folders: MachineFolders,
    running: Option<RunningService>,
    pub(crate) deletion: AccountDeletion,
    /// The operator, as named in the audit log.
    actor: String,
}

/// An account that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedAccount {
    pub id: AccountId,
    /// The email of its owner; `None` if it was deleted before.
    pub email: Option<String>,
}

/// The number of accounts that are read at once.
const ACCOUNTS_PAGE: u32 = 500;

impl Admin {
    /// Creates the operations on this store; `running` holds the machines and keys of a running service.
    #[must_use]
    pub fn new(
        store: Store,
        environment: ServiceEnvironment,
        workspaces: Workspaces,
        machine_folders: MachineFolders,
        running: Option<RunningService>,
    ) -> Self {
        let passwords = Passwords::new(store.clone(), environment.clone());
        let deletion = AccountDeletion::new(store.clone(), environment.clone(), running.clone());
        let actor = "operator".to_owned();
        Self { store, environment, workspaces, passwords, machine_folders, running, deletion, actor }
    }

    /// Creates an account with its owner, its first credits, its workspace and, if wanted, the owner's password and a
    /// machine.
    ///
    /// # Errors
    /// [`AdminError::NotAnEmail`], [`AdminError::NotAnAmount`], [`AdminError::Past`], [`AdminError::EmailTaken`].
    pub async fn create_account(
        &self,
        email: &str,
        licence_until: Option<Timestamp>,
        grant: Credits,
        password: Option<Password>,
        machine: bool,
    ) -> Result<StoredAccount, AdminError> {
        let new = self.new_account(email, licence_until, grant, machine)?;
        let created = self.store_account(new, password, false).await?;
        created.ok_or_else(|| AdminError::NoSuchAccount(email.to_owned()))
    }

    /// Creates the first operator's account, with a machine. Returns `None` if there is an operator.
    ///
    /// # Errors
    /// Like [`Admin::create_account`].
    pub async fn create_first_operator(
        &self,
        email: &str,
        licence_until: Timestamp,
        grant: Credits,
        password: Password,
    ) -> Result<Option<StoredAccount>, AdminError> {
        let new = self.new_account(email, Some(licence_until), grant, true)?;
        self.store_account(NewAccount { role: AccountRole::Operator, ..new }, Some(password), true).await
    }

    fn new_account(
        &self,
        email: &str,
        licence_until: Option<Timestamp>,
        grant: Credits,
        machine: bool,
    ) -> Result<NewAccount, AdminError> {
        let email = parse_email(email)?;
        if grant > Credits(GRANT_MAX) {
            return Err(AdminError::NotAnAmount);
        }
        if licence_until.is_some_and(|until| until <= self.environment.now()) {
            return Err(AdminError::Past);
        }
        Ok(NewAccount {
            account: AccountId::from_random(self.environment.random_bits()),
            user: UserId::from_random(self.environment.random_bits()),
            role: AccountRole::Owner,
            email,
            licence_until,
            grant,
            posting: PostingId::from_random(self.environment.random_bits()),
            machine,
            now: self.environment.now(),
        })
    }

    /// Stores a new account and creates its workspace. Returns `None` if it must be the first one, but other accounts
    /// exist.
    async fn store_account(
        &self,
        new: NewAccount,
        password: Option<Password>,
        must_be_first: bool,
    ) -> Result<Option<StoredAccount>, AdminError> {
        let hash = match password {
            Some(password) => Some(self.passwords.hash_password(password).await?),
            None => None,
        };
        let email = new.email.clone();
        let noted = self.audit_entry(
            Some(new.account),
            AuditAction::CreateAccount,
            &email,
            &format!("credits {}", new.grant.0),
        );
        let made = self.store.write(move |tx| {
            if must_be_first && accounts::any_operator(tx)? {
                return Ok(None);
            }
            let made = accounts::create_account(tx, &new)?;
            if let Some(hash) = &hash {
                accounts::set_password(tx, made.user, hash.as_str())?;
            }
            audit::append_audit_entry(tx, &noted)?;
            Ok(Some(made))
        });
        let made = made.await.map_err(|error| match error {
            AccountError::EmailTaken => AdminError::EmailTaken,
            AccountError::NotFound => AdminError::NoSuchAccount(email),
            AccountError::Store(error) => AdminError::Store(error),
        })?;
        if let Some(account) = &made {
            // The service's own user owns the files that machines write there, because the id mapping translates their
            // users.
            self.workspaces.provision(account.id, None).await?;
        }
        Ok(made)
    }

    /// Replaces the email of the account's owner, or confirms it: a user of an identity provider is matched by it.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::NotAnEmail`], [`AdminError::EmailTaken`].
    pub async fn set_email(&self, account: &str, email: &str) -> Result<StoredAccount, AdminError> {
        let account = self.find_account(account).await?;
        let email = parse_email(email)?;
        let (id, user, new) = (account.id, account.user, email.clone());
        let noted = self.audit_entry(Some(id), AuditAction::SetEmail, &account.email, &email);
        let set = self.store.write(move |tx| {
            accounts::set_email(tx, user, &new, EmailSource::Operator)?;
            Ok::<_, AccountError>(audit::append_audit_entry(tx, &noted)?)
        });
        set.await.map_err(|error| match error {
            AccountError::Store(error) => AdminError::Store(error),
            AccountError::NotFound | AccountError::EmailTaken => AdminError::EmailTaken,
        })?;
        Ok(StoredAccount { email, ..account })
    }

    /// Sets the role of the account's owner: operators see and change all accounts in the web application.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn set_role(&self, account: &str, role: AccountRole) -> Result<StoredAccount, AdminError> {
        let account = self.find_account(account).await?;
        let (id, user) = (account.id, account.user);
        let noted = self.audit_entry(Some(id), AuditAction::SetRole, &account.email, role.as_str());
        let set = self.store.write(move |tx| {
            accounts::set_role(tx, user, role)?;
            audit::append_audit_entry(tx, &noted)
        });
        set.await?;
        Ok(StoredAccount { role, ..account })
    }

    /// Finds the account with this email or identifier.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn find_account(&self, named: &str) -> Result<StoredAccount, AdminError> {
        let email = named.to_owned();
        let id = named.parse::<AccountId>().ok();
        let found = self.store.read(move |tx| match id {
            Some(id) => accounts::find_account(tx, id),
            None => accounts::by_email(tx, &email),
        });
        found.await?.ok_or_else(|| AdminError::NoSuchAccount(named.to_owned()))
    }

    /// Returns true if there is an operator.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn has_operators(&self) -> Result<bool, AdminError> {
        Ok(self.store.read(accounts::any_operator).await?)
    }

    /// Lists every account with its credits.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_accounts(&self) -> Result<Vec<(StoredAccount, Balance)>, AdminError> {
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let page = self.store.read(move |tx| accounts::list_accounts(tx, after, ACCOUNTS_PAGE)).await?;
            let Some((last, _)) = page.last() else { return Ok(listed) };
            after = Some(last.id);
            listed.extend(page);
        }
    }

    /// Replaces the password of the account's owner.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`], [`AdminError::Password`].
    pub async fn set_password(&self, account: &str, password: Password) -> Result<StoredAccount, AdminError> {
        let account = self.find_account(account).await?;
        let entry = self.audit_entry(Some(account.id), AuditAction::SetPassword, &account.email, "");
        self.passwords.replace_password(account.user, password, None, entry).await?;
        Ok(account)
    }

    /// Deletes an account: closes it at once, and removes its data in the background. Its postings and its entries in
    /// the audit log stay, without its email. Repeating it with the identifier changes nothing.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn delete_account(&self, named: &str) -> Result<DeletedAccount, AdminError> {
        let account = match self.find_account(named).await {
            Ok(account) => account,
            Err(error) => return self.deleted_before(named).await?.ok_or(error),
        };
        self.deletion.delete_account(&account, &self.actor).await?;
        Ok(DeletedAccount { id: account.id, email: Some(account.email) })
    }

    async fn deleted_before(&self, named: &str) -> Result<Option<DeletedAccount>, AdminError> {
        let Ok(id) = named.parse::<AccountId>() else { return Ok(None) };
        let is_closed = self.store.read(move |tx| accounts::is_closed(tx, id)).await?;
        Ok(is_closed.then_some(DeletedAccount { id, email: None }))
    }

    /// Sets the end of the account's licence; a time in the past ends it.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn set_licence(
        &self,
        account: &str,
        until: Option<Timestamp>,
    ) -> Result<StoredAccount, AdminError> {
        let account = self.find_account(account).await?;
        let id = account.id;
        let end = until.map_or_else(|| "none".to_owned(), |until| until.to_string());
        let noted = self.audit_entry(Some(id), AuditAction::SetLicence, &account.email, &end);
        let store = self.store.clone();
        let setting = async move {
            let set = store.write(move |tx| {
                accounts::set_licence(tx, id, until)?;
                Ok::<_, AccountError>(audit::append_audit_entry(tx, &noted)?)
            });
            set.await
        };
        self.change_keys(setting).await.map_err(|error| match error {
            AccountError::Store(error) => AdminError::Store(error),
            AccountError::NotFound | AccountError::EmailTaken => {
                AdminError::NoSuchAccount(account.email.clone())
            }
        })?;
        self.find_account(&id.to_string()).await
    }

    /// Grants credits to the account, once for each token, which identifies the form that was sent.
    ///
    /// # Errors
    /// [`AdminError::NotAnAmount`], [`AdminError::NoSuchAccount`].
    pub async fn grant_credits(
        &self,
        account: &str,
        amount: Credits,
        token: Option<FormToken>,
    ) -> Result<Balance, AdminError> {
        if !(1..=GRANT_MAX).contains(&amount.0) {
            return Err(AdminError::NotAnAmount);
        }
        let account = self.find_account(account).await?;
        let (id, now) = (account.id, self.environment.now());
        let posting = PostingId::from_random(token.map_or_else(
            || self.environment.random_bits(),
            |token| form_token::form_id_bits(b"grant of a form", id, token),
        ));
        let noted =
            self.audit_entry(Some(id), AuditAction::GrantCredits, &account.email, &amount.0.to_string());
        let granted = self.store.write(move |tx| {
            if credits::is_posted(tx, id, posting)? {
                return credits::find_balance(tx, id)?.ok_or(GrantError::NotFound);
            }
            let balance = credits::grant_credits(tx, id, posting, amount, now)?;
            audit::append_audit_entry(tx, &noted)?;
            Ok(balance)
        });
        granted.await.map_err(|error| match error {
            GrantError::NotFound => AdminError::NoSuchAccount(account.email),
            GrantError::Store(error) => AdminError::Store(error),
        })
    }

    /// Returns the account's available and reserved credits.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn account_balance(&self, account: &str) -> Result<Balance, AdminError> {
        let id = self.find_account(account).await?.id;
        let balance = self.store.read(move |tx| credits::find_balance(tx, id)).await?;
        balance.ok_or_else(|| AdminError::NoSuchAccount(account.to_owned()))
    }

    /// Returns the usage of the account's answers since a time, by day, by model, and in total.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn account_usage(&self, account: &str, since: Timestamp) -> Result<UsageReport, AdminError> {
        let id = self.find_account(account).await?.id;
        let (rows, more) = self.store.read(move |tx| usage::by_day_and_model(tx, id, since)).await?;
        Ok(UsageReport::from_rows(&rows, !more))
    }

    /// Writes the database and files to `to`, which must not exist, while the service runs.
    ///
    /// # Errors
    /// [`AdminError::Backup`].
    pub async fn write_backup(&self, to: &Path) -> Result<BackupReport, AdminError> {
        let (database, workspaces) = (self.store.exporter(), self.workspaces.clone());
        let (file, now) = (to.to_owned(), self.environment.now());
        let writing =
            tokio::task::spawn_blocking(move || backup::write_backup(&database, &workspaces, &file, now));
        let written = writing.await.unwrap_or(Err(BackupError::Store(StoreError::Panicked)))?;
        let Summary { files, bytes, left_out, .. } = written.summary;
        for file in &written.left_out_files {
            tracing::warn!(path = file.path, reason = file.reason, "file omitted from backup");
        }
        let detail = format!("files {files}, bytes {bytes}, left out {left_out}");
        self.record_audit(None, AuditAction::Backup, &to.display().to_string(), &detail).await?;
        Ok(written)
    }

    /// Carries out a change of keys or licences, after which the running service reads them again.
    async fn change_keys<T: Send + 'static, E: From<StoreError> + Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        match &self.running {
            Some(running) => running.access.apply_change(change).await,
            None => change.await,
        }
    }

    /// Lists audit log entries, newest first, filtered by account (email or identifier), start time and entry number.
    ///
    /// # Errors
    /// [`AdminError::NoSuchAccount`].
    pub async fn list_audit_entries(
        &self,
        account: Option<&str>,
        since: Option<Timestamp>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<(i64, audit::AuditEntry)>, AdminError> {
        let account = match account {
            Some(named) => Some(self.find_account(named).await?.id),
            None => None,
        };
        let wanted = audit::AuditFilter { account, since, before, limit };
        Ok(self.store.read(move |tx| audit::list_audit_entries(tx, &wanted)).await?)
    }

    /// Returns the background jobs that have failed permanently, newest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_failed_jobs(&self, limit: u32) -> Result<Vec<FailedJob>, AdminError> {
        Ok(self.store.read(move |tx| jobs::list_failed(tx, limit)).await?)
    }

    /// Retries a job that has failed permanently. Returns `false` if the job does not exist.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn retry_job(&self, job: JobId) -> Result<bool, AdminError> {
        let now = self.environment.now();
        let noted = self.audit_entry(None, AuditAction::RetryJob, &job.to_string(), "");
        let retry = move |tx: &mut dyn store::Sql| {
            let is_retried = jobs::retry_failed(tx, job, now)?;
            if is_retried {
                audit::append_audit_entry(tx, &noted)?;
            }
            Ok::<_, StoreError>(is_retried)
        };
        Ok(self.store.write(retry).await?)
    }

    /// Returns the same operations with another name in the audit log.
    #[must_use]
    pub fn with_actor(&self, actor: String) -> Self {
        Self { actor, ..self.clone() }
    }

    async fn record_audit(
        &self,
        account: Option<AccountId>,
        action: AuditAction,
        subject: &str,
        detail: &str,
    ) -> Result<(), AdminError> {
        let entry = self.audit_entry(account, action, subject, detail);
        Ok(self.store.write(move |tx| audit::append_audit_entry(tx, &entry)).await?)
    }

    fn audit_entry(
        &self,
        account: Option<AccountId>,
        action: AuditAction,
        subject: &str,
        detail: &str,
    ) -> audit::AuditEntry {
        audit::AuditEntry {
            at: self.environment.now(),
            account,
            actor: self.actor.clone(),
            action: action.as_str().to_owned(),
            subject: subject.to_owned(),
            detail: detail.to_owned(),
            trace: None,
        }
    }
}

/// Returns an email without white space around it.
fn parse_email(text: &str) -> Result<String, AdminError> {
    checked_email(text).ok_or_else(|| AdminError::NotAnEmail(text.chars().take(EMAIL_MAX_BYTES).collect()))
}
