//! Asking, growing answers, citations, stopping, further questions.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use e2e::api::id_field;
use e2e::{Say, poll};
use serde_json::{Value, json};

use crate::browser::{AppFixture, HttpBrowser, PageAssertions, account_with_password, find_attribute};

/// The time within which the stream of a session that has ended must end, on a busy host.
const ENDED_WITHIN: Duration = Duration::from_secs(5 + 20);
/// More exchanges than a page shows.
const MANY: usize = 42;

/// Asks a question and returns the path of its conversation.
pub(crate) fn ask_question(browser: &HttpBrowser, question: &str) -> String {
    let asked = browser.post_form("/ask", &[("input", question)]);
    assert_eq!(asked.status, 303, "{}", asked.text());
    let path = asked.header("location").expect("a conversation").to_owned();
    assert!(path.starts_with("/c/"), "{path}");
    path
}

/// Waits until the answers of a conversation are completed, and returns its page.
pub(crate) fn wait_for_completed_page(browser: &HttpBrowser, path: &str) -> String {
    poll::wait_until("the answer is completed", || {
        let page = browser.get_page(path).expect_page(200);
        page.contains("data-state=\"idle\"").then_some(page)
    })
}

/// Reads events until `wanted` accepts one.
pub(crate) fn read_event_until(
    lines: &mut impl BufRead,
    mut wanted: impl FnMut(&str, &str) -> bool,
) -> String {
    let mut name = String::new();
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).expect("a line") > 0, "the stream ended");
        if let Some(word) = line.strip_prefix("event: ") {
            name = word.trim_end().to_owned();
        }
        if let Some(data) = line.strip_prefix("data: ") {
            let data: Value = serde_json::from_str(data).expect("JSON");
            let html = data["html"].as_str().expect("HTML").to_owned();
            if wanted(&name, &html) {
                return html;
            }
        }
    }
}

#[test]
fn answer_grows_with_and_without_script() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let long = "A long paragraph. ".repeat(20);
    stage.vendor.add_script([
        Say::from_text(&format!("{long}\n\n**One**")),
        Say::Hold,
        Say::from_text(" two"),
    ]);
    let path = ask_question(&browser, "Count to two");
    stage.vendor.wait_for_holds(1);
    let page = browser.get_page(&path).expect_page(200);
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\""), "{page}");
    assert!(page.contains("Count to two") && page.contains("data-state=\"open\""), "{page}");
    let stream = browser.open_stream(&find_attribute(&page, "data-events", "data-events"));
    assert_eq!(stream.status, 200);
    let mut lines = BufReader::new(stream.into_body());
    let first =
        read_event_until(&mut lines, |name, html| name == "message" && html.contains("<strong>One</strong>"));
    assert!(first.contains("aria-busy=\"true\"") && first.contains("Working"), "{first}");
    assert!(first.contains("A long paragraph."), "the first event has all: {first}");
    stage.vendor.release_hold();
    let mut later = String::new();
    let last = read_event_until(&mut lines, |name, html| {
        later.push_str(html);
        name == "completed"
    });
    assert!(later.contains("<strong>One</strong> two") && !last.contains("data-events"), "{later}");
    assert!(!later.contains("A long paragraph."), "what the page has is not sent again: {later}");
    // Its cost is known at its end, and matches the ledger.
    assert!(!first.contains("class=\"cost\"") && !page.contains("class=\"cost\""), "{first}");
    let ledger = browser.get_page("/credits/ledger.csv").text();
    let settled = ledger.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let settled = settled.filter(|columns| columns[1] == "settle").map(|columns| columns[2].parse::<i64>());
    let cost: i64 = settled.map(|credits| credits.expect("a number").abs()).sum();
    let cost = if cost == 1 { "Cost: one credit".to_owned() } else { format!("Cost: {cost} credits") };
    let page = wait_for_completed_page(&browser, &path);
    for shown in [&last, &page] {
        assert!(shown.contains(&format!("<p class=\"cost\">{cost}</p>")), "{cost}: {shown}");
    }
    assert!(page.contains("<strong>One</strong> two") && page.contains("A long paragraph."), "{page}");
    assert!(!page.contains("http-equiv=\"refresh\""), "{page}");
}

#[test]
fn conversation_continues_and_is_listed() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    stage.vendor.add_script([Say::from_text("First answer.")]);
    stage.vendor.add_script([Say::from_text("Second answer.")]);
    let path = ask_question(&browser, "First question?\r\nOn two lines");
    let page = wait_for_completed_page(&browser, &path);
    assert!(page.contains("First question?\nOn two lines"), "line ends are normalized: {page}");
    browser.post_form(&format!("{path}/ask"), &[("input", "Second question?")]).expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    let order = ["First question?", "First answer.", "Second question?", "Second answer."];
    let main = page.split("<main").nth(1).expect("the content");
    let places: Vec<_> = order.iter().map(|text| main.rfind(text).expect("it is shown")).collect();
    assert!(places.is_sorted(), "{places:?}");
    let home = browser.get_page("/").expect_page(200);
    assert!(home.contains(&format!("href=\"{path}\"")), "{home}");
    browser.post_form(&format!("{path}/delete"), &[]).expect_redirect("/");
    browser.get_page(&path).expect_page(404);
    assert!(!browser.get_page("/").expect_page(200).contains(&path));
}

#[test]
fn long_conversation_page_starts_at_end() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let first = api.wait_for_completion(&api.ask_question("Question 0."));
    let chat = id_field(&first, "chatId");
    for number in 1..MANY {
        let question = json!({ "input": format!("Question {number}."), "chatId": chat });
        api.wait_for_completion(&api.expect_accepted(&question));
    }
    let asked =
        |page: &str| (0..MANY).filter(|n| page.contains(&format!(">Question {n}.</p>"))).collect::<Vec<_>>();
    let page = browser.get_page(&format!("/c/{chat}")).expect_page(200);
    assert_eq!(asked(&page), (2..MANY).collect::<Vec<_>>());
    let earlier = find_attribute(page.split("id=\"main\"").last().expect("content"), "?from=", "href");
    let page = browser.get_page(&earlier).expect_page(200);
    assert_eq!(asked(&page)[..3], [0, 1, 2]);
    let later = find_attribute(page.split("id=\"main\"").last().expect("content"), "?from=", "href");
    let rest = browser.get_page(&later).expect_page(200);
    let whole = [asked(&page), asked(&rest)].concat();
    assert_eq!(whole, (0..MANY).collect::<Vec<_>>(), "nothing is left out or shown twice");
}

#[test]
fn stopped_answer_keeps_its_text() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    stage.vendor.add_script([Say::from_text("Half of it"), Say::Hold, Say::from_text(" and the rest")]);
    let path = ask_question(&browser, "Tell me everything");
    stage.vendor.wait_for_holds(1);
    let busy = browser.post_form(&format!("{path}/ask"), &[("input", "And <another>?")]);
    let page = busy.expect_page(409);
    assert!(page.contains("still being answered") && page.contains("And &#60;another&#62;?"), "{page}");
    browser.post_form(&format!("{path}/stop"), &[]).expect_redirect(&path);
    let page = wait_for_completed_page(&browser, &path);
    assert!(page.contains("Half of it") && page.contains("Stopped."), "{page}");
    assert!(!page.contains("and the rest"), "{page}");
    stage.vendor.release_hold();
}

#[test]
fn repeated_ask_form_asks_once() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let once = find_attribute(&browser.get_page("/").expect_page(200), "name=\"once\"", "value");
    let send = |input| {
        let asked = browser.post_form("/ask", &[("input", input), ("once", &once)]);
        asked.header("location").expect("a conversation").to_owned()
    };
    let (first, again, other) = (send("Hello"), send("Hello"), send("Hello again"));
    assert_eq!(first, again);
    assert_ne!(first, other, "a corrected text is another question");
    wait_for_completed_page(&browser, &first);
    wait_for_completed_page(&browser, &other);
    // A form that was changed elsewhere does not lead to the previous question either.
    let jurisdiction =
        find_attribute(&browser.get_page("/").expect_page(200), "name=\"jurisdiction\"", "value");
    let mut seen = vec![first];
    for (name, value) in [("jurisdiction", jurisdiction.as_str()), ("file", "/uploads")] {
        let asked = browser.post_form("/ask", &[("input", "Hello"), ("once", &once), (name, value)]);
        let path = asked.header("location").expect("a conversation").to_owned();
        assert!(!seen.contains(&path), "{name}");
        wait_for_completed_page(&browser, &path);
        seen.push(path);
    }
}

#[test]
fn refused_question_shown_with_reason() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let blank = browser.post_form("/ask", &[("input", " \n ")]).expect_page(400);
    assert!(blank.contains("Write a question first."), "{blank}");
    let model = browser.post_form("/ask", &[("input", "Keep me"), ("model", "<no-such>")]).expect_page(400);
    assert!(model.contains("Keep me") && !model.contains("<no-such>"), "{model}");
    let deleted = "/c/0190c8a0-0000-7000-8000-000000000000/ask";
    let gone = browser.post_form(deleted, &[("input", "Keep me")]).expect_page(404);
    assert!(gone.contains("Keep me") && gone.contains("can begin a new one"), "{gone}");
    let poor = account_with_password(&stage.service);
    let machineless = HttpBrowser::new(&stage.service);
    machineless.sign_in(&poor.email, crate::browser::PASSWORD).expect_redirect("/");
    let large = browser.post_form("/ask", &[("input", &"x".repeat((1 << 20) + 1))]).expect_page(400);
    assert!(large.contains("role=\"alert\""));
    browser.post_form("/ask", &[("input", &"x".repeat(2 << 20))]).expect_page(413);
}

#[test]
fn citation_downloads_have_no_active_type() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let api = stage.service.api_for(&stage.account);
    let uploaded = api.upload_file("lease.js", b"The rent of flat 7 is due on the fifth of each month.\n");
    assert_eq!(uploaded.status, 201);
    let search = json!({ "query": "rent flat 7 due" });
    stage.vendor.add_script([Say::Call { tool: "search".to_owned(), arguments: search }]);
    stage.vendor.add_script([Say::from_text("It is due on the fifth [1].")]);
    let path = ask_question(&browser, "When is the rent due?");
    let page = wait_for_completed_page(&browser, &path);
    assert!(page.contains("Search the documents"), "{page}");
    assert!(page.contains("<a href=\"/files/uploads/lease.js?view&amp;cited="), "{page}");
    assert!(page.contains("<h3>Sources</h3>"), "{page}");
    let file = browser.get_page("/files/uploads/lease.js");
    assert_eq!((file.status, file.header("content-type")), (200, Some("application/octet-stream")));
    assert!(file.header("content-disposition").is_some_and(|shown| shown.starts_with("attachment")));
    assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
    assert!(file.text().contains("flat 7"));
    HttpBrowser::new(&stage.service)
        .get_page("/files/uploads/lease.js")
        .expect_redirect("/sign-in?next=/files/uploads/lease.js");
    browser.get_page("/files/uploads/none.txt").expect_page(404);
    browser.get_page("/files/../../etc/passwd").expect_page(403);
}

#[test]
fn a_stream_ends_with_its_session() {
    let stage = AppFixture::new();
    let (browser, other) = (stage.sign_in_browser(), stage.sign_in_browser());
    stage.vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let path = ask_question(&browser, "Never finish");
    stage.vendor.wait_for_holds(1);
    let events = find_attribute(&browser.get_page(&path).expect_page(200), "data-events", "data-events");
    let mut lines = BufReader::new(browser.open_stream(&events).into_body());
    read_event_until(&mut lines, |_, html| html.contains("Half"));
    browser.post_form("/sign-out", &[]).expect_redirect("/sign-in");
    let signed_out = Instant::now();
    // A comment comes every ten seconds, so that no read waits for long.
    while lines.read_line(&mut String::new()).expect("the stream ends whole") > 0 {
        assert!(signed_out.elapsed() < ENDED_WITHIN, "the stream goes on");
    }
    assert_eq!(browser.open_stream(&events).status, 401);
    assert_eq!(other.open_stream(&events).status, 200, "another session of the same user remains");
}
