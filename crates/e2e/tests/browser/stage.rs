//! A service with a signed-in owner in front of a browser.

use e2e::{ScriptedVendor, ServiceOptions, TestAccount, TestService, View, WebDriver};

pub(crate) const PASSWORD: &str = "correct horse";

const PHONE: (u32, u32) = (390, 844);
const DESKTOP: (u32, u32) = (1280, 800);

/// The views of a page. Every pair of size, theme and language occurs in one of them.
pub(crate) const VIEWS: [View; 6] = [
    phone_view(false, "en"),
    phone_view(true, "cs"),
    phone_view(false, "sk"),
    desktop_view(true, "en"),
    desktop_view(false, "cs"),
    desktop_view(true, "sk"),
];

/// A view of a phone.
pub(crate) const fn phone_view(dark: bool, language: &'static str) -> View {
    View { width: PHONE.0, height: PHONE.1, dark, language }
}

/// A view of a desktop.
pub(crate) const fn desktop_view(dark: bool, language: &'static str) -> View {
    View { width: DESKTOP.0, height: DESKTOP.1, dark, language }
}

pub(crate) struct BrowserFixture {
    pub(crate) vendor: ScriptedVendor,
    pub(crate) service: TestService,
    pub(crate) account: TestAccount,
    pub(crate) browser: WebDriver,
}

impl BrowserFixture {
    /// Starts a service and a browser in which nobody is signed in.
    pub(crate) fn new(view: View) -> Self {
        Self::start_prepared(view, |_| Vec::new())
    }

    /// Starts both, the service with further variables, once the vendor is prepared.
    pub(crate) fn start_prepared(
        view: View,
        prepare: impl FnOnce(&ScriptedVendor) -> Vec<(String, String)>,
    ) -> Self {
        let vendor = ScriptedVendor::start();
        let environment = [vendor.service_environment(), prepare(&vendor)].concat();
        let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
        let account = service.create_account();
        let arguments = ["account", "set-password", "--account", &account.email, "--password-stdin"];
        let set = service.try_admin_command_with_stdin(&arguments, format!("{PASSWORD}\n").as_bytes());
        assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        Self { vendor, service, account, browser: WebDriver::start(view) }
    }

    /// Starts both and signs the owner in.
    pub(crate) fn start_signed_in(view: View) -> Self {
        let stage = Self::new(view);
        stage.sign_in_at(&stage.browser);
        stage
    }

    /// Signs the owner in at a browser.
    pub(crate) fn sign_in_at(&self, browser: &WebDriver) {
        browser.open_page(&self.service_url("/sign-in"));
        self.fill_in(browser, PASSWORD);
        let _ = browser.find_element("main.home");
    }

    /// Fills the form for signing in and sends it.
    pub(crate) fn sign_in(&self, password: &str) {
        self.fill_in(&self.browser, password);
    }

    fn fill_in(&self, browser: &WebDriver, password: &str) {
        browser.run_script("document.querySelector('[name=email]').value = ''", &[]);
        browser.type_text(&browser.find_element("[name=email]"), &self.account.email);
        browser.type_text(&browser.find_element("[name=password]"), password);
        browser.click_element(&browser.find_element("form.fields button"));
    }

    /// Opens a page of the service.
    pub(crate) fn open_path(&self, path: &str) {
        self.browser.open_page(&self.service_url(path));
    }

    pub(crate) fn service_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.service.address())
    }

    /// Asks a question over the interface and returns the path of its conversation.
    pub(crate) fn ask_and_wait(&self, question: &str) -> String {
        let api = self.service.api_for(&self.account);
        let answer = api.wait_for_completion(&api.ask_question(question));
        format!("/c/{}", answer["chatId"].as_str().expect("an id"))
    }

    /// Requires that the console has no messages, such as violations of the security policy, and that nothing was
    /// requested from another host.
    pub(crate) fn assert_quiet(&self) {
        let complaints = self.browser.take_console_messages();
        assert_eq!(complaints, Vec::<String>::new());
        let own = self.service_url("/");
        // The browser's built-in icons, such as the date picker's, are bytes in its style.
        let is_foreign = |url: &String| !url.starts_with(&own) && !url.starts_with("data:");
        let foreign: Vec<_> = self.browser.take_requested_urls().into_iter().filter(is_foreign).collect();
        assert_eq!(foreign, Vec::<String>::new());
    }
}
