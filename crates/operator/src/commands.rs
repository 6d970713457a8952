//! The command line of operators.

mod job;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use control::DatabaseUrl;

pub use self::job::JobCommand;
use crate::examples;

/// Returns the data folder and database given as arguments.
#[must_use]
pub fn location_arguments(
    data: Option<&Path>,
    database: Option<&DatabaseUrl>,
) -> Vec<(&'static str, &'static str, String)> {
    let data = data.map(|data| ("data", "--data", data.to_string_lossy().into_owned()));
    let database = database.map(|url| ("database.url", "--database", url.reveal().to_owned()));
    data.into_iter().chain(database).collect()
}

/// The folders of additional plugins.
#[derive(Debug, Clone, Default, Args)]
pub struct PluginFolders {
    /// Plugins or folders of plugins, separated by colons
    #[arg(long = "plugins", env = "CAUSERIE_PLUGINS", value_name = "DIR", value_delimiter = ':')]
    pub folders: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// List the skills and agents that a service would offer
    List {
        #[command(flatten)]
        plugins: PluginFolders,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a plugin or a folder of plugins and report problems
    Check {
        /// The folder
        path: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Options of all operator commands.
#[derive(Debug, Clone, Args)]
pub struct Where {
    /// The data folder [env: CAUSERIE_DATA] [default: data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The database, if not the data folder's own: postgres://USER@HOST/NAME. Set passwords in the variable or in a
    /// file, because every user of the host can see arguments [env: CAUSERIE_DATABASE]
    #[arg(long, value_name = "URL")]
    pub database: Option<DatabaseUrl>,
    /// The configuration file that specifies data folder and database [env: CAUSERIE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file, together with the variables of the environment
    Check {
        /// The file
        #[arg(required_unless_present = "config")]
        file: Option<PathBuf>,
        /// The file, as for the other commands
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write the built-in instructions of models to a folder, to be edited there
    Instructions {
        /// The folder; created if missing. Existing files are not replaced
        folder: PathBuf,
    },
    /// Show the effective settings and their origins
    Print {
        /// The configuration file [env: CAUSERIE_CONFIG]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

impl ConfigCommand {
    /// Returns true if output and errors are JSON.
    pub fn as_json(&self) -> bool {
        match self {
            Self::Check { json, .. } | Self::Print { json, .. } => *json,
            Self::Instructions { .. } => false,
        }
    }
}

impl Where {
    /// Returns the settings given as arguments: key, argument, value.
    pub fn setting_arguments(&self) -> Vec<(&'static str, &'static str, String)> {
        location_arguments(self.data.as_deref(), self.database.as_ref())
    }
}

#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    /// Show the state of the service: address, version, models, machines
    Status {
        #[command(flatten)]
        at: Where,
    },
    /// Manage accounts
    #[command(subcommand)]
    Account(AccountCommand),
    /// Manage API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Manage licences
    #[command(subcommand)]
    Licence(LicenceCommand),
    /// Grant and show credits
    #[command(subcommand)]
    Credits(CreditsCommand),
    /// Show the credits and tokens used by an account's answers: by day, by model, and in total
    Usage {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        /// Start of the period: a day in UTC, such as 2027-12-31, or a time in RFC 3339; unlimited by default
        #[arg(long, value_name = "DATE")]
        since: Option<String>,
        #[command(flatten)]
        at: Where,
    },
    /// List, show, start, stop and reset machines
    #[command(subcommand)]
    Machine(MachineCommand),
    /// Show the audit log: operators' actions and rejected keys
    #[command(subcommand)]
    Audit(AuditCommand),
    /// List and retry failed background jobs
    #[command(subcommand)]
    Job(JobCommand),
    /// Copy the database and files to one file while the service runs
    #[command(after_help = examples::BACKUP)]
    Backup {
        /// The file to write; must not exist
        file: PathBuf,
        #[command(flatten)]
        at: Where,
    },
}

impl AdminCommand {
    /// Returns true if output and errors are JSON.
    pub fn as_json(&self) -> bool {
        self.command_location().json
    }

    /// Returns the data folder of the command.
    pub fn command_location(&self) -> &Where {
        let (Self::Account(
            AccountCommand::Create { at, .. }
            | AccountCommand::List { at }
            | AccountCommand::Show { at, .. }
            | AccountCommand::SetPassword { at, .. }
            | AccountCommand::SetEmail { at, .. }
            | AccountCommand::SetRole { at, .. }
            | AccountCommand::Delete { at, .. },
        )
        | Self::Status { at }
        | Self::Key(
            KeyCommand::Create { at, .. } | KeyCommand::List { at, .. } | KeyCommand::Revoke { at, .. },
        )
        | Self::Licence(LicenceCommand::Set { at, .. })
        | Self::Credits(CreditsCommand::Grant { at, .. } | CreditsCommand::Show { at, .. })
        | Self::Usage { at, .. }
        | Self::Machine(
            MachineCommand::List { at }
            | MachineCommand::Show { at, .. }
            | MachineCommand::Start { at, .. }
            | MachineCommand::Stop { at, .. }
            | MachineCommand::Console { at, .. }
            | MachineCommand::Log { at, .. }
            | MachineCommand::Reset { at, .. },
        )
        | Self::Audit(AuditCommand::List { at, .. })
        | Self::Job(JobCommand::List { at, .. } | JobCommand::Retry { at, .. })
        | Self::Backup { at, .. }) = self;
        at
    }
}

#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Create an account
    #[command(after_help = examples::ACCOUNT_CREATE)]
    Create {
        /// The owner's email
        #[arg(long)]
        email: String,
        /// End of the licence: its last day in UTC, such as 2027-12-31, or a time in RFC 3339
        #[arg(long, value_name = "DATE")]
        licence_until: Option<String>,
        /// The initial credits
        #[arg(long, default_value_t = 0)]
        credits: u64,
        /// Make the owner an operator, who sees and changes all accounts in the web application
        #[arg(long)]
        operator: bool,
        /// Read the owner's password from standard input: one line of 8 to 1,024 bytes
        #[arg(long)]
        password_stdin: bool,
        /// Create the account without a machine
        #[arg(long)]
        no_machine: bool,
        #[command(flatten)]
        at: Where,
    },
    /// List all accounts: licence, credits, conversations
    List {
        #[command(flatten)]
        at: Where,
    },
    /// Show an account: licence, credits, keys, machine
    Show {
        /// The account: email or identifier
        account: String,
        #[command(flatten)]
        at: Where,
    },
    /// Replace the password of the account's owner
    ///
    /// On a terminal, prompts for the password without showing it.
    #[command(after_help = examples::SET_PASSWORD)]
    SetPassword {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        /// Read the password from standard input: one line of 8 to 1,024 bytes (required without a terminal)
        #[arg(long)]
        password_stdin: bool,
        #[command(flatten)]
        at: Where,
    },
    /// Replace the email of the account's owner, or confirm it
    ///
    /// The owner signs in with the email. A user of an identity provider is matched by it the first time,
    /// unless the owner chose the email.
    SetEmail {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        /// The email
        #[arg(long)]
        email: String,
        #[command(flatten)]
        at: Where,
    },
    /// Set the role of the account's owner
    ///
    /// Operators see and change all accounts in the web application.
    SetRole {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        /// The role: owner or operator
        #[arg(long, value_parser = ["owner", "operator"])]
        role: String,
        #[command(flatten)]
        at: Where,
    },
    /// Delete an account with all its conversations and files, for good
    ///
    /// Keys and sessions end at once, the rest is removed in the background. Postings and the audit log are
    /// kept, without the email.
    #[command(after_help = examples::ACCOUNT_DELETE)]
    Delete {
        /// The account: email or identifier
        account: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        at: Where,
    },
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key; it is shown only once
    #[command(after_help = examples::KEY_CREATE)]
    Create {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        /// A name by which the owner recognizes the key
        #[arg(long)]
        name: String,
        /// Expiry, if before the end of the licence: the last day in UTC, such as 2027-12-31, or a time in RFC 3339
        #[arg(long, value_name = "DATE")]
        expires: Option<String>,
        /// The permissions of the key: any of read, ask, files, machine, separated by commas; all by default
        #[arg(long, value_name = "SCOPE")]
        scope: Option<String>,
        /// The total number of credits that its questions may cost; unlimited by default
        #[arg(long, value_name = "CREDITS")]
        spending_limit: Option<u64>,
        #[command(flatten)]
        at: Where,
    },
    /// List an account's keys
    List {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        #[command(flatten)]
        at: Where,
    },
    /// Revoke a key immediately
    Revoke {
        /// The key's identifier
        key_id: String,
        #[command(flatten)]
        at: Where,
    },
}

#[derive(Debug, Subcommand)]
pub enum LicenceCommand {
    /// Set the end of an account's licence
    #[command(after_help = examples::LICENCE_SET)]
    Set {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        /// The last day in UTC, such as 2027-12-31, a time in RFC 3339, or `none`
        #[arg(long, value_name = "DATE")]
        until: String,
        #[command(flatten)]
        at: Where,
    },
}

#[derive(Debug, Subcommand)]
pub enum CreditsCommand {
    /// Give credits to an account
    #[command(after_help = examples::GRANT)]
    Grant {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        /// The number of credits
        amount: u64,
        #[command(flatten)]
        at: Where,
    },
    /// Show an account's balance
    Show {
        /// The account: email or identifier
        #[arg(long)]
        account: String,
        #[command(flatten)]
        at: Where,
    },
}

#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    /// List all machines
    List {
        #[command(flatten)]
        at: Where,
    },
    /// Show a machine: state, driver and isolation, processes, memory, log
    Show {
        /// The account: email or identifier
        account: String,
        #[command(flatten)]
        at: Where,
    },
    /// Start a machine and wait until its agent answers
    Start {
        /// The account: email or identifier
        account: String,
        #[command(flatten)]
        at: Where,
    },
    /// Stop a machine, or all machines, and wait until their processes have ended
    #[command(group = clap::ArgGroup::new("which").required(true))]
    Stop {
        /// The account: email or identifier
        #[arg(group = "which")]
        account: Option<String>,
        /// Stop every running machine, for example before the service is removed; questions start them again
        #[arg(long, group = "which")]
        all: bool,
        #[command(flatten)]
        at: Where,
    },
    /// Run commands in a machine, with the user and the limits of the agent's tools
    ///
    /// Without COMMAND it reads command lines, from the terminal or a pipe, until the input ends.
    #[command(after_help = examples::CONSOLE)]
    Console {
        /// The account: email or identifier
        account: String,
        /// A command line for the machine's shell
        command: Option<String>,
        #[command(flatten)]
        at: Where,
    },
    /// Print the end of a machine's log
    Log {
        /// The account: email or identifier
        account: String,
        #[command(flatten)]
        at: Where,
    },
    /// Stop a machine and remove its index; the next start reads the workspace again
    Reset {
        /// The account: email or identifier
        account: String,
        #[command(flatten)]
        at: Where,
    },
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List entries, newest first
    List {
        /// The account: email or identifier; all by default
        #[arg(long)]
        account: Option<String>,
        /// Start of the period: a day in UTC, such as 2027-12-31, or a time in RFC 3339
        #[arg(long, value_name = "DATE")]
        since: Option<String>,
        /// List entries before this number, as reported by the previous page
        #[arg(long, value_name = "ENTRY")]
        before: Option<i64>,
        /// The maximum number of entries
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        #[command(flatten)]
        at: Where,
    },
}
