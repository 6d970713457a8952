//! A service with a signed-in owner in front of a browser.

use conformance::{Account, Options, Service, Vendor, View, WebDriver};

pub(crate) const PASSWORD: &str = "correct horse";

/// A phone, upright.
const PHONE: (u32, u32) = (390, 844);
const DESKTOP: (u32, u32) = (1280, 800);

/// The views of a page. Every two of size, theme and language meet in one of them.
pub(crate) const VIEWS: [View; 6] = [
    phone(false, "en"),
    phone(true, "cs"),
    phone(false, "sk"),
    desktop(true, "en"),
    desktop(false, "cs"),
    desktop(true, "sk"),
];

/// A view of a phone.
pub(crate) const fn phone(dark: bool, language: &'static str) -> View {
    View { width: PHONE.0, height: PHONE.1, dark, language }
}

/// A view of a desktop.
pub(crate) const fn desktop(dark: bool, language: &'static str) -> View {
    View { width: DESKTOP.0, height: DESKTOP.1, dark, language }
}

pub(crate) struct Stage {
    pub(crate) vendor: Vendor,
    pub(crate) service: Service,
    pub(crate) account: Account,
    pub(crate) browser: WebDriver,
}

impl Stage {
    /// Starts a service and a browser in which nobody is signed in.
    pub(crate) fn new(view: View) -> Self {
        Self::with(view, |_| Vec::new())
    }

    /// Starts both, the service with further variables, once the vendor is prepared.
    pub(crate) fn with(view: View, prepare: impl FnOnce(&Vendor) -> Vec<(String, String)>) -> Self {
        let vendor = Vendor::start();
        let environment = [vendor.environment(), prepare(&vendor)].concat();
        let service = Service::start(Options { environment, ..Options::default() });
        let account = service.account();
        let arguments = ["account", "set-password", "--account", &account.email, "--password-stdin"];
        let set = service.try_admin_typing(&arguments, format!("{PASSWORD}\n").as_bytes());
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        Self { vendor, service, account, browser: WebDriver::start(view) }
    }

    /// Starts both and signs the owner in.
    pub(crate) fn signed_in(view: View) -> Self {
        let stage = Self::new(view);
        stage.sign_in_at(&stage.browser);
        stage
    }

    /// Signs the owner in at a browser.
    pub(crate) fn sign_in_at(&self, browser: &WebDriver) {
        browser.open(&self.url("/sign-in"));
        self.fill_in(browser, PASSWORD);
        let _ = browser.find("main.home");
    }

    /// Fills the form for signing in and sends it.
    pub(crate) fn sign_in(&self, password: &str) {
        self.fill_in(&self.browser, password);
    }

    fn fill_in(&self, browser: &WebDriver, password: &str) {
        browser.run("document.querySelector('[name=email]').value = ''", &[]);
        browser.write(&browser.find("[name=email]"), &self.account.email);
        browser.write(&browser.find("[name=password]"), password);
        browser.click(&browser.find("form.fields button"));
    }

    /// Opens a page of the service.
    pub(crate) fn open(&self, path: &str) {
        self.browser.open(&self.url(path));
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.service.address())
    }

    /// Asks a question by the interface and returns the path of its conversation.
    pub(crate) fn answered(&self, question: &str) -> String {
        let api = self.service.api(&self.account);
        let answer = api.completed(&api.ask(question));
        format!("/c/{}", answer["chatId"].as_str().expect("an id"))
    }

    /// Requires that nothing was complained of in the console, violations of the security policy above all, and that
    /// nothing was requested of another host.
    pub(crate) fn assert_quiet(&self) {
        let complaints = self.browser.console();
        assert_eq!(complaints, Vec::<String>::new());
        let own = self.url("/");
        // The browser's own icons, such as that of a date, are bytes in its style.
        let is_foreign = |url: &String| !url.starts_with(&own) && !url.starts_with("data:");
        let foreign: Vec<_> = self.browser.requested().into_iter().filter(is_foreign).collect();
        assert_eq!(foreign, Vec::<String>::new());
    }
}
