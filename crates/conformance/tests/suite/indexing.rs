//! Documents are read from their upload on, and the listing tells of each how far that has come.

use std::collections::BTreeMap;

use conformance::api::{Part, path_of};
use conformance::{Api, Expect, Options, Say, Service, poll};
use serde_json::{Value, json};

use crate::streams::{Stage, stage};
use crate::unread::document;

/// Returns the states of the files in a folder, or the reasons where there are some.
fn states(listing: &Value) -> BTreeMap<String, String> {
    let entries = listing["entries"].as_array().expect("entries").iter();
    let files = entries.filter(|entry| entry["type"] == "FILE");
    let state = |entry: &Value| {
        let indexing = &entry["indexing"];
        let word = indexing["reason"].as_str().or(indexing["state"].as_str());
        (entry["name"].as_str().expect("name").to_owned(), word.expect("a state").to_owned())
    };
    files.map(state).collect()
}

/// Waits until nothing of a folder is left to read, and returns its listing.
fn settled(api: &Api, folder: &str) -> Value {
    poll::until("all documents are read", || {
        let listing = api.list(folder).expect_status(200).json();
        (listing["indexing"]["files"] != 0 && listing["indexing"]["pending"] == 0).then_some(listing)
    })
}

#[test]
fn uploads_are_indexed_without_a_question_and_listings_say_what_cannot_be_read() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let expected = [
        ("broken.pdf", "broken"),
        ("bomb.docx", "too_large"),
        ("locked.pdf", "encrypted"),
        ("lease.pdf", "indexed"),
    ];
    for (name, _) in expected {
        path_of(api.upload(name, &document(name)));
    }
    path_of(api.upload("clip.mp4", b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41"));
    let listing = settled(&api, "/uploads");
    let found = states(&listing);
    for (name, state) in expected.into_iter().chain([("clip.mp4", "unknown_form")]) {
        assert_eq!(found[name], state, "{listing}");
    }
    let counts = &listing["indexing"];
    assert_eq!(
        (&counts["files"], &counts["indexed"], &counts["unreadable"]),
        (&5.into(), &1.into(), &4.into())
    );
    let locked =
        listing["entries"].as_array().and_then(|all| all.iter().find(|one| one["name"] == "locked.pdf"));
    let locked = &locked.expect("it is listed")["indexing"];
    assert_eq!(locked["state"], "unreadable");
    assert!(locked["message"].as_str().is_some_and(|text| text.contains("password")), "{locked}");
    let home = api.list_home().expect_status(200).json();
    assert_eq!(home["indexing"], listing["indexing"], "the folders below count");
    let uploads = &home["entries"][0];
    assert!(uploads["indexing"].is_null(), "a folder has no state: {uploads}");

    // The states stay while the machine does not run, and another content is another file.
    api.stop_vm().expect_status(202);
    poll::until("the machine is stopped", || (api.vm().json()["status"] == "STOPPED").then_some(()));
    assert_eq!(states(&api.list("/uploads").json()), found);
    path_of(api.upload("locked.pdf", b"The rent is due on the fifth."));
    assert_eq!(states(&api.list("/uploads").json())["locked.pdf"], "pending");
    assert_eq!(api.vm().json()["status"], "STOPPED", "who stopped the machine wants it so");
    api.start_vm().expect_status(202);
    assert_eq!(states(&settled(&api, "/uploads"))["locked.pdf"], "indexed");
}

#[test]
fn the_head_of_a_file_tells_its_state_also_of_a_temporary_one() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let locked = Part::file("locked.pdf", &document("locked.pdf"));
    let path = path_of(api.upload_form(&[locked, Part::field("temporary", "true")]));
    let state = poll::until("the temporary file is read", || {
        let response = api.call("HEAD", &format!("/api/v1/files{path}")).expect_status(200);
        let state = response.header("indexing-state").expect("a state").to_owned();
        (state != "pending").then_some(state)
    });
    assert_eq!(state, "unreadable; reason=encrypted");
    let home = api.list_home().expect_status(200).json();
    assert_eq!(home["indexing"]["files"], 0, "hidden files are not counted: {home}");
}

/// Files that take longer to read than a question waits for.
const LARGE: usize = 10;

/// Several megabytes of words.
fn large(number: usize) -> Vec<u8> {
    let line =
        |line: usize| format!("Paragraph {line} of volume {number} speaks of matter {}.\n\n", line * 7919);
    (0..50_000).map(line).collect::<String>().into_bytes()
}

#[test]
fn an_answer_of_a_model_names_attached_files_that_are_still_being_indexed() {
    let Stage { vendor, api, service: _service, .. } = stage();
    // Nothing is read before the question, which starts the machine.
    api.start_vm().expect_status(202);
    api.stop_vm().expect_status(202);
    poll::until("the machine is stopped", || (api.vm().json()["status"] == "STOPPED").then_some(()));
    let paths: Vec<String> =
        (0..LARGE).map(|n| path_of(api.upload(&format!("volume-{n}.txt"), &large(n)))).collect();
    let ask = || {
        vendor.will([Say::text("I have read them.")]);
        let answer =
            api.completed(&api.accepted(&json!({ "input": "What do they say?", "filePaths": paths })));
        let text = answer["text"].as_str().expect("text").to_owned();
        assert!(text.starts_with("I have read them.") && answer["error"].is_null(), "{answer}");
        text
    };
    let early = ask();
    let named = (0..LARGE).filter(|n| {
        let line = early.lines().find(|line| line.contains(&format!("volume-{n}.txt"))).unwrap_or_default();
        line.contains("still being indexed")
    });
    assert!(named.count() > 0, "{early}");
    for read in 1..=LARGE {
        poll::until("another volume is read", || {
            let listing = api.list("/uploads").expect_status(200).json();
            (listing["indexing"]["indexed"].as_u64() >= u64::try_from(read).ok()).then_some(())
        });
    }
    assert_eq!(ask(), "I have read them.", "nothing is left to say");
}
