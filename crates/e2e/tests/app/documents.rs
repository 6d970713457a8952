//! Documents that the account's machine shows: pages of PDFs as pictures, others as text.

use e2e::{Say, poll};
use serde_json::json;

use crate::browser::{
    AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password, find_attribute,
};
use crate::conversations::{ask_question, wait_for_completed_page};
use crate::hostile::assert_harmless;

/// Reads a document of the agent's tests.
fn read_guest_fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../documents/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a document")
}

fn upload_fixture(browser: &HttpBrowser, name: &str) {
    browser.upload_files("/uploads", &[(name, &read_guest_fixture(name))]).expect_redirect("/files/uploads");
}

#[test]
fn pdf_preview_shows_pages_and_text() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    upload_fixture(&browser, "lease.pdf");
    let page = browser.get_page("/files/uploads/lease.pdf?view").expect_page(200);
    let pictures = page.matches("?drawn=").count();
    assert!(
        pictures > 1 && page.contains("alt=\"Page 1, lease.pdf\" width=\"1240\" height=\"1754\""),
        "{page}"
    );
    assert_eq!(page.matches("Text of the page").count(), pictures, "{page}");
    let address = find_attribute(&page, "?drawn=2", "src").replace("&#38;", "&");
    let picture = browser.get_page(&address);
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/png")));
    assert_eq!(picture.header("cache-control"), Some("private, max-age=31536000, immutable"));
    assert!(
        picture.body.starts_with(b"\x89PNG\r\n\x1a\n") && picture.body.len() > 10_000,
        "{}",
        picture.body.len()
    );
    assert_eq!(picture.body[16..24], [1240_u32.to_be_bytes(), 1754_u32.to_be_bytes()].concat());

    // Pictures are of one version of a file of the same account.
    assert_eq!(browser.get_page(&address.replace("drawn=2", "drawn=99")).status, 503);
    assert_eq!(browser.get_page("/files/uploads/lease.pdf?drawn=2&version=0").status, 404);
    browser
        .upload_files("/uploads", &[("lease.pdf", &read_guest_fixture("scan.pdf"))])
        .expect_redirect("/files/uploads");
    assert_eq!(browser.get_page(&address).status, 404);
    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    stranger.get_page(&address).expect_page(404);
    let refused = HttpBrowser::new(&stage.service).get_page(&address);
    assert!(
        refused
            .header("location")
            .is_some_and(|page| page.starts_with("/sign-in?next=/files/uploads/lease.pdf"))
    );
    // A scan has pictures without a text.
    let scan = browser.get_page("/files/uploads/lease.pdf?view").expect_page(200);
    assert!(scan.contains("?drawn=1") && !scan.contains("Text of the page"), "{scan}");
}

#[test]
fn document_state_shown_until_indexed() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    upload_fixture(&browser, "locked.pdf");
    upload_fixture(&browser, "lease.pdf");
    let address = "/workspace/indexing?file=/uploads/locked.pdf&file=/uploads/lease.pdf&file=/uploads/none.pdf&file=/..";
    let states = poll::wait_until("both are read or refused", || {
        let response = browser.get_page(address);
        assert_eq!(response.status, 200);
        let states = response.json();
        let goes_on = |state: &serde_json::Value| state["state"] == "pending" || state["state"] == "indexing";
        (!states.as_array().expect("states").iter().any(goes_on)).then_some(states)
    });
    let locked = json!({ "path": "/uploads/locked.pdf", "state": "unreadable", "label": "Encrypted",
        "title": "It is encrypted and needs a password." });
    let lease = json!({ "path": "/uploads/lease.pdf", "state": "indexed", "label": "", "title": null });
    assert_eq!(states, json!([locked, lease]), "what does not exist is left out");
    let page = browser.get_page("/files/uploads").expect_page(200);
    assert!(page.contains(">Encrypted<") && !page.contains("data-indexed"), "{page}");

    // One of the files in an archive cannot be read.
    let archive = browser.get_page("/files/uploads?archive").body;
    browser.upload_files("/uploads", &[("both.zip", &archive)]).expect_redirect("/files/uploads");
    let state = poll::wait_until("the archive is read", || {
        let states = browser.get_page("/workspace/indexing?file=/uploads/both.zip").json();
        let goes_on = states[0]["state"] == "pending" || states[0]["state"] == "indexing";
        (!goes_on).then(|| states[0].clone())
    });
    let title = "Some of the files in it cannot be read.";
    assert_eq!((&state["state"], &state["title"]), (&json!("partial"), &json!(title)), "{state}");

    let other = account_with_password(&stage.service);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.sign_in(&other.email, PASSWORD).expect_redirect("/");
    assert_eq!(stranger.get_page(address).json(), json!([]));
}

#[test]
fn cited_passage_marked_on_page() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    upload_fixture(&browser, "lease.pdf");
    let read = json!({ "path": "/uploads/lease.pdf", "first_page": 2 });
    stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
    stage.vendor.add_script([Say::from_text("It says so [1].")]);
    let path = ask_question(&browser, "What does it say?");
    let answer = wait_for_completed_page(&browser, &path);
    let href = find_attribute(&answer, "data-citation=\"c1\"", "href").replace("&amp;", "&");
    let page = browser.get_page(href.trim_end_matches("#cited")).expect_page(200);
    let marks = page.split("<svg class=\"marks\"").nth(1).expect("areas of the passage");
    let marks = marks.split("</svg>").next().unwrap_or_default();
    assert!(
        marks.starts_with(" viewBox=\"0 0 595 842\" aria-hidden=\"true\"><rect id=\"cited\" x=\""),
        "{marks}"
    );
    assert_eq!(page.matches("<svg class=\"marks\"").count(), 1, "on its page alone");
    let before = page.split("<svg class=\"marks\"").next().unwrap_or_default();
    assert!(before.contains("alt=\"Page 2, lease.pdf\"") && !before.contains("alt=\"Page 3"), "{before}");
    assert!(
        page.contains("<mark>") && page.contains("page 2"),
        "the text of the page marks it as well: {page}"
    );
}

#[test]
fn citation_of_unpaged_document_shows_text() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for (name, target) in
        [("minutes.docx", "<mark id=\"cited\">"), ("prices.xlsx", "<tr class=\"cited\" id=\"cited\">")]
    {
        upload_fixture(&browser, name);
        let read = json!({ "path": format!("/uploads/{name}") });
        stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
        stage.vendor.add_script([Say::from_text("It says so [1].")]);
        let answer = wait_for_completed_page(&browser, &ask_question(&browser, "What does it say?"));
        let href = find_attribute(&answer, "data-citation=\"c1\"", "href").replace("&amp;", "&");
        let page = browser.get_page(href.trim_end_matches("#cited")).expect_page(200);
        assert!(page.contains(target), "{name}: {page}");
        assert_eq!(page.matches("id=\"cited\"").count(), 1, "{name}: {page}");
    }
}

#[test]
fn citation_of_markup_file_shows_text() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let flat = |kind: &str, body: &str| {
        format!(
            "<?xml version=\"1.0\"?>\n<office:document \
             office:mimetype=\"application/vnd.oasis.opendocument.{kind}\"><office:body>{body}</office:body></office:document>"
        )
    };
    let cell = "<table:table-cell office:value-type=\"string\"><text:p>The monthly r<text:span>ent</text:span> is 14500 crowns.</text:p></table:table-cell>";
    let sheet = format!(
        "<office:spreadsheet><table:table table:name=\"Rent\"><table:table-row>{cell}</table:table-row></table:table></office:spreadsheet>"
    );
    let paragraph = "<text:p>The monthly r<text:span>ent</text:span> is 14500 crowns.</text:p>";
    for (name, content, target) in [
        ("a.rtf", "{\\rtf1\\ansi The monthly r{\\b ent} is 14500 crowns.\\par}".to_owned(), "<mark id=\"cited\">"),
        ("a.fodt", flat("text", paragraph), "<mark id=\"cited\">"),
        ("a.fods", flat("spreadsheet", &sheet), "<tr class=\"cited\" id=\"cited\">"),
        (
            "a.fb2",
            "<FictionBook><body><section><p>The monthly r<emphasis>ent</emphasis> is 14500 crowns.</p></section></body></FictionBook>".to_owned(),
            "<mark id=\"cited\">",
        ),
        (
            "a.ipynb",
            r#"{"cells": [{"cell_type": "markdown", "source": ["The monthly r\u0065nt is 14500 crowns."]}]}"#.to_owned(),
            "<mark id=\"cited\">",
        ),
        ("a.html", "<p>The monthly r<b>ent</b> is 14500 crowns.</p>".to_owned(), "<mark id=\"cited\">"),
        (
            "a.mbox",
            "From ada@example.org Mon Jun  2 10:00:00 2025\nSubject: Rent\nContent-Transfer-Encoding: quoted-printable\n\n\
             The monthly r=65nt is 14500 crowns.\n"
                .to_owned(),
            "<mark id=\"cited\">",
        ),
    ] {
        browser.upload_files("/uploads", &[(name, content.as_bytes())]).expect_redirect("/files/uploads");
        let read = json!({ "path": format!("/uploads/{name}") });
        stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
        stage.vendor.add_script([Say::from_text("It says so [1].")]);
        let answer = wait_for_completed_page(&browser, &ask_question(&browser, "What does it say?"));
        let href = find_attribute(&answer, "data-citation=\"c1\"", "href").replace("&amp;", "&");
        let page = browser.get_page(href.trim_end_matches("#cited")).expect_page(200);
        assert!(page.contains(target) && page.contains("The monthly rent is 14500 crowns."), "{name}: {page}");
        assert_eq!(page.matches("id=\"cited\"").count(), 1, "{name}: {page}");
        assert!(!page.contains("<blockquote"), "{name}: {page}");
    }
}

#[test]
fn cells_of_tables_are_shown_apart() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    upload_fixture(&browser, "prices.xlsx");
    browser.upload_files(
        "/uploads",
        &[("page.html", b"<table><tr><td>Oakmoor Dental Practice</td><td>2310</td></tr></table>")],
    );
    let archive = browser.get_page("/files/uploads?archive").body;
    browser.upload_files("/uploads", &[("both.zip", &archive)]).expect_redirect("/files/uploads");
    for (name, first_page, number, target) in [
        ("both.zip", 2, 2, "<tr class=\"cited\" id=\"cited\"><td>"),
        ("page.html", 1, 1, "<mark id=\"cited\">Oakmoor Dental Practice | 2310</mark>"),
    ] {
        let read = json!({ "path": format!("/uploads/{name}"), "first_page": first_page });
        stage.vendor.add_script([Say::Call { tool: "read".to_owned(), arguments: read }]);
        stage.vendor.add_script([Say::from_text(&format!("It says so [{number}]."))]);
        let answer = wait_for_completed_page(&browser, &ask_question(&browser, "What does it cost?"));
        let href =
            find_attribute(&answer, &format!("data-citation=\"c{number}\""), "href").replace("&amp;", "&");
        let card = browser
            .get_page(&format!("{}{number}", find_attribute(&answer, "data-cards", "data-cards")))
            .expect_page(200);
        assert!(card.contains(" | ") && !card.contains('\t'), "{name}: {card}");
        let page = browser.get_page(href.trim_end_matches("#cited")).expect_page(200);
        assert!(page.contains(target), "{name}: {page}");
    }
    let page = browser.get_page("/files/uploads/both.zip?view").expect_page(200);
    let table = page.split("<table class=\"values\">").nth(1).expect("a table");
    assert!(table.starts_with("<tbody>\n<tr><td>Služba</td>"), "{page}");
    assert!(page.contains("Oakmoor Dental Practice | 2310"), "{page}");
}

#[test]
fn archived_workbook_sheets_shown_separately() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let sheet = |name: &str, value: &str| {
        format!(
            "<table:table table:name=\"{name}\"><table:table-row><table:table-cell office:value-type=\"string\">\
             <text:p>{value}</text:p></table:table-cell></table:table-row></table:table>"
        )
    };
    let workbook = format!(
        "<?xml version=\"1.0\"?>\n<office:document office:mimetype=\"application/vnd.oasis.opendocument.spreadsheet\">\
         <office:body><office:spreadsheet>{}{}</office:spreadsheet></office:body></office:document>",
        sheet("Flats &lt;b&gt;", "Unit 7"),
        sheet("Rent", "The monthly rent is 14500 crowns.")
    );
    browser
        .upload_files("/uploads", &[("flats.fods", workbook.as_bytes())])
        .expect_redirect("/files/uploads");
    let archive = browser.get_page("/files/uploads?archive").body;
    browser.upload_files("/uploads", &[("flats.zip", &archive)]).expect_redirect("/files/uploads");
    let page = browser.get_page("/files/uploads/flats.zip?view").expect_page(200);
    let table = |name: &str, cell: &str| {
        format!(
            "<h3 dir=\"auto\">{name}</h3>\n<div class=\"table\" tabindex=\"0\"><table class=\"values\"><tbody>\n\
             <tr><td>{cell}</td></tr>\n</tbody></table></div>"
        )
    };
    assert!(page.contains(&table("Flats &#60;b&#62;", "Unit 7")), "{page}");
    assert!(page.contains(&table("Rent", "The monthly rent is 14500 crowns.")), "{page}");
    assert_harmless(&page);
}

#[test]
fn notebook_preview_renders_markdown() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let notebook = r###"{"cells": [{"cell_type": "markdown", "source": "# Rent <script>alert(1)</script>\n\n**18500** [x](javascript:alert(1))"},
        {"cell_type": "code", "source": "a < b"}]}"###;
    browser
        .upload_files("/uploads", &[("rent.ipynb", notebook.as_bytes())])
        .expect_redirect("/files/uploads");
    let page = browser.get_page("/files/uploads/rent.ipynb?view").expect_page(200);
    let article =
        page.split("<article class=\"preview prose\" dir=\"auto\">").nth(1).expect("a rendered text");
    let article = article.split("</article>").next().unwrap_or_default();
    assert!(article.starts_with("<h1>Rent") && article.contains("<strong>18500</strong>"), "{page}");
    assert!(article.contains("<code") && article.contains("a &lt; b"), "{page}");
    assert!(!article.contains("<script") && !article.contains("javascript:"), "{page}");
    assert_harmless(&page);
}

#[test]
fn cited_image_text_precedes_document() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    upload_fixture(&browser, "pictured.docx");
    // The text around the image comes first.
    let search = json!({ "query": "security deposit", "paths": ["/uploads/pictured.docx"] });
    stage.vendor.add_script([Say::Call { tool: "search".to_owned(), arguments: search }]);
    stage.vendor.add_script([Say::from_text("It is 7450 crowns [2].")]);
    let fields = [("input", "How much is the deposit?"), ("file", "/uploads/pictured.docx")];
    let asked = browser.post_form("/ask", &fields);
    assert_eq!(asked.status, 303, "{}", asked.text());
    let answer = wait_for_completed_page(&browser, asked.header("location").expect("a conversation"));
    let href = find_attribute(&answer, "data-citation=\"c2\"", "href").replace("&amp;", "&");
    let page = browser.get_page(href.trim_end_matches("#cited")).expect_page(200);
    let passage = page.split("<blockquote dir=\"auto\">").nth(1).unwrap_or_default();
    assert!(passage.starts_with("The security deposit is 7450 crowns."), "{page}");
    assert_eq!(page.matches("id=\"cited\"").count(), 1, "{page}");
}

#[test]
fn cited_image_text_in_archive_marked() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    upload_fixture(&browser, "code_word.png");
    upload_fixture(&browser, "minutes.docx");
    let archive = browser.get_page("/files/uploads?archive").body;
    browser.upload_files("/uploads", &[("birds.zip", &archive)]).expect_redirect("/files/uploads");
    let search = json!({ "query": "heron", "paths": ["/uploads/birds.zip"] });
    // On a busy host, an answer may come before the image is read.
    let (answer, number) = poll::wait_until("the image is read", || {
        stage.vendor.add_script([Say::Call { tool: "search".to_owned(), arguments: search.clone() }]);
        stage.vendor.add_script([Say::from_text("The code word is heron [1] [2] [3] [4].")]);
        let fields = [("input", "What is the code word?"), ("file", "/uploads/birds.zip")];
        let asked = browser.post_form("/ask", &fields);
        let answer = wait_for_completed_page(&browser, asked.header("location").expect("a conversation"));
        let cards = find_attribute(&answer, "data-cards", "data-cards");
        let has_word =
            |number: &u32| browser.get_page(&format!("{cards}{number}")).text().contains("word is heron");
        let number = (1..=4).find(has_word)?;
        Some((answer, number))
    });
    let href = find_attribute(&answer, &format!("data-citation=\"c{number}\""), "href").replace("&amp;", "&");
    let page = browser.get_page(href.trim_end_matches("#cited")).expect_page(200);
    let marked = page.split("<mark id=\"cited\">").nth(1).unwrap_or_default();
    assert!(marked.starts_with("The code word is heron."), "{page}");
    // Text that the machine reads without recognition appears once.
    assert_eq!(page.matches("střechy").count(), document_text_count(&browser), "{page}");
}

/// Returns how often the word of `minutes.docx` appears on the page of the file.
fn document_text_count(browser: &HttpBrowser) -> usize {
    browser.get_page("/files/uploads/minutes.docx?view").expect_page(200).matches("střechy").count()
}

#[test]
fn other_documents_are_shown_as_text() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for (name, shown) in [
        ("minutes.docx", "<pre class=\"preview text whole\""),
        ("budget.pptx", "Slide 1"),
        (
            "prices.xlsx",
            "Sheet 1 · Ceník</h2>\n<div class=\"table\" tabindex=\"0\"><table class=\"values\"><tbody>\n<tr><td>",
        ),
        ("rules.epub", "Section 1"),
        ("contract.doc", "<pre class=\"preview text whole\""),
    ] {
        upload_fixture(&browser, name);
        let page = browser.get_page(&format!("/files/uploads/{name}?view")).expect_page(200);
        assert!(page.contains(shown), "{name}: {page}");
        assert_harmless(&page);
    }
    for (name, reason) in [("locked.pdf", "password"), ("broken.pdf", "damaged"), ("bomb.docx", "too large")]
    {
        upload_fixture(&browser, name);
        let page = browser.get_page(&format!("/files/uploads/{name}?view")).expect_page(200);
        let empty = page.split("class=\"empty\"").nth(1).unwrap_or_default();
        assert!(empty.contains(reason) && !page.contains("?drawn="), "{name}: {page}");
    }
    browser.upload_files("/uploads", &[("data.bin", b"\0\x01\x02\0")]).expect_redirect("/files/uploads");
    assert!(browser.get_page("/files/uploads/data.bin?view").expect_page(200).contains("is not shown here"));
}

#[test]
fn document_preview_needs_machine() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    upload_fixture(&browser, "lease.pdf");
    let state = |wanted: &str| {
        poll::wait_until(wanted, || (api.get_vm().json()["status"] == wanted).then_some(()));
    };
    assert_eq!(api.start_vm().status, 202);
    state("RUNNING");
    let page = browser.get_page("/files/uploads/lease.pdf?view").expect_page(200);
    let picture = find_attribute(&page, "?drawn=1", "src").replace("&#38;", "&");
    assert_eq!(api.stop_vm().status, 202);
    state("STOPPED");
    let page = browser.get_page("/files/uploads/lease.pdf?view").expect_page(200);
    assert!(page.contains("Your machine shows documents") && page.contains(">Download<"), "{page}");
    assert_eq!(browser.get_page(&picture).status, 503);
    assert_eq!(
        api.get_vm().json()["status"],
        "STOPPED",
        "looking at a file does not start what its owner stopped"
    );
    assert_eq!(api.start_vm().status, 202);
    state("RUNNING");
    assert!(browser.get_page("/files/uploads/lease.pdf?view").expect_page(200).contains("?drawn=1"));
}
