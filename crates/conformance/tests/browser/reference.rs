//! The reference of the interface at `/docs`, as an integrator reads it: samples, search, links, calls, on each screen.

use conformance::Key;
use serde_json::{Value, json};

use crate::accessibility::Findings;
use crate::stage::{Stage, VIEWS, desktop, phone};

/// Returns the identifier of the focused link's target.
const FOCUSED: &str = "return document.activeElement.hash ?? document.activeElement.id";

#[test]
fn samples_name_this_service_and_keep_their_language() {
    let stage = Stage::new(desktop(false, "en"));
    let browser = &stage.browser;
    stage.open("/docs");
    let origin = stage.url("");
    let shown = browser.run("return document.querySelector('[data-origin]').textContent", &[]);
    assert_eq!(shown, origin.as_str(), "a sample can be pasted as it is");
    let languages = "return [...new Set([...document.querySelectorAll('[data-panel]')].filter(panel => !panel.hidden)\
                     .map(panel => panel.dataset.panel))]";
    assert_eq!(browser.run(languages, &[]), json!(["curl"]));
    browser.click(&browser.find("#askQuestion [data-language=python]"));
    assert_eq!(browser.run(languages, &[]), json!(["python"]), "one language for the whole page");
    stage.open("/docs?again");
    assert_eq!(browser.run(languages, &[]), json!(["python"]), "it is remembered");
    stage.assert_quiet();
}

#[test]
fn the_keyboard_is_enough_to_search() {
    let stage = Stage::new(desktop(true, "en"));
    let browser = &stage.browser;
    stage.open("/docs");
    let _ = browser.find(".scripted");
    browser.write(&browser.find("body"), "/");
    assert_eq!(browser.run(FOCUSED, &[]), "search");
    browser.write(&browser.find("#search"), "idempotency");
    browser.press(Key::Down);
    assert_eq!(browser.run(FOCUSED, &[]), "#retries");
    browser.press(Key::Down);
    assert_eq!(browser.run(FOCUSED, &[]), "#errors");
    browser.press(Key::Up);
    browser.press(Key::Enter);
    assert!(browser.url().ends_with("/docs#retries"), "{}", browser.url());
    browser.write(&browser.find("#search"), " zzz");
    browser.wait_text("Nothing found");
    browser.press(Key::Escape);
    browser.wait_gone("nav li[hidden]");
    stage.assert_quiet();
}

#[test]
fn a_call_is_tried_with_a_key_that_is_then_forgotten() {
    let stage = Stage::new(phone(false, "en"));
    let browser = &stage.browser;
    stage.open("/docs");
    browser.write(&browser.find("#key"), &stage.account.key);
    browser.click(&browser.find("#getVm form.try summary, #getVm details summary"));
    browser.click(&browser.find("#getVm form.try button"));
    browser.wait_text("\"status\": \"STOPPED\"");
    stage.open("/docs?again");
    assert_eq!(browser.run("return document.getElementById('key').value", &[]), "");
    let kept = browser.run("return JSON.stringify([localStorage, sessionStorage])", &[]);
    assert!(!kept.as_str().is_some_and(|kept| kept.contains("api-")), "{kept}");
    browser.click(&browser.find("#menu"));
    browser.click(&browser.find("nav a[href='#errors']"));
    let row = browser.run("return document.getElementById('error-CONVERSATION_BUSY').innerText", &[]);
    assert!(row.as_str().is_some_and(|row| row.contains("409") && row.contains("Retry-After")), "{row}");
    let covered = "return getComputedStyle(document.querySelector('nav')).display";
    assert_eq!(browser.run(covered, &[]), "none", "the menu closes behind a choice");
    stage.assert_quiet();
}

#[test]
fn the_reference_is_accessible_in_every_view() {
    let stage = Stage::new(VIEWS[0]);
    stage.browser.run_first(&crate::accessibility::axe());
    let mut findings = Findings::default();
    for view in VIEWS.into_iter().filter(|view| view.language == "en") {
        stage.browser.look(view);
        stage.open("/docs");
        let _: Value = stage.browser.run("document.getElementById('getVm').scrollIntoView()", &[]);
        findings.look(&stage, view, "/docs");
    }
    findings.assert_none();
}
