//! The further choices of a question, and the first question of a new key.

use std::process::Command;

use conformance::{Expect, Say};

use crate::browser::{Page, Stage, attribute};
use crate::conversations::completed;

/// Returns the code of the example of a language, from the page of a new key.
fn example(page: &str, language: &str) -> String {
    let code = page
        .split_once(&format!("<summary>{language}</summary>"))
        .and_then(|(_, rest)| rest.split_once("<code")?.1.split_once('>')?.1.split_once("</code>"))
        .expect("an example")
        .0;
    let entities = [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")];
    entities.iter().fold(code.to_owned(), |code, (entity, letter)| code.replace(entity, letter))
}

#[test]
fn a_question_has_what_its_form_chooses_and_the_next_one_too() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let home = browser.get("/").expect_page(200);
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
    let refused = browser.post("/ask", &[&fields[1..], &[("input", " ")]].concat()).expect_page(400);
    assert!(refused.contains("<details class=\"choices\" open>"), "what was chosen is shown: {refused}");
    assert!(refused.contains("value=\"causerie:lawyer\" selected"), "{refused}");
    assert!(refused.contains("value=\"causerie:statute-lookup\" checked"), "{refused}");

    stage.vendor.will([Say::text("Yes.")]);
    let path = browser.post("/ask", &fields).header("location").expect("a conversation").to_owned();
    let page = completed(&browser, &path);
    let chat = stage.service.api(&stage.account).chat(&path[3..]).expect_status(200).json();
    assert_eq!(chat["chat"]["jurisdictions"], serde_json::json!(["CZ"]));
    let prompt = |at: usize| stage.vendor.requests()[at]["messages"][0].to_string();
    assert!(prompt(0).contains("You write for a lawyer"), "{}", prompt(0));

    // The page offers both for the next question; a reader takes away what is not wanted.
    assert!(page.contains("name=\"agent\" value=\"causerie:lawyer\" checked"), "{page}");
    assert!(page.contains("name=\"skill\" value=\"causerie:statute-lookup\" checked"), "{page}");
    let after = attribute(&page, "name=\"after\"", "value");
    for (agent, is_lawyer) in [("causerie:lawyer", true), ("", false)] {
        stage.vendor.will([Say::text("Within a month.")]);
        let asked = browser.post(
            &format!("{path}/ask"),
            &[("input", &format!("Until when, {agent}?")), ("agent", agent), ("after", &after)],
        );
        asked.expect_redirect(&path);
        completed(&browser, &path);
        let last = stage.vendor.requests().len() - 1;
        assert_eq!(prompt(last).contains("You write for a lawyer"), is_lawyer, "{agent}");
    }
    assert!(!browser.get(&path).expect_page(200).contains("name=\"agent\""), "the usual agent again");
    let unknown = browser.post("/ask", &[("input", "x"), ("agent", "nobody:here")]);
    assert_eq!(unknown.status, 400, "{}", unknown.text());
}

#[test]
fn the_programs_beside_a_new_key_ask_the_first_question() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let page = browser.post("/keys", &[("name", "First"), ("read", "on"), ("ask", "on")]).expect_page(200);
    for (language, program, arguments) in [
        ("curl", "sh", ["-ec"].as_slice()),
        ("Python", "python3", &["-c"]),
        ("TypeScript", "node", &["--input-type=module", "--eval"]),
    ] {
        stage.vendor.will([Say::text(&format!("Answered to {language}."))]);
        let output = Command::new(program)
            .args(arguments)
            .arg(example(&page, language))
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
    let listed = browser.get("/keys").expect_page(200);
    assert!(!listed.contains("CAUSERIE_API_KEY"), "the key is shown once");
}
