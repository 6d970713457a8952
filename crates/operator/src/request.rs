//! The requests of operators, as they go over the service's socket.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An operator's request on the service's socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminRequest {
    CreateAccount {
        email: String,
        licence_until: Option<i64>,
        credits: u64,
        #[serde(default)]
        operator: bool,
        password: Option<RequestSecret>,
        machine: bool,
    },
    ListAccounts,
    ShowAccount {
        account: String,
    },
    ShowStatus,
    SetPassword {
        account: String,
        password: RequestSecret,
    },
    SetEmail {
        account: String,
        email: String,
    },
    SetRole {
        account: String,
        role: String,
    },
    DeleteAccount {
        account: String,
    },
    CreateKey {
        account: String,
        name: String,
        #[serde(default)]
        expires: Option<i64>,
        #[serde(default)]
        scope: Option<String>,
        #[serde(default)]
        spending_limit: Option<u64>,
    },
    ListKeys {
        account: String,
    },
    RevokeKey {
        key: String,
    },
    SetLicence {
        account: String,
        until: Option<i64>,
    },
    Grant {
        account: String,
        amount: u64,
    },
    ShowCredits {
        account: String,
    },
    ShowUsage {
        account: String,
        since: Option<i64>,
    },
    ListModels,
    RunChecks,
    ListMachines,
    ShowMachine {
        account: String,
    },
    StartMachine {
        account: String,
    },
    StopMachine {
        account: String,
    },
    StopAllMachines,
    RunInMachine {
        account: String,
        command: String,
        folder: String,
    },
    ShowMachineLog {
        account: String,
    },
    ResetMachine {
        account: String,
    },
    ListAudit {
        account: Option<String>,
        since: Option<i64>,
        before: Option<i64>,
        limit: u32,
    },
    ListFailedJobs {
        limit: u32,
    },
    RetryJob {
        job: String,
    },
    Backup {
        file: PathBuf,
    },
}

/// A text that is serialized on the socket but not shown in debug output.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestSecret(pub String);

impl std::fmt::Debug for RequestSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
