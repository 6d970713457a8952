//! A small web of its own: a search engine that speaks SearXNG's JSON, and pages. It stands on loopback, so that a
//! service reads it only when it is told that it may.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

#[derive(Debug, Default)]
struct State {
    found: Vec<Value>,
    pages: HashMap<String, (String, Vec<u8>)>,
    asked: Vec<String>,
}

/// The running server. It lives as long as the test's process.
#[derive(Debug, Clone)]
pub struct Site {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Site {
    /// Starts it.
    ///
    /// # Panics
    /// When no port is to be had.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let site = Self { address, state: Arc::default() };
        let serving = site.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = serving.clone();
                // A caller that goes away is none of the site's business.
                thread::spawn(move || site.serve(stream));
            }
        });
        site
    }

    /// The environment that leads a service's searches here, and lets it read pages here.
    #[must_use]
    pub fn environment(&self) -> Vec<(String, String)> {
        vec![
            ("SEARXNG_URL".to_owned(), self.url("")),
            ("CAUSERIE_WEB_PRIVATE_HOSTS".to_owned(), self.address.clone()),
        ]
    }

    /// The address of a path here.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Every search finds this as well.
    pub fn finds(&self, url: &str, title: &str, content: &str) {
        let found = json!({ "url": url, "title": title, "content": content, "engine": "site" });
        self.state().found.push(found);
    }

    /// Puts a page there and gives its address.
    pub fn page(&self, path: &str, kind: &str, body: &[u8]) -> String {
        self.state().pages.insert(path.to_owned(), (kind.to_owned(), body.to_owned()));
        self.url(path)
    }

    /// What was asked for so far: paths with their queries.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.state().asked.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the site failed")
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let target = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let (kind, body) = {
            let mut state = self.state();
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
}
