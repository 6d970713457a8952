//! Pictures of files and of pages of documents, enlarged in a dialog.

use e2e::{KeyboardKey, WebDriver, poll};

use crate::citations::{ask_with_citations, read_guest_fixture};
use crate::stage::{BrowserFixture, desktop_view, phone_view};

const IS_OPEN: &str = "return document.querySelector('.viewer').open";

fn wait_open(browser: &WebDriver, is_open: bool) {
    poll::wait_until("the dialog", || (browser.run_script(IS_OPEN, &[]) == is_open).then_some(()));
}

#[test]
fn picture_enlarges_and_closes_by_keyboard() {
    let stage = BrowserFixture::start_signed_in(phone_view(true, "en"));
    let browser = &stage.browser;
    let api = stage.service.api_for(&stage.account);
    assert_eq!(api.upload_file("code.png", &read_guest_fixture("code_word.png")).status, 201);
    stage.open_path("/files/uploads/code.png?view");
    browser.run_script("document.querySelector('.enlarge').focus()", &[]);
    browser.press_key(KeyboardKey::Enter);
    wait_open(browser, true);
    let shown = browser.run_script(
        "const image = document.querySelector('.viewer img');
         const { left, right, top, bottom } = image.getBoundingClientRect();
         return [image.alt, left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight]",
        &[],
    );
    assert_eq!(shown, serde_json::json!(["code.png", true]));
    browser.press_key(KeyboardKey::Escape);
    wait_open(browser, false);
    assert_eq!(
        browser.run_script("return document.activeElement.className", &[]),
        "enlarge",
        "the focus returns"
    );
    stage.assert_quiet();
}

#[test]
fn enlarged_document_page_keeps_marks() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "sk"));
    let browser = &stage.browser;
    let path = ask_with_citations(&stage);
    stage.open_path(&path);
    browser.click_element(&browser.find_element(".prose a[data-citation=c1]"));
    browser.click_element(&browser.find_element(".document-page img"));
    wait_open(browser, true);
    let parts = "return [document.querySelectorAll('.viewer img').length,
        document.querySelectorAll('.viewer .marks rect').length > 0, document.querySelectorAll('[id=cited]').length]";
    assert_eq!(browser.run_script(parts, &[]), serde_json::json!([1, true, 1]));
    // A page is larger than the window: it has a full size.
    browser.click_element(&browser.find_element(".viewer .shrunk"));
    assert_eq!(
        browser.run_script("return document.querySelector('.viewer [aria-pressed]').ariaPressed", &[]),
        "true"
    );
    let natural =
        "const image = document.querySelector('.viewer img'); return image.width === image.naturalWidth";
    assert_eq!(browser.run_script(natural, &[]), true);
    browser.click_element(&browser.find_element(".viewer [aria-label='Zavrieť']"));
    wait_open(browser, false);
    stage.assert_quiet();
}
