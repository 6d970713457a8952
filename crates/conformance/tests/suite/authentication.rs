//! Section 5: the key is the only authentication, and is checked before everything else.

pub(crate) use conformance::cases::assert_rejected;
use conformance::{Expect, NewAccount, Options, Service};

#[test]
fn a_revoked_key_is_rejected_at_once_and_others_go_on() {
    let service = Service::start(Options::default());
    let account = service.account();
    let api = service.api(&account);
    let (_, other) = service.new_key(&account.email);
    api.vm().expect_status(200);
    service.admin(&["key", "revoke", &account.key_id]);
    assert_rejected(&api);
    api.with_key(&other).vm().expect_status(200);
}

#[test]
fn keys_work_exactly_as_long_as_the_licence() {
    let service = Service::start(Options::default());
    let account = service.account();
    let api = service.api(&account);
    api.vm().expect_status(200);
    service.admin(&["licence", "set", "--account", &account.email, "--until", "2020-01-01"]);
    assert_rejected(&api);
    service.admin(&["licence", "set", "--account", &account.email, "--until", "2099-12-31"]);
    api.vm().expect_status(200);
}

#[test]
fn a_key_without_a_licence_is_not_made() {
    let service = Service::start(Options::default());
    let account = service.account_as(&NewAccount::default());
    service.admin(&["licence", "set", "--account", &account.email, "--until", "2020-01-01"]);
    let refused = service.try_admin(&["key", "create", "--account", &account.email, "--name", "late"]);
    assert!(!refused.status.success());
    assert!(!String::from_utf8_lossy(&refused.stdout).contains("api-"), "no key is shown");
}

#[test]
fn a_key_is_shown_once_and_stored_nowhere() {
    let service = Service::start(Options::default());
    let account = service.account();
    assert!(account.key.starts_with("api-"), "{}", account.key.len());
    // At least 160 bits as letters and digits: 27 characters.
    assert!(account.key.len() >= 4 + 27 && account.key[4..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let listed = service.admin(&["key", "list", "--account", &account.email]).to_string();
    assert!(listed.contains(&account.key_id) && !listed.contains(&account.key), "{listed}");
    service.api(&account).vm().expect_status(200);
    assert!(!service.log().contains(&account.key), "no key in the log");
    for file in files_below(&service.data()) {
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
