//! The first account, created by the link that the service prints.

use e2e::{ServiceOptions, TestService, poll};

use crate::browser::{HttpBrowser, PASSWORD, PageAssertions, account_with_password};

/// Returns the path of the link that the service's start of this number has logged.
fn logged_link(service: &TestService, start: usize) -> String {
    poll::wait_until("a link is logged", || {
        let log = service.log_text();
        let (at, _) = log.match_indices("/welcome?invitation=").nth(start)?;
        log[at..].split_once(' ').map(|(link, _)| link.to_owned())
    })
}

fn invitation_fields<'a>(link: &'a str, email: &'a str, password: &'a str) -> [(&'a str, &'a str); 3] {
    let invitation = link.split_once('=').expect("an invitation").1;
    [("invitation", invitation), ("email", email), ("password", password)]
}

#[test]
fn welcome_link_creates_first_account_once() {
    let service = TestService::start(ServiceOptions::default());
    let link = logged_link(&service, 0);
    let browser = HttpBrowser::new(&service);
    let form = browser.get_page(&link).expect_page(200);
    assert!(form.contains("Create the first account"), "{form}");
    for (email, password) in [("ada@example.org", "short"), ("no email", PASSWORD), ("", "")] {
        let refused =
            browser.post_form("/welcome", &invitation_fields(&link, email, password)).expect_page(400);
        assert!(refused.contains("role=\"alert\""), "{refused}");
    }
    browser
        .post_form("/welcome", &invitation_fields(&link, "ada@example.org", PASSWORD))
        .expect_redirect("/");
    assert!(browser.get_page("/").expect_page(200).contains("ada@example.org"), "the owner is signed in");
    let shown = service.run_admin_command(&["account", "show", "ada@example.org"]);
    assert_eq!(shown["role"], "operator");
    assert!(shown["balance"].as_i64() > Some(0) && shown["licenceUntil"].is_string(), "{shown}");
    let other = HttpBrowser::new(&service);
    other.get_page(&link).expect_page(404);
    other.post_form("/welcome", &invitation_fields(&link, "eve@example.org", PASSWORD)).expect_page(404);
    assert_eq!(service.run_admin_command(&["account", "list"])["accounts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn invalid_welcome_link_creates_nothing() {
    let mut service = TestService::start(ServiceOptions::default());
    let first = logged_link(&service, 0);
    let browser = HttpBrowser::new(&service);
    browser.get_page("/welcome").expect_page(404);
    let wrong = format!("/welcome?invitation={}", "0".repeat(64));
    browser.get_page(&wrong).expect_page(404);
    browser.post_form("/welcome", &invitation_fields(&wrong, "eve@example.org", PASSWORD)).expect_page(404);
    service.terminate();
    service.restart();
    let second = logged_link(&service, 1);
    assert_ne!(first, second);
    let browser = HttpBrowser::new(&service);
    browser.post_form("/welcome", &invitation_fields(&first, "eve@example.org", PASSWORD)).expect_page(404);
    let _ = browser.get_page(&second).expect_page(200);
    let operator = account_with_password(&service);
    service.run_admin_command(&["account", "set-role", "--account", &operator.email, "--role", "operator"]);
    browser.get_page(&second).expect_page(404);
    browser.post_form("/welcome", &invitation_fields(&second, "eve@example.org", PASSWORD)).expect_page(404);
    assert_eq!(service.run_admin_command(&["account", "list"])["accounts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn nonoperator_accounts_keep_welcome_link_valid() {
    let service = TestService::start(ServiceOptions::default());
    let link = logged_link(&service, 0);
    let _ = account_with_password(&service);
    let browser = HttpBrowser::new(&service);
    browser
        .post_form("/welcome", &invitation_fields(&link, "ada@example.org", PASSWORD))
        .expect_redirect("/");
    assert_eq!(service.run_admin_command(&["account", "show", "ada@example.org"])["role"], "operator");
    HttpBrowser::new(&service).get_page(&link).expect_page(404);
}

#[test]
fn command_made_operator_opens_operator_page() {
    let mut service = TestService::start(ServiceOptions::default());
    let create =
        ["account", "create", "--operator", "--email", "op@example.org", "--licence-until", "2099-12-31"];
    assert_eq!(service.run_admin_command(&create)["role"], "operator");
    assert_eq!(service.run_admin_command(&["account", "show", "op@example.org"])["role"], "operator");
    let links = service.log_text().matches("/welcome?invitation=").count();
    service.terminate();
    service.restart();
    assert_eq!(service.log_text().matches("/welcome?invitation=").count(), links, "no further invitation");
}
