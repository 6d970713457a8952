//! A data folder on a small disk that runs out of space or inodes.
//!
//! Each test re-executes itself in a mount namespace of its own, which its services share.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conformance::http::Request;
use conformance::{Account, Api, Options, Service, poll};
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
    service: Service,
    account: Account,
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
        let service = Service::start_on(Options { environment, ..Options::default() }, |service| {
            fs::create_dir(service.data()).expect("a data folder");
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", &format!("mode=0700,{options}"), "none"]).arg(service.data());
            assert!(mount.status().expect("mount is installed").success());
        });
        let account = service.account();
        service.admin(&["account", "set-role", "--account", &account.email, "--role", "operator"]);
        let api = service.api(&account);
        let small = Self { service, account, api };
        assert_eq!(small.state(), 200);
        small.ask();
        small
    }

    /// Asks a question and waits for the answer.
    fn ask(&self) {
        self.api.completed(&self.api.ask("What is the rent?"));
    }

    fn state(&self) -> u16 {
        Request::new("GET", "/readyz").send(self.service.address()).status
    }

    fn checks(&self) -> Value {
        // Values are for operators.
        let request = Request::new("GET", "/readyz?verbose").header("x-api-key", &self.account.key);
        request.send(self.service.address()).json()
    }

    /// Returns the health check with this name.
    fn check(&self, name: &str) -> Value {
        let checks = self.checks();
        let all = checks["checks"].as_array().expect("checks");
        all.iter().find(|check| check["name"] == name).expect(name).clone()
    }

    fn hog(&self) -> PathBuf {
        self.service.data().join("workspaces").join(&self.account.id).join("hog")
    }

    /// Checks that commands work without free space: revoking a key, creating keys and granting credits.
    fn obeys(&self) {
        let (id, key) = self.service.new_key(&self.account.email);
        let api = self.api.with_key(&key);
        assert_eq!(api.chats("").status, 200);
        let _ = self.service.admin(&["key", "revoke", &id]);
        assert_eq!(api.chats("").status, 401, "a revocation holds at once");
        let _ = self.service.admin(&["credits", "grant", "--account", &self.account.email, "1"]);
    }

    /// Checks that questions and files are rejected with a reason.
    fn refuses(&self) {
        poll::until("the service is not ready", || (self.state() == 503).then_some(()));
        let asked = self.api.send(&json!({ "input": "And the deposit?" }));
        assert_eq!((asked.status, &asked.json()["code"]), (503, &Value::from("UNAVAILABLE")));
        assert!(asked.header("retry-after").is_some());
        let file = self.api.upload("late.txt", b"late");
        assert_eq!((file.status, &file.json()["code"]), (409, &Value::from("QUOTA_EXCEEDED")));
        assert_eq!(self.api.chats("").status, 200, "reads still work");
    }

    /// Restarts on the full disk, and checks that commands work.
    fn starts_again(&mut self, fill: impl Fn()) {
        self.service.terminate();
        fill();
        self.service.restart();
        self.api.address = self.service.address().into();
        self.obeys();
        self.refuses();
    }

    fn recovers(&self) {
        poll::until("the service is ready again", || (self.state() == 200).then_some(()));
        self.ask();
        poll::until("the reserve is whole again", || {
            (self.check("disk_reserve")["status"] == "pass").then_some(())
        });
        assert!(allocated(&self.service.data().join("reserve")) >= 16 << 20, "it is more than a size");
    }
}

/// Returns the bytes that are allocated to the files of a folder.
fn allocated(folder: &Path) -> u64 {
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
fn a_disk_without_a_free_byte_leaves_a_service_that_obeys_and_starts() {
    if is_outside("disk::a_disk_without_a_free_byte_leaves_a_service_that_obeys_and_starts") {
        return;
    }
    let mut small = Small::start("size=320m");
    let hog = small.hog();
    fill_bytes(&hog);
    small.refuses();
    let bytes = small.check("disk_bytes");
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
    small.obeys();
    small.obeys();
    done.store(true, Ordering::Relaxed);
    greedy.join().expect("it ends");
    small.starts_again(|| fill_bytes(&hog));
    // Commands also work without a running service.
    let (id, _) = small.service.new_key(&small.account.email);
    small.service.kill();
    fill_bytes(&hog);
    let _ = small.service.admin(&["key", "revoke", &id]);
    fs::remove_file(&hog).expect("it is there");
    small.service.restart();
    small.api.address = small.service.address().into();
    small.recovers();
}

#[test]
fn a_disk_without_a_free_inode_leaves_a_service_that_obeys_and_starts() {
    if is_outside("disk::a_disk_without_a_free_inode_leaves_a_service_that_obeys_and_starts") {
        return;
    }
    let mut small = Small::start("size=400m,nr_inodes=5000");
    let hog = small.hog();
    fill_inodes(&hog);
    small.refuses();
    assert_eq!(small.check("disk_inodes")["status"], "fail");
    fill_inodes(&hog);
    small.obeys();
    small.starts_again(|| fill_inodes(&hog));
    fs::remove_dir_all(&hog).expect("it is there");
    small.recovers();
}
