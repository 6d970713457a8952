//! An answer is read through kills of the service without a lost or doubled character.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use e2e::api::id_field;
use e2e::{Api, HttpRequest, Say, ScriptedVendor, ServiceOptions, TestService, poll};
use serde_json::Value;

use crate::expect_success;
use crate::programs::{prepare_typescript_folder, python_command, test_file, typescript_compiler};

/// The text that the model writes on each call; the service is killed in mid-sentence, except in the last one.
const SAYINGS: [&str; 3] = ["One two", "One two three", "One two three, four"];
/// The length of the text that every reader sees after a restart: shorter than the text that it read before.
const BEGUN: usize = "One".len();

/// A program that prints the pieces of an answer's text as it reads them, a line of JSON each, and at last the text.
struct ClientReader {
    name: &'static str,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    text: String,
}

impl ClientReader {
    fn spawn_client(name: &'static str, command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it can be run");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { name, process, lines, text: String::new() }
    }

    fn read_line(&mut self) -> Value {
        let line = self.lines.next().transpose().expect("a line");
        assert!(line.is_some(), "{} ended at {:?}", self.name, self.text);
        serde_json::from_str(&line.unwrap_or_default()).expect("JSON")
    }

    /// Reads pieces until they make up the text.
    fn read_until_text(&mut self, text: &str) {
        while self.text != text {
            let line = self.read_line();
            let piece = line["piece"].as_str().unwrap_or_default();
            self.text.push_str(piece);
            let continues = !piece.is_empty() && text.starts_with(&self.text);
            assert!(continues, "{}: {:?} after {line}, not {text:?}", self.name, self.text);
        }
    }

    /// Reads to the end, and returns the text of the completed answer.
    fn read_to_end(&mut self) -> String {
        loop {
            let line = self.read_line();
            match line["piece"].as_str() {
                Some(piece) => self.text.push_str(piece),
                None => {
                    assert!(self.process.wait().expect("it ends").success(), "{}", self.name);
                    return line["text"].as_str().expect("the whole text").to_owned();
                }
            }
        }
    }
}

impl Drop for ClientReader {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the number of streams of answers that the service has open.
fn open_streams(api: &Api) -> usize {
    let metrics = HttpRequest::new("GET", "/metrics").send(&api.address).text();
    let open = metrics.lines().find_map(|line| line.strip_prefix("causerie_streams_open{kind=\"answer\"} "));
    open.and_then(|number| number.parse().ok()).expect("the number of open streams")
}

#[test]
fn clients_read_answer_through_kills() {
    let vendor = ScriptedVendor::start();
    let mut service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let account = service.create_account();
    let api = service.api_for(&account);
    vendor.add_script([Say::from_text(SAYINGS[0]), Say::Hold]);
    let answer = api.ask_question("Count");
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    let url = format!("http://{}", api.address);
    let arguments = [url.as_str(), &api.key, &chat, &message];
    let follow = |mode: &str| {
        let mut command = python_command("python");
        command.arg(test_file("follow.py")).arg(mode).args(arguments);
        command
    };
    let built = prepare_typescript_folder();
    expect_success(typescript_compiler().current_dir(built.path()));
    let mut node = Command::new("node");
    let mut readers = [
        ClientReader::spawn_client("python", &mut follow("sync")),
        ClientReader::spawn_client("python, async", &mut follow("async")),
        ClientReader::spawn_client(
            "typescript",
            node.arg(test_file("follow.mjs")).arg(built.path()).args(arguments),
        ),
    ];
    for reader in &mut readers {
        reader.read_until_text(SAYINGS[0]);
    }
    for saying in &SAYINGS[1..] {
        service.kill();
        let (begun, rest) = saying.split_at(BEGUN);
        vendor.add_script([
            Say::from_text(begun),
            Say::Hold,
            Say::from_text(rest),
            Say::Hold,
            Say::from_text("."),
        ]);
        service.restart();
        poll::wait_until("the answer restarts", || (api.get_answer(&answer)["text"] == begun).then_some(()));
        poll::wait_until("every reader is back", || (open_streams(&api) == readers.len()).then_some(()));
        vendor.release_hold();
        for reader in &mut readers {
            reader.read_until_text(saying);
        }
    }
    vendor.release_hold();
    for reader in &mut readers {
        let whole = reader.read_to_end();
        assert_eq!((reader.text.as_str(), whole.as_str()), ("One two three, four.", "One two three, four."));
    }
}
