//! The commands for users: `ask`, `chat`, `ls`, `show`, `cp`, `mkdir`, `rm`, `stop`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};

use e2e::{Api, Expect, Say, ServiceOptions, TestService};
use rustix::process::{Pid, Signal, kill_process};

use crate::streams::{StreamFixture, stream_fixture};

fn client_command(service: &TestService, api: &Api, arguments: &[&str]) -> Command {
    let mut command = service.build_command();
    command.env("CAUSERIE_URL", format!("http://{}", api.address)).env("CAUSERIE_API_KEY", &api.key);
    command.env("LC_ALL", "C");
    command.args(arguments);
    command
}

fn run_client(service: &TestService, api: &Api, arguments: &[&str]) -> Output {
    client_command(service, api, arguments).stdin(Stdio::null()).output().expect("the binary can be run")
}

fn spawn_piped(mut command: Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary can be run")
}

fn run_typing(service: &TestService, api: &Api, arguments: &[&str], typed: &str) -> Output {
    let mut child = spawn_piped(client_command(service, api, arguments));
    child.stdin.take().expect("a pipe").write_all(typed.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn bytes_to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn ask_prints_answer_and_sources() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let file = service.data_folder().with_file_name("nájem.txt");
    std::fs::write(&file, "The monthly rent is 18,500 crowns.\n").expect("a file");
    let path = file.to_str().expect("a path");
    let asked = run_client(&service, &api, &["ask", "How much is the monthly rent?", "--file", path]);
    let (out, err) = (bytes_to_text(&asked.stdout), bytes_to_text(&asked.stderr));
    assert!(asked.status.success(), "{err}");
    assert!(out.contains("18,500") && out.contains("nájem.txt"), "{out}");
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "no colours without a terminal");
    assert_eq!(api.list_directory("/uploads").json()["entries"][0]["name"], "nájem.txt");
}

#[test]
fn ask_marks_match_source_numbers() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let file = service.data_folder().with_file_name("lease.txt");
    std::fs::write(&file, "The monthly rent is 18,500 crowns.\n").expect("a file");
    let path = file.to_str().expect("a path");
    let asked = run_client(&service, &api, &["ask", "How much is the monthly rent?", "--file", path]);
    let out = bytes_to_text(&asked.stdout);
    let (answer, sources) = out.split_once("\nSources:\n").expect("sources");
    let (number, _) = sources.split_once("] ").expect("a numbered source");
    assert!(answer.contains(&format!("{number}]")), "{out}");
}

#[test]
fn ask_passes_on_what_is_chosen() {
    let StreamFixture { api, service, .. } = stream_fixture();
    let skill = api.get_catalog("skills", None).json().as_array().and_then(|skills| skills.last().cloned());
    let skill = skill.expect("a skill")["fullName"].as_str().expect("a name").to_owned();
    let chosen = ["--web", "--jurisdiction", "CZ", "--agent", "causerie:lawyer", "--skill", &skill];
    let asked = run_client(&service, &api, &[&["ask", "Hello"][..], &chosen[..]].concat());
    assert!(asked.status.success(), "{}", bytes_to_text(&asked.stderr));
    let chat = api.list_chats("").json()["chats"][0].clone();
    assert_eq!(
        (&chat["webSearchEnabled"], &chat["jurisdictions"]),
        (&true.into(), &serde_json::json!(["CZ"]))
    );
    let most_used = api.get_catalog("skills", None).json()[0]["fullName"].clone();
    assert_eq!(most_used, skill.as_str(), "it is counted with the question");
    let id = chat["chatId"].as_str().expect("an identifier");
    let kept = run_client(&service, &api, &["ask", "And?", "--chat", id, "--web"]);
    assert_eq!(kept.status.code(), Some(2), "a conversation keeps what it began with");
    let unknown = run_client(&service, &api, &["ask", "Hello", "--jurisdiction", "no-such"]);
    assert_eq!(unknown.status.code(), Some(3), "{}", bytes_to_text(&unknown.stderr));
}

#[test]
fn folders_are_made_copied_and_removed() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let case = service.data_folder().with_file_name("case");
    std::fs::create_dir_all(case.join("annexes")).expect("a folder");
    std::fs::write(case.join("lease.txt"), "rent").expect("a file");
    std::fs::write(case.join("annexes/a.txt"), "keys").expect("a file");
    let path = case.to_str().expect("a path");
    let done = |arguments: &[&str]| {
        let run = run_client(&service, &api, arguments);
        assert!(run.status.success(), "{arguments:?}: {}", bytes_to_text(&run.stderr));
        bytes_to_text(&run.stdout)
    };
    done(&["mkdir", ":/clients"]);
    assert_eq!(run_client(&service, &api, &["mkdir", ":/clients"]).status.code(), Some(3), "it exists");
    done(&["mkdir", "-p", ":/clients/ada/2026"]);
    done(&["cp", "-r", path, ":/clients/ada"]);
    let back = service.data_folder().with_file_name("back");
    std::fs::create_dir(&back).expect("a folder");
    done(&["cp", "-r", ":/clients/ada", back.to_str().expect("a path")]);
    for (file, content) in [("lease.txt", "rent"), ("annexes/a.txt", "keys")] {
        let copied = std::fs::read_to_string(back.join("ada/case").join(file)).expect("it was copied");
        assert_eq!(copied, content);
    }
    assert_eq!(run_client(&service, &api, &["rm", ":/clients"]).status.code(), Some(3), "it is not empty");
    done(&["rm", "-r", ":/clients"]);
    assert!(!done(&["ls"]).contains("clients"));
    assert_eq!(run_client(&service, &api, &["rm", "-r", ":/"]).status.code(), Some(2));
}

#[test]
fn ask_continues_chat_with_exit_codes() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    assert!(run_client(&service, &api, &["ask", "Hello"]).status.success());
    let chat = api.list_chats("").json()["chats"][0]["chatId"].as_str().expect("a conversation").to_owned();
    let again = run_client(&service, &api, &["ask", "And?", "--chat", &chat]);
    assert_eq!(bytes_to_text(&again.stdout), "Done.\n");
    assert_eq!(api.get_chat(&chat).json()["messages"].as_array().map(Vec::len), Some(4));
    let refused = run_client(&service, &api, &["ask", "Hello", "--model", "no-such-model"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(refused.stdout.is_empty() && bytes_to_text(&refused.stderr).contains("no-such-model"));
    let wrong = run_client(&service, &api.with_key("api-wrong"), &["ask", "Hello"]);
    assert_eq!(wrong.status.code(), Some(3));
    assert!(
        !wrong.stderr.is_empty() && !bytes_to_text(&wrong.stderr).contains("api-wrong"),
        "keys are not echoed"
    );
    for _ in 0..20 {
        vendor.add_script([Say::Refuse(400)]);
    }
    let failed = run_client(&service, &api, &["ask", "Hello"]);
    assert_eq!(failed.status.code(), Some(4), "a failed answer fails the command");
}

#[test]
fn ask_reads_question_from_pipe() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    for arguments in [&["ask", "-"][..], &["ask"]] {
        let asked = run_typing(&service, &api, arguments, "What does this say?\nx = 1\n");
        assert_eq!((asked.status.code(), bytes_to_text(&asked.stdout).as_str()), (Some(0), "Done.\n"));
    }
    let asked = vendor.request_bodies();
    let last = asked.last().expect("a request").to_string();
    assert!(last.contains("What does this say?\\nx = 1"), "{last}");
    let empty = run_typing(&service, &api, &["ask"], " \n");
    assert_eq!(empty.status.code(), Some(2));
    assert!(bytes_to_text(&empty.stderr).contains("there is no question"), "{empty:?}");
}

#[test]
fn ask_ctrl_c_stops_answer() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("One"), Say::Hold]);
    let mut child = spawn_piped(client_command(&service, &api, &["ask", "Count"]));
    let mut notes = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut first = String::new();
    notes.read_line(&mut first).expect("a note");
    let chat = first.trim().strip_prefix("· conversation ").expect("the conversation comes first").to_owned();
    vendor.wait_for_holds(1);
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("a process id");
    kill_process(pid, Signal::INT).expect("it runs");
    let status = child.wait().expect("it ends");
    let mut rest = String::new();
    notes.read_to_string(&mut rest).expect("notes");
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(rest.contains("stopping the answer"), "{rest}");
    assert_eq!(api.get_chat(&chat).json()["chat"]["status"], "completed");
    vendor.release_hold();
}

#[test]
fn ask_json_is_service_object() {
    let StreamFixture { api, service, .. } = stream_fixture();
    let asked = run_client(&service, &api, &["ask", "Hello", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&asked.stdout).expect("one JSON object");
    assert_eq!(answer, api.get_answer(&answer));
    let chat = answer["chatId"].as_str().expect("an identifier");
    let shown = run_client(&service, &api, &["show", chat, "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("one JSON object");
    assert_eq!(shown, api.get_chat(chat).json());
    let refused = run_client(&service, &api, &["ask", "Hello", "--json", "--model", "no-such-model"]);
    let error: serde_json::Value = serde_json::from_slice(&refused.stderr).expect("one JSON object");
    assert!(error["code"].is_string() && error["message"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn conversations_are_listed_shown_and_stopped() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("The **rent**.")]);
    assert!(run_client(&service, &api, &["ask", "How much?"]).status.success());
    let chat = api.list_chats("").json()["chats"][0]["chatId"].as_str().expect("a conversation").to_owned();
    let listed = bytes_to_text(&run_client(&service, &api, &["ls", "--chats"]).stdout);
    assert!(listed.starts_with(&chat) && listed.trim_end().ends_with("How much?"), "{listed}");
    let shown = bytes_to_text(&run_client(&service, &api, &["show", &chat]).stdout);
    assert_eq!(shown, "# How much?\n\n> How much?\n\nThe **rent**.\n\n");
    let idle = run_client(&service, &api, &["stop", &chat]);
    assert!(
        idle.status.success() && bytes_to_text(&idle.stderr).contains("no answer is being written"),
        "{idle:?}"
    );
    vendor.add_script([Say::from_text("One"), Say::Hold]);
    let answer = api.expect_accepted(&serde_json::json!({"input": "Count", "chatId": chat}));
    vendor.wait_for_holds(1);
    assert!(run_client(&service, &api, &["stop", &chat]).status.success());
    assert_eq!(api.wait_for_completion(&answer)["status"], "completed");
    vendor.release_hold();
}

#[test]
fn files_copy_works_both_ways() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let folder = tempfile::tempdir().expect("a folder");
    let local = folder.path().join("lease.txt");
    std::fs::write(&local, "The lease ends in May.\n").expect("a file");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    api.create_folder("/contracts").expect_status(201);
    let sent = run_client(&service, &api, &["cp", &path("lease.txt"), ":/contracts"]);
    assert!(sent.status.success(), "{}", bytes_to_text(&sent.stderr));
    let listed = bytes_to_text(&run_client(&service, &api, &["ls", "/contracts"]).stdout);
    assert!(listed.contains("23 B") && listed.trim_end().ends_with("lease.txt"), "{listed}");
    assert!(bytes_to_text(&run_client(&service, &api, &["ls"]).stdout).contains("contracts/"));
    let fetched = run_client(&service, &api, &["cp", ":/contracts/lease.txt", &path("back.txt")]);
    assert!(fetched.status.success(), "{}", bytes_to_text(&fetched.stderr));
    assert_eq!(std::fs::read_to_string(path("back.txt")).expect("the file"), "The lease ends in May.\n");
    let again = run_client(&service, &api, &["cp", ":/contracts/lease.txt", &path("back.txt")]);
    assert_eq!(again.status.code(), Some(1), "an existing file is not replaced");
    let missing = run_client(&service, &api, &["cp", ":/contracts/none.txt", &path("none.txt")]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(!folder.path().join("none.txt").exists(), "nothing is left of it");
    let of_folder = run_client(&service, &api, &["ask", "What is this?", "--file", &path("")]);
    assert_eq!(of_folder.status.code(), Some(2));
    assert!(bytes_to_text(&of_folder.stderr).contains("is a folder"), "{}", bytes_to_text(&of_folder.stderr));
    std::fs::write(path("empty.txt"), "").expect("a file");
    let empty = run_client(&service, &api, &["cp", &path("lease.txt"), &path("empty.txt"), ":/contracts"]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(bytes_to_text(&empty.stderr).contains("empty.txt is empty"), "{}", bytes_to_text(&empty.stderr));
}

#[test]
fn files_copy_takes_several_files() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(path(name), format!("This is {name}.\n")).expect("a file");
    }
    let sent = run_client(&service, &api, &["cp", &path("a.txt"), &path("b.txt"), ":/uploads"]);
    assert!(sent.status.success(), "{}", bytes_to_text(&sent.stderr));
    std::fs::create_dir(path("back")).expect("a folder");
    let fetched = run_client(&service, &api, &["cp", ":/uploads/a.txt", ":/uploads/b.txt", &path("back")]);
    assert!(fetched.status.success(), "{}", bytes_to_text(&fetched.stderr));
    assert_eq!(std::fs::read_to_string(path("back/b.txt")).expect("the file"), "This is b.txt.\n");
    let mut print = client_command(&service, &api, &["cp", ":/uploads/a.txt", "-"]);
    let printed = print.current_dir(folder.path()).output().expect("the binary can be run");
    assert_eq!(
        (bytes_to_text(&printed.stdout).as_str(), printed.status.code()),
        ("This is a.txt.\n", Some(0))
    );
    assert!(
        printed.stderr.is_empty() && !folder.path().join("-").exists(),
        "{}",
        bytes_to_text(&printed.stderr)
    );
}

#[test]
fn ask_attachment_replaces_no_file() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    for (name, rent) in [("a", "The rent is 900.\n"), ("b", "The rent is 1,200.\n")] {
        std::fs::create_dir(path(name)).expect("a folder");
        std::fs::write(path(&format!("{name}/offer.txt")), rent).expect("a file");
    }
    let (one, other) = (path("a/offer.txt"), path("b/offer.txt"));
    let asked = ["ask", "How much is the rent?", "--file", &one, "--file", &other];
    for noted in ["uploaded /uploads/offer (2).txt", "/uploads/offer.txt already exists"] {
        let asked = run_client(&service, &api, &asked);
        assert!(bytes_to_text(&asked.stderr).contains(noted), "{}", bytes_to_text(&asked.stderr));
        let answer = bytes_to_text(&asked.stdout);
        assert!(answer.contains("900") && answer.contains("1,200"), "{answer}");
    }
    assert_eq!(api.download_file("/uploads/offer.txt").expect_status(200).text(), "The rent is 900.\n");
    let copied = run_client(&service, &api, &["cp", &one, &other, ":/uploads"]);
    assert_eq!(copied.status.code(), Some(2), "{}", bytes_to_text(&copied.stderr));
}

#[test]
fn missing_key_is_explained() {
    let service = TestService::start(ServiceOptions::default());
    for arguments in
        [&["ask", "Hello"][..], &["chat"], &["ls"], &["show", "x"], &["cp", "a", ":/"], &["stop", "x"]]
    {
        for key in [None, Some("")] {
            let mut command = service.build_command();
            command.args(arguments).env_remove("CAUSERIE_API_KEY").stdin(Stdio::null());
            let refused =
                command.envs(key.map(|key| ("CAUSERIE_API_KEY", key))).output().expect("it can be run");
            let stderr = bytes_to_text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{stderr}");
            assert!(
                stderr.contains("CAUSERIE_API_KEY") && stderr.contains("causerie key create"),
                "{stderr}"
            );
        }
    }
}

#[test]
fn chat_asks_each_line_in_conversation() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("First.")]);
    vendor.add_script([Say::from_text("Second.")]);
    let held = run_typing(&service, &api, &["chat"], "One\n\n/nonsense\nTwo\n/exit\nThree\n");
    let (out, err) = (bytes_to_text(&held.stdout), bytes_to_text(&held.stderr));
    assert_eq!(held.status.code(), Some(2), "one line was no command: {err}");
    assert!(out.contains("First.\n") && out.contains("Second.\n"), "{out}");
    assert!(err.contains("unknown command /nonsense"), "{err}");
    let chats = api.list_chats("").json();
    assert_eq!(chats["totalCount"], 1);
    let chat = chats["chats"][0]["chatId"].as_str().expect("a conversation").to_owned();
    assert_eq!(
        api.get_chat(&chat).json()["messages"].as_array().map(Vec::len),
        Some(4),
        "the third was not asked"
    );
}

#[test]
fn chat_pipe_fails_with_first_failure() {
    let StreamFixture { vendor, api, service, .. } = stream_fixture();
    vendor.add_script([Say::from_text("Answered.")]);
    let held = run_typing(&service, &api, &["chat"], "One\n/new\n/model no-such-model\nTwo\n");
    assert_eq!((held.status.code(), bytes_to_text(&held.stdout).as_str()), (Some(3), "Answered.\n"));
    let held = run_typing(&service, &api, &["chat"], "/model no-such-model\nOne\n/file no-such-file\n");
    assert_eq!(held.status.code(), Some(3), "of two failures the first: {}", bytes_to_text(&held.stderr));
    let held = run_typing(&service, &api.with_key("api-wrong"), &["chat"], "One\nTwo\n");
    let err = bytes_to_text(&held.stderr);
    assert_eq!((held.status.code(), err.matches("401").count()), (Some(3), 1), "{err}");
    for _ in 0..20 {
        vendor.add_script([Say::Refuse(400)]);
    }
    let held = run_typing(&service, &api, &["chat"], "One\n");
    assert_eq!(held.status.code(), Some(4), "{}", bytes_to_text(&held.stderr));
}

#[test]
fn demo_answers_with_sources_and_ends() {
    let service = TestService::start(ServiceOptions::default());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut demo = service.build_command();
    demo.args(["demo", "--once", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    let output = demo.env("LC_ALL", "C").output().expect("it can be run");
    let printed = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    for part in
        ["The agent's machine: ", "two months", "[1] /uploads/employment-contract.docx", "api-", "password "]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
}
