//! The further choices of a question, and the first question of a new key.

use std::process::Command;

use e2e::api::builtin_reader_id;
use e2e::scripted_vendor::MODEL;
use e2e::{Expect, Say};

use crate::browser::{AppFixture, PageAssertions, find_attribute};
use crate::conversations::{ask_question, wait_for_completed_page};

/// Returns the code of the example of a language, from the page of a new key.
fn example_code(page: &str, language: &str) -> String {
    let code = page
        .split_once(&format!("<summary>{language}</summary>"))
        .and_then(|(_, rest)| rest.split_once("<code")?.1.split_once('>')?.1.split_once("</code>"))
        .expect("an example")
        .0;
    let entities = [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")];
    entities.iter().fold(code.to_owned(), |code, (entity, letter)| code.replace(entity, letter))
}

#[test]
fn ask_form_choices_apply_and_persist() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let home = browser.get_page("/").expect_page(200);
    for offered in ["value=\"causerie:lawyer\"", "value=\"causerie:statute-lookup\"", "value=\"CZ\""] {
        assert!(home.contains(offered), "{offered}: {home}");
    }
    assert!(home.contains("Read pages of the web") && !home.contains("Search the web"), "no engine is set");
    let fields = [
        ("input", "May I give notice?"),
        ("agent", "causerie:lawyer"),
        ("skill", "causerie:statute-lookup"),
        ("jurisdiction", "CZ"),
    ];
    let refused = browser.post_form("/ask", &[&fields[1..], &[("input", " ")]].concat()).expect_page(400);
    assert!(refused.contains("<details class=\"choices\" open>"), "what was chosen is shown: {refused}");
    assert!(refused.contains("value=\"causerie:lawyer\" selected"), "{refused}");
    assert!(refused.contains("value=\"causerie:statute-lookup\" checked"), "{refused}");

    stage.vendor.add_script([Say::from_text("Yes.")]);
    let path = browser.post_form("/ask", &fields).header("location").expect("a conversation").to_owned();
    let page = wait_for_completed_page(&browser, &path);
    let chat = stage.service.api_for(&stage.account).get_chat(&path[3..]).expect_status(200).json();
    assert_eq!(chat["chat"]["jurisdictions"], serde_json::json!(["CZ"]));
    let prompt = |at: usize| stage.vendor.request_bodies()[at]["messages"][0].to_string();
    assert!(prompt(0).contains("You write for a lawyer"), "{}", prompt(0));

    // The page offers the same for the next question, with the last choices; unwanted ones can be removed.
    for kept in [
        "<option value=\"causerie:lawyer\" selected>",
        "value=\"causerie:statute-lookup\" checked",
        "value=\"CZ\" checked",
    ] {
        assert!(page.contains(kept), "{kept}: {page}");
    }
    let after = find_attribute(&page, "name=\"after\"", "value");
    for (agent, is_lawyer) in [("causerie:lawyer", true), ("", false)] {
        stage.vendor.add_script([Say::from_text("Within a month.")]);
        let asked = browser.post_form(
            &format!("{path}/ask"),
            &[("input", &format!("Until when, {agent}?")), ("agent", agent), ("after", &after)],
        );
        asked.expect_redirect(&path);
        wait_for_completed_page(&browser, &path);
        let last = stage.vendor.request_bodies().len() - 1;
        assert_eq!(prompt(last).contains("You write for a lawyer"), is_lawyer, "{agent}");
    }
    let page = browser.get_page(&path).expect_page(200);
    assert!(!page.contains("causerie:lawyer\" selected"), "the usual agent again: {page}");
    let chat = stage.service.api_for(&stage.account).get_chat(&path[3..]).expect_status(200).json();
    assert_eq!(
        chat["chat"]["jurisdictions"],
        serde_json::json!(["CZ"]),
        "a form without a model changes nothing"
    );
    let unknown = browser.post_form("/ask", &[("input", "x"), ("agent", "nobody:here")]);
    assert_eq!(unknown.status, 400, "{}", unknown.text());
}

#[test]
fn follow_up_changes_model_and_search() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let other = builtin_reader_id(&api);
    stage.vendor.add_script([Say::from_text("The first.")]);
    let path = ask_question(&browser, "One");
    let page = wait_for_completed_page(&browser, &path);
    let dock = |page: &str| page.split("<div class=\"dock\">").nth(1).expect("the dock").to_owned();
    assert!(dock(&page).contains(&format!("<option value=\"{MODEL}\" selected>")), "{page}");
    assert!(dock(&page).contains("name=\"web\" value=\"on\">"), "the web is not chosen: {page}");
    let ask_further = |fields: &[(&str, &str)]| {
        let after = find_attribute(&browser.get_page(&path).expect_page(200), "name=\"after\"", "value");
        browser.post_form(&format!("{path}/ask"), &[fields, &[("after", after.as_str())]].concat())
    };
    let chat = || api.get_chat(&path[3..]).expect_status(200).json();

    stage.vendor.add_script([Say::from_text("The second.")]);
    ask_further(&[("input", "Two"), ("model", MODEL), ("web", "on"), ("jurisdiction", "SK")])
        .expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    assert!(dock(&page).contains("name=\"web\" value=\"on\" checked"), "{page}");
    assert!(dock(&page).contains("value=\"SK\" checked"), "{page}");
    let tools = stage.vendor.request_bodies().pop().expect("a request")["tools"].to_string();
    assert!(tools.contains("web_fetch"), "{tools}");
    assert_eq!(chat()["chat"]["jurisdictions"], serde_json::json!(["SK"]));

    // Unchecked choices are removed.
    ask_further(&[("input", "Three"), ("model", &other)]).expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    assert!(dock(&page).contains(&format!("<option value=\"{other}\" selected>")), "{page}");
    assert!(
        dock(&page).contains("name=\"web\" value=\"on\">") && !dock(&page).contains("\"SK\" checked"),
        "{page}"
    );
    assert_eq!(chat()["chat"]["model"], other.as_str());

    // A refused question keeps its choices, and changes nothing.
    let refused = ask_further(&[("input", " "), ("model", MODEL), ("web", "on")]).expect_page(400);
    assert!(dock(&refused).contains(&format!("<option value=\"{MODEL}\" selected>")), "{refused}");
    assert!(dock(&refused).contains("name=\"web\" value=\"on\" checked"), "{refused}");
    assert_eq!(ask_further(&[("input", "Four"), ("model", "none-such")]).status, 400);
    assert_eq!(chat()["chat"]["model"], other.as_str());

    // The interface continues as it has been left.
    let continued =
        serde_json::json!({ "input": "Five", "chatId": &path[3..], "model": MODEL, "webSearch": true });
    api.wait_for_completion(&api.expect_accepted(&continued));
    assert_eq!(chat()["chat"]["model"], other.as_str());
}

#[test]
fn key_page_examples_ask_first_question() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let page =
        browser.post_form("/keys", &[("name", "First"), ("read", "on"), ("ask", "on")]).expect_page(200);
    for (language, program, arguments) in [
        ("curl", "sh", ["-ec"].as_slice()),
        ("Python", "python3", &["-c"]),
        ("TypeScript", "node", &["--input-type=module", "--eval"]),
    ] {
        stage.vendor.add_script([Say::from_text(&format!("Answered to {language}."))]);
        let output = Command::new(program)
            .args(arguments)
            .arg(example_code(&page, language))
            .env("no_proxy", "*")
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains(&format!("Answered to {language}.")),
            "{language}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let listed = browser.get_page("/keys").expect_page(200);
    assert!(!listed.contains("CAUSERIE_API_KEY"), "the key is shown once");
}
