//! `causerie account set-password`

use clap::Args;
use serde::{Deserialize, Serialize};

use super::replies::ChangedAccount;
use crate::command::OperatorCommand;
use crate::error::CliError;
use crate::passwords::{parse_password, read_new_password};
use crate::request::{ExecutionContext, OperatorRequest, RequestSecret};

/// Replace the password of the account's owner
///
/// On a terminal, prompts for the password without showing it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n\
\x20 causerie account set-password --account ada@example.org\n\
\x20 pass show ada | head -n 1 | causerie account set-password --account ada@example.org --password-stdin")]
pub struct SetPasswordArgs {
    /// The account: email or identifier
    #[arg(long)]
    account: String,
    /// Read the password from standard input: one line of 8 to 1,024 bytes (required without a terminal)
    #[arg(long)]
    password_stdin: bool,
}

impl OperatorCommand for SetPasswordArgs {
    type Request = SetPassword;

    fn into_request(self) -> Result<SetPassword, CliError> {
        let password = read_new_password(self.password_stdin)?;
        Ok(SetPassword { account: self.account, password })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SetPassword {
    account: String,
    password: RequestSecret,
}

impl OperatorRequest for SetPassword {
    const NAME: &'static str = "set_password";
    type Reply = ChangedAccount;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ChangedAccount, CliError> {
        let password = parse_password(self.password)?;
        Ok(context.admin.set_password(&self.account, password).await?.into())
    }
}
