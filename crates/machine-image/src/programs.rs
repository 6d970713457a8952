//! The programs that build images: found in `PATH`, run in a separate process group, ended with the build.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use rustix::process::Pid;

use crate::cancel::{Cancel, Progress};
use crate::error::{ImageErrorContext, MachineImageError};

/// The number of last output lines in the report of a program's failure.
const LINES_KEPT_MAX: usize = 12;
/// The longest line that is read, in bytes.
const LINE_MAX_BYTES: u64 = 16 * 1024;
/// The variables that a program inherits; no key of the service is among them.
const INHERITED: [&str; 9] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
];

pub(crate) const MMDEBSTRAP: Program = Program { name: "mmdebstrap", package: "mmdebstrap" };
pub(crate) const MKFS_EROFS: Program = Program { name: "mkfs.erofs", package: "erofs-utils" };

/// A program of the host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    package: &'static str,
}

impl Program {
    /// Finds the program.
    ///
    /// # Errors
    /// [`MachineImageError::MissingProgram`].
    pub(crate) fn find_program(self) -> Result<PathBuf, MachineImageError> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
        let places = std::env::split_paths(&path).map(|folder| folder.join(self.name));
        // The PATH of ordinary users often lacks these folders.
        let others = ["/usr/sbin", "/sbin"].map(|folder| PathBuf::from(folder).join(self.name));
        let found = places.chain(others).find(|place| place.is_file());
        found.ok_or(MachineImageError::MissingProgram { program: self.name, package: self.package })
    }

    /// Returns the version that the program reports.
    pub(crate) fn read_version(self) -> Option<String> {
        let output =
            Command::new(self.find_program().ok()?).arg("--version").stdin(Stdio::null()).output().ok()?;
        // mkfs.erofs names its version on standard error.
        let text =
            String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout });
        let version = text.lines().next()?.rsplit(' ').next()?.trim().to_owned();
        (!version.is_empty()).then_some(version)
    }

    /// Prepares a run with a clean environment.
    pub(crate) fn clean_command(self) -> Result<Command, MachineImageError> {
        let mut command = Command::new(self.find_program()?);
        command.env_clear().env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Ok(command)
    }
}

pub(crate) struct RunningProgram<'a> {
    program: Program,
    child: Child,
    lines: JoinHandle<VecDeque<String>>,
    cancel: &'a Cancel,
}

impl<'a> RunningProgram<'a> {
    /// Starts a program; its messages are reported as they arrive.
    pub(crate) fn start_program(
        program: Program,
        mut command: Command,
        spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
        progress: Progress,
        cancel: &'a Cancel,
    ) -> Result<(Self, Option<ChildStdout>), MachineImageError> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = spawn(&mut command).with_context(|| format!("starting {}", program.name))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        cancel.set_program(pid);
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let lines =
            std::thread::spawn(move || errors.map_or_else(VecDeque::new, |from| last_lines(from, progress)));
        Ok((Self { program, child, lines, cancel }, output))
    }

    /// Ends the program; it removes its temporary files.
    pub(crate) fn stop_program(self) {
        self.cancel.end_program();
        let _ = self.wait_for_exit();
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`MachineImageError::Program`] with its last lines and, for known failures, a remedy.
    pub(crate) fn wait_for_exit(mut self) -> Result<(), MachineImageError> {
        let status = self.child.wait();
        self.cancel.set_program(None);
        let lines = self.lines.join().unwrap_or_default();
        self.cancel.check_cancelled()?;
        let status = status.with_context(|| format!("waiting for {}", self.program.name))?;
        if status.success() {
            return Ok(());
        }
        let said: Vec<String> = lines.into_iter().collect();
        let mut reason = said.join("\n");
        if reason.is_empty() {
            reason = status.to_string();
        }
        if let Some(hint) = failure_hint(&reason) {
            reason = format!("{hint}\n{reason}");
        }
        Err(MachineImageError::Program { program: self.program.name, reason })
    }
}

/// Explains the usual failures of mmdebstrap.
fn failure_hint(said: &str) -> Option<String> {
    if let Some((_, rest)) = said.split_once("Unable to locate package ") {
        let name = rest.split_whitespace().next().unwrap_or_default();
        return Some(format!(
            "the suite has no package {name}: check its name, or choose another with --suite"
        ));
    }
    let hints = [
        ("has no installation candidate", "a package is not installable from this suite"),
        ("was not found", "a package is not available in this version: check the version"),
        ("Could not resolve", "no mirror was reached: check the network, or name another with --mirror"),
        ("Could not connect", "no mirror was reached: check the network, or name another with --mirror"),
        ("Failed to fetch", "the mirror does not have this: check --mirror and --suite"),
        ("does not have a Release file", "the mirror does not have this suite: check --mirror and --suite"),
        (
            "NO_PUBKEY",
            "the mirror's signature is by an unknown key: install its keyring, such as debian-archive-keyring",
        ),
        (
            "No space left on device",
            "the disk is full: free some space, or set TMPDIR to a folder on another disk",
        ),
        (
            "newuidmap",
            "the service's user needs 65,536 subordinate ids: `usermod --add-subuids` and `--add-subgids`",
        ),
        ("nodev", "TMPDIR is on a disk mounted with nodev: set it to another folder"),
        ("noexec", "TMPDIR is on a disk mounted with noexec: set it to another folder"),
    ];
    hints.iter().find(|(words, _)| said.contains(words)).map(|(_, hint)| (*hint).to_owned())
}

fn last_lines(from: impl Read, progress: Progress) -> VecDeque<String> {
    let mut kept = VecDeque::new();
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match (&mut from).take(LINE_MAX_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return kept,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        let line: String = line.trim().chars().filter(|letter| !letter.is_control()).collect();
        if line.is_empty() {
            continue;
        }
        if let Some(said) = line.strip_prefix("I: ") {
            progress(said);
        } else if kept.len() == LINES_KEPT_MAX {
            kept.pop_front();
        }
        if !line.starts_with("I: ") {
            kept.push_back(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_come_with_what_to_do() {
        let said = "Reading package lists...\nE: Unable to locate package nosuch\nE: setup failed";
        assert!(failure_hint(said).is_some_and(|hint| hint.contains("no package nosuch")));
        assert!(
            failure_hint("E: Could not resolve 'mirror.invalid'")
                .is_some_and(|hint| hint.contains("--mirror"))
        );
        assert_eq!(failure_hint("E: something else"), None);
    }

    #[test]
    fn last_lines_stay_within_bounds() {
        let text: String = (0..1000).map(|number| format!("I: step\nline {number}\u{1b}[2J\n")).collect();
        let lines = last_lines(text.as_bytes(), |_| {});
        assert_eq!(lines.len(), LINES_KEPT_MAX);
        assert_eq!(lines.back().map(String::as_str), Some("line 999[2J"));
        assert!(last_lines(&vec![b'x'; 1 << 20][..], |_| {}).len() <= LINES_KEPT_MAX);
    }
}
