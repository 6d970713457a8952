//! Runs the built service on a temporary folder.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::port::ReservedPort;

use crate::BenchResult;
use crate::http::{BenchConnection, build_request};
use crate::process::{self, CpuPlacement};

/// The polling interval of a starting server.
const POLL: Duration = Duration::from_micros(500);
/// The timeout for anything that must happen.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// The credits of each account, more than any scenario uses.
const CREDITS: &str = "1000000000";

/// An account with a machine and a key.
#[derive(Debug, Clone)]
pub(crate) struct BenchAccount {
    pub(crate) email: String,
    pub(crate) key: String,
}

#[derive(Debug, Clone)]
pub(crate) struct AskedQuestion {
    pub(crate) chat: String,
    pub(crate) message: String,
}

impl AskedQuestion {
    /// Returns the answer's path.
    pub(crate) fn answer_path(&self) -> String {
        format!("/api/v1/chats/{}/messages/{}", self.chat, self.message)
    }
}

/// A running service. Dropping it kills it and its machines.
#[derive(Debug)]
pub(crate) struct BenchService {
    home: TempDir,
    place: CpuPlacement,
    vendor: Option<String>,
    pub(crate) address: SocketAddr,
    /// Holds the address while the service is restarted.
    _port: ReservedPort,
    child: Option<Child>,
    accounts: u32,
    /// The machine driver; the service's choice unless given.
    driver: Option<&'static str>,
}

impl BenchService {
    /// Starts the service on an empty folder, with the vendor at this base URL, and waits until it is healthy.
    pub(crate) fn start_on(place: CpuPlacement, vendor: Option<String>) -> BenchResult<Self> {
        Self::start_with(place, vendor, None)
    }

    /// Like [`Self::start_on`], with this machine driver.
    pub(crate) fn start_with(
        place: CpuPlacement,
        vendor: Option<String>,
        driver: Option<&'static str>,
    ) -> BenchResult<Self> {
        let home = tempfile::Builder::new().prefix("bench-").tempdir()?;
        // Machines run as other users, which need access to their files.
        fs::set_permissions(home.path(), PermissionsExt::from_mode(0o711))?;
        let port = ReservedPort::reserve();
        let address = port.address();
        let mut service =
            Self { home, place, vendor, address, _port: port, child: None, accounts: 0, driver };
        service.restart()?;
        Ok(service)
    }

    /// Restarts the service on its folder and waits until it is healthy. Returns the duration.
    pub(crate) fn restart(&mut self) -> BenchResult<Duration> {
        let began = Instant::now();
        let mut command = self.build_command()?;
        command.args(["serve", "--listen", &self.address.to_string(), "--data"]).arg(self.data_folder());
        let log = File::options().create(true).append(true).open(self.home.path().join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = self.child.insert(command.spawn()?);
        let taken = wait_until_responding(self.address, "/healthz", began, child);
        taken.map_err(|error| format!("{error}; its log:\n{}", self.log_tail()).into())
    }

    /// Kills the service, as a power failure would.
    pub(crate) fn kill(&mut self) -> BenchResult<()> {
        let mut child = self.child.take().ok_or("the service is not running")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Terminates the service gracefully.
    pub(crate) fn terminate(&mut self) -> BenchResult<()> {
        let mut child = self.child.take().ok_or("the service is not running")?;
        process::terminate_process(child.id());
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the service ended with {status}").into()) }
    }

    pub(crate) fn pid(&self) -> BenchResult<u32> {
        Ok(self.child.as_ref().ok_or("the service is not running")?.id())
    }

    /// Creates an account with a machine and a key.
    pub(crate) fn create_account(&mut self) -> BenchResult<BenchAccount> {
        self.accounts += 1;
        let email = format!("account-{}@example.test", self.accounts);
        let until = ["--licence-until", "2099-12-31", "--credits", CREDITS];
        self.run_admin_command(&[&["account", "create", "--email", &email][..], &until].concat())?;
        let made = self.run_admin_command(&["key", "create", "--account", &email, "--name", "bench"])?;
        Ok(BenchAccount { email, key: made["key"].as_str().ok_or("no key was made")?.to_owned() })
    }

    /// Runs an operator's command and returns its output.
    pub(crate) fn run_admin_command(&self, arguments: &[&str]) -> BenchResult<Value> {
        let output = self
            .build_command()?
            .args(arguments)
            .arg("--data")
            .arg(self.data_folder())
            .arg("--json")
            .output()?;
        if !output.status.success() {
            return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Runs an operator's command that reads this line.
    pub(crate) fn admin_typing(&self, arguments: &[&str], line: &str) -> BenchResult<()> {
        let mut command = self.build_command()?;
        command
            .args(arguments)
            .arg("--data")
            .arg(self.data_folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn()?;
        let mut input = child.stdin.take().ok_or("the command has no input")?;
        writeln!(input, "{line}")?;
        drop(input);
        if child.wait()?.success() { Ok(()) } else { Err(format!("{arguments:?} failed").into()) }
    }

    /// Returns the processes of all its machines.
    pub(crate) fn machine_pids(&self) -> BenchResult<Vec<u32>> {
        let listed = self.run_admin_command(&["machine", "list"])?;
        let machines = listed["machines"].as_array().cloned().unwrap_or_default();
        let pids =
            machines.iter().flat_map(|machine| machine["pids"].as_array().cloned().unwrap_or_default());
        Ok(pids.filter_map(|pid| pid.as_u64().and_then(|pid| u32::try_from(pid).ok())).collect())
    }

    /// Returns the folder with all its files.
    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    fn data_folder(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn log_tail(&self) -> String {
        let log = fs::read(self.home.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(4000)..]).into_owned()
    }

    /// Builds a command of the binary, with only this environment.
    fn build_command(&self) -> BenchResult<std::process::Command> {
        let binary =
            std::env::var_os("CAUSERIE_BIN").map_or_else(|| "target/release/causerie".into(), PathBuf::from);
        if !binary.is_file() {
            return Err(format!("{} not found: run `make build`", binary.display()).into());
        }
        let mut command = self.place.build_command(binary.canonicalize()?);
        command.env_clear();
        for name in ["PATH", "HOME", "CAUSERIE_MACHINE_KERNEL"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Some(vendor) = &self.vendor {
            command.env("OPENAI_BASE_URL", vendor);
        }
        command.envs(self.driver.map(|driver| ("CAUSERIE_MACHINE_DRIVER", driver)));
        Ok(command)
    }
}

impl Drop for BenchService {
    fn drop(&mut self) {
        if self.child.is_some() {
            // The service ends when this process does.
            let _ = self.kill();
        }
        process::kill_processes_in_folder(self.home.path());
    }
}

/// Asks a question in a new conversation.
pub(crate) async fn ask_question(
    connection: &mut BenchConnection,
    account: &BenchAccount,
    model: &str,
    input: &str,
) -> BenchResult<AskedQuestion> {
    let body = json!({"input": input, "model": model});
    let asked = connection
        .call_json(&build_request("POST", "/api/v1/chats", Some(&account.key), Some(&body)), 202)
        .await?;
    let text =
        |field: &str| asked[field].as_str().map(str::to_owned).ok_or("a question got an unexpected answer");
    Ok(AskedQuestion { chat: text("chatId")?, message: text("id")? })
}

/// Waits until an answer is completed and returns it.
pub(crate) async fn wait_for_completion(
    connection: &mut BenchConnection,
    account: &BenchAccount,
    asked: &AskedQuestion,
) -> BenchResult<Value> {
    let path = format!(
        "GET {} HTTP/1.1\r\nhost: bench\r\nx-api-key: {}\r\nprefer: wait=60\r\n\r\n",
        asked.answer_path(),
        account.key
    );
    let answer = connection.call_json(path.as_bytes(), 200).await?;
    if answer["status"] != "completed" || !answer["error"].is_null() {
        return Err(format!("an answer did not end well: {answer}").into());
    }
    Ok(answer)
}

/// Asks a question and waits for its answer.
pub(crate) async fn ask_and_wait(
    connection: &mut BenchConnection,
    account: &BenchAccount,
    model: &str,
    input: &str,
) -> BenchResult<Value> {
    let asked = ask_question(connection, account, model, input).await?;
    wait_for_completion(connection, account, &asked).await
}

/// Builds the upload of a file to the default folder.
pub(crate) fn build_upload_request(name: &str, content: &[u8], account: &BenchAccount) -> Vec<u8> {
    const BOUNDARY: &str = "bench-boundary";
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         content-type: application/octet-stream\r\n\r\n"
    );
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let length = head.len() + content.len() + tail.len();
    let mut bytes = format!(
        "POST /api/v1/files HTTP/1.1\r\nhost: bench\r\nx-api-key: {}\r\ncontent-length: {length}\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n{head}",
        account.key
    )
    .into_bytes();
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(tail.as_bytes());
    bytes
}

/// Polls a starting server until it answers. Returns the duration since `began`.
pub(crate) fn wait_until_responding(
    address: SocketAddr,
    path: &str,
    began: Instant,
    child: &mut Child,
) -> BenchResult<Duration> {
    while began.elapsed() < TIMEOUT {
        if is_responding(address, path).unwrap_or(false) {
            return Ok(began.elapsed());
        }
        if let Some(status) = child.try_wait()? {
            return Err(format!("the server ended with {status}").into());
        }
        thread::sleep(POLL);
    }
    Err("the server does not answer".into())
}

fn is_responding(address: SocketAddr, path: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(&head == b"HTTP/1.1 200")
}
