//! A browser without scripts: it keeps cookies and sends forms.

use std::cell::RefCell;
use std::collections::BTreeMap;

use e2e::api::{UploadPart, multipart_form};
use e2e::http::StreamingResponse;
use e2e::{HttpRequest, HttpResponse, ScriptedVendor, ServiceOptions, TestAccount, TestService};

pub(crate) const PASSWORD: &str = "correct horse";

/// A service with an account that has a password.
pub(crate) struct AppFixture {
    pub(crate) vendor: ScriptedVendor,
    pub(crate) service: TestService,
    pub(crate) account: TestAccount,
}

impl AppFixture {
    pub(crate) fn new() -> Self {
        let vendor = ScriptedVendor::start();
        let service = TestService::start(ServiceOptions {
            environment: vendor.service_environment(),
            ..ServiceOptions::default()
        });
        let account = account_with_password(&service);
        Self { vendor, service, account }
    }

    /// Returns a browser in which the account's owner is signed in.
    pub(crate) fn sign_in_browser(&self) -> HttpBrowser {
        let browser = HttpBrowser::new(&self.service);
        browser.sign_in(&self.account.email, PASSWORD).expect_redirect("/");
        browser
    }
}

pub(crate) fn account_with_password(service: &TestService) -> TestAccount {
    let account = service.create_account();
    let arguments = ["account", "set-password", "--account", &account.email, "--password-stdin"];
    let set = service.try_admin_command_with_stdin(&arguments, format!("{PASSWORD}\n").as_bytes());
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    account
}

pub(crate) struct HttpBrowser {
    address: String,
    cookies: RefCell<BTreeMap<String, String>>,
    /// Further headers of every request.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl HttpBrowser {
    pub(crate) fn new(service: &TestService) -> Self {
        let address = service.address().to_owned();
        Self { address, cookies: RefCell::default(), headers: Vec::new() }
    }

    /// Returns a browser with other headers and a copy of the cookies.
    pub(crate) fn with_request_header(&self, name: &'static str, value: &str) -> Self {
        let headers = [self.headers.as_slice(), &[(name, value.to_owned())]].concat();
        Self { address: self.address.clone(), cookies: self.cookies.clone(), headers }
    }

    pub(crate) fn get_page(&self, path: &str) -> HttpResponse {
        self.store_cookies(self.new_request("GET", path).send(self.address.as_str()))
    }

    pub(crate) fn open_stream(&self, path: &str) -> StreamingResponse {
        self.new_request("GET", path)
            .with_header("accept", "text/event-stream")
            .send_streaming(self.address.as_str())
    }

    /// Sends a form from a page of the service.
    pub(crate) fn post_form(&self, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        self.with_request_header("origin", &format!("http://{}", self.address))
            .post_from_anywhere(path, fields, self)
    }

    /// Sends a form without an origin.
    pub(crate) fn post_as_is(&self, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        self.post_from_anywhere(path, fields, self)
    }

    fn post_from_anywhere(&self, path: &str, fields: &[(&str, &str)], keeper: &Self) -> HttpResponse {
        let encoded: Vec<_> =
            fields.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        let request = self
            .new_request("POST", path)
            .with_header("content-type", "application/x-www-form-urlencoded")
            .with_body(encoded.join("&"));
        keeper.store_cookies(request.send(self.address.as_str()))
    }

    /// Sends files with the form of a folder's page.
    pub(crate) fn upload_files(&self, destination: &str, files: &[(&str, &[u8])]) -> HttpResponse {
        self.send_files(&[("destination", destination)], files)
    }

    /// Sends files as the form of a question does.
    pub(crate) fn attach_files(&self, files: &[(&str, &[u8])]) -> HttpResponse {
        self.with_request_header("accept", "application/json")
            .send_files(&[("destination", ""), ("keep-both", "on")], files)
    }

    fn send_files(&self, fields: &[(&str, &str)], files: &[(&str, &[u8])]) -> HttpResponse {
        let mut parts: Vec<_> =
            fields.iter().map(|(name, value)| UploadPart::from_field(name, value)).collect();
        parts.extend(files.iter().map(|(name, content)| UploadPart::from_file(name, content)));
        let (content_type, body) = multipart_form(&parts);
        let from_here = self.with_request_header("origin", &format!("http://{}", self.address));
        let request = from_here.new_request("POST", "/workspace/upload");
        self.store_cookies(
            request.with_header("content-type", &content_type).with_body(body).send(self.address.as_str()),
        )
    }

    /// Sends bytes, as a script of a page does.
    pub(crate) fn send_bytes(&self, path: &str, bytes: &[u8]) -> HttpResponse {
        let from_here = self.with_request_header("origin", &format!("http://{}", self.address));
        let request =
            from_here.new_request("POST", path).with_header("content-type", "application/octet-stream");
        self.store_cookies(request.with_body(bytes).send(self.address.as_str()))
    }

    /// Removes something, as a script of a page does.
    pub(crate) fn delete_resource(&self, path: &str) -> HttpResponse {
        self.with_request_header("origin", &format!("http://{}", self.address)).delete_as_is(path)
    }

    /// Removes something with the headers of this browser alone.
    pub(crate) fn delete_as_is(&self, path: &str) -> HttpResponse {
        self.store_cookies(self.new_request("DELETE", path).send(self.address.as_str()))
    }

    pub(crate) fn sign_in(&self, email: &str, password: &str) -> HttpResponse {
        self.post_form("/sign-in", &[("email", email), ("password", password)])
    }

    pub(crate) fn cookie_value(&self, name: &str) -> Option<String> {
        self.cookies.borrow().get(name).cloned()
    }

    fn new_request(&self, method: &str, path: &str) -> HttpRequest {
        let mut request = HttpRequest::new(method, path);
        for (name, value) in &self.headers {
            request = request.with_header(name, value);
        }
        let cookies = self.cookies.borrow();
        let pairs: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { request } else { request.with_header("cookie", &pairs.join("; ")) }
    }

    fn store_cookies(&self, response: HttpResponse) -> HttpResponse {
        let set = response.header_values("set-cookie").filter_map(|set| set.split_once('='));
        for (name, rest) in set {
            let value = rest.split(';').next().unwrap_or_default();
            let mut cookies = self.cookies.borrow_mut();
            if rest.contains("Max-Age=0") {
                cookies.remove(name);
            } else {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        response
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

pub(crate) trait PageAssertions {
    fn expect_page(&self, status: u16) -> String;
    fn expect_redirect(&self, to: &str);
}

impl PageAssertions for HttpResponse {
    /// Returns the text of a page with this status and the headers of every page.
    fn expect_page(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        let kind = self.header("content-type").unwrap_or_default();
        assert_eq!(kind, "text/html; charset=utf-8");
        let policy = self.header("content-security-policy").unwrap_or_default();
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(self.header("cache-control"), Some("no-store"));
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(self.header("x-dns-prefetch-control"), Some("off"));
        let page = self.text();
        assert!(!page.contains(" style="), "no style in an element: {page}");
        for sheet in page.split("<style").skip(1) {
            assert!(sheet.starts_with(">/* The style of the web application"), "one separate style: {page}");
            assert!(policy.contains("style-src 'self' 'sha256-"), "whose digest is known: {policy}");
        }
        for script in page.split("<script").skip(1) {
            assert!(script.starts_with(" src=\"/assets/app.js?v="), "one separate script: {script}");
        }
        page
    }

    fn expect_redirect(&self, to: &str) {
        assert_eq!((self.status, self.header("location")), (303, Some(to)), "{}", self.text());
    }
}

/// Returns the value of an attribute of the first element that contains `marker`.
pub(crate) fn find_attribute(page: &str, marker: &str, name: &str) -> String {
    let element = page.split('<').find(|element| element.contains(marker));
    let element = element.unwrap_or_else(|| unreachable!("no element with {marker:?} in {page}"));
    let value = element.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
    value.expect("the attribute").to_owned()
}
