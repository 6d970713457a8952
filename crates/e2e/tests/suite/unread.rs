//! Attached files that cannot be read are named in the answer with the reason, for every model. Temporary
//! uploads are readable by the question that attaches them.

use e2e::api::{UploadPart, builtin_reader_id, find_parts, uploaded_path};
use e2e::{Api, Expect, Say, ServiceOptions, TestService};
use serde_json::{Value, json};

use crate::streams::{StreamFixture, stream_fixture};

/// Returns a document of the agent's own tests.
pub(crate) fn read_guest_fixture(name: &str) -> Vec<u8> {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../documents/tests/fixtures/");
    std::fs::read(format!("{fixtures}{name}")).expect("the document is there")
}

/// Unreadable documents, with the reason of each in the answer.
const UNREADABLE: [(&str, &str); 6] = [
    ("locked.pdf", "encrypted"),
    ("scan.pdf", "no text"),
    ("slides.ppt", "damaged"),
    ("clip.mp4", "format is not supported"),
    ("bomb.docx", "too large"),
    ("broken.pdf", "damaged"),
];

/// Uploads the unreadable documents and a readable one, and returns their paths.
fn upload_documents(api: &Api) -> Vec<String> {
    let legacy = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 an old presentation".to_vec();
    let film = b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41".to_vec();
    let content = |name: &str| match name {
        "slides.ppt" => legacy.clone(),
        "clip.mp4" => film.clone(),
        _ => read_guest_fixture(name),
    };
    let unreadable = UNREADABLE.iter().map(|(name, _)| uploaded_path(api.upload_file(name, &content(name))));
    let readable = uploaded_path(api.upload_file("terms.txt", b"The monthly rent is 18,500 crowns."));
    unreadable.chain([readable]).collect()
}

/// Checks that each document is named with its reason, in the text and in a part of the answer.
fn names_them(answer: &Value) {
    let text = answer["text"].as_str().expect("text");
    let html = find_parts(answer, "TEXT").last().expect("a part of text")["content"].to_string();
    for (name, reason) in UNREADABLE {
        let line = text.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line.contains(reason), "{name}, {reason}: {text}");
        assert!(html.contains(name) && html.contains(reason), "{name}, {reason}: {html}");
    }
    let last = text.split("Not all attached files").last().unwrap_or_default();
    assert!(!last.contains("terms.txt"), "readable files are not named: {text}");
    assert!(answer["error"].is_null(), "{answer}");
}

#[test]
fn builtin_reader_names_unread_attachments() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let model = builtin_reader_id(&api);
    let paths = upload_documents(&api);
    let ask = |input: &str| json!({ "input": input, "model": model, "filePaths": paths });
    let answer = api.wait_for_completion(&api.expect_accepted(&ask("How much is the monthly rent?")));
    assert!(answer["text"].as_str().is_some_and(|text| text.contains("18,500")), "{answer}");
    names_them(&answer);
    let answer = api.wait_for_completion(&api.expect_accepted(&ask("What colour is the dragon?")));
    names_them(&answer);
    assert_eq!(api.wait_for_completion(&answer), answer, "it is the same however often it is collected");
}

#[test]
fn silent_model_hides_no_unread_files() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let paths = upload_documents(&api);
    vendor.add_script([Say::from_text("Done.")]);
    let answer = api.wait_for_completion(
        &api.expect_accepted(&json!({ "input": "What do they say?", "filePaths": paths })),
    );
    assert!(answer["text"].as_str().is_some_and(|text| text.starts_with("Done.")), "{answer}");
    names_them(&answer);
    let request = vendor.request_bodies()[0].to_string();
    assert!(
        request.contains("18,500") && request.contains("needs a password"),
        "the model gets the reasons, too: {request}"
    );
    // The next question attaches nothing, so nothing is named again.
    let next = json!({ "input": "Go on", "chatId": answer["chatId"] });
    assert_eq!(api.wait_for_completion(&api.expect_accepted(&next))["text"], "Done.");
}

#[test]
fn temporary_upload_searched_by_its_question() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    let temporary = |name: &str, text: &str| {
        uploaded_path(api.upload_form(&[
            UploadPart::from_file(name, text.as_bytes()),
            UploadPart::from_field("temporary", "true"),
        ]))
    };
    let heron = temporary("note.txt", "The code word of the garden is heron.");
    let other = temporary("other.txt", "The code word of the cellar is otter.");
    let model = builtin_reader_id(&api);
    let ask =
        |paths: &[&str]| json!({ "input": "What is the code word?", "model": model, "filePaths": paths });
    let text_of = |question: &Value| {
        let answer = api.wait_for_completion(&api.expect_accepted(question));
        answer["text"].as_str().expect("text").to_owned()
    };
    let text = text_of(&ask(&[&heron]));
    assert!(text.contains("heron") && !text.contains("otter"), "{text}");
    let text = text_of(&ask(&[]));
    assert!(!text.contains("heron") && !text.contains("otter"), "hidden folders stay out: {text}");

    // A language model's search covers attached files without naming them.
    let search = || [Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "code word" }) }];
    vendor.add_script(search());
    vendor.add_script([Say::from_text("Otter.")]);
    let answer = api.expect_accepted(&json!({ "input": "What is the code word?", "filePaths": [other] }));
    api.wait_for_completion(&answer);
    let request =
        vendor.request_bodies()[1]["messages"].as_array().expect("messages").last().expect("one").to_string();
    assert!(request.contains("otter") && !request.contains("heron"), "{request}");
    assert_eq!(api.download_file(&other).expect_status(200).text(), "The code word of the cellar is otter.");
}
