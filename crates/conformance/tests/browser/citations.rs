//! Cards of citations by pointer, keyboard and touch, and cited passages in pictures of pages.

use conformance::{Key, Say, WebDriver, poll};
use serde_json::json;

use crate::stage::{Stage, desktop, phone};

/// Returns the text of the card, if it is open.
const CARD: &str = "const card = document.getElementById('card');
    return card.matches(':popover-open') ? card.innerText : null";

/// Reads a document of the agent's tests.
pub(crate) fn document(name: &str) -> Vec<u8> {
    let path = format!("{}/../guest/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a document")
}

/// Has a PDF read and cited twice, and returns the path of the conversation.
pub(crate) fn cited(stage: &Stage) -> String {
    let api = stage.service.api(&stage.account);
    assert_eq!(api.upload("lease.pdf", &document("lease.pdf")).status, 201);
    let read = json!({ "path": "/uploads/lease.pdf" });
    stage.vendor.will([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage.vendor.will([Say::text("The first sentence cites [1].\n\nThe second one does as well [2].")]);
    stage.answered("What does it say?")
}

fn wait_card(browser: &WebDriver) -> String {
    poll::until("the card", || browser.run(CARD, &[]).as_str().map(str::to_owned))
}

fn wait_no_card(browser: &WebDriver) {
    poll::until("no card", || browser.run(CARD, &[]).is_null().then_some(()));
}

/// Returns the middle of an element, scrolled into view.
fn middle(browser: &WebDriver, selector: &str) -> (f64, f64) {
    let script = format!(
        "const element = document.querySelector('{selector}'); element.scrollIntoView({{ block: 'center' }});
         const {{ left, top, width, height }} = element.getBoundingClientRect();
         return [left + width / 2, top + height / 2]"
    );
    let at = browser.run(&script, &[]);
    (at[0].as_f64().expect("a number"), at[1].as_f64().expect("a number"))
}

fn point_at(browser: &WebDriver, (x, y): (f64, f64)) {
    browser.cdp("Input.dispatchMouseEvent", &json!({ "type": "mouseMoved", "x": x, "y": y }));
}

const FIRST: &str = ".prose a[data-citation=c1]";
const SECOND: &str = ".prose a[data-citation=c2]";

#[test]
fn a_card_opens_under_the_pointer_and_stays_while_it_is_there() {
    let stage = Stage::signed_in(desktop(false, "en"));
    let browser = &stage.browser;
    let path = cited(&stage);
    stage.open(&path);
    point_at(browser, middle(browser, FIRST));
    let card = wait_card(browser);
    assert!(
        card.contains("lease.pdf") && card.contains("page 1") && card.contains("Open the source"),
        "{card}"
    );
    let described = browser
        .run(&format!("return document.querySelector('{FIRST}').getAttribute('aria-describedby')"), &[]);
    assert_eq!(described, "card");
    // It can be pointed at, and read there for as long as one likes.
    point_at(browser, middle(browser, "#card blockquote"));
    let stays = "await new Promise((done) => setTimeout(done, 400)); return document.getElementById('card').matches(':popover-open')";
    assert_eq!(browser.run_async(stays, &[]), true);
    browser.press(Key::Escape);
    wait_no_card(browser);
    point_at(browser, middle(browser, SECOND));
    assert!(wait_card(browser).starts_with('2'));
    point_at(browser, (1.0, 1.0));
    wait_no_card(browser);
    // A click leads to the page of the file, at the passage.
    browser.click(&browser.find(FIRST));
    let _ = browser.find(".document-page img");
    assert!(browser.url().contains("/files/uploads/lease.pdf?view&cited="), "{}", browser.url());
    let in_view = "const mark = document.getElementById('cited').getBoundingClientRect();
        return mark.top > 0 && mark.bottom < window.innerHeight";
    poll::until("the passage is in view", || (browser.run(in_view, &[]) == true).then_some(()));
    let drawn = "return [...document.images].filter((image) => image.complete && image.naturalWidth === 1240).length > 0";
    poll::until("its page is drawn", || (browser.run(drawn, &[]) == true).then_some(()));
    browser.click(&browser.find(".cited-passage a"));
    let _ = browser.find(".conversation .answer");
    stage.assert_quiet();
}

#[test]
fn a_card_opens_by_keyboard_and_closes_when_the_focus_leaves() {
    let stage = Stage::signed_in(desktop(true, "cs"));
    let browser = &stage.browser;
    let path = cited(&stage);
    stage.open(&path);
    // The first stop behind the steps of the answer is the first citation.
    browser.run(
        "const step = document.querySelector('.steps summary'); step.focus(); step.scrollIntoView()",
        &[],
    );
    browser.press(Key::Tab);
    let card = wait_card(browser);
    assert!(card.contains("strana 1") && card.contains("Otevřít zdroj"), "{card}");
    browser.press(Key::Escape);
    wait_no_card(browser);
    assert_eq!(browser.run("return document.activeElement.dataset.citation", &[]), "c1", "the focus stays");
    browser.press(Key::Tab);
    assert!(wait_card(browser).starts_with('2'));
    browser.press(Key::Tab);
    browser.press(Key::Tab);
    browser.press(Key::Tab);
    wait_no_card(browser);
    stage.assert_quiet();
}

#[test]
fn the_first_touch_shows_the_card_and_the_second_follows_the_citation() {
    let stage = Stage::signed_in(phone(false, "sk"));
    let browser = &stage.browser;
    let path = cited(&stage);
    stage.open(&path);
    let touch = |(x, y): (f64, f64)| {
        let points = json!([{ "x": x, "y": y }]);
        browser.cdp("Input.dispatchTouchEvent", &json!({ "type": "touchStart", "touchPoints": points }));
        browser.cdp("Input.dispatchTouchEvent", &json!({ "type": "touchEnd", "touchPoints": [] }));
    };
    touch(middle(browser, FIRST));
    assert!(wait_card(browser).contains("lease.pdf"));
    let within = "const card = document.getElementById('card').getBoundingClientRect();
        return card.left >= 0 && card.right <= document.documentElement.clientWidth";
    assert_eq!(browser.run(within, &[]), true);
    touch(middle(browser, ".head h1"));
    wait_no_card(browser);
    touch(middle(browser, FIRST));
    let _ = wait_card(browser);
    touch(middle(browser, FIRST));
    let _ = browser.find(".document-page img");
    stage.assert_quiet();
}

#[test]
fn a_page_to_print_with_citations_runs_without_errors() {
    let stage = Stage::signed_in(desktop(false, "en"));
    let path = cited(&stage);
    stage.open(&format!("{path}/print"));
    let _ = stage.browser.find(".print a[data-citation=c1]");
    stage.assert_quiet();
}

#[test]
fn sources_have_the_same_numbers_without_gaps_everywhere_in_the_application() {
    let stage = Stage::new(desktop(false, "en"));
    let browser = &stage.browser;
    stage.sign_in_at(browser);
    let api = stage.service.api(&stage.account);
    assert_eq!(api.upload("lease.pdf", &document("lease.pdf")).status, 201);
    let read = json!({ "path": "/uploads/lease.pdf" });
    stage.vendor.will([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage.vendor.will([Say::text("The second one comes first [2].\n\nThe first one [1], again [2].")]);
    let path = stage.answered("What does it say?");
    let marks =
        "return [...document.querySelectorAll('.prose a[data-citation]')].map((link) => link.textContent)";
    let listed =
        "return [...document.querySelectorAll('.sources .number')].map((number) => number.textContent)";
    for page in [path.clone(), format!("{path}/print")] {
        stage.open(&page);
        let _ = browser.find(".sources");
        assert_eq!(browser.run(marks, &[]), json!(["[1]", "[2]", "[1]"]), "{page}");
        assert_eq!(browser.run(listed, &[]), json!(["1", "2"]), "{page}");
    }
    stage.open(&path);
    // The first mark is that of the source that the interface calls c2.
    point_at(browser, middle(browser, ".prose a[data-citation=c2]"));
    assert!(wait_card(browser).starts_with('1'));
    browser.click(&browser.find(".prose a[data-citation=c2]"));
    let _ = browser.find(".cited-passage");
    assert_eq!(browser.run("return document.querySelector('.cited-passage .number').textContent", &[]), "1");
    stage.open(&path);
    let export = format!("return await (await fetch('{path}/export.md')).text()");
    let export = browser.run_async(&export, &[]);
    let export = export.as_str().expect("a text");
    assert!(export.contains("comes first [1].\n\nThe first one [2], again [1]."), "{export}");
    assert!(export.contains("\n[1] `/uploads/lease.pdf`") && export.contains("\n[2] "), "{export}");
    // The interface has the numbers of the model.
    let chat = api.chat(path.trim_start_matches("/c/")).json();
    let content = chat["messages"][1]["parts"].to_string();
    assert!(content.contains("data-citation=\\\"c2\\\"") && content.contains(">[2]</a>"), "{content}");
    stage.assert_quiet();
}
