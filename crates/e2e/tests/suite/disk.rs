//! A data folder on a small disk that runs out of space or inodes.
//!
//! Each test re-executes itself in a separate mount namespace, which its services share.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use e2e::http::HttpRequest;
use e2e::{Api, ServiceOptions, TestAccount, TestService, poll};
use serde_json::{Value, json};

/// Set in a test's re-execution.
const APART: &str = "CONFORMANCE_APART";

/// Runs this test again in its own mount namespace; returns `false` if this is that run.
fn is_outside(test: &str) -> bool {
    if std::env::var_os(APART).is_some() {
        return false;
    }
    let own = std::env::current_exe().expect("the test knows its own path");
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "--propagation", "private"]).arg(own);
    let ended = apart.args(["--exact", test, "--nocapture"]).env(APART, "1").status();
    assert!(ended.expect("unshare is installed").success(), "see above");
    true
}

/// A service whose data folder is a separate disk.
struct Small {
    service: TestService,
    account: TestAccount,
    api: Api,
}

impl Small {
    fn start(options: &str) -> Self {
        let set = |name: &str, value: &str| (format!("CAUSERIE_{name}"), value.to_owned());
        let environment = vec![
            set("DISK_RESERVE_BYTES", "32 MiB"),
            set("DISK_FREE_MIN_BYTES", "24 MiB"),
            set("QUOTA_DISK_FREE_MIN_BYTES", "24 MiB"),
        ];
        let service =
            TestService::start_on(ServiceOptions { environment, ..ServiceOptions::default() }, |service| {
                fs::create_dir(service.data_folder()).expect("a data folder");
                let mut mount = Command::new("mount");
                mount
                    .args(["-t", "tmpfs", "-o", &format!("mode=0700,{options}"), "none"])
                    .arg(service.data_folder());
                assert!(mount.status().expect("mount is installed").success());
            });
        let account = service.create_account();
        service.run_admin_command(&[
            "account",
            "set-role",
            "--account",
            &account.email,
            "--role",
            "operator",
        ]);
        let api = service.api_for(&account);
        let small = Self { service, account, api };
        assert_eq!(small.readiness_status(), 200);
        small.ask_and_wait();
        small
    }

    /// Asks a question and waits for the answer.
    fn ask_and_wait(&self) {
        self.api.wait_for_completion(&self.api.ask_question("What is the rent?"));
    }

    fn readiness_status(&self) -> u16 {
        HttpRequest::new("GET", "/readyz").send(self.service.address()).status
    }

    fn health_checks(&self) -> Value {
        // Values are for operators.
        let request = HttpRequest::new("GET", "/readyz?verbose").with_header("x-api-key", &self.account.key);
        request.send(self.service.address()).json()
    }

    /// Returns the health check with this name.
    fn health_check(&self, name: &str) -> Value {
        let checks = self.health_checks();
        let all = checks["checks"].as_array().expect("checks");
        all.iter().find(|check| check["name"] == name).expect(name).clone()
    }

    fn hog_file(&self) -> PathBuf {
        self.service.data_folder().join("workspaces").join(&self.account.id).join("hog")
    }

    /// Checks that commands work without free space: revoking a key, creating keys and granting credits.
    fn check_commands_work(&self) {
        let (id, key) = self.service.new_key(&self.account.email);
        let api = self.api.with_key(&key);
        assert_eq!(api.list_chats("").status, 200);
        let _ = self.service.run_admin_command(&["key", "revoke", &id]);
        assert_eq!(api.list_chats("").status, 401, "a revocation holds at once");
        let _ = self.service.run_admin_command(&["credits", "grant", "--account", &self.account.email, "1"]);
    }

    /// Checks that questions and files are rejected with a reason.
    fn check_requests_refused(&self) {
        poll::wait_until("the service is not ready", || (self.readiness_status() == 503).then_some(()));
        let asked = self.api.send_question(&json!({ "input": "And the deposit?" }));
        assert_eq!((asked.status, &asked.json()["code"]), (503, &Value::from("UNAVAILABLE")));
        assert!(asked.header("retry-after").is_some());
        let file = self.api.upload_file("late.txt", b"late");
        assert_eq!((file.status, &file.json()["code"]), (409, &Value::from("QUOTA_EXCEEDED")));
        assert_eq!(self.api.list_chats("").status, 200, "reads still work");
    }

    /// Restarts on the full disk, and checks that commands work.
    fn starts_again(&mut self, fill: impl Fn()) {
        self.service.terminate();
        fill();
        self.service.restart();
        self.api.address = self.service.address().into();
        self.check_commands_work();
        self.check_requests_refused();
    }

    fn check_recovery(&self) {
        poll::wait_until("the service is ready again", || (self.readiness_status() == 200).then_some(()));
        self.ask_and_wait();
        poll::wait_until("the reserve is whole again", || {
            (self.health_check("disk_reserve")["status"] == "pass").then_some(())
        });
        assert!(
            allocated_bytes(&self.service.data_folder().join("reserve")) >= 16 << 20,
            "it is more than a size"
        );
    }
}

/// Returns the bytes that are allocated to the files of a folder.
fn allocated_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).expect("the folder").flatten();
    files.map(|file| file.metadata().map_or(0, |known| known.blocks() * 512)).sum()
}

/// Uses up all free space.
fn fill_bytes(hog: &Path) {
    let mut file = File::options().create(true).append(true).open(hog).expect("a file");
    for size in [1 << 20, 4096, 1] {
        let block = vec![b'x'; size];
        while file.write(&block).is_ok_and(|written| written > 0) {}
    }
}

/// Uses up all free inodes.
fn fill_inodes(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    for number in fs::read_dir(folder).expect("it is there").count().. {
        if File::options().create_new(true).write(true).open(folder.join(number.to_string())).is_err() {
            return;
        }
    }
}

#[test]
fn full_disk_service_obeys_and_starts() {
    if is_outside("disk::full_disk_service_obeys_and_starts") {
        return;
    }
    let mut small = Small::start("size=320m");
    let hog = small.hog_file();
    fill_bytes(&hog);
    small.check_requests_refused();
    let bytes = small.health_check("disk_bytes");
    assert_eq!(bytes["status"], "fail");
    assert_eq!(bytes["floor"], 24 << 20);
    assert!(bytes["free"].as_u64().is_some_and(|free| free < 24 << 20), "{bytes}");
    // A thread uses up space as soon as it becomes free.
    let done = Arc::new(AtomicBool::new(false));
    let greedy = std::thread::spawn({
        let (hog, done) = (hog.clone(), done.clone());
        move || {
            while !done.load(Ordering::Relaxed) {
                fill_bytes(&hog);
            }
        }
    });
    small.check_commands_work();
    small.check_commands_work();
    done.store(true, Ordering::Relaxed);
    greedy.join().expect("it ends");
    small.starts_again(|| fill_bytes(&hog));
    // Commands also work without a running service.
    let (id, _) = small.service.new_key(&small.account.email);
    small.service.kill();
    fill_bytes(&hog);
    let _ = small.service.run_admin_command(&["key", "revoke", &id]);
    fs::remove_file(&hog).expect("it is there");
    small.service.restart();
    small.api.address = small.service.address().into();
    small.check_recovery();
}

#[test]
fn full_inodes_service_obeys_and_starts() {
    if is_outside("disk::full_inodes_service_obeys_and_starts") {
        return;
    }
    let mut small = Small::start("size=400m,nr_inodes=5000");
    let hog = small.hog_file();
    fill_inodes(&hog);
    small.check_requests_refused();
    assert_eq!(small.health_check("disk_inodes")["status"], "fail");
    fill_inodes(&hog);
    small.check_commands_work();
    small.starts_again(|| fill_inodes(&hog));
    fs::remove_dir_all(&hog).expect("it is there");
    small.check_recovery();
}
