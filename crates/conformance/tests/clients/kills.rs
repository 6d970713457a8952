//! An answer is read through kills of the service without a lost or doubled character.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use conformance::api::id;
use conformance::{Api, Options, Request, Say, Service, Vendor, poll};
use serde_json::Value;

use crate::programs::{file, python, tsc, typescript};
use crate::succeeded;

/// The text that the model writes each time that it is called; the service is killed in mid-sentence but for the last.
const SAYINGS: [&str; 3] = ["One two", "One two three", "One two three, four"];
/// The length of the text that every reader sees after a restart: shorter than what it read before.
const BEGUN: usize = "One".len();

/// A program that prints the pieces of an answer's text as it reads them, a line of JSON each, and at last the text.
struct Reader {
    name: &'static str,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    text: String,
}

impl Reader {
    fn start(name: &'static str, command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it can be run");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { name, process, lines, text: String::new() }
    }

    fn line(&mut self) -> Value {
        let line = self.lines.next().transpose().expect("a line");
        assert!(line.is_some(), "{} ended at {:?}", self.name, self.text);
        serde_json::from_str(&line.unwrap_or_default()).expect("JSON")
    }

    /// Reads pieces until they make up the text.
    fn reads(&mut self, text: &str) {
        while self.text != text {
            let line = self.line();
            let piece = line["piece"].as_str().unwrap_or_default();
            self.text.push_str(piece);
            let continues = !piece.is_empty() && text.starts_with(&self.text);
            assert!(continues, "{}: {:?} after {line}, not {text:?}", self.name, self.text);
        }
    }

    /// Reads to the end, and returns the text of the completed answer.
    fn ends(&mut self) -> String {
        loop {
            let line = self.line();
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

impl Drop for Reader {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the number of streams of answers that the service has open.
fn open_streams(api: &Api) -> usize {
    let metrics = Request::new("GET", "/metrics").send(&api.address).text();
    let open = metrics.lines().find_map(|line| line.strip_prefix("causerie_streams_open{kind=\"answer\"} "));
    open.and_then(|number| number.parse().ok()).expect("the number of open streams")
}

#[test]
fn the_clients_read_an_answer_through_kills_of_the_service() {
    let vendor = Vendor::start();
    let mut service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let account = service.account();
    let api = service.api(&account);
    vendor.will([Say::text(SAYINGS[0]), Say::Hold]);
    let answer = api.ask("Count");
    let (chat, message) = (id(&answer, "chatId"), id(&answer, "id"));
    let url = format!("http://{}", api.address);
    let arguments = [url.as_str(), &api.key, &chat, &message];
    let follow = |mode: &str| {
        let mut command = python("python");
        command.arg(file("follow.py")).arg(mode).args(arguments);
        command
    };
    let built = typescript();
    succeeded(tsc().current_dir(built.path()));
    let mut node = Command::new("node");
    let mut readers = [
        Reader::start("python", &mut follow("sync")),
        Reader::start("python, async", &mut follow("async")),
        Reader::start("typescript", node.arg(file("follow.mjs")).arg(built.path()).args(arguments)),
    ];
    for reader in &mut readers {
        reader.reads(SAYINGS[0]);
    }
    for saying in &SAYINGS[1..] {
        service.kill();
        let (begun, rest) = saying.split_at(BEGUN);
        vendor.will([Say::text(begun), Say::Hold, Say::text(rest), Say::Hold, Say::text(".")]);
        service.restart();
        poll::until("the answer begins anew", || (api.now(&answer)["text"] == begun).then_some(()));
        poll::until("every reader is back", || (open_streams(&api) == readers.len()).then_some(()));
        vendor.release();
        for reader in &mut readers {
            reader.reads(saying);
        }
    }
    vendor.release();
    for reader in &mut readers {
        let whole = reader.ends();
        assert_eq!((reader.text.as_str(), whole.as_str()), ("One two three, four.", "One two three, four."));
    }
}
