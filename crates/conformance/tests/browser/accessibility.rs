//! Every page in every view against the rules of axe-core, and within the width of the window.

use std::collections::BTreeMap;
use std::path::PathBuf;

use conformance::{Say, View, WebDriver};
use serde_json::{Value, json};

use crate::stage::{Stage, VIEWS, desktop};

/// Everything that Markdown can be, so that its styles are looked at.
const PROSE: &str = "# Heading\n\nText with **strong**, *emphasis*, `code` and a [link](https://example.org).\n\n\
    - one\n- two\n\n1. first\n2. second\n\n> A quotation.\n\n```rust\nlet a_long_line = \"of code that is wider than \
    the column of a phone, so that it scrolls by itself\";\n```\n\n| column | another |\n|---|---|\n| cell | cell |\n\n---\n\n\
    A formula \\(a_1^2\\) and\n\n\\[ x_{1,2} = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a} + \\underbrace{a + b + c + d + e + f + g + h}_{\\text{a long sum}} + i + j \\]\n\n\
    <details>\n<summary>More</summary>\n\nH<sub>2</sub>O\n\n</details>\n\nזוהי פסקה בעברית.\n\n![A picture](/uploads/plan.png)\n\nEnd.";

/// Returns axe-core, which `make tools` fetches.
pub(crate) fn axe() -> String {
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    std::fs::read_to_string(folder.join("axe/axe.min.js")).expect("axe-core: `make tools` fetches it")
}

/// Returns the violations of the page that is open: rule, and the elements.
fn violations(browser: &WebDriver) -> Vec<String> {
    let options = json!({ "resultTypes": ["violations"], "rules": { "target-size": { "enabled": true } } });
    let found = browser.run_async("return (await axe.run(document, arguments[0])).violations", &[options]);
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
pub(crate) struct Findings(BTreeMap<String, String>);

impl Findings {
    /// Looks at the page that is open for what holds of every page.
    pub(crate) fn look(&mut self, stage: &Stage, view: View, name: &str) {
        let mut found = violations(&stage.browser);
        let wide = stage.browser.run("return document.documentElement.scrollWidth", &[]);
        if wide.as_u64() > Some(u64::from(view.width)) {
            found.push(format!("{name} is {wide} wide"));
        }
        let language = stage.browser.run("return document.documentElement.lang", &[]);
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
fn rich_conversation(stage: &Stage) -> String {
    let api = stage.service.api(&stage.account);
    assert_eq!(
        api.upload("lease.txt", b"The rent of flat 7 is due on the fifth of each month.\n").status,
        201
    );
    assert_eq!(api.upload("plan.png", b"no picture").status, 201);
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "rent flat 7 due" }) };
    let failing = Say::Call { tool: "no-such-tool".to_owned(), arguments: json!({}) };
    stage.vendor.will([Say::Reasoning("I look it **up**.".to_owned()), search, failing]);
    stage.vendor.will([Say::text(&format!("It is due on the fifth [1].\n\n{PROSE}"))]);
    let question = json!({ "input": "When is the rent due?", "filePaths": ["/uploads/lease.txt"] });
    let answer = api.completed(&api.accepted(&question));
    format!("/c/{}", answer["chatId"].as_str().expect("an id"))
}

/// Makes a conversation with two versions, and returns its pages with the question being edited and being asked again.
fn conversation_with_versions(stage: &Stage) -> (String, String) {
    let path = stage.answered("What is it?");
    let answer = |nth: usize| {
        stage.open(&path);
        let id = format!("return document.querySelectorAll('.answer')[{nth}].id.slice(2)");
        stage.browser.run(&id, &[]).as_str().expect("an id").to_owned()
    };
    let first = answer(0);
    stage.browser.click(&stage.browser.find(".versions button.link"));
    stage.browser.wait_text("2 / 2");
    let _ = stage.browser.find(".conversation[data-state=idle]");
    let second = answer(0);
    assert_ne!(first, second);
    (format!("{path}?edit={second}"), format!("{path}?retry={second}"))
}

#[test]
fn pages_for_everybody_keep_the_rules() {
    let stage = Stage::new(desktop(false, "en"));
    stage.browser.run_first(&axe());
    let mut findings = Findings::default();
    for view in VIEWS {
        stage.browser.look(view);
        stage.open("/sign-in");
        findings.look(&stage, view, "signing in");
        stage.assert_quiet();
        stage.open("/design");
        findings.look(&stage, view, "the design page");
        stage.assert_quiet();
    }
    findings.assert_none();
}

#[test]
fn pages_of_owners_keep_the_rules() {
    let stage = Stage::signed_in(desktop(false, "en"));
    stage.browser.run_first(&axe());
    let conversation = rich_conversation(&stage);
    let (edited, retried) = conversation_with_versions(&stage);
    stage.service.admin(&["account", "set-role", "--account", &stage.account.email, "--role", "operator"]);
    let account = format!("/operator/accounts/{}", stage.account.id);
    let mut findings = Findings::default();
    for view in VIEWS {
        stage.browser.look(view);
        for path in [
            "/",
            &conversation,
            &edited,
            &retried,
            "/history",
            "/files",
            "/machine",
            "/credits",
            "/credits/ledger",
            "/account",
            "/operator",
            &account,
            "/operator/audit",
            "/operator/plugins",
            "/operator/settings",
        ] {
            stage.open(path);
            open_sections(&stage);
            findings.look(&stage, view, path);
        }
        stage.assert_quiet();
        stage.open("/c/none");
        findings.look(&stage, view, "an error");
        // The browser reports the status of the page in its console.
        let complaints = stage.browser.console();
        assert!(complaints.iter().all(|text| text.contains("404")), "{complaints:?}");
    }
    findings.assert_none();
}

#[test]
fn cards_of_citations_and_documents_keep_the_rules() {
    let stage = Stage::signed_in(desktop(false, "en"));
    stage.browser.run_first(&axe());
    let conversation = crate::citations::cited(&stage);
    let api = stage.service.api(&stage.account);
    assert_eq!(api.upload("notes.eml", b"Subject: x\0y\n\nThe rent is due.\n").status, 201);
    let mut findings = Findings::default();
    for view in VIEWS {
        stage.browser.look(view);
        stage.open(&conversation);
        stage
            .browser
            .run("document.querySelector('.prose a[data-citation]').focus({ focusVisible: true })", &[]);
        let _ = stage.browser.find("#card:popover-open .card-foot");
        findings.look(&stage, view, "the card of a citation");
        let href =
            stage.browser.run("return document.querySelector('[data-citation]').getAttribute('href')", &[]);
        for path in [href.as_str().expect("an address"), "/files/uploads/notes.eml?view"] {
            stage.open(path);
            open_sections(&stage);
            findings.look(&stage, view, "a document");
        }
        stage.assert_quiet();
    }
    findings.assert_none();
}

#[test]
fn the_pages_of_keys_and_of_an_answer_in_progress_keep_the_rules() {
    let stage = Stage::signed_in(desktop(false, "en"));
    stage.browser.run_first(&axe());
    stage.vendor.will([Say::text("Half of it"), Say::Hold]);
    let open = stage.service.api(&stage.account).ask("Never finish");
    let open = format!("/c/{}", open["chatId"].as_str().expect("an id"));
    stage.vendor.wait_held(1);
    let mut findings = Findings::default();
    for view in VIEWS {
        stage.browser.look(view);
        stage.open(&open);
        stage.browser.wait_text("Half of it");
        findings.look(&stage, view, "an answer in progress");
        stage.open("/keys");
        open_sections(&stage);
        findings.look(&stage, view, "keys");
        stage.browser.write(&stage.browser.find("[name=name]"), "A key");
        stage.browser.click(&stage.browser.find("form.fields .primary"));
        let _ = stage.browser.find("#secret");
        findings.look(&stage, view, "a new key");
        stage.assert_quiet();
    }
    findings.assert_none();
}

/// Opens what is folded, so that it is looked at, too.
fn open_sections(stage: &Stage) {
    stage.browser.run(
        "document.querySelectorAll('main details:not(.more)').forEach((it) => { it.open = true; })",
        &[],
    );
}
