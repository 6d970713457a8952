//! Operator commands: sent over the socket of the running service, or run on its data if none runs.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::admin::KeyRestrictions;
use control::passwords::{PASSWORD_MAX_BYTES, Password};
use control::{Admin, Catalog, DiskReserve, DiskReserveConfig, Environment, privileges};
use domain::credits::{Balance, Credits};
use domain::scope::{Permission, Scope};
use domain::time::Timestamp;
use serde_json::{Value, json};
use store::audit::AuditEntry;
use store::jobs::FailedJob;
use store::keys::Key;
use workspace::Quota;

use crate::commands::{
    AccountCommand, AdminCommand, AuditCommand, CreditsCommand, JobCommand, KeyCommand, LicenceCommand,
    MachineCommand, Request, Secret, Where,
};
use crate::data::{self, Holder};
use crate::error::CliError;
use crate::settings::Places;
use crate::{config, model_commands, output, settings, socket, usage};

/// Has root do what a command does as the owner of its data folder, so that the service can use what comes of it. For a
/// process that has one thread.
pub(crate) fn become_owner(at: &Where) -> Result<(), CliError> {
    let data = places(at)?.data;
    privileges::become_owner(&data).map_err(|error| unusable(&data, &error))
}

/// Data folder and database, by settings that only the caller may be able to read.
fn places(at: &Where) -> Result<Places, CliError> {
    let read = privileges::as_caller(|| {
        let sources = settings::sources(at.config.as_deref(), at.arguments());
        settings::places(sources).map_err(config::invalid)
    });
    read.map_err(|error| CliError::new("INVALID_CONFIGURATION", error.to_string()))?
}

fn unusable(data: &Path, error: &std::io::Error) -> CliError {
    CliError::new("DATA_FOLDER_UNUSABLE", format!("the data folder {}: {error}", data.display()))
}

/// Carries a command out and prints what came of it.
pub(crate) async fn run(command: AdminCommand) -> Result<(), CliError> {
    let (request, at) = request(command)?;
    let places = places(&at)?;
    let answer = carry_out(&places, request).await?;
    print(&answer, at.json);
    Ok(())
}

/// Has the service do it; without one, does it straight to the data folder, which no service can take meanwhile.
async fn carry_out(places: &Places, request: Request) -> Result<Value, CliError> {
    let data = places.data.as_path();
    let unusable = |error: std::io::Error| unusable(data, &error);
    // Who makes the first account may make the data folder with it; everybody else has mistyped its name.
    let first = matches!(request, Request::CreateAccount { .. });
    if !first
        && places.database.is_none()
        && !data.join(data::DATABASE).is_file()
        && socket::connect(data).await.is_none()
    {
        let message = format!(
            "there is no database {}: --data (or CAUSERIE_DATA) names the data folder",
            data.join(data::DATABASE).display()
        );
        return Err(CliError::new("NO_DATABASE", message));
    }
    let data = data::prepare(data).map_err(unusable)?;
    match data::hold(&data).await.map_err(unusable)? {
        Holder::Service(service) => socket::ask(service, &request).await,
        Holder::Us(lock) => {
            let answered = offline(&data, places, request).await;
            drop(lock);
            answered
        }
        Holder::Nobody => {
            let message =
                format!("a process that answers no commands has the data folder {}", data.display());
            Err(CliError::new("DATA_FOLDER_BUSY", message))
        }
    }
}

/// Does what an operator asks and tells what came of it, as one JSON object.
pub(crate) async fn answer(
    admin: &Admin,
    catalog: Option<&Catalog>,
    request: Request,
) -> Result<Value, CliError> {
    Ok(match request {
        Request::CreateAccount { email, licence_until, credits, password: typed, machine } => {
            let until = licence_until.map(Timestamp::from_micros);
            let typed = typed.map(password).transpose()?;
            let made = admin.create_account(&email, until, Credits(credits), typed, machine).await;
            let made = made?;
            json!({ "accountId": made.id.to_string(), "email": made.email })
        }
        Request::SetPassword { account, password: typed } => {
            let set = admin.set_password(&account, password(typed)?).await?;
            json!({ "accountId": set.id.to_string(), "email": set.email })
        }
        Request::CreateKey { account, name, expires, scope, spending_limit } => {
            let scope = scope.as_deref().map_or(Ok(Scope::ALL), Scope::parse);
            let bounds = KeyRestrictions {
                expires_at: expires.map(Timestamp::from_micros),
                scope: scope.map_err(|error| CliError::new("INVALID_SCOPE", error.to_string()))?,
                spending_limit: spending_limit.map(Credits),
            };
            let made = admin.create_key(&account, &name, bounds).await?;
            json!({ "keyId": made.id.to_string(), "key": made.key.reveal() })
        }
        Request::ListKeys { account } => {
            let keys = admin.list_keys(&account).await?;
            json!({ "keys": keys.iter().map(listed_key).collect::<Vec<_>>() })
        }
        Request::RevokeKey { key } => {
            let id = key
                .parse()
                .map_err(|_| CliError::new("NO_SUCH_KEY", format!("{key:?} is no identifier of a key")))?;
            admin.revoke_key(id).await?;
            json!({ "keyId": key, "revoked": true })
        }
        Request::SetLicence { account, until } => {
            let until = until.map(Timestamp::from_micros);
            let set = admin.set_licence(&account, until).await?;
            let until = set.licence.until.map(|until| until.to_string());
            json!({ "accountId": set.id.to_string(), "email": set.email, "licenceUntil": until })
        }
        Request::Grant { account, amount } => balance(admin.grant(&account, Credits(amount)).await?),
        Request::ShowCredits { account } => balance(admin.balance(&account).await?),
        Request::ShowUsage { account, since } => {
            let since = since.map(Timestamp::from_micros);
            let report = admin.usage(&account, since.unwrap_or(Timestamp::from_micros(0))).await?;
            usage::to_json(since, &report)
        }
        Request::ListModels => match catalog {
            Some(catalog) => model_commands::to_json(catalog, None),
            None => return Err(CliError::new("SERVICE_UNREACHABLE", "no service runs here")),
        },
        Request::ListMachines => {
            let machines = admin.list_machines().await?;
            let machines: Vec<Value> = machines
                .into_iter()
                .map(|machine| {
                    json!({
                        "account": machine.account.to_string(),
                        "status": machine.status.map_or("UNKNOWN", |status| status.as_str()),
                        "driver": machine.driver,
                        "pids": machine.pids,
                    })
                })
                .collect();
            json!({ "machines": machines })
        }
        Request::ListAudit { account, since, before, limit } => {
            let since = since.map(Timestamp::from_micros);
            let entries = admin.audit(account.as_deref(), since, before, limit).await?;
            let full = entries.len() == limit as usize;
            let next = entries.last().filter(|_| full).map(|(number, _)| *number);
            json!({ "entries": entries.iter().map(audited).collect::<Vec<_>>(), "next": next })
        }
        Request::ListFailedJobs { limit } => {
            let jobs = admin.list_failed_jobs(limit).await?;
            json!({ "jobs": jobs.iter().map(failed_job).collect::<Vec<_>>() })
        }
        Request::RetryJob { job } => {
            let wrong = || CliError::new("NO_SUCH_JOB", format!("there is no failed job {job:?}"));
            if !admin.retry_job(job.parse().map_err(|_| wrong())?).await? {
                return Err(wrong());
            }
            json!({ "jobId": job, "retried": true })
        }
        Request::Backup { file } => with_file(&file, admin.backup(&file).await?),
    })
}

/// Adds the path of a backup to its report.
fn with_file(file: &Path, outcome: impl serde::Serialize) -> Value {
    let mut told = json!({ "file": file });
    if let (Value::Object(told), Ok(Value::Object(counts))) = (&mut told, serde_json::to_value(outcome)) {
        told.extend(counts);
    }
    told
}

/// Restores a backup, for a service that does not run yet.
pub(crate) async fn restore(file: PathBuf, at: Where) -> Result<(), CliError> {
    let Places { data, database, .. } = places(&at)?;
    let restoring = tokio::task::spawn_blocking(move || {
        let summary = control::backup::restore(&file, &data, database.as_ref())?;
        Ok::<_, CliError>(with_file(&file, summary))
    });
    let restored = restoring.await.map_err(|error| CliError::new("BACKUP_FAILED", error.to_string()))?;
    print(&restored?, at.json);
    Ok(())
}

/// Splits a command into the request and its data folder.
fn request(command: AdminCommand) -> Result<(Request, Where), CliError> {
    Ok(match command {
        AdminCommand::Account(AccountCommand::Create {
            email,
            licence_until,
            credits,
            password_stdin,
            no_machine,
            at,
        }) => {
            let licence_until = licence_until.as_deref().map(parse_time).transpose()?.flatten();
            let password = if password_stdin { Some(typed_password(std::io::stdin())?) } else { None };
            (Request::CreateAccount { email, licence_until, credits, password, machine: !no_machine }, at)
        }
        AdminCommand::Account(AccountCommand::SetPassword { account, password_stdin: _, at }) => {
            (Request::SetPassword { account, password: typed_password(std::io::stdin())? }, at)
        }
        AdminCommand::Key(KeyCommand::Create { account, name, expires, scope, spending_limit, at }) => {
            let expires = expires.as_deref().map(parse_time).transpose()?.flatten();
            (Request::CreateKey { account, name, expires, scope, spending_limit }, at)
        }
        AdminCommand::Key(KeyCommand::List { account, at }) => (Request::ListKeys { account }, at),
        AdminCommand::Key(KeyCommand::Revoke { key_id, at }) => (Request::RevokeKey { key: key_id }, at),
        AdminCommand::Licence(LicenceCommand::Set { account, until, at }) => {
            (Request::SetLicence { account, until: parse_time(&until)? }, at)
        }
        AdminCommand::Credits(CreditsCommand::Grant { account, amount, at }) => {
            (Request::Grant { account, amount }, at)
        }
        AdminCommand::Credits(CreditsCommand::Show { account, at }) => (Request::ShowCredits { account }, at),
        AdminCommand::Usage { account, since, at } => {
            let since = since.as_deref().map(beginning).transpose()?;
            (Request::ShowUsage { account, since }, at)
        }
        AdminCommand::Machine(MachineCommand::List { at }) => (Request::ListMachines, at),
        AdminCommand::Audit(AuditCommand::List { account, since, before, limit, at }) => {
            let since = since.as_deref().map(beginning).transpose()?;
            (Request::ListAudit { account, since, before, limit }, at)
        }
        AdminCommand::Job(JobCommand::List { limit, at }) => (Request::ListFailedJobs { limit }, at),
        AdminCommand::Job(JobCommand::Retry { job_id, at }) => (Request::RetryJob { job: job_id }, at),
        AdminCommand::Backup { file, at } => {
            // The service has a working folder of its own.
            let file = std::path::absolute(&file)
                .map_err(|error| CliError::new("USAGE", format!("{}: {error}", file.display())))?;
            (Request::Backup { file }, at)
        }
    })
}

/// One line: what stands before its end, which may be missing. Nothing of it is ever part of an error.
fn typed_password(input: impl Read) -> Result<Secret, CliError> {
    let wrong = |message: String| CliError::new("INVALID_PASSWORD", message);
    let mut line = Vec::new();
    // A byte more than the longest password and its line's end shows that it is longer.
    let mut input = BufReader::new(input.take(PASSWORD_MAX_BYTES as u64 + 3));
    input.read_until(b'\n', &mut line).map_err(|error| wrong(format!("standard input: {error}")))?;
    let line =
        line.strip_suffix(b"\n").map_or(line.as_slice(), |line| line.strip_suffix(b"\r").unwrap_or(line));
    let text = str::from_utf8(line).map_err(|_| wrong("the password is no UTF-8".to_owned()))?;
    let typed = Secret(text.to_owned());
    password(typed.clone())?;
    Ok(typed)
}

fn password(typed: Secret) -> Result<Password, CliError> {
    Password::parse(&typed.0).map_err(|error| CliError::new("INVALID_PASSWORD", error.to_string()))
}

/// A time, or the end of a day in UTC, in microseconds since 1970; `None` for `none`.
fn parse_time(text: &str) -> Result<Option<i64>, CliError> {
    let wrong = || CliError::new("INVALID_DATE", format!("{text:?} is no day like 2027-12-31"));
    if text == "none" {
        return Ok(None);
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(Some(time.as_microsecond()));
    }
    let day = text.parse::<jiff::civil::Date>().map_err(|_| wrong())?;
    let end = day.tomorrow().and_then(|next| next.to_zoned(jiff::tz::TimeZone::UTC));
    Ok(Some(end.map_err(|_| wrong())?.timestamp().as_microsecond()))
}

/// A time, or the beginning of a day in UTC, in microseconds since 1970.
fn beginning(text: &str) -> Result<i64, CliError> {
    let day =
        text.parse::<jiff::civil::Date>().ok().and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
    let time = text.parse::<jiff::Timestamp>().ok().or_else(|| day.map(|day| day.timestamp()));
    let wrong =
        || CliError::new("INVALID_DATE", format!("{text:?} is neither a day like 2027-12-31 nor a time"));
    time.map(jiff::Timestamp::as_microsecond).ok_or_else(wrong)
}

fn audited((number, entry): &(i64, AuditEntry)) -> Value {
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

fn listed_key(key: &Key) -> Value {
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

fn balance(balance: Balance) -> Value {
    json!({ "balance": balance.available.0, "reserved": balance.reserved.0 })
}

/// Without a service: straight to the data folder, which this process holds.
async fn offline(data: &Path, places: &Places, request: Request) -> Result<Value, CliError> {
    DiskReserve::new(data, DiskReserveConfig::default()).make_room_to_start();
    let (database, accepts_empty) = (places.database.as_ref(), places.accept_empty_database);
    let opened =
        control::provisioning::open(data, database, accepts_empty, Duration::ZERO, Quota::default()).await;
    let (store, workspaces) = opened?;
    let admin = Admin::new(store.clone(), Environment::system(), workspaces, None);
    let admin = admin.with_actor(format!("operator uid {}", rustix::process::getuid().as_raw()));
    let answered = answer(&admin, None, request).await;
    store.close().await;
    answered
}

pub(crate) fn print(answer: &Value, as_json: bool) {
    if as_json {
        output::line(answer);
        return;
    }
    let Value::Object(fields) = answer else { return };
    for (name, value) in fields {
        match value {
            Value::Array(rows) => {
                for row in rows {
                    output::line(columns(row));
                }
            }
            Value::Object(_) => output::line(format_args!("{name}: {}", columns(value))),
            value => output::line(format_args!("{name}: {}", plain(value))),
        }
    }
}

fn columns(row: &Value) -> String {
    let columns = row.as_object().into_iter().flatten();
    columns.map(|(name, value)| format!("{name} {}", plain(value))).collect::<Vec<_>>().join("  ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line_and_no_more() {
        let typed = |input: &[u8]| typed_password(input).map(|secret| secret.0);
        assert_eq!(typed(b"correct horse\nand more"), Ok("correct horse".to_owned()));
        assert_eq!(typed(b"correct horse\r\n"), Ok("correct horse".to_owned()));
        assert_eq!(typed("tajné heslo".as_bytes()), Ok("tajné heslo".to_owned()));
        assert_eq!(typed(&[b'x'; 1024]).map(|text| text.len()), Ok(1024));
        for wrong in [&b""[..], b"\n", b"short\n", b"correct\0horse\n", b"\xff\xfe and more\n", &[b'x'; 1025]]
        {
            let refused = typed(wrong).expect_err("refused");
            assert!(!refused.message.contains("horse"), "{refused}");
        }
    }

    #[test]
    fn a_licence_holds_through_its_last_day() {
        assert_eq!(parse_time("1970-01-01"), Ok(Some(24 * 3600 * 1_000_000)));
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(Some(1_000_000)));
        assert_eq!(parse_time("none"), Ok(None));
        assert!(parse_time("tomorrow").is_err());
    }
}
