//! The reference of the interface at `/docs`, as an integrator reads it: samples, search, links, calls, on each screen.

use e2e::KeyboardKey;
use serde_json::{Value, json};

use crate::accessibility::AccessibilityFindings;
use crate::stage::{BrowserFixture, VIEWS, desktop_view, phone_view};

/// Returns the identifier of the focused link's target.
const FOCUSED: &str = "return document.activeElement.hash ?? document.activeElement.id";

#[test]
fn reference_samples_keep_service_and_language() {
    let stage = BrowserFixture::new(desktop_view(false, "en"));
    let browser = &stage.browser;
    stage.open_path("/docs");
    let origin = stage.service_url("");
    let shown = browser.run_script("return document.querySelector('[data-origin]').textContent", &[]);
    assert_eq!(shown, origin.as_str(), "a sample can be pasted as it is");
    let languages = "return [...new Set([...document.querySelectorAll('[data-panel]')].filter(panel => !panel.hidden)\
                     .map(panel => panel.dataset.panel))]";
    assert_eq!(browser.run_script(languages, &[]), json!(["curl"]));
    browser.click_element(&browser.find_element("#askQuestion [data-language=python]"));
    assert_eq!(browser.run_script(languages, &[]), json!(["python"]), "one language for the whole page");
    stage.open_path("/docs?again");
    assert_eq!(browser.run_script(languages, &[]), json!(["python"]), "it is remembered");
    stage.assert_quiet();
}

#[test]
fn the_keyboard_is_enough_to_search() {
    let stage = BrowserFixture::new(desktop_view(true, "en"));
    let browser = &stage.browser;
    stage.open_path("/docs");
    let _ = browser.find_element(".scripted");
    browser.type_text(&browser.find_element("body"), "/");
    assert_eq!(browser.run_script(FOCUSED, &[]), "search");
    browser.type_text(&browser.find_element("#search"), "idempotency");
    browser.press_key(KeyboardKey::Down);
    assert_eq!(browser.run_script(FOCUSED, &[]), "#retries");
    browser.press_key(KeyboardKey::Down);
    assert_eq!(browser.run_script(FOCUSED, &[]), "#errors");
    browser.press_key(KeyboardKey::Up);
    browser.press_key(KeyboardKey::Enter);
    assert!(browser.page_url().ends_with("/docs#retries"), "{}", browser.page_url());
    browser.type_text(&browser.find_element("#search"), " zzz");
    browser.wait_for_text("Nothing found");
    browser.press_key(KeyboardKey::Escape);
    browser.wait_until_gone("nav li[hidden]");
    stage.assert_quiet();
}

#[test]
fn reference_try_it_forgets_key() {
    let stage = BrowserFixture::new(phone_view(false, "en"));
    let browser = &stage.browser;
    stage.open_path("/docs");
    browser.type_text(&browser.find_element("#key"), &stage.account.key);
    browser.click_element(&browser.find_element("#getVm form.try summary, #getVm details summary"));
    browser.click_element(&browser.find_element("#getVm form.try button"));
    browser.wait_for_text("\"status\": \"STOPPED\"");
    stage.open_path("/docs?again");
    assert_eq!(browser.run_script("return document.getElementById('key').value", &[]), "");
    let kept = browser.run_script("return JSON.stringify([localStorage, sessionStorage])", &[]);
    assert!(!kept.as_str().is_some_and(|kept| kept.contains("api-")), "{kept}");
    browser.click_element(&browser.find_element("#menu"));
    browser.click_element(&browser.find_element("nav a[href='#errors']"));
    let row = browser.run_script("return document.getElementById('error-CONVERSATION_BUSY').innerText", &[]);
    assert!(row.as_str().is_some_and(|row| row.contains("409") && row.contains("Retry-After")), "{row}");
    let covered = "return getComputedStyle(document.querySelector('nav')).display";
    assert_eq!(browser.run_script(covered, &[]), "none", "the menu closes behind a choice");
    stage.assert_quiet();
}

#[test]
fn reference_is_accessible_in_every_view() {
    let stage = BrowserFixture::new(VIEWS[0]);
    stage.browser.run_script_on_load(&crate::accessibility::read_axe_script());
    let mut findings = AccessibilityFindings::default();
    for view in VIEWS.into_iter().filter(|view| view.language == "en") {
        stage.browser.set_view(view);
        stage.open_path("/docs");
        let _: Value = stage.browser.run_script("document.getElementById('getVm').scrollIntoView()", &[]);
        findings.check_page(&stage, view, "/docs");
    }
    findings.assert_none();
}
