//! Errors of the operator's commands.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::{Expect, ServiceOptions, TestService};
use serde_json::Value;

/// Returns the code of a failed command: its standard output is empty, its standard error one JSON object
/// with code and message.
fn failure_code(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{stderr}");
    let error: Value = serde_json::from_str(&stderr).expect("one JSON object");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    assert_eq!(error.as_object().map(serde_json::Map::len), Some(2), "{error}");
    error["code"].as_str().expect("a code").to_owned()
}

fn check_refusals(service: &TestService, email: &str) {
    let long = "x".repeat(400);
    let long_email = format!("{long}@example.test");
    let key = |name| vec!["key", "create", "--account", email, "--name", name];
    let create = |email| vec!["account", "create", "--email", email];
    let grant = |amount| vec!["credits", "grant", "--account", email, amount];
    for (arguments, wanted) in [
        (key(""), "INVALID_NAME"),
        (key("  "), "INVALID_NAME"),
        (key("bell\u{7}"), "INVALID_NAME"),
        (key("two\nlines"), "INVALID_NAME"),
        (key(&long), "INVALID_NAME"),
        ([key("a"), vec!["--scope", ""]].concat(), "INVALID_SCOPE"),
        ([key("a"), vec!["--scope", "read,write"]].concat(), "INVALID_SCOPE"),
        ([key("a"), vec!["--expires", "soon"]].concat(), "INVALID_DATE"),
        ([key("a"), vec!["--expires", "2020-01-01"]].concat(), "INVALID_DATE"),
        ([key("a"), vec!["--spending-limit", "0"]].concat(), "INVALID_AMOUNT"),
        ([key("a"), vec!["--spending-limit", "9223372036854775808"]].concat(), "INVALID_AMOUNT"),
        (create(""), "INVALID_EMAIL"),
        (create("nobody"), "INVALID_EMAIL"),
        (create("a b@example.test"), "INVALID_EMAIL"),
        (create("a\n@example.test"), "INVALID_EMAIL"),
        (create("a\u{85}@example.test"), "INVALID_EMAIL"),
        (create(&long_email), "INVALID_EMAIL"),
        (create(email), "EMAIL_TAKEN"),
        ([create("b@example.test"), vec!["--credits", "9223372036854775808"]].concat(), "INVALID_AMOUNT"),
        ([create("b@example.test"), vec!["--credits", "18446744073709551616"]].concat(), "USAGE"),
        ([create("b@example.test"), vec!["--licence-until", "2020-01-01"]].concat(), "INVALID_DATE"),
        ([create("b@example.test"), vec!["--licence-until", "2027-02-30"]].concat(), "INVALID_DATE"),
        (grant("0"), "INVALID_AMOUNT"),
        (grant("9223372036854775807"), "INVALID_AMOUNT"),
        (grant("-5"), "USAGE"),
        (grant("much"), "USAGE"),
        (vec!["credits", "show", "--account", "nobody@example.test"], "NO_SUCH_ACCOUNT"),
        (vec!["credits", "show", "--account", ""], "NO_SUCH_ACCOUNT"),
        (vec!["key", "list", "--account", "a\u{1}"], "NO_SUCH_ACCOUNT"),
        (vec!["usage", "--account", "nobody@example.test"], "NO_SUCH_ACCOUNT"),
        (vec!["usage", "--account", email, "--since", "yesterday"], "INVALID_DATE"),
        (vec!["key", "revoke", "x"], "NO_SUCH_KEY"),
        (vec!["key", "revoke", "00000000-0000-4000-8000-000000000000"], "NO_SUCH_KEY"),
        (vec!["job", "retry", "x"], "NO_SUCH_JOB"),
        (vec!["job", "retry", "00000000-0000-4000-8000-000000000000"], "NO_SUCH_JOB"),
        (vec!["licence", "set", "--account", email, "--until", "soon"], "INVALID_DATE"),
        (vec!["key"], "USAGE"),
    ] {
        assert_eq!(failure_code(&service.try_admin_command(&arguments)), wanted, "{arguments:?}");
    }
}

#[test]
fn invalid_commands_refused_without_service() {
    let mut service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    check_refusals(&service, &account.email);
    service.terminate();
    check_refusals(&service, &account.email);
    assert_eq!(service.show_credits(&account), (10_000, 0), "the commands had no effect");
    let keys = service.run_admin_command(&["key", "list", "--account", &account.email]);
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        service.run_admin_command(&["job", "list"])["jobs"].as_array().map(Vec::len),
        Some(0),
        "none has failed"
    );
}

#[test]
fn mistyped_data_folder_creates_nothing() {
    let service = TestService::start(ServiceOptions::default());
    let missing = service.data_folder().with_file_name("dat");
    let bare = service.data_folder().with_file_name("bare");
    fs::create_dir(&bare).expect("a folder");
    for folder in [&missing, &bare] {
        let mut command = service.build_command();
        command.args(["machine", "list", "--json", "--data"]).arg(folder);
        let output = command.output().expect("the binary can be run");
        assert_eq!(failure_code(&output), "NO_DATABASE");
        let looked_for = folder.join("causerie.db");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(looked_for.to_str().expect("a path")), "{stderr}");
    }
    assert!(!missing.exists());
    assert_eq!(fs::read_dir(&bare).expect("a folder").count(), 0);
    let mut command = service.build_command();
    let plain = command.args(["machine", "list", "--data"]).arg(&missing).output().expect("it can be run");
    assert!(String::from_utf8_lossy(&plain.stderr).starts_with("causerie: no database "));
}

#[test]
fn command_waits_for_data_folder_lock() {
    let mut service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    service.terminate();
    // Like a starting service that has not opened its socket yet.
    let lock = fs::File::options().append(true).open(service.data_folder().join("lock")).expect("the lock");
    lock.lock().expect("it is free");
    let mut command = service.build_command();
    command.args(["credits", "grant", "--account", &account.email, "5", "--json", "--data"]);
    let mut waiting = command.arg(service.data_folder()).spawn().expect("the binary can be run");
    let stat = std::path::PathBuf::from(format!("/proc/{}/syscall", waiting.id()));
    e2e::poll::wait_until("it waits", || {
        fs::read_to_string(&stat).ok().filter(|call| !call.starts_with("running"))
    });
    assert!(waiting.try_wait().expect("it can be looked at").is_none(), "the folder is another's");
    drop(lock);
    assert!(waiting.wait().expect("it ends").success());
    assert_eq!(service.show_credits(&account), (10_005, 0));
    // A starting service waits for a running command, too.
    let lock = fs::File::options().append(true).open(service.data_folder().join("lock")).expect("the lock");
    lock.lock().expect("it is free");
    let letting_go = std::thread::spawn(move || drop(lock));
    service.restart();
    letting_go.join().expect("it was let go");
    service.api_for(&account).get_vm().expect_status(200);
}

#[test]
fn closed_pipe_ends_command_quietly() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    for arguments in
        [&["config", "print"][..], &["plugins", "list"], &["key", "list", "--account", &account.email]]
    {
        let mut command = service.build_command();
        command.args(arguments);
        if arguments[0] == "key" {
            command.arg("--data").arg(service.data_folder());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be run");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && stderr.is_empty(), "{arguments:?}: {}, {stderr}", ended.status);
    }
}

#[test]
fn foreign_workspace_database_is_refused() {
    let mut service = TestService::start(ServiceOptions::default());
    let _ = service.create_account();
    service.terminate();
    let other = test_support::postgres::shared_server().new_database();
    let mut serve = service.build_command();
    serve
        .args(["serve", "--listen", "127.0.0.1:0", "--database", &other, "--data"])
        .arg(service.data_folder());
    let ended = serve.output().expect("the binary can be run");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && stderr.contains("the database is missing or empty"), "{stderr}");
    let made =
        service.try_admin_command(&["account", "create", "--email", "b@example.test", "--database", &other]);
    assert_eq!(failure_code(&made), "DATABASE_EMPTY");
    service.restart();
}

#[test]
fn damaged_database_named_with_remedy() {
    // The test damages the database file, so it uses SQLite even in a PostgreSQL run.
    let environment = vec![("CAUSERIE_DATABASE".to_owned(), String::new())];
    let mut service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    service.terminate();
    let database = service.data_folder().join("causerie.db");
    let mut content = fs::read(&database).expect("the database");
    content[..100].fill(b'x');
    fs::write(&database, content).expect("the database");
    let mut serve = service.build_command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(service.data_folder());
    let ended = serve.output().expect("the binary can be run");
    let refused = service.try_admin_command(&["key", "list", "--account", &account.email]);
    assert_eq!(failure_code(&refused), "DATABASE_FAILED");
    for stderr in [ended.stderr, refused.stderr] {
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(stderr.contains("causerie.db is damaged") && stderr.contains("causerie restore"), "{stderr}");
    }
}

#[test]
fn missing_permission_is_named() {
    /// A user who may not enter the data folder.
    const STRANGER: u32 = 4712;
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let closed = fs::metadata(service.data_folder()).expect("a folder");
    let above = service.data_folder().parent().expect("a folder").to_owned();
    let is_root = closed.uid() == 0;
    let program = above.join("causerie-of-others");
    if is_root {
        fs::set_permissions(&above, PermissionsExt::from_mode(0o711)).expect("permissions");
        fs::copy(service.build_command().get_program(), &program).expect("a copy that everyone may run");
    } else {
        fs::set_permissions(service.data_folder(), PermissionsExt::from_mode(0o000)).expect("permissions");
    }
    let run = |arguments: &[&str]| {
        let mut command = service.build_command();
        if is_root {
            command = Command::new(&program);
            command.uid(STRANGER).gid(STRANGER).env_clear();
        }
        command
            .args(arguments)
            .arg("--data")
            .arg(service.data_folder())
            .output()
            .expect("the binary can be run")
    };
    let keys = ["key", "list", "--json", "--account", &account.email];
    let outputs = [&keys[..], &["models", "--json"], &["doctor", "--json"]].map(run);
    fs::set_permissions(service.data_folder(), closed.permissions()).expect("permissions");
    let says_so =
        |text: &str| text.contains("Permission denied") && text.contains("as the user of the service");
    for refused in &outputs[..2] {
        assert_eq!(failure_code(refused), "DATA_FOLDER_UNUSABLE");
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(says_so(&stderr), "{stderr}");
    }
    let doctor: Value = serde_json::from_slice(&outputs[2].stdout).expect("one JSON object");
    for name in ["service", "database"] {
        let checks = doctor["checks"].as_array().expect("checks");
        let check =
            checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {doctor}"));
        assert!(check["status"] == "fail" && check["reason"].as_str().is_some_and(says_so), "{check}");
    }
}

/// Checks that everything in a folder belongs to the folder's owner, and returns the number of entries.
fn belongs_to_its_owner(folder: &Path) -> usize {
    let owner = fs::metadata(folder).expect("a folder").uid();
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let made = entry.metadata().expect("an entry");
        assert_eq!(made.uid(), owner, "{}", entry.path().display());
        seen += 1;
        if made.is_dir() {
            seen += belongs_to_its_owner(&entry.path());
        }
    }
    seen
}

#[test]
fn command_files_belong_to_folder_owner() {
    /// The owner of the folder if the test runs as root, like a service with its own user.
    const SERVICE: u32 = 4711;
    let service = TestService::start(ServiceOptions::default());
    let root = service.data_folder().with_file_name("elsewhere");
    let (data, restored, own) = (root.join("data"), root.join("restored"), root.join("own"));
    for folder in [&data, &restored, &own] {
        fs::create_dir_all(folder).expect("a folder");
        fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).expect("permissions");
    }
    let me = fs::metadata(&own).expect("a folder").uid();
    if me == 0 {
        let above = root.parent().expect("a folder");
        fs::set_permissions(above, PermissionsExt::from_mode(0o711)).expect("permissions");
        for folder in [&data, &restored] {
            chown(folder, Some(SERVICE), Some(SERVICE)).expect("given away");
        }
    }
    let run = |arguments: &[&str], data: &Path| {
        let output = service.build_command().args(arguments).arg("--data").arg(data).arg("--json").output();
        let output = output.expect("the binary can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["account", "create", "--email", "a@example.test"], &data);
    assert!(belongs_to_its_owner(&data) >= 3);
    let archive = own.join("backup");
    let path = archive.to_str().expect("a path");
    run(&["backup", path], &data);
    assert_eq!(fs::metadata(&archive).expect("a backup").uid(), me);
    run(&["restore", path], &restored);
    assert!(belongs_to_its_owner(&restored) >= 3);
    belongs_to_its_owner(&data);
}

/// Runs `doctor` with further variables.
fn run_doctor(service: &TestService, environment: &[(&str, &str)]) -> Value {
    let temporary = tempfile::tempdir().expect("a folder");
    // Machines run as other users, who must be able to traverse the folder.
    fs::set_permissions(temporary.path(), PermissionsExt::from_mode(0o711)).expect("permissions");
    let mut command = service.build_command();
    command.args(["doctor", "--json", "--data"]).arg(service.data_folder()).env("TMPDIR", temporary.path());
    let output = command.envs(environment.iter().copied()).output().expect("the binary can be run");
    assert_eq!(fs::read_dir(temporary.path()).expect("a folder").count(), 0, "nothing is left");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(answer["ok"].as_bool(), Some(output.status.success()));
    answer
}

#[test]
fn doctor_names_checks_and_remedies() {
    let mut service = TestService::start(ServiceOptions::default());
    let doctor = |environment: &[(&str, &str)]| run_doctor(&service, environment);
    let found = |answer: &Value, name: &str| {
        let checks = answer["checks"].as_array().expect("checks");
        let check =
            checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {answer}"));
        (
            check["status"].as_str().expect("a status").to_owned(),
            check["reason"].as_str().expect("words").to_owned(),
        )
    };
    let well = doctor(&[]);
    assert!(well["ok"] == true, "{well}");
    for name in ["configuration", "host", "service", "disk", "database", "driver_sandbox"] {
        assert_eq!(found(&well, name).0, "pass", "{well}");
    }
    // A warning explains how this host could isolate machines better.
    assert_ne!(found(&well, "machines").0, "fail", "{well}");
    assert!(found(&well, "service").1.starts_with("runs on"));

    // The service's settings are judged, not the variables of the shell.
    let others = [
        ("SEARXNG_URL", "http://127.0.0.1:9"),
        ("CAUSERIE_MACHINE_KERNEL", "/no/kernel"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
    ];
    let served = doctor(&others);
    assert!(served["ok"] == true && found(&served, "web_search").0 == "warn", "{served}");
    assert!(
        !served.to_string().contains("/no/kernel") && !served.to_string().contains("vendor_openai"),
        "{served}"
    );

    let mut people = service.build_command();
    let output =
        people.args(["doctor", "--data"]).arg(service.data_folder()).output().expect("it can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("ok") && text.contains("0 problems"), "{text}");

    service.terminate();
    let doctor = |environment: &[(&str, &str)]| run_doctor(&service, environment);
    assert!(found(&doctor(&[]), "service").1.starts_with("not running on"));
    let ill = doctor(&[("SEARXNG_URL", "http://127.0.0.1:9"), ("CAUSERIE_MACHINE_KERNEL", "/no/kernel")]);
    assert_eq!(found(&ill, "web_search").0, "fail");
    let (status, reason) = found(&ill, "driver_uml");
    assert!(status == "warn" && reason.contains("/no/kernel"), "there is still the sandbox: {reason}");
    let set = doctor(&[("CAUSERIE_MACHINE_KERNEL", "/no/kernel"), ("CAUSERIE_MACHINE_DRIVER", "uml")]);
    assert_eq!((found(&set, "driver_uml").0, found(&set, "machines").0), ("fail".into(), "fail".into()));
    let wrong = doctor(&[("CAUSERIE_MACHINE_MEMORY_BYTES", "little")]);
    let (status, reason) = found(&wrong, "configuration");
    assert!(status == "fail" && reason.contains("machine.memory_bytes"), "{reason}");
}

#[test]
fn status_commands_print_tables_and_json() {
    let mut service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let log = service.log_text();
    assert!(log.contains("no operator yet") && log.contains("/docs"), "what to do next: {log}");
    let api = service.api_for(&account);
    let _ = api.wait_for_completion(&api.ask_question("What is written there?"));
    let listed = service.run_admin_command(&["account", "list"]);
    let shown = service.run_admin_command(&["account", "show", &account.email]);
    for found in [&listed["accounts"][0], &shown] {
        assert_eq!(found["email"], account.email.as_str(), "{found}");
        assert_eq!(
            (found["reserved"].as_u64(), found["conversations"].as_u64()),
            (Some(0), Some(1)),
            "{found}"
        );
    }
    assert_eq!((shown["keys"].as_u64(), shown["machine"].as_str()), (Some(1), Some("RUNNING")), "{shown}");
    let status = service.run_admin_command(&["status"]);
    assert!(status["address"].as_str().is_some_and(|url| url.ends_with(service.address())), "{status}");
    assert_eq!((status["accounts"].as_u64(), status["machines"]["RUNNING"].as_u64()), (Some(1), Some(1)));
    assert!(status["defaultModel"].is_string() && status["driver"].is_string(), "{status}");
    let table =
        service.build_command().args(["account", "list", "--data"]).arg(service.data_folder()).output();
    let table = String::from_utf8(table.expect("it can be run").stdout).expect("text");
    let lines: Vec<_> = table.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("EMAIL") && lines[1].starts_with(&account.email),
        "{table}"
    );
    assert!(!table.contains("accountId") && !table.contains(".000Z"), "words and short times: {table}");
    let printed = |arguments: &[&str]| {
        let output =
            service.build_command().args(arguments).arg("--data").arg(service.data_folder()).output();
        String::from_utf8(output.expect("it can be run").stdout).expect("text")
    };
    let models = printed(&["models"]);
    let reader =
        models.lines().find(|line| line.starts_with("reader ")).unwrap_or_else(|| panic!("{models}"));
    assert!(models.starts_with("MODEL ") && reader.ends_with("default, built in"), "{models}");
    let usage = printed(&["usage", "--account", &account.email]);
    let lines: Vec<_> =
        usage.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).collect();
    assert!(lines.len() == 4 && lines[0] == "OF" && lines[2..] == ["reader", "total"], "{usage}");
    assert_eq!(printed(&["job", "list"]), "no failed jobs\n");
    assert!(printed(&["status"]).contains("\nmachines: 1 running ("), "{}", printed(&["status"]));
    let ended: Vec<_> =
        service.log_text().lines().filter(|line| line.contains("answer ended")).map(str::to_owned).collect();
    assert_eq!(ended.len(), 1, "one line for the answer");
    for field in
        ["account=", "model=", "ending=\"done\"", "steps=", "tokens_written=", "credits=", "milliseconds="]
    {
        assert!(ended[0].contains(field), "{field}: {}", ended[0]);
    }

    service.terminate();
    assert_eq!(
        service.run_admin_command(&["account", "list"])["accounts"][0]["email"],
        account.email.as_str()
    );
    assert_eq!(failure_code(&service.try_admin_command(&["status"])), "SERVICE_UNREACHABLE");
}

#[test]
fn shells_complete_commands() {
    let service = TestService::start(ServiceOptions::default());
    for shell in ["bash", "zsh", "fish"] {
        let output = service.build_command().args(["completions", shell]).output().expect("it can be run");
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("doctor"), "{shell}");
    }
    assert!(
        !service.build_command().args(["completions", "tcsh"]).status().expect("it can be run").success()
    );
}
