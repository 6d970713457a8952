//! The connection by which the jail controls QEMU while a machine is saved or continued: commands of the QEMU Machine
//! Protocol (QMP), one JSON object a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use super::sys::{LaunchErrorContext, LaunchFailure};

/// The timeouts of an answer of QEMU, and of saving or reading a machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest message of QEMU, in bytes.
const MESSAGE_MAX_BYTES: u64 = 64 * 1024;
/// The maximum number of messages of QEMU that are read for one answer: events come in between.
const MESSAGES_MAX: u32 = 100;
/// The name by which QEMU knows the file of the state.
const STATE: &str = "state";
/// Bytes per second at which a machine may be written; QEMU's default slows it down.
const BANDWIDTH: u64 = 1 << 40;

/// A connection to QEMU.
pub(crate) struct Monitor {
    socket: BufReader<UnixStream>,
}

impl Monitor {
    /// Greets QEMU, which answers once it has created its devices, and excludes the machine's shared memory from saving
    /// and reading.
    pub(crate) fn open_monitor(socket: OwnedFd) -> Result<Self, LaunchFailure> {
        let socket = UnixStream::from(socket);
        socket.set_read_timeout(Some(ANSWER_TIMEOUT)).with_context("bounding the wait for QEMU")?;
        let mut monitor = Self { socket: BufReader::new(socket) };
        let mut prepare = || -> io::Result<()> {
            monitor.receive_message(|message| message.get("QMP").is_some())?;
            monitor.execute_command("qmp_capabilities", &json!({}))?;
            let capability = |name| json!({ "capability": name, "state": true });
            let capabilities = [capability("x-ignore-shared"), capability("events")];
            monitor.execute_command("migrate-set-capabilities", &json!({ "capabilities": capabilities }))
        };
        prepare().with_context("preparing QEMU")?;
        Ok(monitor)
    }

    /// Saves the state of the machine's devices, without its memory, and ends QEMU.
    pub(crate) fn save_machine(mut self, state: &File) -> Result<(), LaunchFailure> {
        let mut save = || -> io::Result<()> {
            self.execute_command("migrate-set-parameters", &json!({ "max-bandwidth": BANDWIDTH }))?;
            self.pass_state_file(state)?;
            self.execute_command("migrate", &json!({ "uri": format!("fd:{STATE}") }))?;
            self.wait_until_migrated()?;
            self.execute_command("quit", &json!({}))
        };
        save().with_context("saving the machine")
    }

    /// Continues a machine from the saved state of its devices.
    pub(crate) fn restore_machine(mut self, state: &File) -> Result<(), LaunchFailure> {
        let mut restore = || -> io::Result<()> {
            self.pass_state_file(state)?;
            self.execute_command("migrate-incoming", &json!({ "uri": format!("fd:{STATE}") }))?;
            self.wait_until_migrated()
        };
        restore().with_context("continuing the saved machine")
    }

    fn wait_until_migrated(&mut self) -> io::Result<()> {
        let status = |message: &Value| message.pointer("/data/status").cloned();
        let is_over = |message: &Value| {
            message.get("event").is_some_and(|event| event == "MIGRATION")
                && status(message).is_some_and(|status| status == "completed" || status == "failed")
        };
        let message = self.receive_message(is_over)?;
        match status(&message) {
            Some(status) if status == "completed" => Ok(()),
            _ => Err(io::Error::other("QEMU failed to transfer the machine")),
        }
    }

    /// Passes the file of the state to QEMU.
    fn pass_state_file(&mut self, state: &File) -> io::Result<()> {
        let line = command_message("getfd", &json!({ "fdname": STATE }));
        let files = [state.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(self.socket.get_ref(), &[IoSlice::new(&line)], &mut beside, SendFlags::NOSIGNAL)?;
        if sent < line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.read_answer("getfd")
    }

    fn execute_command(&mut self, command: &str, arguments: &Value) -> io::Result<()> {
        self.socket.get_mut().write_all(&command_message(command, arguments))?;
        self.read_answer(command)
    }

    fn read_answer(&mut self, command: &str) -> io::Result<()> {
        let answer = self
            .receive_message(|message| message.get("return").is_some() || message.get("error").is_some())?;
        match answer.pointer("/error/desc") {
            Some(reason) => Err(io::Error::other(format!("{command}: {reason}"))),
            None => Ok(()),
        }
    }

    /// Reads messages until a wanted one.
    fn receive_message(&mut self, is_wanted: impl Fn(&Value) -> bool) -> io::Result<Value> {
        for _ in 0..MESSAGES_MAX {
            let mut line = Vec::new();
            (&mut self.socket).take(MESSAGE_MAX_BYTES).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "QEMU has ended"));
            }
            let message: Value = serde_json::from_slice(&line)?;
            if is_wanted(&message) {
                return Ok(message);
            }
        }
        Err(io::Error::other("QEMU sends too many messages"))
    }
}

/// Returns the message of a command.
fn command_message(command: &str, arguments: &Value) -> Vec<u8> {
    let mut line = json!({ "execute": command, "arguments": arguments }).to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Plays QEMU: sends the greeting, then for each command these lines. Returns the commands.
    fn spawn_fake_qemu(answers: Vec<&'static str>) -> (OwnedFd, thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let plays = thread::spawn(move || {
            let mut socket = BufReader::new(theirs);
            socket.get_mut().write_all(b"{\"QMP\": {\"version\": {}}}\r\n").unwrap();
            let mut commands = Vec::new();
            for answer in answers {
                let mut line = String::new();
                socket.read_line(&mut line).unwrap();
                let command: Value = serde_json::from_str(&line).unwrap();
                commands.push(command["execute"].as_str().unwrap().to_owned());
                socket.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            commands
        });
        (ours.into(), plays)
    }

    fn open_state_file() -> File {
        File::open("/dev/null").unwrap()
    }

    const DONE: &str = "{\"return\": {}}\r\n";
    const ACTIVE_THEN_COMPLETED: &str = "{\"event\": \"MIGRATION\", \"data\": {\"status\": \"setup\"}}\r\n{\"return\": {}}\r\n\
        {\"event\": \"STOP\"}\r\n{\"event\": \"MIGRATION\", \"data\": {\"status\": \"completed\"}}\r\n";

    #[test]
    fn monitor_save_machine_skips_events() {
        let (socket, plays) = spawn_fake_qemu(vec![DONE, DONE, DONE, DONE, ACTIVE_THEN_COMPLETED, DONE]);
        Monitor::open_monitor(socket).unwrap().save_machine(&open_state_file()).unwrap();
        let commands = plays.join().unwrap();
        let expected = "qmp_capabilities migrate-set-capabilities migrate-set-parameters getfd migrate quit";
        assert_eq!(commands.join(" "), expected);
    }

    #[test]
    fn monitor_reports_refusal_failure_and_end() {
        let failed = "{\"return\": {}}\r\n{\"event\": \"MIGRATION\", \"data\": {\"status\": \"failed\"}}\r\n";
        let refused = "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no such file\"}}\r\n";
        for (answer, reason) in
            [(failed, "failed to transfer"), (refused, "no such file"), ("", "QEMU has ended")]
        {
            let (socket, plays) = spawn_fake_qemu(vec![DONE, DONE, DONE, answer]);
            let failure =
                Monitor::open_monitor(socket).unwrap().restore_machine(&open_state_file()).unwrap_err();
            assert!(failure.to_string().contains(reason), "{failure}");
            plays.join().unwrap();
        }
    }

    #[test]
    fn messages_without_end_are_cut_off() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let floods = thread::spawn(move || {
            let mut theirs = theirs;
            while theirs.write_all(&[b'x'; 4096]).is_ok() {}
        });
        assert!(Monitor::open_monitor(ours.into()).is_err());
        floods.join().unwrap();
    }
}
