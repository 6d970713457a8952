//! `causerie account delete`, which an operator on a terminal confirms.

use std::io::{BufRead, BufReader, IsTerminal, Read};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::show::ShowAccount;
use crate::carry_out::carry_out_at;
use crate::command::{OperatorCommand, run_request};
use crate::error::CliError;
use crate::location::Where;
use crate::output;
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// The longest line that is read, in bytes.
const LINE_MAX_BYTES: u64 = 1024;

/// Delete an account with all its conversations and files, for good
///
/// Keys and sessions end at once, the rest is removed in the background. Postings and the audit log are
/// kept, without the email.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n\
\x20 causerie account delete ada@example.org\n\
\x20 causerie account delete 0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7d --yes --json")]
pub struct DeleteAccountArgs {
    /// The account: email or identifier
    account: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

impl OperatorCommand for DeleteAccountArgs {
    type Request = DeleteAccount;

    fn into_request(self) -> Result<DeleteAccount, CliError> {
        Ok(DeleteAccount { account: self.account })
    }

    async fn run(self, at: &Where) -> Result<(), CliError> {
        if !self.yes {
            confirm_deletion(&self.account, at).await?;
        }
        run_request(self.into_request()?, at).await
    }
}

/// Shows the data to be deleted and requires the email to be typed. Fails without a terminal.
async fn confirm_deletion(account: &str, at: &Where) -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() {
        let message = "deleting an account cannot be undone: confirm it with --yes";
        return Err(CliError::new("CONFIRMATION_REQUIRED", message));
    }
    let shown = carry_out_at(at, ShowAccount { account: account.to_owned() }).await?;
    let facts = &shown.account;
    output::error_line(format_args!(
        "{}: {} conversations, {} keys, {} credits and all files will be gone for good.",
        facts.email, facts.conversations, shown.keys, facts.balance,
    ));
    output::error_line("Type the email to delete the account:");
    // Blocking is fine here: the command does nothing else meanwhile.
    if is_email_confirmed(std::io::stdin(), &facts.email) {
        return Ok(());
    }
    Err(CliError::new("NOT_CONFIRMED", "the account was not deleted: another text was typed"))
}

/// Returns true if the first line is the email, in any case.
fn is_email_confirmed(input: impl Read, email: &str) -> bool {
    let mut line = String::new();
    let read = BufReader::new(input.take(LINE_MAX_BYTES)).read_line(&mut line);
    read.is_ok() && line.trim().to_lowercase() == email.to_lowercase()
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeleteAccount {
    account: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeletedAccount {
    account_id: String,
    email: Option<String>,
    deleted: bool,
}

impl CommandReply for DeletedAccount {}

impl OperatorRequest for DeleteAccount {
    const NAME: &'static str = "delete_account";
    type Reply = DeletedAccount;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<DeletedAccount, CliError> {
        let deleted = context.admin.delete_account(&self.account).await?;
        Ok(DeletedAccount { account_id: deleted.id.to_string(), email: deleted.email, deleted: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_email_confirms() {
        for typed in ["ada@example.org\n", " Ada@Example.org ", "ada@example.org\r\nmore"] {
            assert!(is_email_confirmed(typed.as_bytes(), "ada@example.org"), "{typed:?}");
        }
        for typed in ["", "\n", "yes\n", "eve@example.org\n", "ada@example.org.evil\n"] {
            assert!(!is_email_confirmed(typed.as_bytes(), "ada@example.org"), "{typed:?}");
        }
    }
}
