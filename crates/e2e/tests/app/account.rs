//! Keys, the machine and credits.

use std::process::Command;

use e2e::{TestAccountOptions, poll};

use crate::browser::{
    AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password, find_attribute,
};
use crate::conversations::{ask_question, wait_for_completed_page};

#[test]
fn key_page_shows_secret_once() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let fields = [("name", "Script of Ada"), ("read", "on"), ("days", "30"), ("limit", "500")];
    let made = browser.post_form("/keys", &fields).expect_page(200);
    let key =
        made.split("<code id=\"secret\">").nth(1).and_then(|rest| rest.split('<').next()).expect("a key");
    let listed = browser.get_page("/keys").expect_page(200);
    assert!(listed.contains("Script of Ada") && !listed.contains(key), "{listed}");
    assert!(listed.contains("read conversations") && listed.contains("0 / 500"), "{listed}");
    let mut api = stage.service.api_for(&stage.account);
    api.key = key.to_owned();
    assert_eq!(api.list_chats("").status, 200);
    assert_eq!(api.send_question(&serde_json::json!({ "input": "x" })).status, 403, "it may only read");
    browser.post_form(&find_attribute(&listed, "/revoke", "action"), &[]).expect_redirect("/keys");
    assert_eq!(api.list_chats("").status, 401);
    assert!(!browser.get_page("/keys").expect_page(200).contains("Script of Ada"));
    let audit = stage.service.run_admin_command(&["audit", "list"]).to_string();
    assert!(audit.contains("create key") && audit.contains("revoke key"), "{audit}");
    assert!(audit.contains(&stage.account.email) && !audit.contains(key), "{audit}");
}

#[test]
fn key_page_shows_question_costs() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let cost = |page: &str| {
        let after = page.split("Credits, 30 days</dt><dd>").nth(1).expect("credits");
        after.split('<').next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    assert_eq!(cost(&browser.get_page("/keys").expect_page(200)), 0);
    api.wait_for_completion(&api.ask_question("What does it cost?"));
    let through_key = cost(&browser.get_page("/keys").expect_page(200));
    assert!(through_key > 0);
    let path = ask_question(&browser, "And here?");
    wait_for_completed_page(&browser, &path);
    assert_eq!(cost(&browser.get_page("/keys").expect_page(200)), through_key, "the application uses no key");
    // A key that may not ask gets nothing.
    browser.post_form("/keys", &[("name", "Reader"), ("read", "on")]).expect_page(200);
    assert_eq!(browser.get_page("/keys").expect_page(200).matches("Credits, 30 days").count(), 1);
    // The credits of other periods.
    for (query, bars, words) in [
        ("", 30, "30 days"),
        ("?days=7", 7, "7 days"),
        ("?days=90", 90, "90 days"),
        ("?days=5", 30, "30 days"),
    ] {
        let page = browser.get_page(&format!("/credits{query}")).expect_page(200);
        let chart =
            page.split("role=\"img\"").nth(1).and_then(|rest| rest.split("</svg>").next()).expect("a chart");
        assert_eq!(chart.matches("<rect").count(), bars, "{query}");
        assert!(page.contains(&format!("in the last {words}")), "{query}: {page}");
    }
}

#[test]
fn key_with_invalid_fields_refused() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for fields in [
        [("name", ""), ("read", "on"), ("limit", "")],
        [("name", "a\nb"), ("read", "on"), ("limit", "")],
        [("name", "refused"), ("read", "on"), ("limit", "0")],
        [("name", "refused"), ("read", "on"), ("limit", "-1")],
        [("name", "refused"), ("read", "on"), ("days", "31")],
        [("name", "refused"), ("days", "30"), ("limit", "")],
    ] {
        let page = browser.post_form("/keys", &fields).expect_page(400);
        let name = fields[0].1;
        assert!(page.contains(&format!("name=\"name\" value=\"{name}\"")), "what was written stays: {page}");
        assert!(page.contains("role=\"alert\"") && !page.contains("id=\"secret\""), "{page}");
    }
    assert!(!browser.get_page("/keys").expect_page(200).contains("refused"));
}

#[test]
fn expired_key_marked_as_expired() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let time = Command::new("date").args(["-u", "-d", "+6 seconds", "+%Y-%m-%dT%H:%M:%SZ"]).output();
    let until = String::from_utf8(time.expect("the time can be formatted").stdout).expect("a time");
    let made =
        ["key", "create", "--account", &stage.account.email, "--name", "short", "--expires", until.trim()];
    stage.service.run_admin_command(&made);
    let hour = &until[11..16];
    let page = browser.get_page("/keys").expect_page(200);
    assert!(
        page.contains(&format!(", {hour} UTC</time>")) && page.contains(until.trim().trim_end_matches('Z')),
        "{page}"
    );
    poll::wait_until("the key has expired", || {
        browser.get_page("/keys").expect_page(200).contains("Expired on").then_some(())
    });
}

#[test]
fn repeated_key_form_creates_one_key() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let once = |page: &str| find_attribute(page, "name=\"once\"", "value");
    let first = once(&browser.get_page("/keys").expect_page(200));
    let fields = [("once", first.as_str()), ("name", "Script of Ada"), ("read", "on")];
    let made = browser.post_form("/keys", &fields).expect_page(200);
    assert!(made.contains("id=\"secret\"") && once(&made) != first, "{made}");
    let again = browser.post_form("/keys", &fields).expect_page(409);
    assert!(again.contains("was made already") && again.contains("shown once"), "{again}");
    assert!(!again.contains("id=\"secret\""), "{again}");
    assert_eq!(again.matches("<h2>Script of Ada</h2>").count(), 1, "{again}");
    // A changed form creates the key that it now describes.
    let changed = [("once", first.as_str()), ("name", "Reader"), ("read", "on")];
    assert!(browser.post_form("/keys", &changed).expect_page(200).contains("id=\"secret\""));
    // A repeated form creates no key after the revocation either.
    browser.post_form(&find_attribute(&again, "/revoke", "action"), &[]).expect_redirect("/keys");
    browser.post_form("/keys", &fields).expect_page(409);
    // The form of that page creates another one, and another account's form creates its key.
    let next = once(&again);
    browser
        .post_form("/keys", &[("once", next.as_str()), ("name", "Second"), ("read", "on")])
        .expect_page(200);
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    stranger.post_form("/keys", &fields).expect_page(200);
}

#[test]
fn the_machine_is_started_and_stopped() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let state = |wanted: &'static str| {
        poll::wait_until(wanted, || {
            let page = browser.get_page("/machine").expect_page(200);
            page.contains(&format!("panel state {wanted}")).then_some(page)
        })
    };
    state("stopped");
    browser.post_form("/machine/start", &[]).expect_redirect("/machine");
    let page = state("running");
    assert!(page.contains("/machine/stop"));
    assert!(page.contains("<dt>Memory</dt>") && page.contains("<dt>Workspace</dt>"), "{page}");
    browser.post_form("/machine/stop", &[]).expect_redirect("/machine");
    assert!(state("stopped").contains("/machine/start"));
    let without = TestAccountOptions { machine: false, ..TestAccountOptions::default() };
    let account = stage.service.create_account_with(&without);
    let arguments = ["account", "set-password", "--account", &account.email, "--password-stdin"];
    assert!(stage.service.try_admin_command_with_stdin(&arguments, b"correct horse\n").status.success());
    let other = HttpBrowser::new(&stage.service);
    other.sign_in(&account.email, PASSWORD).expect_redirect("/");
    assert!(other.get_page("/machine").expect_page(200).contains("This account has no machine."));
    assert!(other.post_form("/ask", &[("input", "Hello")]).expect_page(409).contains("no machine"));
}

#[test]
fn credits_page_shows_balance_and_usage() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let page = browser.get_page("/credits").expect_page(200);
    assert!(page.contains(">10,000<") && page.contains("Nothing was spent yet."), "{page}");
    let path = ask_question(&browser, "Hello");
    wait_for_completed_page(&browser, &path);
    let (balance, _) = stage.service.show_credits(&stage.account);
    let page = browser.get_page("/credits").expect_page(200);
    let shown = format!(">{},{:03}<", balance / 1000, balance % 1000);
    assert!(page.contains(&shown), "{shown} in {page}");
    assert!(page.contains("By model") && page.contains("<meter"), "{page}");
}
