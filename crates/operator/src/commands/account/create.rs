//! `causerie account create`

use clap::Args;
use domain::account::AccountRole;
use domain::credits::Credits;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::replies::AccountWithRole;
use crate::command::OperatorCommand;
use crate::error::CliError;
use crate::passwords::{parse_password, read_typed_password};
use crate::request::{DatabaseUse, ExecutionContext, OperatorRequest, RequestSecret};
use crate::times::parse_end_time;

/// Create an account
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n\
\x20 causerie account create --email ada@example.org --licence-until 2030-12-31 --credits 1000\n\
\x20 causerie account create --operator --email you@example.org --licence-until 2030-12-31 --credits 1000\n\
\x20 pass show ada | head -n 1 | causerie account create --email ada@example.org --password-stdin")]
pub struct CreateAccountArgs {
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
}

impl OperatorCommand for CreateAccountArgs {
    type Request = CreateAccount;

    fn into_request(self) -> Result<CreateAccount, CliError> {
        Ok(CreateAccount {
            licence_until: self.licence_until.as_deref().map(parse_end_time).transpose()?.flatten(),
            password: if self.password_stdin { Some(read_typed_password(std::io::stdin())?) } else { None },
            email: self.email,
            credits: self.credits,
            operator: self.operator,
            machine: !self.no_machine,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CreateAccount {
    email: String,
    licence_until: Option<i64>,
    credits: u64,
    operator: bool,
    password: Option<RequestSecret>,
    machine: bool,
}

impl OperatorRequest for CreateAccount {
    const NAME: &'static str = "create_account";
    type Reply = AccountWithRole;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<AccountWithRole, CliError> {
        let admin = context.admin;
        let until = self.licence_until.map(Timestamp::from_micros);
        let password = self.password.map(parse_password).transpose()?;
        let created =
            admin.create_account(&self.email, until, Credits(self.credits), password, self.machine).await?;
        let role = if self.operator { AccountRole::Operator } else { AccountRole::Owner };
        if role != AccountRole::Owner {
            admin.set_role(&created.email, role).await?;
        }
        Ok(AccountWithRole { account: created.into(), role: role.as_str().to_owned() })
    }

    fn database_use(&self) -> DatabaseUse {
        DatabaseUse::Created
    }
}
