//! A small web site: a search engine with SearXNG's JSON, pages, and an MCP server over streamable HTTP at
//! `/mcp`. It listens on loopback, so a service must be configured to read it.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

#[derive(Debug, Default)]
struct SiteState {
    found: Vec<Value>,
    pages: HashMap<String, (String, Vec<u8>)>,
    asked: Vec<String>,
    called: Vec<Value>,
    releases: usize,
}

/// The running server. It lives as long as the test's process.
#[derive(Debug, Clone)]
pub struct ScriptedSite {
    address: String,
    state: Arc<(Mutex<SiteState>, Condvar)>,
}

impl ScriptedSite {
    /// Starts it.
    ///
    /// # Panics
    /// Panics if no port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let site = Self { address, state: Arc::default() };
        let serving = site.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = serving.clone();
                // A caller may disconnect at any time.
                thread::spawn(move || site.serve_connection(stream));
            }
        });
        site
    }

    /// Returns the environment that points a service's searches at this site and permits fetching its pages.
    #[must_use]
    pub fn service_environment(&self) -> Vec<(String, String)> {
        vec![
            ("SEARXNG_URL".to_owned(), self.url_for("")),
            ("CAUSERIE_WEB_PRIVATE_HOSTS".to_owned(), self.address.clone()),
        ]
    }

    /// Returns the URL of a path of this site.
    #[must_use]
    pub fn url_for(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Adds a result to every search.
    pub fn add_search_result(&self, url: &str, title: &str, content: &str) {
        let found = json!({ "url": url, "title": title, "content": content, "engine": "site" });
        self.lock_state().found.push(found);
    }

    /// Adds a page and returns its URL.
    pub fn add_page(&self, path: &str, kind: &str, body: &[u8]) -> String {
        self.lock_state().pages.insert(path.to_owned(), (kind.to_owned(), body.to_owned()));
        self.url_for(path)
    }

    /// Returns the requests so far: paths with their queries.
    #[must_use]
    pub fn requested_paths(&self) -> Vec<String> {
        self.lock_state().asked.clone()
    }

    /// Returns the parameters of every tool call of the MCP server. `look_up` returns its arguments; `file`
    /// does so once it is [released](Self::release). An argument that is a URL is also returned as a cited
    /// page.
    #[must_use]
    pub fn tool_calls(&self) -> Vec<Value> {
        self.lock_state().called.clone()
    }

    /// Lets one call of `file` return, now or later.
    pub fn release_file_call(&self) {
        self.lock_state().releases += 1;
        self.state.1.notify_all();
    }

    fn lock_state(&self) -> MutexGuard<'_, SiteState> {
        self.state.0.lock().expect("no thread of the site failed")
    }

    fn serve_connection(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        let mut line = String::new();
        let mut length = 0;
        while reader.read_line(&mut line)? > 2 {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            line.clear();
        }
        let mut sent = Vec::new();
        reader.take(length).read_to_end(&mut sent)?;
        let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let (kind, body) = if path == "/mcp" {
            let asked = serde_json::from_slice(&sent).unwrap_or_default();
            let Some(answer) = self.answer_mcp_message(&asked) else {
                return stream
                    .write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            };
            ("application/json".to_owned(), answer.to_string().into_bytes())
        } else {
            let mut state = self.lock_state();
            state.asked.push(target);
            if path == "/search" {
                let results = json!({ "query": "x", "number_of_results": 0, "results": state.found });
                ("application/json".to_owned(), results.to_string().into_bytes())
            } else {
                state.pages.get(&path).cloned().unwrap_or_default()
            }
        };
        let status = if kind.is_empty() { "404 Not Found" } else { "200 OK" };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        )?;
        stream.write_all(&body)
    }

    /// Answers a message to the MCP server; `None` for a notification.
    fn answer_mcp_message(&self, asked: &Value) -> Option<Value> {
        let id = asked.get("id")?;
        let tool = |name: &str| {
            let schema = json!({ "type": "object", "properties": { "what": { "type": "string" } } });
            json!({ "name": name, "description": "Does it.", "inputSchema": schema })
        };
        let result = match asked["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": asked["params"]["protocolVersion"], "capabilities": { "tools": {} },
                "serverInfo": { "name": "site", "version": "1" }
            }),
            "tools/list" => json!({ "tools": [tool("look_up"), tool("file"), tool("hidden")] }),
            "tools/call" => {
                let params = &asked["params"];
                self.lock_state().called.push(params.clone());
                if params["name"] == "file" {
                    self.wait_for_release();
                }
                let what = &params["arguments"]["what"];
                let mut content = vec![json!({ "type": "text", "text": format!("Did {what}.") })];
                if what.as_str().is_some_and(|what| what.starts_with("http")) {
                    let page = json!({ "uri": what, "mimeType": "text/plain", "text": "What it says." });
                    content.push(json!({ "type": "resource", "resource": page }));
                }
                json!({ "content": content })
            }
            _ => json!({}),
        };
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    fn wait_for_release(&self) {
        let held = self.state.1.wait_while(self.lock_state(), |state| state.releases == 0);
        held.expect("no thread of the site failed").releases -= 1;
    }
}
