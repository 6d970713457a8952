//! The fake vendors as a separate process. Questions carry the script (`STANDIN {json}`), so that the answers
//! do not depend on restarts. The program is built with the workspace.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use test_support::port::ReservedPort;

use conformance::api::Expect;
use conformance::http::HttpRequest;

use crate::service::built_program;

/// The maximum number of attempts to start again on the address, whose last connections may still be closing.
const STARTS_MAX: u32 = 50;

/// The formats of vendors, which the fake distinguishes by the request's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeVendorFormat {
    Anthropic,
    ChatCompletions,
    /// Google's `streamGenerateContent`.
    Gemini,
    Responses,
}

/// A running process, killed at the end of the test.
#[derive(Debug)]
pub struct FakeVendors {
    binary: PathBuf,
    address: String,
    /// Holds the address while the process is down.
    _port: ReservedPort,
    child: Option<Child>,
}

impl FakeVendors {
    /// Starts it on a free port.
    ///
    /// # Panics
    /// Panics if it is not built or no port is free.
    #[must_use]
    pub fn start() -> Self {
        let binary = built_program("fake-vendor");
        let port = ReservedPort::reserve();
        let mut vendors = Self { binary, address: port.address().to_string(), _port: port, child: None };
        vendors.restart();
        vendors
    }

    /// Returns the environment that points a service at this process.
    #[must_use]
    pub fn service_environment(&self) -> Vec<(String, String)> {
        let base = format!("http://{}/v1", self.address);
        vec![("OPENAI_BASE_URL".to_owned(), base), ("OPENAI_API_KEY".to_owned(), "sk-stand-in".to_owned())]
    }

    /// Returns the setting that points a service's searches at this process.
    #[must_use]
    pub fn search_engine(&self) -> (String, String) {
        ("SEARXNG_URL".to_owned(), format!("http://{}/searxng", self.address))
    }

    /// Returns the URL of an MCP server with the given mode.
    #[must_use]
    pub fn mcp_url(&self, mode: &str) -> String {
        format!("http://{}/mcp/{mode}", self.address)
    }

    /// Returns the environment that points a service at this process in another format than Chat Completions.
    #[must_use]
    pub fn service_environment_for(&self, format: FakeVendorFormat) -> Vec<(String, String)> {
        let root = format!("http://{}", self.address);
        let key = "sk-stand-in".to_owned();
        let set = |names: [&str; 2]| {
            let [url, of_key] = names.map(str::to_owned);
            vec![(url, root.clone()), (of_key, key.clone())]
        };
        match format {
            FakeVendorFormat::Anthropic => set(["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]),
            FakeVendorFormat::Gemini => set(["GEMINI_BASE_URL", "GEMINI_API_KEY"]),
            FakeVendorFormat::ChatCompletions => self.service_environment(),
            FakeVendorFormat::Responses => {
                let mut environment = self.service_environment();
                environment.push(("CAUSERIE_OPENAI_FORMAT".to_owned(), "responses".to_owned()));
                environment
            }
        }
    }

    /// Kills it and its open responses.
    ///
    /// # Panics
    /// Panics if it is not running.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("a running vendor");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// Restarts it on the same address.
    ///
    /// # Panics
    /// Panics if it still runs, or does not start.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        self.child = (0..STARTS_MAX).find_map(|_| spawn_vendor(&self.binary, &self.address));
        assert!(self.child.is_some(), "the fake vendor does not restart on {}", self.address);
    }

    /// Returns the requests since its start, oldest first: objects with `body` and `outcome`.
    ///
    /// # Panics
    /// Panics if it does not respond.
    #[must_use]
    pub fn all_requests(&self) -> Vec<Value> {
        let requests =
            HttpRequest::new("GET", "/standin/requests").send(&self.address).expect_status(200).json();
        requests.as_array().expect("a list of requests").clone()
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

/// Starts it and waits until it listens; `None` if it could not.
fn spawn_vendor(binary: &PathBuf, address: &str) -> Option<Child> {
    let mut child = Command::new(binary)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the stand-in can be run");
    let mut line = String::new();
    let output = child.stdout.take().expect("its output");
    // It prints its address once it listens, or ends.
    if BufReader::new(output).read_line(&mut line).is_ok_and(|length| length > 0) {
        return Some(child);
    }
    let _ = child.wait();
    None
}
