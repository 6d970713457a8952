//! Signing in at a third-party identity provider.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::{ServiceOptions, TestService, WebDriver};
use tempfile::TempDir;

use crate::stage::desktop_view;

/// A running provider, which ends with the test.
struct NodeIdentityProvider {
    child: Child,
    issuer: String,
    _folder: TempDir,
}

impl NodeIdentityProvider {
    /// Starts it with the service at this address as its client.
    fn start_for(service: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let modules = node_modules();
        assert!(modules.join("oidc-provider").exists(), "not found: run `make tools`");
        symlink(modules, folder.path().join("node_modules")).expect("a link");
        let program = folder.path().join("identity_provider.mjs");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/identity_provider.mjs");
        std::fs::copy(source, &program).expect("it can be copied");
        let mut child = Command::new("node")
            .arg(program)
            .arg(format!("http://{service}/sign-in/callback"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be run");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let issuer = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("http://"));
        // Its further output is read, so that it never blocks.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { child, issuer: issuer.expect("it listens"), _folder: folder }
    }
}

impl Drop for NodeIdentityProvider {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the folder of the installed Node packages.
fn node_modules() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    let beside = || test.ancestors().nth(3).expect("target").join("node");
    std::env::var_os("CAUSERIE_NODE").map_or_else(beside, PathBuf::from).join("node_modules")
}

#[test]
fn user_signs_in_at_foreign_provider() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("causerie.toml");
    let arguments = vec!["--config".to_owned(), config.display().to_string()];
    let mut provider = None;
    let service =
        TestService::start_on(ServiceOptions { arguments, ..ServiceOptions::default() }, |service| {
            let started = NodeIdentityProvider::start_for(service.address());
            let settings = format!(
                "[oidc]\nissuer = \"{}\"\nclient_id = \"causerie\"\nclient_secret = \"a secret: 100%\"\n\
             public_url = \"http://{}\"\n",
                started.issuer,
                service.address()
            );
            std::fs::write(&config, settings).expect("it can be written");
            provider = Some(started);
        });
    let account = service.create_account();
    let browser = WebDriver::start(desktop_view(false, "en"));
    for is_first in [true, false] {
        browser.open_page(&format!("http://{}/sign-in?next=/account", service.address()));
        browser.click_element(&browser.find_element("[href^='/sign-in/provider']"));
        if is_first {
            browser.type_text(&browser.find_element("[name=login]"), &account.email);
            browser.type_text(&browser.find_element("[name=password]"), "any");
            browser.click_element(&browser.find_element("[type=submit]"));
            // The provider asks whether the service may know the email.
            browser.wait_until_gone("[name=login]");
            browser.click_element(&browser.find_element("[type=submit]"));
        }
        browser.wait_for_text("You sign in at the identity provider.");
        browser.wait_for_text(&account.email);
        browser.click_element(&browser.find_element("[action='/sign-out'] button"));
        let _ = browser.find_element("[href^='/sign-in/provider']");
    }
    let audit = service.run_admin_command(&["audit", "list"]).to_string();
    assert!(audit.contains(&provider.expect("it was started").issuer), "{audit}");
}
