//! The built binary, run with a separate data folder.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use test_support::port::ReservedPort;
use test_support::processes;

use conformance::api::Api;
use conformance::http::HttpRequest;
use conformance::poll;

/// The variable with the database's URL.
pub const DATABASE: &str = "CAUSERIE_DATABASE";
const INHERITED: [&str; 5] =
    ["PATH", "HOME", "CAUSERIE_MACHINE_DRIVER", "CAUSERIE_MACHINE_KERNEL", "CAUSERIE_MACHINE_QEMU_KERNEL"];
/// The number of log lines that a failed test shows.
const LOG_LINES_SHOWN: usize = 60;

/// The options of a service's start.
#[derive(Debug, Clone, Default)]
pub struct ServiceOptions {
    /// Its environment besides `PATH` and `HOME`.
    pub environment: Vec<(String, String)>,
    /// Arguments of `serve` besides the folder and the address.
    pub arguments: Vec<String>,
}

/// The properties of a new account.
#[derive(Debug, Clone)]
pub struct TestAccountOptions {
    pub credits: u32,
    /// The last day of its licence.
    pub licence_until: &'static str,
    /// The account gets a machine.
    pub machine: bool,
}

impl Default for TestAccountOptions {
    fn default() -> Self {
        Self { credits: 10_000, licence_until: "2099-12-31", machine: true }
    }
}

/// An account with a key.
#[derive(Debug, Clone)]
pub struct TestAccount {
    pub id: String,
    /// Its email, by which the operator refers to it.
    pub email: String,
    pub key: String,
    /// The key's id, for revoking it.
    pub key_id: String,
}

/// A service of one test. It is killed with its machines when the test ends.
#[derive(Debug)]
pub struct TestService {
    binary: PathBuf,
    home: TempDir,
    options: ServiceOptions,
    address: String,
    /// Holds the address while the service is restarted.
    _port: ReservedPort,
    child: Option<Child>,
    accounts: AtomicU32,
}

/// Starts a service with one account and returns a caller for it.
#[must_use]
pub fn start_with_api() -> (TestService, Api) {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    (service, api)
}

impl TestService {
    /// Starts it on an empty folder and waits until it is healthy.
    ///
    /// # Panics
    /// Panics if the binary is not built or the service does not start.
    #[must_use]
    pub fn start(options: ServiceOptions) -> Self {
        Self::start_on(options, |_| {})
    }

    /// Starts it after `prepare` has run with its data folder.
    ///
    /// # Panics
    /// Like [`TestService::start`].
    #[must_use]
    pub fn start_on(options: ServiceOptions, prepare: impl FnOnce(&Self)) -> Self {
        Self::start_binary(service_binary(), options, prepare)
    }

    fn start_binary(binary: PathBuf, mut options: ServiceOptions, prepare: impl FnOnce(&Self)) -> Self {
        let given = options.environment.iter().any(|(name, _)| name == DATABASE);
        if !given && std::env::var_os("CAUSERIE_TEST_DATABASE").is_some_and(|engine| engine == "postgres") {
            options
                .environment
                .push((DATABASE.to_owned(), test_support::postgres::shared_server().new_database()));
        }
        assert!(binary.is_file(), "{} not found: run `make test`, which builds it", binary.display());
        let home = tempfile::Builder::new().prefix("conformance-").tempdir().expect("a temporary folder");
        // Machines run as other users, who must be able to traverse the folder.
        fs::set_permissions(home.path(), PermissionsExt::from_mode(0o711)).expect("a folder of one's own");
        let port = ReservedPort::reserve();
        let mut service = Self {
            binary,
            home,
            options,
            address: port.address().to_string(),
            _port: port,
            child: None,
            accounts: AtomicU32::new(0),
        };
        prepare(&service);
        service.start_until_healthy();
        service
    }

    /// Returns the data folder.
    #[must_use]
    pub fn data_folder(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Returns its address, `host:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the id of its process.
    ///
    /// # Panics
    /// Panics if it is not running.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.as_ref().expect("a running service").id()
    }

    /// Sends SIGKILL, to simulate a power failure.
    ///
    /// # Panics
    /// Panics if it is not running.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("a running service");
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }

    /// Sends SIGTERM and waits until it has exited.
    ///
    /// # Panics
    /// Panics if it does not exit, or fails.
    pub fn terminate(&mut self) {
        self.send_signal(Signal::TERM);
        let status = self.wait_for_exit();
        assert!(status.success(), "ended with {status}");
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// Panics if it is not running.
    pub fn send_signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("a running service");
        kill_process(Pid::from_child(child), signal).expect("the signal is sent");
    }

    /// Waits until it has exited and returns its status.
    ///
    /// # Panics
    /// Panics if it was not running, or does not exit.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("a running service");
        poll::wait_until("the service ends", || child.try_wait().expect("it can be looked at"))
    }

    /// Restarts it on the same folder and, if possible, the same address.
    ///
    /// # Panics
    /// Panics if it still runs, or does not start.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        self.start_until_healthy();
    }

    /// Creates an account with credits and a key.
    #[must_use]
    pub fn create_account(&self) -> TestAccount {
        self.create_account_with(&TestAccountOptions::default())
    }

    /// Creates an account with a key.
    ///
    /// # Panics
    /// Panics if the operator's commands fail.
    #[must_use]
    pub fn create_account_with(&self, wanted: &TestAccountOptions) -> TestAccount {
        let number = self.accounts.fetch_add(1, Ordering::Relaxed);
        let email = format!("account-{number}@example.test");
        let credits = wanted.credits.to_string();
        let mut arguments = vec!["account", "create", "--email", &email];
        arguments.extend(["--licence-until", wanted.licence_until, "--credits", &credits]);
        if !wanted.machine {
            arguments.push("--no-machine");
        }
        let made = self.run_admin_command(&arguments);
        assert_eq!(made["email"], email.as_str());
        let id = made["accountId"].as_str().expect("an account's id").to_owned();
        let (key_id, key) = self.new_key(&email);
        TestAccount { id, email, key, key_id }
    }

    /// Creates another key of an account and returns its id and the key.
    ///
    /// # Panics
    /// Panics if the operator's command fails.
    #[must_use]
    pub fn new_key(&self, email: &str) -> (String, String) {
        let made = self.run_admin_command(&["key", "create", "--account", email, "--name", "conformance"]);
        let text = |field: &str| made[field].as_str().expect("a key and its id").to_owned();
        (text("keyId"), text("key"))
    }

    /// Returns a caller with the account's key.
    #[must_use]
    pub fn api_for(&self, account: &TestAccount) -> Api {
        Api { address: self.address.as_str().into(), key: account.key.clone() }
    }

    /// Returns the available and the reserved credits of the account.
    ///
    /// # Panics
    /// Panics if the operator's command fails.
    #[must_use]
    pub fn show_credits(&self, account: &TestAccount) -> (i64, i64) {
        let shown = self.run_admin_command(&["credits", "show", "--account", &account.email]);
        let number = |field: &str| shown[field].as_i64().expect("a number of credits");
        (number("balance"), number("reserved"))
    }

    /// Runs an operator's command that must succeed, and returns the JSON that it printed.
    ///
    /// # Panics
    /// Panics if it fails or prints no JSON.
    pub fn run_admin_command(&self, arguments: &[&str]) -> Value {
        let output = self.try_admin_command(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?} ended with {}: {stderr}", output.status);
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// Runs an operator's command.
    ///
    /// # Panics
    /// Panics if it cannot be run.
    #[must_use]
    pub fn try_admin_command(&self, arguments: &[&str]) -> Output {
        let mut command = self.build_command();
        command.args(arguments).arg("--data").arg(self.data_folder()).arg("--json").stdin(Stdio::null());
        command.output().expect("the binary can be run")
    }

    /// Runs an operator's command with the given standard input.
    ///
    /// # Panics
    /// Panics if it cannot be run.
    #[must_use]
    pub fn try_admin_command_with_stdin(&self, arguments: &[&str], typed: &[u8]) -> Output {
        let mut command = self.build_command();
        command.args(arguments).arg("--data").arg(self.data_folder()).arg("--json");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be run");
        // A command that fails need not read all input.
        let _ = child.stdin.take().expect("a pipe").write_all(typed);
        child.wait_with_output().expect("it ends")
    }

    /// Returns the binary with the environment of this service and nothing else.
    #[must_use]
    pub fn build_command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_clear();
        command.envs(inherited_variables());
        command.envs(self.options.environment.iter().cloned());
        command
    }

    /// Returns the log since the folder was created.
    #[must_use]
    pub fn log_text(&self) -> String {
        fs::read(self.log_path()).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.home.path().join("log")
    }

    fn start_until_healthy(&mut self) {
        let mut child = self.spawn_process();
        assert!(self.becomes_healthy(&mut child), "the service ended at once:\n{}", self.log_text());
        self.child = Some(child);
    }

    fn spawn_process(&self) -> Child {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log");
        let mut command = self.build_command();
        command.args(["serve", "--listen", &self.address, "--data"]).arg(self.data_folder());
        command.args(&self.options.arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        command.spawn().expect("the binary can be run")
    }

    fn becomes_healthy(&self, child: &mut Child) -> bool {
        poll::wait_until("the service is healthy", || {
            if child.try_wait().expect("it can be looked at").is_some() {
                return Some(false);
            }
            let ready = HttpRequest::new("GET", "/readyz?verbose").try_send(&self.address).ok()?;
            let state: Value = serde_json::from_slice(&ready.body).ok()?;
            let driver =
                state["checks"].as_array()?.iter().find(|check| check["name"] == "machine_driver")?;
            // It listens before it has chosen the machine driver.
            (driver["status"] != "fail").then_some(true)
        })
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Machines outlive their service; machines of a test must not.
        processes::kill_processes_in_folder(self.home.path());
        if std::thread::panicking() {
            let log = self.log_text();
            let lines: Vec<&str> = log.lines().collect();
            let shown = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n");
            let _ = writeln!(std::io::stderr(), "--- the service's log ---\n{shown}\n---");
        }
    }
}

/// Returns the variables that each service gets: the paths of programs, and the driver and kernels of machines.
pub(crate) fn inherited_variables() -> impl Iterator<Item = (&'static str, OsString)> {
    INHERITED.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// Returns `CAUSERIE_BIN`, or the binary beside the tests, which are in `target/<profile>/deps`.
#[must_use]
pub fn service_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("CAUSERIE_BIN") {
        return path.into();
    }
    program_beside_tests("causerie")
}

/// Returns the path of a program of the workspace, beside the tests.
///
/// # Panics
/// Panics if it is not built.
#[must_use]
pub fn built_program(name: &str) -> PathBuf {
    let path = program_beside_tests(name);
    assert!(path.is_file(), "{} not found: run `make test`, which builds it", path.display());
    path
}

fn program_beside_tests(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    test.ancestors().nth(2).expect("target/<profile>").join(name)
}
