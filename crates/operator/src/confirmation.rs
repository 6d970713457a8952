//! Asks an operator on a terminal to confirm a command that cannot be undone.

use std::io::{BufRead, BufReader, IsTerminal, Read};

use crate::admin;
use crate::commands::{AccountCommand, AdminCommand};
use crate::error::CliError;
use crate::output;
use crate::request::AdminRequest;

/// The longest line that is read, in bytes.
const LINE_MAX_BYTES: u64 = 1024;

/// If the command deletes an account, shows the data to be deleted and requires the email to be typed, unless
/// already confirmed. Fails without a terminal.
pub async fn confirm_account_deletion(command: &AdminCommand) -> Result<(), CliError> {
    let AdminCommand::Account(AccountCommand::Delete { account, yes: false, at }) = command else {
        return Ok(());
    };
    if !std::io::stdin().is_terminal() {
        let message = "deleting an account cannot be undone: confirm it with --yes";
        return Err(CliError::new("CONFIRMATION_REQUIRED", message));
    }
    let shown = admin::carry_out_at(at, AdminRequest::ShowAccount { account: account.clone() }).await?;
    let email = output::format_value(&shown["email"]);
    output::error_line(format_args!(
        "{email}: {} conversations, {} keys, {} credits and all files will be gone for good.",
        output::format_value(&shown["conversations"]),
        output::format_value(&shown["keys"]),
        output::format_value(&shown["balance"]),
    ));
    output::error_line("Type the email to delete the account:");
    // Blocking is fine here: the command does nothing else meanwhile.
    if is_email_confirmed(std::io::stdin(), &email) {
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
