//! Asking, growing answers, citations, stopping, further questions.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use conformance::api::id;
use conformance::{Say, poll};
use serde_json::{Value, json};

use crate::browser::{Browser, Page, Stage, account_with_password, attribute};

/// The time within which the stream of a session that has ended must end, on a busy host.
const ENDED_WITHIN: Duration = Duration::from_secs(5 + 20);
/// More exchanges than a page shows.
const MANY: usize = 42;

/// Asks a question and returns the path of its conversation.
pub(crate) fn ask(browser: &Browser, question: &str) -> String {
    let asked = browser.post("/ask", &[("input", question)]);
    assert_eq!(asked.status, 303, "{}", asked.text());
    let path = asked.header("location").expect("a conversation").to_owned();
    assert!(path.starts_with("/c/"), "{path}");
    path
}

/// Waits until the answers of a conversation are completed, and returns its page.
pub(crate) fn completed(browser: &Browser, path: &str) -> String {
    poll::until("the answer is completed", || {
        let page = browser.get(path).expect_page(200);
        page.contains("data-state=\"idle\"").then_some(page)
    })
}

/// Reads events up to the one that `wanted` accepts.
pub(crate) fn event(lines: &mut impl BufRead, mut wanted: impl FnMut(&str, &str) -> bool) -> String {
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
fn an_answer_grows_on_its_page_and_without_a_script_by_reloading() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let long = "A long paragraph. ".repeat(20);
    stage.vendor.will([Say::text(&format!("{long}\n\n**One**")), Say::Hold, Say::text(" two")]);
    let path = ask(&browser, "Count to two");
    stage.vendor.wait_held(1);
    let page = browser.get(&path).expect_page(200);
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\""), "{page}");
    assert!(page.contains("Count to two") && page.contains("data-state=\"open\""), "{page}");
    let stream = browser.open(&attribute(&page, "data-events", "data-events"));
    assert_eq!(stream.status, 200);
    let mut lines = BufReader::new(stream.into_body());
    let first = event(&mut lines, |name, html| name == "message" && html.contains("<strong>One</strong>"));
    assert!(first.contains("aria-busy=\"true\"") && first.contains("Working"), "{first}");
    assert!(first.contains("A long paragraph."), "the first event has all: {first}");
    stage.vendor.release();
    let mut later = String::new();
    let last = event(&mut lines, |name, html| {
        later.push_str(html);
        name == "completed"
    });
    assert!(later.contains("<strong>One</strong> two") && !last.contains("data-events"), "{later}");
    assert!(!later.contains("A long paragraph."), "what the page has is not sent again: {later}");
    // What it has cost is known at its end, and is what the ledger says.
    assert!(!first.contains("class=\"cost\"") && !page.contains("class=\"cost\""), "{first}");
    let ledger = browser.get("/credits/ledger.csv").text();
    let settled = ledger.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let settled = settled.filter(|columns| columns[1] == "settle").map(|columns| columns[2].parse::<i64>());
    let cost: i64 = settled.map(|credits| credits.expect("a number").abs()).sum();
    let cost = if cost == 1 { "Cost: one credit".to_owned() } else { format!("Cost: {cost} credits") };
    let page = completed(&browser, &path);
    for shown in [&last, &page] {
        assert!(shown.contains(&format!("<p class=\"cost\">{cost}</p>")), "{cost}: {shown}");
    }
    assert!(page.contains("<strong>One</strong> two") && page.contains("A long paragraph."), "{page}");
    assert!(!page.contains("http-equiv=\"refresh\""), "{page}");
}

#[test]
fn a_conversation_goes_on_with_further_questions_and_is_listed() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    stage.vendor.will([Say::text("First answer.")]);
    stage.vendor.will([Say::text("Second answer.")]);
    let path = ask(&browser, "First question?\r\nOn two lines");
    let page = completed(&browser, &path);
    assert!(page.contains("First question?\nOn two lines"), "line ends are those of texts: {page}");
    browser.post(&format!("{path}/ask"), &[("input", "Second question?")]).expect_redirect(&path);
    let page = completed(&browser, &path);
    let order = ["First question?", "First answer.", "Second question?", "Second answer."];
    let main = page.split("<main").nth(1).expect("the content");
    let places: Vec<_> = order.iter().map(|text| main.rfind(text).expect("it is shown")).collect();
    assert!(places.is_sorted(), "{places:?}");
    let home = browser.get("/").expect_page(200);
    assert!(home.contains(&format!("href=\"{path}\"")), "{home}");
    browser.post(&format!("{path}/delete"), &[]).expect_redirect("/");
    browser.get(&path).expect_page(404);
    assert!(!browser.get("/").expect_page(200).contains(&path));
}

#[test]
fn a_long_conversation_is_shown_from_its_end_and_leads_to_its_beginning() {
    let stage = Stage::new();
    let (browser, api) = (stage.signed_in(), stage.service.api(&stage.account));
    let first = api.completed(&api.ask("Question 0."));
    let chat = id(&first, "chatId");
    for number in 1..MANY {
        let question = json!({ "input": format!("Question {number}."), "chatId": chat });
        api.completed(&api.accepted(&question));
    }
    let asked =
        |page: &str| (0..MANY).filter(|n| page.contains(&format!(">Question {n}.</p>"))).collect::<Vec<_>>();
    let page = browser.get(&format!("/c/{chat}")).expect_page(200);
    assert_eq!(asked(&page), (2..MANY).collect::<Vec<_>>());
    let earlier = attribute(page.split("id=\"main\"").last().expect("content"), "?from=", "href");
    let page = browser.get(&earlier).expect_page(200);
    assert_eq!(asked(&page)[..3], [0, 1, 2]);
    let later = attribute(page.split("id=\"main\"").last().expect("content"), "?from=", "href");
    let rest = browser.get(&later).expect_page(200);
    let whole = [asked(&page), asked(&rest)].concat();
    assert_eq!(whole, (0..MANY).collect::<Vec<_>>(), "nothing is left out or shown twice");
}

#[test]
fn an_answer_is_stopped_and_what_was_written_stands() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    stage.vendor.will([Say::text("Half of it"), Say::Hold, Say::text(" and the rest")]);
    let path = ask(&browser, "Tell me everything");
    stage.vendor.wait_held(1);
    let busy = browser.post(&format!("{path}/ask"), &[("input", "And <another>?")]);
    let page = busy.expect_page(409);
    assert!(page.contains("still being answered") && page.contains("And &#60;another&#62;?"), "{page}");
    browser.post(&format!("{path}/stop"), &[]).expect_redirect(&path);
    let page = completed(&browser, &path);
    assert!(page.contains("Half of it") && page.contains("Stopped."), "{page}");
    assert!(!page.contains("and the rest"), "{page}");
    stage.vendor.release();
}

#[test]
fn a_form_that_is_sent_twice_asks_once() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let once = attribute(&browser.get("/").expect_page(200), "name=\"once\"", "value");
    let send = |input| {
        let asked = browser.post("/ask", &[("input", input), ("once", &once)]);
        asked.header("location").expect("a conversation").to_owned()
    };
    let (first, again, other) = (send("Hello"), send("Hello"), send("Hello again"));
    assert_eq!(first, again);
    assert_ne!(first, other, "a corrected text is another question");
    completed(&browser, &first);
    completed(&browser, &other);
    // Nor does a form that was changed elsewhere lead to the question before.
    let jurisdiction = attribute(&browser.get("/").expect_page(200), "name=\"jurisdiction\"", "value");
    let mut seen = vec![first];
    for (name, value) in [("jurisdiction", jurisdiction.as_str()), ("file", "/uploads")] {
        let asked = browser.post("/ask", &[("input", "Hello"), ("once", &once), (name, value)]);
        let path = asked.header("location").expect("a conversation").to_owned();
        assert!(!seen.contains(&path), "{name}");
        completed(&browser, &path);
        seen.push(path);
    }
}

#[test]
fn a_refused_question_is_shown_again_with_the_reason() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let blank = browser.post("/ask", &[("input", " \n ")]).expect_page(400);
    assert!(blank.contains("Write a question first."), "{blank}");
    let model = browser.post("/ask", &[("input", "Keep me"), ("model", "<no-such>")]).expect_page(400);
    assert!(model.contains("Keep me") && !model.contains("<no-such>"), "{model}");
    let deleted = "/c/0190c8a0-0000-7000-8000-000000000000/ask";
    let gone = browser.post(deleted, &[("input", "Keep me")]).expect_page(404);
    assert!(gone.contains("Keep me") && gone.contains("can begin a new one"), "{gone}");
    let poor = account_with_password(&stage.service);
    let machineless = Browser::new(&stage.service);
    machineless.sign_in(&poor.email, crate::browser::PASSWORD).expect_redirect("/");
    let large = browser.post("/ask", &[("input", &"x".repeat((1 << 20) + 1))]).expect_page(400);
    assert!(large.contains("role=\"alert\""));
    browser.post("/ask", &[("input", &"x".repeat(2 << 20))]).expect_page(413);
}

#[test]
fn citations_lead_to_files_that_download_without_a_type() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let api = stage.service.api(&stage.account);
    let uploaded = api.upload("lease.js", b"The rent of flat 7 is due on the fifth of each month.\n");
    assert_eq!(uploaded.status, 201);
    let search = json!({ "query": "rent flat 7 due" });
    stage.vendor.will([Say::Call { tool: "search".to_owned(), arguments: search }]);
    stage.vendor.will([Say::text("It is due on the fifth [1].")]);
    let path = ask(&browser, "When is the rent due?");
    let page = completed(&browser, &path);
    assert!(page.contains("Search the documents"), "{page}");
    assert!(page.contains("<a href=\"/files/uploads/lease.js?view&amp;cited="), "{page}");
    assert!(page.contains("<h3>Sources</h3>"), "{page}");
    let file = browser.get("/files/uploads/lease.js");
    assert_eq!((file.status, file.header("content-type")), (200, Some("application/octet-stream")));
    assert!(file.header("content-disposition").is_some_and(|shown| shown.starts_with("attachment")));
    assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
    assert!(file.text().contains("flat 7"));
    Browser::new(&stage.service)
        .get("/files/uploads/lease.js")
        .expect_redirect("/sign-in?next=/files/uploads/lease.js");
    browser.get("/files/uploads/none.txt").expect_page(404);
    browser.get("/files/../../etc/passwd").expect_page(403);
}

#[test]
fn a_stream_ends_with_its_session() {
    let stage = Stage::new();
    let (browser, other) = (stage.signed_in(), stage.signed_in());
    stage.vendor.will([Say::text("Half"), Say::Hold]);
    let path = ask(&browser, "Never finish");
    stage.vendor.wait_held(1);
    let events = attribute(&browser.get(&path).expect_page(200), "data-events", "data-events");
    let mut lines = BufReader::new(browser.open(&events).into_body());
    event(&mut lines, |_, html| html.contains("Half"));
    browser.post("/sign-out", &[]).expect_redirect("/sign-in");
    let signed_out = Instant::now();
    // A comment comes every ten seconds, so that no read waits for long.
    while lines.read_line(&mut String::new()).expect("the stream ends whole") > 0 {
        assert!(signed_out.elapsed() < ENDED_WITHIN, "the stream goes on");
    }
    assert_eq!(browser.open(&events).status, 401);
    assert_eq!(other.open(&events).status, 200, "another session of the same user remains");
}
