//! `shell`: runs a command, from the agent's side.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use protocol::tool::ToolOutput;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::child::{acquire_process, encode_request, register_call, sweep_leftovers};
use super::confine::Confinement;
use super::output::failed_output;
use super::path::plain_line;
use super::request::{ChildRequest, ChildTask};
use super::role::ProcessRole;
use super::supervise::CommandExit;
use super::{ToolLimits, watch};

/// The default timeout of a command, in seconds.
const SECONDS_DEFAULT: u32 = 60;
/// The longest command, in bytes; the kernel allows 128 KiB.
const COMMAND_MAX_BYTES: usize = 100 * 1024;
/// The number of bytes that are retained of the beginning and of the end of the output, each.
const HALF_MAX_BYTES: usize = 24 * 1024;
/// Output beyond this kills the command, in bytes.
const FLOOD_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The time in which the supervisor must kill a command's processes.
const ENDING_TIME_MAX: Duration = Duration::from_secs(10);
/// The time in which output is still read after the supervisor, the last process, has exited.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);
/// The maximum length of the supervisor's report, in bytes.
const REPORT_MAX_BYTES: u64 = 4 * 1024;

/// Arguments of [`domain::tool::MachineTool::Shell`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellArguments {
    pub(crate) command: String,
    /// The time limit in seconds; 60 by default, at most 600.
    #[serde(default)]
    pub(crate) timeout_seconds: Option<u32>,
}

pub(super) async fn run_command(
    arguments: ShellArguments,
    limits: &ToolLimits,
    stopped: impl Future<Output = ()>,
) -> Result<ToolOutput, String> {
    if arguments.command.len() > COMMAND_MAX_BYTES {
        return Err(format!(
            "the command is longer than {COMMAND_MAX_BYTES} bytes; write a script and run that"
        ));
    }
    if arguments.command.contains('\0') {
        return Err("the command contains a zero byte".to_owned());
    }
    let seconds =
        arguments.timeout_seconds.unwrap_or(SECONDS_DEFAULT).clamp(1, 600).min(limits.shell_seconds);
    let time_max = Duration::from_secs(u64::from(seconds));
    let outcome = {
        let _running = register_call().await;
        let request = ChildRequest {
            confinement: Confinement::of_shell(limits, time_max),
            workspace: limits.workspace.clone(),
            task: ChildTask::Shell { command: arguments.command, temp: limits.temp.clone() },
            more: false,
            after_unpacking: None,
        };
        let line = encode_request(&request)?;
        RunningCommand::start_command(&line, limits).await?.until_its_end(time_max, limits, stopped).await
    };
    limits.spares.refill_soon(limits);
    if !outcome.as_ref().is_ok_and(RunningCommand::is_clean) {
        sweep_leftovers(limits).await;
    }
    outcome.map(|run| run.into_output(seconds))
}

/// The reason why a command was killed.
#[derive(Debug)]
enum CommandCut {
    Time,
    Stopped,
    Flood,
    Resources(String),
}

struct RunningCommand {
    child: Child,
    stdin: Option<tokio::process::ChildStdin>,
    stdout: tokio::process::ChildStdout,
    stderr: tokio::process::ChildStderr,
    capture: Capture,
    cut: Option<CommandCut>,
    ended: CommandExit,
    /// True if the supervisor reported the end and ended by itself.
    reported: bool,
}

impl RunningCommand {
    async fn start_command(line: &[u8], limits: &ToolLimits) -> Result<Self, String> {
        use tokio::io::AsyncWriteExt;
        let mut child = acquire_process(ProcessRole::Command, limits)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err("the tool's process has no pipes".to_owned());
        };
        stdin
            .write_all(line)
            .await
            .map_err(|error| format!("the command cannot be sent to its supervisor: {error}"))?;
        Ok(Self {
            child,
            stdin: Some(stdin),
            stdout,
            stderr,
            capture: Capture::default(),
            cut: None,
            ended: CommandExit::Failed("its supervisor was lost; the command may have completed".to_owned()),
            reported: false,
        })
    }

    /// Reads output until the command and all its descendants have exited. Dropping the future closes the
    /// supervisor's standard input, and the supervisor kills the command.
    async fn until_its_end(
        mut self,
        time_max: Duration,
        limits: &ToolLimits,
        stopped: impl Future<Output = ()>,
    ) -> Result<Self, String> {
        let mut until = Instant::now() + time_max;
        let (mut stopped, mut taken) = (pin!(stopped), pin!(watch::watch_resources(limits)));
        let mut buffer = vec![0; 64 * 1024];
        let mut watched = true;
        loop {
            let running = self.cut.is_none() && watched;
            let cut = tokio::select! {
                read = self.stdout.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => break,
                    Ok(read) => {
                        self.capture.push(&buffer[..read]);
                        if self.capture.total <= FLOOD_MAX_BYTES || !running {
                            continue;
                        }
                        CommandCut::Flood
                    }
                },
                _ = self.child.wait(), if watched => {
                    watched = false;
                    until = until.min(Instant::now() + DRAIN_TIME_MAX);
                    continue;
                }
                () = sleep_until(until) => {
                    if !running {
                        // The supervisor is stuck or has exited.
                        let _ = self.child.start_kill();
                        break;
                    }
                    CommandCut::Time
                }
                () = &mut stopped, if running => CommandCut::Stopped,
                why = &mut taken, if running => CommandCut::Resources(why),
            };
            self.cut = Some(cut);
            self.stdin = None;
            until = Instant::now() + ENDING_TIME_MAX;
        }
        self.read_report(Instant::now() + ENDING_TIME_MAX).await;
        Ok(self)
    }

    /// Reads the report. Only the first line counts: a child that could not start the command reports that before the
    /// supervisor does.
    async fn read_report(&mut self, until: Instant) {
        let mut report = Vec::new();
        let mut stderr = (&mut self.stderr).take(REPORT_MAX_BYTES);
        let _ = timeout_at(until, stderr.read_to_end(&mut report)).await;
        let supervisor = timeout_at(until, self.child.wait()).await;
        if supervisor.is_err() {
            let _ = self.child.start_kill();
        }
        let first = report.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if let Ok(ended) = serde_json::from_slice(first) {
            self.ended = ended;
            self.reported = matches!(supervisor, Ok(Ok(status)) if status.success());
        }
    }

    /// Returns true if none of the command's processes can be left: its supervisor ended after all of them without
    /// killing any.
    fn is_clean(&self) -> bool {
        let left = match self.ended {
            CommandExit::Exit { left, .. } | CommandExit::Signal { left, .. } => left,
            CommandExit::Failed(_) => 0,
        };
        self.reported && self.cut.is_none() && left == 0
    }

    fn into_output(self, seconds: u32) -> ToolOutput {
        let (mut status_line, left, fine) = match (&self.cut, &self.ended) {
            (None, CommandExit::Failed(why)) => {
                return failed_output(&format!("the command could not be run: {}", plain_line(why)));
            }
            (None, CommandExit::Exit { status, left }) => {
                (format!("exit status {status}"), *left, *status == 0)
            }
            (None, CommandExit::Signal { signal, left }) => {
                (format!("ended by signal {signal}"), *left, false)
            }
            (Some(cut), _) => {
                let why = match cut {
                    CommandCut::Time => format!("it ran longer than {seconds} s"),
                    CommandCut::Stopped => "it was stopped".to_owned(),
                    CommandCut::Flood => format!("it put out more than {FLOOD_MAX_BYTES} bytes"),
                    CommandCut::Resources(why) => why.clone(),
                };
                (format!("killed: {why}"), 0, false)
            }
        };
        if left > 0 {
            status_line.push_str(&format!("; {left} background processes were ended"));
        }
        let mut text = self.capture.into_text();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{status_line}]"));
        ToolOutput { failed: !fine, text, ..ToolOutput::default() }
    }
}

/// The beginning and the end of an output of arbitrary length.
#[derive(Debug, Default)]
struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(HALF_MAX_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(HALF_MAX_BYTES)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(HALF_MAX_BYTES);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// Returns the output as text: without control sequences, with a note in place of bytes left out of the middle.
    fn into_text(mut self) -> String {
        let left_out = self.total - (self.head.len() + self.tail.len()) as u64;
        if left_out == 0 {
            self.head.extend(self.tail);
            let whole = strip_controls(&self.head);
            return whole[..whole.floor_char_boundary(2 * HALF_MAX_BYTES)].to_owned();
        }
        let (head, tail) = (strip_controls(&self.head), strip_controls(self.tail.make_contiguous()));
        let head = &head[..head.floor_char_boundary(HALF_MAX_BYTES)];
        let tail = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(HALF_MAX_BYTES))..];
        format!("{head}\n[... {left_out} bytes left out ...]\n{tail}")
    }
}

/// Converts output to lines of plain text; removes colors, cursor movements and other control characters.
fn strip_controls(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                Some('[') => {
                    for c in chars.by_ref() {
                        if matches!(c, '@'..='~') {
                            break;
                        }
                    }
                }
                Some(']') => {
                    // A terminal title ends with BEL or the string terminator.
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\n' | '\t' => out.push(c),
            _ if c.is_control() => {}
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_in_the_middle() {
        let mut capture = Capture::default();
        for number in 0..100_000 {
            capture.push(format!("{number}\n").as_bytes());
        }
        let total = capture.total;
        let text = capture.into_text();
        assert!(text.starts_with("0\n1\n2\n") && text.ends_with("99998\n99999\n"));
        assert!(text.contains(&format!("[... {} bytes left out ...]", total - 2 * HALF_MAX_BYTES as u64)));
        assert!(text.len() < 2 * HALF_MAX_BYTES + 100);
    }

    #[test]
    fn capture_short_whole_binary_bounded() {
        let mut capture = Capture::default();
        capture.push(&vec![b'x'; HALF_MAX_BYTES + 10]);
        capture.push(b"end");
        assert_eq!(capture.into_text().len(), HALF_MAX_BYTES + 13);
        let mut capture = Capture::default();
        capture.push(&vec![0xff; 10 * HALF_MAX_BYTES]);
        assert!(capture.into_text().len() <= 2 * HALF_MAX_BYTES + 100);
    }

    #[test]
    fn control_sequences_go() {
        assert_eq!(strip_controls(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\r\ny\rz\x08\x00"), "red x\ny\nz");
        assert_eq!(strip_controls(b"a\x1b[12"), "a");
        assert_eq!(strip_controls(b"a\x1b"), "a");
    }
}
