//! Scanned pages and images are recognized by the machine's `tesseract`, cited by page, and searched like other documents.

use std::io::{Cursor, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::api::{builtin_reader_id, uploaded_path};
use e2e::{Api, Expect, Say, ServiceOptions, TestService, poll};
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::streams::{StreamFixture, stream_fixture};
use crate::unread::read_guest_fixture;

#[test]
fn scan_indexed_and_quoted_with_page() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let path = uploaded_path(api.upload_file("scanned.pdf", &read_guest_fixture("scanned.pdf")));
    let entry = poll::wait_until("the scan is read", || {
        let listing = api.list_directory("/uploads").expect_status(200).json();
        let entry = listing["entries"][0].clone();
        (entry["indexing"]["state"] != "pending").then_some(entry)
    });
    let expected = json!({ "state": "indexed", "pagesRead": 1, "pages": 1 });
    assert_eq!(entry["indexing"], expected, "{entry}");
    let ask =
        json!({ "input": "Kolik činí nájemné?", "model": builtin_reader_id(&api), "filePaths": [path] });
    let answer = ask_with_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("15 800") && !text.contains("could not be read"), "{text}");
    assert!(answer.to_string().contains("scanned.pdf#page=1"), "{answer}");
}

#[test]
fn phone_photograph_is_read() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let path = upload_and_read(&api, "IMG_0001.HEIC", &read_guest_fixture("code_word.heic"));
    let ask =
        json!({ "input": "What is the code word?", "model": builtin_reader_id(&api), "filePaths": [path] });
    let answer = ask_with_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("heron") && !text.contains("could not be read"), "{text}");
}

#[test]
fn upside_down_scan_is_read() {
    let upright = b"q 595.68 0 0 841.92 0 0 cm /I Do Q";
    let turned =
        replace_once(&read_guest_fixture("scanned.pdf"), upright, b"q -595 0 0 -841 595 841 cm /I Do Q");
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let path = upload_and_read(&api, "turned.pdf", &turned);
    let ask =
        json!({ "input": "Kolik činí nájemné?", "model": builtin_reader_id(&api), "filePaths": [path] });
    let answer = ask_with_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("15 800"), "{text}");
}

#[test]
fn unpacked_archives_read_with_images() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    for name in ["birds.cab", "birds.lzh"] {
        let path = upload_and_read(&api, name, &read_guest_fixture(name));
        for (question, expected) in
            [("How much does a wren pay?", "12 500"), ("What is the code word?", "heron")]
        {
            let ask = json!({ "input": question, "model": builtin_reader_id(&api), "filePaths": [path] });
            let answer = ask_with_whole_files(&api, &ask);
            let text = answer["text"].as_str().expect("text");
            assert!(text.contains(expected) && !text.contains("could not be read"), "{name}: {text}");
        }
    }
}

#[test]
fn signed_content_read_with_scans() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    for (name, question, expected, place) in [
        ("signed.pdf.p7m", "Kolik činí nájemné?", "15 800", json!({ "page": 1 })),
        ("data_message.zfo", "Do kdy má být doplněna žádost o dotaci?", "do 15 dnů", json!({})),
        ("data_message.zfo", "What is the code word?", "heron", json!({})),
    ] {
        let path = upload_and_read(&api, name, &read_guest_fixture(name));
        let ask = json!({ "input": question, "model": builtin_reader_id(&api), "filePaths": [path] });
        let answer = ask_with_whole_files(&api, &ask);
        let text = answer["text"].as_str().expect("text");
        assert!(text.contains(expected) && !text.contains("could not be read"), "{text}");
        let parts = answer["parts"].as_array().expect("parts");
        let part = parts.iter().find(|part| part["type"] == "TEXT").expect("a text");
        let source = &part["citations"][0]["source"];
        assert_eq!((&source["path"], &source["page"]), (&json!(path), &place["page"]), "{answer}");
    }
}

#[test]
fn archived_scan_quoted_with_its_place() {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for name in ["minutes.docx", "scanned.pdf", "locked.pdf"] {
        archive.start_file(format!("papers/{name}"), SimpleFileOptions::default()).expect("a file");
        archive.write_all(&read_guest_fixture(name)).expect("its content");
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
        let service = TestService::start(ServiceOptions::default());
        let api = service.api_for(&service.create_account());
        let path = uploaded_path(api.upload_file(name, &content));
        let indexing = poll::wait_until("the scan is read", || {
            let indexing =
                api.list_directory("/uploads").expect_status(200).json()["entries"][0]["indexing"].clone();
            (indexing["state"] == "partial").then_some(indexing)
        });
        assert_eq!(indexing["reason"], "inner_files", "one of the files needs a password: {indexing}");
        let ask =
            json!({ "input": "Kolik činí nájemné?", "model": builtin_reader_id(&api), "filePaths": [path] });
        let answer = ask_with_whole_files(&api, &ask);
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
fn image_text_in_document_quoted() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let path = upload_and_read(&api, "pictured.docx", &read_guest_fixture("pictured.docx"));
    let ask = json!({ "input": "How much is the security deposit?", "model": builtin_reader_id(&api) });
    let answer = ask_with_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("7450 crowns"), "{text}");
    let source =
        &answer["parts"].as_array().and_then(|parts| parts.iter().find(|part| part["type"] == "TEXT"));
    let source = &source.expect("a text")["citations"][0]["source"];
    assert_eq!((&source["path"], &source["lines"]), (&json!(path), &json!([2, 2])), "{answer}");
}

#[test]
fn image_text_in_books_quoted() {
    let picture = STANDARD.encode(read_guest_fixture("code_word.png"));
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
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    for (name, content, page, lines) in [
        ("birds.fb2", book, json!(2), json!(null)),
        ("birds.ipynb", notebook.to_string(), json!(null), json!([5, 5])),
    ] {
        let path = upload_and_read(&api, name, content.as_bytes());
        let ask = json!({ "input": "What is the code word?", "model": builtin_reader_id(&api), "filePaths": [path] });
        let answer = ask_with_whole_files(&api, &ask);
        let text = answer["text"].as_str().expect("text");
        assert!(text.contains("heron") && !text.contains("could not be read"), "{name}: {text}");
        let parts = answer["parts"].as_array().expect("parts");
        let part = parts.iter().find(|part| part["type"] == "TEXT").expect("a text");
        let source = &part["citations"][0]["source"];
        assert_eq!((&source["page"], &source["lines"]), (&page, &lines), "{answer}");
    }
}

#[test]
fn image_text_on_page_quoted() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let path = upload_and_read(&api, "manual.pdf", &read_guest_fixture("pictured.pdf"));
    let ask = json!({ "input": "What is the pressure limit?", "model": builtin_reader_id(&api), "filePaths": [path] });
    let answer = ask_with_whole_files(&api, &ask);
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("47 kilopascals"), "{text}");
    assert!(answer.to_string().contains("manual.pdf#page=2"), "{answer}");
}

#[test]
fn unread_images_counted_with_reasons() {
    const NOT_READ: &str =
        "was read without the text of 3 of the images in it (too large: 1, not recognizable: 2)";
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let path = uploaded_path(api.upload_file("report.docx", &read_guest_fixture("unread_images.docx")));
    let indexing = poll::wait_until("the images are tried", || {
        let listing = api.list_directory("/uploads").expect_status(200).json();
        let indexing = listing["entries"][0]["indexing"].clone();
        (indexing["state"] == "partial").then_some(indexing)
    });
    assert_eq!((&indexing["reason"], &indexing["message"]), (&json!("images"), &json!(NOT_READ)));
    let sentence = format!("The attached file `report.docx` {NOT_READ}.");
    let ask =
        json!({ "input": "How much is the rent?", "model": builtin_reader_id(&api), "filePaths": [path] });
    let answer = api.wait_for_completion(&api.expect_accepted(&ask));
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("900 crowns") && text.contains(&sentence), "{text}");
    vendor.add_script([Say::from_text("It is 900 crowns.")]);
    let answer =
        api.wait_for_completion(&api.expect_accepted(&json!({ "input": "How much?", "filePaths": [path] })));
    assert!(answer["text"].as_str().is_some_and(|text| text.ends_with(&sentence)), "{answer}");
}

#[test]
fn model_is_told_of_attached_images() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let path = upload_and_read(&api, "pictured.docx", &read_guest_fixture("pictured.docx"));
    vendor.add_script([Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "deposit" }) }]);
    vendor.add_script([Say::from_text("It is 7450 crowns.")]);
    let answer =
        api.wait_for_completion(&api.expect_accepted(&json!({ "input": "How much?", "filePaths": [path] })));
    assert_eq!(answer["text"], "It is 7450 crowns.", "the images are read: {answer}");
    let requests = vendor.request_bodies();
    let attached = requests[0].to_string();
    assert!(attached.contains("but for the text in its images (1), which search finds"), "{attached}");
    assert!(requests[1].to_string().contains("The security deposit is 7450 crowns."), "{}", requests[1]);
}

#[test]
fn model_gets_text_of_attached_scan() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let path = upload_and_read(&api, "scanned.pdf", &read_guest_fixture("scanned.pdf"));
    vendor.add_script([Say::from_text("Done.")]);
    let answer = api
        .wait_for_completion(&api.expect_accepted(&json!({ "input": "What is it?", "filePaths": [path] })));
    assert_eq!(answer["text"], "Done.", "nothing of it is unread");
    let request = vendor.request_bodies()[0].to_string();
    assert!(request.contains("15 800 Kč"), "{request}");
}

#[test]
fn letters_beside_scan_are_read() {
    let drawn = b"<</Length 34>>stream\nq 595.68 0 0 841.92 0 0 cm /I Do Q";
    let stamped =
        b"<</Length 72>>stream\nq 595.68 0 0 841.92 0 0 cm /I Do Q BT /F 12 Tf 30 30 Td (Spis 77) Tj ET ";
    let images = b"/Resources<<";
    let fonts = b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>";
    let scan = replace_once(&replace_once(&read_guest_fixture("scanned.pdf"), drawn, stamped), images, fonts);
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let path = upload_and_read(&api, "stamped.pdf", &scan);
    for (question, quoted) in [("Jaký má spis 77 číslo?", "> Spis 77"), ("Kolik činí nájemné?", "15 800")]
    {
        let ask = json!({ "input": question, "model": builtin_reader_id(&api), "filePaths": [path] });
        let answer = ask_with_whole_files(&api, &ask);
        let text = answer["text"].as_str().expect("text");
        assert!(text.contains(quoted), "{text}");
    }
}

/// Asks the built-in reader until the index has read all that it searches: also images, which take long on a busy host.
fn ask_with_whole_files(api: &Api, ask: &Value) -> Value {
    poll::wait_until("the images are read", || {
        let answer = api.wait_for_completion(&api.expect_accepted(ask));
        let text = answer["text"].as_str().expect("text");
        (!text.contains("still being indexed")).then_some(answer)
    })
}

/// Uploads a file and returns its path once the index has read it with its images, which takes long on a busy host.
fn upload_and_read(api: &Api, name: &str, content: &[u8]) -> String {
    let path = uploaded_path(api.upload_file(name, content));
    poll::wait_until("the file is read", || {
        let head = api.call_endpoint("HEAD", &format!("/api/v1/files{path}")).expect_status(200);
        let state = head.header("indexing-state").expect("a state");
        (!matches!(state, "pending" | "indexing")).then_some(())
    });
    path
}

/// Returns the bytes with the first occurrence of a part replaced.
fn replace_once(bytes: &[u8], part: &[u8], by: &[u8]) -> Vec<u8> {
    let at = bytes.windows(part.len()).position(|window| window == part).expect("the part is there");
    [&bytes[..at], by, &bytes[at + part.len()..]].concat()
}
