//! The stand-in vendor as a process of its own: questions carry its script (`STANDIN {json}`), so that it
//! answers alike however often it is killed. The program is built with the workspace.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::api::Expect;
use crate::http::Request;

/// Ports below those that the kernel gives to connections, so that none is taken while the vendor is down.
const PORTS: std::ops::Range<u16> = 18_000..30_000;
/// How often a start is tried on one address, and on how many addresses.
const STARTS_MAX: u32 = 50;

/// The formats of vendors, which the stand-in tells apart by the path that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions.
    ChatCompletions,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// OpenAI's Responses.
    Responses,
}

/// A running stand-in. It is killed with the test.
#[derive(Debug)]
pub struct FakeVendors {
    binary: PathBuf,
    address: String,
    child: Option<Child>,
}

impl FakeVendors {
    /// Starts it on a free port.
    ///
    /// # Panics
    /// When it is not built or no port is to be had.
    #[must_use]
    pub fn start() -> Self {
        let test = std::env::current_exe().expect("the test knows its own path");
        let binary = test.ancestors().nth(2).expect("target/<profile>").join("fake-vendor");
        assert!(
            binary.is_file(),
            "{} is not there: `make test` builds it before the tests",
            binary.display()
        );
        let span = u32::from(PORTS.end - PORTS.start);
        for attempt in 0..STARTS_MAX {
            // Tests that run at the same time begin elsewhere.
            let offset = (std::process::id().wrapping_mul(7919) + attempt) % span;
            let port = PORTS.start + u16::try_from(offset).expect("within the span");
            let address = format!("127.0.0.1:{port}");
            if let Some(child) = spawn(&binary, &address) {
                return Self { binary, address, child: Some(child) };
            }
        }
        unreachable!("no port for the stand-in in {STARTS_MAX} attempts")
    }

    /// The environment that leads a service here.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        let base = format!("http://{}/v1", self.address);
        vec![("OPENAI_BASE_URL".to_owned(), base), ("OPENAI_API_KEY".to_owned(), "sk-stand-in".to_owned())]
    }

    /// What leads a service's searches here.
    #[must_use]
    pub fn search_engine(&self) -> (String, String) {
        ("SEARXNG_URL".to_owned(), format!("http://{}/searxng", self.address))
    }

    /// Where its MCP servers are, each by the name of its mode.
    #[must_use]
    pub fn mcp_url(&self, mode: &str) -> String {
        format!("http://{}/mcp/{mode}", self.address)
    }

    /// The environment that leads a service here in another format than Chat Completions.
    #[must_use]
    pub fn environment_of(&self, format: Format) -> Vec<(String, String)> {
        let root = format!("http://{}", self.address);
        let key = "sk-stand-in".to_owned();
        let set = |names: [&str; 2]| {
            let [url, of_key] = names.map(str::to_owned);
            vec![(url, root.clone()), (of_key, key.clone())]
        };
        match format {
            Format::Anthropic => set(["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]),
            Format::Gemini => set(["GEMINI_BASE_URL", "GEMINI_API_KEY"]),
            Format::ChatCompletions => self.environment(),
            Format::Responses => {
                let mut environment = self.environment();
                environment.push(("CAUSERIE_OPENAI_FORMAT".to_owned(), "responses".to_owned()));
                environment
            }
        }
    }

    /// Kills it, with all that it is saying.
    ///
    /// # Panics
    /// When it is not running.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("a running vendor");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// Starts it anew on the same address.
    ///
    /// # Panics
    /// When it still runs, or does not start.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        self.child = (0..STARTS_MAX).find_map(|_| spawn(&self.binary, &self.address));
        assert!(self.child.is_some(), "the stand-in does not start on {} again", self.address);
    }

    /// What it was asked since its start, oldest first: objects with `body` and `outcome`.
    ///
    /// # Panics
    /// When it does not tell.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let told = Request::new("GET", "/standin/requests").send(&self.address).expect_status(200).json();
        told.as_array().expect("a list of requests").clone()
    }
}

impl Drop for FakeVendors {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts it and waits until it listens; `None` when it could not.
fn spawn(binary: &PathBuf, address: &str) -> Option<Child> {
    let mut child = Command::new(binary)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the stand-in can be run");
    let mut said = String::new();
    let output = child.stdout.take().expect("its output");
    // It says where it listens as soon as it does, or ends.
    if BufReader::new(output).read_line(&mut said).is_ok_and(|length| length > 0) {
        return Some(child);
    }
    let _ = child.wait();
    None
}
