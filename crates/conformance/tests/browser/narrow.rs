//! Pages where there is little room: what has to be seen is seen.

use conformance::{Say, View};
use serde_json::json;

use crate::stage::{Stage, desktop, phone};

const LONG: &str =
    "rent of the office building on the northern bank, as amended on 12 March 2026, final version.txt";
/// The narrowest phones.
const NARROW: View = View { width: 360, ..phone(false, "sk") };
/// A desktop at four times its size.
const LOW: View = View { width: 320, height: 225, ..desktop(false, "sk") };

#[test]
fn long_names_keep_their_extension_in_sight() {
    let stage = Stage::signed_in(NARROW);
    let browser = &stage.browser;
    let api = stage.service.api(&stage.account);
    assert_eq!(api.upload(LONG, b"The rent is 14,500 crowns.").status, 201);
    let extensions = "return [...document.querySelectorAll('#main .file-name')].map((name) => {
        const inner = name.lastElementChild.getBoundingClientRect();
        const outer = name.getBoundingClientRect();
        const isInside = inner.right <= outer.right + 1 && inner.bottom <= outer.bottom + 1;
        return isInside && inner.width > 8 && outer.right <= innerWidth && name.lastElementChild.textContent;
    })";
    let encoded = conformance::api::encoded(&format!("/uploads/{LONG}"));
    for view in [NARROW, desktop(false, "en")] {
        browser.look(view);
        for path in ["/files/uploads", &format!("/?file={encoded}")] {
            stage.open(path);
            assert_eq!(browser.run(extensions, &[]), json!([".txt"]), "{path}");
        }
    }
}

#[test]
fn the_button_that_sends_stays_beside_the_choices() {
    let stage = Stage::with(NARROW, |vendor| {
        let model = |id: &str| json!({ "id": id, "object": "model", "created": 0, "owned_by": "example" });
        let list = json!({ "object": "list", "data": [model("mistral-small"), model("mistral-large")] });
        vendor.lists(Some((200, list)));
        Vec::new()
    });
    stage.sign_in_at(&stage.browser);
    let _ = stage.browser.find(".tools select");
    let rows = "const bottom = (selector) => document.querySelector(selector).getBoundingClientRect().bottom;
        return Math.abs(bottom('.tools .send') - bottom('.tools')) < 2
            && bottom('.tools') - bottom('.tools select') < 60";
    assert_eq!(stage.browser.run(rows, &[]), true);
}

#[test]
fn a_card_in_a_low_window_shows_its_head_and_its_link() {
    let stage = Stage::signed_in(LOW);
    let browser = &stage.browser;
    let api = stage.service.api(&stage.account);
    assert_eq!(api.upload(LONG, "The rent is 14,500 crowns a month.\n".repeat(20).as_bytes()).status, 201);
    stage.vendor.will([Say::Call {
        tool: "read".to_owned(),
        arguments: json!({ "path": format!("/uploads/{LONG}") }),
    }]);
    stage.vendor.will([Say::text("The rent is 14,500 crowns [1].")]);
    let path = stage.answered("What is the rent?");
    stage.open(&path);
    browser.run("document.querySelector('.prose a[data-citation]').focus({ focusVisible: true })", &[]);
    let _ = browser.find("#card:popover-open");
    let seen = "const card = document.getElementById('card');
        const { top, bottom } = card.getBoundingClientRect();
        const passage = card.querySelector('blockquote');
        return [card.scrollHeight <= card.clientHeight, top >= 0 && bottom <= innerHeight, passage.clientHeight >= 40]";
    assert_eq!(browser.run(seen, &[]), json!([true, true, true]));
    stage.assert_quiet();
}
