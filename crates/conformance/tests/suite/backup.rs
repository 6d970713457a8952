//! Backups under load restore completely on both engines; damaged backups are rejected.

use std::path::{Path, PathBuf};

use conformance::api::id;
use conformance::{Account, Expect, Options, Say, Service, Vendor, poll};
use serde_json::{Value, json};

use crate::streams::shows;

/// The number of questions that are asked during the backup.
const ASKED_MEANWHILE: usize = 30;

fn options(vendor: &Vendor) -> Options {
    Options { environment: vendor.environment(), ..Options::default() }
}

fn on_postgres(vendor: &Vendor) -> Options {
    let mut options = options(vendor);
    options
        .environment
        .push((conformance::DATABASE.to_owned(), test_support::postgres::shared().new_database()));
    options
}

/// Starts a service on a data folder restored from an archive, in which open answers continue.
fn restored(options: Options, archive: &Path) -> Service {
    restored_with(options, archive, &["--continue-answers"])
}

fn restored_with(options: Options, archive: &Path, further: &[&str]) -> Service {
    Service::start_on(options, |service| {
        let arguments = [&["restore", archive.to_str().expect("a path")][..], further].concat();
        let result = service.admin(&arguments);
        assert!(result["files"].as_u64().is_some_and(|files| files > 0), "{result}");
    })
}

/// A backup and the state that it must contain.
struct Saved {
    archive: PathBuf,
    vendor: Vendor,
    /// Not dropped, because the archive is in its folder.
    service: Service,
    account: Account,
    done: Value,
    chat: Value,
    under_way: Value,
}

fn saved(make: fn(&Vendor) -> Options) -> Saved {
    let vendor = Vendor::start();
    let service = Service::start(make(&vendor));
    let account = service.account();
    let api = service.api(&account);
    api.upload("nájem.txt", b"The rent is 900 crowns.").expect_status(201);
    vendor.will([Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": LINKS }) }]);
    vendor.will([Say::text("Made.")]);
    let done = api.completed(&api.ask("Make files"));
    let chat = api.chat(&id(&done, "chatId")).json();
    vendor.will([Say::text("Begun"), Say::Hold]);
    let under_way = api.ask("Go on");
    shows(&mut api.events_of(&under_way), "Begun");
    let archive = service.data().with_file_name("backup.tar.zst");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..ASKED_MEANWHILE {
                let _ = api.ask(&format!("Question {n}"));
                api.upload(&format!("{n}.txt"), format!("File {n}").as_bytes()).expect_status(201);
            }
        });
        poll::until("some were asked", || (vendor.requests().len() > 4).then_some(()));
        let result = service.admin(&["backup", archive.to_str().expect("a path")]);
        assert!(result["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{result}");
    });
    Saved { archive, vendor, service, account, done, chat, under_way }
}

/// Creates a link, a name that is not UTF-8, and a file that is not a regular one.
const LINKS: &str = r#"cd /workspace && ln -s uploads way && touch "$(printf 'odd\377')" && mkfifo pipe && mkdir -m 555 shut"#;

fn is_whole(saved: &Saved, service: &Service) {
    let Saved { vendor, account, done, chat, under_way, .. } = saved;
    let api = service.api(account);
    assert_eq!(&api.now(done), done);
    assert_eq!(&api.chat(&id(done, "chatId")).json(), chat);
    assert_eq!(api.download("/uploads/nájem.txt").expect_status(200).text(), "The rent is 900 crowns.");
    assert_eq!(api.download("/way/nájem.txt").expect_status(200).text(), "The rent is 900 crowns.");
    api.download("/odd%FF").expect_status(200);
    let whole = api.completed(under_way);
    assert!(whole["error"].is_null() && whole["text"] == "Done.", "the answer is completed: {whole}");
    let page = api.chats("?limit=200").json();
    let chats = page["chats"].as_array().expect("conversations");
    assert_eq!(page["totalCount"], chats.len(), "{page}");
    assert!((2..=ASKED_MEANWHILE + 2).contains(&chats.len()), "{}", chats.len());
    for chat in chats {
        let chat = chat["chatId"].as_str().expect("an id");
        let all_done = || {
            let detail = api.chat(chat).expect_status(200).json();
            let messages = detail["messages"].as_array().expect("messages").clone();
            messages.iter().all(|message| message["status"] == "completed").then_some(messages)
        };
        assert_eq!(poll::until("each question is answered", all_done).len(), 2);
    }
    poll::until("nothing is reserved", || (service.credits(account).1 == 0).then_some(()));
    api.completed(&api.ask("Another"));
    assert!(!vendor.requests().is_empty());
}

#[test]
fn a_backup_under_load_is_a_whole_service_on_either_engine() {
    let saved = saved(options);
    is_whole(&saved, &restored(options(&saved.vendor), &saved.archive));
    is_whole(&saved, &restored(on_postgres(&saved.vendor), &saved.archive));
}

#[test]
fn a_backup_of_postgresql_is_a_whole_service_on_either_engine() {
    let saved = saved(on_postgres);
    is_whole(&saved, &restored(on_postgres(&saved.vendor), &saved.archive));
    is_whole(&saved, &restored(options(&saved.vendor), &saved.archive));
}

/// Adds a line to a file, so that a second run shows, and does not return.
const ONCE: &str = "echo run >>/workspace/runs && sleep 600";

fn answers_end(make: fn(&Vendor) -> Options) {
    let vendor = Vendor::start();
    let service = Service::start(make(&vendor));
    let account = service.account();
    let api = service.api(&account);
    let path = "/runs";
    vendor.will([
        Say::text("First I look. "),
        Say::Call { tool: "shell".to_owned(), arguments: json!({ "command": ONCE }) },
    ]);
    let running = api.ask("Do it once");
    poll::until("the tool runs", || (api.download(path).status == 200).then_some(()));
    vendor.will([Say::text("Begun"), Say::Hold]);
    let writing = api.ask("Write it once");
    shows(&mut api.events_of(&writing), "Begun");
    let archive = service.data().with_file_name("backup.tar.zst");
    service.admin(&["backup", archive.to_str().expect("a path")]);
    let asked = vendor.requests().len();
    let restored = restored_with(make(&vendor), &archive, &[]);
    let api = restored.api(&account);
    for (answer, kept) in [(&running, "First I look."), (&writing, "")] {
        let ended = api.now(answer);
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
    assert_eq!(restored.credits(&account).1, 0, "nothing is reserved");
    vendor.will([Say::text("Here.")]);
    let chat = api.chat(&id(&running, "chatId"));
    assert_eq!(chat.expect_status(200).json()["messages"].as_array().map(Vec::len), Some(2));
    api.completed(&api.ask("Another"));
    assert_eq!(vendor.requests().len(), asked + 1, "no model is asked a second time");
    assert_eq!(api.download(path).expect_status(200).text(), "run\n", "no tool runs a second time");
}

#[test]
fn answers_that_were_open_in_the_backup_end_with_its_restore() {
    answers_end(options);
}

#[test]
fn answers_that_were_open_in_a_backup_of_postgresql_end_with_its_restore() {
    answers_end(on_postgres);
}

#[test]
fn what_is_there_is_never_replaced_and_what_is_damaged_never_restored() {
    let Saved { archive, service, account, vendor, .. } = saved(options);
    let path = archive.to_str().expect("a path");
    let refused = |arguments: &[&str], code: &str| {
        let output = service.try_admin(arguments);
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
        let mut command = service.command();
        command.arg("restore").arg(&broken).arg("--data").arg(&elsewhere).arg("--json");
        let output = command.output().expect("the binary can be run");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains("BACKUP_DAMAGED"), "{stderr}");
        assert!(!elsewhere.exists(), "nothing is left behind");
    }
    let taken = on_postgres(&vendor);
    let first = restored(taken.clone(), &archive);
    let mut command = first.command();
    command.arg("restore").arg(&archive).arg("--data").arg(&elsewhere).arg("--json");
    let output = command.output().expect("the binary can be run");
    assert!(String::from_utf8_lossy(&output.stderr).contains("NOT_EMPTY"), "a database is not replaced");
    assert!(!elsewhere.exists());
    first.api(&account).vm().expect_status(200);
}
