//! The first account, created by the link that the service prints.

use conformance::{Options, Service, poll};

use crate::browser::{Browser, PASSWORD, Page, account_with_password};

/// Returns the path of the link that the service's start of this number has logged.
fn link(service: &Service, start: usize) -> String {
    poll::until("a link is logged", || {
        let log = service.log();
        let (at, _) = log.match_indices("/welcome?invitation=").nth(start)?;
        log[at..].split_once(' ').map(|(link, _)| link.to_owned())
    })
}

fn fields<'a>(link: &'a str, email: &'a str, password: &'a str) -> [(&'a str, &'a str); 3] {
    let invitation = link.split_once('=').expect("an invitation").1;
    [("invitation", invitation), ("email", email), ("password", password)]
}

#[test]
fn the_link_creates_the_first_account_once_and_signs_its_owner_in() {
    let service = Service::start(Options::default());
    let link = link(&service, 0);
    let browser = Browser::new(&service);
    let form = browser.get(&link).expect_page(200);
    assert!(form.contains("Create the first account"), "{form}");
    for (email, password) in [("ada@example.org", "short"), ("no email", PASSWORD), ("", "")] {
        let refused = browser.post("/welcome", &fields(&link, email, password)).expect_page(400);
        assert!(refused.contains("role=\"alert\""), "{refused}");
    }
    browser.post("/welcome", &fields(&link, "ada@example.org", PASSWORD)).expect_redirect("/");
    assert!(browser.get("/").expect_page(200).contains("ada@example.org"), "the owner is signed in");
    let shown = service.admin(&["account", "show", "ada@example.org"]);
    assert_eq!(shown["role"], "operator");
    assert!(shown["balance"].as_i64() > Some(0) && shown["licenceUntil"].is_string(), "{shown}");
    let other = Browser::new(&service);
    other.get(&link).expect_page(404);
    other.post("/welcome", &fields(&link, "eve@example.org", PASSWORD)).expect_page(404);
    assert_eq!(service.admin(&["account", "list"])["accounts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_wrong_link_a_replaced_one_and_one_that_comes_too_late_create_nothing() {
    let mut service = Service::start(Options::default());
    let first = link(&service, 0);
    let browser = Browser::new(&service);
    browser.get("/welcome").expect_page(404);
    let wrong = format!("/welcome?invitation={}", "0".repeat(64));
    browser.get(&wrong).expect_page(404);
    browser.post("/welcome", &fields(&wrong, "eve@example.org", PASSWORD)).expect_page(404);
    service.terminate();
    service.restart();
    let second = link(&service, 1);
    assert_ne!(first, second);
    let browser = Browser::new(&service);
    browser.post("/welcome", &fields(&first, "eve@example.org", PASSWORD)).expect_page(404);
    let _ = browser.get(&second).expect_page(200);
    let operator = account_with_password(&service);
    service.admin(&["account", "set-role", "--account", &operator.email, "--role", "operator"]);
    browser.get(&second).expect_page(404);
    browser.post("/welcome", &fields(&second, "eve@example.org", PASSWORD)).expect_page(404);
    assert_eq!(service.admin(&["account", "list"])["accounts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn accounts_that_are_no_operators_leave_the_link_valid() {
    let service = Service::start(Options::default());
    let link = link(&service, 0);
    let _ = account_with_password(&service);
    let browser = Browser::new(&service);
    browser.post("/welcome", &fields(&link, "ada@example.org", PASSWORD)).expect_redirect("/");
    assert_eq!(service.admin(&["account", "show", "ada@example.org"])["role"], "operator");
    Browser::new(&service).get(&link).expect_page(404);
}

#[test]
fn an_operator_made_by_command_opens_the_operators_page() {
    let mut service = Service::start(Options::default());
    let create =
        ["account", "create", "--operator", "--email", "op@example.org", "--licence-until", "2099-12-31"];
    assert_eq!(service.admin(&create)["role"], "operator");
    assert_eq!(service.admin(&["account", "show", "op@example.org"])["role"], "operator");
    let links = service.log().matches("/welcome?invitation=").count();
    service.terminate();
    service.restart();
    assert_eq!(service.log().matches("/welcome?invitation=").count(), links, "nobody else is invited");
}
