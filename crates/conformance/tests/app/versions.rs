//! Edited questions, answers that are tried again, and the way between versions.

use conformance::api::{id, reader};
use conformance::vendor::MODEL;
use conformance::{Events, Expect, Options, Say, Service, poll};
use serde_json::{Value, json};

use crate::browser::{Browser, Page, Stage, attribute};
use crate::conversations::{ask, completed};

/// Returns the answer of the exchange with this question.
fn answer_of(page: &str, question: &str) -> String {
    let section =
        page.split("<section class=\"exchange\"").skip(1).find(|section| section.contains(question));
    attribute(section.expect("the exchange"), "id=\"a-", "id").trim_start_matches("a-").to_owned()
}

/// Returns the questions that a page shows, in their order.
fn questions(page: &str) -> Vec<String> {
    let said = page.split("<p class=\"said\" dir=\"auto\">").skip(1);
    said.map(|rest| rest.split("</p>").next().unwrap_or_default().to_owned()).collect()
}

/// Returns the roles and texts of a conversation's messages, as the interface shows them.
fn messages(chat: &Value) -> Vec<String> {
    let messages = chat["messages"].as_array().expect("messages");
    messages.iter().map(|message| message["text"].as_str().expect("a text").to_owned()).collect()
}

/// Asks questions that are answered with `To` and the question.
fn talk(stage: &Stage, browser: &Browser, texts: &[&str]) -> String {
    let mut path = String::new();
    for text in texts {
        stage.vendor.will([Say::text(&format!("To {text}"))]);
        if path.is_empty() {
            path = ask(browser, text);
        } else {
            browser.post(&format!("{path}/ask"), &[("input", text)]).expect_redirect(&path);
        }
        completed(browser, &path);
    }
    path
}

#[test]
fn an_edited_question_is_another_version_and_both_are_kept() {
    let stage = Stage::new();
    let (browser, api) = (stage.signed_in(), stage.service.api(&stage.account));
    browser.upload("/uploads", &[("a b.txt", b"text")]).expect_redirect("/files/uploads");
    let path = talk(&stage, &browser, &["One", "Two <b>", "Three"]);
    let chat = path.trim_start_matches("/c/").to_owned();
    let page = browser.get(&path).expect_page(200);
    assert!(!page.contains("/ 2"), "there is one version of each");
    let two = answer_of(&page, "Two &#60;b&#62;");
    let link = attribute(&page, &format!("?edit={two}"), "href");
    let form = browser.get(link.split('#').next().expect("a path")).expect_page(200);
    assert!(form.contains(">Two &#60;b&#62;</textarea>"), "{form}");
    let once = attribute(&form, "name=\"once\"", "value");
    stage.vendor.will([Say::text("To the other two")]);
    let fields = [("input", "Two, edited"), ("once", once.as_str()), ("file", "/uploads/a b.txt")];
    let edit = format!("{path}/{two}/edit");
    browser.post(&edit, &fields).expect_redirect(&path);
    browser.post(&edit, &fields).expect_redirect(&path);
    let page = completed(&browser, &path);
    assert_eq!(questions(&page), ["One", "Two, edited"]);
    assert!(page.contains("2 / 2") && page.contains("To the other two"), "{page}");
    assert!(page.contains("href=\"/files/uploads/a%20b.txt?view\""), "{page}");
    // The model knows what is shown, and nothing else.
    let request = stage.vendor.requests().pop().expect("a request").to_string();
    assert!(request.contains("To One") && request.contains("Two, edited"), "{request}");
    assert!(!request.contains("Two <b>") && !request.contains("Three"), "{request}");
    // The interface shows one line, and the hidden answer is still collected.
    let shown = api.chat(&chat).expect_status(200).json();
    assert_eq!(messages(&shown), ["One", "To One", "Two, edited", "To the other two"]);
    assert_eq!(api.collect(&chat, &two).expect_status(200).json()["text"], "To Two <b>");
    let export = browser.get(&format!("{path}/export.md")).text();
    assert!(export.contains("Two, edited") && !export.contains("Three"), "{export}");
    // Back to the first version, with what followed it.
    let back = browser.post(&format!("{path}/show"), &[("answer", &two)]);
    back.expect_redirect(&format!("{path}#e-{two}"));
    let page = browser.get(&path).expect_page(200);
    assert_eq!(questions(&page), ["One", "Two &#60;b&#62;", "Three"]);
    assert!(page.contains("1 / 2"), "{page}");
    let shown = api.chat(&chat).json();
    assert_eq!(messages(&shown)[4..], ["Three", "To Three"]);
    // A search finds both.
    for word in ["edited", "three"] {
        let found = browser.get(&format!("/history?q={word}")).expect_page(200);
        assert!(found.contains(&format!("href=\"{path}\"")), "{word}");
    }
}

#[test]
fn an_answer_is_tried_again_with_another_model_which_goes_on() {
    let stage = Stage::new();
    let (browser, api) = (stage.signed_in(), stage.service.api(&stage.account));
    let path = talk(&stage, &browser, &["What is the rent?"]);
    let chat = path.trim_start_matches("/c/").to_owned();
    let first = answer_of(&browser.get(&path).expect_page(200), "What is the rent?");
    let form = browser.get(&format!("{path}?retry={first}")).expect_page(200);
    assert!(form.contains(&format!("<option value=\"{MODEL}\" selected>")), "{form}");
    let other = reader(&api);
    let retry = format!("{path}/{first}/retry");
    browser.post(&retry, &[("model", &other)]).expect_redirect(&path);
    let page = completed(&browser, &path);
    assert_eq!(questions(&page), ["What is the rent?"]);
    assert!(page.contains("2 / 2"), "{page}");
    let second = answer_of(&page, "What is the rent?");
    assert_eq!(api.chat(&chat).json()["chat"]["model"], other.as_str());
    assert_eq!(api.collect(&chat, &second).json()["model"], other.as_str());
    assert_eq!(api.collect(&chat, &first).json()["model"], MODEL, "who answered stays as it was");
    // The interface goes on with what is shown.
    api.completed(&api.accepted(&json!({ "input": "And when?", "chatId": chat })));
    let page = browser.get(&path).expect_page(200);
    assert_eq!(questions(&page), ["What is the rent?", "And when?"]);
    browser.post(&format!("{path}/show"), &[("answer", &first)]);
    assert_eq!(api.chat(&chat).json()["chat"]["model"], MODEL, "each branch has its model");
    stage.vendor.will([Say::text("A third answer")]);
    browser.post(&retry, &[]).expect_redirect(&path);
    let page = completed(&browser, &path);
    assert!(page.contains("3 / 3") && page.contains("A third answer"), "{page}");
    let refused = browser.post(&retry, &[("model", "<no-such>")]).expect_page(400);
    assert!(refused.contains("role=\"alert\"") && !refused.contains("<no-such>"), "{refused}");
    let blank = browser.post(&format!("{path}/{first}/edit"), &[("input", " ")]).expect_page(400);
    assert!(blank.contains("role=\"alert\""), "{blank}");
}

#[test]
fn a_conversation_that_is_being_answered_keeps_its_branch() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let path = talk(&stage, &browser, &["One"]);
    let first = answer_of(&browser.get(&path).expect_page(200), "One");
    stage.vendor.will([Say::text("Half"), Say::Hold]);
    browser.post(&format!("{path}/{first}/retry"), &[]).expect_redirect(&path);
    stage.vendor.wait_held(1);
    for (action, fields) in [
        ("show".to_owned(), vec![("answer", first.as_str())]),
        (format!("{first}/retry"), vec![]),
        (format!("{first}/edit"), vec![("input", "Other <words>")]),
    ] {
        let busy = browser.post(&format!("{path}/{action}"), &fields).expect_page(409);
        assert!(busy.contains("still being answered"), "{action}: {busy}");
    }
    assert_eq!(questions(&browser.get(&path).expect_page(200)), ["One"]);
    browser.post(&format!("{path}/stop"), &[]).expect_redirect(&path);
    let page = completed(&browser, &path);
    assert!(page.contains("2 / 2") && page.contains("Stopped."), "{page}");
    browser
        .post(&format!("{path}/show"), &[("answer", &first)])
        .expect_redirect(&format!("{path}#e-{first}"));
}

#[test]
fn a_page_goes_on_where_its_reader_is_and_streams_follow() {
    let stage = Stage::new();
    let (browser, api) = (stage.signed_in(), stage.service.api(&stage.account));
    let path = talk(&stage, &browser, &["One", "Two"]);
    let chat = path.trim_start_matches("/c/").to_owned();
    let stale = browser.get(&path).expect_page(200);
    let after = attribute(&stale, "name=\"after\"", "value");
    let two = answer_of(&stale, "Two");
    let mut events = Events::new(api.chat_events(&chat, None));
    assert_eq!(events.event().expect("its state").text(), "To Two");
    stage.vendor.will([Say::text("To two again")]);
    browser.post(&format!("{path}/{two}/retry"), &[]).expect_redirect(&path);
    completed(&browser, &path);
    events.find("the new version", |event| event.name == "completed" && event.text() == "To two again");
    browser.post(&format!("{path}/show"), &[("answer", &two)]);
    events.find("the version before", |event| event.name == "completed" && event.text() == "To Two");
    let again = answer_of(&stale, "Two");
    assert_eq!(again, after);
    // From a page that shows the first version while the other is shown elsewhere.
    stage.vendor.will([Say::text("To Three")]);
    browser.post(&format!("{path}/ask"), &[("input", "Three"), ("after", &after)]).expect_redirect(&path);
    let page = completed(&browser, &path);
    assert!(page.contains("1 / 2") && page.contains("To Three"), "{page}");
    events.find("the next answer", |event| event.name == "completed" && event.text() == "To Three");
    assert_eq!(id(&api.chat(&chat).json()["chat"], "chatId"), chat);
}

#[test]
fn nobody_reaches_the_versions_of_others() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let path = talk(&stage, &browser, &["One"]);
    let first = answer_of(&browser.get(&path).expect_page(200), "One");
    let other = crate::browser::account_with_password(&stage.service);
    let stranger = Browser::new(&stage.service);
    stranger.sign_in(&other.email, crate::browser::PASSWORD).expect_redirect("/");
    stranger.get(&format!("{path}?edit={first}")).expect_page(404);
    stranger.post(&format!("{path}/show"), &[("answer", &first)]).expect_page(404);
    stranger.post(&format!("{path}/{first}/retry"), &[]).expect_page(404);
    stranger.post(&format!("{path}/{first}/edit"), &[("input", "Mine?")]).expect_page(404);
    browser.post(&format!("{path}/show"), &[("answer", "none")]).expect_page(404);
    let unknown = "01900000-0000-7000-8000-000000000000";
    browser.post(&format!("{path}/{unknown}/retry"), &[]).expect_page(404);
}

#[test]
fn versions_survive_a_kill_and_a_backup_and_are_paid_for_once() {
    let mut stage = Stage::new();
    let browser = stage.signed_in();
    let path = talk(&stage, &browser, &["One", "Two"]);
    let first = answer_of(&browser.get(&path).expect_page(200), "One");
    stage.vendor.will([Say::text("Half"), Say::Hold]);
    browser.post(&format!("{path}/{first}/edit"), &[("input", "One, edited")]).expect_redirect(&path);
    stage.vendor.wait_held(1);
    stage.vendor.will([Say::text("The whole answer")]);
    stage.service.kill();
    stage.service.restart();
    let browser = Browser::new(&stage.service);
    browser.sign_in(&stage.account.email, crate::browser::PASSWORD).expect_redirect("/");
    let page = completed(&browser, &path);
    assert_eq!(questions(&page), ["One, edited"]);
    assert!(page.contains("The whole answer") && page.contains("2 / 2"), "{page}");
    let settled = || (stage.service.credits(&stage.account).1 == 0).then_some(());
    poll::until("nothing is reserved", settled);
    let archive = stage.service.data().with_file_name("backup.tar.zst");
    let archive = archive.to_str().expect("a path");
    stage.service.admin(&["backup", archive]);
    let options = Options { environment: stage.vendor.environment(), ..Options::default() };
    let restored = Service::start_on(options, |service| drop(service.admin(&["restore", archive])));
    let browser = Browser::new(&restored);
    browser.sign_in(&stage.account.email, crate::browser::PASSWORD).expect_redirect("/");
    browser
        .post(&format!("{path}/show"), &[("answer", &first)])
        .expect_redirect(&format!("{path}#e-{first}"));
    assert_eq!(questions(&browser.get(&path).expect_page(200)), ["One", "Two"]);
}

#[test]
fn a_title_follows_the_first_question_unless_its_owner_gave_it() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let path = talk(&stage, &browser, &["What is the rnet?", "And the deposit?"]);
    let title = |page: &str| {
        page.split("<h1 dir=\"auto\">").nth(1).and_then(|rest| rest.split('<').next()).map(str::to_owned)
    };
    let page = browser.get(&path).expect_page(200);
    assert_eq!(title(&page).as_deref(), Some("What is the rnet?"));
    let (first, second) = (answer_of(&page, "What is the rnet?"), answer_of(&page, "And the deposit?"));
    let edited = |answer: &str, text: &str| {
        stage.vendor.will([Say::text(&format!("To {text}"))]);
        browser.post(&format!("{path}/{answer}/edit"), &[("input", text)]).expect_redirect(&path);
        completed(&browser, &path)
    };
    assert_eq!(title(&edited(&second, "And its interest?")).as_deref(), Some("What is the rnet?"));
    let page = edited(&first, "What is the rent?");
    assert_eq!(title(&page).as_deref(), Some("What is the rent?"));
    assert!(browser.get("/history?q=rnet").expect_page(200).contains(&path), "the other version is found");
    // It follows the version that is shown.
    browser.post(&format!("{path}/show"), &[("answer", &first)]);
    assert_eq!(title(&browser.get(&path).expect_page(200)).as_deref(), Some("What is the rnet?"));
    browser.post(&format!("{path}/change"), &[("title", "My flat")]).expect_redirect(&path);
    let page = edited(&first, "What is the rent of the flat?");
    assert_eq!(title(&page).as_deref(), Some("My flat"));
}
