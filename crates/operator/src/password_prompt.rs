//! Asks for a password on the terminal, without showing it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The longest line that is read, in bytes. A longer one is refused by its end.
const LINE_MAX_BYTES: u64 = 4096;
/// The terminal of the process, even if its input and output are redirected.
const TERMINAL: &str = "/dev/tty";

/// A terminal without echo, until this is dropped.
pub(crate) struct PasswordPrompt {
    terminal: File,
    before: Termios,
}

impl PasswordPrompt {
    /// Opens the terminal. Returns `None` if standard input is not a terminal.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(crate) fn open_terminal() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() {
            return Ok(None);
        }
        let terminal = File::options().read(true).write(true).open(TERMINAL)?;
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
        Ok(Some(Self { terminal, before }))
    }

    /// Asks for one line, and returns it with its end.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(crate) fn ask_line(&self, what: &str) -> io::Result<String> {
        let mut terminal = &self.terminal;
        terminal.write_all(what.as_bytes())?;
        let mut line = String::new();
        // The terminal hands out a line at a time, so no byte of the next one is lost in the buffer.
        BufReader::new(terminal.take(LINE_MAX_BYTES)).read_line(&mut line)?;
        // The typed line end was not echoed either.
        terminal.write_all(b"\n")?;
        Ok(line)
    }
}

impl Drop for PasswordPrompt {
    fn drop(&mut self) {
        // An error means that the terminal was closed: ignore it.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}
