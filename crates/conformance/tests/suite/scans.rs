//! Scanned pages and images are recognized by the machine's `tesseract`, cited by page, and searched like other documents.

use conformance::api::{path_of, reader};
use conformance::{Expect, Options, Say, Service, poll};
use serde_json::json;

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
    let answer = api.completed(&api.accepted(&ask));
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("15 800") && !text.contains("could not be read"), "{text}");
    assert!(answer.to_string().contains("scanned.pdf#page=1"), "{answer}");
}

#[test]
fn a_scan_that_stands_on_its_head_is_read() {
    let upright = b"q 595.68 0 0 841.92 0 0 cm /I Do Q";
    let mut turned = document("scanned.pdf");
    let at = turned.windows(upright.len()).position(|window| window == upright).expect("the image is drawn");
    turned[at..at + upright.len()].copy_from_slice(b"q -595 0 0 -841 595 841 cm /I Do Q");
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let path = path_of(api.upload("turned.pdf", &turned));
    let ask = json!({ "input": "Kolik činí nájemné?", "model": reader(&api), "filePaths": [path] });
    let answer = api.completed(&api.accepted(&ask));
    let text = answer["text"].as_str().expect("text");
    assert!(text.contains("15 800"), "{text}");
}

#[test]
fn a_language_model_is_given_the_text_of_an_attached_scan() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let path = path_of(api.upload("scanned.pdf", &document("scanned.pdf")));
    poll::until("the scan is read", || {
        let head = api.call("HEAD", &format!("/api/v1/files{path}")).expect_status(200);
        head.header("indexing-state").is_some_and(|state| state.starts_with("indexed")).then_some(())
    });
    vendor.will([Say::text("Done.")]);
    let answer = api.completed(&api.accepted(&json!({ "input": "What is it?", "filePaths": [path] })));
    assert_eq!(answer["text"], "Done.", "nothing of it is unread");
    let request = vendor.requests()[0].to_string();
    assert!(request.contains("15 800 Kč"), "{request}");
}
