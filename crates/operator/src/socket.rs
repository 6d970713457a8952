//! The admin socket in the data folder: one line of JSON per request and response. Access to the data folder is
//! required.

use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::privileges;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::error::CliError;
use crate::request::OperatorRequest;

const NAME: &str = "admin.sock";
/// The longest request, in bytes.
pub(crate) const REQUEST_MAX_BYTES: u64 = 64 * 1024;
/// The longest answer, in bytes.
const ANSWER_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The timeout of a command; backups take longest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The code of failures between the command and the service.
const UNREACHABLE: &str = "SERVICE_UNREACHABLE";

/// The answer to a request.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SocketAnswer<R> {
    Done(R),
    Failed(CliError),
}

/// Connects to the service that runs on this data folder. Returns `None` if no service runs.
pub(crate) async fn connect_service(data: &Path) -> Option<UnixStream> {
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

/// Sends a request to the service and returns its reply.
pub(crate) async fn ask_service<R: OperatorRequest>(
    service: UnixStream,
    request: &R,
) -> Result<R::Reply, CliError> {
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, exchange_request(service, request)).await;
    answered.unwrap_or_else(|_| Err(CliError::new(UNREACHABLE, "the service did not answer")))
}

async fn exchange_request<R: OperatorRequest>(stream: UnixStream, request: &R) -> Result<R::Reply, CliError> {
    let broken =
        |error: std::io::Error| CliError::new(UNREACHABLE, format!("the service's socket failed: {error}"));
    let (input, mut output) = stream.into_split();
    let mut line =
        serde_json::to_vec(&BTreeMap::from([(R::NAME, request)])).map_err(|error| broken(error.into()))?;
    line.push(b'\n');
    if line.len() as u64 > REQUEST_MAX_BYTES {
        return Err(CliError::new("USAGE", "the command's arguments are too long"));
    }
    output.write_all(&line).await.map_err(broken)?;
    let mut answer = Vec::new();
    BufReader::new(input.take(ANSWER_MAX_BYTES)).read_until(b'\n', &mut answer).await.map_err(broken)?;
    match serde_json::from_slice(&answer) {
        Ok(SocketAnswer::Done(reply)) => Ok(reply),
        Ok(SocketAnswer::Failed(error)) => Err(error),
        Err(_) if answer.ends_with(b"\n") => Err(CliError::new(
            "USAGE",
            "the service's reply has another form: use the `causerie` of its version",
        )),
        Err(_) => Err(CliError::new(UNREACHABLE, "the service closed the connection")),
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

/// Returns the socket's path via the open folder, because its own path may exceed the limit of socket addresses.
fn socket_path_within(folder: &std::fs::File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))
}
