//! Documents are read from their upload on, and the listing shows the progress of each.

use std::collections::BTreeMap;

use e2e::api::{UploadPart, uploaded_path};
use e2e::{Api, Expect, Say, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

use crate::streams::{StreamFixture, stream_fixture};
use crate::unread::read_guest_fixture;

/// Returns the states of the files in a folder, or their reasons, if any.
fn indexing_states(listing: &Value) -> BTreeMap<String, String> {
    let entries = listing["entries"].as_array().expect("entries").iter();
    let files = entries.filter(|entry| entry["type"] == "FILE");
    let state = |entry: &Value| {
        let indexing = &entry["indexing"];
        let word = indexing["reason"].as_str().or(indexing["state"].as_str());
        (entry["name"].as_str().expect("name").to_owned(), word.expect("a state").to_owned())
    };
    files.map(state).collect()
}

/// Waits until all files of a folder are read, and returns its listing.
fn wait_until_indexed(api: &Api, folder: &str) -> Value {
    poll::wait_until("all documents are read", || {
        let listing = api.list_directory(folder).expect_status(200).json();
        (listing["indexing"]["files"] != 0 && listing["indexing"]["pending"] == 0).then_some(listing)
    })
}

#[test]
fn uploads_indexed_and_states_listed() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let expected = [
        ("broken.pdf", "broken"),
        ("bomb.docx", "too_large"),
        ("locked.pdf", "encrypted"),
        ("lease.pdf", "indexed"),
    ];
    for (name, _) in expected {
        uploaded_path(api.upload_file(name, &read_guest_fixture(name)));
    }
    uploaded_path(api.upload_file("clip.mp4", b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41"));
    let listing = wait_until_indexed(&api, "/uploads");
    let found = indexing_states(&listing);
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

    // The states stay while the machine does not run, and changed content counts as another file.
    api.stop_vm().expect_status(202);
    poll::wait_until("the machine is stopped", || (api.get_vm().json()["status"] == "STOPPED").then_some(()));
    assert_eq!(indexing_states(&api.list_directory("/uploads").json()), found);
    uploaded_path(api.upload_file("locked.pdf", b"The rent is due on the fifth."));
    assert_eq!(indexing_states(&api.list_directory("/uploads").json())["locked.pdf"], "pending");
    assert_eq!(api.get_vm().json()["status"], "STOPPED", "who stopped the machine wants it so");
    api.start_vm().expect_status(202);
    assert_eq!(indexing_states(&wait_until_indexed(&api, "/uploads"))["locked.pdf"], "indexed");
}

#[test]
fn head_of_file_has_indexing_state() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let locked = UploadPart::from_file("locked.pdf", &read_guest_fixture("locked.pdf"));
    let path = uploaded_path(api.upload_form(&[locked, UploadPart::from_field("temporary", "true")]));
    let state = poll::wait_until("the temporary file is read", || {
        let response = api.call_endpoint("HEAD", &format!("/api/v1/files{path}")).expect_status(200);
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
fn large_text(number: usize) -> Vec<u8> {
    let line =
        |line: usize| format!("Paragraph {line} of volume {number} speaks of matter {}.\n\n", line * 7919);
    (0..50_000).map(line).collect::<String>().into_bytes()
}

#[test]
fn answer_names_attached_files_being_indexed() {
    let StreamFixture { vendor, api, service: _service, .. } = stream_fixture();
    // Nothing is read before the question, which starts the machine.
    api.start_vm().expect_status(202);
    api.stop_vm().expect_status(202);
    poll::wait_until("the machine is stopped", || (api.get_vm().json()["status"] == "STOPPED").then_some(()));
    let paths: Vec<String> = (0..LARGE)
        .map(|n| uploaded_path(api.upload_file(&format!("volume-{n}.txt"), &large_text(n))))
        .collect();
    let ask = || {
        vendor.add_script([Say::from_text("I have read them.")]);
        let answer = api.wait_for_completion(
            &api.expect_accepted(&json!({ "input": "What do they say?", "filePaths": paths })),
        );
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
        poll::wait_until("another volume is read", || {
            let listing = api.list_directory("/uploads").expect_status(200).json();
            (listing["indexing"]["indexed"].as_u64() >= u64::try_from(read).ok()).then_some(())
        });
    }
    assert_eq!(ask(), "I have read them.", "nothing is left to say");
}
