//! Prints the output of commands.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Prints a line. Whoever reads the output may have had enough, as `head` has: then the command ends as one that did
/// what it was told.
pub(crate) fn line(line: impl Display) {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            error_line(format_args!("causerie: standard output: {error}"));
            std::process::exit(1);
        }
    }
}

/// Prints a line to standard error. When nobody reads that, nothing can be told.
pub(crate) fn error_line(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
