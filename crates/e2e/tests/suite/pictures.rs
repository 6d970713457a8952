//! Models that accept images are shown pages of documents as pictures, which the machine draws.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::api::{encode_path, uploaded_path};
use e2e::fake_vendors::{FakeVendorFormat, FakeVendors};
use e2e::{Expect, Say, ServiceOptions, TestService};
use serde_json::{Value, json};

use crate::context::{ask_with_files, start_described_model};
use crate::unread::read_guest_fixture;

const SEES: &str = "sees_images = true\n";

fn view_call(path: &str, first_page: u32, pages: u32) -> Say {
    let arguments = json!({ "path": path, "first_page": first_page, "pages": pages });
    Say::Call { tool: "view".to_owned(), arguments }
}

/// Returns each image of a request with the text before it, and its width and height.
fn request_pictures(request: &Value) -> Vec<(String, u32, u32)> {
    request_pictures_in(FakeVendorFormat::ChatCompletions, request)
}

/// Returns the images of a request at the documented place, in the user's turns.
fn request_pictures_in(format: FakeVendorFormat, request: &Value) -> Vec<(String, u32, u32)> {
    let (turns, pieces) = match format {
        FakeVendorFormat::Anthropic | FakeVendorFormat::ChatCompletions => ("messages", "content"),
        FakeVendorFormat::Responses => ("input", "content"),
        FakeVendorFormat::Gemini => ("contents", "parts"),
    };
    let turns = request[turns].as_array().expect("turns").iter().filter(|turn| turn["role"] == "user");
    let pieces: Vec<&Value> = turns.filter_map(|turn| turn[pieces].as_array()).flatten().collect();
    let image = |pair: &[&Value]| {
        let (width, height) = png_sides(image_data(format, pair[1])?);
        Some((pair[0]["text"].as_str()?.to_owned(), width, height))
    };
    pieces.windows(2).filter_map(image).collect()
}

/// Returns the width and height of a PNG in base64.
fn png_sides(image: &str) -> (u32, u32) {
    let png = STANDARD.decode(image).expect("base64");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert!(png.starts_with(b"\x89PNG") && png.ends_with(b"IEND\xaeB\x60\x82"), "a whole PNG");
    (number(16), number(20))
}

fn offers_view(request: &Value) -> bool {
    let tools = request["tools"].as_array().expect("tools");
    tools.iter().any(|tool| tool["function"]["name"] == "view")
}

#[test]
fn vision_model_shown_requested_pages() {
    let (vendor, _service, api, _folder) = start_described_model(SEES);
    let path = uploaded_path(api.upload_file("lease.pdf", &read_guest_fixture("lease.pdf")));
    vendor.add_script([view_call(&path, 1, 2)]);
    vendor.add_script([Say::from_text("Two pages.")]);
    let answer = ask_with_files(&api, "What does it look like?", &[], None);
    assert_eq!(answer["text"], "Two pages.", "{answer}");
    let requests = vendor.request_bodies();
    assert!(offers_view(&requests[0]) && request_pictures(&requests[0]).is_empty(), "{}", requests[0]);
    let shown = |page: u32| (format!("The image {path}, page {page}:"), 1108, 1568);
    assert_eq!(request_pictures(&requests[1]), [shown(1), shown(2)]);
    let result =
        requests[1]["messages"].as_array().expect("messages").iter().find(|one| one["role"] == "tool");
    let text = result.expect("a result")["content"].to_string();
    assert!(text.contains("page 2: 1108 x 1568 pixels"), "{text}");

    // They are drawn again when the conversation continues, while the file is unchanged.
    vendor.add_script([Say::from_text("Still two.")]);
    let again = ask_with_files(&api, "How many?", &[], Some(&answer));
    assert_eq!(request_pictures(&vendor.request_bodies()[2]), [shown(1), shown(2)]);
    api.delete_file(&encode_path(&path)).expect_status(204);
    assert_eq!(uploaded_path(api.upload_file("lease.pdf", &read_guest_fixture("scanned.pdf"))), path);
    vendor.add_script([Say::from_text("Gone.")]);
    ask_with_files(&api, "And now?", &[], Some(&again));
    assert_eq!(
        request_pictures(&vendor.request_bodies()[3]),
        [],
        "another document is not shown in its place"
    );
}

/// Returns the base64 of an image in the form that the vendor documents, if the value is one.
fn image_data(format: FakeVendorFormat, value: &Value) -> Option<&str> {
    let prefix = "data:image/png;base64,";
    match format {
        FakeVendorFormat::Anthropic => {
            let source = &value["source"];
            let is_image = value["type"] == "image" && source["type"] == "base64";
            source["data"].as_str().filter(|_| is_image && source["media_type"] == "image/png")
        }
        FakeVendorFormat::ChatCompletions => {
            let url = value["image_url"]["url"].as_str().filter(|_| value["type"] == "image_url")?;
            url.strip_prefix(prefix)
        }
        FakeVendorFormat::Responses => {
            let url = value["image_url"].as_str().filter(|_| value["type"] == "input_image")?;
            url.strip_prefix(prefix)
        }
        FakeVendorFormat::Gemini => {
            let data = &value["inlineData"];
            data["data"].as_str().filter(|_| data["mimeType"] == "image/png")
        }
    }
}

#[test]
fn pages_reach_models_in_every_format() {
    for (format, vendor) in [
        (FakeVendorFormat::Anthropic, "anthropic"),
        (FakeVendorFormat::ChatCompletions, "openai"),
        (FakeVendorFormat::Responses, "openai"),
        (FakeVendorFormat::Gemini, "google"),
    ] {
        let fake_vendors = FakeVendors::start();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("causerie.toml");
        let described = format!("[[model]]\nid = \"standin\"\nvendor = \"{vendor}\"\n{SEES}");
        std::fs::write(&file, described).expect("a file");
        let arguments = vec!["--config".to_owned(), file.to_str().expect("a path").to_owned()];
        let environment = fake_vendors.service_environment_for(format);
        let service = TestService::start(ServiceOptions { environment, arguments });
        let api = service.api_for(&service.create_account());
        let path = uploaded_path(api.upload_file("lease.pdf", &read_guest_fixture("lease.pdf")));
        let view = json!({ "call": { "tool": "view", "arguments": { "path": path, "first_page": 2 } } });
        let script = json!({ "steps": [{ "actions": [view] }, { "actions": [{ "say": "A page." }] }] });
        let asked = json!({ "model": "standin", "input": format!("STANDIN {script}") });
        let answer = api.wait_for_completion(&api.expect_accepted(&asked));
        assert_eq!(answer["text"], "A page.", "{format:?}: {answer}");
        let requests = fake_vendors.all_requests();
        let last = &requests.last().expect("a request")["body"];
        let expected = (format!("The image {path}, page 2:"), 1108, 1568);
        assert_eq!(request_pictures_in(format, last), [expected], "{format:?}: {last}");
    }
}

#[test]
fn viewed_scan_is_not_reported_unread() {
    let (vendor, _service, api, _folder) = start_described_model(SEES);
    let path = uploaded_path(api.upload_file("scan.pdf", &read_guest_fixture("scan.pdf")));
    vendor.add_script([Say::from_text("Nothing.")]);
    let unseen = ask_with_files(&api, "What does it say?", std::slice::from_ref(&path), None);
    let text = unseen["text"].as_str().expect("text");
    assert!(text.contains("`scan.pdf` could not be read: it holds no text"), "{text}");
    vendor.add_script([view_call(&path, 1, 4)]);
    vendor.add_script([Say::from_text("An empty page.")]);
    let seen = ask_with_files(&api, "What does it say?", std::slice::from_ref(&path), None);
    assert_eq!(seen["text"], "An empty page.", "{seen}");
}

#[test]
fn view_is_not_offered_without_vision() {
    let (vendor, _service, api, _folder) = start_described_model("");
    let path = uploaded_path(api.upload_file("scan.pdf", &read_guest_fixture("scan.pdf")));
    vendor.add_script([view_call(&path, 1, 1)]);
    vendor.add_script([Say::from_text("A page.")]);
    let answer = ask_with_files(&api, "What does it say?", &[path], None);
    let requests = vendor.request_bodies();
    assert!(!offers_view(&requests[0]) && request_pictures(&requests[1]).is_empty());
    let text = answer["text"].as_str().expect("text");
    assert!(
        text.contains("`scan.pdf` could not be read: it holds no text"),
        "it was called anyway, and not shown: {text}"
    );
}

#[test]
fn undrawable_pages_reported_to_model() {
    let (vendor, _service, api, _folder) = start_described_model(SEES);
    let huge = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
         3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 1000000000 1000000000]>>endobj\ntrailer<</Root 1 0 R>>\n";
    let locked = uploaded_path(api.upload_file("locked.pdf", &read_guest_fixture("locked.pdf")));
    let text = uploaded_path(api.upload_file("plain.txt", b"Only words."));
    let huge = uploaded_path(api.upload_file("huge.pdf", huge.as_bytes()));
    vendor.add_script([view_call(&locked, 1, 1), view_call(&text, 1, 1), view_call(&huge, 1, 4)]);
    vendor.add_script([Say::from_text("Done.")]);
    let answer = ask_with_files(&api, "Look at them", &[], None);
    assert_eq!(answer["text"], "Done.", "{answer}");
    let request = vendor.request_bodies().pop().expect("a request");
    let said = request.to_string();
    assert!(said.contains("is encrypted and needs a password"), "{said}");
    assert!(said.contains("neither a PDF nor an image"), "{said}");
    assert!(
        request_pictures(&request).iter().all(|(_, width, height)| *width <= 1568 && *height <= 1568),
        "{said}"
    );
}
