//! Isolation of accounts: a key gives no access to other accounts.

use conformance::api::id;
use conformance::{Expect, Say};
use serde_json::json;

use crate::streams::{Stage, stage};

#[test]
fn every_id_of_another_account_is_unknown() {
    let Stage { vendor, api, service, .. } = stage();
    let stranger = service.api(&service.account());
    vendor.will([Say::text("Half"), Say::Hold]);
    let answer = api.ask("Secret question");
    vendor.wait_held(1);
    let (chat, message) = (id(&answer, "chatId"), id(&answer, "id"));
    stranger.chat(&chat).expect_code(404, "NOT_FOUND");
    stranger.collect(&chat, &message).expect_code(404, "NOT_FOUND");
    stranger.answer_events(&chat, &message, None).whole().expect_code(404, "NOT_FOUND");
    stranger
        .answer_events(&chat, &message, Some(&format!("{message}:1.1")))
        .whole()
        .expect_code(404, "NOT_FOUND");
    stranger.chat_events(&chat, None).whole().expect_code(404, "NOT_FOUND");
    stranger.stop(&chat).expect_code(404, "NOT_FOUND");
    stranger.delete_chat(&chat).expect_code(404, "NOT_FOUND");
    stranger.send(&json!({ "input": "x", "chatId": chat })).expect_code(404, "NOT_FOUND");
    assert_eq!(stranger.chats("").json()["totalCount"], 0);
    // The error is the same whether the id belongs to another account or does not exist.
    let nowhere = "00000000-0000-4000-8000-000000000000";
    let body = |target: &str| stranger.chat(target).text().replace(target, "");
    assert_eq!(body(&chat), body(nowhere));
    vendor.release();
    assert_eq!(api.completed(&answer)["text"], "Half", "the attempts had no effect");
}

#[test]
fn every_account_has_files_of_its_own() {
    let Stage { vendor, api, service, .. } = stage();
    let stranger = service.api(&service.account());
    api.upload("mine.txt", b"The code word is heron.").expect_status(201);
    stranger.download("/uploads/mine.txt").expect_code(404, "NOT_FOUND");
    stranger.delete_file("/uploads/mine.txt").expect_code(404, "NOT_FOUND");
    assert_eq!(stranger.list("/uploads").json()["totalEntries"], 0);
    stranger.send(&json!({ "input": "x", "filePaths": ["/uploads/mine.txt"] })).expect_refusal(400);
    stranger.upload("mine.txt", b"Another file.").expect_status(201);
    assert_eq!(api.download("/uploads/mine.txt").expect_status(200).body, b"The code word is heron.");
    // The other account's machine cannot see the files either.
    let command = "grep -r heron / --include='*.txt' 2>/dev/null; ls -laR /workspace";
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": command }) }]);
    let search = Say::Call { tool: "search".to_owned(), arguments: json!({ "query": "code word" }) };
    vendor.will([search]);
    stranger.completed(&stranger.ask("Find it"));
    let request = vendor.requests().last().expect("a request").to_string();
    assert!(!request.contains("The code word is"), "{request}");
}

#[test]
fn machines_and_credits_are_kept_apart() {
    let Stage { vendor: _vendor, account, api, service } = stage();
    let other = service.account();
    let (before, stranger) = (service.credits(&other), service.api(&other));
    api.completed(&api.ask("Hello"));
    assert_eq!(service.credits(&other), before);
    assert!(service.credits(&account).0 < before.0);
    assert_eq!(
        stranger.vm().expect_status(200).json()["status"],
        "STOPPED",
        "only the asker's machine was started"
    );
}
