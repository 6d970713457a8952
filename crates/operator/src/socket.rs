//! The admin socket in the data folder: one line of JSON per request and response. Access to the data folder is
//! required.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Admin, privileges};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use crate::admin_requests::{self, ServiceFacts};
use crate::error::CliError;
use crate::request::AdminRequest;

const NAME: &str = "admin.sock";
/// The longest request, in bytes.
const REQUEST_MAX_BYTES: u64 = 64 * 1024;
/// The longest answer, in bytes.
const ANSWER_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The timeout of a command; backups take longest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The code of failures between the command and the service.
const UNREACHABLE: &str = "SERVICE_UNREACHABLE";
/// The timeout for receiving a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SocketAnswer {
    Done(Value),
    Failed(CliError),
}

/// Connects to the service that runs on this data folder. Returns `None` if no service runs.
pub async fn connect_service(data: &Path) -> Option<UnixStream> {
    let folder = std::fs::File::open(data).ok()?;
    if !privileges::acts_as_owner() {
        return UnixStream::connect(socket_path_within(&folder)).await.ok();
    }
    // The kernel reports the connecting user to the service; it must be the one who started the command.
    let stream =
        privileges::as_caller(|| std::os::unix::net::UnixStream::connect(socket_path_within(&folder)))
            .ok()?
            .ok()?;
    stream.set_nonblocking(true).ok()?;
    UnixStream::from_std(stream).ok()
}

/// Sends a request to the service and returns its answer.
pub async fn ask_service(service: UnixStream, request: &AdminRequest) -> Result<Value, CliError> {
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, exchange_request(service, request)).await;
    answered.unwrap_or_else(|_| Err(CliError::new(UNREACHABLE, "the service did not answer")))
}

async fn exchange_request(stream: UnixStream, request: &AdminRequest) -> Result<Value, CliError> {
    let broken =
        |error: std::io::Error| CliError::new(UNREACHABLE, format!("the service's socket failed: {error}"));
    let (input, mut output) = stream.into_split();
    let mut line = serde_json::to_vec(request).map_err(|error| broken(error.into()))?;
    line.push(b'\n');
    if line.len() as u64 > REQUEST_MAX_BYTES {
        return Err(CliError::new("USAGE", "the command's arguments are too long"));
    }
    output.write_all(&line).await.map_err(broken)?;
    let mut answer = Vec::new();
    BufReader::new(input.take(ANSWER_MAX_BYTES)).read_until(b'\n', &mut answer).await.map_err(broken)?;
    let answer = serde_json::from_slice(&answer);
    match answer.map_err(|_| CliError::new(UNREACHABLE, "the service closed the connection"))? {
        SocketAnswer::Done(value) => Ok(value),
        SocketAnswer::Failed(error) => Err(error),
    }
}

/// Binds the socket. The data folder must be locked by this process.
pub fn bind_admin_socket(data: &Path) -> std::io::Result<UnixListener> {
    let folder = std::fs::File::open(data)?;
    let path = socket_path_within(&folder);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

/// Executes commands until the service ends.
pub async fn serve_admin_socket(
    listener: UnixListener,
    admin: Admin,
    facts: ServiceFacts,
    shutdown: CancellationToken,
) {
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return,
        };
        match stream {
            Ok((stream, _)) => {
                tokio::spawn(serve_admin_connection(stream, admin.clone(), facts.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "admin command rejected");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_admin_connection(stream: UnixStream, admin: Admin, facts: ServiceFacts) {
    // Anyone with access to the socket is an operator; the kernel reports which user.
    let admin = match stream.peer_cred() {
        Ok(who) => admin.with_actor(format!("operator uid {}", who.uid())),
        Err(_) => admin,
    };
    let (input, mut output) = stream.into_split();
    let mut line = Vec::new();
    let mut input = BufReader::new(input.take(REQUEST_MAX_BYTES));
    let read = tokio::time::timeout(REQUEST_TIMEOUT, input.read_until(b'\n', &mut line)).await;
    if !matches!(read, Ok(Ok(_))) {
        return;
    }
    let answered = match serde_json::from_slice(&line) {
        Ok(request) => admin_requests::execute_request(&admin, Some(&facts), request).await,
        Err(_) => Err(CliError::new(
            "USAGE",
            "the service does not know this command: use the `causerie` of its version",
        )),
    };
    let answer = answered.map_or_else(SocketAnswer::Failed, SocketAnswer::Done);
    if let Ok(mut line) = serde_json::to_vec(&answer) {
        line.push(b'\n');
        // The caller may have gone; the command was executed nevertheless.
        let _ = output.write_all(&line).await;
    }
}

/// Returns the socket's path via the open folder, because its own path may exceed the limit of socket addresses.
fn socket_path_within(folder: &std::fs::File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))
}
