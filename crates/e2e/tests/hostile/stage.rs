//! A service with an account under attack, through its documents and its model, and a second account.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use e2e::{Api, Expect, FakeVendors, HttpRequest, ServiceOptions, TestAccount, TestService};
use serde_json::{Value, json};

use crate::trap::Trap;

/// The content of the other account's file.
pub(crate) const SECRET: &str = "the-heron-flies-at-midnight";
/// The content of a file in the data folder, outside the accounts.
const CANARY: &str = "a-canary-that-nobody-reads";

pub(crate) struct HostileFixture {
    pub(crate) vendor: FakeVendors,
    pub(crate) service: TestService,
    pub(crate) account: TestAccount,
    pub(crate) api: Api,
    pub(crate) other: TestAccount,
    pub(crate) trap: Trap,
    before: BTreeMap<PathBuf, FileFingerprint>,
    questions: Cell<u32>,
}

/// The properties of a file or folder that reveal a change.
#[derive(Debug, PartialEq, Eq)]
struct FileFingerprint {
    mode: u32,
    owner: u32,
    length: u64,
    content: u64,
}

impl HostileFixture {
    pub(crate) fn start_fixture() -> Self {
        let vendor = FakeVendors::start();
        let service = TestService::start(ServiceOptions {
            environment: vendor.service_environment(),
            ..ServiceOptions::default()
        });
        let (account, other) = (service.create_account(), service.create_account());
        let api = service.api_for(&account);
        service.api_for(&other).upload_file("secret.txt", SECRET.as_bytes()).expect_status(201);
        fs::write(service.data_folder().join("canary.txt"), CANARY).expect("a canary");
        let trap = Trap::listen_everywhere(service.data_folder().parent().expect("the home of the data"));
        let before = BTreeMap::new();
        let mut stage = Self { vendor, service, account, api, other, trap, before, questions: Cell::new(0) };
        stage.before = stage.files_outside_workspace();
        stage
    }

    /// Asks the model that obeys everything it reads. Returns the answer and the results of its tools.
    pub(crate) fn ask_obedient_model(&self, input: &str) -> (Value, Vec<String>) {
        let marker = self.next_marker();
        let question = json!({ "input": format!("{marker}\n{input}"), "model": "obey" });
        let answer = self.api.wait_for_completion(&self.api.expect_accepted(&question));
        assert!(answer["error"].is_null(), "{answer}");
        (answer, self.tool_results(&marker))
    }

    /// Lets the model run these steps. Returns the answer and the results of its tools.
    pub(crate) fn run_steps(&self, steps: &Value) -> (Value, Vec<String>) {
        let marker = self.next_marker();
        let script = json!({ "steps": steps });
        let question = json!({ "input": format!("{marker} STANDIN {script}"), "model": "standin" });
        let answer = self.api.wait_for_completion(&self.api.expect_accepted(&question));
        assert!(answer["error"].is_null(), "{answer}");
        (answer, self.tool_results(&marker))
    }

    /// Lets the model call these tools, one per step, and returns their results.
    pub(crate) fn call_tools(&self, calls: &[(&str, Value)]) -> Vec<String> {
        let step = |(tool, arguments): &(&str, Value)| json!({"actions": [{"call": {"tool": tool, "arguments": arguments}}]});
        let mut steps: Vec<Value> = calls.iter().map(step).collect();
        steps.push(json!({"actions": [{"say": "Done."}]}));
        let (answer, results) = self.run_steps(&Value::from(steps));
        assert_eq!(answer["text"], "Done.");
        assert_eq!(results.len(), calls.len(), "each call has its result: {results:?}");
        results
    }

    /// Runs command lines and returns their outputs.
    pub(crate) fn run_commands(&self, commands: &[&str]) -> Vec<String> {
        let calls: Vec<_> = commands
            .iter()
            .map(|command| ("shell", json!({ "command": command, "timeout_seconds": 20 })))
            .collect();
        self.call_tools(&calls)
    }

    /// Returns the processes that the account's machine lives by: its first one, and its init and agent or its kernel.
    pub(crate) fn jail_processes(&self) -> Vec<i64> {
        self.machine_processes().into_iter().take(3).collect()
    }

    /// Returns true if a process of the account's machine has a command line that matches the pattern, which must not match
    /// itself.
    pub(crate) fn has_process(&self, pattern: &str) -> bool {
        let look = format!(
            "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null | \
                            grep -c '{pattern}' | sed 's/^/found: /'"
        );
        !self.run_commands(&[&look])[0].contains("found: 0")
    }

    /// Returns the processes of the account's machine on this host.
    fn machine_processes(&self) -> Vec<i64> {
        let listed = self.service.run_admin_command(&["machine", "list"]);
        let machines = listed["machines"].as_array().expect("machines");
        let own = machines.iter().find(|machine| machine["account"] == self.account.id.as_str());
        let pids = own.and_then(|machine| machine["pids"].as_array()).expect("the account's machine");
        pids.iter().filter_map(Value::as_i64).collect()
    }

    /// Returns the account's workspace on the host.
    pub(crate) fn workspace_folder(&self) -> PathBuf {
        self.service.data_folder().join("workspaces").join(&self.account.id)
    }

    /// Asserts that no secret of the service or of the other account is in the results.
    pub(crate) fn assert_no_secret(&self, results: &[String]) {
        for text in results {
            for secret in ["sk-stand-in", SECRET, CANARY, &self.account.key, &self.other.key] {
                assert!(!text.contains(secret), "{secret} in {text}");
            }
        }
    }

    /// Asserts that nothing was sent out, that files outside the account are unchanged, and that the other
    /// account is served.
    pub(crate) fn assert_unharmed(&self) {
        self.trap.assert_quiet();
        let after = self.files_outside_workspace();
        for (path, file) in &after {
            assert_eq!(self.before.get(path), Some(file), "{} came or changed", path.display());
        }
        for path in self.before.keys() {
            assert!(after.contains_key(path), "{} is missing", path.display());
        }
        let health = HttpRequest::new("GET", "/healthz").send(self.service.address());
        assert_eq!(health.status, 200);
        let other = self.service.api_for(&self.other);
        assert_eq!(other.download_file("/uploads/secret.txt").expect_status(200).text(), SECRET);
        assert_eq!(other.list_home().expect_status(200).json()["totalEntries"], 1, "only its uploads");
        let answer = other
            .wait_for_completion(&other.expect_accepted(&json!({ "input": "Hello", "model": "standin" })));
        assert!(answer["error"].is_null(), "{answer}");
    }

    fn next_marker(&self) -> String {
        self.questions.set(self.questions.get() + 1);
        format!("Question {}:", self.questions.get())
    }

    /// Returns the tool results of the answer to the question with this marker.
    fn tool_results(&self, marker: &str) -> Vec<String> {
        let requests = self.vendor.all_requests();
        for request in &requests {
            assert_eq!(request["outcome"], "done", "the vendor takes every request: {request}");
        }
        let messages = |request: &Value| request["body"]["messages"].as_array().cloned().unwrap_or_default();
        let asked = |message: &Value| {
            message["role"] == "user"
                && message["content"].as_str().is_some_and(|content| content.contains(marker))
        };
        // Later requests omit long results, so the first occurrence of each counts.
        let mut seen = HashSet::new();
        let mut results = Vec::new();
        for messages in requests.iter().map(messages).filter(|messages| messages.iter().any(asked)) {
            for message in messages.into_iter().filter(|message| message["role"] == "tool") {
                if seen.insert(message["tool_call_id"].to_string()) {
                    results.push(message["content"].as_str().expect("a result").to_owned());
                }
            }
        }
        results
    }

    /// Returns the files of the data folder, except the database, the machines and the account's own.
    fn files_outside_workspace(&self) -> BTreeMap<PathBuf, FileFingerprint> {
        let data = self.service.data_folder();
        // The reserve of disk space is allocated in the background.
        let own = [self.workspace_folder(), data.join("machines"), data.join("reserve")];
        let mut files = BTreeMap::new();
        let mut folders = vec![data];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path())
            {
                let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                if own.contains(&entry) || name.starts_with("causerie.db") {
                    continue;
                }
                let metadata = fs::symlink_metadata(&entry).expect("metadata");
                if metadata.is_dir() {
                    folders.push(entry.clone());
                }
                let content = if metadata.is_file() { hash_file(&entry) } else { 0 };
                let length = if metadata.is_file() { metadata.len() } else { 0 };
                files.insert(
                    entry,
                    FileFingerprint { mode: metadata.mode(), owner: metadata.uid(), length, content },
                );
            }
        }
        files
    }
}

fn hash_file(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    fs::read(path).expect("a file").hash(&mut hasher);
    hasher.finish()
}

/// Asserts that the HTML of an answer loads nothing, runs nothing, and has links that send no referrer.
pub(crate) fn assert_harmless_html(answer: &Value) {
    for part in answer["parts"].as_array().expect("parts") {
        let html = part["content"].as_str().unwrap_or_default();
        for tag in html.split('<').skip(1).map(|tag| tag.split('>').next().unwrap_or_default()) {
            let tag = tag.to_lowercase();
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
            let plain = [
                "p",
                "a",
                "em",
                "strong",
                "del",
                "code",
                "pre",
                "br",
                "hr",
                "ul",
                "ol",
                "li",
                "blockquote",
                "h1",
                "h2",
                "h3",
                "h4",
                "h5",
                "h6",
                "table",
                "thead",
                "tbody",
                "tr",
                "th",
                "td",
                "sup",
                "sub",
                "span",
            ];
            assert!(plain.contains(&name), "<{tag}> in {html}");
            for attribute in [" src", " style", " on", " srcset", " background", "javascript:", "\"data:"] {
                assert!(!tag.contains(attribute), "<{tag}> in {html}");
            }
            if name == "a" && tag.contains("://") {
                assert!(
                    tag.contains("rel=") && tag.contains("noopener") && tag.contains("noreferrer"),
                    "<{tag}>"
                );
            }
        }
    }
}
