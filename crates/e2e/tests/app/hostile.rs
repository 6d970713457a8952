//! Texts of models, documents and users that try to run in a page.

use e2e::Say;
use serde_json::json;

use crate::browser::{AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password};
use crate::conversations::{ask_question, wait_for_completed_page};

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
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for payload in PAYLOADS {
        let path = ask_question(&browser, payload);
        assert_harmless(&wait_for_completed_page(&browser, &path));
    }
    let home = browser.get_page("/").expect_page(200);
    assert_harmless(&home);
    assert!(home.contains("&#60;script&#62;alert(1)&#60;/script&#62;"), "the titles are shown: {home}");
}

#[test]
fn hostile_answers_and_sources_escaped() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let api = stage.service.api_for(&stage.account);
    let uploaded =
        api.upload_file("<img src=x onerror=alert(1)>.txt", b"The heron is the code word of flat 7.\n");
    assert_eq!(uploaded.status, 201);
    for payload in PAYLOADS {
        let search = json!({ "query": "heron code word" });
        stage.vendor.add_script([
            Say::Reasoning(payload.to_owned()),
            Say::from_text(payload),
            Say::Call { tool: "search".to_owned(), arguments: search },
            Say::Call { tool: payload.to_owned(), arguments: json!({}) },
        ]);
        stage.vendor.add_script([Say::from_text(&format!(
            "[x](javascript:alert(1)) {payload} and [1].\n\n```html\n{payload}\n```"
        ))]);
        let path = ask_question(&browser, "Hello");
        let page = wait_for_completed_page(&browser, &path);
        assert_harmless(&page);
        assert!(page.contains("<h3>Sources</h3>"), "{page}");
    }
}

#[test]
fn hostile_form_values_are_escaped() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let stranger = HttpBrowser::new(&stage.service);
    for payload in PAYLOADS {
        assert_harmless(
            &browser.post_form("/ask", &[("input", payload), ("model", payload)]).expect_page(400),
        );
        assert_harmless(
            &browser
                .post_form("/keys", &[("name", payload), ("read", "on"), ("limit", payload)])
                .expect_page(400),
        );
        let made = browser.post_form("/keys", &[("name", payload), ("read", "on")]).expect_page(200);
        assert_harmless(&made);
        let encoded: String = payload.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_harmless(&stranger.get_page(&format!("/sign-in?next={encoded}")).expect_page(200));
        assert_harmless(&browser.get_page(&format!("/c/{encoded}")).expect_page(404));
    }
    assert_harmless(
        &stranger
            .post_form("/sign-in", &[("email", PAYLOADS[2]), ("password", PAYLOADS[2])])
            .expect_page(401),
    );
    assert_harmless(&browser.get_page("/keys").expect_page(200));
}

#[test]
fn nothing_of_another_account_is_shown() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let path = ask_question(&browser, "Secret question");
    let page = wait_for_completed_page(&browser, &path);
    let answer =
        page.split("id=\"a-").nth(1).and_then(|rest| rest.split('"').next()).expect("an answer").to_owned();
    let key =
        crate::browser::find_attribute(&browser.get_page("/keys").expect_page(200), "/revoke", "action");
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    stranger.get_page(&path).expect_page(404);
    assert_eq!(stranger.open_stream(&format!("{path}/{answer}/events")).status, 404);
    for change in ["stop", "delete"] {
        stranger.post_form(&format!("{path}/{change}"), &[]).expect_page(404);
    }
    stranger.post_form(&format!("{path}/ask"), &[("input", "x")]).expect_page(404);
    stranger.post_form(&key, &[]).expect_page(404);
    assert!(!stranger.get_page("/").expect_page(200).contains("Secret"));
    assert!(wait_for_completed_page(&browser, &path).contains("Secret question"), "it is still there");
}
