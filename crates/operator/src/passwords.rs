//! New passwords as operators give them: on standard input, or on the terminal.

use std::io::{BufRead, BufReader, Read};

use control::passwords::{PASSWORD_MAX_BYTES, Password};

use crate::error::CliError;
use crate::password_prompt::PasswordPrompt;
use crate::request::RequestSecret;

/// Reads a new password: from standard input, or from a person on the terminal, who types it twice.
pub(crate) fn read_new_password(from_input: bool) -> Result<RequestSecret, CliError> {
    if from_input {
        return read_typed_password(std::io::stdin());
    }
    let wrong = |message: String| CliError::new("INVALID_PASSWORD", message);
    let unreadable = |error| wrong(format!("reading the terminal failed: {error}"));
    let Some(prompt) = PasswordPrompt::open_terminal().map_err(unreadable)? else {
        let message = "no terminal to ask for the password: pass it on standard input with --password-stdin";
        return Err(wrong(message.to_owned()));
    };
    let first = read_typed_password(prompt.ask_line("New password: ").map_err(unreadable)?.as_bytes())?;
    let again = prompt.ask_line("The same again: ").map_err(unreadable)?;
    if again.trim_end_matches(['\r', '\n']) != first.0 {
        return Err(wrong("the passwords differ, nothing was changed: try again".to_owned()));
    }
    Ok(first)
}

/// Reads the password: one line, with or without its end. Errors never contain any of it.
pub(crate) fn read_typed_password(input: impl Read) -> Result<RequestSecret, CliError> {
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
    parse_password(typed.clone())?;
    Ok(typed)
}

/// Parses a new password.
pub(crate) fn parse_password(typed: RequestSecret) -> Result<Password, CliError> {
    Password::parse(&typed.0).map_err(|error| CliError::new("INVALID_PASSWORD", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line() {
        let typed = |input: &[u8]| read_typed_password(input).map(|secret| secret.0);
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
}
