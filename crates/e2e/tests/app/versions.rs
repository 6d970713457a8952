//! Edited questions, answers that are tried again, and switching between versions.

use e2e::api::{builtin_reader_id, id_field};
use e2e::scripted_vendor::MODEL;
use e2e::{AnswerStream, Expect, Say, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

use crate::browser::{AppFixture, HttpBrowser, PageAssertions, find_attribute};
use crate::conversations::{ask_question, wait_for_completed_page};

/// Returns the answer of the exchange with this question.
fn find_answer(page: &str, question: &str) -> String {
    let section =
        page.split("<section class=\"exchange\"").skip(1).find(|section| section.contains(question));
    find_attribute(section.expect("the exchange"), "id=\"a-", "id").trim_start_matches("a-").to_owned()
}

/// Returns the questions that a page shows, in their order.
fn page_questions(page: &str) -> Vec<String> {
    let said = page.split("<p class=\"said\" dir=\"auto\">").skip(1);
    said.map(|rest| rest.split("</p>").next().unwrap_or_default().to_owned()).collect()
}

/// Returns the roles and texts of a conversation's messages, as the interface shows them.
fn message_texts(chat: &Value) -> Vec<String> {
    let messages = chat["messages"].as_array().expect("messages");
    messages.iter().map(|message| message["text"].as_str().expect("a text").to_owned()).collect()
}

/// Asks questions that are answered with `To` and the question.
fn ask_in_turn(stage: &AppFixture, browser: &HttpBrowser, texts: &[&str]) -> String {
    let mut path = String::new();
    for text in texts {
        stage.vendor.add_script([Say::from_text(&format!("To {text}"))]);
        if path.is_empty() {
            path = ask_question(browser, text);
        } else {
            browser.post_form(&format!("{path}/ask"), &[("input", text)]).expect_redirect(&path);
        }
        wait_for_completed_page(browser, &path);
    }
    path
}

#[test]
fn edited_question_keeps_both_versions() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    browser.upload_files("/uploads", &[("a b.txt", b"text")]).expect_redirect("/files/uploads");
    let path = ask_in_turn(&stage, &browser, &["One", "Two <b>", "Three"]);
    let chat = path.trim_start_matches("/c/").to_owned();
    let page = browser.get_page(&path).expect_page(200);
    assert!(!page.contains("/ 2"), "there is one version of each");
    let two = find_answer(&page, "Two &#60;b&#62;");
    let link = find_attribute(&page, &format!("?edit={two}"), "href");
    let form = browser.get_page(link.split('#').next().expect("a path")).expect_page(200);
    assert!(form.contains(">Two &#60;b&#62;</textarea>"), "{form}");
    let once = find_attribute(&form, "name=\"once\"", "value");
    stage.vendor.add_script([Say::from_text("To the other two")]);
    let fields = [("input", "Two, edited"), ("once", once.as_str()), ("file", "/uploads/a b.txt")];
    let edit = format!("{path}/{two}/edit");
    browser.post_form(&edit, &fields).expect_redirect(&path);
    browser.post_form(&edit, &fields).expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    assert_eq!(page_questions(&page), ["One", "Two, edited"]);
    assert!(page.contains("2 / 2") && page.contains("To the other two"), "{page}");
    assert!(page.contains("href=\"/files/uploads/a%20b.txt?view\""), "{page}");
    // The model knows only the shown version.
    let request = stage.vendor.request_bodies().pop().expect("a request").to_string();
    assert!(request.contains("To One") && request.contains("Two, edited"), "{request}");
    assert!(!request.contains("Two <b>") && !request.contains("Three"), "{request}");
    // The interface shows one line, and the hidden answer is still collected.
    let shown = api.get_chat(&chat).expect_status(200).json();
    assert_eq!(message_texts(&shown), ["One", "To One", "Two, edited", "To the other two"]);
    assert_eq!(api.get_message(&chat, &two).expect_status(200).json()["text"], "To Two <b>");
    let export = browser.get_page(&format!("{path}/export.md")).text();
    assert!(export.contains("Two, edited") && !export.contains("Three"), "{export}");
    // Back to the first version, with its continuation.
    let back = browser.post_form(&format!("{path}/show"), &[("answer", &two)]);
    back.expect_redirect(&format!("{path}#e-{two}"));
    let page = browser.get_page(&path).expect_page(200);
    assert_eq!(page_questions(&page), ["One", "Two &#60;b&#62;", "Three"]);
    assert!(page.contains("1 / 2"), "{page}");
    let shown = api.get_chat(&chat).json();
    assert_eq!(message_texts(&shown)[4..], ["Three", "To Three"]);
    // A search finds both.
    for word in ["edited", "three"] {
        let found = browser.get_page(&format!("/history?q={word}")).expect_page(200);
        assert!(found.contains(&format!("href=\"{path}\"")), "{word}");
    }
}

#[test]
fn retried_answer_keeps_new_model() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let path = ask_in_turn(&stage, &browser, &["What is the rent?"]);
    let chat = path.trim_start_matches("/c/").to_owned();
    let first = find_answer(&browser.get_page(&path).expect_page(200), "What is the rent?");
    let form = browser.get_page(&format!("{path}?retry={first}")).expect_page(200);
    assert!(form.contains(&format!("<option value=\"{MODEL}\" selected>")), "{form}");
    let other = builtin_reader_id(&api);
    let retry = format!("{path}/{first}/retry");
    browser.post_form(&retry, &[("model", &other)]).expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    assert_eq!(page_questions(&page), ["What is the rent?"]);
    assert!(page.contains("2 / 2"), "{page}");
    let second = find_answer(&page, "What is the rent?");
    assert_eq!(api.get_chat(&chat).json()["chat"]["model"], other.as_str());
    assert_eq!(api.get_message(&chat, &second).json()["model"], other.as_str());
    assert_eq!(api.get_message(&chat, &first).json()["model"], MODEL, "who answered stays as it was");
    // The interface continues the shown version.
    api.wait_for_completion(&api.expect_accepted(&json!({ "input": "And when?", "chatId": chat })));
    let page = browser.get_page(&path).expect_page(200);
    assert_eq!(page_questions(&page), ["What is the rent?", "And when?"]);
    browser.post_form(&format!("{path}/show"), &[("answer", &first)]);
    assert_eq!(api.get_chat(&chat).json()["chat"]["model"], MODEL, "each branch has its model");
    stage.vendor.add_script([Say::from_text("A third answer")]);
    browser.post_form(&retry, &[]).expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    assert!(page.contains("3 / 3") && page.contains("A third answer"), "{page}");
    let refused = browser.post_form(&retry, &[("model", "<no-such>")]).expect_page(400);
    assert!(refused.contains("role=\"alert\"") && !refused.contains("<no-such>"), "{refused}");
    let blank = browser.post_form(&format!("{path}/{first}/edit"), &[("input", " ")]).expect_page(400);
    assert!(blank.contains("role=\"alert\""), "{blank}");
}

#[test]
fn branch_is_fixed_while_answering() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let path = ask_in_turn(&stage, &browser, &["One"]);
    let first = find_answer(&browser.get_page(&path).expect_page(200), "One");
    stage.vendor.add_script([Say::from_text("Half"), Say::Hold]);
    browser.post_form(&format!("{path}/{first}/retry"), &[]).expect_redirect(&path);
    stage.vendor.wait_for_holds(1);
    for (action, fields) in [
        ("show".to_owned(), vec![("answer", first.as_str())]),
        (format!("{first}/retry"), vec![]),
        (format!("{first}/edit"), vec![("input", "Other <words>")]),
    ] {
        let busy = browser.post_form(&format!("{path}/{action}"), &fields).expect_page(409);
        assert!(busy.contains("still being answered"), "{action}: {busy}");
    }
    assert_eq!(page_questions(&browser.get_page(&path).expect_page(200)), ["One"]);
    browser.post_form(&format!("{path}/stop"), &[]).expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    assert!(page.contains("2 / 2") && page.contains("Stopped."), "{page}");
    browser
        .post_form(&format!("{path}/show"), &[("answer", &first)])
        .expect_redirect(&format!("{path}#e-{first}"));
}

#[test]
fn version_page_and_stream_follow_branch() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let path = ask_in_turn(&stage, &browser, &["One", "Two"]);
    let chat = path.trim_start_matches("/c/").to_owned();
    let stale = browser.get_page(&path).expect_page(200);
    let after = find_attribute(&stale, "name=\"after\"", "value");
    let two = find_answer(&stale, "Two");
    let mut events = AnswerStream::new(api.chat_events(&chat, None));
    assert_eq!(events.next_event().expect("its state").text(), "To Two");
    stage.vendor.add_script([Say::from_text("To two again")]);
    browser.post_form(&format!("{path}/{two}/retry"), &[]).expect_redirect(&path);
    wait_for_completed_page(&browser, &path);
    events.find_event("the new version", |event| event.name == "completed" && event.text() == "To two again");
    browser.post_form(&format!("{path}/show"), &[("answer", &two)]);
    events.find_event("the version before", |event| event.name == "completed" && event.text() == "To Two");
    let again = find_answer(&stale, "Two");
    assert_eq!(again, after);
    // From a page that shows the first version while the other is shown elsewhere.
    stage.vendor.add_script([Say::from_text("To Three")]);
    browser
        .post_form(&format!("{path}/ask"), &[("input", "Three"), ("after", &after)])
        .expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    assert!(page.contains("1 / 2") && page.contains("To Three"), "{page}");
    events.find_event("the next answer", |event| event.name == "completed" && event.text() == "To Three");
    assert_eq!(id_field(&api.get_chat(&chat).json()["chat"], "chatId"), chat);
}

#[test]
fn nobody_reaches_the_versions_of_others() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let path = ask_in_turn(&stage, &browser, &["One"]);
    let first = find_answer(&browser.get_page(&path).expect_page(200), "One");
    let other = crate::browser::account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.sign_in(&other.email, crate::browser::PASSWORD).expect_redirect("/");
    stranger.get_page(&format!("{path}?edit={first}")).expect_page(404);
    stranger.post_form(&format!("{path}/show"), &[("answer", &first)]).expect_page(404);
    stranger.post_form(&format!("{path}/{first}/retry"), &[]).expect_page(404);
    stranger.post_form(&format!("{path}/{first}/edit"), &[("input", "Mine?")]).expect_page(404);
    browser.post_form(&format!("{path}/show"), &[("answer", "none")]).expect_page(404);
    let unknown = "01900000-0000-7000-8000-000000000000";
    browser.post_form(&format!("{path}/{unknown}/retry"), &[]).expect_page(404);
}

#[test]
fn versions_survive_kill_and_backup() {
    let mut stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let path = ask_in_turn(&stage, &browser, &["One", "Two"]);
    let first = find_answer(&browser.get_page(&path).expect_page(200), "One");
    stage.vendor.add_script([Say::from_text("Half"), Say::Hold]);
    browser.post_form(&format!("{path}/{first}/edit"), &[("input", "One, edited")]).expect_redirect(&path);
    stage.vendor.wait_for_holds(1);
    stage.vendor.add_script([Say::from_text("The whole answer")]);
    stage.service.kill();
    stage.service.restart();
    let browser = HttpBrowser::new(&stage.service);
    browser.sign_in(&stage.account.email, crate::browser::PASSWORD).expect_redirect("/");
    let page = wait_for_completed_page(&browser, &path);
    assert_eq!(page_questions(&page), ["One, edited"]);
    assert!(page.contains("The whole answer") && page.contains("2 / 2"), "{page}");
    let settled = || (stage.service.show_credits(&stage.account).1 == 0).then_some(());
    poll::wait_until("nothing is reserved", settled);
    let archive = stage.service.data_folder().with_file_name("backup.tar.zst");
    let archive = archive.to_str().expect("a path");
    stage.service.run_admin_command(&["backup", archive]);
    let options =
        ServiceOptions { environment: stage.vendor.service_environment(), ..ServiceOptions::default() };
    let restored =
        TestService::start_on(options, |service| drop(service.run_admin_command(&["restore", archive])));
    let browser = HttpBrowser::new(&restored);
    browser.sign_in(&stage.account.email, crate::browser::PASSWORD).expect_redirect("/");
    browser
        .post_form(&format!("{path}/show"), &[("answer", &first)])
        .expect_redirect(&format!("{path}#e-{first}"));
    assert_eq!(page_questions(&browser.get_page(&path).expect_page(200)), ["One", "Two"]);
}

#[test]
fn title_follows_first_question_until_renamed() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let path = ask_in_turn(&stage, &browser, &["What is the rnet?", "And the deposit?"]);
    let title = |page: &str| {
        page.split("<h1 dir=\"auto\">").nth(1).and_then(|rest| rest.split('<').next()).map(str::to_owned)
    };
    let page = browser.get_page(&path).expect_page(200);
    assert_eq!(title(&page).as_deref(), Some("What is the rnet?"));
    let (first, second) = (find_answer(&page, "What is the rnet?"), find_answer(&page, "And the deposit?"));
    let edited = |answer: &str, text: &str| {
        stage.vendor.add_script([Say::from_text(&format!("To {text}"))]);
        browser.post_form(&format!("{path}/{answer}/edit"), &[("input", text)]).expect_redirect(&path);
        wait_for_completed_page(&browser, &path)
    };
    assert_eq!(title(&edited(&second, "And its interest?")).as_deref(), Some("What is the rnet?"));
    let page = edited(&first, "What is the rent?");
    assert_eq!(title(&page).as_deref(), Some("What is the rent?"));
    assert!(
        browser.get_page("/history?q=rnet").expect_page(200).contains(&path),
        "the other version is found"
    );
    // It follows the shown version.
    browser.post_form(&format!("{path}/show"), &[("answer", &first)]);
    assert_eq!(title(&browser.get_page(&path).expect_page(200)).as_deref(), Some("What is the rnet?"));
    browser.post_form(&format!("{path}/change"), &[("title", "My flat")]).expect_redirect(&path);
    let page = edited(&first, "What is the rent of the flat?");
    assert_eq!(title(&page).as_deref(), Some("My flat"));
}
