//! Hostile names from outside: of plugins, of a vendor's models, of accounts, of files in archives, and the subjects, senders
//! and attachments of messages.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use e2e::Expect;
use e2e::api::builtin_reader_id;
use e2e::scripted_vendor::MODEL;
use serde_json::{Value, json};

use crate::hostile::{TRAP, assert_nothing_loaded, visit_with_and_without_policy};
use crate::payloads;
use crate::stage::{BrowserFixture, desktop_view, phone_view};

/// The skills of a plugin. The service reads two hundred plugins.
const SKILLS: usize = 2;
/// The messages of a question.
const MAILS: usize = 12;
/// The longest name of a model, in bytes.
const MODEL_NAME_MAX_BYTES: usize = 256;

/// Signs in an operator.
fn sign_in_operator(stage: &BrowserFixture) {
    let arguments = ["account", "set-role", "--account", &stage.account.email, "--role", "operator"];
    stage.service.run_admin_command(&arguments);
    stage.browser.run_script_on_load(TRAP);
    stage.sign_in_at(&stage.browser);
}

/// Writes a plugin with payloads as names and descriptions of itself, its skills and its agent.
fn write_plugin(folder: &Path, number: usize, texts: &[String]) {
    let home = folder.join(format!("p{number}"));
    let file = |path: String, text: &str| {
        let path = home.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    let manifest = json!({ "name": texts[0], "description": texts[0], "version": texts[0] });
    file(".claude-plugin/plugin.json".to_owned(), &manifest.to_string());
    for (at, text) in texts.iter().enumerate() {
        let quoted = Value::from(text.as_str());
        let head =
            format!("---\nname: {quoted}\ndescription: {quoted}\nallowed-tools: [{quoted}]\n---\n{text}\n");
        file(format!("skills/s{at}/SKILL.md"), &head);
        file(format!("agents/a{at}.md"), &head);
    }
}

#[test]
fn hostile_plugin_names_run_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let payloads = payloads::all_payloads();
    for (number, texts) in payloads.chunks(SKILLS).enumerate() {
        write_plugin(folder.path(), number, texts);
    }
    let plugins = folder.path().display().to_string();
    let stage = BrowserFixture::start_prepared(desktop_view(false, "en"), |_| {
        vec![("CAUSERIE_PLUGINS".to_owned(), plugins)]
    });
    sign_in_operator(&stage);
    // Invalid names appear in warnings, which are truncated and limited in number.
    visit_with_and_without_policy(&stage, "/operator/plugins", payloads.len() / 4);
    visit_with_and_without_policy(&stage, "/operator/settings", 0);
    assert_nothing_loaded(&stage);
}

#[test]
fn hostile_model_names_run_nothing() {
    let payloads = payloads::all_payloads();
    let named: Vec<_> = payloads.iter().filter(|name| name.len() <= MODEL_NAME_MAX_BYTES).collect();
    let stage = BrowserFixture::start_prepared(phone_view(true, "en"), |vendor| {
        let entry = |name: &&String| json!({ "id": name, "display_name": name, "name": name });
        let mut list: Vec<Value> = named.iter().map(entry).collect();
        list.push(json!({ "id": MODEL }));
        vendor.set_model_list(Some((200, json!({ "data": list }))));
        Vec::new()
    });
    sign_in_operator(&stage);
    visit_with_and_without_policy(&stage, "/", named.len() / 2);
    visit_with_and_without_policy(&stage, "/operator", 0);
    let api = stage.service.api_for(&stage.account);
    let listed = api.get_catalog("models", None).expect_status(200).json();
    let hostile: Vec<_> =
        listed.as_array().expect("models").iter().filter_map(|model| model["id"].as_str()).collect();
    let hostile: Vec<_> = hostile.into_iter().filter(|name| name.contains("hit()")).collect();
    assert!(hostile.len() > named.len() / 2, "{}", hostile.len());
    // Each model's name is shown on the page of its conversation, in the history, and in the form for a retry.
    let mut last = String::new();
    for model in hostile.iter().step_by(8) {
        let asked = json!({ "input": "Who are you?", "model": model });
        let answer = api.wait_for_completion(&api.expect_accepted(&asked));
        last = format!("/c/{}", answer["chatId"].as_str().expect("a conversation"));
    }
    visit_with_and_without_policy(&stage, "/history", hostile.len() / 8);
    visit_with_and_without_policy(&stage, &last, 1);
    let id = stage.browser.run_script("return document.querySelector('.answer').id.slice(2)", &[]);
    let id = id.as_str().expect("an answer").to_owned();
    for mode in ["edit", "retry"] {
        visit_with_and_without_policy(&stage, &format!("{last}?{mode}={id}"), named.len() / 2);
    }
    visit_with_and_without_policy(&stage, "/credits", 1);
    assert_nothing_loaded(&stage);
}

#[test]
fn emails_of_accounts_run_nothing() {
    let stage = BrowserFixture::start_prepared(desktop_view(true, "cs"), |_| Vec::new());
    let mut made = Vec::new();
    for payload in payloads::all_payloads() {
        let odd = |letter: char| if letter.is_control() || letter.is_whitespace() { '/' } else { letter };
        let email = format!("{}@example.test", payload.chars().map(odd).collect::<String>());
        let account =
            ["account", "create", "--no-machine", "--licence-until", "2099-12-31", "--email", &email];
        let output = stage.service.try_admin_command(&account);
        if output.status.success() {
            made.push(serde_json::from_slice::<Value>(&output.stdout).expect("an account"));
        }
    }
    // An email has one `@`.
    assert!(made.len() >= 190, "{}", made.len());
    sign_in_operator(&stage);
    visit_with_and_without_policy(&stage, "/operator", 120);
    visit_with_and_without_policy(&stage, "/operator/audit", 20);
    let calls = |account: &&Value| account["email"].as_str().is_some_and(|email| email.contains("hit()"));
    for account in made.iter().filter(calls).step_by(40) {
        let id = account["accountId"].as_str().expect("an id");
        visit_with_and_without_policy(&stage, &format!("/operator/accounts/{id}"), 1);
    }
    assert_nothing_loaded(&stage);
}

/// Writes a message in the format of the Internet. Its texts must be lines.
fn encode_eml(text: &str) -> Vec<u8> {
    let quoted = text.replace(['"', '\\'], "'");
    let mail = format!(
        "From: \"{quoted}\" <heron@example.test>\r\nTo: \"{quoted}\" <ada@example.test>\r\n\
         Subject: The heron {text}\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nThe heron is the code word. {text}\r\n\
         --b\r\nContent-Type: text/plain; name=\"{quoted}.txt\"\r\n\
         Content-Disposition: attachment; filename=\"{quoted}.txt\"\r\n\r\nThe heron attached.\r\n--b--\r\n"
    );
    mail.into_bytes()
}

/// Writes a message of Outlook: a compound file with a stream for each property.
fn encode_outlook_msg(text: &str) -> Vec<u8> {
    const ATTACHMENT: &str = "/__attach_version1.0_#00000000";
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).expect("a file in memory");
    file.create_storage(ATTACHMENT).expect("a storage");
    let streams = [
        ("/__properties_version1.0".to_owned(), vec![0; 32]),
        // Subject, sender with address, recipients, copies, body.
        ("/__substg1.0_0037001F".to_owned(), wide(&format!("The heron {text}"))),
        ("/__substg1.0_0C1A001F".to_owned(), wide(text)),
        ("/__substg1.0_5D01001F".to_owned(), wide(text)),
        ("/__substg1.0_0E04001F".to_owned(), wide(text)),
        ("/__substg1.0_0E03001F".to_owned(), wide(text)),
        ("/__substg1.0_1000001F".to_owned(), wide(&format!("The heron is the code word. {text}"))),
        // Long and short name of the attachment, and its content.
        (format!("{ATTACHMENT}/__substg1.0_3707001F"), wide(&format!("{text}.txt"))),
        (format!("{ATTACHMENT}/__substg1.0_3704001F"), wide(text)),
        (format!("{ATTACHMENT}/__substg1.0_37010102"), b"The heron attached.".to_vec()),
    ];
    for (name, content) in streams {
        file.create_stream(name).and_then(|mut stream| stream.write_all(&content)).expect("a stream");
    }
    file.flush().expect("the file is complete");
    file.into_inner().into_inner()
}

/// Asks about messages with the payloads in their headers, and opens the answers and some of the messages.
fn check_hostile_messages(kind: &str, encode: fn(&str) -> Vec<u8>) {
    let stage = BrowserFixture::start_signed_in(desktop_view(false, "sk"));
    stage.browser.run_script_on_load(TRAP);
    let api = stage.service.api_for(&stage.account);
    let model = builtin_reader_id(&api);
    let payloads = payloads::all_payloads();
    for (number, texts) in payloads.chunks(MAILS).enumerate() {
        let paths: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| {
                let mail = encode(&text.replace(char::is_control, " "));
                let stored = api.upload_file(&format!("mail-{number}-{at}.{kind}"), &mail);
                stored.expect_status(201).json()["path"].clone()
            })
            .collect();
        let question = json!({ "input": "What is the heron?", "filePaths": paths, "model": model });
        let answer = api.wait_for_completion(&api.expect_accepted(&question));
        let chat = answer["chatId"].as_str().expect("a conversation").to_owned();
        let text = answer["text"].as_str().expect("a text");
        assert!(text.contains("heron") && text.contains("hit()"), "{kind}: {answer}");
        visit_with_and_without_policy(&stage, &format!("/c/{chat}"), 1);
        for path in paths.iter().step_by(MAILS / 2) {
            let page = format!("/files{}?view", path.as_str().expect("a path"));
            visit_with_and_without_policy(&stage, &page, 0);
        }
    }
    assert_nothing_loaded(&stage);
}

#[test]
fn hostile_eml_headers_run_nothing() {
    check_hostile_messages("eml", encode_eml);
}

#[test]
fn hostile_outlook_headers_run_nothing() {
    check_hostile_messages("msg", encode_outlook_msg);
}

#[test]
fn hostile_archive_names_run_nothing() {
    let stage = BrowserFixture::start_signed_in(desktop_view(true, "en"));
    stage.browser.run_script_on_load(TRAP);
    let api = stage.service.api_for(&stage.account);
    let payloads = payloads::all_payloads();
    // For a web page, only its text is shown, which not all payloads have.
    for (name, separator, shown) in
        [("all.md", "\n\n", 30), ("all.txt", "\n", 30), ("all.csv", ",1\n", 30), ("all.html", "\n", 20)]
    {
        api.upload_file(name, payloads.join(separator).as_bytes()).expect_status(201);
        visit_with_and_without_policy(&stage, &format!("/files/uploads/{name}?view"), shown);
    }
    let names = payloads::file_names();
    for name in names.iter().step_by(4) {
        api.upload_file(&format!("heron {}", name.replace(['"', '\\'], "'")), b"x").expect_status(201);
    }
    visit_with_and_without_policy(&stage, "/files/uploads", names.len() / 8);
    stage.open_path("/files/uploads");
    let archive = stage.browser.run_async_script(
        "return [...new Uint8Array(await (await fetch('/files/uploads?archive')).arrayBuffer())]",
        &[],
    );
    let archive: Vec<u8> = serde_json::from_value(archive).expect("bytes");
    let stored = api.upload_file("names.zip", &archive).expect_status(201).json();
    let question = json!({ "input": "What is the heron?", "filePaths": [stored["path"]], "model": builtin_reader_id(&api) });
    let answer = api.wait_for_completion(&api.expect_accepted(&question));
    let text = answer["text"].as_str().expect("a text");
    assert!(text.contains("heron") && text.contains("hit()"), "the names are quoted: {answer}");
    visit_with_and_without_policy(
        &stage,
        &format!("/c/{}", answer["chatId"].as_str().expect("a conversation")),
        1,
    );
    assert_nothing_loaded(&stage);
}
