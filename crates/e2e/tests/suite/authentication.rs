//! Section 5: the key is the only authentication, and is checked before everything else.

pub(crate) use e2e::cases::assert_rejected;
use e2e::{Expect, ServiceOptions, TestAccountOptions, TestService};

#[test]
fn revoked_key_rejected_at_once() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let api = service.api_for(&account);
    let (_, other) = service.new_key(&account.email);
    api.get_vm().expect_status(200);
    service.run_admin_command(&["key", "revoke", &account.key_id]);
    assert_rejected(&api);
    api.with_key(&other).get_vm().expect_status(200);
}

#[test]
fn keys_work_until_licence_ends() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let api = service.api_for(&account);
    api.get_vm().expect_status(200);
    service.run_admin_command(&["licence", "set", "--account", &account.email, "--until", "2020-01-01"]);
    assert_rejected(&api);
    service.run_admin_command(&["licence", "set", "--account", &account.email, "--until", "2099-12-31"]);
    api.get_vm().expect_status(200);
}

#[test]
fn key_without_licence_is_refused() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account_with(&TestAccountOptions::default());
    service.run_admin_command(&["licence", "set", "--account", &account.email, "--until", "2020-01-01"]);
    let refused =
        service.try_admin_command(&["key", "create", "--account", &account.email, "--name", "late"]);
    assert!(!refused.status.success());
    assert!(!String::from_utf8_lossy(&refused.stdout).contains("api-"), "no key is shown");
}

#[test]
fn key_shown_once_and_not_stored() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    assert!(account.key.starts_with("api-"), "{}", account.key.len());
    // At least 160 bits as letters and digits: 27 characters.
    assert!(account.key.len() >= 4 + 27 && account.key[4..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let listed = service.run_admin_command(&["key", "list", "--account", &account.email]).to_string();
    assert!(listed.contains(&account.key_id) && !listed.contains(&account.key), "{listed}");
    service.api_for(&account).get_vm().expect_status(200);
    assert!(!service.log_text().contains(&account.key), "no key in the log");
    for file in files_below(&service.data_folder()) {
        let content = std::fs::read(&file).unwrap_or_default();
        let found = content.windows(account.key.len()).any(|window| window == account.key.as_bytes());
        assert!(!found, "{} holds the key", file.display());
    }
}

fn files_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}
