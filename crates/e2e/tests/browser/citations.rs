//! Cards of citations by pointer, keyboard and touch, and cited passages in pictures of pages.

use e2e::{KeyboardKey, Say, WebDriver, poll};
use serde_json::json;

use crate::stage::{BrowserFixture, desktop_view, phone_view};

/// Returns the text of the card, if it is open.
const CARD: &str = "const card = document.getElementById('card');
    return card.matches(':popover-open') ? card.innerText : null";

/// Reads a document of the agent's tests.
pub(crate) fn read_guest_fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../documents/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a document")
}

/// Makes answers read and cite a PDF twice, and returns the path of the conversation.
pub(crate) fn ask_with_citations(stage: &BrowserFixture) -> String {
    let api = stage.service.api_for(&stage.account);
    assert_eq!(api.upload_file("lease.pdf", &read_guest_fixture("lease.pdf")).status, 201);
    let read = json!({ "path": "/uploads/lease.pdf" });
    stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage
        .vendor
        .add_script([Say::from_text("The first sentence cites [1].\n\nThe second one does as well [2].")]);
    stage.ask_and_wait("What does it say?")
}

fn wait_card(browser: &WebDriver) -> String {
    poll::wait_until("the card", || browser.run_script(CARD, &[]).as_str().map(str::to_owned))
}

fn wait_no_card(browser: &WebDriver) {
    poll::wait_until("no card", || browser.run_script(CARD, &[]).is_null().then_some(()));
}

/// Returns the middle of an element, scrolled into view.
fn element_middle(browser: &WebDriver, selector: &str) -> (f64, f64) {
    let script = format!(
        "const element = document.querySelector('{selector}'); element.scrollIntoView({{ block: 'center' }});
         const {{ left, top, width, height }} = element.getBoundingClientRect();
         return [left + width / 2, top + height / 2]"
    );
    let at = browser.run_script(&script, &[]);
    (at[0].as_f64().expect("a number"), at[1].as_f64().expect("a number"))
}

fn point_at(browser: &WebDriver, (x, y): (f64, f64)) {
    browser.send_cdp_command("Input.dispatchMouseEvent", &json!({ "type": "mouseMoved", "x": x, "y": y }));
}

const FIRST: &str = ".prose a[data-citation=c1]";
const SECOND: &str = ".prose a[data-citation=c2]";

#[test]
fn citation_card_opens_under_pointer() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let browser = &stage.browser;
    let path = ask_with_citations(&stage);
    stage.open_path(&path);
    point_at(browser, element_middle(browser, FIRST));
    let card = wait_card(browser);
    assert!(
        card.contains("lease.pdf") && card.contains("page 1") && card.contains("Open the source"),
        "{card}"
    );
    let described = browser.run_script(
        &format!("return document.querySelector('{FIRST}').getAttribute('aria-describedby')"),
        &[],
    );
    assert_eq!(described, "card");
    // The pointer can move onto it and stay there.
    point_at(browser, element_middle(browser, "#card blockquote"));
    let stays = "await new Promise((done) => setTimeout(done, 400)); return document.getElementById('card').matches(':popover-open')";
    assert_eq!(browser.run_async_script(stays, &[]), true);
    browser.press_key(KeyboardKey::Escape);
    wait_no_card(browser);
    point_at(browser, element_middle(browser, SECOND));
    assert!(wait_card(browser).starts_with('2'));
    point_at(browser, (1.0, 1.0));
    wait_no_card(browser);
    // A click leads to the page of the file, at the passage.
    browser.click_element(&browser.find_element(FIRST));
    let _ = browser.find_element(".document-page img");
    assert!(browser.page_url().contains("/files/uploads/lease.pdf?view&cited="), "{}", browser.page_url());
    let in_view = "const mark = document.getElementById('cited').getBoundingClientRect();
        return mark.top > 0 && mark.bottom < window.innerHeight";
    poll::wait_until("the passage is in view", || (browser.run_script(in_view, &[]) == true).then_some(()));
    let drawn = "return [...document.images].filter((image) => image.complete && image.naturalWidth === 1240).length > 0";
    poll::wait_until("its page is drawn", || (browser.run_script(drawn, &[]) == true).then_some(()));
    browser.click_element(&browser.find_element(".cited-passage a"));
    let _ = browser.find_element(".conversation .answer");
    stage.assert_quiet();
}

#[test]
fn citation_card_works_by_keyboard() {
    let stage = BrowserFixture::start_signed_in(desktop_view(true, "cs"));
    let browser = &stage.browser;
    let path = ask_with_citations(&stage);
    stage.open_path(&path);
    // The first stop behind the steps of the answer is the first citation.
    browser.run_script(
        "const step = document.querySelector('.steps summary'); step.focus(); step.scrollIntoView()",
        &[],
    );
    browser.press_key(KeyboardKey::Tab);
    let card = wait_card(browser);
    assert!(card.contains("strana 1") && card.contains("Otevřít zdroj"), "{card}");
    browser.press_key(KeyboardKey::Escape);
    wait_no_card(browser);
    assert_eq!(
        browser.run_script("return document.activeElement.dataset.citation", &[]),
        "c1",
        "the focus stays"
    );
    browser.press_key(KeyboardKey::Tab);
    assert!(wait_card(browser).starts_with('2'));
    browser.press_key(KeyboardKey::Tab);
    browser.press_key(KeyboardKey::Tab);
    browser.press_key(KeyboardKey::Tab);
    wait_no_card(browser);
    stage.assert_quiet();
}

#[test]
fn second_touch_follows_citation() {
    let stage = BrowserFixture::start_signed_in(phone_view(false, "sk"));
    let browser = &stage.browser;
    let path = ask_with_citations(&stage);
    stage.open_path(&path);
    let touch = |(x, y): (f64, f64)| {
        let points = json!([{ "x": x, "y": y }]);
        browser.send_cdp_command(
            "Input.dispatchTouchEvent",
            &json!({ "type": "touchStart", "touchPoints": points }),
        );
        browser
            .send_cdp_command("Input.dispatchTouchEvent", &json!({ "type": "touchEnd", "touchPoints": [] }));
    };
    touch(element_middle(browser, FIRST));
    assert!(wait_card(browser).contains("lease.pdf"));
    let within = "const card = document.getElementById('card').getBoundingClientRect();
        return card.left >= 0 && card.right <= document.documentElement.clientWidth";
    assert_eq!(browser.run_script(within, &[]), true);
    touch(element_middle(browser, ".head h1"));
    wait_no_card(browser);
    touch(element_middle(browser, FIRST));
    let _ = wait_card(browser);
    touch(element_middle(browser, FIRST));
    let _ = browser.find_element(".document-page img");
    stage.assert_quiet();
}

#[test]
fn cited_print_page_has_no_errors() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let path = ask_with_citations(&stage);
    stage.open_path(&format!("{path}/print"));
    let _ = stage.browser.find_element(".print a[data-citation=c1]");
    stage.assert_quiet();
}

#[test]
fn source_numbers_agree_across_pages() {
    let stage = BrowserFixture::new(desktop_view(false, "en"));
    let browser = &stage.browser;
    stage.sign_in_at(browser);
    let api = stage.service.api_for(&stage.account);
    assert_eq!(api.upload_file("lease.pdf", &read_guest_fixture("lease.pdf")).status, 201);
    let read = json!({ "path": "/uploads/lease.pdf" });
    stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage
        .vendor
        .add_script([Say::from_text("The second one comes first [2].\n\nThe first one [1], again [2].")]);
    let path = stage.ask_and_wait("What does it say?");
    let marks =
        "return [...document.querySelectorAll('.prose a[data-citation]')].map((link) => link.textContent)";
    let listed =
        "return [...document.querySelectorAll('.sources .number')].map((number) => number.textContent)";
    for page in [path.clone(), format!("{path}/print")] {
        stage.open_path(&page);
        let _ = browser.find_element(".sources");
        assert_eq!(browser.run_script(marks, &[]), json!(["[1]", "[2]", "[1]"]), "{page}");
        assert_eq!(browser.run_script(listed, &[]), json!(["1", "2"]), "{page}");
    }
    stage.open_path(&path);
    // The first mark belongs to the source that the interface calls c2.
    point_at(browser, element_middle(browser, ".prose a[data-citation=c2]"));
    assert!(wait_card(browser).starts_with('1'));
    browser.click_element(&browser.find_element(".prose a[data-citation=c2]"));
    let _ = browser.find_element(".cited-passage");
    assert_eq!(
        browser.run_script("return document.querySelector('.cited-passage .number').textContent", &[]),
        "1"
    );
    stage.open_path(&path);
    let export = format!("return await (await fetch('{path}/export.md')).text()");
    let export = browser.run_async_script(&export, &[]);
    let export = export.as_str().expect("a text");
    assert!(export.contains("comes first [1].\n\nThe first one [2], again [1]."), "{export}");
    assert!(export.contains("\n[1] `/uploads/lease.pdf`") && export.contains("\n[2] "), "{export}");
    // The interface has the numbers of the model.
    let chat = api.get_chat(path.trim_start_matches("/c/")).json();
    let content = chat["messages"][1]["parts"].to_string();
    assert!(content.contains("data-citation=\\\"c2\\\"") && content.contains(">[2]</a>"), "{content}");
    stage.assert_quiet();
}
