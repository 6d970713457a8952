//! The operator's commands, which work while the service runs.

use e2e::{Expect, ServiceOptions, TestService};

#[test]
fn account_commands_work_without_service() {
    let mut service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    service.api_for(&account).get_vm().expect_status(200);
    let machines = service.run_admin_command(&["machine", "list"]);
    assert!(machines["machines"].is_array(), "{machines}");
    service.terminate();
    let (_, key) = service.new_key(&account.email);
    service.run_admin_command(&["credits", "grant", "--account", &account.email, "5"]);
    service.restart();
    let api = service.api_for(&account);
    api.with_key(&key).get_vm().expect_status(200);
    assert_eq!(service.show_credits(&account), (10_005, 0));
    for wrong in [
        vec![
            "account",
            "create",
            "--email",
            &account.email,
            "--licence-until",
            "2099-12-31",
            "--credits",
            "1",
        ],
        vec!["account", "create", "--email", "b@example.test", "--licence-until", "never", "--credits", "1"],
        vec!["key", "create", "--account", "nobody@example.test", "--name", "x"],
        vec!["key", "revoke", "no-such-key"],
        vec!["credits", "grant", "--account", &account.email, "-5"],
        vec!["licence", "set", "--account", "nobody@example.test", "--until", "2099-12-31"],
    ] {
        let output = service.try_admin_command(&wrong);
        assert!(!output.status.success(), "{wrong:?}");
        assert!(!output.stderr.is_empty(), "{wrong:?} says why");
    }
}

#[test]
fn password_from_stdin_stored_hashed() {
    const PASSWORD: &str = "tajné-heslo-Žofie";
    // The test reads the database file, so it uses SQLite even in a PostgreSQL run.
    let environment = vec![("CAUSERIE_DATABASE".to_owned(), String::new())];
    let mut service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let create = |email: &'static str| ["account", "create", "--email", email, "--password-stdin"];
    let typed = format!("{PASSWORD}\n");
    let two_lines = format!("{PASSWORD}\n{PASSWORD}\n");
    let mut outputs = Vec::new();
    let made = service.try_admin_command_with_stdin(&create("a@example.test"), typed.as_bytes());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for wrong in [
        &b""[..],
        b"short\n",
        b"tajn\xe9-heslo-Zofie\n",
        b"tajn\0-heslo-Zofie\n",
        two_lines.as_bytes(),
        &[b'x'; 5000],
    ] {
        let refused = service.try_admin_command_with_stdin(&create("b@example.test"), wrong);
        assert!(!refused.status.success() && !refused.stderr.is_empty(), "{wrong:?}");
        outputs.extend([refused.stdout, refused.stderr]);
    }
    service.terminate();
    let set = ["account", "set-password", "--account", "a@example.test", "--password-stdin"];
    let set = service.try_admin_command_with_stdin(&set, typed.as_bytes());
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let unasked = ["account", "set-password", "--account", "a@example.test"];
    let unasked = service.try_admin_command_with_stdin(&unasked, typed.as_bytes());
    let stderr = String::from_utf8_lossy(&unasked.stderr).into_owned();
    assert!(!unasked.status.success() && stderr.contains("--password-stdin"), "{stderr}");
    let later = service.try_admin_command_with_stdin(&create("b@example.test"), typed.as_bytes());
    assert!(later.status.success(), "the refused ones made no account");
    outputs.extend([made.stdout, made.stderr, set.stdout, set.stderr, later.stdout, later.stderr]);
    outputs.push(service.log_text().into_bytes());
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(
        outputs.iter().all(|text| !holds(text, PASSWORD) && !holds(text, "$argon2")),
        "the password is not revealed"
    );
    let database = std::fs::read(service.data_folder().join("causerie.db")).expect("the database");
    assert!(holds(&database, "$argon2id$v=19$m=19456,t=2,p=1$") && !holds(&database, PASSWORD));
}
