//! Texts of models, documents and users that would like to run in a page.

use conformance::Say;
use serde_json::json;

use crate::browser::{Browser, PASSWORD, Page, Stage, account_with_password};
use crate::conversations::{ask, completed};

pub(crate) const PAYLOADS: [&str; 8] = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "'><body onload='alert(1)'>",
    "</textarea></title><script>alert(1)</script>",
    "{{ 7*7 }}<% alert(1) %>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "</script><iframe srcdoc=\"<script>alert(1)</script>\">",
];

/// Requires that no payload became an element or an attribute of the page.
pub(crate) fn assert_harmless(page: &str) {
    for element in page.split('<').skip(1) {
        let tag = element.split('>').next().unwrap_or_default();
        let name: String =
            tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(!["img", "iframe", "base", "object", "embed", "math"].contains(&name.as_str()), "<{tag}>");
        // Without the values of attributes, which are all quoted.
        let bare: String = tag.split('"').step_by(2).collect();
        assert!(!bare.contains(" on") && !bare.contains('\''), "<{tag}>");
        assert!(!tag.contains("=\"javascript:"), "<{tag}>");
        assert!(name != "script" || tag.starts_with("script src=\"/assets/") || tag == "/script", "<{tag}>");
        assert!(
            name != "svg" || tag == "/svg" || tag == "svg viewBox=\"0 0 24 24\" aria-hidden=\"true\"",
            "<{tag}>"
        );
    }
}

#[test]
fn questions_and_titles_are_text() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    for payload in PAYLOADS {
        let path = ask(&browser, payload);
        assert_harmless(&completed(&browser, &path));
    }
    let home = browser.get("/").expect_page(200);
    assert_harmless(&home);
    assert!(home.contains("&#60;script&#62;alert(1)&#60;/script&#62;"), "the titles are shown: {home}");
}

#[test]
fn answers_reasoning_calls_and_sources_are_harmless() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let api = stage.service.api(&stage.account);
    let uploaded = api.upload("<img src=x onerror=alert(1)>.txt", b"The heron is the code word of flat 7.\n");
    assert_eq!(uploaded.status, 201);
    for payload in PAYLOADS {
        let search = json!({ "query": "heron code word" });
        stage.vendor.will([
            Say::Reasoning(payload.to_owned()),
            Say::text(payload),
            Say::Call { tool: "search".to_owned(), arguments: search },
            Say::Call { tool: payload.to_owned(), arguments: json!({}) },
        ]);
        stage.vendor.will([Say::text(&format!(
            "[x](javascript:alert(1)) {payload} and [1].\n\n```html\n{payload}\n```"
        ))]);
        let path = ask(&browser, "Hello");
        let page = completed(&browser, &path);
        assert_harmless(&page);
        assert!(page.contains("<h3>Sources</h3>"), "{page}");
    }
}

#[test]
fn what_forms_and_addresses_send_comes_back_as_text() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let stranger = Browser::new(&stage.service);
    for payload in PAYLOADS {
        assert_harmless(&browser.post("/ask", &[("input", payload), ("model", payload)]).expect_page(400));
        assert_harmless(
            &browser.post("/keys", &[("name", payload), ("read", "on"), ("limit", payload)]).expect_page(400),
        );
        let made = browser.post("/keys", &[("name", payload), ("read", "on")]).expect_page(200);
        assert_harmless(&made);
        let encoded: String = payload.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_harmless(&stranger.get(&format!("/sign-in?next={encoded}")).expect_page(200));
        assert_harmless(&browser.get(&format!("/c/{encoded}")).expect_page(404));
    }
    assert_harmless(
        &stranger.post("/sign-in", &[("email", PAYLOADS[2]), ("password", PAYLOADS[2])]).expect_page(401),
    );
    assert_harmless(&browser.get("/keys").expect_page(200));
}

#[test]
fn nothing_of_another_account_is_shown() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let path = ask(&browser, "Secret question");
    let page = completed(&browser, &path);
    let answer =
        page.split("id=\"a-").nth(1).and_then(|rest| rest.split('"').next()).expect("an answer").to_owned();
    let key = crate::browser::attribute(&browser.get("/keys").expect_page(200), "/revoke", "action");
    let other = account_with_password(&stage.service);
    let stranger = Browser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    stranger.get(&path).expect_page(404);
    assert_eq!(stranger.open(&format!("{path}/{answer}/events")).status, 404);
    for change in ["stop", "delete"] {
        stranger.post(&format!("{path}/{change}"), &[]).expect_page(404);
    }
    stranger.post(&format!("{path}/ask"), &[("input", "x")]).expect_page(404);
    stranger.post(&key, &[]).expect_page(404);
    assert!(!stranger.get("/").expect_page(200).contains("Secret"));
    assert!(completed(&browser, &path).contains("Secret question"), "it is still there");
}
