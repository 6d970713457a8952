//! Models that accept images are shown pages of documents as pictures, which the machine draws.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use conformance::api::{encoded, path_of};
use conformance::fake_vendors::{FakeVendors, Format};
use conformance::{Expect, Options, Say, Service};
use serde_json::{Value, json};

use crate::context::{asked, stage};
use crate::unread::document;

const SEES: &str = "sees_images = true\n";

fn view(path: &str, first_page: u32, pages: u32) -> Say {
    let arguments = json!({ "path": path, "first_page": first_page, "pages": pages });
    Say::Call { tool: "view".to_owned(), arguments }
}

/// Returns each image of a request with the text before it, and its width and height.
fn pictures(request: &Value) -> Vec<(String, u32, u32)> {
    pictures_in(Format::ChatCompletions, request)
}

/// Returns those images of a request that are where the vendor documents them, in the user's turns.
fn pictures_in(format: Format, request: &Value) -> Vec<(String, u32, u32)> {
    let (turns, pieces) = match format {
        Format::Anthropic | Format::ChatCompletions => ("messages", "content"),
        Format::Responses => ("input", "content"),
        Format::Gemini => ("contents", "parts"),
    };
    let turns = request[turns].as_array().expect("turns").iter().filter(|turn| turn["role"] == "user");
    let pieces: Vec<&Value> = turns.filter_map(|turn| turn[pieces].as_array()).flatten().collect();
    let image = |pair: &[&Value]| {
        let (width, height) = sides(image_of(format, pair[1])?);
        Some((pair[0]["text"].as_str()?.to_owned(), width, height))
    };
    pieces.windows(2).filter_map(image).collect()
}

/// Returns the width and height of a PNG in base64.
fn sides(image: &str) -> (u32, u32) {
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
fn a_model_that_sees_is_shown_the_pages_that_it_asks_for() {
    let (vendor, _service, api, _folder) = stage(SEES);
    let path = path_of(api.upload("lease.pdf", &document("lease.pdf")));
    vendor.will([view(&path, 1, 2)]);
    vendor.will([Say::text("Two pages.")]);
    let answer = asked(&api, "What does it look like?", &[], None);
    assert_eq!(answer["text"], "Two pages.", "{answer}");
    let requests = vendor.requests();
    assert!(offers_view(&requests[0]) && pictures(&requests[0]).is_empty(), "{}", requests[0]);
    let shown = |page: u32| (format!("The image {path}, page {page}:"), 1108, 1568);
    assert_eq!(pictures(&requests[1]), [shown(1), shown(2)]);
    let result =
        requests[1]["messages"].as_array().expect("messages").iter().find(|one| one["role"] == "tool");
    let text = result.expect("a result")["content"].to_string();
    assert!(text.contains("page 2: 1108 x 1568 pixels"), "{text}");

    // They are drawn again when the conversation goes on, as long as the file is the same.
    vendor.will([Say::text("Still two.")]);
    let again = asked(&api, "How many?", &[], Some(&answer));
    assert_eq!(pictures(&vendor.requests()[2]), [shown(1), shown(2)]);
    api.delete_file(&encoded(&path)).expect_status(204);
    assert_eq!(path_of(api.upload("lease.pdf", &document("scanned.pdf"))), path);
    vendor.will([Say::text("Gone.")]);
    asked(&api, "And now?", &[], Some(&again));
    assert_eq!(pictures(&vendor.requests()[3]), [], "another document is not shown in its place");
}

/// Returns the base64 of an image in the form that the vendor documents, if the value is one.
fn image_of(format: Format, value: &Value) -> Option<&str> {
    let prefix = "data:image/png;base64,";
    match format {
        Format::Anthropic => {
            let source = &value["source"];
            let is_image = value["type"] == "image" && source["type"] == "base64";
            source["data"].as_str().filter(|_| is_image && source["media_type"] == "image/png")
        }
        Format::ChatCompletions => {
            let url = value["image_url"]["url"].as_str().filter(|_| value["type"] == "image_url")?;
            url.strip_prefix(prefix)
        }
        Format::Responses => {
            let url = value["image_url"].as_str().filter(|_| value["type"] == "input_image")?;
            url.strip_prefix(prefix)
        }
        Format::Gemini => {
            let data = &value["inlineData"];
            data["data"].as_str().filter(|_| data["mimeType"] == "image/png")
        }
    }
}

#[test]
fn pages_reach_the_models_of_every_vendor() {
    for (format, vendor) in [
        (Format::Anthropic, "anthropic"),
        (Format::ChatCompletions, "openai"),
        (Format::Responses, "openai"),
        (Format::Gemini, "google"),
    ] {
        let fake_vendors = FakeVendors::start();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("causerie.toml");
        let described = format!("[[model]]\nid = \"standin\"\nvendor = \"{vendor}\"\n{SEES}");
        std::fs::write(&file, described).expect("a file");
        let arguments = vec!["--config".to_owned(), file.to_str().expect("a path").to_owned()];
        let environment = fake_vendors.environment_of(format);
        let service = Service::start(Options { environment, arguments });
        let api = service.api(&service.account());
        let path = path_of(api.upload("lease.pdf", &document("lease.pdf")));
        let view = json!({ "call": { "tool": "view", "arguments": { "path": path, "first_page": 2 } } });
        let script = json!({ "steps": [{ "actions": [view] }, { "actions": [{ "say": "A page." }] }] });
        let asked = json!({ "model": "standin", "input": format!("STANDIN {script}") });
        let answer = api.completed(&api.accepted(&asked));
        assert_eq!(answer["text"], "A page.", "{format:?}: {answer}");
        let requests = fake_vendors.requests();
        let last = &requests.last().expect("a request")["body"];
        let expected = (format!("The image {path}, page 2:"), 1108, 1568);
        assert_eq!(pictures_in(format, last), [expected], "{format:?}: {last}");
    }
}

#[test]
fn a_scan_without_text_that_the_model_saw_is_not_called_unread() {
    let (vendor, _service, api, _folder) = stage(SEES);
    let path = path_of(api.upload("scan.pdf", &document("scan.pdf")));
    vendor.will([Say::text("Nothing.")]);
    let unseen = asked(&api, "What does it say?", std::slice::from_ref(&path), None);
    let text = unseen["text"].as_str().expect("text");
    assert!(text.contains("`scan.pdf` could not be read: it holds no text"), "{text}");
    vendor.will([view(&path, 1, 4)]);
    vendor.will([Say::text("An empty page.")]);
    let seen = asked(&api, "What does it say?", std::slice::from_ref(&path), None);
    assert_eq!(seen["text"], "An empty page.", "{seen}");
}

#[test]
fn a_model_that_does_not_see_is_not_offered_pictures() {
    let (vendor, _service, api, _folder) = stage("");
    let path = path_of(api.upload("scan.pdf", &document("scan.pdf")));
    vendor.will([view(&path, 1, 1)]);
    vendor.will([Say::text("A page.")]);
    let answer = asked(&api, "What does it say?", &[path], None);
    let requests = vendor.requests();
    assert!(!offers_view(&requests[0]) && pictures(&requests[1]).is_empty());
    let text = answer["text"].as_str().expect("text");
    assert!(
        text.contains("`scan.pdf` could not be read: it holds no text"),
        "it was called all the same, and seen by nobody: {text}"
    );
}

#[test]
fn what_cannot_be_drawn_is_told_to_the_model_and_harms_nothing() {
    let (vendor, _service, api, _folder) = stage(SEES);
    let huge = "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
         3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 1000000000 1000000000]>>endobj\ntrailer<</Root 1 0 R>>\n";
    let locked = path_of(api.upload("locked.pdf", &document("locked.pdf")));
    let text = path_of(api.upload("plain.txt", b"Only words."));
    let huge = path_of(api.upload("huge.pdf", huge.as_bytes()));
    vendor.will([view(&locked, 1, 1), view(&text, 1, 1), view(&huge, 1, 4)]);
    vendor.will([Say::text("Done.")]);
    let answer = asked(&api, "Look at them", &[], None);
    assert_eq!(answer["text"], "Done.", "{answer}");
    let request = vendor.requests().pop().expect("a request");
    let said = request.to_string();
    assert!(said.contains("is encrypted and needs a password"), "{said}");
    assert!(said.contains("neither a PDF nor an image"), "{said}");
    assert!(pictures(&request).iter().all(|(_, width, height)| *width <= 1568 && *height <= 1568), "{said}");
}
