//! Isolation of accounts: a key gives no access to other accounts.

use e2e::api::id_field;
use e2e::{Expect, Say};
use serde_json::json;

use crate::streams::{StreamFixture, stream_fixture};

#[test]
fn ids_of_other_accounts_are_unknown() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    let stranger = service.api_for(&service.create_account());
    vendor.add_script([Say::from_text("Half"), Say::Hold]);
    let answer = api.ask_question("Secret question");
    vendor.wait_for_holds(1);
    let (chat, message) = (id_field(&answer, "chatId"), id_field(&answer, "id"));
    stranger.get_chat(&chat).expect_code(404, "NOT_FOUND");
    stranger.get_message(&chat, &message).expect_code(404, "NOT_FOUND");
    stranger.answer_events(&chat, &message, None).read_whole().expect_code(404, "NOT_FOUND");
    stranger
        .answer_events(&chat, &message, Some(&format!("{message}:1.1")))
        .read_whole()
        .expect_code(404, "NOT_FOUND");
    stranger.chat_events(&chat, None).read_whole().expect_code(404, "NOT_FOUND");
    stranger.stop_chat(&chat).expect_code(404, "NOT_FOUND");
    stranger.delete_chat(&chat).expect_code(404, "NOT_FOUND");
    stranger.send_question(&json!({ "input": "x", "chatId": chat })).expect_code(404, "NOT_FOUND");
    assert_eq!(stranger.list_chats("").json()["totalCount"], 0);
    // The error is the same whether the id belongs to another account or does not exist.
    let nowhere = "00000000-0000-4000-8000-000000000000";
    let body = |target: &str| stranger.get_chat(target).text().replace(target, "");
    assert_eq!(body(&chat), body(nowhere));
    vendor.release_hold();
    assert_eq!(api.wait_for_completion(&answer)["text"], "Half", "the attempts had no effect");
}

#[test]
fn accounts_have_separate_files() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    let stranger = service.api_for(&service.create_account());
    api.upload_file("mine.txt", b"The code word is heron.").expect_status(201);
    stranger.download_file("/uploads/mine.txt").expect_code(404, "NOT_FOUND");
    stranger.delete_file("/uploads/mine.txt").expect_code(404, "NOT_FOUND");
    assert_eq!(stranger.list_directory("/uploads").json()["totalEntries"], 0);
    stranger.send_question(&json!({ "input": "x", "filePaths": ["/uploads/mine.txt"] })).expect_refusal(400);
    stranger.upload_file("mine.txt", b"Another file.").expect_status(201);
    assert_eq!(api.download_file("/uploads/mine.txt").expect_status(200).body, b"The code word is heron.");
    // The other account's machine cannot see the files either.
    let command = "grep -r heron / --include='*.txt' 2>/dev/null; ls -laR /workspace";
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "code word" }) };
    vendor.add_script([search]);
    stranger.wait_for_completion(&stranger.ask_question("Find it"));
    let request = vendor.request_bodies().last().expect("a request").to_string();
    assert!(!request.contains("The code word is"), "{request}");
}

#[test]
fn machines_and_credits_are_kept_apart() {
    let StreamFixture { vendor: _vendor, account, api, service } = stream_fixture();
    let other = service.create_account();
    let (before, stranger) = (service.show_credits(&other), service.api_for(&other));
    api.wait_for_completion(&api.ask_question("Hello"));
    assert_eq!(service.show_credits(&other), before);
    assert!(service.show_credits(&account).0 < before.0);
    assert_eq!(
        stranger.get_vm().expect_status(200).json()["status"],
        "STOPPED",
        "only the asker's machine was started"
    );
}
