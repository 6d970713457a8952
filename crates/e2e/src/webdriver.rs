//! Headless Chromium, driven over WebDriver (W3C) and, where that has no command, over the browser's protocol.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use conformance::http::HttpRequest;
use conformance::poll;

/// The name of the member that identifies an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// The maximum number of attempts to start a driver.
const STARTS_MAX: u32 = 5;
/// The line by which the driver reports that it listens.
const STARTED: &str = "ChromeDriver was started successfully on port ";
/// The longest asynchronous script.
const SCRIPT_TIMEOUT_MS: u64 = 30_000;
/// The beginning of the browser's internal pages, which no page of a site can request.
const OWN_PAGES: &str = "chrome://";
/// The options of the browser. It sends only the requests of pages.
const OPTIONS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
    "--hide-scrollbars",
];

/// A key of the keyboard that is not a letter.
#[derive(Debug, Clone, Copy)]
pub enum KeyboardKey {
    Enter,
    Escape,
    Tab,
    Up,
    Down,
}

impl KeyboardKey {
    const fn key_code(self) -> &'static str {
        match self {
            Self::Enter => "\u{e007}",
            Self::Escape => "\u{e00c}",
            Self::Tab => "\u{e004}",
            Self::Up => "\u{e013}",
            Self::Down => "\u{e015}",
        }
    }
}

/// The view of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// The width of the window, in CSS pixels.
    pub width: u32,
    pub height: u32,
    /// True for the dark theme.
    pub dark: bool,
    /// The language that the browser prefers, as in `Accept-Language`.
    pub language: &'static str,
}

/// A running browser with a separate profile. It ends when it is dropped.
#[derive(Debug)]
pub struct WebDriver {
    driver: Child,
    address: String,
    /// The prefix of all commands.
    session: String,
    _profile: TempDir,
}

/// An element of the page.
#[derive(Debug, Clone)]
pub struct BrowserElement(String);

/// Starts a driver and returns it with its port; `None` if it ends at once.
fn start_driver() -> Option<(Child, String)> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut driver = command.spawn().expect("chromedriver: `make tools` installs it");
    let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
    let port =
        lines.find_map(|line| Some(line.ok()?.strip_prefix(STARTED)?.trim_end_matches('.').to_owned()));
    let Some(port) = port else {
        let _ = driver.wait();
        return None;
    };
    // The driver continues to write, so its output must be read.
    thread::spawn(move || lines.count());
    Some((driver, port))
}

impl WebDriver {
    /// Starts a browser.
    ///
    /// # Panics
    /// Panics if Chromium and its driver are not installed, or do not start.
    #[must_use]
    pub fn start(view: View) -> Self {
        let profile = tempfile::Builder::new().prefix("browser-").tempdir().expect("a temporary folder");
        // It chooses a port for IPv4 and ends if another program has the same one for IPv6.
        let (driver, port) = (0..STARTS_MAX).find_map(|_| start_driver()).expect("a port");
        let address = format!("127.0.0.1:{port}");
        let mut browser = Self { driver, address, session: String::new(), _profile: profile };
        browser.begin_session();
        browser.set_view(view);
        browser
    }

    fn begin_session(&mut self) {
        let folder = format!("--user-data-dir={}", self._profile.path().display());
        let options: Vec<&str> = OPTIONS.into_iter().chain([folder.as_str()]).collect();
        let capabilities = json!({
            "goog:chromeOptions": { "args": options },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "timeouts": { "script": SCRIPT_TIMEOUT_MS },
        });
        let begun = self.send_request(
            "POST",
            "/session",
            &json!({ "capabilities": { "alwaysMatch": capabilities } }),
        );
        self.session = format!("/session/{}", begun["sessionId"].as_str().expect("a session"));
        // The browser's page for new tabs does not belong to the service.
        self.open_page("about:blank");
        let _ = self.take_requested_urls();
    }

    /// Changes the view of pages. It applies to pages that are opened afterwards.
    pub fn set_view(&self, view: View) {
        let (width, height) = (view.width, view.height);
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.send_cdp_command("Emulation.setDeviceMetricsOverride", &metrics);
        let theme = if view.dark { "dark" } else { "light" };
        let features = json!([
            { "name": "prefers-color-scheme", "value": theme },
            // So that no intermediate state is checked.
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.send_cdp_command("Emulation.setEmulatedMedia", &json!({ "features": features }));
        let headers = json!({ "headers": { "accept-language": view.language } });
        self.send_cdp_command("Network.enable", &json!({}));
        self.send_cdp_command("Network.setExtraHTTPHeaders", &headers);
    }

    /// Opens an address and waits until the page is loaded.
    pub fn open_page(&self, url: &str) {
        self.send_command("/url", &json!({ "url": url }));
    }

    /// Goes back by one page and waits until that is loaded.
    pub fn go_back(&self) {
        self.send_command("/back", &json!({}));
    }

    /// Returns the address of the page.
    ///
    /// # Panics
    /// Panics if the browser has ended.
    #[must_use]
    pub fn page_url(&self) -> String {
        let url = self.send_request("GET", &format!("{}/url", self.session), &Value::Null);
        url.as_str().expect("an address").to_owned()
    }

    /// Waits until an element of this CSS selector is on the page.
    ///
    /// # Panics
    /// Panics if no element appears in time.
    #[must_use]
    pub fn find_element(&self, selector: &str) -> BrowserElement {
        let found = poll::poll_in_time(|| self.find_element_now(selector));
        if found.is_none() {
            let page = self.run_script("return `${location.href}\\n${document.body.outerHTML}`", &[]);
            assert!(found.is_some(), "no {selector} in time at {}", page.as_str().unwrap_or_default());
        }
        found.expect("it was found")
    }

    /// Returns the first element that matches this CSS selector, if any.
    #[must_use]
    pub fn find_element_now(&self, selector: &str) -> Option<BrowserElement> {
        let wanted = json!({ "using": "css selector", "value": selector });
        let found = self.try_send_request("POST", &format!("{}/element", self.session), &wanted).ok()?;
        Some(BrowserElement(found[ELEMENT].as_str()?.to_owned()))
    }

    /// Waits until no element matches this CSS selector.
    ///
    /// # Panics
    /// Panics if one is left after the longest wait.
    pub fn wait_until_gone(&self, selector: &str) {
        poll::wait_until(&format!("no {selector}"), || {
            self.find_element_now(selector).is_none().then_some(())
        });
    }

    /// Waits until the page contains this text.
    ///
    /// # Panics
    /// Panics if it does not in time.
    pub fn wait_for_text(&self, text: &str) {
        let shown = "return document.body?.innerText.includes(arguments[0]) ?? false";
        poll::wait_until(text, || (self.run_script(shown, &[json!(text)]) == true).then_some(()));
    }

    /// Clicks on the element like a person: it has to be in view and not covered.
    pub fn click_element(&self, element: &BrowserElement) {
        self.send_command(&format!("/element/{}/click", element.0), &json!({}));
    }

    /// Types into the element.
    pub fn type_text(&self, element: &BrowserElement, text: &str) {
        self.send_command(&format!("/element/{}/value", element.0), &json!({ "text": text }));
    }

    /// Presses and releases a key, wherever the focus is.
    pub fn press_key(&self, key: KeyboardKey) {
        let strokes = [("keyDown", key.key_code()), ("keyUp", key.key_code())];
        let strokes = strokes.map(|(kind, code)| json!({ "type": kind, "value": code }));
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.send_command("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Runs the body of a function on the page and returns its result.
    pub fn run_script(&self, body: &str, arguments: &[Value]) -> Value {
        self.send_command("/execute/sync", &json!({ "script": body, "args": arguments }))
    }

    /// Runs the body of an asynchronous function on the page and returns its result.
    pub fn run_async_script(&self, body: &str, arguments: &[Value]) -> Value {
        let last = "const done = arguments[arguments.length - 1];";
        let script =
            format!("{last} (async () => {{ {body} }})().then(done, (e) => done({{ error: String(e) }}));");
        self.send_command("/execute/async", &json!({ "script": script, "args": arguments }))
    }

    /// Runs this script in every page that is opened afterwards, before its own.
    pub fn run_script_on_load(&self, script: &str) {
        self.send_cdp_command("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    /// Sends a command of the browser's protocol.
    pub fn send_cdp_command(&self, command: &str, parameters: &Value) -> Value {
        self.send_command("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Returns a picture of the window, as PNG.
    ///
    /// # Panics
    /// Panics if the browser has ended.
    #[must_use]
    pub fn take_screenshot(&self) -> Vec<u8> {
        let shot = self.send_request("GET", &format!("{}/screenshot", self.session), &Value::Null);
        STANDARD.decode(shot.as_str().expect("a picture")).expect("Base64")
    }

    /// Returns the messages of the console since the last call, violations of the security policy among them.
    ///
    /// # Panics
    /// Panics if the browser has ended.
    #[must_use]
    pub fn take_console_messages(&self) -> Vec<String> {
        let entries = self.send_command("/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().expect("a list").clone();
        entries.iter().filter_map(|entry| entry["message"].as_str().map(str::to_owned)).collect()
    }

    /// Returns the addresses that the pages have requested since the last call.
    ///
    /// # Panics
    /// Panics if the browser has ended.
    #[must_use]
    pub fn take_requested_urls(&self) -> Vec<String> {
        let entries = self.send_command("/se/log", &json!({ "type": "performance" }));
        let entries = entries.as_array().expect("a list").clone();
        let requested = |entry: &Value| {
            let event: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let sent = event["message"]["method"] == "Network.requestWillBeSent";
            let url = &event["message"]["params"]["request"]["url"];
            url.as_str().filter(|url| sent && !url.starts_with(OWN_PAGES)).map(str::to_owned)
        };
        entries.iter().filter_map(requested).collect()
    }

    fn send_command(&self, command: &str, parameters: &Value) -> Value {
        self.send_request("POST", &format!("{}{command}", self.session), parameters)
    }

    fn send_request(&self, method: &str, path: &str, parameters: &Value) -> Value {
        match self.try_send_request(method, path, parameters) {
            Ok(value) => value,
            Err(error) => panic_with(&format!("{method} {path}: {error}")),
        }
    }

    fn try_send_request(&self, method: &str, path: &str, parameters: &Value) -> Result<Value, String> {
        let mut request = HttpRequest::new(method, path).with_header("content-type", "application/json");
        if !parameters.is_null() {
            request = request.with_body(parameters.to_string());
        }
        let response = request.try_send(self.address.as_str()).map_err(|error| error.to_string())?;
        let value = response.json()["value"].take();
        if response.status == 200 { Ok(value) } else { Err(value["message"].to_string()) }
    }
}

impl Drop for WebDriver {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // It ends the browser, which otherwise would keep running.
            let _ = self.try_send_request("DELETE", &self.session, &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[expect(clippy::panic, reason = "this is how a test of the suite fails")]
fn panic_with(what: &str) -> ! {
    panic!("{what}")
}
