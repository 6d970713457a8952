//! Every page in every view against the rules of axe-core, and within the width of the window.

use std::collections::BTreeMap;
use std::path::PathBuf;

use e2e::crawl::crawl_pages;
use e2e::{Say, View, WebDriver};
use serde_json::{Value, json};

use crate::stage::{BrowserFixture, VIEWS, desktop_view};

/// Every element of Markdown, so that its styles are checked.
const PROSE: &str = "# Heading\n\nText with **strong**, *emphasis*, `code` and a [link](https://example.org).\n\n\
    - one\n- two\n\n1. first\n2. second\n\n> A quotation.\n\n```rust\nlet a_long_line = \"of code that is wider than \
    the column of a phone, so that it scrolls by itself\";\n```\n\n| column | another |\n|---|---|\n| cell | cell |\n\n---\n\n\
    A formula \\(a_1^2\\) and\n\n\\[ x_{1,2} = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a} + \\underbrace{a + b + c + d + e + f + g + h}_{\\text{a long sum}} + i + j \\]\n\n\
    <details>\n<summary>More</summary>\n\nH<sub>2</sub>O\n\n</details>\n\nזוהי פסקה בעברית.\n\n![A picture](/uploads/plan.png)\n\nEnd.";

/// Returns axe-core, which `make tools` fetches.
pub(crate) fn read_axe_script() -> String {
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    std::fs::read_to_string(folder.join("axe/axe.min.js")).expect("axe-core: `make tools` fetches it")
}

/// Returns the violations of the page that is open: rule, and the elements.
fn find_violations(browser: &WebDriver) -> Vec<String> {
    let options = json!({ "resultTypes": ["violations"], "rules": { "target-size": { "enabled": true } } });
    let found =
        browser.run_async_script("return (await axe.run(document, arguments[0])).violations", &[options]);
    let found = found.as_array().expect("violations").clone();
    let described = |violation: &Value| {
        let places = violation["nodes"].as_array().into_iter().flatten();
        let places = places.map(|node| format!("{} {}", node["html"], node["any"][0]["message"]));
        format!("{}: {}", violation["id"], places.collect::<Vec<_>>().join("\n    "))
    };
    found.iter().map(described).collect()
}

/// Violations of the rules, with the first view of each.
#[derive(Default)]
pub(crate) struct AccessibilityFindings(BTreeMap<String, String>);

impl AccessibilityFindings {
    /// Checks the open page for the requirements of every page.
    pub(crate) fn check_page(&mut self, stage: &BrowserFixture, view: View, name: &str) {
        let mut found = find_violations(&stage.browser);
        let wide = stage.browser.run_script("return document.documentElement.scrollWidth", &[]);
        if wide.as_u64() > Some(u64::from(view.width)) {
            found.push(format!("{name} is {wide} wide"));
        }
        let language = stage.browser.run_script("return document.documentElement.lang", &[]);
        if language != view.language {
            found.push(format!("{name} is in {language}"));
        }
        for violation in found {
            self.0.entry(violation).or_insert_with(|| format!("{name} in {view:?}"));
        }
    }

    pub(crate) fn assert_none(&self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}

/// Writes an answer with every kind of part and returns the path of its conversation.
fn rich_conversation(stage: &BrowserFixture) -> String {
    let api = stage.service.api_for(&stage.account);
    assert_eq!(
        api.upload_file("lease.txt", b"The rent of flat 7 is due on the fifth of each month.\n").status,
        201
    );
    assert_eq!(api.upload_file("plan.png", b"no picture").status, 201);
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "rent flat 7 due" }) };
    let failing = Say::Call { tool: "no-such-tool".to_owned(), arguments: json!({}) };
    stage.vendor.add_script([Say::Reasoning("I look it **up**.".to_owned()), search, failing]);
    stage.vendor.add_script([Say::from_text(&format!("It is due on the fifth [1].\n\n{PROSE}"))]);
    let question = json!({ "input": "When is the rent due?", "filePaths": ["/uploads/lease.txt"] });
    let answer = api.wait_for_completion(&api.expect_accepted(&question));
    format!("/c/{}", answer["chatId"].as_str().expect("an id"))
}

/// Makes a conversation with two versions, and returns its pages with the question being edited and being asked again.
fn conversation_with_versions(stage: &BrowserFixture) -> (String, String) {
    let path = stage.ask_and_wait("What is it?");
    let answer = |nth: usize| {
        stage.open_path(&path);
        let id = format!("return document.querySelectorAll('.answer')[{nth}].id.slice(2)");
        stage.browser.run_script(&id, &[]).as_str().expect("an id").to_owned()
    };
    let first = answer(0);
    stage.browser.click_element(&stage.browser.find_element(".versions button.link"));
    stage.browser.wait_for_text("2 / 2");
    let _ = stage.browser.find_element(".conversation[data-state=idle]");
    let second = answer(0);
    assert_ne!(first, second);
    (format!("{path}?edit={second}"), format!("{path}?retry={second}"))
}

/// Returns a page of the application, as the browser gets it.
fn fetch_page(stage: &BrowserFixture, path: &str) -> Option<String> {
    // The reference of the interface has its own test.
    if path.starts_with("/docs") {
        return None;
    }
    let script = "const got = await fetch(arguments[0]); \
        return (got.headers.get('content-type') || '').startsWith('text/html') ? await got.text() : null";
    stage.browser.run_async_script(script, &[json!(path)]).as_str().map(str::to_owned)
}

#[test]
fn pages_for_everybody_keep_the_rules() {
    let stage = BrowserFixture::new(desktop_view(false, "en"));
    stage.browser.run_script_on_load(&read_axe_script());
    let mut findings = AccessibilityFindings::default();
    for view in VIEWS {
        stage.browser.set_view(view);
        stage.open_path("/sign-in");
        findings.check_page(&stage, view, "signing in");
        stage.assert_quiet();
        stage.open_path("/design");
        findings.check_page(&stage, view, "the design page");
        stage.assert_quiet();
    }
    findings.assert_none();
}

#[test]
fn pages_of_owners_keep_the_rules() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.browser.run_script_on_load(&read_axe_script());
    let conversation = rich_conversation(&stage);
    let (edited, retried) = conversation_with_versions(&stage);
    stage.service.run_admin_command(&[
        "account",
        "set-role",
        "--account",
        &stage.account.email,
        "--role",
        "operator",
    ]);
    let account = format!("/operator/accounts/{}", stage.account.id);
    // The first page of a kind is the one that is checked: the conversation with all parts.
    let pages =
        crawl_pages(&[&conversation, &edited, &retried, &account, "/"], |path| fetch_page(&stage, path));
    assert!(pages.len() > 15 && pages.iter().any(|path| path == "/operator/audit"), "{pages:?}");
    let mut findings = AccessibilityFindings::default();
    for view in VIEWS {
        stage.browser.set_view(view);
        for path in &pages {
            stage.open_path(path);
            open_sections(&stage);
            findings.check_page(&stage, view, path);
        }
        stage.assert_quiet();
        stage.open_path("/c/none");
        findings.check_page(&stage, view, "an error");
        // The browser reports the status of the page in its console.
        let complaints = stage.browser.take_console_messages();
        assert!(complaints.iter().all(|text| text.contains("404")), "{complaints:?}");
    }
    findings.assert_none();
}

#[test]
fn citation_cards_and_documents_are_accessible() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.browser.run_script_on_load(&read_axe_script());
    let conversation = crate::citations::ask_with_citations(&stage);
    let api = stage.service.api_for(&stage.account);
    assert_eq!(api.upload_file("notes.eml", b"Subject: x\0y\n\nThe rent is due.\n").status, 201);
    let mut findings = AccessibilityFindings::default();
    for view in VIEWS {
        stage.browser.set_view(view);
        stage.open_path(&conversation);
        stage.browser.run_script(
            "document.querySelector('.prose a[data-citation]').focus({ focusVisible: true })",
            &[],
        );
        let _ = stage.browser.find_element("#card:popover-open .card-foot");
        findings.check_page(&stage, view, "the card of a citation");
        let href = stage
            .browser
            .run_script("return document.querySelector('[data-citation]').getAttribute('href')", &[]);
        for path in [href.as_str().expect("an address"), "/files/uploads/notes.eml?view"] {
            stage.open_path(path);
            open_sections(&stage);
            findings.check_page(&stage, view, "a document");
        }
        stage.assert_quiet();
    }
    findings.assert_none();
}

#[test]
fn key_and_progress_pages_are_accessible() {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "en"));
    stage.browser.run_script_on_load(&read_axe_script());
    stage.vendor.add_script([Say::from_text("Half of it"), Say::Hold]);
    let open = stage.service.api_for(&stage.account).ask_question("Never finish");
    let open = format!("/c/{}", open["chatId"].as_str().expect("an id"));
    stage.vendor.wait_for_holds(1);
    let mut findings = AccessibilityFindings::default();
    for view in VIEWS {
        stage.browser.set_view(view);
        stage.open_path(&open);
        stage.browser.wait_for_text("Half of it");
        findings.check_page(&stage, view, "an answer in progress");
        stage.open_path("/keys");
        open_sections(&stage);
        findings.check_page(&stage, view, "keys");
        stage.browser.type_text(&stage.browser.find_element("[name=name]"), "A key");
        stage.browser.click_element(&stage.browser.find_element("form.fields .primary"));
        let _ = stage.browser.find_element("#secret");
        findings.check_page(&stage, view, "a new key");
        stage.assert_quiet();
    }
    findings.assert_none();
}

/// Opens folded parts, so that they are checked, too.
fn open_sections(stage: &BrowserFixture) {
    stage.browser.run_script(
        "document.querySelectorAll('main details:not(.more)').forEach((it) => { it.open = true; })",
        &[],
    );
}
