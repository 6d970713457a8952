//! Operator commands: sent over the socket of the running service, or run on its data if none runs.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::admin::stop_left_over;
use control::backup::OpenAnswers;
use control::passwords::PASSWORD_MAX_BYTES;
use control::{Admin, DiskReserve, DiskReserveConfig, ServiceEnvironment, privileges};
use serde_json::Value;
use settings::DataLocations;
use workspace::Quota;

use crate::commands::{
    AccountCommand, AdminCommand, AuditCommand, CreditsCommand, JobCommand, KeyCommand, LicenceCommand, Where,
};
use crate::data::{self, DataFolderHolder};
use crate::error::CliError;
use crate::password_prompt::PasswordPrompt;
use crate::request::{AdminRequest, RequestSecret};
use crate::{admin_requests, config, machine_commands, output, printers, socket};

/// The last supported day: its end must have a year of four digits in every time zone.
const LAST_DAY: &str = "9999-12-29";

/// Makes root act as the owner of the data folder, so that the service can use the files that the command creates.
/// Requires a single thread.
pub fn become_owner(at: &Where) -> Result<(), CliError> {
    let data = load_locations_as_caller(at)?.data;
    privileges::become_owner(&data).map_err(|error| unusable_data_folder_error(&data, &error))
}

/// Reads the locations of data folder and database as the caller, who must be able to read the settings.
pub fn load_locations_as_caller(at: &Where) -> Result<DataLocations, CliError> {
    let read = privileges::as_caller(|| {
        let sources = settings::command_sources(at.config.as_deref(), at.setting_arguments());
        settings::read_locations(sources).map_err(config::invalid_configuration_error)
    });
    read.map_err(|error| CliError::new("INVALID_CONFIGURATION", error.to_string()))?
}

/// Returns the error for an unusable data folder, with the remedy.
pub fn unusable_data_folder_error(data: &Path, error: &std::io::Error) -> CliError {
    let why = data::describe_unusable_folder(data, error);
    CliError::new("DATA_FOLDER_UNUSABLE", format!("data folder {} unusable: {why}", data.display()))
}

/// Executes a command and prints its result.
pub async fn run_admin_command(command: AdminCommand) -> Result<(), CliError> {
    let (places, request, as_json) = prepare_request(command)?;
    let print = if as_json { output::print_object } else { printers::printer_for(&request) };
    let answer = carry_out(&places, request).await?;
    print(&answer, as_json);
    check_command_outcome(&answer)
}

/// Returns the places and the request of a command, and true if its result is printed as JSON.
pub fn prepare_request(command: AdminCommand) -> Result<(DataLocations, AdminRequest, bool), CliError> {
    let (request, at) = request_from_command(command)?;
    Ok((load_locations_as_caller(&at)?, request, at.json))
}

/// Turns the failure of a command in a machine into a failure of this command.
pub fn check_command_outcome(answer: &Value) -> Result<(), CliError> {
    match answer["failed"].as_bool() {
        Some(true) => Err(CliError::new("COMMAND_FAILED", "the command failed in the machine")),
        _ => Ok(()),
    }
}

/// Runs a command like [`run_admin_command`], but returns the answer.
pub async fn carry_out_at(at: &Where, request: AdminRequest) -> Result<Value, CliError> {
    carry_out(&load_locations_as_caller(at)?, request).await
}

/// Sends the request to the service. Without a service, locks the data folder and executes the request on it.
pub async fn carry_out(places: &DataLocations, request: AdminRequest) -> Result<Value, CliError> {
    let data = places.data.as_path();
    let unusable = |error: std::io::Error| unusable_data_folder_error(data, &error);
    // Only the creation of an account may create the data folder; for other commands its name is probably mistyped.
    let needs_database = match request {
        AdminRequest::CreateAccount { .. } => false,
        AdminRequest::StopAllMachines => !data.join(data::NODE).exists(),
        _ => true,
    };
    let is_missing = || match data.join(data::DATABASE).metadata() {
        Ok(metadata) => Ok(!metadata.is_file()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(unusable(error)),
        Err(_) => Ok(true),
    };
    if needs_database
        && places.database.is_none()
        && is_missing()?
        && socket::connect_service(data).await.is_none()
    {
        // A service that uses PostgreSQL leaves its identity in the folder, but no database.
        let elsewhere = if data.join(data::NODE).exists() {
            "; a service with PostgreSQL used this folder: name its database with CAUSERIE_DATABASE or in the configuration"
        } else {
            ""
        };
        let message = format!(
            "no database {}: name the data folder with --data or CAUSERIE_DATA{elsewhere}",
            data.join(data::DATABASE).display()
        );
        return Err(CliError::new("NO_DATABASE", message));
    }
    let data = data::prepare_data_folder(data).map_err(unusable)?;
    match data::acquire_data_folder(&data).await.map_err(unusable)? {
        DataFolderHolder::Service(service) => socket::ask_service(service, &request).await,
        DataFolderHolder::Us(lock) => {
            let answered = execute_offline(&data, places, request).await;
            drop(lock);
            answered
        }
        DataFolderHolder::Nobody => {
            let message =
                format!("the data folder is locked by a process that does not respond: {}", data.display());
            Err(CliError::new("DATA_FOLDER_BUSY", message))
        }
    }
}

/// Restores a backup, for a service that is not running.
pub async fn restore_backup(file: PathBuf, answers: OpenAnswers, at: Where) -> Result<(), CliError> {
    let DataLocations { data, database, .. } = load_locations_as_caller(&at)?;
    let environment = ServiceEnvironment::system();
    let report =
        control::backup::restore_backup(&file, &data, database.as_ref(), answers, &environment).await?;
    output::print_object(&admin_requests::with_file(&file, report), at.json);
    Ok(())
}

/// Splits a command into the request and its data folder.
fn request_from_command(command: AdminCommand) -> Result<(AdminRequest, Where), CliError> {
    Ok(match command {
        AdminCommand::Account(AccountCommand::Create {
            email,
            licence_until,
            credits,
            operator,
            password_stdin,
            no_machine,
            at,
        }) => {
            let licence_until = licence_until.as_deref().map(parse_time).transpose()?.flatten();
            let password = if password_stdin { Some(typed_password(std::io::stdin())?) } else { None };
            let machine = !no_machine;
            (AdminRequest::CreateAccount { email, licence_until, credits, operator, password, machine }, at)
        }
        AdminCommand::Status { at } => (AdminRequest::ShowStatus, at),
        AdminCommand::Account(AccountCommand::List { at }) => (AdminRequest::ListAccounts, at),
        AdminCommand::Account(AccountCommand::Show { account, at }) => {
            (AdminRequest::ShowAccount { account }, at)
        }
        AdminCommand::Account(AccountCommand::SetPassword { account, password_stdin, at }) => {
            let password = new_password(password_stdin)?;
            (AdminRequest::SetPassword { account, password }, at)
        }
        AdminCommand::Account(AccountCommand::SetEmail { account, email, at }) => {
            (AdminRequest::SetEmail { account, email }, at)
        }
        AdminCommand::Account(AccountCommand::SetRole { account, role, at }) => {
            (AdminRequest::SetRole { account, role }, at)
        }
        AdminCommand::Account(AccountCommand::Delete { account, yes: _, at }) => {
            (AdminRequest::DeleteAccount { account }, at)
        }
        AdminCommand::Key(KeyCommand::Create { account, name, expires, scope, spending_limit, at }) => {
            let expires = expires.as_deref().map(parse_time).transpose()?.flatten();
            (AdminRequest::CreateKey { account, name, expires, scope, spending_limit }, at)
        }
        AdminCommand::Key(KeyCommand::List { account, at }) => (AdminRequest::ListKeys { account }, at),
        AdminCommand::Key(KeyCommand::Revoke { key_id, at }) => (AdminRequest::RevokeKey { key: key_id }, at),
        AdminCommand::Licence(LicenceCommand::Set { account, until, at }) => {
            (AdminRequest::SetLicence { account, until: parse_time(&until)? }, at)
        }
        AdminCommand::Credits(CreditsCommand::Grant { account, amount, at }) => {
            (AdminRequest::Grant { account, amount }, at)
        }
        AdminCommand::Credits(CreditsCommand::Show { account, at }) => {
            (AdminRequest::ShowCredits { account }, at)
        }
        AdminCommand::Usage { account, since, at } => {
            let since = since.as_deref().map(parse_start_time).transpose()?;
            (AdminRequest::ShowUsage { account, since }, at)
        }
        AdminCommand::Machine(command) => machine_commands::machine_request(command),
        AdminCommand::Audit(AuditCommand::List { account, since, before, limit, at }) => {
            let since = since.as_deref().map(parse_start_time).transpose()?;
            (AdminRequest::ListAudit { account, since, before, limit }, at)
        }
        AdminCommand::Job(JobCommand::List { limit, at }) => (AdminRequest::ListFailedJobs { limit }, at),
        AdminCommand::Job(JobCommand::Retry { job_id, at }) => (AdminRequest::RetryJob { job: job_id }, at),
        AdminCommand::Backup { file, at } => {
            // The service has a different working folder.
            let file = std::path::absolute(&file)
                .map_err(|error| CliError::new("USAGE", format!("{}: {error}", file.display())))?;
            (AdminRequest::Backup { file }, at)
        }
    })
}

/// Reads a new password: from standard input, or from a person on the terminal, who types it twice.
fn new_password(from_input: bool) -> Result<RequestSecret, CliError> {
    if from_input {
        return typed_password(std::io::stdin());
    }
    let wrong = |message: String| CliError::new("INVALID_PASSWORD", message);
    let unreadable = |error| wrong(format!("reading the terminal failed: {error}"));
    let Some(prompt) = PasswordPrompt::open_terminal().map_err(unreadable)? else {
        let message = "no terminal to ask for the password: pass it on standard input with --password-stdin";
        return Err(wrong(message.to_owned()));
    };
    let first = typed_password(prompt.ask_line("New password: ").map_err(unreadable)?.as_bytes())?;
    let again = prompt.ask_line("The same again: ").map_err(unreadable)?;
    if again.trim_end_matches(['\r', '\n']) != first.0 {
        return Err(wrong("the passwords differ, nothing was changed: try again".to_owned()));
    }
    Ok(first)
}

/// Reads the password: one line, with or without its end. Errors never contain any of it.
fn typed_password(input: impl Read) -> Result<RequestSecret, CliError> {
    let wrong = |message: String| CliError::new("INVALID_PASSWORD", message);
    let mut line = Vec::new();
    // One byte more than the longest password with its line end shows that it is too long.
    let mut input = BufReader::new(input.take(PASSWORD_MAX_BYTES as u64 + 3));
    let unreadable = |error| wrong(format!("reading standard input failed: {error}"));
    input.read_until(b'\n', &mut line).map_err(unreadable)?;
    if line.ends_with(b"\n") && !input.fill_buf().map_err(unreadable)?.is_empty() {
        return Err(wrong("standard input has more than one line: pass the password alone".to_owned()));
    }
    let line =
        line.strip_suffix(b"\n").map_or(line.as_slice(), |line| line.strip_suffix(b"\r").unwrap_or(line));
    let text = str::from_utf8(line).map_err(|_| wrong("the password is not UTF-8".to_owned()))?;
    let typed = RequestSecret(text.to_owned());
    admin_requests::parse_password(typed.clone())?;
    Ok(typed)
}

/// Parses a time, or the end of a day in UTC, as microseconds since 1970; `None` for `none`.
fn parse_time(text: &str) -> Result<Option<i64>, CliError> {
    let wrong = |what: &str| CliError::new("INVALID_DATE", format!("{text:?} is {what}"));
    if text == "none" {
        return Ok(None);
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(Some(time.as_microsecond()));
    }
    let day = parse_day(text)
        .ok_or_else(|| wrong("not a date: use a day such as 2027-12-31, or a time with its zone"))?;
    let end = day.tomorrow().and_then(|next| next.to_zoned(jiff::tz::TimeZone::UTC));
    let end = end.map_err(|_| wrong(&format!("too late: the last day is {LAST_DAY}")))?;
    Ok(Some(end.timestamp().as_microsecond()))
}

/// Parses a day. Rejects a time without a zone, although its day could be read.
fn parse_day(text: &str) -> Option<jiff::civil::Date> {
    text.parse().ok().filter(|_| !text.contains([':', 'T', 't', ' ']))
}

/// Parses a time, or the beginning of a day in UTC, as microseconds since 1970.
fn parse_start_time(text: &str) -> Result<i64, CliError> {
    let day = parse_day(text).and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
    let time = text.parse::<jiff::Timestamp>().ok().or_else(|| day.map(|day| day.timestamp()));
    let wrong = || {
        CliError::new(
            "INVALID_DATE",
            format!("{text:?} is not a date: use a day such as 2027-12-31, or a time with its zone"),
        )
    };
    time.map(jiff::Timestamp::as_microsecond).ok_or_else(wrong)
}

/// Executes a request without a service, on the data folder that this process has locked.
async fn execute_offline(
    data: &Path,
    places: &DataLocations,
    request: AdminRequest,
) -> Result<Value, CliError> {
    let folders = control::data_folder::machine_folders(data);
    let stops_machines = matches!(request, AdminRequest::StopAllMachines);
    // Only the environment of the service may name its database.
    if stops_machines && places.database.is_none() && !data.join(data::DATABASE).exists() {
        return Ok(machine_commands::stopped_accounts_json(&stop_left_over(&folders).await?));
    }
    DiskReserve::new(data, DiskReserveConfig::default()).make_room_to_start();
    let (database, accepts_empty) = (places.database.as_ref(), places.accept_empty_database);
    let (wait, quota, environment) = (Duration::ZERO, Quota::default(), ServiceEnvironment::system());
    let opened =
        control::provisioning::open_data(data, database, accepts_empty, wait, quota, &environment).await;
    let (store, workspaces) = match opened {
        Err(_) if stops_machines => {
            return Ok(machine_commands::stopped_accounts_json(&stop_left_over(&folders).await?));
        }
        opened => opened?,
    };
    let admin = Admin::new(store.clone(), environment, workspaces, folders, None);
    let admin = admin.with_actor(format!("operator uid {}", rustix::process::getuid().as_raw()));
    let answered = admin_requests::execute_request(&admin, None, request).await;
    store.close().await;
    answered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line() {
        let typed = |input: &[u8]| typed_password(input).map(|secret| secret.0);
        assert_eq!(typed(b"correct horse\n"), Ok("correct horse".to_owned()));
        assert_eq!(typed(b"correct horse\r\n"), Ok("correct horse".to_owned()));
        assert_eq!(typed("tajné heslo".as_bytes()), Ok("tajné heslo".to_owned()));
        assert_eq!(typed(&[b'x'; 1024]).map(|text| text.len()), Ok(1024));
        for wrong in [
            &b""[..],
            b"\n",
            b"short\n",
            b"correct horse\nand more",
            b"correct horse\r\n\r\n",
            b"correct\0horse\n",
            b"\xff\xfe and more\n",
            &[b'x'; 1025],
        ] {
            let refused = typed(wrong).expect_err("refused");
            assert!(!refused.message.contains("horse"), "{refused}");
        }
    }

    #[test]
    fn licence_until_includes_last_day() {
        assert!(parse_time(LAST_DAY).is_ok());
        for late in ["9999-12-30", "9999-12-31"] {
            let refused = parse_time(late).expect_err("refused");
            assert!(refused.message.contains("too late") && refused.message.contains(LAST_DAY), "{refused}");
        }
        assert_eq!(parse_time("1970-01-01"), Ok(Some(24 * 3600 * 1_000_000)));
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Ok(Some(1_000_000)));
        assert_eq!(parse_time("none"), Ok(None));
        for wrong in ["tomorrow", "2027-12-31T10:00:00", "2027-12-31T10:00", "2027-12-31 10:00:00"] {
            let refused = parse_time(wrong).expect_err("refused");
            assert!(refused.message.contains("a time with its zone"), "{refused}");
            assert!(parse_start_time(wrong).is_err(), "{wrong}");
        }
    }
}
