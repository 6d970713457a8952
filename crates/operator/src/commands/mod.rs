//! The commands of operators. Each is one module: its arguments, its request, its reply and how that is printed, and how the
//! request is carried out. The list below has one line for each.

mod account {
    pub(crate) mod create;
    pub(crate) mod delete;
    pub(crate) mod list;
    mod replies;
    pub(crate) mod set_email;
    pub(crate) mod set_password;
    pub(crate) mod set_role;
    pub(crate) mod show;
}
mod audit {
    pub(crate) mod list;
}
mod backup;
mod credits {
    pub(crate) mod grant;
    mod replies;
    pub(crate) mod show;
}
pub mod doctor;
mod job {
    pub(crate) mod list;
    pub(crate) mod retry;
}
mod key {
    pub(crate) mod create;
    pub(crate) mod list;
    pub(crate) mod revoke;
}
mod licence {
    pub(crate) mod set;
}
mod machine {
    pub(crate) mod console;
    pub(crate) mod list;
    pub(crate) mod log;
    mod replies;
    pub(crate) mod reset;
    pub(crate) mod show;
    pub(crate) mod start;
    pub(crate) mod stop;
}
pub mod models;
pub mod restore;
mod status;
mod usage;

use clap::Subcommand;
use serde_json::Value;

use crate::command::{CommandNode, Located, OperatorCommand};
use crate::error::CliError;
use crate::location::Where;
use crate::request::{ExecutionContext, OperatorRequest};

/// Lists the commands, single ones and groups, and the requests of commands that run by themselves.
macro_rules! commands {
    (
        $(
            $(#[$meta:meta])*
            $variant:ident
            $(($($path:ident)::+))?
            $(: $group:ident {
                $($sub:ident ($($sub_path:ident)::+)),+ $(,)?
            })?
        ),+ ;
        requests: $($($request:ident)::+),+ $(,)?
    ) => {
        #[derive(Debug, Subcommand)]
        pub enum OperatorCommands {
            $($(#[$meta])* $variant($(Located<$($path)::+>)? $($group)?),)+
        }

        impl OperatorCommands {
            /// Returns the location of the data that the command works on.
            pub fn location(&self) -> &Where {
                match self {
                    $(Self::$variant(command) => command.location(),)+
                }
            }

            /// Runs the command, and prints its reply.
            ///
            /// # Errors
            /// The failure of the command.
            pub async fn run(self) -> Result<(), CliError> {
                match self {
                    $(Self::$variant(command) => command.run().await,)+
                }
            }
        }

        $($(
            #[derive(Debug, Subcommand)]
            pub enum $group {
                $($sub(Located<$($sub_path)::+>),)+
            }

            impl CommandNode for $group {
                fn location(&self) -> &Where {
                    match self {
                        $(Self::$sub(command) => command.location(),)+
                    }
                }

                async fn run(self) -> Result<(), CliError> {
                    match self {
                        $(Self::$sub(command) => command.run().await,)+
                    }
                }
            }
        )?)+

        /// Carries out the request of this name.
        pub(crate) async fn execute_by_name(
            name: &str,
            parameters: Value,
            context: &ExecutionContext<'_>,
        ) -> Result<Value, CliError> {
            match name {
                $($(
                    <RequestOf<$($path)::+> as OperatorRequest>::NAME => {
                        execute_request::<RequestOf<$($path)::+>>(parameters, context).await
                    }
                )?)+
                $($($(
                    <RequestOf<$($sub_path)::+> as OperatorRequest>::NAME => {
                        execute_request::<RequestOf<$($sub_path)::+>>(parameters, context).await
                    }
                )+)?)+
                $(
                    <$($request)::+ as OperatorRequest>::NAME => {
                        execute_request::<$($request)::+>(parameters, context).await
                    }
                )+
                _ => Err(unknown_request_error()),
            }
        }
    };
}

type RequestOf<C> = <C as OperatorCommand>::Request;

commands! {
    Status(status::ShowStatus),
    /// Manage accounts
    #[command(subcommand)]
    Account: AccountCommand {
        Create(account::create::CreateAccountArgs),
        List(account::list::ListAccounts),
        Show(account::show::ShowAccount),
        SetPassword(account::set_password::SetPasswordArgs),
        SetEmail(account::set_email::SetEmail),
        SetRole(account::set_role::SetRole),
        Delete(account::delete::DeleteAccountArgs),
    },
    /// Manage API keys
    #[command(subcommand)]
    Key: KeyCommand {
        Create(key::create::CreateKeyArgs),
        List(key::list::ListKeys),
        Revoke(key::revoke::RevokeKey),
    },
    /// Manage licences
    #[command(subcommand)]
    Licence: LicenceCommand {
        Set(licence::set::SetLicenceArgs),
    },
    /// Grant and show credits
    #[command(subcommand)]
    Credits: CreditsCommand {
        Grant(credits::grant::GrantCredits),
        Show(credits::show::ShowCredits),
    },
    Usage(usage::ShowUsageArgs),
    /// List, show, start, stop and reset machines
    #[command(subcommand)]
    Machine: MachineCommand {
        List(machine::list::ListMachines),
        Show(machine::show::ShowMachine),
        Start(machine::start::StartMachine),
        Stop(machine::stop::StopMachines),
        Console(machine::console::ConsoleArgs),
        Log(machine::log::ShowMachineLog),
        Reset(machine::reset::ResetMachine),
    },
    /// Show the audit log: operators' actions and rejected keys
    #[command(subcommand)]
    Audit: AuditCommand {
        List(audit::list::ListAuditArgs),
    },
    /// List and retry failed background jobs
    #[command(subcommand)]
    Job: JobCommand {
        List(job::list::ListFailedJobs),
        Retry(job::retry::RetryJob),
    },
    Backup(backup::BackupArgs);
    requests: models::ListModels, doctor::RunChecks
}

async fn execute_request<R: OperatorRequest>(
    parameters: Value,
    context: &ExecutionContext<'_>,
) -> Result<Value, CliError> {
    let request: R = serde_json::from_value(parameters).map_err(|_| unknown_request_error())?;
    let reply = Box::pin(request.execute(context)).await?;
    serde_json::to_value(&reply).map_err(|error| CliError::new("USAGE", error.to_string()))
}

/// Returns the error for a request that this version does not have.
pub(crate) fn unknown_request_error() -> CliError {
    CliError::new("USAGE", "the service does not know this command: use the `causerie` of its version")
}
