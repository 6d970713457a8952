//! Citations: the card of a passage, and the page of its file at the passage.

use conformance::Say;
use serde_json::json;

use crate::browser::{Browser, PASSWORD, Page, Stage, account_with_password, attribute};
use crate::conversations::{ask, completed};
use crate::hostile::{PAYLOADS, assert_harmless};

const LEASE: &str = "Lease of flat 7\n\nThe rent is 14,500 crowns a month.\n";

/// Has a file read and cited, and returns the page of the answer.
fn cited(stage: &Stage, browser: &Browser, name: &str, text: &str) -> String {
    let read = json!({ "path": format!("/uploads/{name}") });
    stage.vendor.will([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage.vendor.will([Say::text(text)]);
    let path = ask(browser, "What does it say?");
    completed(browser, &path)
}

/// Returns the address of the first citation in the text.
fn address(page: &str) -> String {
    attribute(page, "data-citation=\"c1\"", "href").replace("&amp;", "&").replace("&#38;", "&")
}

#[test]
fn a_citation_leads_to_its_passage_in_the_file() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    browser.upload("/uploads", &[("a lease.txt", LEASE.as_bytes())]).expect_redirect("/files/uploads");
    let page = cited(&stage, &browser, "a lease.txt", "The rent is 14,500 crowns [1].");
    let href = address(&page);
    assert!(
        href.starts_with("/files/uploads/a%20lease.txt?view&cited=") && href.ends_with(".1#cited"),
        "{href}"
    );
    let file = href.trim_end_matches("#cited");
    let shown = browser.get(file).expect_page(200);
    assert!(shown.contains("<mark id=\"cited\">Lease of flat 7\n\nThe rent is 14,500"), "{shown}");
    assert!(shown.contains("The passage supports the sentence.") && shown.contains("lines 1–3"), "{shown}");
    let back = attribute(&shown, "#a-", "href");
    assert!(page.contains(&format!("id=\"{}\"", back.split('#').nth(1).expect("a fragment"))), "{back}");
    let in_czech = browser.with("accept-language", "cs").get(file).expect_page(200);
    assert!(in_czech.contains("Úryvek větu dokládá."), "{in_czech}");

    // A file that has changed does not show the passage, so the page does.
    browser.upload("/uploads", &[("a lease.txt", b"Other words.\n")]).expect_redirect("/files/uploads");
    let changed = browser.get(file).expect_page(200);
    assert!(
        changed.contains("<blockquote dir=\"auto\">Lease of flat 7") && !changed.contains("<mark"),
        "{changed}"
    );
    assert_eq!(changed.matches("id=\"cited\"").count(), 1);
    assert!(changed.contains("The file has changed since the answer."), "{changed}");
    assert!(!shown.contains("has changed"), "{shown}");

    // Of one that was deleted, the passage stays.
    browser.post("/workspace/delete", &[("path", "/uploads/a lease.txt")]);
    let gone = browser.get(file).expect_page(404);
    assert!(gone.contains("Lease of flat 7") && gone.contains("it was deleted or renamed"), "{gone}");
    assert_eq!(attribute(&gone, "#a-", "href"), back);
    browser.upload("/uploads", &[("a lease.txt", b"Other words.\n")]).expect_redirect("/files/uploads");

    // Nobody else learns of the passage, and what names none is left out.
    let other = account_with_password(&stage.service);
    let stranger = Browser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    stranger.upload("/uploads", &[("a lease.txt", b"Mine.\n")]).expect_redirect("/files/uploads");
    for (who, address) in [
        (&stranger, file.to_owned()),
        (&browser, file.replace("a%20lease.txt?", "?")),
        (&browser, format!("{}9", file.trim_end_matches('1'))),
        (&browser, "/files/uploads/a%20lease.txt?view&cited=%3Cb%3E..x".to_owned()),
    ] {
        let page = who.get(&address).expect_page(200);
        assert!(!page.contains("14,500") && !page.contains("id=\"cited\""), "{address}: {page}");
    }
}

#[test]
fn a_card_shows_the_passage_and_whether_it_supports_the_sentence() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    browser.upload("/uploads", &[("lease.txt", LEASE.as_bytes())]).expect_redirect("/files/uploads");
    let page = cited(&stage, &browser, "lease.txt", "The rent is 19,000 crowns [1].");
    let cards = attribute(&page, "data-cards", "data-cards");
    let card = browser.get(&format!("{cards}1")).expect_page(200);
    for shown in ["lease.txt", "lines 1–3", "The rent is 14,500", "does not contain the number 19,000"] {
        assert!(card.contains(shown), "{shown}: {card}");
    }
    assert_eq!(
        attribute(&card, "<a href".trim_start_matches('<'), "href").replace("&#38;", "&"),
        address(&page)
    );
    for unknown in ["2", "0", "x", "4294967296"] {
        browser.get(&format!("{cards}{unknown}")).expect_page(404);
    }
    let other = account_with_password(&stage.service);
    let stranger = Browser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    stranger.get(&format!("{cards}1")).expect_page(404);
    assert_eq!(Browser::new(&stage.service).get(&format!("{cards}1")).status, 303, "signing in comes first");
}

#[test]
fn a_card_of_an_answer_in_progress_has_the_passage() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    browser.upload("/uploads", &[("lease.txt", LEASE.as_bytes())]).expect_redirect("/files/uploads");
    stage
        .vendor
        .will([Say::Call { tool: "read".to_owned(), arguments: json!({ "path": "/uploads/lease.txt" }) }]);
    stage.vendor.will([Say::text("The rent is 14,500 crowns [1]. "), Say::Hold, Say::text("Done.")]);
    let path = ask(&browser, "What is the rent?");
    stage.vendor.wait_held(1);
    let page = conformance::poll::until("the citation", || {
        let page = browser.get(&path).expect_page(200);
        page.contains("data-citation").then_some(page)
    });
    let card = browser.get(&format!("{}1", attribute(&page, "data-cards", "data-cards"))).expect_page(200);
    assert!(card.contains("The rent is 14,500") && !card.contains("class=\"proof"), "{card}");
    stage.vendor.release();
    completed(&browser, &path);
}

#[test]
fn passages_are_text() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    for payload in PAYLOADS {
        let text = format!("The heron is the code word of flat 7. {payload}\n");
        browser.upload("/uploads", &[("lease.txt", text.as_bytes())]).expect_redirect("/files/uploads");
        let page = cited(&stage, &browser, "lease.txt", "The code word is “heron <b>” [1].");
        assert_harmless(&page);
        let card =
            browser.get(&format!("{}1", attribute(&page, "data-cards", "data-cards"))).expect_page(200);
        assert!(card.contains("The heron is the code word"), "{card}");
        assert_harmless(&card);
        let shown = browser.get(address(&page).trim_end_matches("#cited")).expect_page(200);
        assert!(shown.contains("<mark id=\"cited\">The heron"), "{shown}");
        assert_harmless(&shown);
    }
}

#[test]
fn a_call_lists_the_files_that_it_found() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    browser.upload("/uploads", &[("a lease.txt", LEASE.as_bytes())]).expect_redirect("/files/uploads");
    let page = cited(&stage, &browser, "a lease.txt", "The rent is 14,500 crowns [1].");
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
fn a_cited_line_of_a_long_text_is_shown_where_it_stands() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let long: String =
        (1..=12_000).map(|line| format!("Line {line} says nothing in particular, kůň.\n")).collect();
    browser.upload("/uploads", &[("long.txt", long.as_bytes())]).expect_redirect("/files/uploads");
    let read = json!({ "path": "/uploads/long.txt", "first_line": 11_000 });
    stage.vendor.will([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage.vendor.will([Say::text("It says nothing [1].")]);
    let path = ask(&browser, "What does line 11,000 say?");
    let page = completed(&browser, &path);
    let shown = browser.get(address(&page).trim_end_matches("#cited")).expect_page(200);
    assert!(shown.contains("<mark id=\"cited\">Line 11000 says"), "{}", &shown[..2000]);
    assert!(shown.contains(">Line 10900 says") && !shown.contains("Line 10899 says"));
    assert!(shown.contains("Only a part is shown."));
}
