//! Section 2.10: the parts and sources of the built-in reader's answers.

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect, builtin_reader_id, find_parts};

const LEASE: &str = "LEASE AGREEMENT\n\nThe flat at Dlouhá 12 is let for three years.\n\n\
    The monthly rent is 18,500 crowns, payable by the fifth day of each month.\n\n\
    The tenant may keep one cat. The landlord insures the building.\n\n\
    Either party may give notice of three months in writing.\n";

fn ask_about_lease(api: &Api) -> Value {
    api.upload_file("lease.txt", LEASE.as_bytes()).expect_status(201);
    let question = json!({ "input": "How much is the monthly rent?", "filePaths": ["/uploads/lease.txt"],
        "model": builtin_reader_id(api) });
    api.wait_for_completion(&api.expect_accepted(&question))
}

pub(super) const CASES: &[Case] = cases![
    Answers:
    the_reader_quotes_the_passage_and_cites_its_file,
    the_reader_is_deterministic,
    the_reader_says_so_when_the_documents_hold_no_answer,
];

fn the_reader_quotes_the_passage_and_cites_its_file(api: &Api) {
    let answer = ask_about_lease(api);
    assert!(answer["error"].is_null(), "{answer}");
    assert!(answer["text"].as_str().is_some_and(|text| text.contains("18,500")), "{answer}");
    let texts = find_parts(&answer, "TEXT");
    let citing: Vec<&&Value> =
        texts.iter().filter(|part| part["citations"].as_array().is_some_and(|all| !all.is_empty())).collect();
    assert!(!citing.is_empty(), "{answer}");
    for part in citing {
        let content = part["content"].as_str().expect("HTML");
        assert!(content.contains("<a ") && content.contains("href="), "the citations are links: {content}");
        for citation in part["citations"].as_array().expect("citations") {
            assert!(citation["citationId"].as_str().is_some_and(|id| !id.is_empty()), "{citation}");
            assert_eq!(citation["source"]["type"], "FILE", "{citation}");
            assert_eq!(citation["source"]["path"], "/uploads/lease.txt", "{citation}");
        }
    }
    let tools = find_parts(&answer, "TOOL");
    assert!(!tools.is_empty(), "the reader searches with the same tools");
    for tool in tools {
        for field in ["toolName", "toolCallId"] {
            assert!(tool[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {tool}");
        }
        assert_eq!(tool["state"], "COMPLETE", "{tool}");
        for source in tool["sources"].as_array().into_iter().flatten() {
            assert!(source["type"] == "FILE" && source["path"].is_string(), "{source}");
        }
    }
    let files = find_parts(&answer, "FILE");
    assert!(
        files.iter().any(|file| file["path"] == "/uploads/lease.txt"),
        "the attached file entered: {files:?}"
    );
}

fn the_reader_is_deterministic(api: &Api) {
    let (one, other) = (ask_about_lease(api), ask_about_lease(api));
    assert_eq!(one["text"], other["text"]);
}

fn the_reader_says_so_when_the_documents_hold_no_answer(api: &Api) {
    api.upload_file("lease.txt", LEASE.as_bytes()).expect_status(201);
    let answer = {
        let question = "Which telescope photographed the moons of Neptune?";
        api.wait_for_completion(
            &api.expect_accepted(&json!({ "input": question, "model": builtin_reader_id(api) })),
        )
    };
    assert!(answer["error"].is_null(), "{answer}");
    assert!(!answer["text"].as_str().expect("a text").trim().is_empty());
    let cited: usize = find_parts(&answer, "TEXT")
        .iter()
        .filter_map(|part| part["citations"].as_array().map(Vec::len))
        .sum();
    assert_eq!(cited, 0, "nothing is cited: {answer}");
}
