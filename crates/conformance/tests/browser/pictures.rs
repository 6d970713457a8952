//! Pictures of files and of pages of documents, enlarged in a dialog.

use conformance::{Key, WebDriver, poll};

use crate::citations::{cited, document};
use crate::stage::{Stage, desktop, phone};

const IS_OPEN: &str = "return document.querySelector('.viewer').open";

fn wait_open(browser: &WebDriver, is_open: bool) {
    poll::until("the dialog", || (browser.run(IS_OPEN, &[]) == is_open).then_some(()));
}

#[test]
fn a_picture_is_enlarged_by_keyboard_and_escape_closes_it() {
    let stage = Stage::signed_in(phone(true, "en"));
    let browser = &stage.browser;
    let api = stage.service.api(&stage.account);
    assert_eq!(api.upload("code.png", &document("code_word.png")).status, 201);
    stage.open("/files/uploads/code.png?view");
    browser.run("document.querySelector('.enlarge').focus()", &[]);
    browser.press(Key::Enter);
    wait_open(browser, true);
    let shown = browser.run(
        "const image = document.querySelector('.viewer img');
         const { left, right, top, bottom } = image.getBoundingClientRect();
         return [image.alt, left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight]",
        &[],
    );
    assert_eq!(shown, serde_json::json!(["code.png", true]));
    browser.press(Key::Escape);
    wait_open(browser, false);
    assert_eq!(browser.run("return document.activeElement.className", &[]), "enlarge", "the focus returns");
    stage.assert_quiet();
}

#[test]
fn a_page_of_a_document_is_enlarged_with_its_marks() {
    let stage = Stage::signed_in(desktop(false, "sk"));
    let browser = &stage.browser;
    let path = cited(&stage);
    stage.open(&path);
    browser.click(&browser.find(".prose a[data-citation=c1]"));
    browser.click(&browser.find(".document-page img"));
    wait_open(browser, true);
    let parts = "return [document.querySelectorAll('.viewer img').length,
        document.querySelectorAll('.viewer .marks rect').length > 0, document.querySelectorAll('[id=cited]').length]";
    assert_eq!(browser.run(parts, &[]), serde_json::json!([1, true, 1]));
    // A page is larger than the window: it has a full size.
    browser.click(&browser.find(".viewer .shrunk"));
    assert_eq!(
        browser.run("return document.querySelector('.viewer [aria-pressed]').ariaPressed", &[]),
        "true"
    );
    let natural =
        "const image = document.querySelector('.viewer img'); return image.width === image.naturalWidth";
    assert_eq!(browser.run(natural, &[]), true);
    browser.click(&browser.find(".viewer [aria-label='Zavrieť']"));
    wait_open(browser, false);
    stage.assert_quiet();
}
