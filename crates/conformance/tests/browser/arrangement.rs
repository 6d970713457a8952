//! Files that are chosen and moved, the choices of a further question, and pages without a licence.

use conformance::api::names_in;
use conformance::{Key, View, poll};

use crate::accessibility::{Findings, axe};
use crate::stage::{Stage, VIEWS, desktop, phone};

/// A desktop at four times its size.
const NARROW: View = View { width: 320, ..phone(true, "cs") };

#[test]
fn chosen_files_are_moved_and_their_pages_keep_the_rules() {
    let stage = Stage::signed_in(desktop(false, "en"));
    let browser = &stage.browser;
    browser.run_first(&axe());
    let api = stage.service.api(&stage.account);
    for name in ["a long name of a lease, as amended on 12 March 2026, final.txt", "b.txt"] {
        assert_eq!(api.upload(name, b"The rent is due.").status, 201);
    }
    assert_eq!(api.create_folder("/Archive").status, 201);
    let choose = |action: &str| {
        stage.open("/files/uploads");
        let _ = browser.find(".entries [name=file]");
        browser.run("document.querySelectorAll('.entries [name=file]').forEach((box) => box.click())", &[]);
        browser.click(&browser.find(&format!(".entries-foot [value={action}]")));
        let _ = browser.find("main.arrange");
    };
    let mut findings = Findings::default();
    for view in VIEWS.into_iter().chain([NARROW]) {
        browser.look(view);
        for path in ["/files/uploads", "/files?q=txt&sort=size-down", "/files?q=none"] {
            stage.open(path);
            findings.look(&stage, view, path);
        }
        for action in ["move", "delete"] {
            choose(action);
            findings.look(&stage, view, action);
        }
    }
    findings.assert_none();

    browser.look(desktop(false, "en"));
    choose("move");
    let field = browser.find("[name=destination]");
    browser.run("document.activeElement.value = ''", &[]);
    browser.write(&field, "/Archive");
    browser.press(Key::Enter);
    poll::until("both are moved", || (names_in(&api, "/Archive").len() == 2).then_some(()));
    let _ = browser.find("main.files");
    assert!(names_in(&api, "/uploads").is_empty());
    stage.assert_quiet();
}

#[test]
fn a_further_question_says_what_is_chosen_and_sends_it() {
    let stage = Stage::signed_in(desktop(false, "en"));
    let browser = &stage.browser;
    stage.vendor.will([conformance::Say::text("The first.")]);
    let path = stage.answered("One");
    stage.open(&path);
    browser.run("document.querySelector('.dock summary').focus()", &[]);
    browser.press(Key::Enter);
    let _ = browser.find(".dock .choices[open]");
    browser.run("document.querySelector('.dock [name=web]').click()", &[]);
    let chosen = "return document.querySelector('[data-chosen]').textContent";
    poll::until("the choice is said", || {
        browser
            .run(chosen, &[])
            .as_str()
            .is_some_and(|text| text.contains("Read pages of the web"))
            .then_some(())
    });
    stage.vendor.will([conformance::Say::text("The second.")]);
    browser.write(&browser.find(".dock textarea"), "Two");
    browser.press(Key::Enter);
    browser.wait_text("The second.");
    browser.wait_text("Cost: ");
    stage.open(&path);
    let is_kept = "return document.querySelector('.dock [name=web]').checked";
    assert_eq!(browser.run(is_kept, &[]), true);
    browser.look(NARROW);
    stage.open(&path);
    browser.run("document.querySelector('.dock .choices').open = true", &[]);
    let fits = "const { width, height } = document.querySelector('.dock .choices').getBoundingClientRect();
        return document.documentElement.scrollWidth <= 320 && width <= 320 && height < window.innerHeight";
    assert_eq!(browser.run(fits, &[]), true);
    stage.assert_quiet();
}

#[test]
fn pages_without_a_licence_keep_the_rules_and_run_without_errors() {
    let stage = Stage::signed_in(desktop(false, "en"));
    stage.browser.run_first(&axe());
    stage.vendor.will([conformance::Say::text("The first.")]);
    let path = stage.answered("One");
    stage.service.admin(&["licence", "set", "--account", &stage.account.email, "--until", "2020-01-01"]);
    let mut findings = Findings::default();
    for view in VIEWS.into_iter().chain([NARROW]) {
        stage.browser.look(view);
        for page in ["/", &path, "/files/uploads", "/account"] {
            stage.open(page);
            findings.look(&stage, view, page);
        }
        stage.assert_quiet();
    }
    findings.assert_none();
}
