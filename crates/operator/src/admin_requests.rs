//! Carries out operators' requests, in the service or, if none runs, on its data folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use control::admin::KeyRestrictions;
use control::passwords::Password;
use control::{Admin, Catalog, CauserieService};
use domain::account::AccountRole;
use domain::credits::{Balance, Credits};
use domain::scope::{Permission, Scope};
use domain::time::Timestamp;
use serde_json::{Value, json};
use settings::ServiceSettings;
use store::accounts::StoredAccount;
use store::audit::AuditEntry;
use store::jobs::FailedJob;
use store::keys::StoredKey;

use crate::checks::{self, HostChecks};
use crate::error::CliError;
use crate::request::{AdminRequest, RequestSecret};
use crate::{machine_commands, model_list, usage};

/// Facts about the running service for its operators.
#[derive(Clone)]
pub struct ServiceFacts {
    pub catalog: Arc<Catalog>,
    pub settings: Arc<ServiceSettings>,
    pub service: Arc<CauserieService>,
    /// The URL at which it listens.
    pub address: String,
    pub started_at: Timestamp,
    /// The machine driver.
    pub driver: Arc<machine::Driver>,
    /// Checks the host.
    pub host_checks: HostChecks,
}

fn no_service() -> CliError {
    CliError::new(
        "SERVICE_UNREACHABLE",
        "no service is running on this data folder: start one with `causerie serve`",
    )
}

/// Carries out a request and returns the result as one JSON object.
pub async fn execute_request(
    admin: &Admin,
    service: Option<&ServiceFacts>,
    request: AdminRequest,
) -> Result<Value, CliError> {
    Ok(match request {
        AdminRequest::CreateAccount { email, licence_until, credits, operator, password: typed, machine } => {
            let until = licence_until.map(Timestamp::from_micros);
            let typed = typed.map(parse_password).transpose()?;
            let made = admin.create_account(&email, until, Credits(credits), typed, machine).await?;
            let role = if operator { AccountRole::Operator } else { AccountRole::Owner };
            set_first_role(admin, &made, role).await?;
            json!({ "accountId": made.id.to_string(), "email": made.email, "role": role.as_str() })
        }
        AdminRequest::RunChecks => run_checks(service.ok_or_else(no_service)?).await,
        AdminRequest::ListAccounts => {
            let accounts = admin.list_accounts().await?;
            let listed: Vec<Value> =
                accounts.iter().map(|(account, credits)| listed_account(account, *credits)).collect();
            json!({ "accounts": listed })
        }
        AdminRequest::ShowAccount { account } => show_account(admin, &account).await?,
        AdminRequest::ShowStatus => service_status_json(admin, service.ok_or_else(no_service)?).await?,
        AdminRequest::SetPassword { account, password: typed } => {
            let set = admin.set_password(&account, parse_password(typed)?).await?;
            json!({ "accountId": set.id.to_string(), "email": set.email })
        }
        AdminRequest::SetEmail { account, email } => {
            let set = admin.set_email(&account, &email).await?;
            json!({ "accountId": set.id.to_string(), "email": set.email })
        }
        AdminRequest::SetRole { account, role } => {
            let wrong = || CliError::new("INVALID_ROLE", format!("no role {role:?}: use owner or operator"));
            let set = admin.set_role(&account, AccountRole::parse(&role).ok_or_else(wrong)?).await?;
            json!({ "accountId": set.id.to_string(), "email": set.email, "role": role })
        }
        AdminRequest::DeleteAccount { account } => {
            let deleted = admin.delete_account(&account).await?;
            json!({ "accountId": deleted.id.to_string(), "email": deleted.email, "deleted": true })
        }
        AdminRequest::CreateKey { account, name, expires, scope, spending_limit } => {
            let bounds = parse_key_restrictions(expires, scope.as_deref(), spending_limit)?;
            let made = admin.create_key(&account, &name, bounds).await?;
            json!({ "keyId": made.id.to_string(), "key": made.key.reveal() })
        }
        AdminRequest::ListKeys { account } => {
            let keys = admin.list_keys(&account).await?;
            json!({ "keys": keys.iter().map(listed_key).collect::<Vec<_>>() })
        }
        AdminRequest::RevokeKey { key } => {
            let id = key.parse().map_err(|_| {
                CliError::new("NO_SUCH_KEY", format!("{key:?} is not a key id: see `causerie key list`"))
            })?;
            admin.revoke_key(id).await?;
            json!({ "keyId": key, "revoked": true })
        }
        AdminRequest::SetLicence { account, until } => {
            let until = until.map(Timestamp::from_micros);
            let set = admin.set_licence(&account, until).await?;
            let until = set.licence.until.map(|until| until.to_string());
            json!({ "accountId": set.id.to_string(), "email": set.email, "licenceUntil": until })
        }
        AdminRequest::Grant { account, amount } => {
            balance_json(admin.grant_credits(&account, Credits(amount), None).await?)
        }
        AdminRequest::ShowCredits { account } => balance_json(admin.account_balance(&account).await?),
        AdminRequest::ShowUsage { account, since } => {
            let since = since.map(Timestamp::from_micros);
            let report = admin.account_usage(&account, since.unwrap_or(Timestamp::from_micros(0))).await?;
            usage::to_json(since, &report)
        }
        AdminRequest::ListModels => model_list::to_json(&service.ok_or_else(no_service)?.catalog, None),
        AdminRequest::ListMachines
        | AdminRequest::ShowMachine { .. }
        | AdminRequest::StartMachine { .. }
        | AdminRequest::StopMachine { .. }
        | AdminRequest::StopAllMachines
        | AdminRequest::RunInMachine { .. }
        | AdminRequest::ShowMachineLog { .. }
        | AdminRequest::ResetMachine { .. } => {
            machine_commands::execute_machine_request(admin, request).await?
        }
        AdminRequest::ListAudit { account, since, before, limit } => {
            let since = since.map(Timestamp::from_micros);
            let entries = admin.list_audit_entries(account.as_deref(), since, before, limit).await?;
            let full = entries.len() == limit as usize;
            let next = entries.last().filter(|_| full).map(|(number, _)| *number);
            json!({ "entries": entries.iter().map(audit_entry_json).collect::<Vec<_>>(), "next": next })
        }
        AdminRequest::ListFailedJobs { limit } => {
            let jobs = admin.list_failed_jobs(limit).await?;
            json!({ "jobs": jobs.iter().map(failed_job).collect::<Vec<_>>() })
        }
        AdminRequest::RetryJob { job } => retry_job(admin, &job).await?,
        AdminRequest::Backup { file } => with_file(&file, admin.write_backup(&file).await?),
    })
}

fn parse_key_restrictions(
    expires: Option<i64>,
    scope: Option<&str>,
    spending_limit: Option<u64>,
) -> Result<KeyRestrictions, CliError> {
    let scope = scope.map_or(Ok(Scope::ALL), Scope::parse);
    Ok(KeyRestrictions {
        expires_at: expires.map(Timestamp::from_micros),
        scope: scope.map_err(|error| CliError::new("INVALID_SCOPE", error.to_string()))?,
        spending_limit: spending_limit.map(Credits),
    })
}

async fn run_checks(service: &ServiceFacts) -> Value {
    let checks =
        Box::pin(checks::check_service(&service.settings, &service.service, service.host_checks)).await;
    json!({ "checks": checks })
}

/// Sets the role of a new account, which is initially that of an owner.
async fn set_first_role(admin: &Admin, made: &StoredAccount, role: AccountRole) -> Result<(), CliError> {
    if role != AccountRole::Owner {
        admin.set_role(&made.email, role).await?;
    }
    Ok(())
}

async fn retry_job(admin: &Admin, job: &str) -> Result<Value, CliError> {
    let wrong = || CliError::new("NO_SUCH_JOB", format!("no failed job {job:?}"));
    if !admin.retry_job(job.parse().map_err(|_| wrong())?).await? {
        return Err(wrong());
    }
    Ok(json!({ "jobId": job, "retried": true }))
}

/// Adds the path of a backup to its report.
pub fn with_file(file: &Path, outcome: impl serde::Serialize) -> Value {
    let mut report = json!({ "file": file });
    if let (Value::Object(report), Ok(Value::Object(counts))) = (&mut report, serde_json::to_value(outcome)) {
        report.extend(counts);
    }
    report
}

/// Parses a new password.
pub fn parse_password(typed: RequestSecret) -> Result<Password, CliError> {
    Password::parse(&typed.0).map_err(|error| CliError::new("INVALID_PASSWORD", error.to_string()))
}

fn listed_account(account: &StoredAccount, credits: Balance) -> Value {
    json!({
        "accountId": account.id.to_string(),
        "email": account.email,
        "role": account.role.as_str(),
        "licenceUntil": account.licence.until.map(|until| until.to_string()),
        "balance": credits.available.0,
        "reserved": credits.reserved.0,
        "conversations": account.conversations,
        "machine": account.has_machine,
        "createdAt": account.created_at.to_string(),
    })
}

async fn show_account(admin: &Admin, named: &str) -> Result<Value, CliError> {
    let account = admin.find_account(named).await?;
    let mut shown = listed_account(&account, admin.account_balance(named).await?);
    let keys = admin.list_keys(named).await?.len();
    let machine = match account.has_machine {
        true => Some(admin.show_machine(named).await?.status.as_str()),
        false => None,
    };
    if let Value::Object(fields) = &mut shown {
        fields.insert("keys".to_owned(), keys.into());
        fields.insert("machine".to_owned(), machine.into());
    }
    Ok(shown)
}

async fn service_status_json(admin: &Admin, service: &ServiceFacts) -> Result<Value, CliError> {
    let mut machines = BTreeMap::<&str, u64>::new();
    for machine in admin.list_machines().await? {
        *machines.entry(machine.status.map_or("UNKNOWN", |status| status.as_str())).or_default() += 1;
    }
    let models = model_list::to_json(&service.catalog, None);
    let default = models["models"].as_array().into_iter().flatten().find(|model| model["default"] == true);
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "address": service.address,
        "startedAt": service.started_at.to_string(),
        "accounts": admin.list_accounts().await?.len(),
        "machines": machines,
        "driver": service.driver.to_string(),
        "defaultModel": default.map(|model| &model["id"]),
        "vendors": models["vendors"],
    }))
}

fn audit_entry_json((number, entry): &(i64, AuditEntry)) -> Value {
    json!({
        "entry": number,
        "at": entry.at.to_string(),
        "accountId": entry.account.map(|account| account.to_string()),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "detail": entry.detail,
    })
}

fn failed_job(job: &FailedJob) -> Value {
    json!({
        "jobId": job.id.to_string(),
        "kind": job.kind,
        "accountId": job.account.map(|account| account.to_string()),
        "attempts": job.attempts,
        "error": job.error,
        "failedAt": job.failed_at.to_string(),
    })
}

fn listed_key(key: &StoredKey) -> Value {
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    json!({
        "keyId": key.id.to_string(),
        "name": key.name,
        "createdAt": key.created_at.to_string(),
        "expiresAt": time(key.expires_at),
        "lastUsedAt": time(key.last_used_at),
        "scope": key.scope.permissions().map(Permission::as_str).collect::<Vec<_>>(),
        "spendingLimit": key.spending.map(|spending| spending.limit.0),
        "spent": key.spending.map(|spending| spending.spent.0),
    })
}

fn balance_json(balance: Balance) -> Value {
    json!({ "balance": balance.available.0, "reserved": balance.reserved.0 })
}
