//! Scanned pages and images are recognized by the machine's `tesseract`, cited by page, and searched like other documents.

use std::io::{Cursor, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conformance::api::{path_of, reader};
use conformance::{Api, Expect, Options, Say, Service, poll};
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::streams::{Stage, stage};
use crate::unread::document;

#[test]
fn a_scan_is_indexed_and_quoted_with_its_page() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let path = path_of(api.upload("scanned.pdf", &document("scanned.pdf")));
    let entry = poll::until("the scan is read", || {
        let listing = api.list("/uploads").expect_status(200).json();
        let entry = listing["entries"][0].clone();
        (entry["indexing"]["state"] != "pending").then_some(entry)
    });
    let expected = json!({ "state": "indexed", "pagesRead": 1, "pages": 1 });
    assert_eq!(entry["indexing"], expected, "{entry}");
    let ask = json!({ "input": "Kolik činí nájemné?", "model": reader(&api), "filePaths": [path] });
    let answer = answered_from_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("15 800") && !text.contains("could not be read"), "{text}");
    assert!(answer.to_string().contains("scanned.pdf#page=1"), "{answer}");
}

#[test]
fn a_photograph_of_a_phone_is_read() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let path = upload_and_read(&api, "IMG_0001.HEIC", &document("code_word.heic"));
    let ask = json!({ "input": "What is the code word?", "model": reader(&api), "filePaths": [path] });
    let answer = answered_from_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("heron") && !text.contains("could not be read"), "{text}");
}

#[test]
fn a_scan_that_stands_on_its_head_is_read() {
    let upright = b"q 595.68 0 0 841.92 0 0 cm /I Do Q";
    let turned = replaced(&document("scanned.pdf"), upright, b"q -595 0 0 -841 595 841 cm /I Do Q");
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let path = upload_and_read(&api, "turned.pdf", &turned);
    let ask = json!({ "input": "Kolik činí nájemné?", "model": reader(&api), "filePaths": [path] });
    let answer = answered_from_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("15 800"), "{text}");
}

#[test]
fn archives_that_a_program_unpacks_are_read_with_their_images() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    for name in ["birds.cab", "birds.lzh"] {
        let path = upload_and_read(&api, name, &document(name));
        for (question, expected) in
            [("How much does a wren pay?", "12 500"), ("What is the code word?", "heron")]
        {
            let ask = json!({ "input": question, "model": reader(&api), "filePaths": [path] });
            let answer = answered_from_whole_files(&api, &ask);
            let text = answer["text"].as_str().expect("text");
            assert!(text.contains(expected) && !text.contains("could not be read"), "{name}: {text}");
        }
    }
}

#[test]
fn what_a_signature_encloses_is_read_with_its_scans_and_images() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    for (name, question, expected, place) in [
        ("signed.pdf.p7m", "Kolik činí nájemné?", "15 800", json!({ "page": 1 })),
        ("data_message.zfo", "Do kdy má být doplněna žádost o dotaci?", "do 15 dnů", json!({})),
        ("data_message.zfo", "What is the code word?", "heron", json!({})),
    ] {
        let path = upload_and_read(&api, name, &document(name));
        let ask = json!({ "input": question, "model": reader(&api), "filePaths": [path] });
        let answer = answered_from_whole_files(&api, &ask);
        let text = answer["text"].as_str().expect("text");
        assert!(text.contains(expected) && !text.contains("could not be read"), "{text}");
        let parts = answer["parts"].as_array().expect("parts");
        let part = parts.iter().find(|part| part["type"] == "TEXT").expect("a text");
        let source = &part["citations"][0]["source"];
        assert_eq!((&source["path"], &source["page"]), (&json!(path), &place["page"]), "{answer}");
    }
}

#[test]
fn a_scan_in_an_archive_that_is_attached_to_a_message_or_not_is_quoted_with_its_place() {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for name in ["minutes.docx", "scanned.pdf", "locked.pdf"] {
        archive.start_file(format!("papers/{name}"), SimpleFileOptions::default()).expect("a file");
        archive.write_all(&document(name)).expect("its content");
    }
    let archive = archive.finish().expect("an archive").into_inner();
    let message = format!(
        "Subject: Papers\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n--b\r\n\
         Content-Type: application/zip\r\nContent-Disposition: attachment; filename=\"papers.zip\"\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{}\r\n--b--\r\n",
        STANDARD.encode(&archive)
    );
    let expected =
        json!({ "path": "/uploads/papers.zip", "page": 2, "pageName": "papers/scanned.pdf, page 1" });
    for (name, content, expected) in [
        ("papers.zip", archive, expected),
        ("papers.eml", message.into_bytes(), json!({ "path": "/uploads/papers.eml", "lines": [2, 2] })),
    ] {
        let service = Service::start(Options::default());
        let api = service.api(&service.account());
        let path = path_of(api.upload(name, &content));
        let indexing = poll::until("the scan is read", || {
            let indexing = api.list("/uploads").expect_status(200).json()["entries"][0]["indexing"].clone();
            (indexing["state"] == "partial").then_some(indexing)
        });
        assert_eq!(indexing["reason"], "inner_files", "one of the files needs a password: {indexing}");
        let ask = json!({ "input": "Kolik činí nájemné?", "model": reader(&api), "filePaths": [path] });
        let answer = answered_from_whole_files(&api, &ask);
        let text = answer["text"].as_str().expect("text");
        assert!(
            text.contains("15 800") && text.contains("some of the files in it could not be read"),
            "{text}"
        );
        let parts = answer["parts"].as_array().expect("parts");
        let part = parts.iter().find(|part| part["type"] == "TEXT").expect("a text");
        let mut source = part["citations"][0]["source"].clone();
        source.as_object_mut().expect("a source").retain(|field, _| field != "type");
        assert_eq!(source, expected, "{answer}");
    }
}

#[test]
fn text_that_only_an_image_inside_a_document_has_is_quoted_with_its_place() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let path = upload_and_read(&api, "pictured.docx", &document("pictured.docx"));
    let ask = json!({ "input": "How much is the security deposit?", "model": reader(&api) });
    let answer = answered_from_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("7450 crowns"), "{text}");
    let source =
        &answer["parts"].as_array().and_then(|parts| parts.iter().find(|part| part["type"] == "TEXT"));
    let source = &source.expect("a text")["citations"][0]["source"];
    assert_eq!((&source["path"], &source["lines"]), (&json!(path), &json!([2, 2])), "{answer}");
}

#[test]
fn text_of_images_in_books_and_notebooks_that_are_one_file_is_quoted_with_its_place() {
    let picture = STANDARD.encode(document("code_word.png"));
    let book = format!(
        "<?xml version=\"1.0\"?>\n<FictionBook xmlns:l=\"http://www.w3.org/1999/xlink\"><body>\
         <section><p>A wren is small.</p></section><section><p>See below.</p><image l:href=\"#a.png\"/></section></body>\
         <binary id=\"a.png\" content-type=\"image/png\">{picture}</binary></FictionBook>"
    );
    let notebook = json!({ "cells": [
        { "cell_type": "markdown", "source": "A wren is small." },
        { "cell_type": "code", "source": "plot()", "outputs": [
            { "output_type": "display_data", "data": { "image/png": picture } } ] },
    ] });
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    for (name, content, page, lines) in [
        ("birds.fb2", book, json!(2), json!(null)),
        ("birds.ipynb", notebook.to_string(), json!(null), json!([5, 5])),
    ] {
        let path = upload_and_read(&api, name, content.as_bytes());
        let ask = json!({ "input": "What is the code word?", "model": reader(&api), "filePaths": [path] });
        let answer = answered_from_whole_files(&api, &ask);
        let text = answer["text"].as_str().expect("text");
        assert!(text.contains("heron") && !text.contains("could not be read"), "{name}: {text}");
        let parts = answer["parts"].as_array().expect("parts");
        let part = parts.iter().find(|part| part["type"] == "TEXT").expect("a text");
        let source = &part["citations"][0]["source"];
        assert_eq!((&source["page"], &source["lines"]), (&page, &lines), "{answer}");
    }
}

#[test]
fn text_that_only_an_image_on_a_page_has_is_quoted_with_the_page() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let path = upload_and_read(&api, "manual.pdf", &document("pictured.pdf"));
    let ask = json!({ "input": "What is the pressure limit?", "model": reader(&api), "filePaths": [path] });
    let answer = answered_from_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("47 kilopascals"), "{text}");
    assert!(answer.to_string().contains("manual.pdf#page=2"), "{answer}");
}

#[test]
fn images_inside_a_document_that_are_not_read_are_counted_with_the_reasons() {
    const NOT_READ: &str =
        "was read without the text of 3 of the images in it (too large: 1, not recognizable: 2)";
    let Stage { vendor, api, service: _service, .. } = stage();
    let path = path_of(api.upload("report.docx", &document("unread_images.docx")));
    let indexing = poll::until("the images are tried", || {
        let listing = api.list("/uploads").expect_status(200).json();
        let indexing = listing["entries"][0]["indexing"].clone();
        (indexing["state"] == "partial").then_some(indexing)
    });
    assert_eq!((&indexing["reason"], &indexing["message"]), (&json!("images"), &json!(NOT_READ)));
    let sentence = format!("The attached file `report.docx` {NOT_READ}.");
    let ask = json!({ "input": "How much is the rent?", "model": reader(&api), "filePaths": [path] });
    let answer = api.completed(&api.accepted(&ask));
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("900 crowns") && text.contains(&sentence), "{text}");
    vendor.will([Say::text("It is 900 crowns.")]);
    let answer = api.completed(&api.accepted(&json!({ "input": "How much?", "filePaths": [path] })));
    assert!(answer["text"].as_str().is_some_and(|text| text.ends_with(&sentence)), "{answer}");
}

#[test]
fn a_language_model_is_told_of_the_images_inside_an_attached_document() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let path = upload_and_read(&api, "pictured.docx", &document("pictured.docx"));
    vendor.will([Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "deposit" }) }]);
    vendor.will([Say::text("It is 7450 crowns.")]);
    let answer = api.completed(&api.accepted(&json!({ "input": "How much?", "filePaths": [path] })));
    assert_eq!(answer["text"], "It is 7450 crowns.", "the images are read: {answer}");
    let requests = vendor.requests();
    let attached = requests[0].to_string();
    assert!(attached.contains("but for the text in its images (1), which search finds"), "{attached}");
    assert!(requests[1].to_string().contains("The security deposit is 7450 crowns."), "{}", requests[1]);
}

#[test]
fn a_language_model_is_given_the_text_of_an_attached_scan() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let path = upload_and_read(&api, "scanned.pdf", &document("scanned.pdf"));
    vendor.will([Say::text("Done.")]);
    let answer = api.completed(&api.accepted(&json!({ "input": "What is it?", "filePaths": [path] })));
    assert_eq!(answer["text"], "Done.", "nothing of it is unread");
    let request = vendor.requests()[0].to_string();
    assert!(request.contains("15 800 Kč"), "{request}");
}

#[test]
fn letters_beside_a_scan_are_read_with_it() {
    let drawn = b"<</Length 34>>stream\nq 595.68 0 0 841.92 0 0 cm /I Do Q";
    let stamped =
        b"<</Length 72>>stream\nq 595.68 0 0 841.92 0 0 cm /I Do Q BT /F 12 Tf 30 30 Td (Spis 77) Tj ET ";
    let images = b"/Resources<<";
    let fonts = b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>";
    let scan = replaced(&replaced(&document("scanned.pdf"), drawn, stamped), images, fonts);
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let path = upload_and_read(&api, "stamped.pdf", &scan);
    for (question, quoted) in [("Jaký má spis 77 číslo?", "> Spis 77"), ("Kolik činí nájemné?", "15 800")]
    {
        let ask = json!({ "input": question, "model": reader(&api), "filePaths": [path] });
        let answer = answered_from_whole_files(&api, &ask);
        let text = answer["text"].as_str().expect("text");
        assert!(text.contains(quoted), "{text}");
    }
}

/// Asks the built-in reader until the index has read all that it searches: also images, which take long on a busy host.
fn answered_from_whole_files(api: &Api, ask: &Value) -> Value {
    poll::until("the images are read", || {
        let answer = api.completed(&api.accepted(ask));
        let text = answer["text"].as_str().expect("text");
        (!text.contains("still being indexed")).then_some(answer)
    })
}

/// Uploads a file and returns its path once the index has read it with its images, which takes long on a busy host.
fn upload_and_read(api: &Api, name: &str, content: &[u8]) -> String {
    let path = path_of(api.upload(name, content));
    poll::until("the file is read", || {
        let head = api.call("HEAD", &format!("/api/v1/files{path}")).expect_status(200);
        let state = head.header("indexing-state").expect("a state");
        (!matches!(state, "pending" | "indexing")).then_some(())
    });
    path
}

/// Returns the bytes with the first occurrence of a part replaced.
fn replaced(bytes: &[u8], part: &[u8], by: &[u8]) -> Vec<u8> {
    let at = bytes.windows(part.len()).position(|window| window == part).expect("the part is there");
    [&bytes[..at], by, &bytes[at + part.len()..]].concat()
}
