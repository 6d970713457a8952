//! Backups under load restore completely on both engines; damaged backups are rejected.

use std::path::{Path, PathBuf};

use e2e::api::id_field;
use e2e::{Expect, Say, ScriptedVendor, ServiceOptions, TestAccount, TestService, poll};
use serde_json::{Value, json};

use crate::streams::find_shown_text;

/// The number of questions that are asked during the backup.
const ASKED_MEANWHILE: usize = 30;

fn vendor_options(vendor: &ScriptedVendor) -> ServiceOptions {
    ServiceOptions { environment: vendor.service_environment(), ..ServiceOptions::default() }
}

fn on_postgres(vendor: &ScriptedVendor) -> ServiceOptions {
    let mut options = vendor_options(vendor);
    options
        .environment
        .push((e2e::DATABASE.to_owned(), test_support::postgres::shared_server().new_database()));
    options
}

/// Starts a service on a data folder restored from an archive, in which open answers continue.
fn restore_service(options: ServiceOptions, archive: &Path) -> TestService {
    restore_service_with(options, archive, &["--continue-answers"])
}

fn restore_service_with(options: ServiceOptions, archive: &Path, further: &[&str]) -> TestService {
    TestService::start_on(options, |service| {
        let arguments = [&["restore", archive.to_str().expect("a path")][..], further].concat();
        let result = service.run_admin_command(&arguments);
        assert!(result["files"].as_u64().is_some_and(|files| files > 0), "{result}");
    })
}

/// A backup and the state that it must contain.
struct Saved {
    archive: PathBuf,
    vendor: ScriptedVendor,
    /// Not dropped, because the archive is in its folder.
    service: TestService,
    account: TestAccount,
    done: Value,
    chat: Value,
    under_way: Value,
}

fn create_backup(make: fn(&ScriptedVendor) -> ServiceOptions) -> Saved {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(make(&vendor));
    let account = service.create_account();
    let api = service.api_for(&account);
    api.upload_file("nájem.txt", b"The rent is 900 crowns.").expect_status(201);
    vendor.add_script([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": LINKS }) }]);
    vendor.add_script([Say::from_text("Made.")]);
    let done = api.wait_for_completion(&api.ask_question("Make files"));
    let chat = api.get_chat(&id_field(&done, "chatId")).json();
    vendor.add_script([Say::from_text("Begun"), Say::Hold]);
    let under_way = api.ask_question("Go on");
    find_shown_text(&mut api.stream_answer(&under_way), "Begun");
    let archive = service.data_folder().with_file_name("backup.tar.zst");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..ASKED_MEANWHILE {
                let _ = api.ask_question(&format!("Question {n}"));
                api.upload_file(&format!("{n}.txt"), format!("File {n}").as_bytes()).expect_status(201);
            }
        });
        poll::wait_until("some were asked", || (vendor.request_bodies().len() > 4).then_some(()));
        let result = service.run_admin_command(&["backup", archive.to_str().expect("a path")]);
        assert!(result["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{result}");
    });
    Saved { archive, vendor, service, account, done, chat, under_way }
}

/// Creates a link, a name that is not UTF-8, and a file that is not a regular one.
const LINKS: &str = r#"cd /workspace && ln -s uploads way && touch "$(printf 'odd\377')" && mkfifo pipe && mkdir -m 555 shut"#;

fn is_whole(saved: &Saved, service: &TestService) {
    let Saved { vendor, account, done, chat, under_way, .. } = saved;
    let api = service.api_for(account);
    assert_eq!(&api.get_answer(done), done);
    assert_eq!(&api.get_chat(&id_field(done, "chatId")).json(), chat);
    assert_eq!(api.download_file("/uploads/nájem.txt").expect_status(200).text(), "The rent is 900 crowns.");
    assert_eq!(api.download_file("/way/nájem.txt").expect_status(200).text(), "The rent is 900 crowns.");
    api.download_file("/odd%FF").expect_status(200);
    let whole = api.wait_for_completion(under_way);
    assert!(whole["error"].is_null() && whole["text"] == "Done.", "the answer is completed: {whole}");
    let page = api.list_chats("?limit=200").json();
    let chats = page["chats"].as_array().expect("conversations");
    assert_eq!(page["totalCount"], chats.len(), "{page}");
    assert!((2..=ASKED_MEANWHILE + 2).contains(&chats.len()), "{}", chats.len());
    for chat in chats {
        let chat = chat["chatId"].as_str().expect("an id");
        let all_done = || {
            let detail = api.get_chat(chat).expect_status(200).json();
            let messages = detail["messages"].as_array().expect("messages").clone();
            messages.iter().all(|message| message["status"] == "completed").then_some(messages)
        };
        assert_eq!(poll::wait_until("each question is answered", all_done).len(), 2);
    }
    poll::wait_until("nothing is reserved", || (service.show_credits(account).1 == 0).then_some(()));
    api.wait_for_completion(&api.ask_question("Another"));
    assert!(!vendor.request_bodies().is_empty());
}

#[test]
fn backup_under_load_restores_anywhere() {
    let saved = create_backup(vendor_options);
    is_whole(&saved, &restore_service(vendor_options(&saved.vendor), &saved.archive));
    is_whole(&saved, &restore_service(on_postgres(&saved.vendor), &saved.archive));
}

#[test]
fn postgresql_backup_restores_anywhere() {
    let saved = create_backup(on_postgres);
    is_whole(&saved, &restore_service(on_postgres(&saved.vendor), &saved.archive));
    is_whole(&saved, &restore_service(vendor_options(&saved.vendor), &saved.archive));
}

/// Adds a line to a file, so that a second run shows, and does not return.
const ONCE: &str = "echo run >>/workspace/runs && sleep 600";

fn answers_end(make: fn(&ScriptedVendor) -> ServiceOptions) {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(make(&vendor));
    let account = service.create_account();
    let api = service.api_for(&account);
    let path = "/runs";
    vendor.add_script([
        Say::from_text("First I look. "),
        Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": ONCE }) },
    ]);
    let running = api.ask_question("Do it once");
    poll::wait_until("the tool runs", || (api.download_file(path).status == 200).then_some(()));
    vendor.add_script([Say::from_text("Begun"), Say::Hold]);
    let writing = api.ask_question("Write it once");
    find_shown_text(&mut api.stream_answer(&writing), "Begun");
    let archive = service.data_folder().with_file_name("backup.tar.zst");
    service.run_admin_command(&["backup", archive.to_str().expect("a path")]);
    let asked = vendor.request_bodies().len();
    let restored = restore_service_with(make(&vendor), &archive, &[]);
    let api = restored.api_for(&account);
    for (answer, kept) in [(&running, "First I look."), (&writing, "")] {
        let ended = api.get_answer(answer);
        assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("completed"), &json!("INTERRUPTED")));
        let sentence = ended["error"]["message"].as_str().expect("a sentence");
        let text = ended["text"].as_str().expect("a text");
        assert!(sentence.contains("restored from a backup"), "{sentence}");
        assert!(text.starts_with(kept) && text.ends_with(sentence), "{text}");
        let parts = ended["parts"].as_array().expect("parts");
        let last = parts.last().expect("a part");
        assert!(last["type"] == "TEXT" && last.to_string().contains("restored from a backup"), "{ended}");
        assert!(parts.iter().all(|part| part["state"] != "PENDING"), "{ended}");
        let failed = parts.iter().filter(|part| part["state"] == "ERROR").count();
        assert_eq!(failed, usize::from(!kept.is_empty()), "{ended}");
    }
    assert_eq!(restored.show_credits(&account).1, 0, "nothing is reserved");
    vendor.add_script([Say::from_text("Here.")]);
    let chat = api.get_chat(&id_field(&running, "chatId"));
    assert_eq!(chat.expect_status(200).json()["messages"].as_array().map(Vec::len), Some(2));
    api.wait_for_completion(&api.ask_question("Another"));
    assert_eq!(vendor.request_bodies().len(), asked + 1, "no model is asked a second time");
    assert_eq!(api.download_file(path).expect_status(200).text(), "run\n", "no tool runs a second time");
}

#[test]
fn open_answers_end_with_restore() {
    answers_end(vendor_options);
}

#[test]
fn open_answers_end_with_postgresql_restore() {
    answers_end(on_postgres);
}

#[test]
fn restore_refuses_existing_folder_and_damage() {
    let Saved { archive, service, account, vendor, .. } = create_backup(vendor_options);
    let path = archive.to_str().expect("a path");
    let refused = |arguments: &[&str], code: &str| {
        let output = service.try_admin_command(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(code), "{arguments:?}: {stderr}");
    };
    refused(&["backup", path], "FILE_EXISTS");
    refused(&["restore", path], "NOT_EMPTY");
    let bytes = std::fs::read(&archive).expect("an archive");
    let broken = archive.with_file_name("broken");
    let elsewhere = archive.with_file_name("elsewhere");
    let mut turned = bytes.clone();
    turned[bytes.len() / 2] ^= 1;
    for content in [&bytes[..bytes.len() - 9], &bytes[..bytes.len() / 2], &turned[..], b"no archive"] {
        std::fs::write(&broken, content).expect("a file");
        let mut command = service.build_command();
        command.arg("restore").arg(&broken).arg("--data").arg(&elsewhere).arg("--json");
        let output = command.output().expect("the binary can be run");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains("BACKUP_DAMAGED"), "{stderr}");
        assert!(!elsewhere.exists(), "nothing is left behind");
    }
    let taken = on_postgres(&vendor);
    let first = restore_service(taken.clone(), &archive);
    let mut command = first.build_command();
    command.arg("restore").arg(&archive).arg("--data").arg(&elsewhere).arg("--json");
    let output = command.output().expect("the binary can be run");
    assert!(String::from_utf8_lossy(&output.stderr).contains("NOT_EMPTY"), "a database is not replaced");
    assert!(!elsewhere.exists());
    first.api_for(&account).get_vm().expect_status(200);
}
