//! Attached files that cannot be read are named in the answer with the reason, for every model. Temporary
//! uploads are readable by the question that attaches them.

use conformance::api::{Part, parts_of, path_of, reader};
use conformance::{Api, Expect, Options, Say, Service};
use serde_json::{Value, json};

use crate::streams::{Stage, stage};

/// Returns a document of the agent's own tests.
pub(crate) fn document(name: &str) -> Vec<u8> {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest/tests/fixtures/");
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
fn uploaded(api: &Api) -> Vec<String> {
    let legacy = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 an old presentation".to_vec();
    let film = b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41".to_vec();
    let content = |name: &str| match name {
        "slides.ppt" => legacy.clone(),
        "clip.mp4" => film.clone(),
        _ => document(name),
    };
    let unreadable = UNREADABLE.iter().map(|(name, _)| path_of(api.upload(name, &content(name))));
    let readable = path_of(api.upload("terms.txt", b"The monthly rent is 18,500 crowns."));
    unreadable.chain([readable]).collect()
}

/// Checks that each document is named with its reason, in the text and in a part of the answer.
fn names_them(answer: &Value) {
    let text = answer["text"].as_str().expect("text");
    let html = parts_of(answer, "TEXT").last().expect("a part of text")["content"].to_string();
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
fn the_built_in_reader_names_attached_files_that_it_could_not_read() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let model = reader(&api);
    let paths = uploaded(&api);
    let ask = |input: &str| json!({ "input": input, "model": model, "filePaths": paths });
    let answer = api.completed(&api.accepted(&ask("How much is the monthly rent?")));
    assert!(answer["text"].as_str().is_some_and(|text| text.contains("18,500")), "{answer}");
    names_them(&answer);
    let answer = api.completed(&api.accepted(&ask("What colour is the dragon?")));
    names_them(&answer);
    assert_eq!(api.completed(&answer), answer, "it is the same however often it is collected");
}

#[test]
fn a_language_model_that_says_nothing_of_unreadable_files_does_not_hide_them() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let paths = uploaded(&api);
    vendor.will([Say::text("Done.")]);
    let answer = api.completed(&api.accepted(&json!({ "input": "What do they say?", "filePaths": paths })));
    assert!(answer["text"].as_str().is_some_and(|text| text.starts_with("Done.")), "{answer}");
    names_them(&answer);
    let request = vendor.requests()[0].to_string();
    assert!(
        request.contains("18,500") && request.contains("needs a password"),
        "the model gets the reasons, too: {request}"
    );
    // The next question attaches nothing, so nothing is named again.
    let next = json!({ "input": "Go on", "chatId": answer["chatId"] });
    assert_eq!(api.completed(&api.accepted(&next))["text"], "Done.");
}

#[test]
fn a_temporary_upload_is_searched_by_the_question_that_it_is_attached_to_alone() {
    let Stage { vendor, api, service: _service, .. } = stage();
    let temporary = |name: &str, text: &str| {
        path_of(api.upload_form(&[Part::file(name, text.as_bytes()), Part::field("temporary", "true")]))
    };
    let heron = temporary("note.txt", "The code word of the garden is heron.");
    let other = temporary("other.txt", "The code word of the cellar is otter.");
    let model = reader(&api);
    let ask =
        |paths: &[&str]| json!({ "input": "What is the code word?", "model": model, "filePaths": paths });
    let text_of = |question: &Value| {
        let answer = api.completed(&api.accepted(question));
        answer["text"].as_str().expect("text").to_owned()
    };
    let text = text_of(&ask(&[&heron]));
    assert!(text.contains("heron") && !text.contains("otter"), "{text}");
    let text = text_of(&ask(&[]));
    assert!(!text.contains("heron") && !text.contains("otter"), "hidden folders stay out: {text}");

    // A language model's search covers attached files without naming them.
    let search = || [Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "code word" }) }];
    vendor.will(search());
    vendor.will([Say::text("Otter.")]);
    let answer = api.accepted(&json!({ "input": "What is the code word?", "filePaths": [other] }));
    api.completed(&answer);
    let request =
        vendor.requests()[1]["messages"].as_array().expect("messages").last().expect("one").to_string();
    assert!(request.contains("otter") && !request.contains("heron"), "{request}");
    assert_eq!(api.download(&other).expect_status(200).text(), "The code word of the cellar is otter.");
}
