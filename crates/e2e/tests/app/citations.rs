//! Citations: the card of a passage, and the page of its file at the passage.

use std::io::BufReader;

use e2e::Say;
use serde_json::json;

use crate::browser::{
    AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password, find_attribute,
};
use crate::conversations::{ask_question, read_event_until, wait_for_completed_page};
use crate::hostile::{PAYLOADS, assert_harmless};

const LEASE: &str = "Lease of flat 7\n\nThe rent is 14,500 crowns a month.\n";

/// Makes an answer read and cite a file, and returns the page of the answer.
fn ask_with_citation(stage: &AppFixture, browser: &HttpBrowser, name: &str, text: &str) -> String {
    let read = json!({ "path": format!("/uploads/{name}") });
    stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage.vendor.add_script([Say::from_text(text)]);
    let path = ask_question(browser, "What does it say?");
    wait_for_completed_page(browser, &path)
}

/// Returns the address of the first citation in the text.
fn citation_address(page: &str) -> String {
    find_attribute(page, "data-citation=\"c1\"", "href").replace("&amp;", "&").replace("&#38;", "&")
}

#[test]
fn citation_link_leads_to_passage() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    browser.upload_files("/uploads", &[("a lease.txt", LEASE.as_bytes())]).expect_redirect("/files/uploads");
    let page = ask_with_citation(&stage, &browser, "a lease.txt", "The rent is 14,500 crowns [1].");
    let href = citation_address(&page);
    assert!(
        href.starts_with("/files/uploads/a%20lease.txt?view&cited=") && href.ends_with(".1#cited"),
        "{href}"
    );
    let file = href.trim_end_matches("#cited");
    let shown = browser.get_page(file).expect_page(200);
    assert!(shown.contains("<mark id=\"cited\">Lease of flat 7\n\nThe rent is 14,500"), "{shown}");
    assert!(shown.contains("The passage supports the sentence.") && shown.contains("lines 1–3"), "{shown}");
    let back = find_attribute(&shown, "#a-", "href");
    assert!(page.contains(&format!("id=\"{}\"", back.split('#').nth(1).expect("a fragment"))), "{back}");
    let in_czech = browser.with_request_header("accept-language", "cs").get_page(file).expect_page(200);
    assert!(in_czech.contains("Úryvek větu dokládá."), "{in_czech}");

    // A file that has changed does not show the passage, so the page does.
    browser.upload_files("/uploads", &[("a lease.txt", b"Other words.\n")]).expect_redirect("/files/uploads");
    let changed = browser.get_page(file).expect_page(200);
    assert!(
        changed.contains("<blockquote dir=\"auto\">Lease of flat 7") && !changed.contains("<mark"),
        "{changed}"
    );
    assert_eq!(changed.matches("id=\"cited\"").count(), 1);
    assert!(changed.contains("The file has changed since the answer."), "{changed}");
    assert!(!shown.contains("has changed"), "{shown}");

    // The passage of a deleted file stays.
    browser.post_form("/workspace/delete", &[("path", "/uploads/a lease.txt")]);
    let gone = browser.get_page(file).expect_page(404);
    assert!(gone.contains("Lease of flat 7") && gone.contains("it was deleted or renamed"), "{gone}");
    assert_eq!(find_attribute(&gone, "#a-", "href"), back);
    browser.upload_files("/uploads", &[("a lease.txt", b"Other words.\n")]).expect_redirect("/files/uploads");

    // Nobody else learns of the passage, and citations without one are left out.
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    stranger.upload_files("/uploads", &[("a lease.txt", b"Mine.\n")]).expect_redirect("/files/uploads");
    for (who, address) in [
        (&stranger, file.to_owned()),
        (&browser, file.replace("a%20lease.txt?", "?")),
        (&browser, format!("{}9", file.trim_end_matches('1'))),
        (&browser, "/files/uploads/a%20lease.txt?view&cited=%3Cb%3E..x".to_owned()),
    ] {
        let page = who.get_page(&address).expect_page(200);
        assert!(!page.contains("14,500") && !page.contains("id=\"cited\""), "{address}: {page}");
    }
}

#[test]
fn citation_card_shows_passage_and_check() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    browser.upload_files("/uploads", &[("lease.txt", LEASE.as_bytes())]).expect_redirect("/files/uploads");
    let page = ask_with_citation(&stage, &browser, "lease.txt", "The rent is 19,000 crowns [1].");
    let cards = find_attribute(&page, "data-cards", "data-cards");
    let card = browser.get_page(&format!("{cards}1")).expect_page(200);
    for shown in ["lease.txt", "lines 1–3", "The rent is 14,500", "does not contain the number 19,000"] {
        assert!(card.contains(shown), "{shown}: {card}");
    }
    assert_eq!(
        find_attribute(&card, "<a href".trim_start_matches('<'), "href").replace("&#38;", "&"),
        citation_address(&page)
    );
    for unknown in ["2", "0", "x", "4294967296"] {
        browser.get_page(&format!("{cards}{unknown}")).expect_page(404);
    }
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    stranger.get_page(&format!("{cards}1")).expect_page(404);
    assert_eq!(
        HttpBrowser::new(&stage.service).get_page(&format!("{cards}1")).status,
        303,
        "signing in comes first"
    );
}

#[test]
fn citation_card_works_during_answer() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    browser.upload_files("/uploads", &[("lease.txt", LEASE.as_bytes())]).expect_redirect("/files/uploads");
    stage.vendor.add_script([Say::Call {
        tool: "read".to_owned(),
        arguments: json!({ "path": "/uploads/lease.txt" }),
    }]);
    stage.vendor.add_script([
        Say::from_text("The rent is 14,500 crowns [1]. "),
        Say::Hold,
        Say::from_text("Done."),
    ]);
    let path = ask_question(&browser, "What is the rent?");
    stage.vendor.wait_for_holds(1);
    let page = e2e::poll::wait_until("the citation", || {
        let page = browser.get_page(&path).expect_page(200);
        page.contains("data-citation").then_some(page)
    });
    let card =
        browser.get_page(&format!("{}1", find_attribute(&page, "data-cards", "data-cards"))).expect_page(200);
    assert!(card.contains("The rent is 14,500") && !card.contains("class=\"proof"), "{card}");
    stage.vendor.release_hold();
    wait_for_completed_page(&browser, &path);
}

#[test]
fn passages_are_text() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for payload in PAYLOADS {
        let text = format!("The heron is the code word of flat 7. {payload}\n");
        browser.upload_files("/uploads", &[("lease.txt", text.as_bytes())]).expect_redirect("/files/uploads");
        let page = ask_with_citation(&stage, &browser, "lease.txt", "The code word is “heron <b>” [1].");
        assert_harmless(&page);
        let card = browser
            .get_page(&format!("{}1", find_attribute(&page, "data-cards", "data-cards")))
            .expect_page(200);
        assert!(card.contains("The heron is the code word"), "{card}");
        assert_harmless(&card);
        let shown = browser.get_page(citation_address(&page).trim_end_matches("#cited")).expect_page(200);
        assert!(shown.contains("<mark id=\"cited\">The heron"), "{shown}");
        assert_harmless(&shown);
    }
}

#[test]
fn tool_call_lists_found_files() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    browser.upload_files("/uploads", &[("a lease.txt", LEASE.as_bytes())]).expect_redirect("/files/uploads");
    let page = ask_with_citation(&stage, &browser, "a lease.txt", "The rent is 14,500 crowns [1].");
    let steps = page.split("<ul class=\"steps\">").nth(1).and_then(|rest| rest.split("</details>").next());
    let steps = steps.expect("steps that can be opened");
    assert!(
        steps.contains("Read a document") && steps.contains("class=\"detail\" dir=\"auto\">a lease.txt<"),
        "{steps}"
    );
    assert!(
        steps.contains("<ul class=\"found\"><li><a href=\"/files/uploads/a%20lease.txt?view\""),
        "{steps}"
    );
}

#[test]
fn cited_line_of_long_text_shown() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let long: String =
        (1..=12_000).map(|line| format!("Line {line} says nothing in particular, kůň.\n")).collect();
    browser.upload_files("/uploads", &[("long.txt", long.as_bytes())]).expect_redirect("/files/uploads");
    let read = json!({ "path": "/uploads/long.txt", "first_line": 11_000 });
    stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage.vendor.add_script([Say::from_text("It says nothing [1].")]);
    let path = ask_question(&browser, "What does line 11,000 say?");
    let page = wait_for_completed_page(&browser, &path);
    let shown = browser.get_page(citation_address(&page).trim_end_matches("#cited")).expect_page(200);
    assert!(shown.contains("<mark id=\"cited\">Line 11000 says"), "{}", &shown[..2000]);
    assert!(shown.contains(">Line 10900 says") && !shown.contains("Line 10899 says"));
    assert!(shown.contains("Only a part is shown."));
}

#[test]
fn sources_numbered_in_text_order() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    let paragraphs: Vec<String> = (1..=5).map(|number| format!("Clause {number}. ").repeat(60)).collect();
    let text = paragraphs.join("\n\n");
    browser.upload_files("/uploads", &[("lease.txt", text.as_bytes())]).expect_redirect("/files/uploads");
    let read = json!({ "path": "/uploads/lease.txt" });
    stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage.vendor.add_script([
        Say::from_text("Clause 3 [3].\n\nClause 1 [1], again [1, 3].\n\n"),
        Say::Hold,
        Say::from_text("Done."),
    ]);
    let path = ask_question(&browser, "What does it say?");
    stage.vendor.wait_for_holds(1);
    let marks = |html: &str| {
        let links = html.split(" data-citation=\"").skip(1).filter(|link| !link.contains("class=\"number\""));
        let shown = links.map(|link| {
            let (id, rest) = link.split_once('"').expect("an id");
            let text = rest.split_once('>').and_then(|(_, rest)| rest.split_once("</a>")).expect("a text").0;
            format!("{id} {text}")
        });
        shown.collect::<Vec<_>>()
    };
    let numbers = |html: &str| {
        let found = html.split("<span class=\"number\">").skip(1);
        found.map(|rest| rest.split('<').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let expected = ["c3 [1]", "c1 [2]", "c1 [2]", "c3 [1]"];
    let growing = browser.get_page(&path).expect_page(200);
    assert_eq!(marks(&growing), expected, "{growing}");
    let events = browser.open_stream(&find_attribute(&growing, "data-events", "data-events"));
    let mut lines = BufReader::new(events.into_body());
    let first = read_event_until(&mut lines, |name, _| name == "message");
    assert_eq!((marks(&first), numbers(&first).len()), (expected.map(str::to_owned).to_vec(), 2), "{first}");
    stage.vendor.release_hold();
    let last = read_event_until(&mut lines, |name, _| name == "completed");
    assert_eq!(numbers(&last), ["1", "2"], "{last}");
    assert_eq!(marks(&wait_for_completed_page(&browser, &path)), expected);
    let print = browser.get_page(&format!("{path}/print")).expect_page(200);
    assert_eq!(
        (marks(&print), numbers(&print)),
        (expected.map(str::to_owned).to_vec(), vec!["1".to_owned(), "2".to_owned()])
    );

    // The card and the page of the file show the same number; their addresses contain the interface's.
    let cards = find_attribute(&print, "data-cards", "data-cards");
    let card = browser.get_page(&format!("{cards}3")).expect_page(200);
    assert_eq!(numbers(&card), ["1"], "{card}");
    assert!(card.contains("Clause 3."), "{card}");
    let file =
        find_attribute(&print, "data-citation=\"c3\"", "href").replace("&amp;", "&").replace("&#38;", "&");
    assert!(file.ends_with(".3#cited"), "{file}");
    assert_eq!(numbers(&browser.get_page(file.trim_end_matches("#cited")).expect_page(200)), ["1"]);
    let export = browser.get_page(&format!("{path}/export.md")).text();
    assert!(export.contains("Clause 3 [1].\n\nClause 1 [2], again [2][1]."), "{export}");
    assert!(
        export.contains("\n[1] `/uploads/lease.txt`") && export.contains("\n[2] ") && !export.contains("[3]"),
        "{export}"
    );
    let export = browser.get_page(&format!("{path}/export.json")).json();
    let numbered: Vec<_> = export["messages"][1]["sources"]
        .as_array()
        .expect("sources")
        .iter()
        .map(|source| source["number"].clone())
        .collect();
    assert_eq!(numbered, [1, 2]);

    let chat = api.get_chat(path.trim_start_matches("/c/")).json();
    let parts = chat["messages"][1]["parts"].to_string();
    assert!(
        parts.contains(">[3]</a>") && parts.contains("\"citationId\":\"c3\""),
        "the interface stays: {parts}"
    );
}
