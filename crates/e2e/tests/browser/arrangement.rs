//! Files that are chosen and moved, the choices of a further question, and pages without a licence.

use e2e::api::list_names;
use e2e::{KeyboardKey, View, poll};

use crate::accessibility::{AccessibilityFindings, read_axe_script};
use crate::stage::{BrowserFixture, VIEWS, desktop_view, phone_view};

/// A desktop at four times its size.
const NARROW: View = View { width: 320, ..phone_view(true, "cs") };

#[test]
fn move_dialog_works_and_is_accessible() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let browser = &stage.browser;
    browser.run_script_on_load(&read_axe_script());
    let api = stage.service.api_for(&stage.account);
    for name in ["a long name of a lease, as amended on 12 March 2026, final.txt", "b.txt"] {
        assert_eq!(api.upload_file(name, b"The rent is due.").status, 201);
    }
    assert_eq!(api.create_folder("/Archive").status, 201);
    let choose = |action: &str| {
        stage.open_path("/files/uploads");
        let _ = browser.find_element(".entries [name=file]");
        browser.run_script(
            "document.querySelectorAll('.entries [name=file]').forEach((box) => box.click())",
            &[],
        );
        browser.click_element(&browser.find_element(&format!(".entries-foot [value={action}]")));
        let _ = browser.find_element("main.arrange");
    };
    let mut findings = AccessibilityFindings::default();
    for view in VIEWS.into_iter().chain([NARROW]) {
        browser.set_view(view);
        for path in ["/files/uploads", "/files?q=txt&sort=size-down", "/files?q=none"] {
            stage.open_path(path);
            findings.check_page(&stage, view, path);
        }
        for action in ["move", "delete"] {
            choose(action);
            findings.check_page(&stage, view, action);
        }
    }
    findings.assert_none();

    browser.set_view(desktop_view(false, "en"));
    choose("move");
    let field = browser.find_element("[name=destination]");
    browser.run_script("document.activeElement.value = ''", &[]);
    browser.type_text(&field, "/Archive");
    browser.press_key(KeyboardKey::Enter);
    poll::wait_until("both are moved", || (list_names(&api, "/Archive").len() == 2).then_some(()));
    let _ = browser.find_element("main.files");
    assert!(list_names(&api, "/uploads").is_empty());
    stage.assert_quiet();
}

#[test]
fn folder_counts_chosen_and_sorts_at_once() {
    let stage = BrowserFixture::start_signed_in(phone_view(false, "en"));
    let browser = &stage.browser;
    let api = stage.service.api_for(&stage.account);
    for name in ["a.txt", "b.txt", "c.txt"] {
        assert_eq!(api.upload_file(name, b"x").status, 201);
    }
    stage.open_path("/files/uploads");
    let _ = browser.find_element(".entries [name=file]");
    let foot = "const foot = document.querySelector('.entries-foot');
        return [foot.querySelector('[role=status]').textContent, foot.offsetHeight]";
    let foot_is = |text: &str, height_max: u64| {
        poll::wait_until(text, || {
            let found = browser.run_script(foot, &[]);
            (found[0] == text && found[1].as_u64().is_some_and(|height| height <= height_max)).then_some(())
        });
    };
    foot_is("3 entries", 80);
    browser.run_script("document.querySelector('[data-choose-all]').click()", &[]);
    foot_is("Chosen: 3", 140);
    browser.run_script("document.querySelector('[value=\"/uploads/b.txt\"]').click()", &[]);
    foot_is("Chosen: 2", 140);
    let is_partial = "const { checked, indeterminate } = document.querySelector('[data-choose-all]');
        return !checked && indeterminate";
    assert_eq!(browser.run_script(is_partial, &[]), true);

    browser.run_script(
        "const sort = document.getElementById('sort');
        sort.value = 'name-down';
        sort.dispatchEvent(new Event('change', { bubbles: true }))",
        &[],
    );
    let listed =
        "return [...document.querySelectorAll('.entries .name')].map(({ innerText }) => innerText.trim())";
    poll::wait_until("the chosen order is shown", || {
        (browser.run_script(listed, &[]) == serde_json::json!(["c.txt", "b.txt", "a.txt"])).then_some(())
    });
    foot_is("Chosen: 2", 140);
    assert_eq!(browser.run_script("return document.activeElement.id", &[]), "sort");
    assert_eq!(browser.run_script("return location.search", &[]), "?q=&sort=name-down");

    browser.click_element(&browser.find_element(".entries-foot [value=delete]"));
    browser.click_element(&browser.find_element("main.arrange .danger"));
    browser.wait_for_text("Deleted: 2");
    poll::wait_until("it is confirmed once", || {
        (browser.run_script("return location.search", &[]) == "").then_some(())
    });
    assert_eq!(list_names(&api, "/uploads"), ["b.txt"]);
    stage.assert_quiet();
}

#[test]
fn follow_up_form_sends_shown_choices() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    let browser = &stage.browser;
    stage.vendor.add_script([e2e::Say::from_text("The first.")]);
    let path = stage.ask_and_wait("One");
    stage.open_path(&path);
    browser.run_script("document.querySelector('.dock summary').focus()", &[]);
    browser.press_key(KeyboardKey::Enter);
    let _ = browser.find_element(".dock .choices[open]");
    browser.run_script("document.querySelector('.dock [name=web]').click()", &[]);
    let chosen = "return document.querySelector('[data-chosen]').textContent";
    poll::wait_until("the choice is said", || {
        browser
            .run_script(chosen, &[])
            .as_str()
            .is_some_and(|text| text.contains("Read pages of the web"))
            .then_some(())
    });
    stage.vendor.add_script([e2e::Say::from_text("The second.")]);
    browser.type_text(&browser.find_element(".dock textarea"), "Two");
    browser.press_key(KeyboardKey::Enter);
    browser.wait_for_text("The second.");
    browser.wait_for_text("Cost: ");
    stage.open_path(&path);
    let is_kept = "return document.querySelector('.dock [name=web]').checked";
    assert_eq!(browser.run_script(is_kept, &[]), true);
    browser.set_view(NARROW);
    stage.open_path(&path);
    browser.run_script("document.querySelector('.dock .choices').open = true", &[]);
    let fits = "const { width, height } = document.querySelector('.dock .choices').getBoundingClientRect();
        return document.documentElement.scrollWidth <= 320 && width <= 320 && height < window.innerHeight";
    assert_eq!(browser.run_script(fits, &[]), true);
    stage.assert_quiet();
}

#[test]
fn unlicensed_pages_are_accessible() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.browser.run_script_on_load(&read_axe_script());
    stage.vendor.add_script([e2e::Say::from_text("The first.")]);
    let path = stage.ask_and_wait("One");
    stage.service.run_admin_command(&[
        "licence",
        "set",
        "--account",
        &stage.account.email,
        "--until",
        "2020-01-01",
    ]);
    let mut findings = AccessibilityFindings::default();
    for view in VIEWS.into_iter().chain([NARROW]) {
        stage.browser.set_view(view);
        for page in ["/", &path, "/files/uploads", "/account"] {
            stage.open_path(page);
            findings.check_page(&stage, view, page);
        }
        stage.assert_quiet();
    }
    findings.assert_none();
}
