//! Errors of commands: a code for programs and a message for people.

use control::admin::AdminError;
use control::backup::BackupError;
use control::service::StartError;
use machine::SupervisorError;
use machine_image::MachineImageError;
use serde::{Deserialize, Serialize};
use store::StoreError;
use store::keys::KeyError;

/// The failure of a command, as sent over the service's socket and, with `--json`, printed to standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CliError {
    /// The error code; upper case with underscores.
    pub code: String,
    /// The message.
    pub message: String,
}

impl CliError {
    /// Creates a failure with this code.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }
}

impl From<AdminError> for CliError {
    fn from(error: AdminError) -> Self {
        let code = match &error {
            AdminError::NoSuchAccount(_) => "NO_SUCH_ACCOUNT",
            AdminError::NotAnEmail(_) => "INVALID_EMAIL",
            AdminError::NotAName => "INVALID_NAME",
            AdminError::NotAnAmount => "INVALID_AMOUNT",
            AdminError::Past => "INVALID_DATE",
            AdminError::EmailTaken => "EMAIL_TAKEN",
            AdminError::Backup(error) => backup_error_code(error),
            AdminError::Key(KeyError::NotFound) => "NO_SUCH_KEY",
            AdminError::Key(KeyError::NoLicence) => "NO_LICENCE",
            AdminError::Key(KeyError::TooMany) => "TOO_MANY_KEYS",
            // The ids of keys that operators create are random.
            AdminError::Key(KeyError::AlreadyCreated) => "DATABASE_FAILED",
            AdminError::Key(KeyError::Ended) => "INVALID_DATE",
            AdminError::Key(KeyError::Store(error)) | AdminError::Store(error) => store_error_code(error),
            AdminError::Workspace(_) => "WORKSPACE_FAILED",
            AdminError::Password(_) => "PASSWORD_FAILED",
            AdminError::Machine(SupervisorError::NoMachine) => "NO_MACHINE",
            AdminError::Machine(SupervisorError::ShuttingDown) | AdminError::NoService => {
                "SERVICE_UNREACHABLE"
            }
            AdminError::Machine(SupervisorError::Records(_)) => "DATABASE_FAILED",
            AdminError::Machine(_) | AdminError::Driver(_) | AdminError::NotAllStopped { .. } => {
                "MACHINE_FAILED"
            }
        };
        Self::new(code, error.to_string())
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        let code = match &error {
            StartError::Store(error) => store_error_code(error),
            StartError::EmptyDatabase(_) => "DATABASE_EMPTY",
            StartError::Workspaces(_) => "WORKSPACES_MISSING",
            StartError::RestoreInterrupted(_) => "RESTORE_INTERRUPTED",
            _ => "DATABASE_FAILED",
        };
        Self::new(code, error.to_string())
    }
}

impl From<MachineImageError> for CliError {
    fn from(error: MachineImageError) -> Self {
        let code = match &error {
            MachineImageError::Invalid(_) => "INVALID_IMAGE",
            MachineImageError::NotFound(_) => "NO_SUCH_IMAGE",
            MachineImageError::InUse(_) => "IMAGE_IN_USE",
            MachineImageError::NoSpace { .. } => "DISK_FULL",
            MachineImageError::MissingProgram { .. }
            | MachineImageError::Program { .. }
            | MachineImageError::Archive(_)
            | MachineImageError::Cancelled
            | MachineImageError::Io { .. } => "IMAGE_FAILED",
        };
        Self::new(code, error.to_string())
    }
}

impl From<BackupError> for CliError {
    fn from(error: BackupError) -> Self {
        Self::new(backup_error_code(&error), error.to_string())
    }
}

fn backup_error_code(error: &BackupError) -> &'static str {
    match error {
        BackupError::Taken(_) => "FILE_EXISTS",
        BackupError::NotEmpty(_) | BackupError::Store(StoreError::NotEmpty) => "NOT_EMPTY",
        BackupError::Interrupted(_) => "RESTORE_INTERRUPTED",
        BackupError::Damaged(_) => "BACKUP_DAMAGED",
        BackupError::TooNew(_) => "BACKUP_TOO_NEW",
        BackupError::Place { .. } | BackupError::Io(_) => "BACKUP_FAILED",
        BackupError::Store(error) => store_error_code(error),
    }
}

fn store_error_code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Full => "DISK_FULL",
        StoreError::TooNew { .. } => "DATABASE_TOO_NEW",
        _ => "DATABASE_FAILED",
    }
}
