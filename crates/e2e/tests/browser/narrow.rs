//! Pages on narrow screens: important parts stay visible.

use e2e::{Say, View};
use serde_json::json;

use crate::stage::{BrowserFixture, desktop_view, phone_view};

const LONG: &str =
    "rent of the office building on the northern bank, as amended on 12 March 2026, final version.txt";
const NARROW: View = View { width: 360, ..phone_view(false, "sk") };
/// A desktop at four times its size.
const LOW: View = View { width: 320, height: 225, ..desktop_view(false, "sk") };

#[test]
fn long_names_keep_extension_visible() {
    let stage = BrowserFixture::start_signed_in(NARROW);
    let browser = &stage.browser;
    let api = stage.service.api_for(&stage.account);
    assert_eq!(api.upload_file(LONG, b"The rent is 14,500 crowns.").status, 201);
    let extensions = "return [...document.querySelectorAll('#main .file-name')].map((name) => {
        const inner = name.lastElementChild.getBoundingClientRect();
        const outer = name.getBoundingClientRect();
        const isInside = inner.right <= outer.right + 1 && inner.bottom <= outer.bottom + 1;
        return isInside && inner.width > 8 && outer.right <= innerWidth && name.lastElementChild.textContent;
    })";
    let encoded = e2e::api::encode_path(&format!("/uploads/{LONG}"));
    for view in [NARROW, desktop_view(false, "en")] {
        browser.set_view(view);
        for path in ["/files/uploads", &format!("/?file={encoded}")] {
            stage.open_path(path);
            assert_eq!(browser.run_script(extensions, &[]), json!([".txt"]), "{path}");
        }
    }
}

#[test]
fn send_button_stays_beside_choices() {
    let stage = BrowserFixture::start_prepared(NARROW, |vendor| {
        let model = |id: &str| json!({ "id": id, "object": "model", "created": 0, "owned_by": "example" });
        let list = json!({ "object": "list", "data": [model("mistral-small"), model("mistral-large")] });
        vendor.set_model_list(Some((200, list)));
        Vec::new()
    });
    stage.sign_in_at(&stage.browser);
    let _ = stage.browser.find_element(".tools select");
    let rows = "const bottom = (selector) => document.querySelector(selector).getBoundingClientRect().bottom;
        return Math.abs(bottom('.tools .send') - bottom('.tools')) < 2
            && bottom('.tools') - bottom('.tools select') < 60";
    assert_eq!(stage.browser.run_script(rows, &[]), true);
}

#[test]
fn citation_card_fits_low_window() {
    let stage = BrowserFixture::start_signed_in(LOW);
    let browser = &stage.browser;
    let api = stage.service.api_for(&stage.account);
    assert_eq!(
        api.upload_file(LONG, "The rent is 14,500 crowns a month.\n".repeat(20).as_bytes()).status,
        201
    );
    stage.vendor.add_script([Say::Call {
        tool: "read".to_owned(),
        arguments: json!({ "path": format!("/uploads/{LONG}") }),
    }]);
    stage.vendor.add_script([Say::from_text("The rent is 14,500 crowns [1].")]);
    let path = stage.ask_and_wait("What is the rent?");
    stage.open_path(&path);
    browser
        .run_script("document.querySelector('.prose a[data-citation]').focus({ focusVisible: true })", &[]);
    let _ = browser.find_element("#card:popover-open");
    let seen = "const card = document.getElementById('card');
        const { top, bottom } = card.getBoundingClientRect();
        const passage = card.querySelector('blockquote');
        return [card.scrollHeight <= card.clientHeight, top >= 0 && bottom <= innerHeight, passage.clientHeight >= 40]";
    assert_eq!(browser.run_script(seen, &[]), json!([true, true, true]));
    stage.assert_quiet();
}
